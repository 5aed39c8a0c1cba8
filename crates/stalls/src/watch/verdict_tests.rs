// SPDX-License-Identifier: Apache-2.0
use super::super::meanwhile::Meanwhile;
use super::*;
use capability::Flavour::{Mariadb, Mysql};
use capability::{Flavour, FreeList};

fn wait(way: Way, length_us: u64) -> Wait {
    // a wait for a free page is many sleeps
    let (samples, turns) = (40, Some(if way == Way::Asleep { 38 } else { 0 }));
    Wait {
        thread: 7,
        way,
        from_us: 1_000_000,
        to_us: 1_000_000 + length_us,
        samples,
        turns,
        is_cut: false,
        is_open: false,
    }
}

const NOTHING: Around<'_> = Around {
    said: &[],
    backoff: Some(true),
    free_list: None,
    probed: None,
    wait_free: None,
    tries: 80,
    lru_flushed: None,
    began_us: None,
    pages_free: None,
    synced_us: 0,
    queued_us: 0,
    page_writes: 0,
    doublewrites: 0,
    others_page_writes_us: 0,
    meanwhile: None,
};

fn row(flavour: Flavour, version: &str) -> Option<&'static FreeList> {
    capability::free_list(flavour, &version.parse().expect("a version"))
}

fn said(says: Says) -> Session {
    let words = format!("{says:?}");
    let (blocked_by, perhaps_blocked_by) = (vec![9], Vec::new());
    Session {
        connection: 12,
        thread: Some(7),
        says,
        words,
        statement: None,
        age_us: None,
        blocked_by,
        perhaps_blocked_by,
    }
}

#[track_caller]
fn expect(way: Way, around: &Around<'_>, wanted: Cause) -> (f64, Evidence) {
    match judge(&wait(way, 400_000), around) {
        Verdict::Stall { cause, confidence, evidence } if cause == wanted => (confidence, evidence),
        other => panic!("{other:?} is not {wanted:?}"),
    }
}

#[test]
fn a_sleep_is_a_wait_for_a_free_page_when_the_counter_has_risen_by_as_much() {
    let with = |rose| Around { wait_free: Some(rose), pages_free: Some(0), ..NOTHING };
    assert_eq!(expect(Way::Asleep, &with(80), Cause::FreeListBackoff).0, 0.97);
    assert_eq!(expect(Way::Asleep, &NOTHING, Cause::FreeListBackoff).0, 0.7);
    let (confidence, evidence) = expect(Way::Asleep, &with(0), Cause::Unknown);
    assert_eq!(confidence, 0.0);
    assert!(evidence.against[0].contains("rose by 0 meanwhile"), "{evidence:?}");
}

#[test]
fn a_single_sleep_is_no_wait_for_a_free_page_even_while_others_wait_for_one() {
    let slept = |turns| Wait { turns, ..wait(Way::Asleep, 400_000) };
    let others = Around { wait_free: Some(900), pages_free: Some(0), ..NOTHING };
    let legacy = Around { backoff: Some(false), free_list: row(Mysql, "8.0.30"), ..others };
    for around in [others, legacy] {
        for turns in [0, 1, 12] {
            let Verdict::Stall { cause, evidence, .. } = judge(&slept(Some(turns)), &around) else { panic!("a stall") };
            assert_eq!(cause, Cause::Unknown, "{turns} looks");
            assert!(evidence.against[0].contains(&format!("woke up {turns} times")), "{evidence:?}");
        }
        for turns in [Some(14), Some(60), None] {
            let Verdict::Stall { cause, .. } = judge(&slept(turns), &around) else { panic!("a stall") };
            assert_ne!(cause, Cause::Unknown, "{turns:?} looks");
        }
    }
    // XtraDB's legacy looks only ten times a second
    let xtradb = Around { backoff: Some(false), free_list: row(Mariadb, "10.1.23"), ..others };
    assert!(matches!(judge(&slept(Some(3)), &xtradb), Verdict::Stall { cause: Cause::FreeListLegacy, .. }));
}

