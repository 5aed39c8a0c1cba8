// SPDX-License-Identifier: Apache-2.0
//! The words of a squeeze: the same in experiment files, on the command line, in journals and in results.

use serde::{Deserialize, Serialize};
use units::Bytes;

/// How much of the host's RAM is hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RamAmount {
    Hide(Bytes),
    /// Hide so much RAM that this amount of `MemAvailable` is left.
    Leave(Bytes),
}

/// The mechanism that hides the RAM.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RamMechanism {
    /// A process that reserves huge pages and touches none.
    #[default]
    Holder,
    /// The pool of huge pages: the RAM stays hidden when all of Wringer is killed.
    Pool,
    /// Memory blocks taken offline: `MemTotal` shrinks.
    Offline,
    /// A process that touches its own memory: for users who are not root, and for containers.
    Balloon,
}

impl RamMechanism {
    pub const ALL: [Self; 4] = [Self::Holder, Self::Pool, Self::Offline, Self::Balloon];

    /// The name that users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Holder => "holder",
            Self::Pool => "pool",
            Self::Offline => "offline",
            Self::Balloon => "balloon",
        }
    }

    /// The name in recordings.
    pub fn in_results(self) -> &'static str {
        match self {
            Self::Holder => "huge-page holder",
            Self::Pool => "huge-page pool",
            Self::Offline => "memory blocks offline",
            Self::Balloon => "balloon process",
        }
    }
}

/// Which process the kernel is to kill when memory runs out while RAM is hidden.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OomVictim {
    /// The process that hides the RAM: the RAM is back before the kernel kills another process, and no server dies.
    #[default]
    Holder,
    /// The process that the kernel chooses, which is the largest process, mostly the server: the experiment studies its kill.
    Server,
}

impl OomVictim {
    pub const ALL: [Self; 2] = [Self::Holder, Self::Server];

    /// The name that users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Holder => "holder",
            Self::Server => "server",
        }
    }

    pub fn is_holder(&self) -> bool {
        *self == Self::Holder
    }
}

/// How a disk is made slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskMechanism {
    /// A FUSE file system over a directory.
    Fuse,
    /// A library in the programs that use a directory.
    Preload,
    /// The kernel's delay target over a block device.
    DeviceMapper,
    /// A loop device over a FUSE file.
    Loop,
}

impl DiskMechanism {
    /// The mechanisms under which a program can be started. The other ones stand between a file system and its device.
    pub const OF_PROGRAMS: [Self; 2] = [Self::Fuse, Self::Preload];

    /// The name that users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fuse => "fuse",
            Self::Preload => "preload",
            Self::DeviceMapper => "device-mapper",
            Self::Loop => "loop",
        }
    }

    /// The name in recordings.
    pub fn in_results(self) -> &'static str {
        match self {
            Self::Fuse => "fuse layer",
            Self::Preload => "preload layer",
            Self::DeviceMapper => "dm-delay",
            Self::Loop => "loop device over FUSE",
        }
    }
}
