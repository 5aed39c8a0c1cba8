// SPDX-License-Identifier: Apache-2.0
//! Measures the difference between a server's clock and ours, so that observations of two hosts can be put on one time axis.

use crate::Error;
use crate::admin::Connection;
use crate::target::{Protocol, Target};
use serde::{Deserialize, Serialize};

/// How many times to ask; the quickest answer is used.
const TRIES: u32 = 9;

/// The server's clock minus this host's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerClock {
    /// Negative: the server's clock is behind.
    pub ahead_us: i64,
    /// Half of the statement's round trip: the server read its clock at some time within it.
    pub uncertainty_us: u64,
}

/// Asks several times over a new connection.
///
/// # Errors
/// The errors of connecting and of a query; [`Error::Invalid`] when the answer is no number.
pub fn measure(target: &Target) -> Result<ServerClock, Error> {
    let mut connection = Connection::open(target)?;
    let sql = match target.protocol {
        Protocol::Mysql => "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))",
        Protocol::Postgresql => "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
    };
    let mut best: Option<ServerClock> = None;
    for _ in 0..TRIES {
        let before = host::clock::unix_us();
        let answer = connection.query(sql)?;
        let after = host::clock::unix_us();
        let Some(theirs) = answer.parse::<i64>(0, 0) else {
            return Err(Error::Invalid(format!("the server's clock is no number: {:?}", answer.text(0, 0))));
        };
        let seen = between(before, theirs, after);
        if best.is_none_or(|best| seen.uncertainty_us < best.uncertainty_us) {
            best = Some(seen);
        }
    }
    best.ok_or_else(|| Error::Invalid("the server's clock was not asked".into()))
}

/// Computed from our clock before and after, and the server's clock in between.
fn between(before_us: u64, theirs_us: i64, after_us: u64) -> ServerClock {
    let half = after_us.saturating_sub(before_us).div_ceil(2);
    let middle = i64::try_from(before_us.saturating_add(half)).unwrap_or(i64::MAX);
    ServerClock { ahead_us: theirs_us.saturating_sub(middle), uncertainty_us: half.max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_the_round_trip() {
        assert_eq!(between(1000, 1700, 1400), ServerClock { ahead_us: 500, uncertainty_us: 200 });
        assert_eq!(between(1000, 500, 1001), ServerClock { ahead_us: -501, uncertainty_us: 1 });
    }
}
