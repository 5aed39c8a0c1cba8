// SPDX-License-Identifier: Apache-2.0
//! A server's memory over time: recordings with inventories, and what is computed from them.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;

use evidence::{Evidence, INVENTORY, Snapshot};
use ledger::Inventory;
use load::Target;
use load::admin::Connection;
use recording::Recording;
use rustix::process::Signal;
use serde_json::Value;
use standing::{Killed, json, signal};
use std::path::Path;
use std::time::Duration;
use testkit::{Lab, Ran, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");
const MIB: i64 = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(180);

struct Server {
    lab: Lab,
    pid: u64,
}

impl Server {
    fn start() -> Self {
        let lab = Lab::new(WRINGER);
        let options =
            ["-c", "innodb_buffer_pool_size=32M", "-c", "performance_schema=OFF", "-c", "max_allowed_packet=128M"];
        let deploy = ["sandbox", "deploy", "mariadb@10.11", "--name", "s", "--start"];
        lab.run([&deploy[..], &options[..]].concat()).expect_code(0);
        let status = json(&lab.run(["sandbox", "status", "s", "-o", "json"]));
        let pid = status["sandboxes"][0]["pid"].as_u64().unwrap();
        Self { lab, pid }
    }

    fn connect(&self) -> Connection {
        let dsn = self.lab.run(["sandbox", "export", "s", "dsn"]).expect_code(0).stdout;
        let target: Target = dsn.trim().parse().unwrap();
        Connection::open(&target).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.lab.run(["sandbox", "delete", "s", "--force"]);
    }
}

fn inventories(seen: &Evidence) -> Vec<(&Snapshot, Inventory)> {
    let of = seen.snapshots.iter().filter(|snapshot| snapshot.source == INVENTORY);
    of.map(|snapshot| (snapshot, serde_json::from_str(&snapshot.content).unwrap())).collect()
}

/// Where the machine is so busy that a reading takes longer than the server may be held, an inventory is without mappings, and says so.
fn is_whole(inventory: &Inventory) -> bool {
    inventory.processes[0].mappings.is_some() && inventory.processes[0].heap.is_some()
}

/// How many whole ones there are so far; the recorder writes on.
fn count(recording: &Path) -> usize {
    let count = |seen: Evidence| inventories(&seen).iter().filter(|(_, it)| is_whole(it)).count();
    Recording::read(recording).map_or(0, count)
}

fn leaves(account: &Value, path: &str) -> i64 {
    let leaves = account["leaves"].as_array().unwrap().iter();
    let below = leaves.filter(|leaf| leaf["path"].as_str().unwrap().starts_with(path));
    below.map(|leaf| leaf["resident_bytes"].as_i64().unwrap()).sum()
}

/// 64 MiB of this session alone.
fn plant(connection: &mut Connection) {
    connection.execute("SET @planted = REPEAT('x', 64 << 20)").unwrap();
}

#[test]
fn a_recording_holds_inventories() {
    let server = Server::start();
    let lab = &server.lab;
    let recording = lab.home().join("out/recording.sqlite");
    let record = ["memory", "record", "--sandbox", "s", "--interval=1s", "--to=out"];
    let mut recorder = Killed(lab.start("record", record));
    assert!(wait_until(PATIENCE, || count(&recording) >= 2), "{}", lab.said("record"));
    let mut connection = server.connect();
    plant(&mut connection);
    // one may have been begun before
    let before = count(&recording);
    assert!(wait_until(PATIENCE, || count(&recording) >= before + 2), "{}", lab.said("record"));
    signal(recorder.0.id().into(), Signal::INT);
    assert_eq!(recorder.0.wait().unwrap().code(), Some(0), "{}", lab.said("record"));

    let seen = Recording::read(&recording).unwrap();
    let taken = inventories(&seen);
    assert!(taken.iter().all(|(snapshot, it)| {
        let is_complete = it.server.is_some() && it.version.is_some() && u64::from(it.processes[0].pid) == server.pid;
        snapshot.arm.as_deref() == Some("observed") && (is_whole(it) || !it.missing.is_empty()) && is_complete
    }));
    let taken: Vec<_> = taken.into_iter().filter(|(_, it)| is_whole(it)).collect();
    accounts_come_from(lab, &taken);
    a_dear_reading_lengthens_the_interval(lab);
    watched_until_its_end(server);
}

/// On any machine an inventory takes more than a millisecond of CPU time, which is what is granted here.
fn a_dear_reading_lengthens_the_interval(lab: &Lab) {
    let recording = lab.home().join("often/recording.sqlite");
    let mut recorder =
        Killed(lab.start("often", ["memory", "record", "--sandbox=s", "--interval=100ms", "--to=often"]));
    let has_two = || Recording::read(&recording).is_ok_and(|seen| inventories(&seen).len() >= 2);
    assert!(wait_until(PATIENCE, has_two), "{}", lab.said("often"));
    // the last one is taken at the end, whatever the interval is by then
    signal(recorder.0.id().into(), Signal::INT);
    assert_eq!(recorder.0.wait().unwrap().code(), Some(0), "{}", lab.said("often"));
    let seen = Recording::read(&recording).unwrap();
    let intervals: Vec<_> = inventories(&seen).into_iter().map(|(_, it)| it.interval.unwrap()).collect();
    let (first, last) = (&intervals[0], &intervals[intervals.len() - 1]);
    assert!(intervals.iter().all(|it| it.asked_us == 100_000), "{intervals:?}");
    assert_eq!((first.got_us, &first.why), (100_000, &None));
    let is_told = last.why.as_ref().is_some_and(|why| why.contains("its questions took") && why.contains("CPU time"));
    assert!(last.got_us >= 200_000 && is_told, "{intervals:?}");
    let told: Vec<&String> = seen.events.iter().map(|event| &event.text).collect();
    let words = "every 0.1 s was asked, from here on it is read every";
    assert!(told.iter().any(|text| text.contains(words)), "{told:?}");
    let account = json(&lab.run(["memory", "account", "--from=often", "-o", "json"]).expect_code(0));
    assert_eq!(account["interval"]["got_us"], last.got_us);
    let shown = lab.run(["memory", "account", "--from=often"]).expect_code(0).stdout;
    assert!(shown.contains("and not every 100 ms as asked"), "{shown}");
}

fn accounts_come_from(lab: &Lab, taken: &[(&Snapshot, Inventory)]) {
    let account = |args: &[&str]| lab.run([&["memory", "account", "--from=out"], args].concat());
    let [(first, _), (second, of_second), ..] = taken else { panic!("{} inventories", taken.len()) };
    let (last, of_last) = taken.last().unwrap();
    let [since, at, end] =
        [("since", first), ("at", second), ("at", last)].map(|(flag, it)| format!("--{flag}={}us", it.at_us));
    let then = json(&account(&[&at, "-o", "json"]).expect_code(0));
    let expected: Value = serde_json::to_value(ledger::account(of_second)).unwrap();
    for key in ["at_unix_us", "kernel_total_bytes", "unexplained_bytes", "uncertainty_bytes", "leaves", "processes"] {
        assert_eq!(then[key], expected[key], "{key}");
    }
    let change = json(&account(&[&at, &since, "-o", "json"]).expect_code(0));
    assert_eq!(change["to_unix_us"], expected["at_unix_us"]);
    let grown = json(&account(&[&since, &end, "-o", "json"]).expect_code(0));
    let planted = leaves(&grown, "sessions/");
    assert!((58 * MIB..72 * MIB).contains(&planted), "{grown:#}");
    let total = grown["kernel_total_bytes"].as_i64().unwrap();
    let shared = of_program(of_last);
    assert!((58 * MIB - shared..90 * MIB + shared).contains(&total), "{shared} shared: {grown:#}");
    let text = account(&[&since, &end]).expect_code(0).stdout;
    let line = text.lines().find(|line| line.starts_with("sessions: ")).unwrap();
    assert!(line.contains(" +6"), "what changed most comes first: {text}");
    let metrics = account(&["-o", "openmetrics"]).expect_code(0).stdout;
    assert!(metrics.contains(",path=\"sessions/") && metrics.ends_with("# EOF\n"));
    for (args, code, said) in [
        (&["--at=9h"][..], 3, "--at first is"),
        (&["--at=soon"], 2, "write the time after the start"),
        (&["--at=first", "--since=last"], 2, "no time lies between the two"),
    ] {
        account(args).expect_code(code).expect_said(&[said]);
    }
    the_times_that_a_hint_names(lab, account(&["--at=9h"]));
    lab.run(["memory", "account", "--sandbox=s", "--keep=kept"]).expect_code(0);
    lab.run(["memory", "oom", "--from=out"]).expect_code(3).expect_said(&["is a recording", "memory account --from"]);
    lab.run(["memory", "account", "--from=kept", "--at=1"]).expect_code(2).expect_said(&["is no recording"]);
    // another recording, without inventories
    lab.run(["observe", "--time=100ms", "--to=host"]).expect_code(0);
    lab.run(["memory", "account", "--from=host"]).expect_code(3).expect_said(&["has no inventory", "observe.memory"]);
    lab.run(["observe", "--memory", "--time=100ms", "--to=no"]).expect_code(2).expect_said(&["whose memory?"]);
}

/// `--at first is 300 ms after the start (14:05:30Z), --at last 5.1 s after the start (14:05:35Z)`: each of them is the inventory that it stands for.
fn the_times_that_a_hint_names(lab: &Lab, refused: Ran) {
    let text = refused.stderr;
    for (name, before) in [("first", "--at first is "), ("last", "--at last ")] {
        let named = text.split_once(before).unwrap().1;
        let (offset, rest) = named.split_once(" after the start (").unwrap();
        let clock = rest.split_once(')').unwrap().0;
        let taken = |at: &str| {
            let at = format!("--at={at}");
            let ran = lab.run(["memory", "account", "--from=out", &at, "-o", "json"]);
            json(&ran.expect_code(0))["at_unix_us"].clone()
        };
        assert_eq!(taken(offset), taken(name), "{offset}: {text}");
        // the last one of the same second
        assert!(taken(clock).as_u64() >= taken(name).as_u64(), "{clock}: {text}");
    }
}

/// A server that stands still is not asked with success: its leaves are not known then, and have not been freed.
#[test]
fn a_server_that_stands_still_has_freed_nothing() {
    let server = Server::start();
    let lab = &server.lab;
    let recording = lab.home().join("still/recording.sqlite");
    let mut recorder = Killed(lab.start("record", ["memory", "record", "--sandbox=s", "--interval=1s", "--to=still"]));
    let mut watch = Killed(lab.start("watch", ["memory", "watch", "--sandbox=s", "--interval=1s"]));
    let is_begun = || count(&recording) >= 1 && lab.said("watch").contains("  total ");
    assert!(wait_until(PATIENCE, is_begun), "{}{}", lab.said("record"), lab.said("watch"));
    signal(server.pid, Signal::STOP);
    let silent = || {
        let seen = Recording::read(&recording).ok()?;
        let found = inventories(&seen).into_iter().find(|(_, it)| is_silent(it));
        found.map(|(snapshot, _)| snapshot.at_us)
    };
    // on a busy host the reading before may lack something, too
    let is_marked =
        |line: &str| line.contains("not comparable, not read: ") && line.contains("the server's own rows (after)");
    let is_seen = wait_until(PATIENCE, || silent().is_some() && lab.said("watch").lines().any(is_marked));
    signal(server.pid, Signal::CONT);
    assert!(is_seen, "{}{}", lab.said("record"), lab.said("watch"));
    for one in [&mut recorder, &mut watch] {
        signal(one.0.id().into(), Signal::INT);
        assert_eq!(one.0.wait().unwrap().code(), Some(0));
    }
    let at = format!("--at={}us", silent().unwrap());
    let account = |more: &[&str]| {
        let words = ["memory", "account", "--from=still", "--since=first", &at];
        lab.run([&words[..], more].concat()).expect_code(0)
    };
    let change = json(&account(&["-o", "json"]));
    let all = change["leaves"].as_array().unwrap();
    let unknown: Vec<&Value> = all.iter().filter(|it| it["resident_bytes"].is_null()).collect();
    assert!(unknown.iter().any(|it| it["path"] == "log/redo_buffer"), "{change:#}");
    let freed = |it: &&Value| it["resident_bytes"].as_i64().is_some_and(|bytes| bytes < -MIB);
    assert!(!all.iter().any(|it| freed(&it) && it["path"] != "program/text"), "{change:#}");
    let missing = change["missing_after"].as_array().unwrap();
    assert!(missing.iter().any(|it| it["what"] == "the server's own rows"), "{change:#}");
    let text = account(&[]).stdout;
    let is_listed = |line: &str| line.contains("after: not read: ") && line.contains("the server's own rows");
    assert!(text.contains("not known") && text.lines().any(is_listed), "{text}");
}

fn is_silent(inventory: &Inventory) -> bool {
    inventory.missing.iter().any(|it| it.what == "the server's own rows")
}

/// Resident bytes of the program's file. Servers of other tests share these pages: when one begins or ends, this server's part of them changes.
fn of_program(inventory: &Inventory) -> i64 {
    let mappings = inventory.processes[0].mappings.iter().flatten();
    mappings.filter(|it| it.path.ends_with("/mariadbd")).map(|it| i64::try_from(it.rss).unwrap()).sum()
}

/// One line for each reading; the server's end is an error.
fn watched_until_its_end(server: Server) {
    let lab = &server.lab;
    let mut watch = Killed(lab.start("watch", ["memory", "watch", "--sandbox=s", "--interval=1s", "-o", "json"]));
    let mut lines = Killed(lab.start("lines", ["memory", "watch", &format!("--pid={}", server.pid), "--interval=1s"]));
    let has_two = || ["watch", "lines"].iter().all(|name| lab.said(name).lines().count() >= 2);
    assert!(wait_until(PATIENCE, has_two), "{}{}", lab.said("watch"), lab.said("lines"));
    signal(lines.0.id().into(), Signal::INT);
    assert_eq!(lines.0.wait().unwrap().code(), Some(0), "{}", lab.said("lines"));
    lab.run(["sandbox", "stop", "s"]).expect_code(0);
    assert_eq!(watch.0.wait().unwrap().code(), Some(4), "{}", lab.said("watch"));
    let said = lab.said("watch");
    let first: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    assert!(
        first["kernel_total_bytes"].as_i64().unwrap() > 50 * MIB && said.contains("ended while it was watched"),
        "{said}"
    );
    assert!(lab.said("lines").lines().next().unwrap().contains("Z  total "), "{}", lab.said("lines"));
}

const EXPERIMENT: &str = r#"
schema = 1
name = "grown"
[server]
flavour = "mariadb"
version = "10.11"
[fill]
rows = 500
[observe]
memory = "500ms"
[load]
workload = "oltp_point_select"
time = "4s"
"#;

#[test]
fn an_experiment_records_inventories() {
    let lab = Lab::new(WRINGER);
    let file = lab.write("grown.toml", EXPERIMENT);
    let file = file.to_str().unwrap();
    let plan = lab.run(["plan", file]).expect_code(0).stdout;
    assert!(plan.contains("what the server's memory is made of every 500 ms"), "{plan}");
    lab.run(["run", file, "--to", "out"]).expect_code(0);
    let seen = Recording::read(&lab.home().join("out/recording.sqlite")).unwrap();
    let taken = inventories(&seen);
    let is_in_arm = taken.iter().any(|(snapshot, _)| snapshot.arm.as_deref() == Some("baseline"));
    // where the machine is so busy that the server was held for long, the next one may have come after the arm
    let is_slower = seen.events.iter().any(|event| event.text.contains("from here on it is read every"));
    assert!(
        taken.len() >= 2 && (is_in_arm || is_slower),
        "{:?}",
        taken.iter().map(|(it, _)| (it.at_us, &it.arm)).collect::<Vec<_>>()
    );
    assert!(taken.iter().all(|(_, it)| it.server.is_some() && ledger::account(it).kernel_total_bytes > 0));
    let account = lab.run(["memory", "account", "--from=out"]).expect_code(0).stdout;
    assert!(account.contains("data cache") && account.contains("after the start"), "{account}");
}