#[test]
fn servers_without_backoff_have_no_such_stall() {
    let legacy = Around { backoff: Some(false), wait_free: Some(12_000), ..NOTHING };
    expect(Way::Asleep, &legacy, Cause::Unknown);
    expect(Way::Asleep, &Around { backoff: None, ..legacy }, Cause::Unknown);
    expect(Way::Blocked, &Around { wait_free: Some(12_000), pages_free: Some(0), ..NOTHING }, Cause::Unknown);
}

#[test]
fn what_the_server_says_names_a_lock() {
    for (says, cause) in [
        (Says::RowLock, Cause::RowLock),
        (Says::MetadataLock, Cause::MetadataLock),
        (Says::BufferPin, Cause::BufferPin),
        (Says::Checkpoint, Cause::RedoOrCheckpoint),
    ] {
        let (confidence, _) = expect(Way::Blocked, &Around { said: &[said(says)], ..NOTHING }, cause);
        assert_eq!(confidence, 0.95);
    }
    let half = [said(Says::Busy), said(Says::RowLock)];
    let (confidence, evidence) = expect(Way::Blocked, &Around { said: &half, ..NOTHING }, Cause::RowLock);
    assert!(confidence < 0.75 && evidence.against == ["1 of 2 times it did not"], "{confidence} {evidence:?}");
    expect(Way::Blocked, &Around { said: &[said(Says::Busy)], ..NOTHING }, Cause::Unknown);
}

