// SPDX-License-Identifier: Apache-2.0
//! The content of an experiment file after reading: plain data, with every default filled in.

use crate::beside::Beside;
use crate::moments::At;
use crate::replayed::Replay;
use crate::server_start::ServerStart;
use crate::squeezed::Squeezed;
use assertion::Assertion;
use diskmodel::DiskRequest;
use evidence::{Arrivals, DiskMechanism, OomVictim, RamAmount, RamMechanism};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use units::{Bytes, CpuList, Cpus, Span, Swap};
use workload::distribution;

pub use capability::Flavour;

/// One experiment: a server, its data, and the arms that run on them in turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Experiment {
    pub name: String,
    pub description: String,
    pub question: Question,
    /// The number of the article, 1 to 5, whose figures are measured again; the finding `article.figures` then has both the old and the new figures.
    pub article: Option<u32>,
    /// How often the whole list of arms is run, at least 1: arm 1, 2, 3, then 1, 2, 3 again.
    pub repeat: u32,
    pub server: Server,
    pub fill: Fill,
    pub observe: Observe,
    /// In the order in which they run; never empty. A file without arms gets one arm, named `baseline`.
    pub arms: Vec<Arm>,
    /// Squeezes that must not be left out in any arm that asks for them, in addition to [`Squeeze::required`].
    #[serde(skip)]
    pub(crate) required: BTreeSet<Squeezed>,
    /// Line and column of each key in the file, for messages about problems that are found later, on the host.
    #[serde(skip)]
    pub(crate) places: BTreeMap<String, (usize, usize)>,
}

/// The question that the verdict answers first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// How the arms compare, and what limits each.
    #[default]
    Arms,
    /// How many reads a query needs, from the humps of the histogram.
    Reads,
}

impl Question {
    pub const ALL: [Question; 2] = [Question::Arms, Question::Reads];

    /// As written in the file.
    pub fn name(self) -> &'static str {
        match self {
            Question::Arms => "arms",
            Question::Reads => "reads",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Server {
    pub flavour: Flavour,
    /// As written in the file: `10.11`, `16`. `None`: the installed version, or the one that the distribution offers.
    pub version: Option<String>,
    /// Server variables that all arms share. An arm's own variables replace them; [`Arm::server_options`] has the result.
    pub options: BTreeMap<String, String>,
}

/// The tables on which all arms run: `sbtest1..N`, as sysbench makes them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fill {
    /// The user's own data, with which the server begins, as `wringer sandbox deploy --from` takes them. They are read, never changed. A relative
    /// path begins in the experiment file's folder.
    pub from: Option<String>,
    /// A copy of the folder that `from` names is kept, and cloned for the next run and each cell. What a dump makes is kept in any case.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keep: bool,
    /// The database in which the loads work. `None`: `sbtest`; when nothing is filled, the only database of the data.
    pub database: Option<String>,
    pub tables: u32,
    /// `None`: nothing is filled, and the only data are those of `from`.
    pub size: Option<FillSize>,
    pub rows: RowShape,
    /// The distribution of the values of `k`.
    pub k_distribution: distribution::Options,
    /// The number of secondary indexes: the first is sysbench's index on `k`, the others are on `pad` and `c`.
    pub secondary_indexes: u32,
    /// The scale of pgbench's four tables, which are made beside the other tables. `None`: they are not made.
    pub pgbench: Option<u32>,
    /// A program, with its arguments, that fills the server after all of the above. Empty: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

/// The amount of filled data. A size is over all tables together; a number of rows is per table, as in sysbench.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FillSize {
    /// Rows in each table.
    Rows(u64),
    /// All tables together.
    Size(Bytes),
    /// All tables together, in multiples of the server's own page cache (buffer pool, shared buffers).
    TimesPool(f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowShape {
    /// Rows as sysbench makes them: about 190 bytes.
    Sysbench,
    /// Rows so wide that this many fit in a page of the server.
    PerPage(u32),
    /// The bytes of each row.
    Width(Bytes),
}

/// One named variation, fully resolved: the file's sections, with the arm's own keys in place of theirs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Arm {
    pub name: String,
    /// The arm's own keys, flat and as written: `squeeze.disk.read` -> `10ms`.
    pub overrides: BTreeMap<String, String>,
    /// Server variables that are in force.
    pub server_options: BTreeMap<String, String>,
    /// Variables that are set before the load, while the server runs; they stay for the arms after it.
    pub live: BTreeMap<String, String>,
    /// Everything else with which the server is started.
    pub start: ServerStart,
    pub squeeze: Squeeze,
    pub load: Load,
    /// What the result of the load must be.
    pub assertions: Vec<Asserted>,
    /// True when the server must be started anew before this arm, because variables, other settings of its start, or a cgroup limit differ from the
    /// arm before it (for the first arm of a repetition: from the last arm). The very first arm starts the server in any case.
    pub restart: bool,
}

/// A condition on an arm's result.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Asserted {
    pub assertion: Assertion,
    /// Line and column of the assertion in the file.
    #[serde(skip)]
    pub place: (usize, usize),
}

#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Squeeze {
    /// The RAM of the whole host; needs root.
    pub ram: Option<RamSqueeze>,
    /// The RAM of the server alone, by a memory cgroup.
    pub server_ram: Option<Bytes>,
    /// How much of the server may be swapped out. `None`: with `server_ram`, nothing if the kernel counts swap separately, otherwise as much as the
    /// host has.
    pub swap: Option<Swap>,
    /// The server gets the time of this many CPUs, by the quota of a cgroup.
    pub cpus: Option<Cpus>,
    /// The CPUs that the server may run on.
    pub cpuset: Option<CpuList>,
    /// `None`: no arm has a disk squeeze, and no slow layer is put under the server.
    pub disk: Option<DiskRequest>,
    /// The same in all arms. `None`: an available mechanism, FUSE first.
    pub disk_mechanism: Option<DiskMechanism>,
    /// True: the run does not start when it lacks the rights for one of these squeezes. False: such a squeeze is left out.
    pub required: bool,
    /// How the arm goes on when a squeeze took effect outside of its tolerance.
    pub on_miss: OnMiss,
}

