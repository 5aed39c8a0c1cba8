// SPDX-License-Identifier: Apache-2.0
//! What a recording tells of one cell: one malloc, one life of the server.

use crate::study::{BURST, WARM_UP};
use capability::MallocKind;
use evidence::{Arm, ArmOutcome, Clock, Evidence, FOOTPRINT, Footprint, TimelinePoint};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// In [`Cell::not_in_force`]: another malloc served.
pub(crate) const MALLOC: &str = "malloc";

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The malloc that was asked for, as it was written.
    pub malloc: String,
    /// The malloc that served. `None`: the server did not start, so nobody could look.
    pub serving: Option<String>,
    /// How it is known who served: the place in the process where it was read; or `inferred: ...` where this user may not read the process's memory; or
    /// why it is unknown. `None`: the server did not start.
    #[serde(default)]
    pub serving_by: Option<String>,
    /// What contradicts `serving`: the heap's shape at the start, or the server's own word. Empty where nothing does.
    #[serde(default)]
    pub serving_doubts: Vec<String>,
    /// The libraries that were preloaded for the malloc, in the loader's order. `None`: the server did not start, or an earlier version of Wringer,
    /// which did not record them, ran the cell.
    #[serde(default)]
    pub preloaded: Option<Vec<String>>,
    /// The malloc, its environment and the transparent huge pages that were asked for were in force. A cell without them is in no verdict.
    pub as_asked: bool,
    /// What was asked for and was not in force: `malloc`, `environment`, `thp`. Empty where everything was, where nobody could look, and of cells of an
    /// earlier version of Wringer.
    #[serde(default)]
    pub not_in_force: Vec<String>,
    /// The server's transparent huge pages. `None`: the host's setting.
    pub thp: Option<String>,
    /// The CPUs of the server. `None`: all.
    pub cpus: Option<String>,
    pub block: u32,
    /// `done`, or how the first arm ended that was not measured: `out_of_memory`, `cannot_start`, `broke_off`, `missed`.
    pub state: String,
    /// The host was busy with other work while the cell ran, as the sweep saw. The cell counts all the same.
    #[serde(default)]
    pub disturbed: bool,
    /// The reason, where the state is not `done`.
    pub why: Option<String>,
    pub loads: Vec<Load>,
    pub footprint: Vec<Marked>,
    /// The most arenas that the malloc had at a mark. `None`: `footprint` has the reason, as `arenas_by`.
    pub arenas: Option<u64>,
    /// RSS at the end of the rest minus RSS before the burst, in bytes. `None`: one of the two was not seen.
    pub retained_bytes: Option<i64>,
}

impl Cell {
    /// Whether verdicts use this cell: it ran to its end, and with everything that was asked for.
    pub fn counts(&self) -> bool {
        self.as_asked && self.state == "done"
    }
}

/// One load of the ladder.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    pub arm: String,
    pub workload: String,
    pub threads: u32,
    pub transactions_per_s: Option<f64>,
    pub p50_us: f64,
    pub p95_us: f64,
    pub p99_us: f64,
    #[serde(rename = "p99.9_us")]
    pub p999_us: f64,
    pub max_us: f64,
    /// The true value of `p99_us` may be higher: transactions that had not ended count with the time for which they had waited.
    #[serde(default)]
    pub p99_is_at_least: bool,
    /// The longest response time of each slot of what was measured (100 ms long in Wringer's own load); 0 where no transaction ended.
    pub max_over_time: Vec<Longest>,
    /// CPU time of the server for one query.
    pub cpu_user_us_per_query: Option<f64>,
    pub cpu_system_us_per_query: Option<f64>,
    pub minor_faults: Option<u64>,
    pub major_faults: Option<u64>,
    pub errors: u64,
}

/// The longest response time of the transactions that ended in one slot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Longest {
    /// The begin of the slot, from the begin of the measured phase.
    pub at_s: f64,
    pub max_us: u64,
}

/// The server's memory at one mark, and the arm in which the mark was made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Marked {
    pub arm: String,
    #[serde(flatten)]
    pub footprint: Footprint,
}

