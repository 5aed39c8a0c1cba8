// SPDX-License-Identifier: Apache-2.0
//! Copies a data directory into a sandbox's `data/`, except files of the original's running server, and files that would make the copy act on the
//! original's surroundings. During the copy the folder belongs to us alone: nobody else can put a link into it.

use super::{Origin, elsewhere, refusal};
use crate::digest::in_hex;
use crate::space::require_space;
use crate::{Error, Flavour, Progress, Sandbox};
use host::files::{self, Copied};
use sha2::{Digest as _, Sha256};
use std::collections::VecDeque;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use units::{Bytes, counted};

/// What the copy does with a name at the top of PostgreSQL's folder.
enum Fate {
    Copy,
    LeaveOut,
    /// The file is kept with this ending added to its name, and is not in force.
    SetAside,
}

/// PostgreSQL's files with settings that name places of the original (`data_directory`, `archive_command`, `primary_conninfo`).
const SET_ASIDE: [&str; 3] = ["postgresql.conf", "postgresql.auto.conf", "pg_hba.conf"];
/// PostgreSQL's files that belong to a running server, or that would make the copy a standby of the original's primary.
const LEFT_OUT: [&str; 5] = ["postmaster.pid", "postmaster.opts", "standby.signal", "recovery.signal", "recovery.conf"];
/// Folders of PostgreSQL whose contents are left out: slots hold back WAL for a receiver that the copy does not have.
const EMPTIED: [&str; 2] = ["pg_replslot", "pg_stat_tmp"];
/// The places where PostgreSQL itself has links.
const LINKED: [&str; 3] = ["pg_wal", "pg_xlog", "pg_tblspc"];
const ENDING: &str = ".original";

#[derive(Default)]
struct Plan {
    /// Folders below the copy, each before its content.
    folders: Vec<PathBuf>,
    files: Vec<(PathBuf, PathBuf)>,
    bytes: u64,
    changes: Vec<String>,
}

/// Copies the files; returns the differences between the copy and the original, one on each line.
pub(super) fn copy(sandbox: &Sandbox, origin: &Origin, progress: &mut dyn Progress) -> Result<Vec<String>, Error> {
    let plan = plan(origin)?;
    let (data, user) = (sandbox.data(), &sandbox.manifest.user);
    let ours = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let owner = user.identity();
    if owner.is_some() {
        files::set_owner(&data, ours.0, ours.1)?;
    }
    let mut space_checked = false;
    let mut done_bytes = 0;
    progress.doing(&format!(
        "copy {} in {} from {}",
        Bytes(plan.bytes),
        counted(plan.files.len() as u64, "file"),
        origin.path.display()
    ));
    for folder in &plan.folders {
        files::new_private_dir(&data.join(folder))?;
    }
    for (from, to) in &plan.files {
        if !space_checked && is_not_empty(from) {
            if !shares(from, &data.join(".probe"))? {
                require_space("the copy", &data, plan.bytes + (64 << 20))?;
            }
            space_checked = true;
        }
        files::copy(from, &data.join(to), 0o600, owner, &mut |bytes| {
            done_bytes += bytes;
            progress.bytes(done_bytes, plan.bytes);
            !host::interrupt::requested()
        })?;
        if host::interrupt::requested() {
            return Err(Error::Interrupted);
        }
    }
    if origin.flavour == Flavour::Postgresql {
        for (name, text) in OURS {
            files::write_atomic(&data.join(name), text.as_bytes(), 0o600)?;
            if let Some((uid, gid)) = owner {
                files::set_owner(&data.join(name), uid, gid)?;
            }
        }
    }
    if let Some((uid, gid)) = owner {
        for folder in plan.folders.iter().rev() {
            files::set_owner(&data.join(folder), uid, gid)?;
        }
        files::set_owner(&data, uid, gid)?;
    }
    Ok(plan.changes)
}

