// SPDX-License-Identifier: Apache-2.0
//! Journals that earlier releases have left: each release can undo every older format.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use journal::{
    Begun, Content, FORMAT_VERSION, Journal, JournalFile, Kind, Members, Namespaces, OomVictim, Outcome, Phase,
    Reading, Role, Step, read, read_bytes,
};
use std::fs;
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/journal").join(name)
}

/// The journal of this name as each format version has written it; `""` is the one of a release that died in its middle.
fn of_each_version(name: &str) -> Vec<Content> {
    let read = |version| read_bytes(&stored(&format!("v{version}{name}.journal")));
    (1..=FORMAT_VERSION).map(|version| whole(read(version))).collect()
}

fn whole(reading: Reading) -> Content {
    let Reading::Whole(content) = reading else { panic!("{reading:?}") };
    content
}

/// As it was written: the zeros at the end of a stored journal were left out.
fn stored(name: &str) -> Vec<u8> {
    let mut bytes = fs::read(fixture(name)).unwrap();
    bytes.resize(64 << 10, 0);
    bytes
}

fn copy(folder: &Path, bytes: &[u8]) -> PathBuf {
    let path = folder.join("journal");
    fs::write(&path, bytes).unwrap();
    path
}

fn resumed(path: &Path) -> Journal {
    let file = JournalFile::open_to_write(path).unwrap();
    let reading = file.read();
    Journal::resume(file, &reading).unwrap()
}

#[test]
fn every_format_version_has_a_fixture() {
    for version in 1..=FORMAT_VERSION {
        assert!(fixture(&format!("v{version}.journal")).exists(), "write one with the example write_fixture");
    }
}

#[test]
fn every_version_is_understood() {
    of_each_version("").iter().for_each(is_understood);
}

fn is_understood(reading: &Content) {
    let begun = reading.state.begun.as_ref().unwrap();
    assert_eq!(begun.run.as_str(), "w-20261120-201530-4f2a");
    assert_eq!(begun.resources, ["host-ram", "directory-fe01-2a", "sandbox-demo"]);
    assert_eq!(reading.state.steps.len(), 8);
    assert!(!reading.state.ended && reading.lost.is_empty());
    let value = &reading.state.steps[2];
    assert!(matches!(&value.change, Step::Value { before, after, .. } if before == "0" && after == "512"));
    assert_eq!((value.observed.as_deref(), value.completed), (Some("512"), true));
    let server = &reading.state.steps[7];
    assert!(matches!(server.change, Step::Process { role: Role::Server, grace_ms: 120_000, .. }));
    assert_eq!(server.phase, Phase::Undone(Outcome::Restored));
    assert_eq!(server.processes[0].pid, 4008);
    assert_eq!(reading.state.steps[6].phase, Phase::Undoing);
    let open: Vec<u32> = reading.state.open_steps().iter().map(|step| step.id.0).collect();
    assert_eq!(open, [7, 6, 5, 4, 3, 2, 1]);
}

#[test]
fn every_kind_of_every_version_is_understood() {
    for Content { state, .. } in of_each_version("-kinds") {
        assert_eq!(state.begun.as_ref().unwrap().kind, Kind::Standing);
        assert_eq!(state.steps.len(), 4);
        assert!(state.open_steps().is_empty() && state.left && state.ended);
        assert!(matches!(&state.steps[3].phase, Phase::Undone(Outcome::Conflict { found, .. }) if found == "77"));
        assert!(state.neutralised.as_ref().unwrap().starts_with("only 180 MiB"));
    }
}

