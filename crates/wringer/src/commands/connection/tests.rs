// SPDX-License-Identifier: Apache-2.0
use super::*;
use clap::Parser;
use load::Endpoint;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    connection: Connection,
}

fn target(flags: &[&str]) -> Target {
    Line::parse_from([&["test"], flags].concat()).connection.target().unwrap()
}

/// The result with this environment, and no other variables.
fn target_with(flags: &Connection, variable: &dyn Fn(&str) -> Option<String>) -> Result<Target, Failure> {
    let places = Places::from_environment();
    let around = Surroundings { places: &places, variable, say: &|_| {} };
    Ok(flags.wanted()?.target(around)?)
}

#[test]
fn one_server_is_named_once() {
    for flag in ["--mysql-host=h", "--mysql-db=d", "--pgsql-port=1", "--pgsql-sslmode=require", "--defaults-file=f"] {
        let refused = Line::parse_from(["test", "--dsn=mysql://me@here", flag]).connection.target().unwrap_err();
        let name = flag.split('=').next().unwrap();
        assert!(refused.error.to_string().contains(name), "{refused:?}");
        assert_eq!(refused.exit, Exit::Usage);
    }
}

#[test]
fn sysbenchs_flags_with_either_dash() {
    let mysql = target(&["--mysql_socket=/s.sock", "--mysql-user=msandbox", "--mysql-db=sbtest"]);
    assert_eq!((mysql.protocol, mysql.endpoint), (Protocol::Mysql, Endpoint::Socket("/s.sock".into())));
    assert_eq!(mysql.user, "msandbox");
    let tcp = target(&["--mysql-host=localhost", "--mysql-port=3307", "--mysql-ssl"]);
    assert_eq!((tcp.endpoint, tcp.tls), (Endpoint::Tcp("localhost".into(), 3307), Tls::Require));
}

#[test]
fn a_postgresql_flag_means_postgresql() {
    let socket = target(&["--pgsql-host=/var/run/pg", "--pgsql-port=5433"]);
    assert_eq!(
        (socket.protocol, socket.endpoint),
        (Protocol::Postgresql, Endpoint::Socket("/var/run/pg/.s.PGSQL.5433".into()))
    );
    assert_eq!(target(&["--db-driver=pgsql", "--pgsql-sslmode=disable"]).tls, Tls::Disable);
}

#[test]
fn a_connection_string_says_it_all() {
    let target = target(&["--dsn=postgresql://me:secret@db.local:5555/sbtest"]);
    assert_eq!(target.endpoint, Endpoint::Tcp("db.local".into(), 5555));
    assert_eq!(target.password.reveal(), "secret");
    assert!(!format!("{target:?}").contains("secret"));
}

#[test]
fn certificates_by_the_names_that_the_servers_clients_know() {
    let mysql = target(&["--mysql-host=db", "--ssl-mode=VERIFY_IDENTITY", "--ssl-ca=/ca.pem"]);
    assert_eq!((mysql.tls, mysql.tls_ca), (Tls::VerifyFull, Some("/ca.pem".into())));
    let pgsql = target(&["--pgsql-host=db", "--pgsql-sslrootcert=/ca.pem"]);
    assert_eq!((pgsql.protocol, pgsql.tls), (Protocol::Postgresql, Tls::VerifyCa));
    let line = Line::parse_from(["test", "--pgsql-sslmode=verify-full"]);
    let refused = line.connection.target().unwrap_err();
    assert!(refused.exit == Exit::Usage && refused.hints[0].contains("--pgsql-sslrootcert"), "{refused:?}");
}

#[test]
fn an_option_file_that_was_named() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("shop.cnf");
    let text = "[client]\nuser=me\npassword=word\n[client-shop]\nsocket=/s.sock\n[mysql]\ndatabase=shop\n";
    #[allow(clippy::disallowed_methods)] // a file of the test's own
    std::fs::write(&path, text).unwrap();
    let file = format!("--defaults-file={}", path.display());
    let shop = target(&[&file, "--defaults-group-suffix=-shop", "--mysql-user=you"]);
    assert_eq!((shop.endpoint, shop.user.as_str()), (Endpoint::Socket("/s.sock".into()), "you"));
    assert_eq!((shop.password.reveal(), shop.database.as_deref()), ("word", Some("shop")));
    let missing = Line::parse_from(["test", "--defaults-file=/none"]).connection.target().unwrap_err();
    assert_eq!(missing.exit, Exit::Missing);
    let unknown = Line::parse_from(["test", "--pgsql-service=none"]).connection.target().unwrap_err();
    assert!(unknown.exit == Exit::Missing && unknown.error.to_string().contains("pg_service.conf"), "{unknown:?}");
}

