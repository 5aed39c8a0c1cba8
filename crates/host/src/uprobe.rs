// SPDX-License-Identifier: Apache-2.0
//! Calls of one function in running processes, as the kernel sees them: a uprobe at the function's begin and a uretprobe at its return
//! (perf_event_open(2), the PMU `uprobe` of Linux 4.17 and later).
//!
//! Nothing outlives this process: the kernel removes both probes when their descriptors are closed, also after SIGKILL. Nothing is written to
//! tracefs, and no BPF program is loaded. A probed process is stopped for some microseconds at each call of the function, and at no other time.

mod attribute;
mod call;
mod ring;

use crate::Error as Failure;
use ring::{Record, Ring};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::CString;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use units::CpuList;

const PMU: &str = "/sys/bus/event_source/devices/uprobe";
const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";
/// A record of one CPU may be read after a later record of another CPU: so records are held back for this time, in nanoseconds.
const HELD_BACK_NS: u64 = 1_000_000;

/// Why there is no probe, and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("this kernel cannot probe functions of programs: {PMU} is not there")]
    NoPmu,
    #[error("the kernel lets this user probe no function (kernel.perf_event_paranoid is {paranoid})")]
    NotPermitted { paranoid: String },
    #[error("the kernel takes no probe {offset:#x} bytes into {program}")]
    Refused { program: String, offset: u64, source: std::io::Error },
    #[error("the kernel gives no memory for the probe's records")]
    Memory { source: std::io::Error },
    #[error(transparent)]
    Machine(#[from] Failure),
}

impl Error {
    /// The remedy, if there is one.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::NoPmu => Some("Linux 4.17 or later with CONFIG_UPROBE_EVENTS; in a container: its host's /sys"),
            Self::NotPermitted { .. } => Some(
                "root, or the capability CAP_PERFMON (Linux 5.8 and later); no value of perf_event_paranoid suffices for it",
            ),
            Self::Memory { .. } => Some("a larger kernel.perf_event_mlock_kb, or a larger `ulimit -l`"),
            Self::Refused { .. } | Self::Machine(_) => None,
        }
    }
}

/// A thread came to the function's first instruction, or returned from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit {
    /// The kernel's number of the thread.
    pub thread: u32,
    /// Nanoseconds since boot, as [`crate::clock::monotonic_time`] counts.
    pub at_ns: u64,
    pub is_return: bool,
}

/// Both probes of one function, on all CPUs. When this value is dropped, the probes are removed.
#[derive(Debug)]
pub struct Uprobe {
    pid: u32,
    rings: Vec<Ring>,
    /// For each CPU, the probe at the function's begin, and the one at its return.
    _events: Vec<OwnedFd>,
    returns: HashSet<u64>,
    held_back: Vec<Hit>,
    lost: u64,
}

impl Uprobe {
    /// `program`: the path of the program's file, such as `/proc/PID/exe` for a process in another mount namespace. `offset`: the place of the
    /// function in the file, in bytes from the file's start.
    ///
    /// All processes that run this file are stopped at the function's calls; only the hits of `pid` are reported.
    ///
    /// # Errors
    /// [`Error`]: each variant has its remedy.
    pub fn open(pid: u32, program: &Path, offset: u64) -> Result<Self, Error> {
        let number = |file: &str, prefix: &str| {
            let text = std::fs::read_to_string(format!("{PMU}/{file}")).map_err(|_| Error::NoPmu)?;
            text.trim().trim_start_matches(prefix).parse::<u32>().map_err(|_| Error::NoPmu)
        };
        let (kind, return_bit) = (number("type", "")?, number("format/retprobe", "config:")?);
        let name = CString::new(program.as_os_str().as_bytes())
            .map_err(|source| Failure::path("probe a function of", program, source))?;
        let refused = |errno: Errno| match errno {
            Errno::ACCESS | Errno::PERM => Error::NotPermitted { paranoid: paranoid() },
            errno => Error::Refused { program: program.display().to_string(), offset, source: errno.into() },
        };
        let (mut rings, mut events, mut returns) = (Vec::new(), Vec::new(), HashSet::new());
        for cpu in online()? {
            let open = |is_return: bool| {
                let config = if is_return { 1_u64 << return_bit } else { 0 };
                attribute::open(kind, config, &name, offset, cpu)
            };
            let (enter, leave) = match open(false).and_then(|enter| Ok((enter, open(true)?))) {
                Ok(both) => both,
                // the CPU was switched off meanwhile
                Err(Errno::NODEV) => continue,
                Err(errno) => return Err(refused(errno)),
            };
            rings.push(Ring::map(&enter).map_err(|errno| Error::Memory { source: errno.into() })?);
            attribute::send_to(&leave, &enter).map_err(refused)?;
            returns.insert(attribute::id(&leave).map_err(refused)?);
            for event in [&enter, &leave] {
                attribute::enable(event).map_err(refused)?;
            }
            events.extend([enter, leave]);
        }
        Ok(Self { pid, rings, _events: events, returns, held_back: Vec::new(), lost: 0 })
    }

    /// The hits since the last look, in the order of time. Hits of the last millisecond are kept for the next look.
    pub fn take(&mut self) -> Vec<Hit> {
        let until_ns = now_ns().saturating_sub(HELD_BACK_NS);
        self.read();
        let (due, kept) = self.held_back.drain(..).partition(|hit| hit.at_ns <= until_ns);
        self.held_back = kept;
        sorted(due)
    }

    /// All hits, also those of the last millisecond.
    pub fn take_all(&mut self) -> Vec<Hit> {
        self.read();
        sorted(std::mem::take(&mut self.held_back))
    }

    /// The number of hits so far for which the kernel had no room.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn read(&mut self) {
        let Self { pid, rings, returns, held_back, lost, .. } = self;
        for ring in rings {
            ring.read(|record| match record {
                Record::Hit { id, process, thread, at_ns } if process == *pid => {
                    held_back.push(Hit { thread, at_ns, is_return: returns.contains(&id) });
                }
                Record::Hit { .. } => {}
                Record::Lost(count) => *lost = lost.saturating_add(count),
            });
        }
    }
}

fn sorted(mut hits: Vec<Hit>) -> Vec<Hit> {
    // for hits of one thread at the same time, the return belongs to the older call, so it comes first
    hits.sort_by_key(|hit| (hit.at_ns, !hit.is_return));
    hits
}

fn now_ns() -> u64 {
    u64::try_from(crate::clock::monotonic_time().as_nanos()).unwrap_or(u64::MAX)
}

fn paranoid() -> String {
    std::fs::read_to_string(PARANOID).map_or_else(|_| "not to be read".to_owned(), |text| text.trim().to_owned())
}

/// The CPUs that are switched on, as the kernel writes them: `0-3,8`.
fn online() -> Result<Vec<i32>, Failure> {
    const FILE: &str = "/sys/devices/system/cpu/online";
    let text = std::fs::read_to_string(FILE).map_err(|source| Failure::path("read", FILE, source))?;
    let list: CpuList = text.parse().map_err(|_| Failure::path("understand", FILE, ErrorKind::InvalidData))?;
    Ok(list.numbers().into_iter().map(u32::cast_signed).collect())
}

#[cfg(test)]
#[path = "uprobe/tests.rs"]
mod tests;