/// How an arm goes on when its squeeze took effect, but not as asked. When less than half of the asked value took effect, the arm
/// ends in either case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnMiss {
    /// The arm is measured. The measured value of the squeeze is shown beside the asked one, and is used in computations.
    #[default]
    Note,
    /// The arm is not measured.
    End,
}

/// How much of the host's RAM is hidden, and which process is killed when the remaining RAM is not enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RamSqueeze {
    #[serde(flatten)]
    pub amount: RamAmount,
    pub oom_victim: OomVictim,
    /// The same in every arm that hides RAM. `None`: a mechanism that this machine allows.
    pub mechanism: Option<RamMechanism>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Load {
    /// `oltp_point_select` and other names of sysbench; or a file, relative to the folder of the experiment's file: [`Load::is_file`].
    pub workload: String,
    /// The number of connections; the name is sysbench's.
    pub threads: u32,
    pub arrivals: Arrivals,
    /// The measured phase ends after this time, or after [`Self::events`] transactions, whichever is first. At least one of them is set, except for a
    /// replay.
    pub time: Option<Span>,
    pub events: Option<u64>,
    /// The length of the warm-up before the measured phase, with the arm's own squeeze and rate. Zero: none.
    pub warmup: Span,
    /// A load after each start of the server, before any squeeze is on, that fills the server's page cache: the same workload, closed loop, at full
    /// speed.
    pub preheat: Option<Preheat>,
    pub distribution: distribution::Options,
    /// Whether the file sets the distribution; otherwise it is the default.
    #[serde(skip)]
    pub distribution_written: bool,
    pub seed: u64,
    pub prepared: bool,
    /// The CPUs on which the load itself may run.
    pub cpuset: Option<CpuList>,
    pub options: workload::Options,
    /// The program that is the load in place of Wringer's own. Then only `workload` (the program's name), `threads`, `time`, `warmup` and `cpuset`
    /// have a meaning; a command is ended after `time`.
    pub driver: Option<Driver>,
    /// The log that is the load in place of Wringer's own. Then, of the keys above, only `workload` (the log's name) and `cpuset` have a meaning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
    /// Clients with accounts of their own, which open connections while the load runs.
    pub beside: Vec<Beside>,
    /// Loads over connections of their own that run from the beginning of this load's warm-up to its end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub loads_beside: Vec<LoadBeside>,
    /// Statements that the run sends before the load, after the accounts of [`Self::beside`] have been created.
    pub before: Vec<String>,
    /// The length of a pause without any work, when all is ready, before [`Self::before`] and the load. Zero: no pause.
    pub pause: Span,
    /// The number of random reads of the largest data file before the load. Each read is done cold and warm, both past the page cache and through it;
    /// the file is scanned, too. `None`: nothing is read.
    pub probe: Option<u64>,
    /// How long the server is observed after the load, when the load has no work. Zero: not at all.
    pub idle: Span,
    /// Whether the load's connections stay open, without work, until the load of a later arm that has this, too, or until the server stops.
    pub stay: bool,
    /// Statements that are sent beside the load, at given times of the measured phase.
    pub at: Vec<At>,
    /// Statements of the measured phase that last this long or longer are kept one by one; `None`: no statement is kept.
    pub slow_statements: Option<Span>,
}

