// SPDX-License-Identifier: Apache-2.0
//! A stand-in for a server: this test program itself, started again. It writes records, syncs each, reads past the page cache, and
//! gives up at the first error, as a database does.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const HOME: &str = "WRINGER_STANDSTILL_HOME";
const RECORD: usize = 16;

/// It works in `home/data`; what it says is beside that.
pub(crate) fn start(home: &Path) -> Child {
    fs::write(home.join("data/input"), vec![7; 64 << 10]).unwrap();
    fs::write(home.join("data/records"), "").unwrap();
    Command::new(std::env::current_exe().unwrap())
        .args(["server::works_until_it_is_told_to_end", "--exact", "--nocapture", "--test-threads=1"])
        .env(HOME, home)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn works_until_it_is_told_to_end() {
    let Some(home) = std::env::var_os(HOME) else { return };
    let home = Path::new(&home);
    if let Err(error) = work(home) {
        fs::write(home.join("error"), error.to_string()).unwrap();
        std::process::exit(1);
    }
}

fn work(home: &Path) -> io::Result<()> {
    let (data, acknowledged) = (home.join("data"), File::create(home.join("acknowledged"))?);
    let records = OpenOptions::new().read(true).write(true).open(data.join("records"))?;
    let input = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(data.join("input"))?;
    let mut memory = vec![0; 8192];
    let at = memory.as_ptr().align_offset(4096);
    for number in 0_u64.. {
        if home.join("stop").exists() {
            break;
        }
        records.write_all_at(&record(number), number * RECORD as u64)?;
        records.sync_data()?;
        input.read_exact_at(&mut memory[at..at + 4096], number % 16 * 4096)?;
        if memory[at..at + 4096] != [7; 4096] {
            return Err(io::Error::other("what was read is not what was written"));
        }
        acknowledged.write_all_at(&(number + 1).to_le_bytes(), 0)?;
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn record(number: u64) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    record[..8].copy_from_slice(&number.to_le_bytes());
    record[8..].copy_from_slice(&(!number).to_le_bytes());
    record
}

/// How many records it was told are durable.
pub(crate) fn acknowledged(home: &Path) -> u64 {
    let bytes = fs::read(home.join("acknowledged")).unwrap_or_default();
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

/// Why it gave up, if so. The file is empty before it is written.
pub(crate) fn error(home: &Path) -> Option<String> {
    fs::read_to_string(home.join("error")).ok().filter(|why| !why.is_empty())
}

/// Whether all records that were acknowledged are in the bare directory.
pub(crate) fn is_all_there(home: &Path) -> bool {
    let found = fs::read(home.join("data/records")).unwrap();
    (0..acknowledged(home)).all(|number| {
        let at = usize::try_from(number).unwrap() * RECORD;
        found.get(at..at + RECORD) == Some(&record(number))
    })
}