#[test]
fn ram_that_no_process_holds_is_understood_in_every_version() {
    for Content { state, .. } in of_each_version("-taken") {
        let [pool, went, cut] = state.steps.as_slice() else { panic!("{} steps", state.steps.len()) };
        let grown = Step::HugePool { before: 8, after: 520, nodes: Vec::new() };
        assert_eq!((&pool.change, pool.observed.as_deref()), (&grown, Some("300")));
        let blocks = Step::MemoryBlocks { kernel: "32-40,50".into(), movable: "60-61".into(), values: vec![] };
        assert_eq!((&went.change, went.observed.as_deref()), (&blocks, Some("40,60")));
        assert_eq!((&cut.change, cut.observed.as_deref(), cut.completed), (&blocks, None, false));
    }
}

#[test]
fn the_parts_of_numa_nodes_are_understood() {
    let state = whole(read_bytes(&stored("v2-nodes.journal"))).state;
    let [pool] = state.steps.as_slice() else { panic!("{} steps", state.steps.len()) };
    assert_eq!(pool.change, Step::HugePool { before: 8, after: 520, nodes: vec![6, 2] });
}

#[test]
fn transparent_huge_pages_are_understood() {
    let state = whole(read_bytes(&stored("v2-thp.journal"))).state;
    let words = |change: &Step| match change {
        Step::Value { path, before, after } => {
            assert_eq!(path, Path::new("/sys/kernel/mm/transparent_hugepage/enabled"));
            (before.clone(), after.clone())
        }
        other => panic!("{other:?}"),
    };
    // newest first, as they are undone; of the last one it is not known whether it was set
    let open: Vec<_> = state.open_steps().into_iter().map(|it| (words(&it.change), it.observed.clone())).collect();
    let step = |before: &str, after: &str, observed: Option<&str>| {
        ((before.to_owned(), after.to_owned()), observed.map(str::to_owned))
    };
    assert_eq!(
        open,
        [
            step("never", "madvise", None),
            step("always", "never", Some("always madvise [never]")),
            step("madvise", "always", Some("[always] madvise never")),
        ]
    );
}

#[test]
fn slow_devices_are_understood_in_every_version() {
    for Content { state, .. } in of_each_version("-mapping") {
        let [made, cut] = state.steps.as_slice() else { panic!("{} steps", state.steps.len()) };
        let mapping = |device: &str| Step::Mapping {
            name: format!("wringer-w-20261120-201530-4f2a-{device}"),
            uuid: format!("WRINGER-w-20261120-201530-4f2a-{device}"),
            device: format!("/dev/{device}").into(),
        };
        assert_eq!((&made.change, made.completed), (&mapping("loop0"), true));
        assert_eq!((&cut.change, cut.completed), (&mapping("vdb"), false));
    }
}

#[test]
fn slow_images_are_understood_in_every_version() {
    for Content { state, .. } in of_each_version("-loop") {
        let [made, cut] = state.steps.as_slice() else { panic!("{} steps", state.steps.len()) };
        let attach = |image: &str| Step::LoopDevice {
            name: "wringer-w-20261120-201530-4f2a".into(),
            image: format!("/srv/{image}").into(),
            read_ahead: None,
        };
        assert_eq!((&made.change, made.observed.as_deref()), (&attach("image"), Some("/dev/loop3")));
        assert_eq!((&cut.change, cut.completed), (&attach("other"), false));
    }
}

#[test]
fn what_the_kernel_computes_is_understood_in_every_version() {
    for Content { state, .. } in of_each_version("-computed") {
        let [blocks] = state.steps.as_slice() else { panic!("{} steps", state.steps.len()) };
        let Step::MemoryBlocks { values, .. } = &blocks.change else { panic!("{blocks:?}") };
        assert_eq!(
            (values[0].path.to_str(), values[0].before.as_str()),
            (Some("/proc/sys/vm/user_reserve_kbytes"), "61834")
        );
    }
}

#[test]
fn whom_a_want_of_memory_hits_is_understood_in_every_version() {
    for Content { state, .. } in of_each_version("-victim") {
        let victims: Vec<OomVictim> = state.steps.iter().map(|step| step.oom_victim).collect();
        assert_eq!(victims, [OomVictim::Server, OomVictim::Holder]);
        let older = whole(read_bytes(&stored("v1-taken.journal"))).state;
        assert!(
            older.steps.iter().all(|step| step.oom_victim == OomVictim::Holder),
            "written before there was the key"
        );
    }
}

