// SPDX-License-Identifier: Apache-2.0
//! Sandboxes with the real servers, fetched as a user would get them.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use host::places::Places;
use load::admin::Connection;
use run::{Begin, Kind, Resource, Run};
use sandbox::{Error, Flavour, Installation, Request, Sandbox, ServerOption, Spec, StartOptions};
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Once;

/// A home of its own, and a cache that all tests share, so that each server is fetched once.
struct Lab {
    home: tempfile::TempDir,
    places: Places,
}

impl Lab {
    fn new() -> Self {
        static ONCE: Once = Once::new();
        // SAFETY: done once, before any test of this program has started a child; nothing here calls C's getenv.
        ONCE.call_once(|| unsafe { std::env::set_var("WRINGER_PROGRAM", env!("CARGO_BIN_EXE_sandbox-test-helper")) });
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
        let spec = Spec { name: name.into(), ..Spec::new(installation.clone()) };
        Sandbox::deploy(spec, &self.places, &mut ()).unwrap()
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
    found.map_or_else(|| sandbox::fetch(&Request::any(flavour), &lab.places, &mut ()), Ok).map_err(|error| match error {
        error @ (Error::NoPackageClient { .. } | Error::NotOffered { .. }) => error.to_string(),
        error => panic!("{error}"),
    })
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
    run.release().unwrap();
    let deleted = Sandbox::delete("round", &lab.places, false).unwrap();
    assert!(deleted.kept.is_empty(), "{:?}", deleted.kept);
    assert!(!sandbox.folder.exists());
}

#[test]
fn mariadb_from_nothing_and_back() {
    let lab = Lab::new();
    round_trip(&lab, &server!(Flavour::Mariadb, &lab));
}

#[test]
fn postgresql_from_nothing_and_back() {
    let lab = Lab::new();
    round_trip(&lab, &server!(Flavour::Postgresql, &lab));
}
