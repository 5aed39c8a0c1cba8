// SPDX-License-Identifier: Apache-2.0
//! What an experiment file says, once read: plain data, every default filled in.

use crate::beside::Beside;
use crate::moments::At;
use crate::replayed::Replay;
use crate::server_start::ServerStart;
use crate::squeezed::Squeezed;
use assertion::Assertion;
use capability::Protocol;
use diskmodel::Asked;
use evidence::{Arrivals, DiskMechanism, OomVictim, RamAmount, RamMechanism};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;
use units::{Bytes, CpuList, Cpus, Span, Swap};
use workload::distribution;

/// One experiment: a server, its data, and the arms that run on them in turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Experiment {
    pub name: String,
    pub description: String,
    pub question: Question,
    /// The article whose figures it measures again, 1 to 5; the finding `article.figures` then has both.
    pub article: Option<u32>,
    /// How often the whole list of arms is run, at least 1: arm 1, 2, 3, then 1, 2, 3 again.
    pub repeat: u32,
    pub server: Server,
    pub fill: Fill,
    pub observe: Observe,
    /// In the order they run; never empty. A file without arms has one, named `baseline`.
    pub arms: Vec<Arm>,
    /// Squeezes that must not be left out in any arm that asks for them, besides [`Squeeze::required`].
    #[serde(skip)]
    pub(crate) required: BTreeSet<Squeezed>,
    /// Line and column of each key that was written, for messages that are found later, on the host.
    #[serde(skip)]
    pub(crate) places: BTreeMap<String, (usize, usize)>,
}

/// What the verdict answers first.
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
    /// As written: `10.11`, `16`. `None` takes what is installed, or what the distribution offers.
    pub version: Option<String>,
    /// Server variables that all arms share, before an arm's own are laid over them. [`Arm::server_options`] is what is in force.
    pub options: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Flavour {
    Mariadb,
    Mysql,
    /// Percona Server for MySQL: what is true of that is true of it.
    Percona,
    Postgresql,
}

impl Flavour {
    pub const ALL: [Flavour; 4] = [Flavour::Mariadb, Flavour::Mysql, Flavour::Percona, Flavour::Postgresql];

    /// As written in the file.
    pub fn name(self) -> &'static str {
        match self {
            Flavour::Mariadb => "mariadb",
            Flavour::Mysql => "mysql",
            Flavour::Percona => "percona",
            Flavour::Postgresql => "postgresql",
        }
    }

    pub fn protocol(self) -> Protocol {
        match self {
            Flavour::Mariadb | Flavour::Mysql | Flavour::Percona => Protocol::Mysql,
            Flavour::Postgresql => Protocol::Postgresql,
        }
    }

    /// The server variable that sizes its own page cache.
    pub fn pool_variable(self) -> &'static str {
        match self {
            Flavour::Mariadb | Flavour::Mysql | Flavour::Percona => "innodb_buffer_pool_size",
            Flavour::Postgresql => "shared_buffers",
        }
    }

    /// What [`Self::pool_variable`] is when nobody sets it: 128 MiB in MariaDB 10.x, MySQL 8 and PostgreSQL alike.
    pub fn pool_default(self) -> Bytes {
        Bytes::mib(128)
    }
}

