// SPDX-License-Identifier: Apache-2.0
//! Runs the programs that download and unpack: each with a log and with its progress, and each is ended on Ctrl-C.

use crate::Error;
use host::files;
use host::process::end_with_caller;
use host::tool;
use rustix::process::Signal;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The pause between two looks at a download.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Runs the command to its end, without input, and calls `look` meanwhile.
pub(crate) fn run(
    mut command: Command,
    doing: &'static str,
    log_path: &Path,
    look: &mut dyn FnMut(),
) -> Result<(), Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    files::remove_file(log_path)?;
    let log = files::open_log(log_path)?;
    let copy = log.try_clone().map_err(|source| Error::path("open log", log_path, source))?;
    command.stdin(Stdio::null()).stdout(log).stderr(copy);
    // the download must end with this process: otherwise it would write into a folder that the next fetch clears
    end_with_caller(&mut command, Signal::TERM);
    let mut child = command.spawn().map_err(|source| Error::path("start", &program, source))?;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|source| Error::path("wait for", &program, source))? {
            break status;
        }
        if host::interrupt::requested() {
            let _ = child.kill();
            let _ = child.wait();
            return Err(Error::Interrupted);
        }
        look();
        std::thread::sleep(LOOK_EVERY);
    };
    if status.success() {
        Ok(())
    } else {
        Err(Error::Program { program, doing, status: status.to_string(), log: log_end(log_path) })
    }
}

/// The words of apt, dpkg and Java for a full disk.
const NO_ROOM: [&str; 2] = ["No space left on device", "enough free space"];
/// With less free space than this, the end of a client's log, which is on the same disk, may be missing.
const ROOM_FOR_WORDS: u64 = 1 << 20;

pub(crate) fn says_no_room(log: &[String]) -> bool {
    log.iter().any(|line| NO_ROOM.iter().any(|words| line.contains(words)))
}

/// Replaces a client's failure by [`Error::NoRoom`] if a full disk caused it. To be called before the client's files are removed.
pub(crate) fn or_no_room(error: Error, folder: &Path) -> Error {
    let free_bytes =
        || rustix::fs::statvfs(folder).map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    match error {
        Error::Program { program, doing, log, .. } if says_no_room(&log) || free_bytes() < ROOM_FOR_WORDS => {
            Error::NoRoom { program, doing, path: folder.into(), log }
        }
        other => other,
    }
}

/// The standard output of the command; if it fails, its error output.
pub(crate) fn output(mut command: Command, doing: &'static str) -> Result<String, Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|source| Error::path("start", &program, source))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let log = last_lines(&String::from_utf8_lossy(&output.stderr));
    Err(Error::Program { program, doing, status: output.status.to_string(), log })
}

/// The checksum of an open file, from its present position to its end.
pub(crate) fn sha256(file: File) -> Result<String, Error> {
    checksum("sha256sum", file)
}

/// The same, as `program` (`sha256sum`, `md5sum`) computes it.
pub(crate) fn checksum(program: &'static str, file: File) -> Result<String, Error> {
    let mut command = tool::command(program);
    command.env("LC_ALL", "C").stdin(file);
    let text = output(command, "computing a checksum")?;
    Ok(text.split_whitespace().next().unwrap_or_default().to_owned())
}

pub(crate) fn folder_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => folder_bytes(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

pub(crate) fn log_end(path: &Path) -> Vec<String> {
    last_lines(&files::tail(path, 20).join("\n"))
}

fn last_lines(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(12)..].iter().map(ToString::to_string).collect()
}
