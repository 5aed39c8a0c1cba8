// SPDX-License-Identifier: Apache-2.0
//! Reads files that the user names, by [`host::input`], and explains those that cannot be read.

pub use host::input::open_input;
use std::io;
use std::path::Path;

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

/// The error with the path of this file.
pub fn named(error: io::Error, path: &Path) -> anyhow::Error {
    anyhow::Error::new(error).context(format!("read {}", path.display()))
}

/// # Errors
/// The same as for [`host::input::limited`].
pub fn read_stdin() -> anyhow::Result<Vec<u8>> {
    host::input::limited(io::stdin().lock()).map_err(|error| anyhow::Error::new(error).context("read standard input"))
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
