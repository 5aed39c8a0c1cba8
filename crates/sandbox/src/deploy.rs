// SPDX-License-Identifier: Apache-2.0
//! Makes a sandbox: it is registered first, then filled; when that fails, it is removed again.

use crate::client::folder_bytes;
use crate::manifest::{Manifest, Member, Sandbox, State, check_name};
use crate::pooler::{self, PoolerSpec};
use crate::port::{self, Reserved};
use crate::replication::{self, replica_name};
use crate::socket_folder::socket_folder;
use crate::space::require_space;
use crate::{Error, Imported, Installation, Origin, Progress, ServerOption, ServerUser, init, origin, random};
use host::files;
use host::places::Places;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The sandbox to deploy.
#[derive(Debug, Clone)]
pub struct Spec {
    pub name: String,
    pub installation: Installation,
    /// The port on 127.0.0.1. `None`: a free one is chosen, and another one at a start that finds it in use.
    pub port: Option<u16>,
    /// Options for the server's configuration file, for all its starts.
    pub options: Vec<ServerOption>,
    /// Data to start from; `None`: an empty database.
    pub origin: Option<Origin>,
    /// Kept data of [`filled_key`](crate::filled_key) with the same installation and options, to be cloned; not with `origin`.
    pub filled: Option<Arc<fills::Entry>>,
    /// With `filled`: the user's own data that were kept. Their settings hold for the clone, too.
    pub imported: Option<Imported>,
    /// The run that deletes the sandbox when the run ends.
    pub run: Option<String>,
    /// A run of the caller holds the sandbox already: a start of its server meanwhile does not lock it again.
    pub held: bool,
    /// The number of replicas: sandboxes `NAME-r1`, `NAME-r2` and so on.
    pub replicas: u32,
    /// pgBouncer in front of the server, not in front of its replicas.
    pub pooler: Option<PoolerSpec>,
}

/// The space for a new data directory with its first log files: MySQL 9.7 takes 190 MiB, MariaDB 10.11 120, PostgreSQL 15 40.
const FIRST_NEED_BYTES: u64 = 256 << 20;
/// How long the init program of a killed deployment may take to end: it ends by itself, but not at once.
pub(crate) const INIT_END_TIMEOUT: Duration = Duration::from_secs(20);

impl Spec {
    /// A sandbox that is named after flavour and version, on a free port, with the default options.
    pub fn new(installation: Installation) -> Self {
        let name = format!("{}-{}", installation.flavour, installation.version);
        Self {
            name,
            installation,
            port: None,
            options: Vec::new(),
            origin: None,
            filled: None,
            imported: None,
            run: None,
            held: false,
            replicas: 0,
            pooler: None,
        }
    }
}

impl Spec {
    fn member(&self) -> Option<Member> {
        let replicas: Vec<String> = (1..=self.replicas).map(|number| replica_name(&self.name, number)).collect();
        (!replicas.is_empty()).then_some(Member::Primary { replicas })
    }

    /// Checks the replicas before anything is made.
    fn check_replicas(&self, places: &Places) -> Result<(), Error> {
        let Some(Member::Primary { replicas }) = self.member() else { return Ok(()) };
        replication::check(&self.installation, self.replicas)?;
        std::iter::once(&self.name).chain(&replicas).try_for_each(|name| Sandbox::check_free(name, places))
    }
}

impl Sandbox {
    /// Checks whether the name is free. To be called before a server is fetched for the sandbox. The rest of a killed deployment does not take the
    /// name: the next deployment removes that rest.
    ///
    /// # Errors
    /// Such a name is not allowed; or there is a sandbox of this name.
    pub fn check_free(name: &str, places: &Places) -> Result<(), Error> {
        check_name(name)?;
        match Self::open_any(name, places) {
            Ok(there) if there.cut_short(places).is_none() => Err(Error::NameTaken { name: name.into() }),
            Err(error @ Error::FolderInTheWay { .. }) => Err(error),
            _ => Ok(()),
        }
    }

