// SPDX-License-Identifier: Apache-2.0
//! Writes journals of the present format, together with every kind of record and step: `v<version>.journal` as a release leaves it
//! that dies in its middle, and beside it one for each name below, with what the ones before have not. Each format's corpus holds every word.
//!
//! `cargo run -p journal --example write_fixture -- fixtures/journal` writes those that are not there: once for each, never again.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use host::process::Identity;
use journal::{
    Begun, CgroupVersion, Computed, FORMAT_VERSION, Journal, Kind, Members, Namespaces, OomVictim, Outcome, Role,
    RunId, Step,
};
use std::path::Path;

type Writer = fn(&Path);

/// What is added to the format later gets a name of its own here.
const WRITERS: [(&str, Writer); 11] = [
    ("", write_cut),
    ("-kinds", write_kinds),
    ("-taken", write_taken),
    ("-mapping", write_mapping),
    ("-loop", write_loop),
    ("-victim", write_victim),
    ("-computed", write_computed),
    ("-members", write_members),
    ("-readahead", write_read_ahead),
    ("-nodes", write_nodes),
    ("-thp", write_thp),
];

fn main() {
    let folder = std::env::args().nth(1).unwrap();
    for (name, write) in WRITERS {
        let path = Path::new(&folder).join(format!("v{FORMAT_VERSION}{name}.journal"));
        if !path.exists() {
            write(&path);
        }
    }
}

fn write_cut(path: &Path) {
    let mut journal = Journal::create(path, begin()).unwrap();
    for (number, step) in (1..).zip(steps()) {
        let is_process = matches!(step, Step::Process { .. });
        let is_value = matches!(step, Step::Value { .. });
        let (id, _) = journal.intent(step).unwrap();
        if is_process {
            journal.pid(id, Identity { pid: 4000 + number, start_time: 123_456 }).unwrap();
        }
        if number < 7 {
            journal.done(id, is_value.then(|| "512".to_owned())).unwrap();
        }
    }
    let last: Vec<_> = journal.state().open_steps().iter().map(|step| step.id).collect();
    journal.undo(last[0]);
    journal.undone(last[0], Outcome::Restored);
    journal.undo(last[1]);
    cut(path);
}

/// The zeros at the end say nothing.
fn cut(path: &Path) {
    let used = journal::read(path).whole().unwrap().end_bytes();
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(used + 64).unwrap();
}

/// Cgroups whose members belong somewhere else: of a server, of a command, of one whose processes are to live on.
fn write_members(path: &Path) {
    let mut journal = Journal::create(path, begin()).unwrap();
    for (members, name) in [(Members::Marked, "server"), (Members::Command, "command"), (Members::Leave, "left")] {
        let folder = format!("/sys/fs/cgroup/cpu/wringer-w-20261120-201530-4f2a-{name}").into();
        let home = Some("/sys/fs/cgroup/cpu/user/7".into());
        journal.intent(Step::Cgroup { path: folder, version: CgroupVersion::V1, home, members }).unwrap();
    }
    cut(path);
}

fn write_kinds(path: &Path) {
    let mut begin = begin();
    begin.kind = Kind::Standing;
    begin.command = vec!["wringer".into(), "ram".into(), "hide".into(), "1G".into()];
    let mut journal = Journal::create(path, begin).unwrap();
    let process = |role| Step::Process { role, program: "/usr/bin/wringer".into(), stop_signal: 2, grace_ms: 1000 };
    let path_v2 = "/sys/fs/cgroup/wringer-w-20261120-201530-4f2a".into();
    let cgroup = Step::Cgroup { path: path_v2, version: CgroupVersion::V2, home: None, members: Members::Marked };
    let expected = || "512".to_owned();
    let conflict = Outcome::Conflict { expected: expected(), found: "77".into(), repair: "echo '0' > '/x'".into() };
    let value = Step::Value { path: "/x".into(), before: "0".into(), after: expected() };
    let steps = [
        (process(Role::Supervisor), Outcome::Nothing),
        (process(Role::Launcher), Outcome::Restored),
        (cgroup, Outcome::Nothing),
        (value, conflict),
    ];
    for (step, outcome) in steps {
        let (id, _) = journal.intent(step).unwrap();
        journal.done(id, None).unwrap();
        journal.undo(id);
        journal.undone(id, outcome);
    }
    journal.neutralised("only 180 MiB of RAM were available, and the floor is 256 MiB");
    journal.leave().unwrap();
    journal.end();
    cut(path);
}

/// RAM that no process holds: a pool that was granted a part, and blocks of which one went before the end.
fn write_taken(path: &Path) {
    let mut journal = Journal::create(path, begin()).unwrap();
    let (pool, _) = journal.intent(Step::HugePool { before: 8, after: 520, nodes: Vec::new() }).unwrap();
    journal.done(pool, Some("300".into())).unwrap();
    let blocks = Step::MemoryBlocks { kernel: "32-40,50".into(), movable: "60-61".into(), values: vec![] };
    let (blocks_step, _) = journal.intent(blocks.clone()).unwrap();
    journal.done(blocks_step, Some("40,60".into())).unwrap();
    journal.intent(blocks).unwrap();
    cut(path);
}

/// A slow device, and another one that was cut before it was made.
fn write_mapping(path: &Path) {
    let mut journal = Journal::create(path, begin()).unwrap();
    let mapping = |device: &str| Step::Mapping {
        name: format!("wringer-w-20261120-201530-4f2a-{device}"),
        uuid: format!("WRINGER-w-20261120-201530-4f2a-{device}"),
        device: Path::new("/dev").join(device),
    };
    let (made, _) = journal.intent(mapping("loop0")).unwrap();
    journal.done(made, None).unwrap();
    journal.intent(mapping("vdb")).unwrap();
    cut(path);
}

