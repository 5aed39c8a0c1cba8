// SPDX-License-Identifier: Apache-2.0
//! Reads the log of a server whose statements are to be sent once more.

use crate::exit::{Exit, Failure};
use crate::input;
use logs::{Format, Recorded};
use std::io::BufReader;
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
        let message = format!("{} is no log that is known here", path.display());
        let hint = "known are the slow and the general log of MySQL and MariaDB; PostgreSQL's with time and process in \
                    log_line_prefix ('%m [%p] '), its csvlog and its jsonlog";
        Failure::message(Exit::Missing, message).hint(hint)
    })
}