    /// Makes the folder, the data directory, the account and the database, and the replicas. No server runs afterwards.
    ///
    /// # Errors
    /// The name is taken; the port is in use; the disk is full; the server's user cannot reach the program or the folder;
    /// the server's own init failed. Nothing is left behind then.
    pub fn deploy(spec: Spec, places: &Places, progress: &mut dyn Progress) -> Result<Self, Error> {
        check_name(&spec.name)?;
        spec.check_replicas(places)?;
        if let Some(wanted) = &spec.pooler {
            pooler::check(wanted, spec.installation.flavour)?;
        }
        let user = ServerUser::choose()?;
        user.check_reach(&spec.installation.program)?;
        if let Some(wanted) = &spec.pooler {
            user.check_reach(&wanted.program.path)?;
        }
        let as_other = user.identity().is_some();
        files::own_folder(&places.sandboxes, if as_other { 0o711 } else { 0o700 })?;
        let members = u64::from(spec.replicas) + 1;
        require_space("a new data directory", &places.sandboxes, FIRST_NEED_BYTES * members)?;
        if let Some(origin) = &spec.origin {
            origin.check_server(spec.installation.flavour, &spec.installation.version)?;
        }
        progress.doing(&format!("deploy sandbox {}", spec.name));
        let (sandbox, lock) = register(&spec, &user, places, spec.member())?;
        let filled = match (&spec.origin, &spec.filled) {
            (None, None) => sandbox.fill(),
            (None, Some(entry)) => sandbox.fill_with_clone(entry, progress),
            (Some(origin), _) => sandbox.fill_from(origin, spec.held, places, progress),
        };
        match filled.and_then(|filled| filled.complete(&spec, &user, places, progress)) {
            Ok(ready) => Ok(ready),
            Err(error) => {
                // What cannot be removed now is removed by the next deployment or deletion: the manifest's state tells them to.
                let _ = sandbox.clear_members();
                drop(lock);
                Err(error)
            }
        }
    }

    /// Makes the replicas once the primary's data are there; they count as deployed only when the primary does.
    fn complete(
        &self,
        spec: &Spec,
        user: &ServerUser,
        places: &Places,
        progress: &mut dyn Progress,
    ) -> Result<Self, Error> {
        let _locks = self.deploy_replicas(spec, user, places, progress)?;
        self.ready()
    }

    fn fill(&self) -> Result<Self, Error> {
        let password = new_password()?;
        self.make_folders_and_files(&password)?;
        self.make_replication_secret()?;
        init::initialise(&self.with_member_options()?, &password)?;
        Ok(self.clone())
    }

    pub(crate) fn make_replication_secret(&self) -> Result<(), Error> {
        match self.manifest.member {
            Some(Member::Primary { .. }) => replication::new_secret(self, &new_password()?),
            _ => Ok(()),
        }
    }

    /// A replica has the account and the database of its primary.
    fn fill_as_replica(&self, primary: &Self) -> Result<(), Error> {
        self.make_folders_and_files(&primary.password()?)?;
        self.copy_from(primary)
    }

    pub(crate) fn make_folders_and_files(&self, password: &str) -> Result<(), Error> {
        self.make_folders()?;
        self.manifest.user.check_reach(&self.data())?;
        files::write_atomic(&self.folder.join("secret"), format!("{password}\n").as_bytes(), 0o600)?;
        let configuration = init::configuration(&self.with_member_options()?)?;
        Ok(files::write_atomic(&self.configuration(), configuration.as_bytes(), 0o644)?)
    }

    fn ready(&self) -> Result<Self, Error> {
        let ready = Self { manifest: Manifest { state: State::Ready, ..self.manifest.clone() }, ..self.clone() };
        ready.manifest.write(&ready.folder)?;
        Ok(ready)
    }

