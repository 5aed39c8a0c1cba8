// SPDX-License-Identifier: Apache-2.0
//! The kernel's log: /dev/kmsg (kernel, ABI/testing/dev-kmsg). Reading removes nothing from it. Only lines of the OOM killer are kept.

use super::reading::Reading;
use host::clock;
use ledger::{KernelLine, is_of_a_kill, is_of_a_member};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Each read returns one record of the kernel, of at most this many bytes.
const RECORD: usize = 8192;
/// The number of last lines that are kept: a kill has four that matter.
const KEPT: usize = 32;
/// At most this many records are read, so that reading ends even if the log grows at the same time.
const MOST_RECORDS: u32 = 1 << 20;

const LOG: &str = "/dev/kmsg";

/// Opens the log, and reads nothing.
pub(super) fn may_read() -> io::Result<()> {
    open(Path::new(LOG)).map(drop)
}

pub(super) fn read(reading: &mut Reading) -> Vec<KernelLine> {
    match open(Path::new(LOG)).and_then(|mut log| lines(&mut log)) {
        Ok(lines) => lines,
        Err(error) => {
            let why = format!("{LOG}: {error}");
            reading.missing("the last kill in the kernel's log", why, Some("run as root"));
            Vec::new()
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    #[allow(clippy::disallowed_methods)] // reads only
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

fn lines(log: &mut File) -> io::Result<Vec<KernelLine>> {
    let booted_us = clock::unix_us().saturating_sub(micros(clock::monotonic_time()));
    let mut kept = VecDeque::new();
    let mut record = [0; RECORD];
    for _ in 0..MOST_RECORDS {
        let read = match log.read(&mut record) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            // some records were overwritten before they were read; the next read continues after them
            Err(error) if error.raw_os_error() == Some(libc::EPIPE) => continue,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let text = String::from_utf8_lossy(record.get(..read).unwrap_or_default());
        let Some(line) = line(&text, booted_us).filter(|line| is_of_a_kill(&line.text)) else { continue };
        if !is_of_a_member(kept.make_contiguous(), &line) {
            kept.push_back(line);
        }
        if kept.len() > KEPT {
            kept.pop_front();
        }
    }
    Ok(kept.into())
}

/// `6,1234,13629004464,-;Memory cgroup out of memory: ...`: priority, number, microseconds since boot, flags. Programs may write to the log, too:
/// their priority is 8 or more.
fn line(record: &str, booted_us: u64) -> Option<KernelLine> {
    let (head, text) = record.split_once(';')?;
    let mut head = head.split(',');
    let priority: u32 = head.next()?.parse().ok()?;
    let since_boot: u64 = head.nth(1)?.parse().ok()?;
    let text = text.lines().next()?.to_owned();
    (priority < 8).then(|| KernelLine { at_unix_us: booted_us.saturating_add(since_boot), text })
}

fn micros(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::Options;
    use super::*;

    #[test]
    fn records_of_the_kernel_alone_and_their_time() {
        let of = |record: &str| line(record, 1000).map(|it| (it.at_unix_us, it.text));
        assert_eq!(
            of("6,1234,77,-;Out of memory: Killed\n SUBSYSTEM=x\n"),
            Some((1077, "Out of memory: Killed".into()))
        );
        assert_eq!((of("14,1234,77,-;Killed process 1"), of("no record"), of("6,1;x")), (None, None, None));
    }

    #[test]
    fn this_hosts_log_or_why_not() {
        let mut reading = Reading::begin(Options::default());
        let lines = read(&mut reading);
        let now = clock::unix_us() + 60_000_000;
        assert!(lines.len() <= KEPT && lines.iter().all(|it| is_of_a_kill(&it.text) && it.at_unix_us < now));
        assert!(reading.end().2.iter().all(|it| it.why.starts_with("/dev/kmsg") && lines.is_empty()));
    }
}
