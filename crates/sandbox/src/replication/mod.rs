// SPDX-License-Identifier: Apache-2.0
//! A primary with replicas: sandboxes of their own, each with its port, its log and its run, that know of each other by their manifests.
//!
//! A replica's data directory is a copy of the primary's before anybody has used that: no server runs meanwhile, every
//! flavour does it alike, and nothing but the server's own package is needed. Replication is set up by each start: the account and the
//! slots by the primary's, source and position by the replica's, since a primary's port may have moved. If the data are a user's own, their
//! former replication is removed before the copies are made.
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
use crate::{Error, Flavour, Sandbox, ServerOption, Spec};
use host::files;
use host::places::Places;
use load::admin::Connection;
use std::path::Path;

/// The account that replicas log in with.
pub(crate) const REPLICATOR: &str = "replicator";
/// Its password, in the primary's folder.
pub(crate) const SECRET: &str = "replication-secret";
/// For PostgreSQL's replicas, which read it themselves.
pub(crate) const PASSWORD_FILE: &str = "pgpass";
/// dbdeployer makes three nodes unless told otherwise; more than this are no lab on one machine.
pub const MOST_REPLICAS: u32 = 9;

/// `pears-r1`.
pub(crate) fn replica_name(primary: &str, number: u32) -> String {
    format!("{primary}-r{number}")
}

/// # Errors
/// [`Error::NoReplicas`] for a server that cannot do it as Wringer does.
pub(crate) fn check(spec: &Spec) -> Result<(), Error> {
    let Spec { installation, replicas, .. } = spec;
    let refuse = |why: String| {
        let version = installation.version.clone();
        Err(Error::NoReplicas { flavour: installation.flavour, version, why })
    };
    if *replicas > MOST_REPLICAS {
        return refuse(format!("{replicas} replicas are more than {MOST_REPLICAS}"));
    }
    match dialect::of(installation) {
        None => refuse("its version replicates in another way than Wringer sets up".into()),
        Some(_) => Ok(()),
    }
}

impl Sandbox {
    /// The primary first, then its replicas that are there; of a sandbox that stands alone, and of a replica, itself.
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

    /// With what its part in replication needs before the user's own options.
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

    /// A data directory as the primary's; `server.cnf` and the folders are there, and no server runs on either.
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

    /// Before a replica starts: where its primary is now.
    pub(crate) fn prepare_member(&self) -> Result<(), Error> {
        match (self.primary(), self.flavour()) {
            (Some(primary), Flavour::Postgresql) => postgresql::write_source(self, &primary).map(drop),
            _ => Ok(()),
        }
    }

    /// Once the server answers: a primary is ready for its replicas, and those that run already are told where it is now; a replica
    /// follows its primary, or will when that is there.
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
            // the primary is gone: what it has replicated is there
            Some(Member::Replica { .. }) => self.primary().map_or(Ok(()), |primary| self.follow(&primary)),
        }
    }

    /// For a primary with a user's own data, at its first start: removes the source that those data followed, and an account of the replicas' name
    /// with another password.
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
        let mut connection = Connection::open(&self.connection()?).map_err(talk)?;
        body(&mut connection).map_err(talk)
    }

    /// The sandbox whose deployment was cut short: this one or its primary. `None`: both are ready.
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