    fn fill_from(
        &self,
        origin: &Origin,
        held: bool,
        places: &Places,
        progress: &mut dyn Progress,
    ) -> Result<Self, Error> {
        self.make_folders()?;
        self.manifest.user.check_reach(&self.data())?;
        // it has each class of characters that a password policy in the data may ask for
        let password = format!("Wr-{}", new_password()?);
        files::write_atomic(&self.folder.join("secret"), format!("{password}\n").as_bytes(), 0o600)?;
        self.make_replication_secret()?;
        let mut imported = origin::prepare(self, origin, progress)?;
        let manifest = Manifest { origin: Some(imported.clone()), ..self.manifest.clone() };
        let sandbox = Self { manifest, ..self.clone() };
        sandbox.manifest.write(&self.folder)?;
        let configuration = init::configuration(&sandbox.with_member_options()?)?;
        files::write_atomic(&self.configuration(), configuration.as_bytes(), 0o644)?;
        let servers = origin::Servers { places, held };
        origin::finish(&sandbox, origin, &mut imported, &password, servers, progress)?;
        // a start may have moved the port
        let stored = Manifest::read(&self.folder.join("manifest.json"))?;
        Ok(Self { manifest: Manifest { origin: Some(imported), ..stored }, ..sandbox })
    }

    /// Deploys the replicas; returns their locks.
    fn deploy_replicas(
        &self,
        spec: &Spec,
        user: &ServerUser,
        places: &Places,
        progress: &mut dyn Progress,
    ) -> Result<Vec<fs::File>, Error> {
        if spec.replicas > 0 && spec.origin.is_some() {
            self.require_space_for_copies(spec.replicas.into())?;
        }
        let mut locks = Vec::new();
        for number in 1..=spec.replicas {
            let name = replica_name(&spec.name, number);
            progress.doing(&format!("deploy replica {name}"));
            let replica = Spec { name, port: None, replicas: 0, pooler: None, ..spec.clone() };
            let member = Member::Replica { of: spec.name.clone(), number };
            let (mut replica, lock) = register(&replica, user, places, Some(member))?;
            locks.push(lock);
            // settings that the data needs are in the configuration
            replica.manifest.origin.clone_from(&self.manifest.origin);
            replica.fill_as_replica(self)?;
            replica.ready()?;
        }
        Ok(locks)
    }

    /// Checks the space for the replicas. A user's own data may be of any size. Copies that share their blocks take no space.
    fn require_space_for_copies(&self, count: u64) -> Result<(), Error> {
        // the name is one that is deleted with the sandbox, if this process is killed
        let probe = format!(".{}.{}.new", replication::SECRET, std::process::id());
        if origin::shares(&self.folder.join(replication::SECRET), &self.folder.join(probe))? {
            return Ok(());
        }
        require_space("the replicas' copies of the data", &self.folder, folder_bytes(&self.data()) * count + (64 << 20))
    }

    /// The sandbox's own folder lets the server's group pass through, and lets nobody list it.
    fn make_folders(&self) -> Result<(), Error> {
        let user = &self.manifest.user;
        let as_other = user.identity().is_some();
        files::new_private_dir(&self.folder.join("log"))?;
        let inner = ["data", "run", "tmp"].map(|name| self.folder.join(name));
        let outer = self.outer_socket_folder();
        inner.iter().map(PathBuf::as_path).chain(outer).try_for_each(|folder| user.make_folder(folder))?;
        if as_other {
            files::set_owner(&self.folder, rustix::process::geteuid().as_raw(), user.gid)?;
            files::set_mode(&self.folder, 0o710)?;
        }
        Ok(())
    }
}

