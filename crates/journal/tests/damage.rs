// SPDX-License-Identifier: Apache-2.0
//! Every byte of the stored journals, flipped, zeroed and cut: what is lost is noticed, what is left is read.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use journal::{Content, Journal, JournalFile, Outcome, Reading, read, read_bytes};
use std::fs;
use std::path::{Path, PathBuf};
use testkit::announce_cases;

const HEADER_BYTES: usize = 64;
const SECTOR_BYTES: usize = 512;

/// Every stored journal, as it was written: the zeros at its end were left out.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/journal");
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let journals = paths.filter(|path| path.extension().is_some_and(|extension| extension == "journal"));
    let mut all: Vec<(String, Vec<u8>)> = journals.map(|path| (path.display().to_string(), reserved(&path))).collect();
    all.sort();
    assert!(all.len() >= 14, "{} journals", all.len());
    all
}

fn reserved(path: &Path) -> Vec<u8> {
    let mut bytes = fs::read(path).unwrap();
    bytes.resize(64 << 10, 0);
    bytes
}

fn one() -> Vec<u8> {
    reserved(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/journal/v2.journal"))
}

/// Where each record begins, and where the last one ends.
fn bounds(bytes: &[u8]) -> Vec<usize> {
    let mut bounds = vec![HEADER_BYTES];
    loop {
        let at = *bounds.last().unwrap();
        let length = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        if length == 0 {
            return bounds;
        }
        bounds.push(at + 8 + length);
    }
}

fn whole(bytes: &[u8]) -> Content {
    read_bytes(bytes).whole().unwrap().clone()
}

/// What is read beside the damage is what stands in the whole journal, and of its steps at most one is missing.
fn keeps_the_rest(damaged: &Content, whole: &Content, told: &str) {
    let ids = |content: &Content| content.state.steps.iter().map(|step| step.id).collect::<Vec<_>>();
    let (kept, all) = (ids(damaged), ids(whole));
    assert!(kept.iter().all(|id| all.contains(id)) && kept.len() + 1 >= all.len(), "{told}: {kept:?} of {all:?}");
    for step in &damaged.state.steps {
        assert_eq!(step.change, whole.state.step(step.id).unwrap().change, "{told}");
    }
    for lost in &damaged.lost {
        assert!(!kept.contains(lost), "{told}");
    }
}

#[test]
fn a_flipped_bit_anywhere_is_damage_and_costs_one_record() {
    let mut cases = 0;
    for (name, bytes) in corpus() {
        let (whole, end) = (whole(&bytes), *bounds(&bytes).last().unwrap());
        // behind the records, too
        for at in (0..end).chain((end..bytes.len()).step_by(997)) {
            let told = format!("{name}: bit {} of byte {at}", at % 8);
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            let reading = read_bytes(&flipped);
            let Reading::Damaged(content, words) = &reading else { panic!("{told}: {reading:?}") };
            assert!(reading.whole().is_none() && !words.is_empty());
            keeps_the_rest(content, &whole, &told);
            cases += 1;
        }
    }
    announce_cases("damage::a_flipped_bit_anywhere_is_damage_and_costs_one_record", cases);
}

/// A zero in place of one byte: the last record may look as if its last sector was not written.
#[test]
fn a_zeroed_byte_anywhere_is_noticed() {
    let mut cases = 0;
    for (name, bytes) in corpus() {
        let (whole, bounds) = (whole(&bytes), bounds(&bytes));
        let [.., last, end] = bounds[..] else { panic!("no records") };
        for at in (0..end).filter(|at| bytes[*at] != 0) {
            let told = format!("{name}: byte {at}");
            let mut zeroed = bytes.clone();
            zeroed[at] = 0;
            match read_bytes(&zeroed) {
                Reading::Damaged(content, _) => keeps_the_rest(&content, &whole, &told),
                Reading::TornTail(_) => assert!(at >= last && at % SECTOR_BYTES == 0 && at + 1 == end, "{told}"),
                other @ (Reading::Whole(_) | Reading::Unknown(..) | Reading::Unreadable(_)) => {
                    panic!("{told}: {other:?}")
                }
            }
            cases += 1;
        }
    }
    announce_cases("damage::a_zeroed_byte_anywhere_is_noticed", cases);
}

/// Zeros from a byte on: the end of the file was not written. Only between two records, or between two sectors, a crash leaves that.
#[test]
fn zeros_from_any_byte_on_keep_the_records_before_it() {
    let mut cases = 0;
    for (name, bytes) in corpus() {
        let bounds = bounds(&bytes);
        for at in 1..*bounds.last().unwrap() {
            let told = format!("{name}: from byte {at}");
            let mut zeroed = bytes.clone();
            zeroed[at..].fill(0);
            let records_before = bounds.iter().rposition(|bound| *bound <= at).unwrap_or(0);
            let end = bounds[records_before];
            let content = match read_bytes(&zeroed) {
                Reading::Whole(content) => {
                    // the zeros of a small number end it
                    let first_nonzero = bytes[end..at].iter().all(|byte| *byte == 0);
                    assert!(first_nonzero, "{told}");
                    content
                }
                Reading::TornTail(content) => {
                    assert!(at > end && (at..at + 8).any(|at| at % SECTOR_BYTES < 8), "{told}");
                    content
                }
                Reading::Damaged(content, _) => content,
                other @ (Reading::Unknown(..) | Reading::Unreadable(_)) => panic!("{told}: {other:?}"),
            };
            assert_eq!(content.state.begun.is_some(), records_before > 0, "{told}");
            cases += 1;
        }
    }
    announce_cases("damage::zeros_from_any_byte_on_keep_the_records_before_it", cases);
}

/// A file that is shorter than it was made: no crash does that.
#[test]
fn a_file_that_was_cut_is_damaged() {
    let mut cases = 0;
    for (name, bytes) in corpus() {
        let end = *bounds(&bytes).last().unwrap();
        for at in (1..end).chain((end..bytes.len()).step_by(499)) {
            let reading = read_bytes(&bytes[..at]);
            assert!(matches!(reading, Reading::Damaged(..)), "{name}: cut at {at}: {reading:?}");
            cases += 1;
        }
        assert!(read_bytes(&[]).whole().unwrap().state.begun.is_none(), "a run that was about to begin");
    }
    announce_cases("damage::a_file_that_was_cut_is_damaged", cases);
}

/// A record that is zeros altogether; the last one leaves no trace in the file.
#[test]
fn a_zeroed_record_before_others_is_damage() {
    let mut cases = 0;
    for (name, bytes) in corpus() {
        let (whole, bounds) = (whole(&bytes), bounds(&bytes));
        for record in bounds.windows(2).take(bounds.len() - 2) {
            let mut zeroed = bytes.clone();
            zeroed[record[0]..record[1]].fill(0);
            let reading = read_bytes(&zeroed);
            let Reading::Damaged(content, _) = &reading else { panic!("{name}: {record:?}: {reading:?}") };
            keeps_the_rest(content, &whole, &name);
            cases += 1;
        }
    }
    announce_cases("damage::a_zeroed_record_before_others_is_damage", cases);
}

/// With a right checksum: what a later release writes.
fn rewritten(bytes: &[u8], from: usize, to: usize, change: impl Fn(&str) -> String) -> Vec<u8> {
    let json = change(std::str::from_utf8(&bytes[from + 8..to]).unwrap());
    let length = u32::try_from(json.len()).unwrap().to_le_bytes();
    let crc = crc32c::crc32c_append(crc32c::crc32c(&length), json.as_bytes()).to_le_bytes();
    let mut all = [&bytes[..from], &length, &crc, json.as_bytes(), &bytes[to..]].concat();
    all.resize(bytes.len(), 0);
    all
}

#[test]
fn a_record_of_a_later_release_is_never_skipped() {
    let mut cases = 0;
    for (name, bytes) in corpus() {
        for record in bounds(&bytes).windows(2) {
            let kind = |json: &str| json.replace("\"record\":\"", "\"record\":\"new_");
            let key = |json: &str| json.replacen('{', "{\"later\":1,", 1);
            for change in [kind as fn(&str) -> String, key] {
                let reading = read_bytes(&rewritten(&bytes, record[0], record[1], change));
                assert!(matches!(reading, Reading::Unknown(..)), "{name}: {record:?}: {reading:?}");
                // neither does damage beside it make it ours
                let mut damaged = rewritten(&bytes, record[0], record[1], change);
                damaged[20] ^= 1;
                assert!(matches!(read_bytes(&damaged), Reading::Unknown(..)), "{name}: {record:?}");
                cases += 2;
            }
        }
    }
    announce_cases("damage::a_record_of_a_later_release_is_never_skipped", cases);
}

fn written(folder: &Path, bytes: &[u8]) -> PathBuf {
    let path = folder.join("journal");
    fs::write(&path, bytes).unwrap();
    path
}

fn resumed(path: &Path) -> (Journal, Reading) {
    let file = JournalFile::open_to_write(path).unwrap();
    let reading = file.read();
    (Journal::resume(file, &reading).unwrap(), reading)
}

/// The last record begins in one sector and ends in another, which was never written.
fn torn() -> Vec<u8> {
    let mut bytes = one();
    let bounds = bounds(&bytes);
    let crosses =
        bounds.windows(2).find(|it| it[0] / SECTOR_BYTES != it[1] / SECTOR_BYTES && it[0] % SECTOR_BYTES < 500);
    let at = crosses.unwrap()[1] / SECTOR_BYTES * SECTOR_BYTES;
    bytes[at..].fill(0);
    bytes
}

/// What was torn does not come back to life behind a new record.
#[test]
fn what_follows_a_torn_record_is_gone_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), &torn());
    let (mut journal, reading) = resumed(&path);
    assert!(matches!(reading, Reading::TornTail(_)), "{reading:?}");
    journal.end();
    let after = read(&path);
    assert!(matches!(&after, Reading::Whole(content) if content.state.ended), "{after:?}");
}

