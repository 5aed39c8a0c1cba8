// SPDX-License-Identifier: Apache-2.0
//! Sandboxes with the real servers, fetched as a user would get them.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use host::places::Places;
use load::admin::Connection;
use run::{Begin, Kind, Resource, Run};
use sandbox::{End, Error, Flavour, Installation, Request, Sandbox, ServerOption, Spec, StartOptions, Version};
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;
use std::time::Duration;

/// A home of its own, and a cache that all tests share, so that each server is fetched once.
struct Lab {
    home: tempfile::TempDir,
    places: Places,
}

/// Names a copy of the helper program that an ordinary user can reach.
const HELPER_COPY: &str = "WRINGER_TEST_HELPER";

fn helper_program() -> std::path::PathBuf {
    std::env::var_os(HELPER_COPY).map_or_else(|| env!("CARGO_BIN_EXE_sandbox-test-helper").into(), Into::into)
}

impl Lab {
    fn new() -> Self {
        static ONCE: Once = Once::new();
        // SAFETY: done once, before any test of this program has started a child; nothing here calls C's getenv.
        ONCE.call_once(|| unsafe { std::env::set_var("WRINGER_PROGRAM", helper_program()) });
        let home = tempfile::Builder::new().prefix("wringer-sandbox").tempdir().unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let places = Places { cache: shared_cache(), ..Places::below(home.path()) };
        Self { home, places }
    }

    fn run(&self, name: &str) -> Run {
        let resources = vec![Resource::Sandbox(name.into())];
        let begin = Begin { kind: Kind::Run, command: vec!["test".into()], resources, places: self.places.clone() };
        Run::begin(begin).unwrap()
    }

    fn deploy(&self, installation: &Installation, name: &str) -> Sandbox {
        Sandbox::deploy(spec(installation, name), &self.places, &mut ()).unwrap()
    }

    fn path(&self) -> &Path {
        self.home.path()
    }
}

fn shared_cache() -> PathBuf {
    let uid = rustix::process::geteuid().as_raw();
    std::env::temp_dir().join(format!("wringer-test-cache-{uid}"))
}

/// A fetched server, or why there is none here.
fn server(flavour: Flavour, lab: &Lab) -> Result<Installation, String> {
    let found = sandbox::fetched(flavour, &lab.places).into_iter().next();
    found.map_or_else(|| sandbox::fetch(&Request::any(flavour), &lab.places, &mut ()), Ok).map_err(
        |error| match error {
            error @ (Error::NoPackageClient { .. } | Error::NotOffered { .. } | Error::SuiteUnreachable { .. }) => {
                error.to_string()
            }
            error => panic!("{error}"),
        },
    )
}

macro_rules! server {
    ($flavour:expr, $lab:expr) => {
        match server($flavour, $lab) {
            Ok(installation) => installation,
            Err(why) => testkit::skip!("no {} to be had: {why}", $flavour),
        }
    };
}

/// From nothing to an answer and back to nothing.
fn round_trip(lab: &Lab, installation: &Installation) {
    let sandbox = lab.deploy(installation, "round");
    let mut run = lab.run("round");
    let server = sandbox.start(&mut run, &StartOptions::default()).unwrap();
    assert!(server.is_alive());
    assert!(server.version.contains(&installation.version.to_string()), "{}", server.version);
    for target in [sandbox.connection().unwrap(), sandbox.tcp_connection().unwrap()] {
        let mut connection = Connection::open(&target).unwrap();
        connection.execute("CREATE TABLE t (a int)").unwrap();
        assert_eq!(connection.execute("INSERT INTO t VALUES (1), (2)").unwrap(), 2);
        assert_eq!(connection.query("SELECT count(*) FROM t").unwrap().parse::<u32>(0, 0), Some(2));
        connection.execute("DROP TABLE t").unwrap();
    }
    assert_eq!(sandbox.server_process(), Some(server.pid));
    assert!(matches!(Sandbox::delete("round", &lab.places, false), Err(Error::Running { .. })));
    server.stop(&mut run).unwrap();
    assert_eq!(sandbox.server_process(), None);
    let held = Sandbox::delete("round", &lab.places, false);
    assert!(matches!(held, Err(Error::Run(_))), "the run may start its server again: {held:?}");
    let _ = run.release().unwrap();
    assert_eq!(Sandbox::delete("round", &lab.places, false).unwrap().kept, [] as [PathBuf; 0]);
    assert!(!sandbox.folder.exists());
}

