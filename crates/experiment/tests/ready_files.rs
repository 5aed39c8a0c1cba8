// SPDX-License-Identifier: Apache-2.0
//! Every file in `experiments/` is read, planned, and kept within the time it promises.

#![allow(clippy::unwrap_used)] // a test

use experiment::{Experiment, HostFacts, plan};
use std::path::{Path, PathBuf};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let entries = std::fs::read_dir(folder).unwrap();
    // those with a matrix are many runs: crate `matrix` reads them
    let is_one_run = |path: &PathBuf| !path.file_name().unwrap().to_string_lossy().starts_with("matrix-");
    let files = entries.map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|e| e == "toml") && is_one_run(path)).collect()
}

fn host(as_root: bool) -> HostFacts {
    HostFacts {
        as_root,
        mem_total_bytes: 16 << 30,
        mem_available_bytes: 12 << 30,
        cpus: 2,
        disk_free_bytes: Some(20 << 30),
        data_folder: "/var/lib/wringer".into(),
        ram_mechanism: evidence::RamMechanism::Holder,
        fuse: true,
        preload: true,
        huge_pool: as_root,
        huge_unclaimed_bytes: if as_root { 0 } else { 4 << 30 },
        host_thp: None,
        memory_cgroup: if as_root { "v2".into() } else { "none".into() },
        cpu_cgroup: if as_root { "v2".into() } else { "none".into() },
        cpuset_cgroup: if as_root { "v2".into() } else { "none".into() },
        server_binary: None,
        log_seconds: std::collections::BTreeMap::new(),
    }
}

/// What is reproduced lasts minutes itself: a quiet minute before a load, a query every two minutes.
fn waits(experiment: &Experiment) -> bool {
    let minute = units::Span::secs(60);
    let is_long = |load: &experiment::Load| load.pause >= minute || load.at.iter().any(|at| at.every >= Some(minute));
    experiment.arms.iter().any(|arm| is_long(&arm.load))
}

#[test]
fn every_ready_file_is_read_and_planned_within_ten_minutes_and_those_without_pauses_within_five() {
    let files = files();
    assert!(files.len() >= 3, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let experiment =
            Experiment::parse(&text).unwrap_or_else(|problems| panic!("{}: {problems:#?}", file.display()));
        assert_eq!(experiment.name, file.file_stem().unwrap().to_string_lossy(), "a file is named as its experiment");
        for as_root in [true, false] {
            let plan = plan(&experiment, &host(as_root));
            assert!(plan.blockers.is_empty(), "{}: {:#?}", file.display(), plan.blockers);
            let most = if waits(&experiment) { 600.0 } else { 300.0 };
            assert!(plan.seconds < most, "{}: {} s", file.display(), plan.seconds);
        }
    }
}

#[test]
fn the_quick_file_takes_less_than_a_minute_once_the_server_is_there() {
    let text = std::fs::read_to_string(files().into_iter().find(|path| path.ends_with("quick.toml")).unwrap()).unwrap();
    let there = HostFacts { server_binary: Some("/usr/sbin/mariadbd".into()), ..host(true) };
    let plan = plan(&Experiment::parse(&text).unwrap(), &there);
    assert!(plan.seconds < 60.0, "{} s", plan.seconds);
}
