// SPDX-License-Identifier: Apache-2.0
//! Files that the user names: read as a whole, unless the file is of a kind or size that the user cannot have meant.

use rustix::fs::{Mode, OFlags, open};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

/// Far more than any file with an experiment, a workload, a histogram or options.
const BYTES_MOST: u64 = 256 << 20;

/// The text of a file, or of a pipe such as a shell's `<(...)`.
///
/// # Errors
/// The file does not exist, is a device or a folder, is larger than 256 MiB, or is no text.
pub fn read(path: &Path) -> io::Result<String> {
    String::from_utf8(read_bytes(path)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is no text in UTF-8"))
}

/// As [`read`], for text in any encoding.
///
/// # Errors
/// As [`read`].
pub fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    limited(open_input(path)?)
}

/// The whole content of standard input, or of another stream.
///
/// # Errors
/// The stream cannot be read, or holds more than 256 MiB.
pub fn limited(input: impl Read) -> io::Result<Vec<u8>> {
    at_most(input, BYTES_MOST)
}

/// Opens a file or a pipe that is read as its data comes.
///
/// # Errors
/// The file cannot be opened, or is neither a file nor a pipe.
pub fn open_input(path: &Path) -> io::Result<File> {
    // the kind is checked before the open: opening a device may have an effect on it
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

fn at_most(input: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let why = format!("it is larger than {}, the most that is read here", units::Bytes(most));
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_is_refused() {
        let said = |path: &str| read(Path::new(path)).expect_err("refused").to_string();
        for endless in ["/dev/zero", "/dev/urandom", "/dev/full"] {
            assert!(said(endless).contains("is a device"), "{}", said(endless));
        }
        assert!(said("/").contains("is a folder"), "{}", said("/"));
        assert!(said("/no/such").contains("No such file"), "{}", said("/no/such"));
        assert_eq!(read(Path::new("/dev/null")).expect("reads"), "");
        assert!(at_most(io::repeat(0), 1000).expect_err("too long").to_string().contains("larger than 1000"));
        assert_eq!(at_most(io::repeat(7).take(1000), 1000).expect("fits").len(), 1000);
    }
}
