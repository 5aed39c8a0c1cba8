// SPDX-License-Identifier: Apache-2.0
//! The changes between two accounts, as text for people.

use super::tree::words;
use ledger::{Account, Difference, LeafDifference};
use std::cmp::Reverse;
use std::fmt::Write as _;
use units::{Bytes, SignedBytes};

/// Changes below one part in this number of the total are summed into one line, unless all are asked for.
const SMALL: u64 = 500;

pub(super) fn text(before: &Account, after: &Account, change: &Difference, all: bool) -> String {
    let mut text = format!(
        "RAM {} -> {}: {}, of which nobody explains {}\n\n{:<42} {:>12} {:>11} {:>11}\n",
        Bytes(before.kernel_total_bytes),
        Bytes(after.kernel_total_bytes),
        signed(change.kernel_total_bytes),
        signed(change.unexplained_bytes),
        "",
        "change",
        "before",
        "after"
    );
    let least = if all { 1 } else { after.kernel_total_bytes / SMALL };
    let (shown, small): (Vec<&LeafDifference>, Vec<_>) =
        changed(change).into_iter().partition(|leaf| leaf.resident_bytes.unsigned_abs() >= least);
    for leaf in &shown {
        let [before, after] = [before, after].map(|account| Bytes(resident(account, &leaf.path)).to_string());
        let (name, change) =
            (leaf.path.split('/').map(words).collect::<Vec<_>>().join(": "), signed(leaf.resident_bytes));
        let _ = writeln!(text, "{name:<42} {change:>12} {before:>11} {after:>11}");
    }
    if !small.is_empty() {
        let sum = signed(small.iter().map(|leaf| leaf.resident_bytes).sum());
        let name = format!("{} smaller (--all shows them)", small.len());
        let _ = writeln!(text, "{name:<42} {sum:>12}");
    }
    let unexplained = signed(change.unexplained_bytes);
    let _ = writeln!(text, "{:<42} {unexplained:>12}", "unexplained");
    text
}

/// The changes that are not 0, the largest one first.
pub(super) fn changed(change: &Difference) -> Vec<&LeafDifference> {
    let mut changed: Vec<_> = change.leaves.iter().filter(|leaf| leaf.resident_bytes != 0).collect();
    changed.sort_by_key(|leaf| Reverse(leaf.resident_bytes.unsigned_abs()));
    changed
}

fn resident(account: &Account, path: &str) -> u64 {
    account.leaves.iter().find(|leaf| leaf.path == path).map_or(0, |leaf| leaf.resident_bytes)
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
        assert_eq!((signed(0).as_str(), signed(-1024).as_str()), ("0 B", "-1 KiB"));
    }
}
