// SPDX-License-Identifier: Apache-2.0
#![allow(clippy::disallowed_methods)] // a test writes its own log

use super::*;
use std::io::Write as _;

fn entry(connection: u64, time: &str) -> String {
    format!(
        "# Time: 2026-11-24T02:00:00.000000Z\n# User@Host: a[a] @ localhost []  Id: {connection:5}\n\
         # Query_time: {time}  Lock_time: 0.000001 Rows_sent: 1  Rows_examined: 1\nSET timestamp=1700000000;\nSELECT 1;\n"
    )
}

/// An entry without a time: MariaDB leaves out a time that it has just written.
fn without_time(connection: u64) -> String {
    entry(connection, "0.2").split_once('\n').expect("lines").1.to_owned()
}

/// A watch that began a second before the entries' time of 2 o'clock, 200 ms after that time.
const NOW: Now = Now { us: 1_200_000, started_unix_us: 1_795_485_599_000_000 };

/// An entry with microseconds tells when its statement began; where the log's clock cannot be right, the time of reading tells it.
#[test]
fn the_begin_of_a_statement_is_known_as_well_as_the_log_tells_it() {
    let mut log = Written::new();
    log.write(&(entry(2, "0.25") + &entry(3, "9")));
    let mut read = log.look();
    read.entries.extend(log.look().entries);
    let began: Vec<(u64, u64)> = read.entries.iter().map(|it| it.began_us).collect();
    assert_eq!(began, [(750_000, 750_001), (0, 0)]);
}

/// The thread that looks had no CPU for 2.5 s: the entries of that time may be as old.
#[test]
fn a_late_look_says_how_old_an_entry_may_be() {
    let mut log = Written::new();
    let at = |us: u64| Now { us, ..NOW };
    let mut read = Read::default();
    log.tail.look(at(2_000_000), false, &mut read).expect("reads");
    log.write(&(without_time(2).replace("0.2", "0.5") + &without_time(3)));
    log.tail.look(at(4_500_000), false, &mut read).expect("reads");
    log.tail.look(at(4_600_000), false, &mut read).expect("reads");
    // the second entry was read at 4.5 s, and is taken when the next look finds no more of it
    let began: Vec<(u64, u64)> = read.entries.iter().map(|it| it.began_us).collect();
    assert_eq!(began, [(1_500_000, 4_000_000), (1_800_000, 4_400_000)]);
}

struct Written {
    folder: tempfile::TempDir,
    tail: Tail,
}

impl Written {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("slow.log");
        std::fs::write(&path, entry(1, "9")).expect("a log that has been there");
        let tail = Tail::open(&path, true, NOW.us).expect("opens");
        Self { folder, tail }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("slow.log")
    }

    fn write(&self, text: &str) {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(self.path()).expect("opens");
        file.write_all(text.as_bytes()).expect("writes");
    }

    fn look(&mut self) -> Read {
        let mut read = Read::default();
        self.tail.look(NOW, false, &mut read).expect("reads");
        read
    }

    fn connections(&mut self) -> Vec<u64> {
        self.look().entries.iter().map(|it| it.connection).collect()
    }
}

#[test]
fn what_is_added_is_read_and_a_half_entry_when_it_is_whole() {
    let mut log = Written::new();
    assert_eq!(log.connections(), [0; 0], "what was there before is not read");
    let (second, third) = (entry(2, "0.5"), entry(3, "0.25"));
    let (half, rest) = third.split_at(70);
    log.write(&second);
    log.write(half);
    assert_eq!(log.connections(), [2], "the third goes on");
    assert_eq!(log.connections(), [0; 0]);
    log.write(rest);
    assert_eq!(log.connections(), [0; 0], "more may come");
    let read = log.look();
    assert_eq!(read.entries.len(), 1, "nothing came");
    assert_eq!((read.entries[0].connection, read.entries[0].figures.took_us), (3, Some(250_000)));
    log.write(&(without_time(4) + &without_time(5)));
    assert_eq!([log.connections(), log.connections()], [[4], [5]]);
}

#[test]
fn a_rotated_log_is_followed_and_a_truncated_one_read_from_its_beginning() {
    let mut log = Written::new();
    log.write(&entry(2, "0.5"));
    std::fs::rename(log.path(), log.folder.path().join("slow.log.1")).expect("renames");
    log.write(&entry(3, "0.5"));
    let mut all = log.connections();
    (0..3).for_each(|_| all.extend(log.connections()));
    assert_eq!(all, [2, 3]);
    File::create(log.path()).expect("truncates");
    log.connections();
    log.write(&entry(6, "0.5"));
    let mut all = log.connections();
    all.extend(log.connections());
    assert_eq!(all, [6]);
}

#[test]
fn what_is_damaged_is_told_with_its_place_and_the_rest_is_read() {
    let mut log = Written::new();
    let before = std::fs::metadata(log.path()).expect("is there").len();
    log.write("# Time: 2026-11-24T02:00:00.000000Z\n# User@Host: a[a] @ localhost []  Id: 7\n# Query_time: nonsense Lock_time: 0\nSELECT 1;\n");
    log.write(&entry(8, "0.5"));
    let mut read = log.look();
    let last = log.look();
    read.entries.extend(last.entries);
    assert_eq!(read.entries.iter().map(|it| it.connection).collect::<Vec<_>>(), [8]);
    let [part] = read.skipped.as_slice() else { panic!("{:?}", read.skipped) };
    assert!(part.offset >= before && part.bytes > 0, "{part:?}, behind {before}");
}

#[test]
fn a_log_that_is_off_is_missing_with_what_turns_it_on() {
    let with = |pairs: &[(&str, &str)]| {
        let of = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        place(&of, std::process::id())
    };
    let off = with(&[("slow_query_log", "OFF")]).expect_err("it is off");
    assert!(off.remedy.expect("help").starts_with("SET GLOBAL slow_query_log = ON"));
    assert!(with(&[("slow_query_log", "ON"), ("log_output", "TABLE")]).is_err());
    let names =
        [("slow_query_log", "ON"), ("log_output", "FILE"), ("slow_query_log_file", "s.log"), ("datadir", "/d/")];
    assert_eq!(with(&names), Ok(PathBuf::from("/d/s.log")));
    let time = |time: &str| leaves_out(&BTreeMap::from([("long_query_time".to_owned(), time.to_owned())]));
    assert!(time("10.000000").is_some() && time("0.050000").is_none());
}