#[test]
fn mariadb_from_nothing_and_back() {
    let lab = Lab::new();
    round_trip(&lab, &server!(Flavour::Mariadb, &lab));
}

#[test]
fn mysql_from_nothing_and_back() {
    let lab = Lab::new();
    round_trip(&lab, &server!(Flavour::Mysql, &lab));
}

#[test]
fn postgresql_from_nothing_and_back() {
    let lab = Lab::new();
    round_trip(&lab, &server!(Flavour::Postgresql, &lab));
}

#[test]
fn postgresql_starts_where_another_process_has_its_old_number() {
    let lab = Lab::new();
    let sandbox = lab.deploy(&server!(Flavour::Postgresql, &lab), "again");
    let beside_socket = format!("run/.s.PGSQL.{}.lock", sandbox.manifest.port);
    starts_beside_its_old_number(&lab, &sandbox, &["data/postmaster.pid", &beside_socket]);
}

#[test]
fn mysql_starts_where_another_process_has_its_old_number() {
    let lab = Lab::new();
    let sandbox = lab.deploy(&server!(Flavour::Mysql, &lab), "again");
    starts_beside_its_old_number(&lab, &sandbox, &["run/server.sock.lock"]);
}

/// As after a power cut: the number that the server had is that of another process of the same user now.
fn starts_beside_its_old_number(lab: &Lab, sandbox: &Sandbox, lock_files: &[&str]) {
    let data = fs::metadata(sandbox.data()).unwrap();
    let mut other = Command::new("sleep").arg("600").uid(data.uid()).gid(data.gid()).spawn().unwrap();
    for file in lock_files {
        let file = sandbox.folder.join(file);
        fs::write(&file, format!("{}\n{}\n1700000000\n5432\n", other.id(), sandbox.data().display())).unwrap();
        std::os::unix::fs::chown(&file, Some(data.uid()), Some(data.gid())).unwrap();
    }
    let mut run = lab.run("again");
    let started = sandbox.start(&mut run, &StartOptions::default()).map(|server| server.pid);
    let goes_on = other.try_wait().unwrap().is_none();
    other.kill().and_then(|()| other.wait()).unwrap();
    assert!(started.is_ok() && goes_on, "{started:?}");
    let _ = run.release().unwrap();
}

fn option(text: &str) -> ServerOption {
    text.parse().unwrap()
}

fn spec(installation: &Installation, name: &str) -> Spec {
    Spec { name: name.into(), ..Spec::new(installation.clone()) }
}

/// A standing server: begun, started, left.
fn stand(lab: &Lab, sandbox: &Sandbox) -> u32 {
    let resources = vec![Resource::Sandbox(sandbox.name().into())];
    let places = lab.places.clone();
    let begin = Begin { kind: Kind::Standing, command: vec!["test".into()], resources, places };
    let mut run = Run::begin(begin).unwrap();
    let server = sandbox.start(&mut run, &StartOptions { standing: true, ..StartOptions::default() }).unwrap();
    run.leave().unwrap();
    server.pid
}

/// Ends listening. A program that another test has just forked listens as well, until it is executed.
fn give_back(listener: TcpListener) {
    let address = listener.local_addr().unwrap();
    drop(listener);
    let is_free = || TcpListener::bind(address).is_ok();
    assert!(testkit::wait_until(Duration::from_secs(30), is_free), "somebody listens at {address}");
}

