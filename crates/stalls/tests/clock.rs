// SPDX-License-Identifier: Apache-2.0
//! `Innodb_buffer_pool_wait_free` beside a full log of Percona Server: it is compared with the stalls that may have been waits for a free page, and with no
//! others.

use capability::{Algorithm, Flavour};
use logs::open_timed;
use stalls::{Asked, Cause, Explained, MOST_STATEMENT_BYTES, Server, explain};
use std::fmt::Write as _;

/// Tries of a stall of 336.44 ms: the article's, with 60 us more for each sleep.
const TRIES: u64 = 63;

/// Times in milliseconds.
struct Entry {
    second: u64,
    connection: u64,
    took: f64,
    row_lock: f64,
    reads: u64,
    read: f64,
}

fn write(log: &mut String, it: &Entry) {
    let Entry { second, connection, took, row_lock, reads, read } = it;
    let seconds = |ms: f64| ms / 1000.0;
    let _ = write!(
        log,
        "# Time: 2022-11-30T01:{:02}:{:02}.{connection:06}Z\n# User@Host: me[me] @ localhost []  Id:    {connection}\n\
         # Query_time: {:.6}  Lock_time: {:.6}  Rows_sent: 1  Rows_examined: 1  Rows_affected: 0  Bytes_sent: 197\n\
         #   InnoDB_IO_r_ops: {reads}  InnoDB_IO_r_bytes: 16384  InnoDB_IO_r_wait: {:.6}\n\
         #   InnoDB_rec_lock_wait: {:.6}  InnoDB_queue_wait: 0.000000\n#   InnoDB_pages_distinct: 4\n\
         SET timestamp=1669772141;\nSELECT c FROM t WHERE id={connection} FOR UPDATE;\n",
        second / 60,
        second % 60,
        seconds(*took),
        seconds(*row_lock),
        seconds(*read),
        seconds(*row_lock),
    );
}

/// Quick statements, then four that found no free page, four that waited for a row, and two for the disk.
fn log() -> String {
    let mut log = String::new();
    for second in 0..200 {
        write(&mut log, &Entry { second, connection: second % 4, took: 0.07, row_lock: 0.0, reads: 0, read: 0.0 });
    }
    for connection in 0..4 {
        write(&mut log, &Entry { second: 300, connection, took: 336.44, row_lock: 0.0, reads: 1, read: 0.009 });
    }
    for connection in 0..4 {
        write(&mut log, &Entry { second: 400, connection, took: 400.0, row_lock: 398.9, reads: 0, read: 0.0 });
    }
    for connection in 0..2 {
        write(&mut log, &Entry { second: 500, connection, took: 500.0, row_lock: 0.0, reads: 90, read: 499.0 });
    }
    log
}

/// Four of one moment that leave nothing in the log, and read nothing: they waited for something else.
fn with_others(mut log: String) -> String {
    for connection in 0..4 {
        write(&mut log, &Entry { second: 600, connection, took: 444.4, row_lock: 0.0, reads: 0, read: 0.0 });
    }
    log
}

fn found(log: &str, wait_free: u64) -> Explained {
    let mut log = open_timed(log.as_bytes(), MOST_STATEMENT_BYTES).expect("reads").expect("a log");
    let server = Some(Server { flavour: Flavour::Percona, version: "8.0.29".parse().expect("a version") });
    let algorithm = Some(Algorithm::Backoff);
    let asked = Asked { least_us: 20_000, server, algorithm, wait_free: Some(wait_free), ..Asked::default() };
    explain(&mut log, &asked).expect("reads")
}

fn causes(found: &Explained) -> Vec<Cause> {
    found.stalls.iter().map(|stall| stall.cause).collect()
}

const WANTED: [Cause; 3] = [Cause::FreeListBackoff, Cause::RowLock, Cause::DiskReads];

#[test]
fn the_exact_counter_speaks_for_the_stall_that_raised_it() {
    let found = found(&log(), 4 * TRIES);
    assert_eq!(causes(&found), WANTED, "{:#?}", found.stalls);
    let says = &found.stalls[0].evidence.speaks_for;
    let wanted = "Innodb_buffer_pool_wait_free rose by 252; stalls of these lengths take 252";
    assert!(says.iter().any(|it| it == wanted), "{says:#?}");
    assert_eq!(found.account.wait_free_by_stalls, Some(4 * TRIES));
    assert!(found.stalls[1..].iter().all(|it| !format!("{:?}", it.evidence).contains("wait_free")));
}

#[test]
fn what_looks_like_backoff_without_the_counter_is_enough_to_explain_it() {
    let found = found(&with_others(log()), 4 * TRIES);
    assert_eq!(causes(&found), [&WANTED[..], &[Cause::Unknown]].concat(), "{:#?}", found.stalls);
}

#[test]
fn a_counter_that_rose_by_far_less_still_speaks_against_it() {
    assert_eq!(causes(&found(&log(), 60))[0], Cause::Unknown);
}
