// SPDX-License-Identifier: Apache-2.0
//! A sandbox on disk: its folder, and the manifest that tells its content.
//!
//! | name | what | owner as root |
//! | --- | --- | --- |
//! | `manifest.json` | this module's type | root |
//! | `secret` | the password of user `wringer`, 0600 | root |
//! | `replication-secret` | of a primary with replicas: the password of user `replicator`, 0600 | root |
//! | `pgpass` | the same for a PostgreSQL replica, which reads it itself, 0600 | the server's user |
//! | `pgbouncer.ini` | with a pooler: its configuration | root, readable by the server's user |
//! | `userlist.txt` | the same: the password of user `wringer`, which pgBouncer reads itself, 0600 | the server's user |
//! | `my.cnf` | after `sandbox export` of a server of the MySQL family: how its clients connect, with the password, 0600 | who exported |
//! | `lock` | held while the sandbox is being deployed or deleted | root |
//! | `server.cnf` | the server's configuration | root, readable by the server's user |
//! | `log/` | the server's output, opened before it gives up root's rights, 0700 | root |
//! | `valgrind/` | what Valgrind has written about a start, 0700 | the server's user |
//! | `data/`, `run/`, `tmp/` | what the server writes, 0700 | the server's user |
//!
//! Root writes nothing below a folder that the server's user owns: that user could have put a link there.

use crate::account::{DATABASE, USER};
use crate::pooler::Pooler;
use crate::{Error, Flavour, Imported, Installation, ServerOption, ServerUser};
use host::files;
use host::places::Places;
use load::{Endpoint, Password, Target, Tls};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const SCHEMA: u32 = 1;
/// How long a lock is tried before it counts as held.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// Everything that [`Sandbox::delete`] removes, and nothing else.
pub(crate) const CONTENTS: [&str; 17] = [
    "data",
    "run",
    "log",
    "tmp",
    "server.cnf",
    "init-password",
    "init.sql",
    "replication-secret",
    "pgpass",
    "pgbouncer.ini",
    "userlist.txt",
    "valgrind",
    "profiles",
    "my.cnf",
    "secret",
    "lock",
    "manifest.json",
];

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub schema: u32,
    pub name: String,
    pub state: State,
    pub installation: Installation,
    pub user: ServerUser,
    /// The port on 127.0.0.1.
    pub port: u16,
    /// The user asked for this port: a start never takes another one.
    #[serde(default = "asked")]
    pub port_asked: bool,
    /// The folder of the socket: `run` in the sandbox, or a short one elsewhere when that path is too long for a socket.
    pub socket_folder: PathBuf,
    /// The options of `deploy -c`.
    pub options: Vec<ServerOption>,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// The data from which it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Imported>,
    /// The kept data of which it began as a clone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filled: Option<Taken>,
    /// The run that deletes the sandbox when the run ends; `None`: it stays until somebody deletes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Its part in a primary with replicas; `None`: it has neither a primary nor replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<Member>,
    /// pgBouncer in front of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pooler: Option<Pooler>,
    /// Names below the sandbox's folder.
    pub contents: Vec<PathBuf>,
}

/// A manifest from before ports could move lacks the field: its port stays.
fn asked() -> bool {
    true
}

/// The record of a clone of kept data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// The entry's name.
    pub key: String,
    /// When the data were filled: seconds since 1970.
    pub made: u64,
    /// `reflink` or `copy`.
    pub mechanism: String,
    /// The length of all files.
    pub bytes: u64,
    pub copied_bytes: u64,
    pub elapsed_us: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The deployment has begun. If nobody holds the lock, it was interrupted.
    Deploying,
    Ready,
}

/// A sandbox's part in a primary with replicas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "role")]
pub enum Member {
    Primary { replicas: Vec<String> },
    Replica { of: String, number: u32 },
}

/// A sandbox that is registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    pub folder: PathBuf,
    pub manifest: Manifest,
}

