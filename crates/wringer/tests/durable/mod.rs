// SPDX-License-Identifier: Apache-2.0
//! A client that writes down each commit the server acknowledged; a kill; and a look at what is there afterwards.

use evidence::{Delay, DelayMode};
use host::places::Places;
use load::Target;
use load::admin::Connection;
use run::{Begin, Kind, Resource, Run};
use sandbox::{Flavour, Request, RunningServer, Sandbox, Spec, StartOptions};
use squeeze::disk::SlowLayer;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::sync::Once;
use std::thread;
use std::time::{Duration, Instant};

/// Each of the tests that share this file uses some of it.
#[allow(dead_code)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Victim {
    Server,
    Layer,
}

/// What the client was told, and what is there.
#[derive(Debug)]
pub(crate) struct Survivors {
    pub(crate) acknowledged: BTreeSet<u64>,
    /// An error when the server does not start again, or its table cannot be read.
    pub(crate) present: Result<BTreeSet<u64>, String>,
}

impl Survivors {
    pub(crate) fn lost(&self) -> Vec<u64> {
        match &self.present {
            Ok(present) => self.acknowledged.difference(present).copied().collect(),
            Err(_) => self.acknowledged.iter().copied().collect(),
        }
    }
}

/// Commits before the kill: enough to be in the middle of the redo log.
const COMMITS: usize = 300;
const DELAY: Delay = Delay { read_us: 200, write_us: 200, sync_us: 500, mode: DelayMode::Add, varies: false };

/// The children of a run are started from this program: set once, before the first run.
pub(crate) fn use_program(program: &str) {
    static ONCE: Once = Once::new();
    // SAFETY: done once, before any thread of this test program reads the environment.
    ONCE.call_once(|| unsafe { std::env::set_var("WRINGER_PROGRAM", program) });
}

/// Deploys a server on a slow layer, commits rows, kills `victim` with SIGKILL in the middle, gives everything back, and starts
/// the server again on the plain directory.
pub(crate) fn commits_that_survive(flavour: Flavour, victim: Victim) -> Survivors {
    let home = tempfile::Builder::new().prefix("wringer-durable-").tempdir().unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o711)).unwrap();
    let places = Places { cache: testkit::shared_cache(testkit::own_uid()), ..Places::below(home.path()) };
    let installation = sandbox::locate(&Request { flavour, version: None }, &places, &mut ()).unwrap();
    let name = "durable".to_owned();
    let sandbox = Sandbox::deploy(Spec { name: name.clone(), ..Spec::new(installation) }, &places, &mut ()).unwrap();

    let mut run = begin(&places, &name);
    let mut layer = SlowLayer::start(&mut run, &sandbox.data()).unwrap();
    layer.set(&DELAY.into()).unwrap();
    let start = StartOptions { namespaces_of: Some(layer.pid()), ..StartOptions::default() };
    let server = sandbox.start(&mut run, &start).unwrap();
    let acknowledged = commit_until_killed(&server, &layer, victim);
    let _released = run.release().unwrap();

    let mut run = begin(&places, &name);
    let present = match sandbox.start(&mut run, &StartOptions::default()) {
        Ok(server) => read_back(&server.target),
        Err(error) => Err(error.to_string()),
    };
    let _released = run.release().unwrap();
    Sandbox::delete(&name, &places, false).unwrap();
    Survivors { acknowledged, present }
}

fn begin(places: &Places, name: &str) -> Run {
    let resources = vec![Resource::Sandbox(name.to_owned())];
    Run::begin(Begin { kind: Kind::Run, command: vec!["test".into()], resources, places: places.clone() }).unwrap()
}

/// One row a commit, from one connection, while another thread kills.
fn commit_until_killed(server: &RunningServer, layer: &SlowLayer, victim: Victim) -> BTreeSet<u64> {
    let mut connection = Connection::open(&server.target).unwrap();
    connection.execute("CREATE TABLE durable (id BIGINT PRIMARY KEY, pad VARCHAR(200))").unwrap();
    let pids = match victim {
        Victim::Server => family(server.pid),
        Victim::Layer => vec![layer.pid()],
    };
    let mut acknowledged = BTreeSet::new();
    let mut killer = None;
    let deadline = Instant::now() + Duration::from_secs(60);
    for id in 1.. {
        assert!(Instant::now() < deadline, "the server still answers after the {victim:?} was killed");
        let insert = format!("INSERT INTO durable VALUES ({id}, '{}')", "x".repeat(150));
        if connection.execute(&insert).is_err() {
            break;
        }
        acknowledged.insert(id);
        if acknowledged.len() == COMMITS {
            let pids = pids.clone();
            killer = Some(thread::spawn(move || kill(&pids)));
        }
    }
    killer.expect("as many commits as were asked for").join().unwrap();
    acknowledged
}

/// A server and its children, the parent first: PostgreSQL's would outlive it for a moment, and commit.
fn family(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    std::iter::once(pid).chain(children.split_whitespace().filter_map(|word| word.parse().ok())).collect()
}

fn kill(pids: &[u32]) {
    let pids = pids.iter().map(ToString::to_string);
    // children that have ended in between are not an error
    Command::new("kill").arg("-KILL").args(pids).status().unwrap();
}

fn read_back(target: &Target) -> Result<BTreeSet<u64>, String> {
    let mut connection = Connection::open(target).map_err(|error| error.to_string())?;
    let rows = connection.query("SELECT id FROM durable").map_err(|error| error.to_string())?;
    Ok((0..rows.len()).filter_map(|row| rows.parse(row, 0)).collect())
}

/// Why the layer cannot be mounted here, if so.
pub(crate) fn why_not() -> Option<&'static str> {
    let open = fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok();
    (!open).then_some("needs /dev/fuse for ordinary users")
}