/// The records of an undo stand behind what is damaged, and nothing is written over it; it stays damaged.
#[test]
fn an_undo_of_a_damaged_journal_is_written_down_behind_it() {
    let mut damages: Vec<Vec<u8>> = Vec::new();
    for at in [3, 70, 700, 2000] {
        let mut flipped = one();
        flipped[at] ^= 4;
        damages.push(flipped);
    }
    damages.push(one()[..1500].to_vec());
    for damaged in damages {
        let folder = tempfile::tempdir().unwrap();
        let path = written(folder.path(), &damaged);
        let (mut journal, before) = resumed(&path);
        let open = journal.state().open_steps();
        assert!(open.len() > 2, "{before:?}");
        for step in &open {
            journal.undo(step.id);
            journal.undone(step.id, Outcome::Nothing);
        }
        assert!(journal.damage().is_none());
        let after = read(&path);
        let Reading::Damaged(content, told) = &after else { panic!("{after:?}") };
        assert_eq!(content.state.open_steps(), [], "{after:?}");
        if damaged.len() == one().len() {
            assert_eq!(Some(told.as_str()), before.trouble(), "the undo is told as further damage");
        }
        let used = damaged.iter().rposition(|byte| *byte != 0).unwrap();
        assert_eq!(fs::read(&path).unwrap()[..used], damaged[..used]);
    }
}

