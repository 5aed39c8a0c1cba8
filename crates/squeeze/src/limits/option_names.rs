// SPDX-License-Identifier: Apache-2.0
/// The program that is limited, and the names of the options with which the user asked for the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionNames {
    /// `command`, `server`.
    pub who: &'static str,
    pub ram: &'static str,
    pub swap: &'static str,
    pub cpus: &'static str,
    pub cpuset: &'static str,
    /// Where swap has a limit of its own, a limit of RAM does not imply one of swap: without the swap option there is none.
    pub(super) ram_without_swap: bool,
}

impl OptionNames {
    pub const COMMAND: Self = Self {
        who: "command",
        ram: "--ram",
        swap: "--swap",
        cpus: "--cpus",
        cpuset: "--cpuset",
        ram_without_swap: false,
    };
    /// A server on a command line.
    pub const SERVER: Self = Self { who: "server", ..Self::COMMAND };
    /// The load in an experiment file: its threads have CPUs, and no cgroup.
    pub const LOAD: Self = Self { who: "load", cpuset: "load.cpuset", ..Self::COMMAND };
    pub const EXPERIMENT: Self = Self {
        who: "server",
        ram: "squeeze.server_ram",
        swap: "squeeze.swap",
        cpus: "squeeze.cpus",
        cpuset: "squeeze.cpuset",
        ram_without_swap: true,
    };
}
