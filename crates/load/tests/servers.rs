// SPDX-License-Identifier: Apache-2.0
//! Logins, bulk loads and loads with real servers: started here, by the plain program, with accounts of every method.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // test code starts servers

use evidence::Arrivals;
use host::clock::RunClock;
use host::places::Places;
use load::admin::Connection;
use load::engine::{Hooks, LoadSpec, PhaseEdge};
use load::{Endpoint, Error, Password, Target, Tls};
use sandbox::{Flavour, Installation, Request, Sandbox, Spec};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use workload::distribution::Distribution;
use workload::{Name, Options, Tables, build};

/// A server of its own, killed at the end.
struct Server {
    child: Child,
    sandbox: Sandbox,
    home: tempfile::TempDir,
}

impl Server {
    /// `prepare` may change files of the data directory before the start, and returns further arguments.
    fn start(flavour: Flavour, prepare: impl FnOnce(&Sandbox) -> Vec<String>) -> Result<Self, String> {
        let home = tempfile::Builder::new().prefix("wringer-load").tempdir().unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let uid = rustix::process::geteuid().as_raw();
        let cache = std::env::temp_dir().join(format!("wringer-test-cache-{uid}"));
        let places = Places { cache, ..Places::below(home.path()) };
        let spec = Spec { name: "load".into(), ..Spec::new(installation(flavour, &places)?) };
        let sandbox = Sandbox::deploy(spec, &places, &mut ()).unwrap();
        let more = prepare(&sandbox);
        let (program, arguments) = sandbox.command_line(&[]).unwrap();
        let log = fs::OpenOptions::new().append(true).create(true).open(sandbox.log()).unwrap();
        let mut command = Command::new(program);
        command.args(arguments).args(more).envs(sandbox.manifest.installation.environment()).env("LC_ALL", "C");
        command.current_dir(sandbox.data()).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        if let Some((uid, gid)) = sandbox.manifest.user.identity() {
            command.uid(uid).gid(gid);
        }
        let server = Self { child: command.spawn().unwrap(), sandbox, home };
        server.await_ready();
        Ok(server)
    }

