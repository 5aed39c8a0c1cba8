// SPDX-License-Identifier: Apache-2.0
//! Files that are written as a whole or not at all, and by no link that somebody else has put there.

use super::sync_parent;
use crate::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// A file that takes its name, and the place of an earlier file of that name, when it is whole. Until then it lies beside it, as `.NAME.PID.new`; when
/// it is dropped before, it is removed. A link of that name is replaced, not followed.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    new: PathBuf,
    path: PathBuf,
    is_kept: bool,
}

impl NewFile {
    /// `mode`: what the user's umask leaves of it.
    ///
    /// # Errors
    /// The folder does not exist, or may not be written.
    #[allow(clippy::disallowed_methods)]
    pub fn create(path: &Path, mode: u32) -> io::Result<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let new = path.with_file_name(format!(".{name}.{}.new", std::process::id()));
        let make = || OpenOptions::new().write(true).create_new(true).mode(mode).open(&new);
        let file = match make() {
            // the file of an earlier process with our pid, which was killed; or a link that somebody has put there
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_file(&new).and_then(|()| make())?
            }
            other => other?,
        };
        Ok(Self { file, new, path: path.to_owned(), is_kept: false })
    }

    /// Gives the file its name, durably.
    ///
    /// # Errors
    /// The disk is full or failed.
    #[allow(clippy::disallowed_methods)]
    pub fn keep(mut self) -> Result<(), Error> {
        let renamed = self.file.sync_data().and_then(|()| fs::rename(&self.new, &self.path));
        renamed.map_err(|source| Error::path("write", &self.path, source))?;
        self.is_kept = true;
        sync_parent(&self.path)
    }

    /// Whether a file of this name is one that a killed process left beside `name`.
    pub fn is_beside(name: &str, file_name: &str) -> bool {
        let pid = file_name.strip_prefix('.').and_then(|rest| rest.strip_prefix(name)?.strip_prefix('.'));
        pid.and_then(|rest| rest.strip_suffix(".new")).is_some_and(|pid| pid.parse::<u32>().is_ok())
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    #[allow(clippy::disallowed_methods)]
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = fs::remove_file(&self.new);
        }
    }
}

/// Writes `content` to `path`, as a whole or not at all, and durably, with exactly this mode: a new file beside it, fdatasync, rename, fsync of the
/// folder.
///
/// # Errors
/// It cannot be written.
pub fn write_atomic(path: &Path, content: &[u8], mode: u32) -> Result<(), Error> {
    let write = || {
        let mut file = NewFile::create(path, mode)?;
        file.file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.write_all(content).map(|()| file)
    };
    write().map_err(|source| Error::path("write", path, source))?.keep()
}

/// Writes to a file that a user named. An ordinary file is replaced as a whole, also where a link leads to it. A pipe, a terminal or a device takes the
/// bytes, and stays what it is.
///
/// # Errors
/// It cannot be written.
#[allow(clippy::disallowed_methods)]
pub fn write_named(path: &Path, content: &[u8], mode: u32) -> Result<(), Error> {
    let failed = |source| Error::path("write", path, source);
    match fs::metadata(path) {
        Ok(there) if there.is_file() || there.is_dir() => {
            write_atomic(&fs::canonicalize(path).map_err(failed)?, content, mode)
        }
        Ok(_) => OpenOptions::new().write(true).open(path).and_then(|mut file| file.write_all(content)).map_err(failed),
        Err(_) => write_atomic(path, content, mode),
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    #[test]
    fn atomic_write_leaves_one_file_with_the_mode() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("secret");
        write_atomic(&path, b"one", 0o600).expect("writes");
        write_atomic(&path, b"two", 0o600).expect("writes again");
        assert_eq!(fs::read(&path).expect("reads"), b"two");
        assert_eq!(fs::metadata(&path).expect("is there").permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).expect("lists").count(), 1);
    }

    /// Root's `--to /dev/null` must not replace the host's device.
    #[test]
    fn what_a_user_names_stays_what_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let [file, link, pipe] = ["file", "link", "pipe"].map(|name| folder.path().join(name));
        fs::write(&file, "old").expect("writes");
        std::os::unix::fs::symlink(&file, &link).expect("links");
        write_named(&link, b"new", 0o644).expect("writes");
        assert!(fs::symlink_metadata(&link).expect("is there").is_symlink());
        assert_eq!(fs::read(&file).expect("reads"), b"new");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("makes");
        let reader = {
            let pipe = pipe.clone();
            std::thread::spawn(move || fs::read(pipe))
        };
        write_named(&pipe, b"bytes", 0o644).expect("writes");
        assert_eq!(reader.join().expect("ends").expect("reads"), b"bytes");
        assert!(!fs::symlink_metadata(&pipe).expect("is there").is_file());
        write_named(Path::new("/dev/null"), b"nothing", 0o600).expect("writes");
        assert!(!fs::symlink_metadata("/dev/null").expect("is there").is_file());
    }

    /// In a folder of another user, root's results must not be written into what a link there leads to.
    #[test]
    fn a_link_is_replaced_and_what_it_leads_to_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let [victim, result] = ["victim", "result.json"].map(|name| folder.path().join(name));
        fs::write(&victim, "of the host").expect("writes");
        let beside = folder.path().join(format!(".result.json.{}.new", std::process::id()));
        for link in [&result, &beside] {
            std::os::unix::fs::symlink(&victim, link).expect("links");
        }
        let mut file = NewFile::create(&result, 0o600).expect("makes");
        file.write_all(b"{}").expect("writes");
        assert!(
            fs::symlink_metadata(&result).expect("is there").is_symlink(),
            "the name is taken when the file is whole"
        );
        file.keep().expect("keeps");
        assert_eq!(fs::read(&victim).expect("reads"), b"of the host");
        assert_eq!(fs::read(&result).expect("reads"), b"{}");
        assert!(!beside.exists());
    }

    #[test]
    fn half_a_file_is_removed_and_the_earlier_one_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let result = folder.path().join("result.json");
        fs::write(&result, "earlier").expect("writes");
        let mut file = NewFile::create(&result, 0o600).expect("makes");
        file.write_all(b"ha").expect("writes");
        let names = || fs::read_dir(folder.path()).expect("lists").flatten().map(|it| it.file_name());
        let names: Vec<String> = names().map(|name| name.to_string_lossy().into_owned()).collect();
        assert!(names.iter().any(|name| NewFile::is_beside("result.json", name)), "{names:?}");
        assert!(
            !NewFile::is_beside("result.json", "result.json")
                && !NewFile::is_beside("result.json", ".result.json.x.new")
        );
        drop(file);
        assert_eq!(fs::read(&result).expect("reads"), b"earlier");
        assert_eq!(fs::read_dir(folder.path()).expect("lists").count(), 1);
    }
}