#[test]
fn the_name_and_the_port_of_another_are_refused() {
    let lab = Lab::new();
    let installation = server!(Flavour::Postgresql, &lab);
    let sandbox = lab.deploy(&installation, "one");
    let again = Sandbox::deploy(spec(&installation, "one"), &lab.places, &mut ());
    assert!(matches!(again, Err(Error::NameTaken { .. })), "{again:?}");

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, sandbox.manifest.port)).unwrap();
    let same_port = Spec { port: Some(sandbox.manifest.port), ..spec(&installation, "two") };
    let refused = Sandbox::deploy(same_port, &lab.places, &mut ()).unwrap_err();
    assert!(matches!(refused, Error::PortInUse { .. }) && refused.is_missing(), "{refused}");
    assert!(!lab.places.sandboxes.join("two").exists());

    give_back(listener);
    let asked = Spec { port: Some(sandbox.manifest.port), ..spec(&installation, "two") };
    let asked = Sandbox::deploy(asked, &lab.places, &mut ()).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, asked.manifest.port)).unwrap();
    let mut run = lab.run("two");
    let refused = asked.start(&mut run, &StartOptions::default()).unwrap_err();
    assert!(matches!(refused, Error::PortInUse { .. }) && refused.is_missing(), "{refused}");
    give_back(listener);
    asked.start(&mut run, &StartOptions::default()).unwrap();
    let _ = run.release().unwrap();
}

#[test]
fn a_port_that_was_chosen_moves_when_it_is_taken() {
    let lab = Lab::new();
    for flavour in sandbox::FETCHED {
        let installation = server!(flavour, &lab);
        let sandbox = lab.deploy(&installation, flavour.name());
        let edited = fs::read_to_string(sandbox.configuration()).unwrap() + "# mine\n";
        fs::write(sandbox.configuration(), edited).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, sandbox.manifest.port)).unwrap();
        let mut run = lab.run(flavour.name());
        let server = sandbox.start(&mut run, &StartOptions::default()).unwrap();
        assert_ne!(server.port, sandbox.manifest.port);
        Connection::open(&server.target).unwrap();
        let now = Sandbox::open(flavour.name(), &lab.places).unwrap();
        assert_eq!((now.manifest.port, now.socket()), (server.port, server.socket.clone()));
        Connection::open(&now.tcp_connection().unwrap()).unwrap();
        assert!(fs::read_to_string(sandbox.configuration()).unwrap().ends_with("# mine\n"));
        server.stop(&mut run).unwrap();
        drop(listener);
        let again = sandbox.start(&mut run, &StartOptions::default()).unwrap();
        assert_eq!(again.port, now.manifest.port, "it does not move back");
        let _ = run.release().unwrap();
    }
}

