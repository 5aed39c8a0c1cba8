// SPDX-License-Identifier: Apache-2.0
use crate::Error;
use host::meminfo;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// The values of `/proc/meminfo` on RAM and huge pages (kernel, filesystems/proc.rst and admin-guide/mm/hugetlbpage.rst).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meminfo {
    pub total_bytes: u64,
    pub available_bytes: u64,
    pub swap_total_bytes: u64,
    pub commit_limit_bytes: u64,
    pub committed_bytes: u64,
    /// Huge pages of the default size.
    pub huge_total_pages: u64,
    pub huge_free_pages: u64,
    pub huge_reserved_pages: u64,
    /// Pages beyond the pool: in use, or reserved by a holder.
    pub huge_surplus_pages: u64,
    pub huge_page_bytes: u64,
    /// Memory of all huge pages of all sizes, used or not: counted separately from the pages above.
    pub hugetlb_bytes: u64,
}

impl Meminfo {
    pub fn now() -> Result<Self, Error> {
        let path = Path::new("/proc/meminfo");
        fs::read_to_string(path).map(|text| Self::parse(&text)).map_err(Error::file("read", path))
    }

    /// A missing line is 0: a kernel without CONFIG_HUGETLBFS has no lines for huge pages.
    pub fn parse(text: &str) -> Self {
        let number = |name| meminfo::number(text, name).unwrap_or(0);
        let bytes = |name| meminfo::bytes(text, name).unwrap_or(0);
        Self {
            total_bytes: bytes("MemTotal"),
            available_bytes: bytes("MemAvailable"),
            swap_total_bytes: bytes("SwapTotal"),
            commit_limit_bytes: bytes("CommitLimit"),
            committed_bytes: bytes("Committed_AS"),
            huge_total_pages: number("HugePages_Total"),
            huge_free_pages: number("HugePages_Free"),
            huge_reserved_pages: number("HugePages_Rsvd"),
            huge_surplus_pages: number("HugePages_Surp"),
            huge_page_bytes: bytes("Hugepagesize"),
            hugetlb_bytes: bytes("Hugetlb"),
        }
    }

    /// Free huge pages that nobody has reserved: the next `mmap(MAP_HUGETLB)` of any program takes them.
    pub fn huge_unclaimed_pages(&self) -> u64 {
        self.huge_free_pages.saturating_sub(self.huge_reserved_pages)
    }
}
