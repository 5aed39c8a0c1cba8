// SPDX-License-Identifier: Apache-2.0
//! The row of the accounts as which a session of MySQL or MariaDB is logged in. The server shows the user and the place of the client, but not the
//! row; it compares rows with the more specific host first (MySQL manual, Access Control, Stage 1). The matches of a literal, a network or a pattern
//! are described in its manual, Specifying Account Names.

use crate::{Account, AccountSeen};
use std::cmp::Reverse;
use std::net::Ipv4Addr;

/// `client`: a name or an address. `None`: no row fits, or it is not known which one fits.
pub(crate) fn row<'a>(rows: &'a [AccountSeen], user: &str, client: &str) -> Option<&'a Account> {
    let is_of = |account: &&Account| account.user == user || account.user.is_empty();
    let accounts = || rows.iter().filter(|row| row.may_log_in).map(|row| &row.account).filter(is_of);
    let fitting = accounts().filter(|account| host(account).is_some_and(|host| fits(host, client)));
    fitting.min_by_key(|account| Reverse((host(account).map(specificity), !account.user.is_empty()))).or_else(|| {
        // the server may know the client by a name, or by an address, that it does not show
        let mut own = accounts().filter(|account| account.user == user);
        own.next().filter(|_| own.next().is_none())
    })
}

fn host(account: &Account) -> Option<&str> {
    account.host.as_deref()
}

fn fits(pattern: &str, client: &str) -> bool {
    match network(pattern) {
        Some((address, mask)) => client.parse::<Ipv4Addr>().is_ok_and(|client| u32::from(client) & mask == address),
        None => pattern.is_empty() || like(&letters(pattern), &letters(client)),
    }
}

fn letters(text: &str) -> Vec<char> {
    text.to_lowercase().chars().collect()
}

/// `198.51.100.0/255.255.255.0`, `198.51.100.0/24`.
fn network(pattern: &str) -> Option<(u32, u32)> {
    let (address, mask) = pattern.split_once('/')?;
    let address: Ipv4Addr = address.parse().ok()?;
    let mask = match mask.parse::<u32>() {
        Ok(bits) => u32::MAX.checked_shl(32_u32.checked_sub(bits)?).unwrap_or(0),
        Err(_) => u32::from(mask.parse::<Ipv4Addr>().ok()?),
    };
    Some((u32::from(address), mask))
}

/// SQL's LIKE. Only the last `%` is tried again, so that a hostile pattern takes at most as many steps as its length times the length of the text.
fn like(pattern: &[char], text: &[char]) -> bool {
    let (mut at, mut of) = (0, 0);
    let mut again: Option<(usize, usize)> = None;
    while of < text.len() {
        match pattern.get(at) {
            Some('%') => {
                again = Some((at + 1, of));
                at += 1;
            }
            Some('_') => (at, of) = (at + 1, of + 1),
            Some('\\') if pattern.get(at + 1) == Some(&text[of]) => (at, of) = (at + 2, of + 1),
            Some(letter) if *letter == text[of] => (at, of) = (at + 1, of + 1),
            _ => match again {
                Some((after, from)) => {
                    again = Some((after, from + 1));
                    (at, of) = (after, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|letter| *letter == '%')
}

/// Literals first, then networks, then patterns by the place of their first wildcard; `%` and the empty host come last.
fn specificity(host: &str) -> (u8, usize) {
    match (network(host), host.find(['%', '_'])) {
        (Some((_, mask)), _) => (2, mask.count_ones() as usize),
        (None, None) if host.is_empty() => (0, 0),
        (None, None) => (3, 0),
        (None, Some(place)) => (1, place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(accounts: &[(&str, &str)]) -> Vec<AccountSeen> {
        let seen = |(user, host): &(&str, &str)| AccountSeen {
            account: Account::at(*user, *host),
            may_log_in: true,
            ..AccountSeen::default()
        };
        accounts.iter().map(seen).collect()
    }

    #[test]
    fn the_most_specific_host_counts() {
        let rows = rows(&[
            ("app", "%"),
            ("app", "10.0.%"),
            ("app", "10.0.0.0/255.255.255.0"),
            ("app", "10.0.0.7"),
            ("app", "localhost"),
            ("other", "%"),
        ]);
        let host = |client: &str| row(&rows, "app", client).and_then(|account| account.host.clone());
        let found = ["10.0.0.7", "10.0.0.8", "10.0.1.8", "192.0.2.1", "LOCALHOST"].map(|it| host(it).unwrap());
        assert_eq!(found, ["10.0.0.7", "10.0.0.0/255.255.255.0", "10.0.%", "%", "localhost"]);
        assert_eq!(row(&rows, "nobody", "localhost"), None);
    }

    #[test]
    fn an_anonymous_row_that_is_more_specific_wins() {
        let rows = rows(&[("app", "%"), ("", "localhost")]);
        assert_eq!(row(&rows, "app", "localhost"), Some(&Account::at("", "localhost")));
        assert_eq!(row(&rows, "app", "db.example"), Some(&Account::at("app", "%")));
    }

    #[test]
    fn without_a_row_that_fits_the_only_one_of_the_user_is_meant() {
        let rows = rows(&[("app", "192.0.2.1"), ("two", "192.0.2.1"), ("two", "192.0.2.2")]);
        assert_eq!(row(&rows, "app", "client.example"), Some(&Account::at("app", "192.0.2.1")));
        assert_eq!(row(&rows, "two", "client.example"), None, "it cannot be told which");
    }

    #[test]
    fn patterns_are_those_of_like() {
        let fits = |pattern: &str, client: &str| fits(pattern, client);
        assert!(fits("%.example", "a.b.example") && fits("h_st", "host") && fits("h\\_st", "h_st"));
        assert!(!fits("h\\_st", "host") && !fits("%.example", "example") && !fits("10.0.0.0/24", "10.0.1.1"));
        assert!(fits("10.0.0.0/24", "10.0.0.255") && fits("0.0.0.0/0", "192.0.2.1") && !fits("1.2.3.4/99", "1.2.3.4"));
        let hostile = "%a".repeat(2000);
        assert!(!fits(&hostile, &"b".repeat(2000)));
    }
}