/// Homes do not see each other's manifests: here they all remember one port, and start at the same time.
#[test]
fn servers_of_many_homes_that_remember_one_port_start_together() {
    const HOMES: usize = 8;
    let labs: Vec<Lab> = (0..HOMES).map(|_| Lab::new()).collect();
    let installation = server!(Flavour::Postgresql, &labs[0]);
    let gate = std::sync::Barrier::new(HOMES);
    let one = labs[0].deploy(&installation, "same").manifest.port;
    Sandbox::delete("same", &labs[0].places, false).unwrap();
    let start = |lab: &Lab| {
        let mut sandbox = lab.deploy(&installation, "same");
        sandbox.manifest.port = one;
        fs::write(sandbox.folder.join("manifest.json"), serde_json::json!(sandbox.manifest).to_string()).unwrap();
        gate.wait();
        let mut run = lab.run("same");
        let server = sandbox.start(&mut run, &StartOptions::default()).unwrap();
        let tcp = Sandbox::open("same", &lab.places).unwrap().tcp_connection().unwrap();
        Connection::open(&tcp).unwrap();
        (server.port, run)
    };
    let started: Vec<(u16, Run)> = std::thread::scope(|scope| {
        let threads: Vec<_> = labs.iter().map(|lab| scope.spawn(|| start(lab))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let ports: std::collections::BTreeSet<u16> = started.iter().map(|(port, _)| *port).collect();
    assert_eq!(ports.len(), HOMES, "{ports:?}");
    assert!(ports.contains(&one), "one of them keeps it: {one}, {ports:?}");
}

#[test]
fn a_server_that_dies_at_start_shows_why() {
    let lab = Lab::new();
    for (flavour, word) in [(Flavour::Mariadb, "no_such_option"), (Flavour::Postgresql, "no_such_option")] {
        let installation = server!(flavour, &lab);
        let sandbox = lab.deploy(&installation, flavour.name());
        let mut run = lab.run(flavour.name());
        let extra_options = vec![option(&format!("{word}=1"))];
        let error = sandbox.start(&mut run, &StartOptions { extra_options, ..StartOptions::default() }).unwrap_err();
        assert!(matches!(error, Error::Died { status: Some(1..128), .. }), "{error}");
        assert!(error.to_string().replace('-', "_").contains(word), "{error}");
        assert_eq!(sandbox.server_process(), None);
        let server = sandbox.start(&mut run, &StartOptions::default()).unwrap();
        Command::new("sh").args(["-c", &format!("kill -9 {}", server.pid)]).status().unwrap();
        assert!(server.wait(Duration::from_secs(5)));
        assert_eq!(server.stop(&mut run).unwrap(), End::Before { status: Some(137) });
        let extra_options = vec![option("port=bad")];
        let error = sandbox.start(&mut run, &StartOptions { extra_options, ..StartOptions::default() }).unwrap_err();
        assert!(!error.to_string().contains(word), "lines of an earlier start: {error}");
        let _ = run.release().unwrap();
    }
}

#[test]
fn a_deployment_that_fails_leaves_nothing() {
    let lab = Lab::new();
    for flavour in sandbox::FETCHED {
        let installation = server!(flavour, &lab);
        let bad = Spec { options: vec![option("no_such_option=1")], ..spec(&installation, "bad") };
        let error = Sandbox::deploy(bad, &lab.places, &mut ()).unwrap_err();
        assert!(error.to_string().replace('-', "_").contains("no_such_option"), "{error}");
        assert!(!lab.places.sandboxes.join("bad").exists());
        assert!(Sandbox::list(&lab.places).is_empty());
    }
}

#[test]
fn options_reach_the_server() {
    let lab = Lab::new();
    let mariadb = server!(Flavour::Mariadb, &lab);
    let options = vec![option("innodb-buffer-pool-size=24M"), option("innodb_page_size=8k")];
    let sandbox = Sandbox::deploy(Spec { options, ..spec(&mariadb, "m") }, &lab.places, &mut ()).unwrap();
    let mut run = lab.run("m");
    let extra_options = vec![option("innodb_flush_method=fsync")];
    let server = sandbox.start(&mut run, &StartOptions { extra_options, ..StartOptions::default() }).unwrap();
    let mut connection = Connection::open(&server.target).unwrap();
    let sql = "SELECT @@innodb_buffer_pool_size, @@innodb_page_size, @@innodb_flush_method, @@log_bin, @@bind_address";
    let rows = connection.query(sql).unwrap();
    let values: Vec<_> = (0..5).map(|column| rows.text(0, column).unwrap()).collect();
    assert_eq!(values, ["25165824", "8192", "fsync", "0", "127.0.0.1"]);
    let accounts = connection.query("SELECT User, Host FROM mysql.global_priv WHERE User <> 'wringer'").unwrap();
    assert_eq!((accounts.len(), accounts.text(0, 0).unwrap().as_str()), (1, "mariadb.sys"));
    let _ = run.release().unwrap();

    let postgresql = server!(Flavour::Postgresql, &lab);
    let options = vec![option("shared_buffers=24MB"), option("data_checksums=on")];
    let sandbox = Sandbox::deploy(Spec { options, ..spec(&postgresql, "p") }, &lab.places, &mut ()).unwrap();
    let mut run = lab.run("p");
    let server = sandbox.start(&mut run, &StartOptions::default()).unwrap();
    let mut connection = Connection::open(&server.target).unwrap();
    let show =
        |connection: &mut Connection, name| connection.query(&format!("SHOW {name}")).unwrap().text(0, 0).unwrap();
    let names = ["shared_buffers", "data_checksums", "fsync", "listen_addresses", "huge_pages", "max_connections"];
    let values = names.map(|name| show(&mut connection, name));
    assert_eq!(values, ["24MB", "on", "on", "127.0.0.1", "off", "100"]);
    let _ = run.release().unwrap();
}

#[test]
fn a_wrong_password_does_not_get_in() {
    let lab = Lab::new();
    for flavour in sandbox::FETCHED {
        let installation = server!(flavour, &lab);
        let sandbox = lab.deploy(&installation, flavour.name());
        let mut run = lab.run(flavour.name());
        let server = sandbox.start(&mut run, &StartOptions::default()).unwrap();
        for target in [sandbox.connection().unwrap(), sandbox.tcp_connection().unwrap()] {
            for user in ["wringer", "root", "postgres", ""] {
                let wrong =
                    load::Target { user: user.into(), password: load::Password::new("guess"), ..target.clone() };
                assert!(Connection::open(&wrong).is_err(), "{flavour} {user}");
                let none = load::Target { password: load::Password::default(), ..wrong };
                assert!(Connection::open(&none).is_err(), "{flavour} {user}");
            }
        }
        server.stop(&mut run).unwrap();
        let _ = run.release().unwrap();
    }
}

#[test]
fn a_standing_server_outlives_its_starter_until_it_is_deleted_by_force() {
    let lab = Lab::new();
    let installation = server!(Flavour::Postgresql, &lab);
    let sandbox = lab.deploy(&installation, "standing");
    let starting = lab.run("standing");
    let refused = sandbox.clear_runs(&lab.places);
    assert!(matches!(&refused, Err(Error::Starting { run, .. }) if run == starting.id()), "{refused:?}");
    let _ = starting.release().unwrap();

    let pid = stand(&lab, &sandbox);
    assert_eq!(sandbox.server_process(), Some(pid));
    assert!(matches!(Sandbox::delete("standing", &lab.places, false), Err(Error::Running { .. })));
    assert_eq!(sandbox.stop_standing(&lab.places).unwrap().len(), 1);
    assert_eq!(sandbox.server_process(), None);
    assert!(matches!(sandbox.stop_standing(&lab.places), Err(Error::NotRunning { .. })));

    stand(&lab, &sandbox);
    let deleted = Sandbox::delete("standing", &lab.places, true).unwrap();
    assert_eq!((deleted.ended.len(), deleted.kept.len()), (1, 0));
    assert!(!sandbox.folder.exists());
}

#[test]
fn a_deployment_that_was_killed_is_cleared_by_the_next() {
    let lab = Lab::new();
    let installation = server!(Flavour::Mariadb, &lab);
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_sandbox-test-helper"))
        .args(["deploy".as_ref(), lab.path().as_os_str(), lab.places.cache.as_os_str(), "cut".as_ref()])
        .spawn()
        .unwrap();
    let folder = lab.places.sandboxes.join("cut");
    while !folder.join("data/ibdata1").exists() {
        assert!(child.try_wait().unwrap().is_none(), "ended before it was killed");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(matches!(Sandbox::open("cut", &lab.places), Err(Error::HalfDeployed { .. })));
    let sandbox = lab.deploy(&installation, "cut");
    let mut run = lab.run("cut");
    sandbox.start(&mut run, &StartOptions::default()).unwrap();
    let _ = run.release().unwrap();
    Sandbox::delete("cut", &lab.places, false).unwrap();
}

#[test]
fn a_path_too_long_for_a_socket_gets_a_short_one() {
    let mut lab = Lab::new();
    lab.places.sandboxes = lab.path().join("x".repeat(100));
    for flavour in sandbox::FETCHED {
        let installation = server!(flavour, &lab);
        let sandbox = lab.deploy(&installation, flavour.name());
        assert!(sandbox.socket().as_os_str().len() <= 107);
        let mut run = lab.run(flavour.name());
        sandbox.start(&mut run, &StartOptions::default()).unwrap().stop(&mut run).unwrap();
        // as by a reboot that empties /tmp
        fs::remove_dir_all(&sandbox.manifest.socket_folder).unwrap();
        sandbox.start(&mut run, &StartOptions::default()).unwrap().stop(&mut run).unwrap();
        let _ = run.release().unwrap();
        Sandbox::delete(flavour.name(), &lab.places, false).unwrap();
        assert!(!sandbox.manifest.socket_folder.exists());
    }
}

#[test]
fn a_missing_program_is_named() {
    let lab = Lab::new();
    let installation = server!(Flavour::Postgresql, &lab);
    let mut sandbox = lab.deploy(&installation, "gone");
    sandbox.manifest.installation.program = "/nowhere/bin/postgres".into();
    let mut run = lab.run("gone");
    let error = sandbox.start(&mut run, &StartOptions::default()).unwrap_err();
    assert!(matches!(error, Error::ProgramGone { .. }) && error.is_missing(), "{error}");
    let _ = run.release().unwrap();
}

#[test]
fn a_version_that_nobody_has_is_refused_with_those_that_are_offered() {
    let lab = Lab::new();
    server!(Flavour::Postgresql, &lab);
    let request: Request = "postgresql 7.1".parse().unwrap();
    match sandbox::locate(&request, &lab.places, &mut ()) {
        // what the distribution offers, whichever versions this machine has from elsewhere
        Err(ref error @ Error::NotOffered { ref offered, .. }) => {
            assert!(error.is_missing());
            assert!(!offered.is_empty() && offered.iter().all(|one| one.parse::<Version>().is_ok()), "{error}");
            assert!(offered.iter().all(|one| error.to_string().contains(one)), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn as_root_the_server_owns_what_it_writes_and_nothing_else() {
    if !rustix::process::geteuid().is_root() {
        testkit::skip!("needs root");
    }
    let lab = Lab::new();
    let installation = server!(Flavour::Postgresql, &lab);
    let sandbox = lab.deploy(&installation, "owned");
    let user = &sandbox.manifest.user;
    let look = |name: &str| fs::metadata(sandbox.folder.join(name)).unwrap();
    for name in ["data", "run", "tmp"] {
        assert_eq!((look(name).uid(), look(name).mode() & 0o777), (user.uid, 0o700), "{name}");
    }
    for name in ["secret", "lock", "log", "manifest.json", "server.cnf"] {
        assert_eq!((look(name).uid(), look(name).mode() & 0o022), (0, 0), "{name}");
    }
    assert_eq!(look("secret").mode() & 0o777, 0o600);
    assert_eq!(look(".").mode() & 0o777, 0o710);
    let mut run = lab.run("owned");
    let server = sandbox.start(&mut run, &StartOptions::default()).unwrap();
    assert_eq!(fs::metadata(format!("/proc/{}", server.pid)).unwrap().uid(), user.uid);
    let _ = run.release().unwrap();

    fs::set_permissions(lab.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let error = Sandbox::deploy(spec(&installation, "unreachable"), &lab.places, &mut ()).unwrap_err();
    assert!(matches!(&error, Error::Unreachable { component, .. } if component == lab.path()), "{error}");
    assert!(!lab.places.sandboxes.join("unreachable").exists());
}

/// The round trips of this file once more, as nobody: fetched into a cache of its own.
#[test]
fn everything_works_as_an_ordinary_user() {
    if !rustix::process::geteuid().is_root() {
        testkit::skip!("the other tests ran as an ordinary user");
    }
    let Some(setpriv) = host::tool::find("setpriv") else { testkit::skip!("no setpriv") };
    // copies that nobody can reach: a clone below /root is closed to others
    let reachable = tempfile::Builder::new().prefix("wringer-nobody").tempdir().unwrap();
    fs::set_permissions(reachable.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (program, helper) = (reachable.path().join("servers"), reachable.path().join("helper"));
    testkit::copy_program(&std::env::current_exe().unwrap(), &program);
    testkit::copy_program(&helper_program(), &helper);
    let as_nobody = |program: &Path| {
        let mut command = std::process::Command::new(&setpriv);
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
        command.env_remove("SUDO_UID").env("HOME", "/nonexistent").env(HELPER_COPY, &helper).current_dir("/");
        command
    };
    let output = as_nobody(&program).arg("from_nothing_and_back").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("3 passed"), "{text}");
}
