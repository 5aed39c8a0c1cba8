// SPDX-License-Identifier: Apache-2.0
//! `--ram --swap --cpus --cpuset`: limits for one command or one server.

use squeeze::limits::LimitRequest;
use units::{Bytes, CpuList, Cpus, Swap};

#[derive(Debug, Clone, clap::Args)]
pub struct Limits {
    /// The most memory that it may use, its page cache included: 512M, 4G, ... in powers of 1024. A server needs room for its buffer pool in it
    #[arg(long, value_name = "SIZE")]
    ram: Option<Bytes>,
    /// The most swap that it may use; off: none [default: as the host has]
    #[arg(long, value_name = "off|SIZE")]
    swap: Option<Swap>,
    /// The CPU time that it may use, in CPUs: 2, or 0.5 for half of the time of one
    #[arg(long, value_name = "N")]
    cpus: Option<Cpus>,
    /// The CPUs that it may run on: 0-1, or 0,2
    #[arg(long, value_name = "LIST")]
    cpuset: Option<CpuList>,
}

impl Limits {
    pub fn asked(&self) -> LimitRequest {
        let Self { ram, swap, cpus, cpuset } = self.clone();
        LimitRequest { ram, swap, cpus, cpuset, cpu_group: false }
    }
}
