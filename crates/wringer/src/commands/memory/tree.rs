// SPDX-License-Identifier: Apache-2.0
//! The account for people: a tree with bars.

use ledger::{Account, Leaf, Unexplained};
use std::fmt::Write as _;
use units::{Bytes, SignedBytes};

/// The width of the bar of the largest branch.
const WIDTH: u64 = 24;
/// Leaves below this share of the total are summed into one line, unless all are asked for.
const SMALL: f64 = 0.002;

/// The leaves whose paths have the same first word.
struct Branch<'a> {
    name: &'a str,
    bytes: u64,
    leaves: Vec<&'a Leaf>,
}

pub(super) fn text(account: &Account, all: bool) -> String {
    let branches = branches(account);
    let largest = branches.iter().map(|branch| branch.bytes).max().unwrap_or(0).max(unexplained(account));
    let mut text =
        format!("{:<42} {:>11} {:>7}  {:<9} allocated, where its meter says more\n", "", "resident", "share", "basis");
    for branch in &branches {
        let bar = bar(branch.bytes, largest);
        line(&mut text, &words(branch.name), branch.bytes, account, &bar);
        leaves(&mut text, branch, account, all);
    }
    remainder(&mut text, account, largest);
    text
}

fn branches(account: &Account) -> Vec<Branch<'_>> {
    let mut branches: Vec<Branch<'_>> = Vec::new();
    for leaf in &account.leaves {
        let name = leaf.path.split('/').next().unwrap_or_default();
        match branches.iter_mut().find(|branch| branch.name == name) {
            Some(branch) => {
                branch.bytes += leaf.resident_bytes;
                branch.leaves.push(leaf);
            }
            None => branches.push(Branch { name, bytes: leaf.resident_bytes, leaves: vec![leaf] }),
        }
    }
    branches.sort_by_key(|branch| std::cmp::Reverse(branch.bytes));
    for branch in &mut branches {
        branch.leaves.sort_by_key(|leaf| std::cmp::Reverse(leaf.resident_bytes));
    }
    branches
}

fn leaves(text: &mut String, branch: &Branch<'_>, account: &Account, all: bool) {
    let is_alone = branch.leaves.len() == 1 && !branch.leaves[0].path.contains('/');
    let is_small = |leaf: &&&Leaf| !all && share(leaf.resident_bytes, account) < SMALL && extra(leaf).is_none();
    for leaf in branch.leaves.iter().filter(|leaf| !is_alone && !is_small(leaf)) {
        let name = leaf.path.split_once('/').map_or(leaf.path.as_str(), |(_, name)| name);
        let said = format!("{:<9} {}", leaf.basis.name(), extra(leaf).unwrap_or_default());
        line(text, &format!("  {}", words(name)), leaf.resident_bytes, account, said.trim_end());
    }
    let small: Vec<&&Leaf> = branch.leaves.iter().filter(|leaf| !is_alone && is_small(leaf)).collect();
    if !small.is_empty() {
        let bytes = small.iter().map(|leaf| leaf.resident_bytes).sum();
        line(text, &format!("  {} smaller", small.len()), bytes, account, "(--all shows them)");
    }
}

/// The allocated bytes, if they are clearly more than the resident bytes.
fn extra(leaf: &Leaf) -> Option<String> {
    let allocated = leaf.allocated_bytes?;
    (allocated > leaf.resident_bytes + leaf.resident_bytes / 20 + (1 << 20)).then(|| Bytes(allocated).to_string())
}

fn remainder(text: &mut String, account: &Account, largest: u64) {
    let bar = bar(unexplained(account), largest);
    match u64::try_from(account.unexplained_bytes) {
        Ok(bytes) => line(text, "unexplained", bytes, account, &bar),
        // the sources say more than the kernel
        Err(_) => {
            let bytes = SignedBytes(account.unexplained_bytes.into());
            let _ = writeln!(text, "{:<42} {bytes:>11}", "unexplained");
        }
    }
    for part in account.unexplained.iter().filter(|part| part.bytes != 0) {
        let _ = writeln!(text, "  {}", of_class(part));
    }
}

fn of_class(part: &Unexplained) -> String {
    let mut said = format!("{} {}", SignedBytes(part.bytes.into()), in_class(&part.class));
    let largest = part.mappings.iter().take(3);
    let largest: Vec<String> = largest.map(|it| format!("{} ({})", it.range, Bytes(it.resident_bytes))).collect();
    if !largest.is_empty() {
        let _ = write!(said, "; the largest mappings among which it lies: {}", largest.join(", "));
    }
    said
}

fn in_class(class: &str) -> String {
    match class {
        "private" => "in malloc's heaps and anonymous mappings, which nobody names".to_owned(),
        "rounding" => "between the kernel's sum of each process and the sum of its mappings".to_owned(),
        other => format!("in {}", words(other)),
    }
}

fn unexplained(account: &Account) -> u64 {
    u64::try_from(account.unexplained_bytes).unwrap_or(0)
}

fn share(bytes: u64, account: &Account) -> f64 {
    if account.kernel_total_bytes == 0 { 0.0 } else { bytes as f64 / account.kernel_total_bytes as f64 }
}

fn line(text: &mut String, name: &str, bytes: u64, account: &Account, rest: &str) {
    let percent = share(bytes, account) * 100.0;
    let row = format!("{name:<42} {:>11} {percent:>5.1} %  {rest}", Bytes(bytes).to_string());
    let _ = writeln!(text, "{}", row.trim_end());
}

fn bar(bytes: u64, largest: u64) -> String {
    let cells = (bytes.saturating_mul(WIDTH) + largest / 2).checked_div(largest).unwrap_or(0);
    "█".repeat(usize::try_from(cells).unwrap_or(0))
}

pub(super) fn words(name: &str) -> String {
    name.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ledger::Basis;

    fn leaf(path: &str, resident_bytes: u64, allocated_bytes: Option<u64>) -> Leaf {
        let source = "a test".to_owned();
        Leaf { path: path.into(), resident_bytes, allocated_bytes, basis: Basis::Server, source, at_us: 0 }
    }

    #[test]
    fn sources_that_say_more_than_the_kernel_are_seen() {
        let account = Account { kernel_total_bytes: 100 << 20, unexplained_bytes: -(40 << 20), ..Account::default() };
        let shown = text(&account, false);
        assert!(shown.lines().any(|line| line.starts_with("unexplained") && line.ends_with(" -40 MiB")), "{shown}");
    }

    #[test]
    fn branches_come_by_size_and_small_leaves_together() {
        let leaves = vec![
            leaf("log/redo_buffer", 16 << 20, Some(32 << 20)),
            leaf("data_cache/buffer_pool", 80 << 20, None),
            leaf("data_cache/key_cache", 1000, None),
            leaf("data_cache/query_cache", 24, None),
        ];
        let account =
            Account { kernel_total_bytes: 100 << 20, unexplained_bytes: 4 << 20, leaves, ..Account::default() };
        let shown = text(&account, false);
        let first = |word: &str| shown.lines().position(|line| line.trim_start().starts_with(word));
        assert!(first("data cache") < first("log") && first("log") < first("unexplained"), "{shown}");
        assert!(shown.contains("2 smaller") && !shown.contains("key cache"), "{shown}");
        assert!(shown.contains("32 MiB"), "allocated beside resident: {shown}");
        assert!(text(&account, true).contains("key cache"));
    }
}
