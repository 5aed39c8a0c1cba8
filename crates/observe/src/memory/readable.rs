// SPDX-License-Identifier: Apache-2.0
//! What this kernel lets this user read of memory, for `wringer doctor`. It is tried on this process alone.

use super::reading::Reading;
use super::{Options, kernel_log, pagemap};
use crate::ptrace_rights;
use std::fs::{self, File};
use std::path::Path;

/// A user other than root may at most read the processes that run as this user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readable {
    /// The kernel's sum for a process (`smaps_rollup`, Linux 4.14).
    pub sums: bool,
    /// What lets this user read the mappings of processes of other users; `None`: this user may.
    pub lacks_for_mappings: Option<&'static str>,
    /// What lets this user read the memory itself of the processes that it may read otherwise; `None`: this user may.
    pub lacks_for_memory: Option<String>,
    /// The ioctl PAGEMAP_SCAN (Linux 6.7).
    pub page_ranges: bool,
    /// In how many processes a page is mapped (`/proc/kpagecount`).
    pub page_counts: bool,
    /// The kernel's log, in which the kills of the OOM killer are.
    pub kernel_log: Result<(), String>,
}

pub fn readable() -> Readable {
    let is_root = rustix::process::geteuid().is_root();
    let may_trace = fs::read_to_string("/proc/self/status").is_ok_and(|status| may_trace(&status));
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok();
    let mut reading = Reading::begin(Options::default());
    // the address of something that is certainly resident
    let here = (&raw const reading).addr() as u64 / super::page_bytes() * super::page_bytes();
    let (page_ranges, frame) = match File::open("/proc/self/pagemap") {
        Ok(file) => pagemap::of_own_page(&file, here, &mut reading),
        Err(_) => (false, false),
    };
    Readable {
        sums: Path::new("/proc/self/smaps_rollup").exists(),
        lacks_for_mappings: (!is_root || !may_trace).then(ptrace_rights::for_mappings),
        lacks_for_memory: lacks_for_memory(may_trace, scope.as_deref()),
        page_ranges,
        page_counts: frame && reading.counts.is_readable(),
        kernel_log: kernel_log::may_read().map_err(|error| format!("/dev/kmsg: {error}")),
    }
}

/// CAP_SYS_PTRACE among the effective capabilities (capabilities(7)) of `/proc/PID/status`.
fn may_trace(status: &str) -> bool {
    const CAP_SYS_PTRACE: u32 = 19;
    let bits = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).is_some_and(|bits| bits >> CAP_SYS_PTRACE & 1 == 1)
}

/// Yama (kernel, admin-guide/LSM/Yama.rst), where this kernel has it: from 1 on only a parent may attach, from 2 on only who has the capability, and
/// with 3 nobody, until the next boot.
fn lacks_for_memory(may_trace: bool, scope: Option<&str>) -> Option<String> {
    let scope: u32 = scope.and_then(|scope| scope.trim().parse().ok()).unwrap_or(0);
    match scope {
        3.. => Some(format!("kernel.yama.ptrace_scope is {scope}, which only a reboot changes")),
        1.. if !may_trace => Some(ptrace_rights::for_attaching().to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_capability_is_a_bit_of_the_effective_set() {
        assert!(may_trace("Name:\tx\nCapPrm:\t0\nCapEff:\t0000000000080000\n"));
        assert!(may_trace("CapEff:\t000001ffffffffff\n"));
        assert!(!may_trace("CapPrm:\t000001ffffffffff\nCapEff:\t00000000a80425fb\n"), "that of a container of Docker");
        assert!(!may_trace(""));
    }

    #[test]
    fn yama_decides_who_reads_memory() {
        assert_eq!(lacks_for_memory(false, None), None, "no Yama: a user's own processes");
        assert_eq!(lacks_for_memory(false, Some("0\n")), None);
        assert!(lacks_for_memory(false, Some("1\n")).is_some());
        assert!(lacks_for_memory(false, Some("2\n")).is_some());
        assert_eq!(lacks_for_memory(true, Some("2\n")), None);
        assert!(lacks_for_memory(true, Some("3\n")).is_some_and(|why| why.contains("reboot")));
    }

    #[test]
    fn what_is_said_of_this_kernel_is_what_it_does() {
        let said = readable();
        assert_eq!(said.sums, fs::read("/proc/self/smaps_rollup").is_ok());
        assert!(!said.page_counts || File::open("/proc/self/pagemap").is_ok());
        assert_eq!(said.kernel_log.is_ok(), File::open("/dev/kmsg").is_ok());
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let numbers: Vec<u32> = release.split(['.', '-']).map_while(|part| part.parse().ok()).collect();
        assert_eq!(said.page_ranges, numbers >= vec![6, 7], "Linux {release}");
    }
}