/// A checksum of the names, sizes, and times of writing and of change of all files that a copy would have: to read them would take as long as to copy them.
///
/// # Errors
/// The folder cannot be copied.
pub(super) fn as_it_is(origin: &Origin) -> Result<String, Error> {
    let mut files = plan(origin)?.files;
    files.sort_by(|(_, one), (_, other)| one.cmp(other));
    let mut hash = Sha256::new();
    for (from, to) in &files {
        let about = from.metadata().map_err(|source| Error::path("look at", from, source))?;
        let times = [about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec()];
        hash.update(to.as_os_str().as_bytes());
        hash.update(format!("\0{} {times:?}\n", about.size()));
    }
    Ok(in_hex(&hash.finalize()))
}

/// The bytes that the files take on the disk.
pub(super) fn bytes(origin: &Origin) -> Result<u64, Error> {
    let files = plan(origin)?.files;
    Ok(files.iter().map(|(from, _)| from.metadata().map_or(0, |about| about.blocks() * 512)).sum())
}

/// New settings in place of those set aside: initdb's defaults, and access for the sandbox's account; md5 also accepts SCRAM passwords.
const OURS: [(&str, &str); 3] = [
    (
        "postgresql.conf",
        "# Written by wringer. The original's settings, which are not in force: postgresql.conf.original\n\
         max_connections = 100\nshared_buffers = 128MB\ndynamic_shared_memory_type = posix\n",
    ),
    ("postgresql.auto.conf", ""),
    (
        "pg_hba.conf",
        "# Written by wringer. The original's rules, which are not in force: pg_hba.conf.original\n\
         local all wringer scram-sha-256\nhost all wringer 127.0.0.1/32 scram-sha-256\n\
         local all all md5\nhost all all 127.0.0.1/32 md5\n\
         local replication all md5\nhost replication all 127.0.0.1/32 md5\n",
    ),
];

fn is_not_empty(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.len() > 0)
}

/// Whether copies to this place share their blocks with the original.
pub(crate) fn shares(from: &Path, probe: &Path) -> Result<bool, Error> {
    let mut stop = |_| false;
    let copied = files::copy(from, probe, 0o600, None, &mut stop);
    files::remove_file(probe)?;
    Ok(matches!(copied, Ok(Copied::Shared)))
}

fn plan(origin: &Origin) -> Result<Plan, Error> {
    let mut plan = Plan::default();
    let mut waiting = VecDeque::from([(origin.path.clone(), PathBuf::new())]);
    let mut found: Vec<String> = Vec::new();
    while let Some((folder, below)) = waiting.pop_front() {
        let entries = fs::read_dir(&folder).map_err(|source| Error::path("read folder", &folder, source))?;
        for entry in entries {
            let entry = entry.map_err(|source| Error::path("read folder", &folder, source))?;
            let (from, to) = (entry.path(), below.join(entry.file_name()));
            let mut metadata = from.symlink_metadata().map_err(|source| Error::path("look at", &from, source))?;
            let mut real = from.clone();
            if metadata.is_symlink() {
                real = follow(origin, &from, &to)?;
                metadata = real.metadata().map_err(|source| Error::path("look at", &real, source))?;
                found.push(format!("{} is a folder, not a link to {}", to.display(), real.display()));
            }
            let target = match fate(origin.flavour, &to) {
                Fate::LeaveOut => {
                    found.push(format!("{} is left out", to.display()));
                    continue;
                }
                Fate::SetAside => {
                    let name = format!("{}{ENDING}", to.display());
                    found.push(format!("{} is kept as {name}, and is not in force", to.display()));
                    PathBuf::from(name)
                }
                Fate::Copy => to,
            };
            if metadata.is_dir() {
                let is_emptied =
                    origin.flavour == Flavour::Postgresql && EMPTIED.iter().any(|name| target == Path::new(name));
                if !is_emptied {
                    waiting.push_back((real, target.clone()));
                } else if fs::read_dir(&real).is_ok_and(|mut entries| entries.next().is_some()) {
                    found.push(format!("{} is empty", target.display()));
                }
                plan.folders.push(target);
            } else if metadata.is_file() {
                elsewhere::refuse(origin, &real, &target)?;
                plan.bytes += metadata.blocks() * 512;
                plan.files.push((real, target));
            }
        }
    }
    found.sort();
    plan.changes = found;
    Ok(plan)
}