#[test]
fn a_damaged_header_costs_nothing_else() {
    for (_, mut bytes) in corpus().into_iter().filter(|(name, _)| name.contains("/v2")) {
        let whole = whole(&bytes);
        bytes[..HEADER_BYTES].fill(0xa5);
        let Reading::Damaged(content, words) = read_bytes(&bytes) else { panic!("not damaged") };
        assert_eq!((&content.state, &content.boot_id), (&whole.state, &whole.boot_id));
        assert_eq!(words, "its header is not valid");
    }
}

#[test]
fn what_is_not_there_or_no_file_is_no_journal_of_a_run_that_changed_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    assert!(matches!(read(&path), Reading::Damaged(..)), "no file");
    fs::create_dir(&path).unwrap();
    assert!(matches!(read(&path), Reading::Unreadable(_)), "a folder");
    fs::remove_dir(&path).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
    assert!(matches!(read(&path), Reading::Unreadable(_)), "a link");
}

/// Names the states once more: a new one is to be thought of everywhere.
#[test]
fn only_what_was_read_whole_is_whole() {
    let content = Content::default();
    let words = String::new;
    let readings = [
        (Reading::Whole(content.clone()), true),
        (Reading::TornTail(content.clone()), true),
        (Reading::Damaged(content.clone(), words()), false),
        (Reading::Unknown(content, words()), false),
        (Reading::Unreadable(words()), false),
    ];
    for (reading, is_whole) in readings {
        assert_eq!((reading.whole().is_some(), reading.trouble().is_none()), (is_whole, is_whole));
    }
}
