// SPDX-License-Identifier: Apache-2.0
//! A profile's bytes, which are read several times: those of a file by its path, those of a pipe from a copy that has no name.

use crate::exit::{Exit, Failure};
use crate::input;
use heap::Error;
use host::files;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name of standard input on the command line.
const STANDARD_INPUT: &str = "-";

#[derive(Debug, Clone)]
pub(super) struct Source {
    path: PathBuf,
    /// `None`: the file can be opened again.
    copy: Option<Arc<File>>,
}

impl Source {
    /// # Errors
    /// Exit code 3: a pipe cannot be read, or there is no room for its copy.
    pub(super) fn of(path: &Path) -> Result<Self, Failure> {
        let copy = if is_read_once(path) { Some(Arc::new(copied(path)?)) } else { None };
        Ok(Self { path: path.to_owned(), copy })
    }

    /// Each path is read once, however often it is named.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub(super) fn all(paths: &[PathBuf]) -> Result<Vec<Self>, Failure> {
        let mut all: Vec<Self> = Vec::new();
        for path in paths {
            let known = all.iter().find(|it| it.path == *path).cloned();
            all.push(known.map_or_else(|| Self::of(path), Ok)?);
        }
        Ok(all)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn name(&self) -> String {
        input::name(&self.path)
    }

    /// Opens the bytes at their beginning, decompressed.
    ///
    /// # Errors
    /// Exit code 3: they cannot be read.
    pub(super) fn open(&self) -> Result<Box<dyn Read>, Failure> {
        self.again().map_err(|error| unreadable(self, error))
    }

    /// Opens what was read before.
    pub(super) fn again(&self) -> Result<Box<dyn Read>, Error> {
        Ok(match &self.copy {
            Some(copy) => heap::plain(Copied { file: Arc::clone(copy), at_byte: 0 })?,
            None => heap::plain(input::open_input(&self.path)?)?,
        })
    }
}

/// The failure for bytes that cannot be read, or are no profile.
pub(super) fn unreadable(source: &Source, error: Error) -> Failure {
    match error {
        Error::Damage(damage) => Failure::message(Exit::Missing, format!("{}: {damage}", source.name())).hint(
            "a heap profile is expected: of Massif, heaptrack, gperftools, jemalloc or DHAT, as it is or compressed by gzip, zstd, xz or bzip2",
        ),
        Error::Io(error) => Failure::new(Exit::Missing, input::named(error, Path::new(&source.name()))),
    }
}

/// Whether what this path names is gone once it was read. What does not exist, and folders, are left to the error of the open.
pub(super) fn is_read_once(path: &Path) -> bool {
    let is_pipe = || std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
    path.as_os_str() == STANDARD_INPUT || is_pipe()
}

/// One reading of a copy; each reading has its own place in it.
struct Copied {
    file: Arc<File>,
    at_byte: u64,
}

impl Read for Copied {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at_byte)?;
        self.at_byte += read as u64;
        Ok(read)
    }
}

fn copied(path: &Path) -> Result<File, Failure> {
    let unread = |error: io::Error| Failure::new(Exit::Missing, input::named(error, Path::new(&input::name(path))));
    let mut input = match path.as_os_str() {
        it if it == STANDARD_INPUT => io::stdin().as_fd().try_clone_to_owned().map(File::from),
        _ => input::open_input(path),
    }
    .map_err(unread)?;
    let folder = std::env::temp_dir();
    let no_room = |error: anyhow::Error| {
        let what =
            format!("copy {} to {}, because a profile is read more than once", input::name(path), folder.display());
        Failure::new(Exit::Missing, error.context(what))
            .hint("TMPDIR=FOLDER names another folder; or write it to a file, and name the file")
    };
    let mut file = files::nameless(&folder).map_err(|error| no_room(error.into()))?;
    match copy(&mut input, &mut file) {
        Ok(()) => Ok(file),
        Err(Broken::Input(error)) => Err(unread(error)),
        Err(Broken::Output(error)) => Err(no_room(error.into())),
    }
}

#[derive(Debug)]
enum Broken {
    Input(io::Error),
    Output(io::Error),
}

fn copy(input: &mut impl Read, output: &mut impl Write) -> Result<(), Broken> {
    let mut buffer = vec![0; 256 << 10];
    loop {
        match input.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => output.write_all(buffer.get(..read).unwrap_or_default()).map_err(Broken::Output)?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Broken::Input(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods)]
    fn a_full_disk_is_no_fault_of_the_input() {
        let mut full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let broken = copy(&mut [7_u8; 100].as_slice(), &mut full).unwrap_err();
        assert!(matches!(broken, Broken::Output(error) if error.kind() == ErrorKind::StorageFull));
        let mut folder = File::open("/").unwrap();
        assert!(matches!(copy(&mut folder, &mut io::sink()), Err(Broken::Input(_))));
    }

    #[test]
    fn two_readings_of_a_copy_do_not_meet() {
        let mut file = files::nameless(&std::env::temp_dir()).unwrap();
        copy(&mut [3_u8; 700_000].as_slice(), &mut file).unwrap();
        let source = Source { path: STANDARD_INPUT.into(), copy: Some(Arc::new(file)) };
        let (mut first, mut second) = (source.again().unwrap(), source.again().unwrap());
        let mut read = [Vec::new(), Vec::new()];
        first.by_ref().take(10).read_to_end(&mut read[0]).unwrap();
        second.read_to_end(&mut read[1]).unwrap();
        first.read_to_end(&mut read[0]).unwrap();
        assert_eq!(read.map(|it| it.len()), [700_000; 2]);
    }

    #[test]
    fn what_is_read_once() {
        assert!(["-", "/dev/null"].map(Path::new).into_iter().all(is_read_once));
        assert!(!["/", "/no/such", "/proc/self/exe"].map(Path::new).into_iter().any(is_read_once));
    }
}
