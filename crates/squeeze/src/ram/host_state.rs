// SPDX-License-Identifier: Apache-2.0
//! The state of this host from which a plan is made.

use crate::ram::OVERCOMMIT;
use crate::ram::room::Room;
use crate::{Error, Meminfo};
use host::change::memory;
use std::fs;

#[derive(Debug, Clone)]
pub(crate) struct HostState {
    pub(crate) before: Meminfo,
    /// `None`: there is no such sysctl, so the kernel has no huge pages.
    pub(crate) overcommit: Option<u64>,
    pub(crate) pool: u64,
    /// 0: memory cannot be taken offline here.
    pub(crate) block_bytes: u64,
    /// Blocks that are online and may be tried.
    pub(crate) blocks: u64,
    /// Whether the huge-page sysctls are writable: in a container they are not, even for root.
    pub(crate) sysctl_writable: bool,
    pub(crate) strict_commit: bool,
    pub(crate) root: bool,
    /// The room in our own cgroup.
    pub(crate) room: Room,
}

impl HostState {
    pub(crate) fn now() -> Result<Self, Error> {
        let before = Meminfo::now()?;
        let overcommit = fs::read_to_string(OVERCOMMIT).ok().and_then(|text| text.trim().parse::<u64>().ok());
        let block_bytes = memory::block_bytes().filter(|_| memory::may_change()).unwrap_or(0);
        let overcommit_mode = fs::read_to_string("/proc/sys/vm/overcommit_memory").unwrap_or_default();
        Ok(Self {
            before,
            overcommit,
            pool: host::change::pool_pages().unwrap_or(0),
            block_bytes,
            blocks: if block_bytes > 0 { memory::online_blocks().len() as u64 } else { 0 },
            sysctl_writable: rustix::fs::access(OVERCOMMIT, rustix::fs::Access::WRITE_OK).is_ok(),
            strict_commit: overcommit_mode.trim() == "2",
            root: rustix::process::geteuid().is_root(),
            room: Room::of_own_cgroup(&before),
        })
    }
}