fn fate(flavour: Flavour, name: &Path) -> Fate {
    let is = |names: &[&str]| names.iter().any(|known| name == Path::new(known));
    let text = name.to_string_lossy();
    match flavour {
        Flavour::Postgresql if is(&LEFT_OUT) => Fate::LeaveOut,
        Flavour::Postgresql if is(&SET_ASIDE) => Fate::SetAside,
        Flavour::Postgresql => Fate::Copy,
        // auto.cnf is the original's identity among its replicas
        Flavour::Mariadb | Flavour::Mysql | Flavour::Percona
            if is(&["auto.cnf"]) || ends_with(&text, &[".pid", ".sock", ".sock.lock"]) =>
        {
            Fate::LeaveOut
        }
        Flavour::Mariadb | Flavour::Mysql | Flavour::Percona => Fate::Copy,
    }
}

fn ends_with(name: &str, endings: &[&str]) -> bool {
    endings.iter().any(|ending| name.ends_with(ending))
}

/// The target of a link. PostgreSQL has links to tablespaces and to its WAL, which may be folders in the copy; they belong to the owner of the data
/// directory. Any other link leads to something outside of the origin.
fn follow(origin: &Origin, link: &Path, name: &Path) -> Result<PathBuf, Error> {
    let real = link.canonicalize().map_err(|source| Error::path("follow the link", link, source))?;
    let top = name.components().next().map(|part| part.as_os_str().to_owned()).unwrap_or_default();
    let depth = name.components().count();
    let known = LINKED.iter().any(|known| top == *known && depth <= 2);
    let mut why = format!("{} in it is a link to {}: that part is not copied", name.display(), real.display());
    if origin.flavour == Flavour::Postgresql && known && real.is_dir() {
        let (owner, owner_of_all) = (owner(&real)?, owner(&origin.path)?);
        if owner == owner_of_all {
            return Ok(real);
        }
        why.push_str(&format!(
            ", because it belongs to uid {owner}, and the data directory belongs to uid {owner_of_all}"
        ));
    }
    Err(refusal(&origin.path, why, "put the file or folder in the link's place, in a copy; or use a backup or a dump"))
}

fn owner(path: &Path) -> Result<u32, Error> {
    let metadata = path.metadata().map_err(|source| Error::path("look at", path, source))?;
    Ok(metadata.uid())
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // tests lay out folders of their own
mod tests {
    use super::*;
    use crate::origin::Kind;
    use std::os::unix::fs::{chown, symlink};

    /// As root, the copy would give the files of any folder to the server's user.
    #[test]
    fn a_link_is_followed_to_folders_of_the_same_owner_alone() {
        let home = tempfile::tempdir().expect("a folder");
        let (data, wal) = (home.path().join("data"), home.path().join("wal"));
        fs::create_dir(&data).expect("makes");
        fs::create_dir(&wal).expect("makes");
        fs::write(wal.join("0001"), "x").expect("writes");
        symlink(&wal, data.join("pg_wal")).expect("links");
        let origin = Origin {
            path: data.clone(),
            kind: Kind::DataDirectory,
            flavour: Flavour::Postgresql,
            version: None,
            why: String::new(),
            recovers: false,
        };
        let first = as_it_is(&origin).expect("can be read");
        assert_eq!(as_it_is(&origin).expect("can be read"), first);
        // of the same size, behind the link
        fs::write(wal.join("0001"), "y").expect("writes");
        let second = as_it_is(&origin).expect("can be read");
        assert_ne!(second, first);
        fs::rename(wal.join("0001"), wal.join("0002")).expect("renames");
        assert_ne!(as_it_is(&origin).expect("can be read"), second);
        let followed = plan(&origin).expect("the same owner");
        assert_eq!((followed.folders, followed.files.len()), (vec![PathBuf::from("pg_wal")], 1));
        let foreign = if rustix::process::geteuid().is_root() {
            chown(&wal, Some(4711), None).expect("changes the owner");
            wal
        } else {
            PathBuf::from("/")
        };
        fs::remove_file(data.join("pg_wal")).expect("removes");
        symlink(&foreign, data.join("pg_wal")).expect("links");
        let error = plan(&origin).map(|plan| plan.files).expect_err("another owner");
        assert!(error.is_missing() && error.to_string().contains("because it belongs to uid"), "{error}");
    }
}
