// SPDX-License-Identifier: Apache-2.0
//! A primary with replicas: each is a sandbox with its own port, its own log and its own run, and they know each other by their manifests.
//!
//! A replica's data directory is a copy of the primary's, made before anybody has used the primary: no server runs meanwhile, the way is the same for
//! every flavour, and only the server's own package is needed. Each start sets up replication: the primary's start makes the account and the slots,
//! and a replica's start sets the source and the position, because the primary's port may have moved. If the data are a user's own, their former
//! replication is removed before the copies are made.
//!
//! | | how a replica follows |
//! | --- | --- |
//! | MariaDB | GTID, `MASTER_USE_GTID = slave_pos` |
//! | MySQL | GTID, `SOURCE_AUTO_POSITION = 1` |
//! | PostgreSQL | streaming, with a slot of its own, as a hot standby |

mod copy;
mod dialect;
mod lag;
mod mysql;
mod postgresql;

pub use lag::{Behind, Lag};

use crate::manifest::{Manifest, Member, State};
use crate::{Error, Flavour, Installation, Sandbox, ServerOption};
use host::files;
use host::places::Places;
use load::admin::Connection;
use std::path::Path;

/// The account with which replicas log in.
pub(crate) const REPLICATOR: &str = "replicator";
/// The file with its password, in the primary's folder.
pub(crate) const SECRET: &str = "replication-secret";
/// The file with the password for PostgreSQL's replicas, which read it themselves.
pub(crate) const PASSWORD_FILE: &str = "pgpass";
/// dbdeployer makes three nodes by default; more replicas than this are not useful on one machine.
pub const MOST_REPLICAS: u32 = 9;

/// The name of a replica, such as `pears-r1`.
pub(crate) fn replica_name(primary: &str, number: u32) -> String {
    format!("{primary}-r{number}")
}

/// # Errors
/// [`Error::NoReplicas`] for a server that cannot replicate in Wringer's way.
pub(crate) fn check(installation: &Installation, replicas: u32) -> Result<(), Error> {
    let refuse = |why: String| {
        let version = installation.version.clone();
        Err(Error::NoReplicas { flavour: installation.flavour, version, why })
    };
    if replicas > MOST_REPLICAS {
        return refuse(format!("{replicas} replicas are more than {MOST_REPLICAS}"));
    }
    match dialect::of(installation) {
        None => refuse("its version replicates in another way than Wringer sets up".into()),
        Some(_) => Ok(()),
    }
}

impl Sandbox {
    /// The primary first, then its replicas that exist; for a single sandbox, and for a replica, only the sandbox itself.
    pub fn members(&self) -> Vec<Self> {
        let own = std::iter::once(self.clone());
        own.chain(self.replicas()).collect()
    }

    /// The replicas of a primary that exist.
    pub fn replicas(&self) -> Vec<Self> {
        let Some(Member::Primary { replicas }) = &self.manifest.member else { return Vec::new() };
        let is_ours =
            |replica: &Self| matches!(&replica.manifest.member, Some(Member::Replica { of, .. }) if *of == self.name());
        replicas.iter().filter_map(|name| self.sibling(name)).filter(is_ours).collect()
    }

    /// The primary of a replica, if it exists.
    pub fn primary(&self) -> Option<Self> {
        let Some(Member::Replica { of, .. }) = &self.manifest.member else { return None };
        self.sibling(of)
    }

    fn sibling(&self, name: &str) -> Option<Self> {
        let folder = self.folder.parent()?.join(name);
        Some(Self { manifest: Manifest::read(&folder.join("manifest.json")).ok()?, folder })
    }

    /// The sandbox with the options for its part in the replication, before the user's own options.
    pub(crate) fn with_member_options(&self) -> Result<Self, Error> {
        let Some(member) = &self.manifest.member else { return Ok(self.clone()) };
        let mut options: Vec<ServerOption> = self.member_options(member)?;
        options.extend(self.manifest.options.iter().cloned());
        Ok(Self { manifest: Manifest { options, ..self.manifest.clone() }, ..self.clone() })
    }

    fn member_options(&self, member: &Member) -> Result<Vec<ServerOption>, Error> {
        let Some(dialect) = dialect::of(&self.manifest.installation) else { return Ok(Vec::new()) };
        let (number, words) = match member {
            Member::Primary { .. } => (0, dialect.primary_options),
            Member::Replica { number, .. } => (*number, dialect.replica_options),
        };
        let mut options: Vec<ServerOption> = words.iter().map(|word| word.parse()).collect::<Result<_, _>>()?;
        match self.flavour() {
            Flavour::Mariadb | Flavour::Mysql | Flavour::Percona => {
                options.push(ServerOption::new("server_id", Some(&(number + 1).to_string()))?);
            }
            Flavour::Postgresql if number > 0 => options.extend(postgresql::replica_options(self, number)?),
            Flavour::Postgresql => {}
        }
        Ok(options)
    }

