// SPDX-License-Identifier: Apache-2.0
//! Files that the user names: read whole, unless they cannot be what was meant.

use rustix::fs::{Mode, OFlags, open};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

/// Far more than any experiment, workload, histogram or option file has.
const BYTES_MOST: u64 = 256 << 20;

/// The text of a file, or of a pipe such as a shell's `<(...)`.
///
/// # Errors
/// It is not there, is a device or a folder, is larger than 256 MiB, or is no text; the file is named.
pub fn read(path: &Path) -> anyhow::Result<String> {
    let bytes = read_bytes(path)?;
    String::from_utf8(bytes).map_err(|_| anyhow::anyhow!("read {}: it is no text in UTF-8", path.display()))
}

/// As [`read`], for text in any encoding.
///
/// # Errors
/// As [`read`].
pub fn read_bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    let named = |error: io::Error| anyhow::Error::new(error).context(format!("read {}", path.display()));
    let file = open_input(path).map_err(named)?;
    limited(file, BYTES_MOST).map_err(named)
}

/// What standard input has, as text.
///
/// # Errors
/// As [`read`].
pub fn read_stdin() -> anyhow::Result<Vec<u8>> {
    limited(io::stdin().lock(), BYTES_MOST).map_err(|error| anyhow::Error::new(error).context("read standard input"))
}

/// For what is read as it comes.
///
/// # Errors
/// It cannot be opened, or is neither a file nor a pipe.
pub fn open_input(path: &Path) -> io::Result<File> {
    // looked at before it is opened, for to open a device may do something to it
    check(&std::fs::metadata(path)?)?;
    let file = File::from(open(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())?);
    check(&file.metadata()?)?;
    Ok(file)
}

fn check(found: &Metadata) -> io::Result<()> {
    let (kind, null) = (found.file_type(), rustix::fs::makedev(1, 3));
    if kind.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder, where a file is expected"));
    }
    if kind.is_block_device() || (kind.is_char_device() && found.rdev() != null) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a device, where a file or a pipe is expected"));
    }
    Ok(())
}

fn limited(input: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let why = format!("it holds more than {}: that is no file for this", units::Bytes(most));
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_is_refused() {
        let said = |path: &str| format!("{:#}", read(Path::new(path)).expect_err("refused"));
        for endless in ["/dev/zero", "/dev/urandom", "/dev/full"] {
            assert!(said(endless).contains("is a device") && said(endless).contains(endless), "{}", said(endless));
        }
        assert!(said("/").contains("is a folder"), "{}", said("/"));
        assert!(said("/no/such").contains("No such file"), "{}", said("/no/such"));
        assert_eq!(read(Path::new("/dev/null")).expect("reads"), "");
        assert!(limited(io::repeat(0), 1000).expect_err("too long").to_string().contains("more than 1000"));
        assert_eq!(limited(io::repeat(7).take(1000), 1000).expect("fits").len(), 1000);
    }
}
