// SPDX-License-Identifier: Apache-2.0
//! A client that writes down each commit the server acknowledged, and another that makes it read and write pages; a kill; and a
//! look at what is there afterwards, by the server's own check.

mod check;
mod ways;

pub(crate) use ways::{Way, ways};

use evidence::{Delay, DelayMode};
use host::places::Places;
use load::Target;
use load::admin::Connection;
use run::{Begin, Kind, Resource, Run};
use sandbox::{Flavour, Request, RunningServer, Sandbox, Spec, StartOptions};
use squeeze::disk::SlowLayer;
use squeeze::preloaded::library_folder;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Each of the tests that share this file uses some of it.
#[allow(dead_code)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Victim {
    Server,
    Layer,
}

/// What the clients were told, and what is there.
#[derive(Debug)]
pub(crate) struct Survivors {
    pub(crate) acknowledged: BTreeSet<u64>,
    /// Of the client that reads and writes pages.
    #[allow(dead_code)]
    pub(crate) updates: u64,
    /// An error when the server does not start again, its tables cannot be read, or its own check finds fault with them.
    pub(crate) present: Result<check::Present, String>,
}

impl Survivors {
    pub(crate) fn lost(&self) -> Vec<u64> {
        match &self.present {
            Ok(present) => self.acknowledged.difference(&present.ids).copied().collect(),
            Err(_) => self.acknowledged.iter().copied().collect(),
        }
    }
}

/// Commits before the kill: enough to be in the middle of the redo log.
const COMMITS: usize = 300;
/// And of the other client: most of them have read a page and made room for it.
const UPDATES: u64 = 100;
const PATIENCE: Duration = Duration::from_secs(600);
const DELAY: Delay = Delay { read_us: 200, write_us: 200, sync_us: 500, mode: DelayMode::Add, varies: false };
/// Rows of 1.9 KB, 8 MiB of them: more than the server's page cache holds.
#[allow(dead_code)]
pub(crate) const LARGE: u64 = 4096;
/// A layer that keeps in memory what it should have written is slow with more.
#[allow(dead_code)]
pub(crate) const SMALL: u64 = 128;

/// The children of a run are started from this program: set once, before the first run.
pub(crate) fn use_program(program: &str) {
    static ONCE: Once = Once::new();
    // SAFETY: done once, before any thread of this test program reads the environment.
    ONCE.call_once(|| unsafe { std::env::set_var("WRINGER_PROGRAM", program) });
}

/// A sandbox with its tables in it.
pub(crate) struct Subject {
    _home: tempfile::TempDir,
    places: Places,
    sandbox: Sandbox,
}

/// A server over a slow layer. Released with its run.
struct OnLayer {
    run: Run,
    layer: SlowLayer,
    server: RunningServer,
}

const NAME: &str = "durable";

impl Subject {
    /// `Err`: no such server is to be had here.
    pub(crate) fn deploy(flavour: Flavour) -> Result<Self, String> {
        let home = tempfile::Builder::new().prefix("wringer-durable-").tempdir().unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o711)).unwrap();
        let places = Places { cache: testkit::shared_cache(testkit::own_uid()), ..Places::below(home.path()) };
        let installation = match sandbox::locate(&Request { flavour, version: None }, &places, &mut ()) {
            Err(error @ sandbox::Error::SuiteUnreachable { .. }) => return Err(error.to_string()),
            other => other.unwrap(),
        };
        let spec = Spec { name: NAME.into(), ..Spec::new(installation) };
        let sandbox = Sandbox::deploy(spec, &places, &mut ()).unwrap();
        Ok(Self { _home: home, places, sandbox })
    }

    /// Starts the server on a slow layer, with so many rows in a table that is updated all over, commits rows, kills `victim` with SIGKILL in the middle, gives everything back, and
    /// starts the server again on the plain directory.
    pub(crate) fn commits_that_survive(&self, way: &Way, victim: Victim, rows: u64) -> Survivors {
        let OnLayer { run, layer, server } = self.start_on_layer(way.options);
        make_tables(&server, rows);
        let look = || way.check(server.pid, &self.sandbox);
        let (acknowledged, updates, looked) = commit_until_killed(&server, &layer, victim, rows, &look);
        let _released = run.release().unwrap();
        looked.unwrap();

        let present = self.start_plain(check::look);
        Survivors { acknowledged, updates, present }
    }

    /// As [`Self::commits_that_survive`], the server, with a library in it instead of a layer below it.
    #[allow(dead_code)] // as above
    pub(crate) fn commits_that_survive_with_a_library(&self, rows: u64) -> Survivors {
        let mut run = self.begin();
        let mut layer = SlowLayer::preload(&mut run, &self.sandbox.data(), &library_folder(&self.places), 0).unwrap();
        layer.set(&DELAY.into()).unwrap();
        let start = StartOptions::default().squeezed(SlowLayer::for_programs(&[&layer]));
        let server = self.sandbox.start(&mut run, &start).unwrap();
        make_tables(&server, rows);
        let before = layer.stats().unwrap().delayed_syncs;
        let (acknowledged, updates, _) = commit_until_killed(&server, &layer, Victim::Server, rows, &|| Ok(()));
        // one client's commits cannot share a sync
        let waited = layer.stats().unwrap().delayed_syncs - before;
        assert!(waited >= COMMITS as u64, "{waited} syncs have waited");
        let _released = run.release().unwrap();
        Survivors { acknowledged, updates, present: self.start_plain(check::look) }
    }

    fn start_on_layer(&self, options: &[&str]) -> OnLayer {
        let mut run = self.begin();
        let mut layer = SlowLayer::start(&mut run, &self.sandbox.data()).unwrap();
        layer.set(&DELAY.into()).unwrap();
        let extra_options = options.iter().map(|option| option.parse().unwrap()).collect();
        let start = StartOptions { namespaces_of: Some(layer.pid()), extra_options, ..StartOptions::default() };
        let server = self.sandbox.start(&mut run, &start).unwrap();
        OnLayer { run, layer, server }
    }

    /// Starts the server on the plain directory, and asks it.
    fn start_plain<T>(&self, ask: impl FnOnce(&Target) -> Result<T, String>) -> Result<T, String> {
        let mut run = self.begin();
        let started = self.sandbox.start(&mut run, &StartOptions::default());
        let answer = started.map_err(|error| error.to_string()).and_then(|server| ask(&server.target));
        let _released = run.release().unwrap();
        answer
    }

    fn begin(&self) -> Run {
        let resources = vec![Resource::Sandbox(NAME.to_owned())];
        let places = self.places.clone();
        Run::begin(Begin { kind: Kind::Run, command: vec!["test".into()], resources, places }).unwrap()
    }
}