/// A slow image, and another one that was cut before its loop device was attached.
fn write_loop(path: &Path) {
    let mut journal = Journal::create(path, begin()).unwrap();
    let attach = |image: &str| Step::LoopDevice {
        name: "wringer-w-20261120-201530-4f2a".into(),
        image: Path::new("/srv").join(image),
        read_ahead: None,
    };
    let (made, _) = journal.intent(attach("image")).unwrap();
    journal.done(made, Some("/dev/loop3".into())).unwrap();
    journal.intent(attach("other")).unwrap();
    cut(path);
}

/// RAM that is hidden to see the server killed; the arm before hid it as usual.
fn write_victim(path: &Path) {
    let mut journal = Journal::create(path, begin()).unwrap();
    for (oom_victim, observed) in [(OomVictim::Server, "520"), (OomVictim::Holder, "264")] {
        let change = Step::HugePool { before: 8, after: observed.parse().unwrap(), nodes: Vec::new() };
        let (step, _) = journal.intent_with(change, oom_victim).unwrap();
        journal.done(step, Some(observed.into())).unwrap();
        journal.undo(step);
        journal.undone(step, Outcome::Restored);
    }
    cut(path);
}

/// Memory blocks, with what the kernel computes anew when they go.
fn write_computed(path: &Path) {
    let mut journal = Journal::create(path, begin()).unwrap();
    let reserve = Computed { path: "/proc/sys/vm/user_reserve_kbytes".into(), before: "61834".into() };
    let blocks = Step::MemoryBlocks { kernel: "32-40".into(), movable: String::new(), values: vec![reserve] };
    let (step, _) = journal.intent(blocks).unwrap();
    journal.done(step, Some("40".into())).unwrap();
    cut(path);
}

/// A pool of huge pages whose two NUMA nodes had unlike parts of it.
fn write_nodes(path: &Path) {
    let mut journal = Journal::create(path, begin()).unwrap();
    let (pool, _) = journal.intent(Step::HugePool { before: 8, after: 520, nodes: vec![6, 2] }).unwrap();
    journal.done(pool, Some("520".into())).unwrap();
    cut(path);
}

/// The host's transparent huge pages, set for one cell and for the next one: a file that is written as a word and read as all words.
fn write_thp(path: &Path) {
    let mut journal = Journal::create(path, begin()).unwrap();
    let set = |before: &str, after: &str| Step::Value {
        path: "/sys/kernel/mm/transparent_hugepage/enabled".into(),
        before: before.into(),
        after: after.into(),
    };
    let (first, _) = journal.intent(set("madvise", "always")).unwrap();
    journal.done(first, Some("[always] madvise never".into())).unwrap();
    let (second, _) = journal.intent(set("always", "never")).unwrap();
    journal.done(second, Some("always madvise [never]".into())).unwrap();
    journal.intent(set("never", "madvise")).unwrap();
    cut(path);
}

/// A slow image, with the read-ahead that the free device had before; the kernel gave the image another device, and it is detached already.
fn write_read_ahead(path: &Path) {
    let mut journal = Journal::create(path, begin()).unwrap();
    let before = Computed { path: "/sys/block/loop3/queue/read_ahead_kb".into(), before: "128".into() };
    let attach = |image: &str| Step::LoopDevice {
        name: "wringer-w-20261120-201530-4f2a".into(),
        image: Path::new("/srv").join(image),
        read_ahead: Some(before.clone()),
    };
    let (gone, _) = journal.intent(attach("other")).unwrap();
    journal.done(gone, Some("/dev/loop4".into())).unwrap();
    journal.undo(gone);
    journal.undone(gone, Outcome::Restored);
    let (held, _) = journal.intent(attach("image")).unwrap();
    journal.done(held, Some("/dev/loop3".into())).unwrap();
    cut(path);
}

fn begin() -> Begun {
    Begun {
        run: RunId::new(1_795_205_730, 0x4f2a),
        build: "0.1.0".into(),
        uid: 0,
        controller: Identity { pid: 4000, start_time: 123_400 },
        namespaces: Some(Namespaces { pid: 4_026_531_836, user: 4_026_531_837, mount: 4_026_531_841 }),
        boot_id: None,
        kind: Kind::Run,
        command: vec!["wringer".into(), "run".into(), "experiments/one-read-or-two.toml".into()],
        resources: vec!["host-ram".into(), "directory-fe01-2a".into(), "sandbox-demo".into()],
        started: 1_795_205_730,
    }
}

fn steps() -> Vec<Step> {
    let process =
        |role, grace_ms| Step::Process { role, program: "/usr/bin/wringer".into(), stop_signal: 15, grace_ms };
    vec![
        process(Role::Watchdog, 10_000),
        Step::Note { text: "page cache dropped".into() },
        Step::Value { path: "/proc/sys/vm/nr_overcommit_hugepages".into(), before: "0".into(), after: "512".into() },
        Step::Cgroup {
            path: "/sys/fs/cgroup/memory/wringer-w-20261120-201530-4f2a".into(),
            version: CgroupVersion::V1,
            home: None,
            members: Members::Marked,
        },
        process(Role::Holder, 1000),
        process(Role::SlowLayer, 10_000),
        Step::Mount {
            target: "/srv/data".into(),
            source: "wringer-w-20261120-201530-4f2a".into(),
            fstype: "fuse.wringer".into(),
        },
        process(Role::Server, 120_000),
    ]
}