impl Manifest {
    pub(crate) fn new(
        name: &str,
        installation: Installation,
        user: ServerUser,
        port: u16,
        socket_folder: PathBuf,
    ) -> Self {
        Self {
            schema: SCHEMA,
            name: name.into(),
            state: State::Deploying,
            installation,
            user,
            port,
            port_asked: false,
            socket_folder,
            options: Vec::new(),
            created: host::clock::unix_seconds(),
            origin: None,
            filled: None,
            run: None,
            member: None,
            pooler: None,
            contents: CONTENTS.map(PathBuf::from).to_vec(),
        }
    }

    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let mut text = String::new();
        let read = files::open_safe(path, false)?.read_to_string(&mut text);
        read.map_err(|source| Error::path("read", path, source))?;
        let unfit = |why: String| Error::Manifest { path: path.into(), why };
        let manifest: Self = serde_json::from_str(&text).map_err(|error| unfit(error.to_string()))?;
        if manifest.schema == SCHEMA { Ok(manifest) } else { Err(unfit(format!("schema {}", manifest.schema))) }
    }

    pub(crate) fn write(&self, folder: &Path) -> Result<(), Error> {
        let text = format!("{:#}\n", serde_json::json!(self));
        Ok(files::write_atomic(&folder.join("manifest.json"), text.as_bytes(), 0o644)?)
    }
}

impl Sandbox {
    /// # Errors
    /// [`Error::NoSandbox`]; [`Error::HalfDeployed`] when its deployment was interrupted; [`Error::Deploying`] when it is still being deployed.
    pub fn open(name: &str, places: &Places) -> Result<Self, Error> {
        let sandbox = Self::open_any(name, places)?;
        match sandbox.cut_short(places) {
            None => Ok(sandbox),
            Some(group) if group.is_locked() => Err(Error::Deploying { name: group.name().into() }),
            Some(group) => Err(Error::HalfDeployed { name: group.name().into() }),
        }
    }

    /// Opens a sandbox in any state.
    pub fn open_any(name: &str, places: &Places) -> Result<Self, Error> {
        check_name(name)?;
        let folder = places.sandboxes.join(name);
        // only a manifest in a safe folder is used
        files::safe_folder(&folder)?;
        if !folder.join("manifest.json").exists() {
            return Err(Self::in_the_way(name, places).unwrap_or_else(|| Error::NoSandbox { name: name.into() }));
        }
        let manifest = Manifest::read(&folder.join("manifest.json"))?;
        Ok(Self { folder, manifest })
    }

    /// A folder of this name with files, and without a manifest: somebody's files that were left when the sandbox was deleted.
    pub(crate) fn in_the_way(name: &str, places: &Places) -> Option<Error> {
        let folder = places.sandboxes.join(name);
        let has_files = fs::read_dir(&folder).is_ok_and(|mut entries| entries.next().is_some());
        (has_files && !folder.join("manifest.json").exists()).then_some(Error::FolderInTheWay { folder })
    }

