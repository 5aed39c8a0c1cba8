// SPDX-License-Identifier: Apache-2.0
use crate::Error;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// A file below `/proc` or `/sys` that is opened once and read repeatedly from its start: the kernel makes its text anew for each read.
#[derive(Debug)]
pub(crate) struct ProcFile {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
}

impl ProcFile {
    pub(crate) fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref().to_owned();
        match File::open(&path) {
            Ok(file) => Ok(Self { path, file, buffer: vec![0; 4096] }),
            Err(source) => Err(Error::File { operation: "open", path, source }),
        }
    }

    /// The whole text. A file that is longer than the buffer is read once more with a larger buffer, so that the text comes from one read, if the
    /// kernel makes it in one piece.
    pub(crate) fn text(&mut self) -> Result<&str, Error> {
        let length =
            self.fill().map_err(|source| Error::File { operation: "read", path: self.path.clone(), source })?;
        Ok(std::str::from_utf8(&self.buffer[..length]).unwrap_or_default())
    }

    fn fill(&mut self) -> io::Result<usize> {
        let mut length = 0;
        loop {
            if length == self.buffer.len() {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
            let offset = u64::try_from(length).unwrap_or(u64::MAX);
            match self.file.read_at(&mut self.buffer[length..], offset)? {
                0 => return Ok(length),
                read => length += read,
            }
        }
    }
}

impl Error {
    /// Whether the error means that the process of a file of `/proc/PID` has ended.
    pub(crate) fn says_gone(&self) -> bool {
        matches!(self, Self::File { source, .. }
            if matches!(source.raw_os_error(), Some(libc::ESRCH | libc::ENOENT)))
    }
}
