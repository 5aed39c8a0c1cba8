// SPDX-License-Identifier: Apache-2.0
//! The user as whom a server runs: the caller; or, for root, the user behind sudo, else `nobody`. Never root: PostgreSQL refuses that, and a
//! throw-away server must not have root's rights.

use crate::Error;
use host::files;
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerUser {
    pub uid: u32,
    pub gid: u32,
    pub name: String,
}

impl ServerUser {
    /// # Errors
    /// The caller is root, and neither `SUDO_UID` nor the user `nobody` names another user.
    pub fn choose() -> Result<Self, Error> {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        if !uid.is_root() {
            return Ok(Self::named(uid.as_raw(), gid.as_raw()));
        }
        let variable = |name| std::env::var(name).ok()?.parse::<u32>().ok();
        match (variable("SUDO_UID"), variable("SUDO_GID")) {
            (Some(uid), Some(gid)) if uid != 0 => Ok(Self::named(uid, gid)),
            _ => nobody().ok_or(Error::NoUser { why: "servers do not run as root, and /etc/passwd has no 'nobody'" }),
        }
    }

    /// (uid, gid) to change to; `None` when the caller has them already.
    pub fn identity(&self) -> Option<(u32, u32)> {
        (rustix::process::geteuid().as_raw() != self.uid).then_some((self.uid, self.gid))
    }

    /// Whether this user can pass through every folder above `path`. Supplementary groups and access lists are not considered: the server runs
    /// without supplementary groups.
    ///
    /// # Errors
    /// [`Error::Unreachable`] names the first folder that stops this user.
    pub fn check_reach(&self, path: &Path) -> Result<(), Error> {
        let real = path.canonicalize().map_err(|source| Error::path("look at", path, source))?;
        // a server that runs as its caller has the caller's groups as well: the caller has just passed through
        if self.identity().is_none() {
            return Ok(());
        }
        let mut folders: Vec<PathBuf> = real.ancestors().skip(1).map(Path::to_owned).collect();
        folders.reverse();
        for folder in folders {
            let metadata = fs::metadata(&folder).map_err(|source| Error::path("look at", &folder, source))?;
            if !self.may_pass(metadata.mode(), metadata.uid(), metadata.gid()) {
                let user = self.name.clone();
                return Err(Error::Unreachable { user, uid: self.uid, component: folder, path: path.into() });
            }
        }
        Ok(())
    }

    /// Makes a new folder that belongs to this user, 0700.
    ///
    /// # Errors
    /// The name is taken.
    pub(crate) fn make_folder(&self, folder: &Path) -> Result<(), Error> {
        files::new_private_dir(folder)?;
        self.identity().map_or(Ok(()), |(uid, gid)| Ok(files::set_owner(folder, uid, gid)?))
    }

    /// Whether this user can read the file; as [`Self::check_reach`].
    ///
    /// # Errors
    /// As [`Self::check_reach`]; the file is named where it may not be read.
    pub(crate) fn check_read(&self, path: &Path) -> Result<(), Error> {
        // a server that runs as its caller has the caller's groups as well
        if self.identity().is_none() {
            return rustix::fs::access(path, rustix::fs::Access::READ_OK)
                .map_err(|error| Error::path("open", path, error));
        }
        self.check_reach(path)?;
        let metadata = fs::metadata(path).map_err(|source| Error::path("look at", path, source))?;
        if self.may(0o4, metadata.mode(), metadata.uid(), metadata.gid()) {
            return Ok(());
        }
        let what = format!(
            "user '{}' (uid {}), as whom the server would run, cannot read {}",
            self.name,
            self.uid,
            path.display()
        );
        Err(Error::Unwrappable { what, hint: Some(format!("chmod a+r {}", path.display())) })
    }

    fn may_pass(&self, mode: u32, uid: u32, gid: u32) -> bool {
        self.may(0o1, mode, uid, gid)
    }

    /// `right`: 4 to read, 1 to pass through a folder.
    fn may(&self, right: u32, mode: u32, uid: u32, gid: u32) -> bool {
        let bit = if uid == self.uid {
            right << 6
        } else if gid == self.gid {
            right << 3
        } else {
            right
        };
        self.uid == 0 || mode & bit != 0
    }

    fn named(uid: u32, gid: u32) -> Self {
        let name = passwd().into_iter().find(|entry| entry.uid == uid).map(|entry| entry.name);
        Self { uid, gid, name: name.unwrap_or_else(|| uid.to_string()) }
    }
}

fn nobody() -> Option<ServerUser> {
    passwd().into_iter().find(|user| user.name == "nobody" && user.uid != 0)
}

fn passwd() -> Vec<ServerUser> {
    fs::read_to_string("/etc/passwd").unwrap_or_default().lines().filter_map(passwd_entry).collect()
}

/// An entry of passwd(5): `name:password:uid:gid:...`.
fn passwd_entry(line: &str) -> Option<ServerUser> {
    let fields: Vec<&str> = line.split(':').collect();
    let [name, _, uid, gid, ..] = fields[..] else { return None };
    Some(ServerUser { uid: uid.parse().ok()?, gid: gid.parse().ok()?, name: name.into() })
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // tests lay out folders of their own
mod tests {
    use super::*;

    fn somebody() -> ServerUser {
        ServerUser { uid: 4711, gid: 4712, name: "somebody".into() }
    }

    #[test]
    fn the_bit_that_counts_is_the_owners_the_groups_or_the_others() {
        let user = somebody();
        assert!(user.may_pass(0o711, 0, 0) && !user.may_pass(0o700, 0, 0));
        assert!(user.may_pass(0o710, 0, 4712) && !user.may_pass(0o701, 0, 4712));
        assert!(user.may_pass(0o100, 4711, 0) && !user.may_pass(0o011, 4711, 4712));
        assert!(user.may(0o4, 0o604, 0, 0) && user.may(0o4, 0o640, 0, 4712) && !user.may(0o4, 0o600, 0, 0));
    }

    #[test]
    fn a_closed_folder_is_named() {
        use std::os::unix::fs::PermissionsExt as _;
        let home = tempfile::tempdir().expect("a folder");
        let closed = home.path().canonicalize().expect("is there");
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("closes");
        let below = closed.join("data");
        fs::create_dir(&below).expect("makes");
        match somebody().check_reach(&below) {
            Err(Error::Unreachable { component, .. }) => assert_eq!(component, closed),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn passwd_lines() {
        let entry = passwd_entry("nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin").expect("parses");
        assert_eq!((entry.name.as_str(), entry.uid, entry.gid), ("nobody", 65534, 65534));
        assert!(passwd_entry("# comment").is_none());
    }
}