/// What the recording tells of the cell for which this malloc, these transparent huge pages and these CPUs were asked.
pub fn cell(evidence: &Evidence, malloc: &str, thp: Option<&str>, cpus: Option<&str>, block: u32) -> Cell {
    let footprint: Vec<Marked> =
        evidence.snapshots.iter().filter(|it| it.source == FOOTPRINT).filter_map(marked).collect();
    let (state, why) = state(evidence);
    let loads = evidence.arms.iter().filter(|arm| arm.name != WARM_UP && arm.name != BURST).filter_map(load);
    Cell {
        malloc: malloc.to_owned(),
        serving: witness(evidence).map(serving),
        serving_by: witness(evidence).and_then(serving_by),
        serving_doubts: witness(evidence).map(serving_doubts).unwrap_or_default(),
        preloaded: witness(evidence).and_then(preloaded),
        as_asked: is_as_asked(evidence),
        not_in_force: not_in_force(evidence),
        thp: thp.map(str::to_owned),
        cpus: cpus.map(str::to_owned),
        block,
        state,
        // the recording does not say it
        disturbed: false,
        why,
        loads: loads.collect(),
        arenas: footprint.iter().filter_map(|it| it.footprint.arenas).max(),
        retained_bytes: retained(&footprint),
        footprint,
    }
}

fn marked(snapshot: &evidence::Snapshot) -> Option<Marked> {
    let footprint = serde_json::from_str(&snapshot.content).ok()?;
    Some(Marked { arm: snapshot.arm.clone()?, footprint })
}

fn retained(footprint: &[Marked]) -> Option<i64> {
    let at = |mark: &str| {
        let found = footprint.iter().find(|it| it.arm == BURST && it.footprint.mark == mark)?;
        i64::try_from(found.footprint.rss_bytes?).ok()
    };
    Some(at("idle")? - at("before")?)
}

fn state(evidence: &Evidence) -> (String, Option<String>) {
    match evidence.arms.iter().find(|arm| arm.outcome != ArmOutcome::Measured) {
        Some(arm) => (arm.outcome.name().to_owned(), arm.broke_off.clone()),
        None if evidence.arms.is_empty() => ("broke_off".to_owned(), None),
        None => ("done".to_owned(), None),
    }
}

/// What the start of the server recorded about its malloc.
fn witness(evidence: &Evidence) -> Option<&str> {
    evidence.measured.iter().find(|it| it.what == "server.malloc").map(|it| it.witness.as_str())
}

/// The witness begins with the name: `glibc 2.36 (...)`.
fn serving(witness: &str) -> String {
    witness.split(" (").next().unwrap_or_default().to_owned()
}

/// What the witness tells behind the name.
fn pieces(witness: &str) -> impl Iterator<Item = &str> {
    let told = witness.split_once(" (").map_or("", |(_, told)| told.strip_suffix(')').unwrap_or(told));
    told.split(MallocKind::PIECES).filter(|piece| !piece.is_empty())
}

/// The first piece; the path of the library may stand before it.
fn serving_by(witness: &str) -> Option<String> {
    let piece = pieces(witness).next()?;
    let behind_path = piece.split_once(": ").filter(|(path, _)| path.starts_with('/'));
    Some(behind_path.map_or(piece, |(_, by)| by).to_owned())
}

fn serving_doubts(witness: &str) -> Vec<String> {
    pieces(witness).filter_map(|piece| piece.strip_prefix(MallocKind::DOUBT)).map(str::to_owned).collect()
}

/// The libraries stand in one word: no blank is in a path that can be preloaded. The word ends with the `;` or the `)` of the witness.
fn preloaded(witness: &str) -> Option<Vec<String>> {
    let (_, behind) = witness.split_once(MallocKind::PRELOADED)?;
    let list = behind.split(' ').next()?.strip_suffix([';', ')'])?;
    Some(if list == MallocKind::NOTHING { Vec::new() } else { list.split(':').map(str::to_owned).collect() })
}

/// Whether everything that was asked for was in force in all arms, and was looked at in one arm at least.
fn is_as_asked(evidence: &Evidence) -> bool {
    looks(evidence).next().is_some() && looks(evidence).all(|(_, is_in_force)| is_in_force)
}

fn not_in_force(evidence: &Evidence) -> Vec<String> {
    let missing: BTreeSet<&str> =
        looks(evidence).filter(|(_, is_in_force)| !is_in_force).map(|(what, _)| what).collect();
    missing.into_iter().map(str::to_owned).collect()
}