#[test]
fn who_of_a_cgroup_goes_where_is_understood_since_version_2() {
    let of = |name: &str| {
        let steps = whole(read_bytes(&stored(name))).state.steps;
        let cgroups = steps.into_iter().filter_map(|step| match step.change {
            Step::Cgroup { home, members, .. } => Some((home, members)),
            _ => None,
        });
        cgroups.collect::<Vec<_>>()
    };
    let home = Some("/sys/fs/cgroup/cpu/user/7".into());
    let expected = [Members::Marked, Members::Command, Members::Leave].map(|members| (home.clone(), members));
    assert_eq!(of("v2-members.journal"), expected);
    assert_eq!(of("v1.journal"), [(None, Members::Marked)], "written before there were the keys");
}

#[test]
fn every_version_is_undone_to_its_end() {
    (1..=FORMAT_VERSION).for_each(is_undone_to_its_end);
}

fn is_undone_to_its_end(version: u32) {
    let folder = tempfile::tempdir().unwrap();
    let path = copy(folder.path(), &stored(&format!("v{version}.journal")));
    let mut journal = resumed(&path);
    for step in journal.state().open_steps() {
        journal.undo(step.id);
        journal.undone(step.id, Outcome::Nothing);
    }
    journal.end();
    assert!(journal.damage().is_none());
    let state = whole(read(&path)).state;
    assert!(state.ended && state.open_steps().is_empty());
}

#[test]
fn where_a_run_began_stands_there_since_version_2() {
    let readings = of_each_version("");
    let begun = |version: usize| readings[version - 1].state.begun.clone().unwrap();
    assert_eq!((begun(1).namespaces, begun(1).boot_id), (None, None));
    let initial = Namespaces { pid: 4_026_531_836, user: 4_026_531_837, mount: 4_026_531_841 };
    assert_eq!((begun(2).namespaces, begun(2).boot_id.as_ref()), (Some(initial), readings[1].boot_id.as_ref()));
}

#[test]
fn a_later_format_is_told_and_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = stored("v1.journal");
    bytes[8] = u8::try_from(FORMAT_VERSION + 1).unwrap();
    let crc = crc32c::crc32c(&bytes[..60]).to_le_bytes();
    bytes[60..64].copy_from_slice(&crc);
    let path = copy(folder.path(), &bytes);
    let reading = read(&path);
    let Reading::Unknown(content, told) = &reading else { panic!("{reading:?}") };
    assert!(content.state.begun.is_none() && told.contains(&(FORMAT_VERSION + 1).to_string()), "{told}");
    assert!(Journal::resume(JournalFile::open_to_write(&path).unwrap(), &reading).is_none());
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

/// Long runs: more records than the first reservation holds.
#[test]
fn a_journal_grows_before_an_intent_that_would_leave_too_little() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let begun = Begun {
        run: journal::RunId::new(0, 1),
        build: "t".into(),
        uid: 0,
        controller: host::process::Identity { pid: 1, start_time: 1 },
        namespaces: None,
        boot_id: None,
        kind: journal::Kind::Run,
        command: vec![],
        resources: vec![],
        started: 0,
    };
    let mut journal = Journal::create(&path, begun).unwrap();
    for number in 0..300 {
        let text = format!("note {number} {}", "x".repeat(300));
        let (id, _) = journal.intent(Step::Note { text }).unwrap();
        journal.done(id, None).unwrap();
        if number % 10 != 0 {
            continue;
        }
        let used = whole(read(&path)).end_bytes();
        let reserved = fs::metadata(&path).unwrap().len();
        assert!(reserved - used >= 1024 * (number + 1), "room for the undo of all {number}");
    }
    assert_eq!(whole(read(&path)).state.steps.len(), 300);
}
