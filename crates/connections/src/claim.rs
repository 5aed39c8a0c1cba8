// SPDX-License-Identifier: Apache-2.0
use serde::Serialize;

/// The memory that all permitted connections of ordinary accounts could have at one time, if each had as much as the largest seen one of its account.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Claim {
    /// `None`: it is known for no account.
    pub bytes: Option<u64>,
    /// The number of these connections.
    pub connections: u64,
    /// Accounts that may connect, and of which no source says how much memory a connection has. They are not in `bytes`.
    pub unknown: Vec<String>,
}

/// An account that may claim memory.
pub(crate) struct Claimant<'a> {
    pub(crate) account: &'a str,
    /// `None`: as many as the server has.
    pub(crate) limit: Option<u64>,
    pub(crate) session_bytes_max: Option<u64>,
}

/// `room`: the connections for all accounts together. The connections with the most memory come first, so that no mix of connections claims more.
pub(crate) fn claim<'a>(room: u64, claimants: impl Iterator<Item = Claimant<'a>>) -> Claim {
    let (known, unknown): (Vec<_>, Vec<_>) =
        claimants.filter(|it| it.limit != Some(0)).partition(|it| it.session_bytes_max.is_some());
    let mut known: Vec<(u64, u64)> =
        known.iter().map(|it| (it.session_bytes_max.unwrap_or(0), it.limit.unwrap_or(room))).collect();
    known.sort_unstable_by(|one, other| other.cmp(one));
    let mut claim = Claim { unknown: unknown.iter().map(|it| it.account.to_owned()).collect(), ..Claim::default() };
    for (bytes, limit) in &known {
        let count = (*limit).min(room - claim.connections);
        claim.connections += count;
        claim.bytes = Some(claim.bytes.unwrap_or(0).saturating_add(bytes.saturating_mul(count)));
    }
    claim
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(room: u64, claimants: &[(Option<u64>, Option<u64>)]) -> Claim {
        claim(
            room,
            claimants.iter().map(|(limit, bytes)| Claimant { account: "a", limit: *limit, session_bytes_max: *bytes }),
        )
    }

    #[test]
    fn the_dearest_come_first_and_the_server_bounds_them() {
        assert_eq!(of(10, &[(Some(4), Some(100)), (None, Some(7))]).bytes, Some(4 * 100 + 6 * 7));
        assert_eq!(of(10, &[(None, Some(100)), (None, Some(7))]).bytes, Some(1000));
        assert_eq!(of(10, &[(Some(2), Some(100))]), Claim { bytes: Some(200), connections: 2, unknown: Vec::new() });
    }

    #[test]
    fn what_is_not_known_is_named_and_not_guessed() {
        assert_eq!(of(10, &[(Some(3), None)]), Claim { bytes: None, connections: 0, unknown: vec!["a".into()] });
        assert_eq!(of(10, &[(Some(0), None)]).unknown, Vec::<String>::new());
        assert_eq!(of(10, &[(None, Some(u64::MAX)), (None, None)]).bytes, Some(u64::MAX));
    }
}