/// What was looked at in each arm, and whether it was in force.
fn looks(evidence: &Evidence) -> impl Iterator<Item = (&str, bool)> {
    evidence.measured.iter().filter_map(|it| {
        let what = it.what.strip_prefix("server.").filter(|what| [MALLOC, "environment", "thp"].contains(what))?;
        Some((what, it.within_tolerance == Some(true)))
    })
}

fn longest(point: &TimelinePoint, started_us: u64) -> Longest {
    Longest { at_s: point.at_us.saturating_sub(started_us) as f64 / 1e6, max_us: point.max_us }
}

fn load(arm: &Arm) -> Option<Load> {
    let load = arm.load.as_ref()?;
    let (measured, times) = (&load.measured, load.measured.response_at_least());
    let at = |percentile: f64| times.percentile_ns(percentile) as f64 / 1e3;
    let grown = |counter: &str| {
        let witness = arm.witnesses.iter().find(|it| it.of == "process" && it.counter == counter);
        witness.map(evidence::Witness::delta)
    };
    let queries = measured.queries();
    let per_query = |counter: &str| grown(counter).filter(|_| queries > 0).map(|us| us as f64 / queries as f64);
    Some(Load {
        arm: arm.name.clone(),
        workload: load.workload.clone(),
        threads: load.connections,
        transactions_per_s: measured.transactions_per_second(),
        p50_us: at(50.0),
        p95_us: at(95.0),
        p99_us: at(99.0),
        p999_us: at(99.9),
        max_us: at(100.0),
        p99_is_at_least: measured.times(Clock::Response).percentile(99.0).is_at_least(),
        max_over_time: measured.timeline.iter().map(|point| longest(point, measured.started_us)).collect(),
        cpu_user_us_per_query: per_query("user us"),
        cpu_system_us_per_query: per_query("system us"),
        minor_faults: grown("minor faults"),
        major_faults: grown("major faults"),
        errors: measured.errors.values().sum(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_it_is_known_who_served_is_read_and_what_contradicts_it() {
        let read = "glibc 2.36 (/usr/lib/libc.so.6: the address that mariadbd calls, in /proc/7/mem; the server says system; preloaded for it: nothing)";
        assert_eq!(serving_by(read).as_deref(), Some("the address that mariadbd calls, in /proc/7/mem"));
        assert_eq!(serving_doubts(read), [""; 0]);
        let doubtful = "jemalloc (inferred: the first one with a malloc that is preloaded, because its memory is not for this user; \
                        DOUBT: 2 arenas of glibc are there; DOUBT: the server says system; preloaded for it: /lib/libjemalloc.so.2)";
        assert!(serving_by(doubtful).unwrap().starts_with("inferred: the first one"));
        assert_eq!(serving_doubts(doubtful), ["2 arenas of glibc are there", "the server says system"]);
        let unknown = "unknown (mysqld is a static program: nothing outside of it says which malloc it has; preloaded for it: nothing)";
        let why = "mysqld is a static program: nothing outside of it says which malloc it has";
        assert_eq!(serving_by(unknown).as_deref(), Some(why));
        assert_eq!(serving_by("jemalloc"), None);
    }

    #[test]
    fn what_was_preloaded_is_read_and_an_earlier_version_did_not_tell_it() {
        let witness =
            "glibc 2.36 (/lib/libc.so.6: the address that mysqld calls; preloaded for it: libc.so.6:libstdc++.so.6)";
        assert_eq!(serving(witness), "glibc 2.36");
        assert_eq!(preloaded(witness).unwrap(), ["libc.so.6", "libstdc++.so.6"]);
        assert_eq!(
            preloaded("jemalloc (x; preloaded for it: /lib/libjemalloc.so.2; y)").unwrap(),
            ["/lib/libjemalloc.so.2"]
        );
        assert_eq!(preloaded("glibc 2.36 (preloaded for it: nothing)"), Some(Vec::new()));
        assert_eq!(preloaded("glibc 2.36 (tcmalloc is mapped as well and serves nothing)"), None);
        let mut earlier = serde_json::to_value(Cell::default()).unwrap();
        for field in ["preloaded", "not_in_force", "serving_by", "serving_doubts"] {
            earlier.as_object_mut().unwrap().remove(field);
        }
        assert_eq!(serde_json::from_value::<Cell>(earlier).unwrap(), Cell::default());
    }
}
