// SPDX-License-Identifier: Apache-2.0
use evidence::OomVictim;
use host::change::CgroupVersion;
use host::process::{Identity, Namespaces};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

use crate::RunId;

/// The number of a step within its run, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StepId(pub u32);

impl fmt::Display for StepId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "step {}", self.0)
    }
}

/// The kind of a run's controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A command for which the user waits; the run ends with the command.
    Run,
    /// A supervisor, for a stated time.
    Standing,
}

/// One pair of apply and undo: the change, with everything that its undo needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Step {
    /// A child. Undo: stop signal, grace, SIGKILL.
    Process { role: Role, program: String, stop_signal: i32, grace_ms: u64 },
    /// A kernel value or cgroup file that existed before. Undo: write `before`, if the value is still the one that we set.
    Value { path: PathBuf, before: String, after: String },
    /// A cgroup that we make. Undo: kill the processes in it that belong to the run by `members`, move others to `home`, remove it.
    Cgroup {
        path: PathBuf,
        version: CgroupVersion,
        /// The cgroup of the same hierarchy in which the controller was. `None`: it cannot be seen from here, or the journal is of an earlier
        /// release.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        home: Option<PathBuf>,
        #[serde(default, skip_serializing_if = "Members::is_marked")]
        members: Members,
    },
    /// A mount in the host's own mount namespace. Undo: unmount it, never lazily.
    Mount { target: PathBuf, source: String, fstype: String },
    /// The pool of huge pages. Undo: set it to `before`, if its size is ours; pages in use are then surplus until their users free them.
    HugePool {
        before: u64,
        after: u64,
        /// The pages that each NUMA node had at `before`, in the order of the nodes' numbers. Empty: one node, or the journal is of an earlier
        /// release.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        nodes: Vec<u64>,
    },
    /// Memory blocks that may be taken offline: a list of block numbers for each zone. `observed` of `done` lists the blocks that went offline. Undo:
    /// bring these blocks online in their zone; then restore the values that the kernel has computed anew.
    MemoryBlocks {
        kernel: String,
        movable: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        values: Vec<Computed>,
    },
    /// A device-mapper device over the block device `device`, named below `/dev/mapper`. Undo: remove the device with this `uuid` once nobody
    /// uses it.
    Mapping { name: String, uuid: String, device: PathBuf },
    /// A loop device over the file `name` of a slow disk, which serves `image`. Undo: detach the loop device whose file has that name, once nobody
    /// uses it. `observed` of `done` is the path of the loop device.
    ///
    /// `read_ahead`: the read-ahead of the loop device while it was free. The kernel computes it anew when a file is attached, and does not restore
    /// it. Undo: restore it once nothing is attached to that device.
    LoopDevice {
        name: String,
        image: PathBuf,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        read_ahead: Option<Computed>,
    },
    /// A note. It cannot be undone, and needs no undo.
    Note { text: String },
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { role, program, .. } => write!(formatter, "{role} {program}"),
            Self::Value { path, before, after } => write!(formatter, "{}: {before} -> {after}", path.display()),
            Self::Cgroup { path, .. } => write!(formatter, "cgroup {}", path.display()),
            Self::Mount { target, fstype, .. } => write!(formatter, "mount {fstype} on {}", target.display()),
            Self::HugePool { before, after, .. } => write!(formatter, "huge pages of the pool: {before} -> {after}"),
            Self::MemoryBlocks { kernel, movable, .. } => {
                let comma = if kernel.is_empty() || movable.is_empty() { "" } else { "," };
                write!(formatter, "memory blocks offline, of {kernel}{comma}{movable}")
            }
            Self::Mapping { name, device, .. } => write!(formatter, "mapping {name} over {}", device.display()),
            Self::LoopDevice { image, .. } => write!(formatter, "loop device over {}", image.display()),
            Self::Note { text } => formatter.write_str(text),
        }
    }
}

/// Which processes in a cgroup of a run belong to the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Members {
    /// The processes that carry the run's mark.
    #[default]
    Marked,
    /// All processes, except those that are older than the run or belong to another run: for a command and the processes that it started, which may
    /// have closed the mark.
    Command,
    /// No process: the processes in the cgroup live on.
    Leave,
}

impl Members {
    fn is_marked(&self) -> bool {
        *self == Self::Marked
    }
}

/// A value that the kernel changes because of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Computed {
    pub path: PathBuf,
    pub before: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Releases the run when the run's controller dies.
    Watchdog,
    /// Controls a standing run.
    Supervisor,
    /// Hides RAM by holding it; SIGKILL gives the RAM back.
    Holder,
    /// Delays I/O; SIGUSR1 sets its delays to zero.
    SlowLayer,
    Launcher,
    /// A database server, or the user's own command.
    Server,
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Watchdog => "watchdog",
            Self::Supervisor => "supervisor",
            Self::Holder => "holder",
            Self::SlowLayer => "slow layer",
            Self::Launcher => "launcher",
            Self::Server => "server",
        })
    }
}

/// The process that began a run, and the conditions at that time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    pub run: RunId,
    /// Version of the program that wrote this record; it is for people, and decides nothing.
    pub build: String,
    pub uid: u32,
    pub controller: Identity,
    /// The namespaces of the controller, since version 2: the journal's pids and mounts are valid in them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Namespaces>,
    /// The boot id, which is also in the header. Since version 2, because the header may be damaged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    pub kind: Kind,
    pub command: Vec<String>,
    /// Names of the locks that the run holds.
    pub resources: Vec<String>,
    /// Seconds since 1970.
    pub started: u64,
}

/// One record of a journal; the kinds are in the order in which they are written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// The first record; there is only one.
    Begin(Begun),
    /// `step` is about to be applied.
    Intent {
        step: StepId,
        change: Step,
        #[serde(default, skip_serializing_if = "OomVictim::is_holder")]
        oom_victim: OomVictim,
    },
    /// A process of `step` exists. A launched server has two such records: the launcher's, then the server's.
    Pid { step: StepId, process: Identity },
    /// `step` was applied. `observed`: the value after the change, read back.
    Done { step: StepId, observed: Option<String> },
    /// The undo of `step` starts.
    Undo { step: StepId },
    /// The undo of `step` has ended.
    Undone { step: StepId, outcome: Outcome },
    /// The watchdog has ended the run's squeezes while its controller lived; `reason` is in words.
    Neutralised { reason: String },
    /// The run's command ends, its server goes on running, and no controller is needed.
    Left,
    /// Everything is undone; the folder will be removed next.
    End,
}

/// How the undo of a step ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    Restored,
    /// There was nothing to undo: the change never happened, or has ended by itself.
    Nothing,
    /// Somebody else changed the value meanwhile; it was left alone. `repair` is the command that would restore it.
    Conflict {
        expected: String,
        found: String,
        repair: String,
    },
}
