// SPDX-License-Identifier: Apache-2.0
//! The ordered steps of an experiment on a given host: data that is shown before anything is done.
//!
//! Seconds, disk and RAM are estimates for the decision whether to start; the recording has the measured values. The facts are those of one moment,
//! so each station checks again before it touches anything.

mod around;
mod blockers;
mod estimate;
mod huge_pages;
mod replay;
mod server;
mod steps;

use crate::model::{Arm, Experiment};
use crate::problem::Problem;
use evidence::{DiskMechanism, RamAmount, RamMechanism};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use units::Bytes;

/// The facts about a host on which a plan depends; the caller reads them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostFacts {
    pub as_root: bool,
    pub mem_total_bytes: u64,
    /// `MemAvailable`.
    pub mem_available_bytes: u64,
    pub cpus: u32,
    /// Free space in the folder of sandboxes; `None` when it could not be read.
    pub disk_free_bytes: Option<u64>,
    /// The folder of sandboxes, for the text.
    pub data_folder: String,
    /// The mechanism that hides RAM on this host when the file names none, if a run may hide RAM.
    pub ram_mechanism: RamMechanism,
    /// Whether `/dev/fuse` can be opened and a private mount namespace can be made.
    pub fuse: bool,
    /// Whether a library can be preloaded into a server.
    pub preload: bool,
    /// Whether this user may make the pool of huge pages larger.
    pub huge_pool: bool,
    /// Bytes in that pool that are free and not reserved.
    pub huge_unclaimed_bytes: u64,
    /// The host's setting of transparent huge pages, if this user may change it.
    pub host_thp: Option<String>,
    /// The version in which this user can make a memory cgroup: `v1` or `v2`, otherwise `none`.
    pub memory_cgroup: String,
    /// The same for a cgroup of CPU time.
    pub cpu_cgroup: String,
    /// The same for a cgroup of CPU sets; `none`: the CPU affinity of processes is used.
    pub cpuset_cgroup: String,
    /// The binary of the asked flavour if it is on this machine or in the cache; `None`: it will be fetched.
    pub server_binary: Option<String>,
    /// The lengths of the logs that arms replay, by the names in the file.
    pub log_seconds: BTreeMap<String, f64>,
}

impl HostFacts {
    /// Adds the lengths of the logs that arms replay.
    #[must_use]
    pub fn of_logs(mut self, log_seconds: BTreeMap<String, f64>) -> Self {
        self.log_seconds = log_seconds;
        self
    }
}

/// How the disk is made slow here: as the file says, otherwise by FUSE if it is available, otherwise by a library. `None`: no arm asks for it.
pub fn disk_mechanism(experiment: &Experiment, host: &HostFacts) -> Option<DiskMechanism> {
    let by_itself = if host.fuse || !host.preload { DiskMechanism::Fuse } else { DiskMechanism::Preload };
    experiment.slow_layer().then(|| experiment.disk_mechanism().unwrap_or(by_itself))
}

/// The steps in order, and the reasons why the run would not start.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    pub schema: u32,
    pub experiment: String,
    pub as_root: bool,
    pub steps: Vec<Step>,
    /// Squeezes that are not available to this user or on this host.
    pub left_out: Vec<LeftOut>,
    /// Why the run would not start here. Empty: no reason is known.
    pub blockers: Vec<Problem>,
    /// Doubts that do not stop the run, and that the result repeats: a disk that this host cannot imitate.
    pub doubts: Vec<Problem>,
    /// Questions that could not be checked yet, and why.
    pub not_asked: Vec<String>,
    pub seconds: f64,
    pub disk_bytes: u64,
    /// The most RAM that the server and the load need, without the hidden RAM.
    pub ram_bytes: u64,
}

/// One step. A step that changes something outside Wringer's own folders has the change and its undo.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// From 1.
    pub number: usize,
    /// `journal`, `sandbox`, `fill`, `squeeze`, `load`, `report`, `release`.
    pub station: String,
    /// `None`: the step does not belong to one arm.
    pub arm: Option<String>,
    pub text: String,
    /// The change on the host.
    pub change: Option<String>,
    /// How the change is undone. `None` beside a change: it ends by itself, or needs no undo, and the text says so.
    pub undo: Option<String>,
    pub seconds: f64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    pub what: String,
    pub why: String,
    pub instead: String,
}

/// The steps of `wringer run` with this experiment on this host. Changes nothing.
pub fn plan(experiment: &Experiment, host: &HostFacts) -> Plan {
    let steps = steps::steps(experiment, host);
    Plan {
        schema: 1,
        experiment: experiment.name.clone(),
        as_root: host.as_root,
        seconds: steps.iter().map(|step| step.seconds).sum(),
        left_out: left_out(experiment, host),
        blockers: blockers::blockers(experiment, host),
        doubts: Vec::new(),
        not_asked: server::not_asked(experiment, host),
        disk_bytes: estimate::disk(experiment, host).0,
        ram_bytes: estimate::ram(experiment).0,
        steps,
    }
}

fn left_out(experiment: &Experiment, host: &HostFacts) -> Vec<LeftOut> {
    let mut left_out = Vec::new();
    let lacking = no_right_to_ram(host).filter(|_| experiment.arms.iter().any(|arm| arm.squeeze.ram.is_some()));
    if let Some(why) = lacking {
        left_out.push(LeftOut {
            what: "squeeze.ram: hide RAM of the host".into(),
            why: why.into(),
            instead: format!(
                "{}; or hide it for a while, before the run, with `wringer ram`",
                instead_of_ram(experiment)
            ),
        });
    }
    let is_small = |arm: &Arm| {
        let amount = arm.squeeze.ram.map(|ram| ram.amount);
        matches!(amount, Some(RamAmount::Leave(leave)) if leave.0 >= host.mem_available_bytes)
    };
    if host.as_root && experiment.arms.iter().any(is_small) {
        left_out.push(LeftOut {
            what: "squeeze.ram: hide RAM of the host".into(),
            why: format!("only {} is available, and no less is to be left", Bytes(host.mem_available_bytes)),
            instead: "the host is as small as asked without it".into(),
        });
    }
    let asks = |arm: &Arm| arm.squeeze.server_ram.is_some();
    if let Some(why) = no_right_to_server_ram(host).filter(|_| experiment.arms.iter().any(asks)) {
        left_out.push(LeftOut {
            what: "squeeze.server_ram: limit the server's memory".into(),
            why: why.into(),
            instead: instead_of_ram(experiment).into(),
        });
    }
    left_out
}

fn no_right_to_ram(host: &HostFacts) -> Option<&'static str> {
    (!host.as_root).then_some("only root's runs take RAM from everybody else on the host")
}

fn no_right_to_server_ram(host: &HostFacts) -> Option<&'static str> {
    (host.memory_cgroup == "none").then_some("this user can make no memory cgroup here")
}

/// An experiment hides RAM so that reads reach the disk. The returned text says what else prevents the page cache from answering reads.
fn instead_of_ram(experiment: &Experiment) -> &'static str {
    use crate::Flavour::{Mariadb, Mysql, Percona, Postgresql};
    match experiment.server.flavour {
        Mariadb | Mysql | Percona => {
            "the run relies on O_DIRECT, by which InnoDB's reads of data files go past the page cache"
        }
        Postgresql if experiment.slow_layer() => {
            "PostgreSQL reads through the page cache; the slow layer counts which reads reached it, and the report says how many"
        }
        Postgresql => "nothing: PostgreSQL reads through the page cache, which may answer; the report says so",
    }
}

#[cfg(test)]
mod tests;
