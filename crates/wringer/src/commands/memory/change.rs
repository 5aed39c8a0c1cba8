// SPDX-License-Identifier: Apache-2.0
//! The changes between two accounts, as text for people.

use super::tree::words;
use ledger::{Account, Difference, LeafDifference, Missing};
use std::cmp::Reverse;
use std::fmt::Write as _;
use units::{Bytes, SignedBytes};

/// Changes below one part in this number of the total are summed into one line, unless all are asked for.
const SMALL: u64 = 500;

pub(super) fn text(before: &Account, after: &Account, change: &Difference, all: bool) -> String {
    let mut text = format!(
        "RAM {} -> {}: {}{}, of which nobody explains {}\n\n{:<42} {:>12} {:>11} {:>11}\n",
        Bytes(before.kernel_total_bytes),
        Bytes(after.kernel_total_bytes),
        signed(change.kernel_total_bytes),
        super::within(change.uncertainty_bytes),
        signed(change.unexplained_bytes),
        "",
        "change",
        "before",
        "after"
    );
    let least = if all { 1 } else { after.kernel_total_bytes / SMALL };
    let known = changed(change).into_iter().map(|(leaf, bytes)| (leaf, Some(bytes), bytes.unsigned_abs()));
    let unknown = unknown(change).into_iter().map(|leaf| (leaf, None, once(before, after, &leaf.path)));
    let mut leaves: Vec<_> = known.chain(unknown).collect();
    leaves.sort_by_key(|(_, _, size)| Reverse(*size));
    let (shown, small): (Vec<_>, Vec<_>) = leaves.into_iter().partition(|(_, _, size)| *size >= least);
    for (leaf, change, _) in &shown {
        let side = |account| match resident(account, &leaf.path) {
            None if change.is_none() => NOT_KNOWN.to_owned(),
            bytes => Bytes(bytes.unwrap_or(0)).to_string(),
        };
        let (before, after) = (side(before), side(after));
        let name = leaf.path.split('/').map(words).collect::<Vec<_>>().join(": ");
        let change = change.map_or_else(|| NOT_KNOWN.to_owned(), signed);
        let _ = writeln!(text, "{name:<42} {change:>12} {before:>11} {after:>11}");
    }
    if !small.is_empty() {
        let sum = signed(small.iter().filter_map(|(_, change, _)| *change).sum());
        let name = format!("{} smaller (--all shows them)", small.len());
        let _ = writeln!(text, "{name:<42} {sum:>12}");
    }
    let unexplained = signed(change.unexplained_bytes);
    let _ = writeln!(text, "{:<42} {unexplained:>12}", "unexplained");
    if !self::unknown(change).is_empty() {
        let _ = writeln!(text, "what is not known at one of the two times is unexplained there");
    }
    unread(&mut text, change);
    text
}

/// What was not read: at both times, or at one of them.
fn unread(text: &mut String, change: &Difference) {
    let (before, after) = (&change.missing_before, &change.missing_after);
    let only = |of: &[Missing], other: &[Missing]| -> Vec<Missing> {
        of.iter().filter(|it| !other.contains(it)).cloned().collect()
    };
    let both: Vec<Missing> = before.iter().filter(|it| after.contains(it)).cloned().collect();
    for (when, all) in [("", both), ("before: ", only(before, after)), ("after: ", only(after, before))] {
        let mut missing = String::new();
        super::missing(&mut missing, &all);
        missing.lines().for_each(|line| {
            let _ = writeln!(text, "{when}{line}");
        });
    }
}

const NOT_KNOWN: &str = "not known";

/// The known changes that are not 0, the largest one first.
pub(super) fn changed(change: &Difference) -> Vec<(&LeafDifference, i64)> {
    let known = change.leaves.iter().filter_map(|leaf| Some((leaf, leaf.resident_bytes?)));
    let mut changed: Vec<_> = known.filter(|(_, bytes)| *bytes != 0).collect();
    changed.sort_by_key(|(_, bytes)| Reverse(bytes.unsigned_abs()));
    changed
}