#[test]
fn what_contradicts_itself_is_refused_with_both_names() {
    let refusal = |flags: &[&str], dsn: Option<&str>| {
        let line = Line::parse_from([&["test"], flags].concat());
        let refused = target_with(&line.connection, &|_| dsn.map(str::to_owned)).unwrap_err();
        assert_eq!(refused.exit, Exit::Usage);
        refused.error.to_string()
    };
    let dsn = "--dsn=mysql://me@db/sbtest";
    for flag in ["--mysql-ssl=verify-ca", "--pgsql-host=other", "--defaults-file=/x", "--db-driver=pgsql"] {
        let name = flag.split('=').next().unwrap();
        let said = refusal(&[dsn, flag], None);
        assert!(said.contains(name) && said.contains("--dsn"), "{said}");
    }
    let said = refusal(&["--sandbox=a", "--mysql-port=1"], None);
    assert!(said.contains("--sandbox") && said.contains("--mysql-port"), "{said}");
    assert!(refusal(&["--mysql-host=a", "--pgsql-host=b"], None).contains("--mysql-host and --pgsql-host"));
    assert!(refusal(&["--mysql-host=a", "--db-driver=pgsql"], None).contains("--db-driver=pgsql"));
    assert!(refusal(&["--pgsql-db=a", "--db-driver=mysql"], None).contains("--pgsql-db"));
    let from_environment = Line::parse_from(["test"]).connection;
    let target = target_with(&from_environment, &|_| Some("mysql://me@db:3333/sbtest".into())).unwrap();
    assert_eq!(target.endpoint, Endpoint::Tcp("db".into(), 3333));
}

#[test]
fn nonsense_is_a_usage_error() {
    let line = Line::parse_from(["test", "--dsn=oracle://x"]);
    assert_eq!(line.connection.target().unwrap_err().exit, Exit::Usage);
    let line = Line::parse_from(["test", "--mysql-ssl=maybe"]);
    assert_eq!(line.connection.target().unwrap_err().exit, Exit::Usage);
}

/// A server that only the environment names.
#[test]
fn pghost_alone_means_postgresql() {
    let found = |flags: &[&str], set: &[&str]| {
        let line = Line::parse_from([&["test"], flags].concat());
        let variable = |name: &str| set.contains(&name).then(|| "5433".to_owned());
        target_with(&line.connection, &variable).unwrap()
    };
    let (host, port) = (found(&[], &["PGHOST"]), found(&[], &["PGPORT"]));
    assert_eq!((host.protocol, host.endpoint), (Protocol::Postgresql, Endpoint::Tcp("5433".into(), 5432)));
    assert_eq!(port.protocol, Protocol::Postgresql);
    assert_eq!(found(&[], &["PGHOST", "MYSQL_HOST"]).protocol, Protocol::Mysql);
    assert_eq!(found(&["--mysql-db=x"], &["PGHOST"]).protocol, Protocol::Mysql);
    assert_eq!(found(&["--db-driver=mysql"], &["PGHOST"]).protocol, Protocol::Mysql);
    assert_eq!(found(&[], &["PGUSER"]).protocol, Protocol::Mysql, "an account names no server");
}

#[test]
fn a_flag_wins_over_the_environments_connection_string() {
    let found = |flags: &[&str]| {
        let line = Line::parse_from([&["test"], flags].concat());
        let dsn = |name: &str| (name == "WRINGER_DSN").then(|| "mysql://me:word@db:3333/shop".to_owned());
        target_with(&line.connection, &dsn).unwrap()
    };
    let there = Endpoint::Tcp("db".into(), 3333);
    let other = found(&["--mysql-db=other", "--mysql-ssl=require"]);
    assert_eq!((other.endpoint, other.database.as_deref(), other.tls), (there.clone(), Some("other"), Tls::Require));
    assert_eq!((other.user.as_str(), other.password.reveal()), ("me", "word"));
    let you = found(&["--mysql-user=you"]);
    assert_eq!((you.endpoint, you.user.as_str(), you.password.is_empty()), (there, "you", true));
    let elsewhere = found(&["--mysql-host=else"]);
    assert_eq!((elsewhere.endpoint, elsewhere.password.is_empty()), (Endpoint::Tcp("else".into(), 3306), true));
    assert_eq!(found(&["--pgsql-host=else"]).endpoint, Endpoint::Tcp("else".into(), 5432));
    assert_eq!(found(&["--db-driver=pgsql"]).protocol, Protocol::Postgresql);
    assert_eq!(found(&["--dsn=mysql://you@here/x"]).endpoint, Endpoint::Tcp("here".into(), 3306));
}
