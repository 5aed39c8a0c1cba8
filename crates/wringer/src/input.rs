// SPDX-License-Identifier: Apache-2.0
//! Reads files that the user names, by [`host::input`], and explains those that cannot be read.

use crate::exit::Exit;
pub use host::input::open_input;
use std::path::Path;
use std::string::FromUtf8Error;
use std::{fs, io};

/// # Errors
/// The same as for [`host::input::read`]; the message names the file.
pub fn read(path: &Path) -> anyhow::Result<String> {
    host::input::read(path).map_err(|error| named(error, path))
}

/// # Errors
/// The same as for [`host::input::read_bytes`]; the message names the file.
pub fn read_bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    host::input::read_bytes(path).map_err(|error| named(error, path))
}

/// # Errors
/// There is no such file, or this user may not read it. What is no ordinary file is not opened: the bytes of a pipe can be read only once.
pub fn check_readable(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.is_file() {
        fs::File::open(path)?;
    }
    Ok(())
}

/// The file in a sentence; `-` is the standard input.
pub fn name(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

/// The error with the path of this file.
pub fn named(error: io::Error, path: &Path) -> anyhow::Error {
    anyhow::Error::new(error).context(format!("read {}", path.display()))
}

/// # Errors
/// The same as for [`host::input::limited`].
pub fn read_stdin() -> anyhow::Result<Vec<u8>> {
    host::input::limited(io::stdin().lock()).map_err(|error| anyhow::Error::new(error).context("read standard input"))
}

/// The exit code for an input that could not be read: 2 where its content is no text or far too long, 3 where there is no such file or it cannot be opened.
pub fn exit_of(error: &anyhow::Error) -> Exit {
    let root = error.root_cause();
    let kind = root.downcast_ref::<io::Error>().map(io::Error::kind);
    let is_content = matches!(kind, Some(io::ErrorKind::InvalidData | io::ErrorKind::FileTooLarge));
    if is_content || root.is::<FromUtf8Error>() { Exit::Usage } else { Exit::Missing }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_named() {
        for endless in ["/dev/zero", "/no/such"] {
            let said = format!("{:#}", read(Path::new(endless)).expect_err("refused"));
            assert!(said.contains(endless), "{said}");
        }
    }
}
