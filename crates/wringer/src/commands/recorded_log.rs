// SPDX-License-Identifier: Apache-2.0
//! Reads the log of a server whose statements are to be sent once more.

use crate::exit::{Exit, Failure};
use crate::input;
use logs::{Format, Recorded};
use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::Path;

/// `-` is standard input.
///
/// # Errors
/// Exit code 3: it cannot be read, or is no log that is known.
pub fn read(path: &Path) -> Result<(Format, Recorded), Failure> {
    let failed = |source: std::io::Error| {
        Failure::new(Exit::Missing, anyhow::Error::new(source).context(format!("read {}", path.display())))
    };
    let read = if path == Path::new("-") {
        logs::read(std::io::stdin().lock())
    } else {
        logs::read(BufReader::with_capacity(1 << 20, input::open_input(path).map_err(failed)?))
    };
    read.map_err(failed)?.ok_or_else(|| {
        if let Some(program) = unpacked_by(path) {
            let message = format!("{} is packed: a log is read as text", path.display());
            let hint = format!("{program} {} | wringer replay -", path.display());
            return Failure::message(Exit::Missing, message).hint(hint);
        }
        let message = format!("{} is no log that is known here", input::name(path));
        let hint = "known are the slow and the general log of MySQL and MariaDB; PostgreSQL's with time and process in \
                    log_line_prefix ('%m [%p] '), its csvlog and its jsonlog";
        Failure::message(Exit::Missing, message).hint(hint)
    })
}

/// The program that prints a packed file's content, by the file's first bytes.
fn unpacked_by(path: &Path) -> Option<&'static str> {
    let mut head = [0; 4];
    if !path.is_file() || File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_err() {
        return None;
    }
    match head {
        [0x1f, 0x8b, ..] => Some("zcat"),
        [0x28, 0xb5, 0x2f, 0xfd] => Some("zstdcat"),
        [0xfd, b'7', b'z', b'X'] => Some("xzcat"),
        [b'B', b'Z', b'h', _] => Some("bzcat"),
        _ => None,
    }
}