    /// Makes a copy of the primary's data directory; `server.cnf` and the folders exist already, and no server runs on either directory.
    pub(crate) fn copy_from(&self, primary: &Self) -> Result<(), Error> {
        copy::data(primary, self)?;
        match self.flavour() {
            Flavour::Mariadb | Flavour::Mysql | Flavour::Percona => copy::forget_identity(self),
            Flavour::Postgresql => {
                postgresql::write_password_file(self, &primary.replication_password()?)?;
                copy::mark_standby(self)
            }
        }
    }

    pub(crate) fn replication_password(&self) -> Result<String, Error> {
        read_secret(&self.folder.join(SECRET))
    }

    /// Writes the primary's present port, before a replica starts.
    pub(crate) fn prepare_member(&self) -> Result<(), Error> {
        match (self.primary(), self.flavour()) {
            (Some(primary), Flavour::Postgresql) => postgresql::write_source(self, &primary).map(drop),
            _ => Ok(()),
        }
    }

    /// To be called when the server answers. A primary gets the account for its replicas, and running replicas are told its present port; a replica
    /// follows its primary if that exists.
    pub(crate) fn join_replication(&self) -> Result<(), Error> {
        match &self.manifest.member {
            None => Ok(()),
            Some(Member::Primary { .. }) => {
                let password = self.replication_password()?;
                self.talk(|connection| match self.flavour() {
                    Flavour::Mariadb | Flavour::Mysql | Flavour::Percona => mysql::lead(connection, &password),
                    Flavour::Postgresql => postgresql::lead(connection, &password, self.replicas().len()),
                })?;
                let running = self.replicas().into_iter().filter(|replica| replica.server_process().is_some());
                running.into_iter().try_for_each(|replica| replica.follow(self))
            }
            // the primary was deleted: the replica keeps the data that it has received
            Some(Member::Replica { .. }) => self.primary().map_or(Ok(()), |primary| self.follow(&primary)),
        }
    }

    /// For a primary with a user's own data, at its first start: removes the source that those data followed, and an account with the replicas' name
    /// and another password.
    pub(crate) fn forget_former_replication(&self) -> Result<(), Error> {
        let Some(Member::Primary { .. }) = &self.manifest.member else { return Ok(()) };
        let password = self.replication_password()?;
        match (self.flavour(), dialect::of(&self.manifest.installation)) {
            (Flavour::Mariadb | Flavour::Mysql | Flavour::Percona, Some(dialect)) => {
                self.talk(|connection| mysql::forget(connection, &dialect, &password))
            }
            (Flavour::Postgresql, _) => self.talk(|connection| postgresql::forget(connection, &password)),
            _ => Ok(()),
        }
    }

    fn follow(&self, primary: &Self) -> Result<(), Error> {
        let password = primary.replication_password()?;
        let port = primary.manifest.port;
        match (self.flavour(), dialect::of(&self.manifest.installation)) {
            (Flavour::Mariadb | Flavour::Mysql | Flavour::Percona, Some(dialect)) => {
                self.talk(|connection| mysql::follow(connection, &dialect, self.flavour(), port, &password))
            }
            (Flavour::Postgresql, _) if postgresql::write_source(self, primary)? => self.talk(postgresql::reload),
            _ => Ok(()),
        }
    }

    pub(crate) fn talk<T>(&self, body: impl FnOnce(&mut Connection) -> Result<T, load::Error>) -> Result<T, Error> {
        let talk = |source| Error::Talk { name: self.name().into(), source };
        let mut connection = Connection::open_anywhere(&self.connection()?).map_err(talk)?;
        body(&mut connection).map_err(talk)
    }

    /// The sandbox whose deployment was interrupted: this one or its primary. `None`: both are ready.
    pub(crate) fn cut_short(&self, places: &Places) -> Option<Self> {
        let whole = match &self.manifest.member {
            Some(Member::Replica { of, .. }) => Self::open_any(of, places).ok(),
            _ => None,
        };
        let group = whole.unwrap_or_else(|| self.clone());
        (group.manifest.state == State::Deploying).then_some(group)
    }
}

pub(crate) fn new_secret(primary: &Sandbox, password: &str) -> Result<(), Error> {
    Ok(files::write_atomic(&primary.folder.join(SECRET), format!("{password}\n").as_bytes(), 0o600)?)
}

fn read_secret(path: &Path) -> Result<String, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::path("read", path, source))?;
    Ok(text.trim().to_owned())
}