impl fmt::Display for Flavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The tables all arms run on: `sbtest1..N`, as sysbench makes them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fill {
    /// Data of the user's own that the server begins with, as `wringer sandbox deploy --from` takes them; read, never changed. A path that
    /// is not absolute begins in the experiment file's folder.
    pub from: Option<String>,
    /// Where the loads go. `None`: into `sbtest`, or, where nothing is filled, into the only database that the data have.
    pub database: Option<String>,
    pub tables: u32,
    /// `None`: nothing is filled, the data of `from` are what there is.
    pub size: Option<FillSize>,
    pub rows: RowShape,
    /// How often each value of `k` comes.
    pub k_distribution: distribution::Options,
    /// Secondary indexes: the first is sysbench's on `k`, the others on `pad` and `c`.
    pub secondary_indexes: u32,
    /// pgbench's four tables beside them, at this scale.
    pub pgbench: Option<u32>,
    /// A program that fills the server, after all of the above: itself and its arguments. Empty: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

/// How much, over all tables together unless it is a number of rows, which is per table as in sysbench.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FillSize {
    /// Rows a table.
    Rows(u64),
    /// All tables together.
    Size(Bytes),
    /// All tables together, in multiples of the server's own page cache (buffer pool, shared buffers).
    TimesPool(f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowShape {
    /// As sysbench makes them: about 190 bytes.
    Sysbench,
    /// So wide that this many fit in a page of the server's own size.
    PerPage(u32),
    /// So many bytes a row.
    Width(Bytes),
}

/// One named variation, fully resolved: what the file's sections say, with the arm's own keys laid over them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Arm {
    pub name: String,
    /// The arm's own keys, flat and as written: `squeeze.disk.read` -> `10ms`.
    pub overrides: BTreeMap<String, String>,
    /// Server variables in force.
    pub server_options: BTreeMap<String, String>,
    /// Variables that are set before the load, while the server runs; they stay for the arms after it.
    pub live: BTreeMap<String, String>,
    /// What the server is started with besides them.
    pub start: ServerStart,
    pub squeeze: Squeeze,
    pub load: Load,
    /// What the result of the load must be.
    pub assertions: Vec<Asserted>,
    /// True when the server must be started anew before this arm, because variables, what it is started with, or a cgroup limit differ
    /// from the arm before it (the last one, for the first arm of a repetition). The first arm of all starts it anyway.
    pub restart: bool,
}

/// A condition on an arm's result.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Asserted {
    pub assertion: Assertion,
    /// Line and column of where it is written.
    #[serde(skip)]
    pub place: (usize, usize),
}

#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Squeeze {
    /// Of the whole host; needs root.
    pub ram: Option<RamSqueeze>,
    /// Of the server alone, by a memory cgroup.
    pub server_ram: Option<Bytes>,
    /// How much of the server may be swapped out. `None`: with `server_ram` nothing where the kernel counts swap apart, else as much
    /// as the host has.
    pub swap: Option<Swap>,
    /// The time of so many CPUs for the server, by the quota of a cgroup.
    pub cpus: Option<Cpus>,
    /// The CPUs that the server may run on.
    pub cpuset: Option<CpuList>,
    /// `None`: no arm has a disk squeeze, and no slow layer is put under the server.
    pub disk: Option<Asked>,
    /// The same in all arms; `None`: what can be had, FUSE first.
    pub disk_mechanism: Option<DiskMechanism>,
    /// None of these may be left out for want of rights: rather the run does not start.
    pub required: bool,
    /// What a squeeze does that came on out of its tolerance.
    pub on_miss: OnMiss,
}

/// What becomes of an arm whose squeeze came on, but not as asked. One of which less than half or more than twice came on ends its arm
/// either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnMiss {
    /// It is measured; what was got stands beside what was asked, and is what is computed with.
    #[default]
    Note,
    /// It is not measured.
    End,
}

/// How much of the host's RAM, and who dies when what is left does not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RamSqueeze {
    #[serde(flatten)]
    pub amount: RamAmount,
    pub oom_victim: OomVictim,
    /// The same in every arm that hides RAM. `None`: what this machine allows.
    pub mechanism: Option<RamMechanism>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Load {
    /// `oltp_point_select` and so on, sysbench's names; or a file, from where the experiment's file is: [`Load::is_file`].
    pub workload: String,
    /// Connections; sysbench's word.
    pub threads: u32,
    pub arrivals: Arrivals,
    /// The measured phase ends after this time, or after [`Self::events`] transactions, whichever is first. At least one is set, but for a replay.
    pub time: Option<Span>,
    pub events: Option<u64>,
    /// Under the arm's own squeeze and rate, before measuring. Zero: none.
    pub warmup: Span,
    /// After each start of the server and before any squeeze is on: the same workload, closed loop, at full speed, to fill
    /// the server's page cache.
    pub preheat: Option<Preheat>,
    pub distribution: distribution::Options,
    /// The file says so; else it is what is taken when nothing is said.
    #[serde(skip)]
    pub distribution_written: bool,
    pub seed: u64,
    pub prepared: bool,
    /// The CPUs that the load itself may run on.
    pub cpuset: Option<CpuList>,
    pub options: workload::Options,
    /// The program that is the load in place of Wringer's own. Then only `workload` (which names it), `threads`, `time`, `warmup` and
    /// `cpuset` mean anything; of a command, `time` is when it is ended.
    pub driver: Option<Driver>,
    /// The log that is the load in place of Wringer's own. Then of the keys above only `workload` (which names it) and `cpuset` mean anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
    /// Clients with accounts of their own, which open connections while the load runs.
    pub beside: Vec<Beside>,
    /// Statements that the run sends before the load, when the accounts of [`Self::beside`] are there.
    pub before: Vec<String>,
    /// Nothing happens for so long, when everything else is ready, before [`Self::before`] and the load. Zero: it begins at once.
    pub pause: Span,
    /// Before the load so many random reads of the largest data file, each cold and warm, past the page cache and through it, and scans of
    /// it; `None`: nothing is read.
    pub probe: Option<u64>,
    /// How long the server is looked at after the load, when its connections are closed. Zero: not at all.
    pub idle: Span,
    /// Statements beside the measured phase, at moments of it.
    pub at: Vec<At>,
    /// Statements of the measured phase that last so long or longer are kept one by one; `None`: none is.
    pub slow_statements: Option<Span>,
}