/// In MariaDB's group commit one connection writes for all, and the others are `Updating status`.
#[test]
fn a_commit_that_waits_while_another_thread_writes_is_a_sync() {
    let with = |words: &str, synced_us| {
        let said = [Session { words: words.to_owned(), ..said(Says::Busy) }];
        match judge(&wait(Way::Blocked, 400_000), &Around { said: &said, synced_us, ..NOTHING }) {
            Verdict::Stall { cause, confidence, .. } => (cause, confidence),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(with("Updating status", 210_000), (Cause::Sync, 0.7));
    assert_eq!(with("Updating status", 190_000), (Cause::Unknown, 0.0));
    assert_eq!(with("Updating", 400_000), (Cause::Unknown, 0.0), "it does not commit");
}

/// A server that has no CPU writes nothing, and its commits wait as if for a slow disk.
#[test]
fn a_commit_is_a_sync_for_sure_only_if_somebody_was_seen_writing() {
    let with = |says, words: &str, synced_us, queued_us| {
        let said = [Session { words: words.to_owned(), ..said(says) }];
        match judge(&wait(Way::Blocked, 400_000), &Around { said: &said, synced_us, queued_us, ..NOTHING }) {
            Verdict::Stall { cause, confidence, evidence } => (cause, confidence, evidence),
            other => panic!("{other:?}"),
        }
    };
    for words in ["waiting for handler commit", "Commit"] {
        let (cause, confidence, _) = with(Says::Sync, words, 210_000, 400_000);
        assert_eq!((cause, confidence), (Cause::Sync, 0.95), "a slow disk on a busy host");
        let (cause, confidence, evidence) = with(Says::Sync, words, 0, 190_000);
        assert_eq!((cause, confidence), (Cause::Sync, UNSEEN_SYNC), "the threads that write are looked at seldom");
        assert!(
            evidence.against[0].starts_with("another thread waited for the disk to write for only 0.0 ms"),
            "{evidence:?}"
        );
        let (cause, confidence, evidence) = with(Says::Sync, words, 190_000, 390_000);
        assert_eq!((cause, confidence), (Cause::Cpu, 0.7));
        assert!(evidence.against[0].starts_with("sync: another thread"), "{evidence:?}");
    }
    assert_eq!(with(Says::Busy, "query end", 0, 390_000).0, Cause::Cpu);
    assert_eq!(with(Says::Busy, "query end", 0, 0).0, Cause::Unknown);
    assert_eq!(with(Says::RowLock, "LOCK WAIT", 0, 390_000).0, Cause::RowLock, "it does not commit");
    assert_eq!(with(Says::Sync, "LWLock/WALWrite", 0, 390_000).0, Cause::Sync, "no state of a commit");
}

#[test]
fn what_was_asked_for_and_who_asked_for_nothing_are_no_stalls() {
    for way in [Way::Asleep, Way::Blocked] {
        let of = |says| judge(&wait(way, 400_000), &Around { said: &[said(says)], ..NOTHING });
        assert_eq!(of(Says::AskedToWait), Verdict::OwnWork);
        assert_eq!([of(Says::Idle), of(Says::Background)], [Verdict::Nothing, Verdict::Nothing]);
    }
}

/// Begin and end of a wait are known to half an interval: an answer may be about the moment before or after it.
#[test]
fn one_answer_that_names_what_was_asked_for_counts_more_than_those_that_name_nothing() {
    let all = [said(Says::Busy), said(Says::AskedToWait), said(Says::Busy)];
    let of = |way, said: &[Session]| judge(&wait(way, 400_000), &Around { said, ..NOTHING });
    assert_eq!([of(Way::Blocked, &all[..2]), of(Way::Blocked, &all)], [Verdict::OwnWork, Verdict::OwnWork]);
    // a read is a read
    assert!(matches!(of(Way::Reading, &all), Verdict::Stall { cause: Cause::DiskReads, .. }));
    let lock = [said(Says::AskedToWait), said(Says::RowLock), said(Says::RowLock)];
    expect(Way::Blocked, &Around { said: &lock, ..NOTHING }, Cause::RowLock);
}

/// For the server the thread is idle until it is given a CPU and takes its client's request.
#[test]
fn who_would_run_and_has_no_cpu_does_not_rest() {
    let idle = [said(Says::Idle)];
    expect(Way::Queued, &Around { said: &idle, ..NOTHING }, Cause::Cpu);
    let background = [said(Says::Background)];
    assert_eq!(judge(&wait(Way::Queued, 400_000), &Around { said: &background, ..NOTHING }), Verdict::Nothing);
}

#[test]
fn statements_one_after_another_are_no_wait_of_one() {
    for way in [Way::Reading, Way::Queued, Way::Syncing] {
        let of = |turns, began_us| judge(&Wait { turns, ..wait(way, 400_000) }, &Around { began_us, ..NOTHING });
        assert_eq!(of(Some(0), Some(1_200_000)), Verdict::Nothing, "it began in the middle");
        assert_eq!(of(Some(60), None), Verdict::Nothing);
        assert!(matches!(of(Some(3), Some(995_000)), Verdict::Stall { .. }));
        assert!(matches!(of(Some(3), None), Verdict::Stall { .. }));
    }
    let scan = Wait { turns: Some(3000), ..wait(Way::Reading, 400_000) };
    assert_eq!(judge(&scan, &Around { began_us: Some(999_000), ..NOTHING }), Verdict::OwnWork, "many quick reads");
}

#[test]
fn a_probed_call_is_what_the_version_does_there() {
    let of = |flavour, version, backoff| Around {
        backoff: Some(backoff),
        free_list: row(flavour, version),
        probed: Some("get_free"),
        pages_free: Some(0),
        ..NOTHING
    };
    for (around, cause) in [
        (of(Mariadb, "10.1.23", true), Cause::FreeListBackoff),
        (of(Mariadb, "10.1.23", false), Cause::FreeListLegacy),
        (of(Mysql, "8.0.30", false), Cause::FreeListLegacy),
        (of(Mariadb, "10.11.19", false), Cause::FreeListWait),
        (of(Mariadb, "10.5.23", false), Cause::FreeListWait),
    ] {
        let (confidence, evidence) = expect(Way::FreePage, &around, cause);
        assert!(confidence == 0.99 && evidence.speaks_for[0].starts_with("in get_free for 400.0 ms"), "{evidence:?}");
    }
    let (confidence, evidence) = expect(Way::FreePage, &of(Mariadb, "10.6.1", false), Cause::Unknown);
    assert!(confidence == 0.0 && evidence.against[0].contains("nobody has looked"), "{evidence:?}");
    // a sleep outside the function is another one's
    let around = Around { wait_free: Some(900), ..of(Mariadb, "10.1.23", true) };
    let (_, evidence) = expect(Way::Asleep, &around, Cause::Unknown);
    assert!(evidence.against[0].contains("it was not in get_free"), "{evidence:?}");
    let background = [said(Says::Background)];
    assert_eq!(judge(&wait(Way::FreePage, 400_000), &Around { said: &background, ..around }), Verdict::Nothing);
}

#[test]
fn legacys_sleeps_are_named_when_the_counter_has_risen_by_its_rounds() {
    // MySQL 8.0 sleeps 10 ms in each round: 40 of them
    let with = |rose| Around { backoff: Some(false), free_list: row(Mysql, "8.0.30"), wait_free: rose, ..NOTHING };
    assert_eq!(expect(Way::Asleep, &with(Some(38)), Cause::FreeListLegacy).0, 0.85);
    expect(Way::Asleep, &with(Some(3)), Cause::Unknown);
    expect(Way::Asleep, &with(None), Cause::Unknown);
    // XtraDB 5.6: 100 ms
    let xtradb = Around { free_list: row(Mariadb, "10.1.23"), ..with(Some(3)) };
    expect(Way::Asleep, &xtradb, Cause::FreeListLegacy);
    // this one never sleeps for a page
    expect(Way::Asleep, &Around { free_list: row(Mariadb, "10.11.19"), ..with(Some(12_000)) }, Cause::Unknown);
}

#[test]
fn a_wait_for_the_page_cleaner_is_surmised_of_an_empty_list_alone_and_never_surely() {
    let busy = [said(Says::Busy)];
    let around = Around {
        said: &busy,
        backoff: Some(false),
        free_list: row(Mariadb, "10.11.19"),
        wait_free: Some(4),
        pages_free: Some(0),
        ..NOTHING
    };
    let (confidence, evidence) = expect(Way::Blocked, &around, Cause::FreeListWait);
    assert!((0.5..0.7).contains(&confidence) && !evidence.against.is_empty(), "{confidence} {evidence:?}");
    for other in [
        Around { pages_free: Some(700), ..around },
        Around { pages_free: None, ..around },
        Around { wait_free: Some(0), ..around },
        Around { wait_free: None, ..around },
        Around { free_list: row(Mysql, "9.7.2"), ..around },
        Around { free_list: None, ..around },
        Around { probed: Some("get_free"), ..around },
    ] {
        expect(Way::Blocked, &other, Cause::Unknown);
    }
    let named = [said(Says::RowLock)];
    expect(Way::Blocked, &Around { said: &named, ..around }, Cause::RowLock);
    // legacy waits for a batch that runs, and only the batch's writes are counted
    let batch = Around { free_list: row(Mariadb, "10.1.23"), lru_flushed: Some(30), wait_free: Some(0), ..around };
    assert_eq!(expect(Way::Blocked, &batch, Cause::FreeListLegacy).0, 0.5);
    expect(Way::Blocked, &Around { lru_flushed: Some(0), ..batch }, Cause::Unknown);
}

#[test]
fn a_host_short_of_memory_is_named_by_the_kernels_function_or_by_a_page_fault_under_pressure() {
    let with = |memory_us| Around { meanwhile: Some(Meanwhile { over_us: 500_000, memory_us, disk: None }), ..NOTHING };
    assert_eq!(expect(Way::Reclaiming, &with(Some(300_000)), Cause::Reclaim).0, 0.95);
    assert_eq!(expect(Way::Reclaiming, &with(None), Cause::Reclaim).0, 0.8);
    assert_eq!(expect(Way::Faulting, &with(Some(300_000)), Cause::Reclaim).0, 0.8);
    let (_, evidence) = expect(Way::Faulting, &with(Some(0)), Cause::Unknown);
    assert!(evidence.against[0].contains("waited for memory for 0.0 ms"), "{evidence:?}");
    expect(Way::Faulting, &NOTHING, Cause::Unknown);
}

#[test]
fn what_the_disk_did_meanwhile_is_told_of_waits_for_it() {
    let with = |reads| Around {
        meanwhile: Some(Meanwhile {
            over_us: 500_000,
            memory_us: None,
            disk: Some(DiskTimes { reads, read_ms: reads * 90, writes: 2, write_ms: 30 }),
        }),
        ..NOTHING
    };
    let (_, evidence) = expect(Way::Reading, &with(4), Cause::DiskReads);
    assert!(
        evidence.speaks_for.iter().any(|it| it.contains("ended 4 reads in 500.0 ms, 90.0 ms each")),
        "{evidence:?}"
    );
    let (_, evidence) = expect(Way::Reading, &with(0), Cause::DiskReads);
    assert!(evidence.against.iter().any(|it| it.contains("ended no reads")), "{evidence:?}");
    let (_, evidence) = expect(Way::Syncing, &with(0), Cause::Sync);
    assert!(evidence.speaks_for.iter().any(|it| it.contains("2 writes")), "{evidence:?}");
}

#[test]
fn a_query_that_writes_a_page_out_itself_is_as_sure_as_what_it_was_seen_to_write() {
    let xtradb = Around {
        backoff: Some(false),
        free_list: row(Mariadb, "10.1.23"),
        wait_free: Some(3),
        pages_free: Some(2),
        ..NOTHING
    };
    let table = Around { page_writes: 2, ..xtradb };
    let (confidence, evidence) = expect(Way::WritingPages, &table, Cause::FreeListLegacy);
    assert!(confidence == 0.9 && evidence.against.is_empty(), "{evidence:?}");
    let (confidence, evidence) =
        expect(Way::WritingPages, &Around { pages_free: Some(80), ..table }, Cause::FreeListLegacy);
    assert!(confidence == 0.7 && evidence.against[0].contains("file of a table longer"), "{evidence:?}");
    let doublewrite = Around { doublewrites: 4, others_page_writes_us: 1000, ..xtradb };
    let (confidence, evidence) = expect(Way::WritingPages, &doublewrite, Cause::FreeListLegacy);
    assert!(confidence == 0.8 && evidence.against[0].contains("late checkpoint"), "{evidence:?}");
    let mysql = row(Mysql, "8.0.30");
    assert_eq!(expect(Way::WritingPages, &Around { free_list: mysql, ..table }, Cause::FreeListLegacy).0, 0.9);
    for nothing in [
        Around { wait_free: Some(0), ..table },
        Around { wait_free: None, ..table },
        Around { backoff: Some(true), ..table },
        Around { free_list: row(Mariadb, "10.11.19"), ..table },
        Around { free_list: None, ..table },
        Around { probed: Some("get_free"), ..table },
        Around { others_page_writes_us: 0, ..doublewrite },
        Around { others_page_writes_us: 400_000, ..xtradb },
        Around { said: &[said(Says::RowLock)], ..table },
        Around { began_us: Some(1_100_000), ..table },
    ] {
        assert_eq!(judge(&wait(Way::WritingPages, 400_000), &nothing), Verdict::Nothing, "{nothing:?}");
    }
    // of those who only waited meanwhile, half wait for something else
    expect(Way::Blocked, &Around { others_page_writes_us: 400_000, ..xtradb }, Cause::Unknown);
    let commit = [Session { words: "query end".to_owned(), ..said(Says::Busy) }];
    let commits = Around { said: &commit, ..table };
    assert_eq!(judge(&wait(Way::WritingPages, 400_000), &commits), Verdict::Nothing);
}
