// SPDX-License-Identifier: Apache-2.0
//! The programs of integration tests, and which of them may share the machine with the test guest.

use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The programs that may run beside the test guest: they test states, orders and contents, and that a delay is not shorter than what was asked. Wherever
/// they wait, they wait for half a minute or longer, so that a busy machine does not change their results. All other programs measure, or hide RAM that
/// the guest may use, or end after a moment.
///
/// The first list has programs that compare the whole host before and after, that leave a run for an undo to find, or that mount a loop device: no
/// other program may have a run at the same time. Each of them waits for the kernel and the disk most of the time. Together they take about as long as the guest, which runs beside.
const LOOK_AT_THE_HOST: [&str; 14] = [
    "bad_input",
    "dead_layer",
    "disk",
    "disk_image",
    "faults",
    "lost",
    "mounts",
    "shared_blocks",
    "slow_sandbox",
    "squeeze_daemons",
    "stalls_undone",
    "undo",
    "unseen",
    "watchdog",
];

/// Programs that begin no run; they run beside those of the first list. The units of all crates do not: some of them start processes with the mark of a
/// run, and the programs of the first list would see these on the host.
const WITHOUT_A_RUN: [&str; 64] = [
    "allocation",
    "allocators_page",
    "annex_5",
    "answers",
    "any_input",
    "article_laws",
    "articles_page",
    "build_id",
    "calls",
    "chromium",
    "clock",
    "compare",
    "conduct",
    "corpus",
    "damage",
    "explained",
    "faults_page",
    "freezes",
    "full_log",
    "heads",
    "heap",
    "heap_page",
    "heap_profilers",
    "instances",
    "kept_directories",
    "limits",
    "memory",
    "memory_growth",
    "model",
    "modes_statistics",
    "observed",
    "observer",
    "outputs",
    "page",
    "parsers",
    "patience",
    "plan_asks",
    "postgresql",
    "profiles",
    "protocol",
    "published",
    "published_histograms",
    "ready_files",
    "recipes",
    "recorded",
    "report",
    "round_trip",
    "same_limits",
    "seconds",
    "settings",
    "sides",
    "spec",
    "stall_article",
    "stall_laws",
    "stalls_advise",
    "stalls_explain",
    "stalls_simulate",
    "stop",
    "stored",
    "sweep_page",
    "together",
    "verdicts",
    "within",
    "writes",
];

/// These programs come next; most of them have real servers, in homes of their own. They run in lanes that take about the same time; the units of all
/// crates run in the first lane. A lane needs a third to a half of a CPU: it waits for servers, for the disk, and for loads to end. `allocators` and
/// `matrix` are in one lane, because only one sweep may measure on a host at a time. Five programs are not here. `memory_account` and
/// `memory_planted`: servers of one program share its pages, and when the server of another test ends, more of these pages belong to the server under
/// test. `stalls_advised`: its load must empty a free list, and beside other lanes it has too little CPU for that. `stalls_logs` and
/// `stalls_reproduce`: they count the stalls of a server, or hold a statement to its moment, and a statement that waits for a CPU beside other lanes
/// is one stall more, or late.
const WITH_SERVERS: [&[&str]; 5] = [
    &[
        "catalogue",
        "cell",
        "doctor",
        "extended",
        "load",
        "load_file",
        "load_pgbench",
        "modes_and_plan",
        "mysql",
        "outside",
        "read_ahead",
        "same_as_plain",
        "way",
    ],
    &["drivers", "host", "pgbouncer", "replicas", "servers", "tarballs", "wrappers"],
    &["dead_server", "durability", "fill_from", "kept_fills", "lost_observer", "mallocs", "memory_bounds"],
    &[
        "allocators",
        "damaged",
        "durability_of_a_liar",
        "heap_input",
        "matrix",
        "own_data",
        "replay",
        "replayed_arms",
        "timed_server",
        "whose_journal",
    ],
    &[
        "children",
        "connection_limits",
        "disk_device",
        "end_to_end",
        "fill",
        "full_cache",
        "habits",
        "memory_ended",
        "memory_over_time",
        "memory_profile",
        "missed_arm",
        "own_backups",
        "which_server",
    ],
];