/// New ones: what an earlier round left goes.
fn make_tables(server: &RunningServer, wanted: u64) {
    let mut connection = Connection::open(&server.target).unwrap();
    let mut run = |sql: &str| {
        connection.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    };
    run("DROP TABLE IF EXISTS durable");
    run("DROP TABLE IF EXISTS wide");
    run("CREATE TABLE durable (id BIGINT PRIMARY KEY, pad VARCHAR(200))");
    // below 2 KB PostgreSQL neither compresses a row nor moves a part of it out
    run("CREATE TABLE wide (id INT PRIMARY KEY, n INT NOT NULL, pad VARCHAR(1900) NOT NULL)");
    run(&format!("INSERT INTO wide VALUES (0, 0, '{}')", "x".repeat(1900)));
    let mut rows = 1;
    while rows < wanted {
        run(&format!("INSERT INTO wide SELECT id + {rows}, 0, pad FROM wide"));
        rows *= 2;
    }
}

/// One row a commit, from one connection, beside another that updates rows all over a larger table, while a third thread kills.
/// `look` is called when both have begun.
fn commit_until_killed(
    server: &RunningServer,
    layer: &SlowLayer,
    victim: Victim,
    rows: u64,
    look: &dyn Fn() -> Result<(), String>,
) -> (BTreeSet<u64>, u64, Result<(), String>) {
    let mut connection = Connection::open(&server.target).unwrap();
    let (server_pid, layer_pid) = (server.pid, layer.pid());
    // looked up when it is time: each client has a process of PostgreSQL's
    let victims = move || match victim {
        Victim::Server => family(server_pid),
        Victim::Layer => vec![layer_pid],
    };
    let (updates, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut acknowledged = BTreeSet::new();
    let mut looked = Err("too few commits to look at the server".to_owned());
    let deadline = Instant::now() + PATIENCE;
    thread::scope(|scope| {
        scope.spawn(|| update_until_killed(server, rows, &updates, &is_over));
        let mut killer = None;
        for id in 1.. {
            if Instant::now() > deadline {
                // the other client ends with the server
                kill(&family(server_pid));
                is_over.store(true, Ordering::Relaxed);
                panic!("after {PATIENCE:?} the server still answers: {victim:?}, {} commits", acknowledged.len());
            }
            let insert = format!("INSERT INTO durable VALUES ({id}, '{}')", "x".repeat(150));
            if connection.execute(&insert).is_err() {
                is_over.store(true, Ordering::Relaxed);
                break;
            }
            acknowledged.insert(id);
            if acknowledged.len() == COMMITS / 2 {
                looked = look();
            }
            if acknowledged.len() >= COMMITS && killer.is_none() && updates.load(Ordering::Relaxed) >= UPDATES {
                killer = Some(thread::spawn(move || kill(&victims())));
            }
        }
        killer.expect("as many commits as were asked for").join().unwrap();
    });
    (acknowledged, updates.load(Ordering::Relaxed), looked)
}

/// Each update is a commit, to a page that the cache is not likely to hold.
fn update_until_killed(server: &RunningServer, rows: u64, updates: &AtomicU64, is_over: &AtomicBool) {
    let mut connection = Connection::open(&server.target).unwrap();
    for step in 0.. {
        let id = step * 769 % rows;
        if connection.execute(&format!("UPDATE wide SET n = n + 1 WHERE id = {id}")).is_err()
            || is_over.load(Ordering::Relaxed)
        {
            break;
        }
        updates.fetch_add(1, Ordering::Relaxed);
    }
}

/// A server and its children, the parent first: PostgreSQL's would outlive it, and commit, as long as their clients are quick.
fn family(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    std::iter::once(pid).chain(children.split_whitespace().filter_map(|word| word.parse().ok())).collect()
}

fn kill(pids: &[u32]) {
    let pids = pids.iter().map(ToString::to_string);
    // children that have ended in between are not an error
    Command::new("kill").arg("-KILL").args(pids).status().unwrap();
}

/// Why the layer cannot be mounted here, if so.
pub(crate) fn why_not() -> Option<&'static str> {
    let open = fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok();
    (!open).then_some("needs /dev/fuse for ordinary users")
}