/// A load beside an arm's own load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadBeside {
    /// A word of the names of its figures.
    pub name: String,
    /// Its statements, connections and arrivals; it lasts as long as the arm's own load.
    pub load: Load,
}

/// A load program other than Wringer, and its arguments, without those that say how to connect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Driver {
    pub program: DriverProgram,
    /// For sysbench, the script and options; for a command, its program first.
    pub arguments: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DriverProgram {
    Sysbench,
    Pgbench,
    /// Any program that the file names.
    Command,
}

impl DriverProgram {
    /// As written in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sysbench => "sysbench",
            Self::Pgbench => "pgbench",
            Self::Command => "command",
        }
    }
}

impl Load {
    /// Whether Wringer makes the statements of this load: it is a workload by name or from a file, and no other program or log.
    pub fn is_of_ours(&self) -> bool {
        self.driver.is_none() && self.replay.is_none()
    }

    /// Whether the load is one of pgbench's scripts, sent by Wringer to pgbench's tables.
    pub fn is_pgbench(&self) -> bool {
        self.is_of_ours() && self.workload.starts_with("pgbench_") && !Self::is_file(&self.workload)
    }

    /// Whether this is the name of a workload's file: it ends in `.toml`.
    pub fn is_file(workload: &str) -> bool {
        std::path::Path::new(workload).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Preheat {
    Time(Span),
    Transactions(u64),
    /// The number of rows in all tables, times this factor, as a number of transactions.
    TimesRows(f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Observe {
    pub interval: Span,
    /// Whether to read the server's own counters.
    pub server: bool,
    /// Whether to read the server process in `/proc`.
    pub process: bool,
    /// The time from one inventory of the server's memory to the next; `None`: no inventory is taken.
    pub memory: Option<Span>,
    /// Whether and how the server's threads are watched for stalls while a load runs.
    pub stalls: Option<WatchStalls>,
}

/// How the server's threads are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct WatchStalls {
    /// The time from one look at the threads to the next. `None`: 10 to 20 ms, so that the watch costs little.
    pub interval: Option<Span>,
    /// The shortest stall that is reported. `None`: the shortest that is seen in this way.
    pub least: Option<Span>,
    /// Whether threads are looked at more often, and the server is asked for more.
    pub deep: bool,
    /// Whether the function in which InnoDB's queries wait for a free page is probed, too.
    pub probes: bool,
}

impl WatchStalls {
    /// In words: `the server's threads, every 4 to 5 ms`.
    pub(crate) fn words(self) -> String {
        let every = match (self.interval, self.deep) {
            (Some(interval), _) => format!(" every {interval}"),
            (None, true) => " every 4 to 5 ms".to_owned(),
            (None, false) => String::new(),
        };
        let probes = if self.probes { ", with probes where they are allowed," } else { "" };
        format!("watch the server's threads{every}{probes} for stalls")
    }
}

impl Experiment {
    /// Whether a slow layer is under the server. Then every arm has it, with delay 0 in arms that ask for none.
    pub fn slow_layer(&self) -> bool {
        self.arms.iter().any(|arm| arm.squeeze.disk.is_some())
    }

    /// Whether the server is in a cgroup of CPU time: when one arm has a quota, it is in every arm. The kernel divides CPUs between cgroups first, so
    /// that a server in a cgroup competes with its load in another way than a server in none.
    pub fn cpu_group(&self) -> bool {
        self.arms.iter().any(|arm| arm.squeeze.cpus.is_some())
    }

    /// The mechanism for a slow disk that the file asks for; the same in all arms.
    pub fn disk_mechanism(&self) -> Option<DiskMechanism> {
        self.arms.iter().find_map(|arm| arm.squeeze.disk_mechanism)
    }

    /// The size of the server's own page cache in this arm, if the file sets it, otherwise the server's default.
    pub fn pool(&self, arm: &Arm) -> Bytes {
        pool_of(self.server.flavour, &arm.server_options)
    }
}

pub(crate) fn pool_of(flavour: Flavour, options: &BTreeMap<String, String>) -> Bytes {
    let written = options.get(flavour.pool_variable());
    written.and_then(|text| pool_bytes(flavour, text)).unwrap_or(Bytes(flavour.pool_default_bytes()))
}

/// The bytes of a pool size. PostgreSQL counts a bare number in its blocks of 8 KiB; the others count bytes.
fn pool_bytes(flavour: Flavour, text: &str) -> Option<Bytes> {
    let bare = text.bytes().all(|b| b.is_ascii_digit());
    let size: Bytes = text.parse().ok()?;
    let factor = if bare && flavour == Flavour::Postgresql { 8192 } else { 1 };
    size.0.checked_mul(factor).map(Bytes)
}