/// Makes the folder with its manifest in state "deploying", as a whole or not at all, and takes its lock.
fn register(
    spec: &Spec,
    user: &ServerUser,
    places: &Places,
    member: Option<Member>,
) -> Result<(Sandbox, fs::File), Error> {
    let registering = files::open_lock(&places.sandboxes.join(".lock"))?;
    rustix::fs::flock(&registering, rustix::fs::FlockOperation::LockExclusive)
        .map_err(|errno| Error::path("lock", &places.sandboxes, errno))?;
    clear_debris(&spec.name, places)?;
    let folder = places.sandboxes.join(&spec.name);
    if fs::symlink_metadata(&folder).is_ok() {
        let in_the_way = Sandbox::in_the_way(&spec.name, places);
        return Err(in_the_way.unwrap_or_else(|| Error::NameTaken { name: spec.name.clone() }));
    }
    // Reserved until the manifest shows the port to the other sandboxes of this home.
    let reserved = reserve_port(spec, places)?;
    let socket_folder = socket_folder(&folder, reserved.port)?;
    let (installation, user) = (spec.installation.clone(), user.clone());
    let mut manifest = Manifest::new(&spec.name, installation, user, reserved.port, socket_folder);
    manifest.port_asked = spec.port.is_some();
    manifest.options.clone_from(&spec.options);
    manifest.run.clone_from(&spec.run);
    manifest.member = member;
    manifest.origin.clone_from(&spec.imported);
    let mut taken = ports_below(&places.sandboxes);
    taken.insert(reserved.port);
    let pooled = spec.pooler.clone().map(|wanted| wanted.reserve(&folder, &taken)).transpose()?;
    let (pooler, _pooler_port) = pooled.unzip();
    manifest.pooler = pooler;
    let new = places.sandboxes.join(format!(".new-{}-{}", spec.name, std::process::id()));
    files::new_private_dir(&new)?;
    let lock = Sandbox { folder: new.clone(), manifest: manifest.clone() }.lock()?;
    manifest.write(&new)?;
    files::rename(&new, &folder)?;
    Ok((Sandbox { folder, manifest }, lock))
}

/// Removes the leftovers of killed deployments: folders that were never registered; and a sandbox of this name, with the group to which it belongs,
/// if it was never ready and nobody works on it.
fn clear_debris(name: &str, places: &Places) -> Result<(), Error> {
    for entry in fs::read_dir(&places.sandboxes).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(".new-") {
            files::remove_tree(&entry.path())?;
        }
    }
    let Some(cut) = Sandbox::open_any(name, places).ok().and_then(|sandbox| sandbox.cut_short(places)) else {
        return clear_empty(&places.sandboxes.join(name));
    };
    let members = cut.members();
    let _locks = members.iter().map(Sandbox::lock).collect::<Result<Vec<_>, _>>()?;
    Sandbox::await_unused(&members, INIT_END_TIMEOUT)?;
    cut.clear_members()?;
    Ok(())
}

/// Removes an empty folder: its removal was interrupted after its last file.
fn clear_empty(folder: &Path) -> Result<(), Error> {
    match fs::read_dir(folder).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(files::remove_dir(folder)?),
        _ => Ok(()),
    }
}

fn reserve_port(spec: &Spec, places: &Places) -> Result<Reserved, Error> {
    match spec.port {
        Some(port) => port::require(port),
        None => port::choose(&places.sandboxes.join(&spec.name), &ports_below(&places.sandboxes)),
    }
}

/// The ports in the manifests of all sandboxes in this folder.
pub(crate) fn ports_below(sandboxes: &Path) -> BTreeSet<u16> {
    let entries = fs::read_dir(sandboxes).into_iter().flatten().flatten();
    let manifests = entries.filter_map(|entry| Manifest::read(&entry.path().join("manifest.json")).ok());
    manifests.flat_map(|manifest| [Some(manifest.port), manifest.pooler.map(|pooler| pooler.port)]).flatten().collect()
}

/// 128 random bits: letters and digits only, so that no quoting is ever needed.
fn new_password() -> Result<String, Error> {
    random::hex()
}