fn unknown(change: &Difference) -> Vec<&LeafDifference> {
    change.leaves.iter().filter(|leaf| leaf.resident_bytes.is_none()).collect()
}

fn resident(account: &Account, path: &str) -> Option<u64> {
    account.leaves.iter().find(|leaf| leaf.path == path).map(|leaf| leaf.resident_bytes)
}

/// The size at the time at which it is known.
fn once(before: &Account, after: &Account, path: &str) -> u64 {
    [before, after].into_iter().filter_map(|account| resident(account, path)).max().unwrap_or(0)
}

/// `+2 MiB`, `-4 KiB`, `0 B`.
pub(super) fn signed(bytes: i64) -> String {
    format!("{:+}", SignedBytes(bytes.into()))
}

/// A leaf with a size; nothing else is known about it.
#[cfg(test)]
pub(super) fn leaf((path, resident_bytes): (&str, u64)) -> ledger::Leaf {
    let (path, basis) = (path.to_owned(), ledger::Basis::Server);
    ledger::Leaf { path, resident_bytes, allocated_bytes: None, basis, source: String::new(), at_us: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ledger::difference;

    #[test]
    fn what_changed_most_comes_first_and_little_things_together() {
        let account = |[pool, sort, binlog]: [u64; 3]| {
            let leaves = [("data_cache/buffer_pool", pool), ("sessions/sort", sort), ("log/binlog", binlog)].map(leaf);
            Account { kernel_total_bytes: pool + sort + binlog, leaves: leaves.into(), ..Account::default() }
        };
        let (before, after) = (account([90 << 20, 0, 4096]), account([80 << 20, 64 << 20, 8192]));
        let shown = text(&before, &after, &difference(&before, &after), false);
        let lines: Vec<Vec<&str>> = shown.lines().skip(3).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["sessions:", "sort", "+64", "MiB", "0", "B", "64", "MiB"]);
        assert_eq!(lines[1], ["data", "cache:", "buffer", "pool", "-10", "MiB", "90", "MiB", "80", "MiB"]);
        assert!(lines[2].starts_with(&["1", "smaller"]) && lines[2].ends_with(&["+4", "KiB"]), "{shown}");
        assert!(text(&before, &after, &difference(&before, &after), true).contains("log: binlog"));
        let rough = Account { uncertainty_bytes: 3 << 20, ..after.clone() };
        let said = text(&before, &rough, &difference(&before, &rough), true);
        assert!(said.contains(": +54.00 MiB, give or take 3 MiB, of which"), "{said}");
        assert!(shown.contains(": +54.00 MiB, of which"), "{shown}");
        assert_eq!((signed(0).as_str(), signed(-1024).as_str()), ("0 B", "-1 KiB"));
    }

    #[test]
    fn what_was_not_read_at_one_time_is_not_gone() {
        let account = |pfs: Option<u64>, silent: &[&str]| {
            let leaves = pfs.map(|bytes| leaf(("instrumentation/performance_schema", bytes))).into_iter().collect();
            let missing = |what: &&str| ledger::Missing { what: (*what).into(), why: "no answer".into(), remedy: None };
            let missing = silent.iter().map(missing).collect();
            Account { kernel_total_bytes: 99 << 20, leaves, missing, ..Account::default() }
        };
        let (before, after) = (account(Some(93 << 20), &[]), account(None, &["the server's own rows"]));
        let shown = text(&before, &after, &difference(&before, &after), false);
        let lines: Vec<Vec<&str>> = shown.lines().skip(3).map(|line| line.split_whitespace().collect()).collect();
        assert!(lines[0].ends_with(&["not", "known", "93", "MiB", "not", "known"]), "{shown}");
        assert!(shown.ends_with("after: not read: the server's own rows: no answer\n"), "{shown}");
        assert!(shown.contains("is unexplained there"), "{shown}");
    }
}