    /// All registered sandboxes, by name; for a manifest that cannot be read, and for a folder without one, the reason.
    pub fn list(places: &Places) -> Vec<(String, Result<Self, Error>)> {
        let entries = fs::read_dir(&places.sandboxes).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter(|entry| entry.path().is_dir())
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| check_name(name).is_ok())
            .collect();
        names.sort();
        let all = names.into_iter().map(|name| (name.clone(), Self::open_any(&name, places)));
        all.filter(|(_, opened)| !matches!(opened, Err(Error::NoSandbox { .. }))).collect()
    }

    pub fn name(&self) -> &str {
        &self.manifest.name
    }

    pub fn flavour(&self) -> Flavour {
        self.manifest.installation.flavour
    }

    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    pub fn configuration(&self) -> PathBuf {
        self.folder.join("server.cnf")
    }

    /// The server's error log.
    pub fn log(&self) -> PathBuf {
        self.folder.join("log/server.log")
    }

    pub fn socket(&self) -> PathBuf {
        let name = match self.flavour() {
            Flavour::Mariadb | Flavour::Mysql | Flavour::Percona => "server.sock".to_owned(),
            Flavour::Postgresql => format!(".s.PGSQL.{}", self.manifest.port),
        };
        self.manifest.socket_folder.join(name)
    }

    /// The server's own pid file.
    pub fn pid_file(&self) -> PathBuf {
        self.folder.join("run/server.pid")
    }

    /// The target for a connection over the socket, as the user with all rights.
    ///
    /// # Errors
    /// The secret cannot be read.
    pub fn connection(&self) -> Result<Target, Error> {
        Ok(Target {
            protocol: self.flavour().protocol(),
            endpoint: Endpoint::Socket(self.socket()),
            user: USER.into(),
            password: Password::new(self.password()?),
            database: Some(DATABASE.into()),
            tls: Tls::Disable,
            tls_ca: None,
        })
    }

    /// As [`Self::connection`], over TCP.
    pub fn tcp_connection(&self) -> Result<Target, Error> {
        let endpoint = Endpoint::Tcp("127.0.0.1".into(), self.manifest.port);
        Ok(Target { endpoint, ..self.connection()? })
    }

    pub fn password(&self) -> Result<String, Error> {
        let path = self.folder.join("secret");
        let text = fs::read_to_string(&path).map_err(|source| Error::path("read", path, source))?;
        Ok(text.trim().to_owned())
    }

    /// Whether a process deploys or deletes the sandbox now.
    pub fn is_locked(&self) -> bool {
        match fs::File::open(self.folder.join("lock")) {
            Ok(lock) => flock(&lock, FlockOperation::NonBlockingLockShared).is_err(),
            // a lock that exists and cannot be opened may be held
            Err(error) => error.kind() != ErrorKind::NotFound,
        }
    }

    /// Takes the lock; it is held until the file is dropped. It tries for a moment: a process that checks the lock holds it as well, and so does a
    /// program that another thread has just forked, until that program is executed.
    pub(crate) fn lock(&self) -> Result<fs::File, Error> {
        let lock = files::open_lock(&self.folder.join("lock"))?;
        let deadline = Instant::now() + LOCK_PATIENCE;
        while flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            if Instant::now() >= deadline {
                return Err(Error::Deploying { name: self.name().into() });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(lock)
    }
}

/// Checks a name: it must be fit for a folder's name, and for a word in a shell.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let fail = |why| Err(Error::Name { name: name.into(), why });
    if name.is_empty() || name.len() > 64 {
        return fail("it has 1 to 64 characters");
    }
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)) {
        return fail("it has letters, digits, '.', '_' and '-' only");
    }
    if name.starts_with(['.', '-']) {
        return fail("it begins with a letter or a digit");
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // tests lay out folders of their own
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods)] // tests lay out folders of their own
    fn files_without_a_manifest_are_in_the_way_and_an_empty_folder_is_nobodys() {
        let home = tempfile::tempdir().expect("a folder");
        let places = Places::below(home.path());
        fs::create_dir_all(places.sandboxes.join("empty")).expect("makes");
        fs::create_dir_all(places.sandboxes.join("left")).expect("makes");
        fs::write(places.sandboxes.join("left/notes.txt"), "mine").expect("writes");
        let left = Sandbox::check_free("left", &places);
        assert!(matches!(left, Err(Error::FolderInTheWay { .. })), "{left:?}");
        Sandbox::check_free("empty", &places).expect("is free");
        let listed: Vec<String> = Sandbox::list(&places).into_iter().map(|(name, _)| name).collect();
        assert_eq!(listed, ["left"]);
    }

    #[test]
    fn names() {
        for good in ["mariadb-10.11", "a", "x_1"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", ".x", "a/b", "a b", "-rf", "ü"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        assert!(check_name(&"x".repeat(65)).is_err());
    }

    #[test]
    fn a_manifest_of_another_schema_is_refused() {
        let home = tempfile::tempdir().expect("a folder");
        let places = Places::below(home.path());
        let folder = places.sandboxes.join("old");
        fs::create_dir_all(&folder).expect("makes");
        fs::write(folder.join("manifest.json"), r#"{"schema": 99}"#).expect("writes");
        assert!(matches!(Sandbox::open("old", &places), Err(Error::Manifest { .. })));
        assert!(matches!(Sandbox::open("new", &places), Err(Error::NoSandbox { .. })));
        assert_eq!(Sandbox::list(&places).len(), 1);
    }
}