/// Programs that need no server, no mount and no guest, and take seconds: `check` runs them.
const QUICK: [&str; 51] = [
    "allocation",
    "annex_5",
    "any_input",
    "article_laws",
    "articles_page",
    "build_id",
    "clock",
    "compare",
    "conduct",
    "corpus",
    "damage",
    "explained",
    "faults_page",
    "freezes",
    "full_log",
    "heads",
    "instances",
    "kept_directories",
    "limits",
    "memory",
    "memory_growth",
    "model",
    "modes_statistics",
    "observed",
    "outputs",
    "page",
    "parsers",
    "patience",
    "postgresql",
    "profiles",
    "published",
    "published_histograms",
    "ready_files",
    "recipes",
    "recorded",
    "round_trip",
    "seconds",
    "settings",
    "sides",
    "spec",
    "stall_article",
    "stall_laws",
    "stalls_advise",
    "stalls_explain",
    "stalls_simulate",
    "stop",
    "stored",
    "together",
    "verdicts",
    "within",
    "writes",
];

pub(crate) fn quick() -> Result<Vec<String>> {
    known(&QUICK, &programs_below(Path::new("crates"))?)?;
    Ok(QUICK.map(str::to_owned).to_vec())
}

/// Fails for a name of a program that does not exist: a renamed program would no longer be run.
fn known(names: &[&str], programs: &BTreeSet<String>) -> Result<()> {
    let unknown = names.iter().find(|name| !programs.contains(**name));
    anyhow::ensure!(unknown.is_none(), "{unknown:?} is no program of a test: see xtask/src/programs.rs");
    Ok(())
}

/// The programs of the workspace, except the guest's, sorted by when they run.
pub(crate) struct Order {
    /// Lanes that run beside the guest and beside each other.
    pub(crate) first: Vec<Vec<String>>,
    /// Lanes that run when the lanes of `first` and the guest have ended.
    pub(crate) then: Vec<Vec<String>>,
    /// Programs that run alone, when the lanes of `then` have ended as well.
    pub(crate) alone: Vec<String>,
}

pub(crate) fn order() -> Result<Order> {
    order_of(&programs_below(Path::new("crates"))?)
}

fn order_of(programs: &BTreeSet<String>) -> Result<Order> {
    let lane = |names: &[&str]| {
        known(names, programs)?;
        Ok(names.iter().map(|name| (*name).to_owned()).collect())
    };
    let lanes = |lanes: &[&[&str]]| lanes.iter().map(|names| lane(names)).collect::<Result<Vec<Vec<String>>>>();
    let (first, then) = (lanes(&[&LOOK_AT_THE_HOST, &WITHOUT_A_RUN])?, lanes(&WITH_SERVERS)?);
    let beside: BTreeSet<&String> = first.iter().chain(&then).flatten().collect();
    let alone = programs.iter().filter(|name| !beside.contains(name)).cloned().collect();
    Ok(Order { first, then, alone })
}

/// The test programs, as cargo finds them: `CRATE/tests/NAME.rs` and `CRATE/tests/NAME/main.rs`.
fn programs_below(crates: &Path) -> Result<BTreeSet<String>> {
    let mut programs = BTreeSet::new();
    let entries = fs::read_dir(crates).with_context(|| format!("list {}", crates.display()))?;
    for package in entries.flatten() {
        programs.extend(programs_of(&package.path()));
    }
    Ok(programs)
}

fn programs_of(package: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(package.join("tests")).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_program = |path: &PathBuf| path.extension().is_some_and(|it| it == "rs") || path.join("main.rs").is_file();
    entries.filter(is_program).filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The crates without input and output (docs/architecture.md, invariant 6). `report` is not here: its programs start a browser.
    const PURE: [&str; 22] = [
        "advice",
        "allocators",
        "assertion",
        "bundle",
        "capability",
        "connections",
        "diskmodel",
        "evidence",
        "experiment",
        "explain",
        "keyfile",
        "ledger",
        "logs",
        "matrix",
        "modes",
        "simulate",
        "sql",
        "stalls",
        "trend",
        "units",
        "verdict",
        "workload",
    ];

    #[test]
    fn the_programs_of_pure_crates_are_quick() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
        for name in PURE {
            assert!(crates.join(name).is_dir(), "{name}");
            let left_out: Vec<String> =
                programs_of(&crates.join(name)).into_iter().filter(|it| !QUICK.contains(&it.as_str())).collect();
            assert!(left_out.is_empty(), "{name}: `make check` has to run {left_out:?}");
        }
    }

    #[test]
    fn each_program_is_in_one_part() {
        let programs = programs_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates")).unwrap();
        assert!(programs.contains("faults") && programs.contains("layer"), "{programs:?}");
        assert!(!programs.contains("standing"), "a folder that programs share is none: {programs:?}");
        known(&QUICK, &programs).unwrap();
        let Order { first, then, alone } = order_of(&programs).unwrap();
        let all: Vec<String> = first.into_iter().chain(then).chain([alone]).flatten().collect();
        assert_eq!((all.len(), all.into_iter().collect()), (programs.len(), programs));
    }
}
