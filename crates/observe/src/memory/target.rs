// SPDX-License-Identifier: Apache-2.0
//! One process that is read in detail. Its files are opened at the start: when it ends, they do not become those of a later process with its number.

use super::pagemap::Presence;
use super::reading::Reading;
use crate::ptrace_rights;
use host::process::Identity;
use ledger::{Mapping, ProcessSeen};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;

pub(super) struct Target {
    identity: Identity,
    maps: File,
    smaps: File,
    pagemap: File,
    /// `None`: this user may not read it.
    memory: Option<File>,
}

impl Target {
    /// `None`: the process has ended, or this user may not read it.
    pub(super) fn open(process: &ProcessSeen, reading: &mut Reading) -> Option<Self> {
        let identity = Identity { pid: process.pid, start_time: process.started_ticks };
        match Self::files(identity) {
            Ok(target) if target.is_alive() => Some(target),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                reading.missing("mappings", format!("not for this user: {error}"), Some(ptrace_rights::for_mappings()));
                None
            }
            Ok(_) | Err(_) => {
                reading.missing(format!("process {}", identity.pid), "it has ended while it was read", None);
                None
            }
        }
    }

    fn files(identity: Identity) -> io::Result<Self> {
        let open = |name| File::open(format!("/proc/{}/{name}", identity.pid));
        let (maps, smaps, pagemap) = (open("maps")?, open("smaps")?, open("pagemap")?);
        Ok(Self { identity, maps, smaps, pagemap, memory: open("mem").ok() })
    }

    pub(super) fn pid(&self) -> u32 {
        self.identity.pid
    }

    /// Whether this very process is alive, and not a later one with its number.
    pub(super) fn is_alive(&self) -> bool {
        self.identity.is_alive()
    }

    /// The mappings, without their resident sizes.
    pub(super) fn maps(&mut self, reading: &mut Reading) -> io::Result<Vec<Mapping>> {
        let mut text = Vec::new();
        let mut part = [0; 4096];
        loop {
            match reading.hold("maps", || self.maps.read(&mut part))? {
                0 => break,
                read => text.extend_from_slice(&part[..read]),
            }
        }
        Ok(ledger::mapping::mappings(&String::from_utf8_lossy(&text)))
    }

    pub(super) fn smaps(&mut self) -> &mut File {
        &mut self.smaps
    }

    pub(super) fn pagemap(&self) -> &File {
        &self.pagemap
    }

    /// Whether its memory may be read; if not, `what` is noted as missing.
    pub(super) fn has_memory(&self, what: &str, reading: &mut Reading) -> bool {
        if self.memory.is_none() {
            reading.missing(what, "its memory is not for this user to read", Some(ptrace_rights::for_attaching()));
        }
        self.memory.is_some()
    }

    /// Reads resident memory. `None`: some of it is not mapped. The kernel locks the address space for one page at a time (fs/proc/base.c, mem_rw).
    pub(super) fn memory(&self, tier: &'static str, at: u64, into: &mut [u8], reading: &mut Reading) -> Option<()> {
        let memory = self.memory.as_ref()?;
        let pages = (into.len() as u64).div_ceil(super::page_bytes()) + 1;
        reading.hold_in_parts(tier, pages, || memory.read_exact_at(into, at)).ok()
    }

    /// For each page from `start` to `end`, whether it is resident.
    pub(super) fn presence(&self, start: u64, end: u64, reading: &mut Reading) -> Option<Presence> {
        Presence::read(&self.pagemap, start, end, reading)
    }
}

#[cfg(test)]
pub(super) fn of(pid: u32, reading: &mut Reading) -> Target {
    let it = Identity::of(pid).unwrap();
    let process = ProcessSeen { pid, started_ticks: it.start_time, ..ProcessSeen::default() };
    Target::open(&process, reading).unwrap()
}

#[cfg(test)]
pub(super) fn own(reading: &mut Reading) -> Target {
    of(std::process::id(), reading)
}

#[cfg(test)]
mod tests {
    use super::super::Options;
    use super::*;

    #[test]
    fn its_memory_is_read_and_that_of_a_later_process_is_not() {
        let mut reading = Reading::begin(Options::default());
        let target = own(&mut reading);
        let (word, mut read) = (4711_u64, [0; 8]);
        assert!(target.has_memory("heap", &mut reading));
        target.memory("heap", &raw const word as u64, &mut read, &mut reading).unwrap();
        assert_eq!(u64::from_ne_bytes(read), 4711);
        assert!(target.memory("heap", 8, &mut read, &mut reading).is_none(), "nothing is mapped there");
        let reused = ProcessSeen { pid: std::process::id(), started_ticks: 1, ..ProcessSeen::default() };
        assert!(Target::open(&reused, &mut reading).is_none());
        assert!(reading.end().2[0].why.contains("has ended"));
    }
}
