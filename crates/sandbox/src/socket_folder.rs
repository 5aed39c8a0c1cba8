// SPDX-License-Identifier: Apache-2.0
//! The folder for a server's socket: `run` in the sandbox, or a short one below `/tmp`, which a reboot removes.

use crate::{Error, Sandbox, ServerUser, random};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// `sun_path` has 108 bytes, the last of them zero (unix(7)).
const SOCKET_PATH_MAX_BYTES: usize = 107;

/// The folder for the socket: `run` in the sandbox, unless the socket's path would be too long there.
pub(crate) fn socket_folder(folder: &Path, port: u16) -> Result<PathBuf, Error> {
    let inside = folder.join("run");
    let longest = inside.join(format!(".s.PGSQL.{port}"));
    if longest.as_os_str().len() <= SOCKET_PATH_MAX_BYTES {
        return Ok(inside);
    }
    Ok(PathBuf::from("/tmp").join(format!("wringer-{}", &random::hex()?[..16])))
}

impl Sandbox {
    /// The folder for the socket when it is not in the sandbox.
    pub(crate) fn outer_socket_folder(&self) -> Option<&Path> {
        Some(self.manifest.socket_folder.as_path()).filter(|folder| !folder.starts_with(&self.folder))
    }

    /// Makes a folder for the socket that is outside of the sandbox anew if it is gone. To be called before a start.
    ///
    /// # Errors
    /// Somebody else has something at this path, or can write in the folder.
    pub(crate) fn prepare_socket_folder(&self) -> Result<(), Error> {
        self.outer_socket_folder().map_or(Ok(()), |folder| prepare(folder, &self.manifest.user))
    }
}

fn prepare(folder: &Path, user: &ServerUser) -> Result<(), Error> {
    let metadata = match folder.symlink_metadata() {
        Err(source) if source.kind() == ErrorKind::NotFound => return user.make_folder(folder),
        other => other.map_err(|source| Error::path("look at", folder, source))?,
    };
    let why = if !metadata.is_dir() {
        "it is no folder".to_owned()
    } else if metadata.uid() != user.uid {
        format!("it belongs to uid {}, and not to '{}' (uid {})", metadata.uid(), user.name, user.uid)
    } else if metadata.mode() & 0o022 != 0 {
        "other users can write in it".to_owned()
    } else {
        return Ok(());
    };
    let text = format!(
        "the server's socket would be in it, and {why}, so somebody else could take the socket's place; remove it, and the next start makes it anew"
    );
    Err(host::Error::path("use folder", folder, io::Error::other(text)).into())
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // tests lay out folders of their own
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn caller() -> ServerUser {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        ServerUser { uid, gid, name: "caller".into() }
    }

    #[test]
    fn a_folder_that_is_gone_is_made_anew() {
        let tmp = tempfile::tempdir().expect("a folder");
        let folder = tmp.path().join("wringer-1");
        let look =
            || fs::symlink_metadata(&folder).map(|it| (it.mode() & 0o777, it.uid(), it.gid())).expect("is there");
        prepare(&folder, &caller()).expect("makes it");
        assert_eq!(look(), (0o700, caller().uid, caller().gid));
        fs::write(folder.join("server.sock"), "").expect("writes");
        prepare(&folder, &caller()).expect("is there already");
        assert!(folder.join("server.sock").exists(), "what is in it stays");
        if rustix::process::geteuid().is_root() {
            fs::remove_dir_all(&folder).expect("removes");
            prepare(&folder, &ServerUser { uid: 4711, gid: 4712, name: "x".into() }).expect("makes it");
            assert_eq!(look(), (0o700, 4711, 4712));
        }
    }

    #[test]
    fn what_somebody_else_may_have_put_there_is_refused() {
        let tmp = tempfile::tempdir().expect("a folder");
        let folder = tmp.path().join("wringer-1");
        let refused = |user: &ServerUser, word: &str| {
            let error = prepare(&folder, user).expect_err(word);
            assert!(error.is_missing(), "{error}");
            let text = host::chain(&error);
            assert!(text.contains(word) && text.contains("wringer-1") && text.contains("remove it"), "{text}");
        };
        prepare(&folder, &caller()).expect("makes it");
        refused(&ServerUser { uid: caller().uid + 1, ..caller() }, "it belongs to uid");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o702)).expect("opens");
        refused(&caller(), "other users can write in it");
        fs::remove_dir(&folder).expect("removes");
        symlink(tmp.path(), &folder).expect("links");
        refused(&caller(), "it is no folder");
    }

    #[test]
    fn a_socket_stays_in_the_sandbox_while_its_path_fits() {
        let fits = PathBuf::from("/").join("x".repeat(80));
        assert_eq!(socket_folder(&fits, 21000).expect("a folder"), fits.join("run"));
        let long = PathBuf::from("/").join("x".repeat(90));
        let elsewhere = socket_folder(&long, 21000).expect("a folder");
        assert!(elsewhere.starts_with("/tmp") && elsewhere != socket_folder(&long, 21000).expect("another folder"));
    }
}
