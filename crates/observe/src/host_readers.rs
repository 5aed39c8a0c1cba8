// SPDX-License-Identifier: Apache-2.0
//! The whole host, from `/proc`.

use crate::procfile::ProcFile;
use crate::{Collector, Error, Reader, parse};
use std::path::Path;

/// One of the host's files. Each file has one reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostFile {
    Meminfo,
    Vmstat,
    PressureCpu,
    PressureMemory,
    PressureIo,
    Diskstats,
    Stat,
    Loadavg,
}

impl HostFile {
    pub const ALL: [HostFile; 8] = [
        Self::Meminfo,
        Self::Vmstat,
        Self::PressureCpu,
        Self::PressureMemory,
        Self::PressureIo,
        Self::Diskstats,
        Self::Stat,
        Self::Loadavg,
    ];

    /// The path below `/proc`.
    pub fn path(self) -> &'static str {
        match self {
            Self::Meminfo => "meminfo",
            Self::Vmstat => "vmstat",
            Self::PressureCpu => "pressure/cpu",
            Self::PressureMemory => "pressure/memory",
            Self::PressureIo => "pressure/io",
            Self::Diskstats => "diskstats",
            Self::Stat => "stat",
            Self::Loadavg => "loadavg",
        }
    }

    /// The name in [`evidence::Series::source`].
    pub fn source(self) -> &'static str {
        match self {
            Self::Meminfo => "meminfo",
            Self::Vmstat => "vmstat",
            Self::PressureCpu => "psi.cpu",
            Self::PressureMemory => "psi.memory",
            Self::PressureIo => "psi.io",
            Self::Diskstats => "diskstats",
            Self::Stat => "stat",
            Self::Loadavg => "loadavg",
        }
    }
}

/// Readers of all files that this kernel has (pressure needs CONFIG_PSI), and the missing files, in words. `root` is `/proc`.
pub fn all(root: &Path) -> (Vec<Box<dyn Reader>>, Vec<String>) {
    let mut readers: Vec<Box<dyn Reader>> = Vec::new();
    let mut missing = Vec::new();
    for file in HostFile::ALL {
        match HostReader::open(root, file) {
            Ok(reader) => readers.push(Box::new(reader)),
            Err(_) => missing.push(format!("this kernel has no /proc/{}", file.path())),
        }
    }
    (readers, missing)
}

/// Reads one of the files.
#[derive(Debug)]
pub struct HostReader {
    file: HostFile,
    text: ProcFile,
    tick_us: f64,
}

impl HostReader {
    pub fn open(root: &Path, file: HostFile) -> Result<Self, Error> {
        Ok(Self { file, text: ProcFile::open(root.join(file.path()))?, tick_us: tick_us() })
    }
}

impl Reader for HostReader {
    fn name(&self) -> String {
        self.file.source().to_owned()
    }

    fn read(&mut self, into: &mut Collector) -> Result<(), Error> {
        let (source, tick_us) = (self.file.source(), self.tick_us);
        let text = self.text.text()?;
        let mut each = |name: &str, kind, value| into.value(source, "", name, kind, value);
        match self.file {
            HostFile::Meminfo => parse::key_values(text, each),
            HostFile::Vmstat => parse::vmstat(text, each),
            HostFile::PressureCpu | HostFile::PressureMemory | HostFile::PressureIo => parse::pressure(text, each),
            HostFile::Stat => parse::stat(text, tick_us, each),
            HostFile::Loadavg => parse::loadavg(text, &mut each),
            HostFile::Diskstats => {
                parse::diskstats(text, |device, name, kind, value| into.value(source, device, name, kind, value));
            }
        }
        Ok(())
    }
}

/// Microseconds in a tick of USER_HZ (sysconf(3), _SC_CLK_TCK).
pub(crate) fn tick_us() -> f64 {
    1e6 / rustix::param::clock_ticks_per_second() as f64
}
