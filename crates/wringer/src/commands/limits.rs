// SPDX-License-Identifier: Apache-2.0
//! `--ram --swap --cpus --cpuset`: limits for one command or one server.

use squeeze::limits::Asked;
use units::{Bytes, CpuList, Cpus, Swap};

#[derive(Debug, Clone, clap::Args)]
pub struct Limits {
    /// So much memory, page cache included: 512M, 4G, ... in powers of 1024. A server's own pool must fit into it
    #[arg(long, value_name = "SIZE")]
    ram: Option<Bytes>,
    /// No swap for it, or so much at most [default: as the host has]
    #[arg(long, value_name = "off|SIZE")]
    swap: Option<Swap>,
    /// The time of so many CPUs: 2, 0.5
    #[arg(long, value_name = "N")]
    cpus: Option<Cpus>,
    /// On these CPUs alone: 0-1, 0,2
    #[arg(long, value_name = "LIST")]
    cpuset: Option<CpuList>,
}

impl Limits {
    pub fn asked(&self) -> Asked {
        let Self { ram, swap, cpus, cpuset } = self.clone();
        Asked { ram, swap, cpus, cpuset, cpu_group: false }
    }
}
