// SPDX-License-Identifier: Apache-2.0
//! Freezes of a whole server, in the log of a Percona Server: each victim had just read one page, as after a wait for a free page, but the lengths are not
//! those of the ladder of `backoff`.

use capability::{Algorithm, Flavour, LADDER};
use logs::open_timed;

use stalls::{Asked, Cause, Explained, Lattice, MOST_STATEMENT_BYTES, Server, explain};
use std::fmt::Write as _;

/// Not on the ladder, for any length of a sleep of its own.
const FREEZES_US: [u64; 12] =
    [61_300, 154_800, 88_100, 237_500, 119_900, 303_300, 72_600, 181_700, 267_200, 96_400, 210_900, 143_600];

fn entry(log: &mut String, second: u64, connection: u64, took_us: u64) {
    let _ = write!(
        log,
        "# Time: 2022-11-30T01:{:02}:{:02}.{connection:06}Z\n# User@Host: me[me] @ localhost []  Id:    {connection}\n\
         # Query_time: {:.6}  Lock_time: 0.000003  Rows_sent: 1  Rows_examined: 1  Rows_affected: 0  Bytes_sent: 197\n\
         #   InnoDB_IO_r_ops: 1  InnoDB_IO_r_bytes: 16384  InnoDB_IO_r_wait: 0.000009\n\
         #   InnoDB_rec_lock_wait: 0.000000  InnoDB_queue_wait: 0.000000\n#   InnoDB_pages_distinct: 4\n\
         SET timestamp=1669772141;\nSELECT c FROM t WHERE id={connection};\n",
        second / 60,
        second % 60,
        took_us as f64 / 1e6,
    );
}

/// Quick statements, and a stall of four connections every 30 seconds.
fn log(lengths_us: &[u64]) -> String {
    let mut log = String::new();
    for (nth, length_us) in (0..).zip(lengths_us) {
        (0..20).for_each(|second| entry(&mut log, nth * 30 + second, second % 4, 70));
        (0..4).for_each(|connection| entry(&mut log, nth * 30 + 25, connection, length_us + connection * 20));
    }
    log
}

fn found(log: &str, version: &str, algorithm: Option<Algorithm>) -> Explained {
    let mut log = open_timed(log.as_bytes(), MOST_STATEMENT_BYTES).expect("reads").expect("a log");
    let server = Some(Server { flavour: Flavour::Percona, version: version.parse().expect("a version") });
    explain(&mut log, &Asked { least_us: 20_000, server, algorithm, ..Asked::default() }).expect("reads")
}

fn causes(found: &Explained) -> Vec<Cause> {
    found.stalls.iter().map(|stall| stall.cause).collect()
}

#[test]
fn freezes_are_unknown_where_the_default_is_legacy() {
    for version in ["8.0.36", "8.4.3"] {
        for freezes in [&FREEZES_US[..], &FREEZES_US[..2]] {
            let found = found(&log(freezes), version, None);
            assert_eq!(causes(&found), vec![Cause::Unknown; freezes.len()], "{version}: {:#?}", found.stalls);
            let against = &found.stalls[0].evidence.against;
            assert!(against.iter().any(|it| it.contains("is legacy where nobody sets it")), "{against:#?}");
        }
    }
}

#[test]
fn many_lengths_that_are_not_of_the_ladder_speak_against_it_where_the_default_is_backoff() {
    let found = found(&log(&FREEZES_US), "5.7.39", None);
    assert_eq!(causes(&found), vec![Cause::Unknown; FREEZES_US.len()], "{:#?}", found.stalls);
    let against = &found.stalls[0].evidence.against;
    assert!(against.iter().any(|it| it.contains("no length of a sleep")), "{against:#?}");
}

#[test]
fn lengths_of_the_ladder_name_it_even_where_the_default_is_legacy() {
    let lattice = Lattice::new(&LADDER, 60.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some hundred milliseconds")]
    let lengths: Vec<u64> = (0..12).map(|nth| lattice.length_us(20 + nth * 3) as u64).collect();
    let found = found(&log(&lengths), "8.0.36", None);
    assert_eq!(causes(&found), vec![Cause::FreeListBackoff; 12], "{:#?}", found.stalls);
}

#[test]
fn with_the_algorithm_known_to_be_backoff_a_few_freezes_with_reads_may_be_it() {
    let found = found(&log(&FREEZES_US[..2]), "8.0.36", Some(Algorithm::Backoff));
    assert_eq!(causes(&found), vec![Cause::FreeListBackoff; 2], "{:#?}", found.stalls);
    assert!(
        found.stalls.iter().all(|it| it.confidence < 0.8),
        "without the ladder and the counter, little speaks for it"
    );
}