    fn await_ready(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while let Err(error) = Connection::open(&self.target()) {
            let log = || fs::read_to_string(self.sandbox.log()).unwrap_or_default();
            assert!(Instant::now() < deadline, "{error}: {}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// As the user with all rights, over the socket.
    fn target(&self) -> Target {
        self.sandbox.connection().unwrap()
    }

    fn tcp(&self) -> Target {
        self.sandbox.tcp_connection().unwrap()
    }

    fn admin(&self) -> Connection {
        Connection::open(&self.target()).unwrap()
    }

    fn as_user(&self, user: &str, password: &str, target: Target) -> Result<String, Error> {
        let target = Target { user: user.into(), password: Password::new(password), ..target };
        let rows = Connection::open(&target)?.query("SELECT CURRENT_USER")?;
        Ok(rows.text(0, 0).unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.home.path();
    }
}

fn installation(flavour: Flavour, places: &Places) -> Result<Installation, String> {
    if let Some(found) = sandbox::fetched(flavour, places).into_iter().next() {
        return Ok(found);
    }
    sandbox::locate(&Request::any(flavour), places, &mut ()).map_err(|error| error.to_string())
}

macro_rules! server {
    ($flavour:expr, $prepare:expr) => {
        match Server::start($flavour, $prepare) {
            Ok(server) => server,
            Err(why) => testkit::skip!("no {} to be had: {why}", $flavour),
        }
    };
}

fn refusal(result: Result<String, Error>) -> String {
    result.unwrap_err().code().unwrap().to_owned()
}

#[test]
fn mariadb_lets_in_who_has_the_password() {
    let server = server!(Flavour::Mariadb, |_| Vec::new());
    let mut admin = server.admin();
    admin.execute("CREATE USER native@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('right')").unwrap();
    admin.execute("CREATE USER nothing@'%' IDENTIFIED BY ''").unwrap();
    admin.execute("GRANT ALL ON *.* TO native@'%'").unwrap();
    admin.execute("GRANT ALL ON *.* TO nothing@'%'").unwrap();
    for target in [server.target(), server.tcp()] {
        assert_eq!(server.as_user("native", "right", target.clone()).unwrap(), "native@%");
        assert_eq!(server.as_user("nothing", "", target.clone()).unwrap(), "nothing@%");
        assert_eq!(refusal(server.as_user("native", "wrong", target)), "1045");
    }
    if admin.execute("INSTALL SONAME 'auth_ed25519'").is_ok() {
        admin.execute("CREATE USER edward@'%' IDENTIFIED VIA ed25519 USING PASSWORD('right')").unwrap();
        admin.execute("GRANT ALL ON *.* TO edward@'%'").unwrap();
        assert_eq!(server.as_user("edward", "right", server.tcp()).unwrap(), "edward@%");
        assert_eq!(refusal(server.as_user("edward", "wrong", server.tcp())), "1045");
    }
}

/// sha256_password, and caching_sha2_password, MySQL's usual one: the password itself goes over the socket and inside TLS, and over plain TCP
/// under the server's RSA key; once it has been seen, a hash of it goes over any of them.
#[test]
fn mysql_lets_in_who_has_the_password() {
    let server = server!(Flavour::Mysql, |_| Vec::new());
    let mut admin = server.admin();
    let long = "0123456789".repeat(9);
    for (user, password) in [("brief", "right"), ("lengthy", long.as_str()), ("nothing", "")] {
        admin.execute(&format!("CREATE USER {user}@'%' IDENTIFIED BY '{password}'")).unwrap();
        admin.execute(&format!("GRANT ALL ON sbtest.* TO {user}@'%'")).unwrap();
    }
    let plugins = admin.query("SELECT DISTINCT plugin FROM mysql.user").unwrap();
    assert_eq!((plugins.len(), plugins.text(0, 0).as_deref()), (1, Some("caching_sha2_password")));
    admin.execute("CREATE USER older@'%' IDENTIFIED WITH sha256_password BY 'right'").unwrap();
    admin.execute("GRANT ALL ON sbtest.* TO older@'%'").unwrap();
    let over_tls = Target { tls: Tls::Require, ..server.tcp() };
    let plain = Target { tls: Tls::Disable, ..server.tcp() };
    for target in [server.target(), over_tls, plain] {
        // empties the server's cache of hashes
        admin.execute("FLUSH PRIVILEGES").unwrap();
        assert_eq!(server.as_user("older", "right", target.clone()).unwrap(), "older@%");
        assert_eq!(refusal(server.as_user("older", "wrong", target.clone())), "1045");
        for _ in ["with the password", "with its hash"] {
            assert_eq!(server.as_user("brief", "right", target.clone()).unwrap(), "brief@%");
            assert_eq!(server.as_user("lengthy", &long, target.clone()).unwrap(), "lengthy@%");
            assert_eq!(server.as_user("nothing", "", target.clone()).unwrap(), "nothing@%");
            assert_eq!(refusal(server.as_user("brief", "wrong", target.clone())), "1045");
        }
    }
}

#[test]
fn postgresql_lets_in_who_has_the_password() {
    let methods = "local all trusting trust\nlocal all all scram-sha-256\nhost all hashed all md5\nhost all plain all password\n\
                   host all all all scram-sha-256\n";
    let server = server!(Flavour::Postgresql, |sandbox| {
        fs::write(sandbox.data().join("pg_hba.conf"), methods).unwrap();
        Vec::new()
    });
    let mut admin = server.admin();
    admin.execute("CREATE ROLE trusting LOGIN").unwrap();
    admin.execute("CREATE ROLE scram LOGIN PASSWORD 'right'; CREATE ROLE plain LOGIN PASSWORD 'right'").unwrap();
    admin.execute("SET password_encryption = 'md5'; CREATE ROLE hashed LOGIN PASSWORD 'right'").unwrap();
    assert_eq!(server.as_user("trusting", "", server.target()).unwrap(), "trusting");
    assert_eq!(server.as_user("scram", "right", server.target()).unwrap(), "scram");
    for user in ["scram", "hashed", "plain"] {
        assert_eq!(server.as_user(user, "right", server.tcp()).unwrap(), user);
        assert_eq!(refusal(server.as_user(user, "wrong", server.tcp())), "28P01");
    }
}

/// A key and a certificate that nobody signed, readable by the server.
fn certificate(sandbox: &Sandbox) -> Option<(String, String)> {
    let file = |name: &str| sandbox.data().join(name).display().to_string();
    let (key, certificate) = (file("server.key"), file("server.crt"));
    let authority = |name: &str| sandbox.folder.join(name).display().to_string();
    let openssl = |arguments: &[&str]| Command::new("openssl").args(arguments).output().ok();
    let new = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"];
    for name in ["ca", "other-ca"] {
        let (key, certificate) = (authority(&format!("{name}.key")), authority(&format!("{name}.crt")));
        openssl(&[&new[..], &["-subj", &format!("/CN={name}"), "-keyout", &key, "-out", &certificate]].concat())?;
    }
    let signed = ["-CA", &authority("ca.crt"), "-CAkey", &authority("ca.key"), "-subj", "/CN=server"];
    let named = ["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"];
    let made = openssl(&[&new[..], &signed, &named, &["-keyout", &key, "-out", &certificate]].concat())?;
    if let Some((uid, gid)) = sandbox.manifest.user.identity() {
        std::os::unix::fs::chown(&key, Some(uid), Some(gid)).unwrap();
        std::os::unix::fs::chown(&certificate, Some(uid), Some(gid)).unwrap();
    }
    made.status.success().then_some((key, certificate))
}

/// Encrypted queries, by the server's own word; and a load over TLS.
fn check_tls(server: &Server, question: &str, column: usize) {
    let target = Target { tls: Tls::Require, ..server.tcp() };
    let mut connection = Connection::open(&target).unwrap();
    let cipher = connection.query(question).unwrap().text(0, column).unwrap();
    assert!(cipher.contains("AES") || cipher.contains("CHACHA"), "cipher '{cipher}'");
    let big = connection.query("SELECT repeat('x', 300000)").unwrap();
    assert_eq!(big.text(0, 0).unwrap().len(), 300_000);
    drop(connection);
    let plain = Target { tls: Tls::Disable, ..server.tcp() };
    let cipher = Connection::open(&plain).unwrap().query(question).unwrap().text(0, column).unwrap_or_default();
    assert!(!cipher.contains("AES"), "'{cipher}' without TLS");
    check_load(server, &target, Name::OltpReadOnly, 3);
    check_verification(server);
}

/// The certificate names `localhost`; 127.0.0.1 is the same server, and another name.
fn check_verification(server: &Server) {
    let port = server.sandbox.manifest.port;
    let open = |host: &str, tls: Tls, ca: &str| {
        let tls_ca = Some(server.sandbox.folder.join(ca));
        Connection::open(&Target { endpoint: Endpoint::Tcp(host.into(), port), tls, tls_ca, ..server.tcp() })
    };
    let refusal =
        |host, tls, ca| open(host, tls, ca).err().unwrap_or_else(|| panic!("{host} {tls:?} {ca}")).to_string();
    open("localhost", Tls::VerifyFull, "ca.crt").unwrap();
    open("127.0.0.1", Tls::VerifyCa, "ca.crt").unwrap();
    open("localhost", Tls::VerifyFull, "data/server.crt").unwrap();
    let wrong_name = refusal("127.0.0.1", Tls::VerifyFull, "ca.crt");
    assert!(wrong_name.contains("127.0.0.1") && wrong_name.contains("localhost"), "{wrong_name}");
    assert!(refusal("127.0.0.1", Tls::VerifyFull, "data/server.crt").contains("localhost"));
    for tls in [Tls::VerifyCa, Tls::VerifyFull] {
        let wrong_authority = refusal("localhost", tls, "other-ca.crt");
        assert!(wrong_authority.contains("UnknownIssuer"), "{wrong_authority}");
        assert!(refusal("localhost", tls, "no-such.crt").contains("no-such.crt"));
        assert!(refusal("localhost", tls, "data/server.key").contains("holds no certificates"));
    }
}

#[test]
fn a_server_that_wants_tls_refuses_plain_connections() {
    let mut made = None;
    let server = server!(Flavour::Mariadb, |sandbox| {
        made = certificate(sandbox);
        let tls = made.iter().flat_map(|(key, cert)| [format!("--ssl-key={key}"), format!("--ssl-cert={cert}")]);
        tls.chain(["--require-secure-transport=on".to_owned()]).collect()
    });
    if made.is_none() {
        testkit::skip!("needs openssl");
    }
    let open = |tls| Connection::open(&Target { tls, ..server.tcp() });
    // MariaDB 10.11 says "access denied", MySQL 3159
    let refused = open(Tls::Disable).err().unwrap();
    assert!(matches!(refused.code(), Some("1045" | "3159")), "{refused}");
    for tls in [Tls::Prefer, Tls::Require] {
        open(tls).unwrap().query("SELECT 1").unwrap();
    }

    let mut made = None;
    let server = server!(Flavour::Postgresql, |sandbox| {
        made = certificate(sandbox);
        let rules = "local all all scram-sha-256\nhostssl all all 127.0.0.1/32 scram-sha-256\n";
        fs::write(sandbox.data().join("pg_hba.conf"), rules).unwrap();
        ["-c", "ssl=on"].map(str::to_owned).to_vec()
    });
    let open = |tls| Connection::open(&Target { tls, ..server.tcp() });
    assert_eq!(open(Tls::Disable).err().unwrap().code(), Some("28000"));
    for tls in [Tls::Prefer, Tls::Require] {
        open(tls).unwrap().query("SELECT 1").unwrap();
    }
}

#[test]
fn mariadb_talks_tls() {
    let mut made = None;
    let server = server!(Flavour::Mariadb, |sandbox| {
        made = certificate(sandbox);
        made.iter().flat_map(|(key, cert)| [format!("--ssl-key={key}"), format!("--ssl-cert={cert}")]).collect()
    });
    if made.is_none() {
        testkit::skip!("needs openssl");
    }
    check_tls(&server, "SHOW STATUS LIKE 'Ssl_cipher'", 1);
}

#[test]
fn mysql_talks_tls() {
    let mut made = None;
    let server = server!(Flavour::Mysql, |sandbox| {
        made = certificate(sandbox);
        made.iter().flat_map(|(key, cert)| [format!("--ssl-key={key}"), format!("--ssl-cert={cert}")]).collect()
    });
    if made.is_none() {
        testkit::skip!("needs openssl");
    }
    check_tls(&server, "SHOW STATUS LIKE 'Ssl_cipher'", 1);
}

#[test]
fn postgresql_talks_tls() {
    let mut made = None;
    let server = server!(Flavour::Postgresql, |sandbox| {
        made = certificate(sandbox);
        made.iter().flat_map(|_| ["-c", "ssl=on"].map(str::to_owned)).collect()
    });
    if made.is_none() {
        testkit::skip!("needs openssl");
    }
    check_tls(&server, "SELECT cipher FROM pg_stat_ssl WHERE pid = pg_backend_pid()", 0);
}

#[test]
fn tls_that_is_not_there_is_refused_when_required() {
    let server = server!(Flavour::Postgresql, |_| Vec::new());
    let refused = Connection::open(&Target { tls: Tls::Require, ..server.tcp() }).err().unwrap();
    assert!(matches!(refused, Error::NoTls { .. }), "{refused}");
    let prefers = Target { tls: Tls::Prefer, ..server.tcp() };
    assert!(Connection::open(&prefers).is_ok());
}

const ROWS: u64 = 500;

/// sbtest1, by a bulk load.
#[test]
fn several_statements_have_an_answer_each() {
    let server = server!(Flavour::Postgresql, |_| Vec::new());
    let results = server.admin().query_each("SELECT 1 AS a; SELECT 2 AS b, 3 AS c; SELECT 4 AS d WHERE false").unwrap();
    let columns: Vec<_> = results.iter().map(|rows| rows.columns.join(" ")).collect();
    assert_eq!(columns, ["a", "b c", "d"]);
    assert_eq!(results.iter().map(|rows| rows.len()).collect::<Vec<_>>(), [1, 1, 0]);
    assert_eq!(results[1].text(0, 1).as_deref(), Some("3"));
}

fn fill(server: &Server) {
    let mut admin = server.admin();
    let (table, copy) = match server.sandbox.flavour() {
        Flavour::Mariadb | Flavour::Mysql | Flavour::Percona => (
            "CREATE TABLE sbtest1 (id INT PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL)",
            "LOAD DATA LOCAL INFILE 'rows' INTO TABLE sbtest1",
        ),
        Flavour::Postgresql => (
            "CREATE TABLE sbtest1 (id INT PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL)",
            "COPY sbtest1 FROM STDIN",
        ),
    };
    admin.execute(table).unwrap();
    let mut id = 0;
    let loaded = admin.copy_in(copy, &mut |rows| {
        id += 1;
        rows.extend_from_slice(format!("{id}\t{id}\tc{id}\tpad\n").as_bytes());
        id < ROWS
    });
    assert_eq!(loaded.unwrap(), ROWS);
    assert_eq!(admin.query("SELECT count(*), max(id) FROM sbtest1").unwrap().parse::<u64>(0, 0), Some(ROWS));
}

fn check_load(server: &Server, target: &Target, name: Name, connections: u32) {
    let mut admin = server.admin();
    if admin.query("SELECT 1 FROM sbtest1 LIMIT 1").is_err() {
        fill(server);
    }
    let tables = Tables { table_size: ROWS, connections, ..Tables::default() };
    for prepared in [true, false] {
        await_goodbyes(&mut admin);
        let workload = build(name, target.protocol, &tables, &Options::default(), &Distribution::Uniform).unwrap();
        let spec = LoadSpec {
            connections,
            prepared,
            workers: Some(2),
            time: None,
            events: Some(150),
            warmup: Duration::from_millis(50),
            ..LoadSpec::new(name.as_str(), workload.into())
        };
        let mut counted = Vec::new();
        let mut hooks = Hooks {
            on_phase: &mut |edge: PhaseEdge| counted.push((edge, statements(&mut admin))),
            on_progress: &mut |_| {},
            progress_interval: None,
            stop: std::sync::Arc::default(),
        };
        let result = load::engine::run(&spec, target, &RunClock::start(), &mut hooks).unwrap();
        let measured = &result.measured;
        let finished = measured.transactions;
        assert!(finished + measured.errors.values().sum::<u64>() >= 150, "{finished} and {:?}", measured.errors);
        assert!(
            measured.errors.keys().all(|code| ["1213", "1205", "1020", "40P01", "23505"].contains(&code.as_str())),
            "{:?}",
            measured.errors
        );
        assert_eq!(result.arrivals, Arrivals::Closed);
        if measured.errors.is_empty() && target.protocol == load::Protocol::Mysql {
            // The later of the two readings counts itself.
            assert_eq!(counted[1].1 - counted[0].1 - 1, measured.queries(), "{name}, prepared {prepared}");
        }
    }
}

/// Until the server has read the goodbyes of all connections but this one: MySQL counts them among the statements, whenever it comes to them.
fn await_goodbyes(admin: &mut Connection) {
    if admin.protocol() == load::Protocol::Mysql {
        let count = "SHOW GLOBAL STATUS LIKE 'Threads_connected'";
        let is_alone = || admin.query(count).unwrap().parse::<u64>(0, 1) == Some(1);
        assert!(testkit::wait_until(Duration::from_secs(30), is_alone), "somebody else is connected");
    }
}

/// The server's own count of statements; 0 where it keeps none.
fn statements(admin: &mut Connection) -> u64 {
    match admin.protocol() {
        load::Protocol::Mysql => admin.query("SHOW GLOBAL STATUS LIKE 'Questions'").unwrap().parse(0, 1).unwrap(),
        load::Protocol::Postgresql => 0,
    }
}

#[test]
fn every_workload_runs_on_mariadb_and_the_server_counts_the_same() {
    let server = server!(Flavour::Mariadb, |_| Vec::new());
    for name in [
        Name::OltpPointSelect,
        Name::OltpReadOnly,
        Name::OltpReadWrite,
        Name::OltpUpdateIndex,
        Name::SelectRandomPoints,
    ] {
        check_load(&server, &server.target(), name, 4);
    }
    check_load(&server, &server.tcp(), Name::OltpPointSelect, 1);
}

#[test]
fn every_workload_runs_on_mysql_and_the_server_counts_the_same() {
    let server = server!(Flavour::Mysql, |_| Vec::new());
    for name in [Name::OltpPointSelect, Name::OltpReadWrite, Name::SelectRandomRanges] {
        check_load(&server, &server.target(), name, 4);
    }
    check_load(&server, &server.tcp(), Name::OltpReadOnly, 1);
}

#[test]
fn every_workload_runs_on_postgresql() {
    let server = server!(Flavour::Postgresql, |_| Vec::new());
    for name in [
        Name::OltpPointSelect,
        Name::OltpReadOnly,
        Name::OltpReadWrite,
        Name::OltpUpdateIndex,
        Name::SelectRandomRanges,
    ] {
        check_load(&server, &server.target(), name, 4);
    }
    check_load(&server, &server.tcp(), Name::OltpPointSelect, 1);
}

/// What the server says of `sbtest1` at the edges of the measured phase is the work of that phase: nothing of the warm-up comes late, and
/// nothing of the phase is missing. Each transaction looks into the index once.
#[test]
fn postgresqls_counters_hold_all_of_a_phase_and_nothing_else() {
    let server = server!(Flavour::Postgresql, |_| Vec::new());
    fill(&server);
    let mut admin = server.admin();
    let tables = Tables { table_size: ROWS, connections: 3, ..Tables::default() };
    let workload =
        build(Name::OltpPointSelect, load::Protocol::Postgresql, &tables, &Options::default(), &Distribution::Uniform)
            .unwrap();
    let spec = LoadSpec {
        connections: 3,
        counted: true,
        time: None,
        events: Some(500),
        warmup: Duration::from_millis(300),
        ..LoadSpec::new("counted", workload.into())
    };
    let mut scans = Vec::new();
    let count = "SELECT idx_scan FROM pg_stat_user_tables WHERE relname = 'sbtest1'";
    let mut hooks = Hooks {
        on_phase: &mut |_| scans.push(admin.query(count).unwrap().parse::<u64>(0, 0).unwrap()),
        on_progress: &mut |_| {},
        progress_interval: None,
        stop: std::sync::Arc::default(),
    };
    let result = load::engine::run(&spec, &server.target(), &RunClock::start(), &mut hooks).unwrap();
    assert_eq!((result.measured.transactions, scans[1] - scans[0]), (500, 500), "{scans:?}");
}