/// A load program of somebody else's, and its words, but for those that say how to connect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Driver {
    pub program: DriverProgram,
    /// Of sysbench the script and options; of a command its program first.
    pub arguments: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DriverProgram {
    Sysbench,
    Pgbench,
    /// Whatever the file names.
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
    /// Whether Wringer makes its statements: a workload by name or from a file, no other program and no log.
    pub fn is_of_ours(&self) -> bool {
        self.driver.is_none() && self.replay.is_none()
    }

    /// Whether it sends one of pgbench's scripts, to pgbench's tables.
    pub fn is_pgbench(&self) -> bool {
        self.is_of_ours() && self.workload.starts_with("pgbench_") && !Self::is_file(&self.workload)
    }

    /// Whether this names a workload's file: it ends in `.toml`.
    pub fn is_file(workload: &str) -> bool {
        std::path::Path::new(workload).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Preheat {
    Time(Span),
    Transactions(u64),
    /// So many transactions as there are rows in all tables, times this.
    TimesRows(f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Observe {
    pub interval: Span,
    /// Whether to read the server's own counters.
    pub server: bool,
    /// Whether to read the server process in `/proc`.
    pub process: bool,
    /// From one inventory of the server's memory to the next; `None`: none is taken.
    pub memory: Option<Span>,
    /// Whether and how the server's threads are watched for stalls while a load runs.
    pub stalls: Option<WatchStalls>,
}

/// How the server's threads are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct WatchStalls {
    /// From one look at them to the next; `None`: 10 to 20 ms, as costs little.
    pub interval: Option<Span>,
    /// The shortest stall that is told.
    pub least: Span,
}

impl WatchStalls {
    /// As `wringer stalls watch` has it.
    pub const LEAST: Span = Span(Duration::from_millis(50));
}

impl Experiment {
    /// Whether a slow layer goes under the server: then it does in every arm, with delay 0 where none is asked for.
    pub fn slow_layer(&self) -> bool {
        self.arms.iter().any(|arm| arm.squeeze.disk.is_some())
    }

    /// Whether the server is in a cgroup of CPU time: in every arm when one has a quota. The kernel shares CPUs between cgroups first, so
    /// that a server in one runs beside its load in another way than a server in none.
    pub fn cpu_group(&self) -> bool {
        self.arms.iter().any(|arm| arm.squeeze.cpus.is_some())
    }

    /// What the file says of how the disk is to be made slow; the same in all arms.
    pub fn disk_mechanism(&self) -> Option<DiskMechanism> {
        self.arms.iter().find_map(|arm| arm.squeeze.disk_mechanism)
    }

    /// The size of the server's own page cache in this arm, as far as the file says; else the server's default.
    pub fn pool(&self, arm: &Arm) -> Bytes {
        pool_of(self.server.flavour, &arm.server_options)
    }
}

pub(crate) fn pool_of(flavour: Flavour, options: &BTreeMap<String, String>) -> Bytes {
    let written = options.get(flavour.pool_variable());
    written.and_then(|text| pool_bytes(flavour, text)).unwrap_or(flavour.pool_default())
}

/// PostgreSQL counts a bare number in its 8 KiB blocks; the others count bytes.
fn pool_bytes(flavour: Flavour, text: &str) -> Option<Bytes> {
    let bare = text.bytes().all(|b| b.is_ascii_digit());
    let size: Bytes = text.parse().ok()?;
    let factor = if bare && flavour == Flavour::Postgresql { 8192 } else { 1 };
    size.0.checked_mul(factor).map(Bytes)
}
