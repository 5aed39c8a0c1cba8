// SPDX-License-Identifier: Apache-2.0
//! Replays a recorded workload: reads the log of a real server, selects statements, and sends them to another server.
//!
//! - The log is read by the crate `logs`.
//! - [`plan`]: which statements to send; the others are counted by reason.
//! - [`run`]: one connection for each of the log's; statements are sent at their recorded times or faster.

mod classify;
mod count;
mod plan;
mod run;
mod sessions;

pub use plan::{Plan, plan};
pub use run::{Options, Pace, Replayed, run};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Protocol;
    use logs::read;

    /// Logs hold clients' text in any character set, and may be cut anywhere.
    #[test]
    fn no_bytes_make_a_reader_panic() {
        use workload::distribution::Draw as _;
        use workload::rand_core::SeedableRng as _;
        let logs: [&[u8]; 5] = [
            b"# Time: 2026-11-21T22:43:55.500000Z\n# User@Host: me[me] @ localhost []  Id:    10\n# Query_time: 0.250000\nuse shop;\nSET timestamp=1763765035;\nSELECT 'a\\'b', `c` FROM t;\n",
            b"261121 22:49:33\t     3 Connect\tme@localhost on shop using Socket\n\t\t     3 Query\tSELECT 1\n261121 22:49:35\t    12 Query\tSELECT 8\n",
            b"2026-11-21 22:51:56.629 UTC [1] LOG:  duration: 0.123 ms  execute s1: SELECT $1, $x$y$x$\n2026-11-21 22:51:56 UTC [1] DETAIL:  parameters: $1 = 'it''s'\n",
            b"2026-11-21 22:51:56.629 UTC,\"me\",\"shop\",7,\"[local]\",6a01.7,1,\"SELECT\",2026-11-21 22:51:00 UTC,3/4,0,LOG,00000,\"statement: SELECT 1\",,,,,,,,,\"psql\"\n",
            b"{\"timestamp\":\"2026-11-21 22:51:56.629 UTC\",\"pid\":7,\"dbname\":\"shop\",\"error_severity\":\"LOG\",\"message\":\"statement: SELECT 1\"}\n",
        ];
        let pieces: [&[u8]; 12] = [
            b"\xff",
            b"\xe9",
            "\u{20ac}".as_bytes(),
            b"\xf0\x9f",
            b"\t",
            b"\0",
            b"'",
            b"\\",
            b"$",
            b"99999999999999999999",
            b"9223372036854775807",
            b"-",
        ];
        let mut rng = workload::Rng::seed_from_u64(11);
        let mut at_most = |most: usize| usize::try_from(rng.below(most as u64 + 1)).expect("small");
        let mut read_whole = 0;
        for round in 0..20_000 {
            let mut log = logs[round % logs.len()].to_vec();
            for _ in 0..=at_most(3) {
                let (from, length) = (at_most(log.len()), at_most(4));
                let to = (from + length).min(log.len());
                log.splice(from..to, pieces[at_most(pieces.len() - 1)].iter().copied());
            }
            let Some((format, recorded)) = read(log.as_slice()).expect("reads") else { continue };
            plan(&recorded, Protocol::of(format.dialect()), true, None);
            read_whole += recorded.statements();
        }
        assert!(read_whole > 1000, "only {read_whole} statements were understood");
    }
}
