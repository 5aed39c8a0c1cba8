// SPDX-License-Identifier: Apache-2.0
//! The changes between two accounts, leaf by leaf.

use crate::entries::{Account, Basis, Leaf};
use crate::share::signed;
use crate::{Missing, beside_the_sum};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The later account minus the earlier one. In bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    pub from_unix_us: u64,
    pub to_unix_us: u64,
    pub kernel_total_bytes: i64,
    /// How far this change of the total may be off: as far as both totals together.
    #[serde(default)]
    pub uncertainty_bytes: u64,
    /// Leaves that are not known in one account are in it.
    pub unexplained_bytes: i64,
    /// In order of their paths, those that did not change included.
    pub leaves: Vec<LeafDifference>,
    /// What could not be read for the earlier account, and for the later one.
    #[serde(default)]
    pub missing_before: Vec<Missing>,
    #[serde(default)]
    pub missing_after: Vec<Missing>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeafDifference {
    pub path: String,
    /// `None`: its source could not be read for one of the accounts.
    pub resident_bytes: Option<i64>,
    /// `None`: neither account has a meter for it, or its source could not be read for one of them.
    pub allocated_bytes: Option<i64>,
}

/// `after` minus `before`. A leaf that only one account has counts as 0 in the other, unless its source could not be read there.
pub fn difference(before: &Account, after: &Account) -> Difference {
    let paths: BTreeSet<&str> = before.leaves.iter().chain(&after.leaves).map(|leaf| leaf.path.as_str()).collect();
    let leaves = paths.into_iter().map(|path| of_leaf(path, before, after));
    Difference {
        from_unix_us: before.at_unix_us,
        to_unix_us: after.at_unix_us,
        kernel_total_bytes: signed(after.kernel_total_bytes) - signed(before.kernel_total_bytes),
        uncertainty_bytes: before.uncertainty_bytes.saturating_add(after.uncertainty_bytes),
        unexplained_bytes: after.unexplained_bytes.saturating_sub(before.unexplained_bytes),
        leaves: leaves.collect(),
        missing_before: before.missing.clone(),
        missing_after: after.missing.clone(),
    }
}

impl Difference {
    /// What was read for one of the accounts only, in words.
    pub fn read_once(&self) -> Vec<String> {
        let only = |of: &[Missing], other: &[Missing], when: &str| -> Vec<String> {
            // a server that was not asked has told nothing that another reading lacks
            let is_silent = other.iter().any(|it| SILENT.contains(&it.what.as_str()));
            let is_covered = |it: &Missing| is_silent && hides(&it.what, Basis::Server);
            let is_unread = |it: &Missing| it.what != Missing::HIDDEN && !is_covered(it);
            let is_new = |it: &&Missing| is_unread(it) && !other.iter().any(|other| is_same(&other.what, &it.what));
            of.iter().filter(is_new).map(|it| format!("{} ({when})", it.what)).collect()
        };
        let before = only(&self.missing_before, &self.missing_after, "before");
        before.into_iter().chain(only(&self.missing_after, &self.missing_before, "after")).collect()
    }
}

fn find<'a>(account: &'a Account, path: &str) -> Option<&'a Leaf> {
    account.leaves.iter().find(|leaf| leaf.path == path)
}

fn of_leaf(path: &str, earlier: &Account, later: &Account) -> LeafDifference {
    let (before, after) = (find(earlier, path), find(later, path));
    let is_unknown = before.is_some_and(|leaf| is_hidden(leaf, after, later, earlier))
        || after.is_some_and(|leaf| is_hidden(leaf, before, earlier, later));
    let resident = |leaf: Option<&Leaf>| leaf.map_or(0, |leaf| signed(leaf.resident_bytes));
    let allocated = |leaf: Option<&Leaf>| leaf.and_then(|leaf| leaf.allocated_bytes).map(signed);
    let (was, is) = (allocated(before), allocated(after));
    let is_metered = was.is_some() || is.is_some();
    LeafDifference {
        path: path.to_owned(),
        resident_bytes: (!is_unknown).then(|| resident(after) - resident(before)),
        allocated_bytes: (is_metered && !is_unknown).then(|| is.unwrap_or(0) - was.unwrap_or(0)),
    }
}

/// Whether `other` lacks the leaf, or has it by another source, because it could not read what `own` has read.
fn is_hidden(leaf: &Leaf, there: Option<&Leaf>, other: &Account, own: &Account) -> bool {
    let is_new = |it: &&Missing| !own.missing.iter().any(|own| is_same(&own.what, &it.what));
    let is_other = there.is_none_or(|there| there.basis != leaf.basis);
    is_other && other.missing.iter().filter(is_new).any(|it| hides(&it.what, leaf.basis))
}

/// Whether both say the same, whatever the numbers are: "mappings of 14 of 19 processes", and "of 15 of 18".
fn is_same(one: &str, other: &str) -> bool {
    let words = |text: &str| {
        text.split(|c: char| c.is_ascii_digit()).filter(|it| !it.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    one == other || words(one) == words(other)
}

const SILENT: [&str; 3] = [Missing::OWN_ROWS, Missing::ITS_WORD, Missing::SETTINGS];

/// Things without which no leaf is smaller.
const BESIDE_LEAVES: [&str; 9] = [
    Missing::HIDDEN,
    Missing::FILES,
    "memory cgroup",
    "the last kill in the kernel's log",
    "processes that ended",
    "shares of shared memory",
    "high-water marks of accounts",
    "statements that held the most memory",
    "whether the server and the process are the same",
];

/// Whether leaves of this basis are not to be had when this was not read.
fn hides(what: &str, basis: Basis) -> bool {
    if what.starts_with("mappings") || what == "the account" {
        return true;
    }
    let is_beside = BESIDE_LEAVES.contains(&what) || what.starts_with("process ") || what == beside_the_sum::UNTOLD;
    match basis {
        Basis::Kernel => SILENT.contains(&what),
        Basis::Allocator => what.starts_with("free memory"),
        Basis::Server | Basis::Formula => !is_beside && !what.starts_with("free memory"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Basis;

    fn account(leaves: &[(&str, u64)], unexplained: i64) -> Account {
        let leaf = |(path, bytes): &(&str, u64)| Leaf {
            path: (*path).to_owned(),
            resident_bytes: *bytes,
            allocated_bytes: None,
            basis: Basis::Kernel,
            source: String::new(),
            at_us: 0,
        };
        let total = leaves.iter().map(|(_, bytes)| bytes).sum::<u64>().saturating_add_signed(unexplained);
        let leaves = leaves.iter().map(leaf).collect();
        Account { leaves, unexplained_bytes: unexplained, kernel_total_bytes: total, ..Account::default() }
    }

    #[test]
    fn leaves_that_come_and_go_are_in_it_and_the_sum_holds() {
        let found = difference(&account(&[("a", 10), ("b", 5)], 3), &account(&[("b", 9), ("c", 1)], 1));
        let changes: Vec<_> = found.leaves.iter().map(|it| (it.path.as_str(), it.resident_bytes)).collect();
        assert_eq!(changes, [("a", Some(-10)), ("b", Some(4)), ("c", Some(1))]);
        assert_eq!(found.kernel_total_bytes, -5 + found.unexplained_bytes);
    }

    /// A recording reads another number of processes each time.
    #[test]
    fn some_processes_more_that_were_read_hide_no_leaf() {
        let with = |what: &str, uncertainty_bytes, leaves: &[(&str, u64)]| {
            let missing = vec![Missing { what: what.into(), ..Missing::default() }];
            Account { missing, uncertainty_bytes, ..account(leaves, 0) }
        };
        let before = with("mappings of 14 of 19 processes", 3, &[("a", 9)]);
        let found = difference(&before, &with("mappings of 5 of 18 processes", 4, &[]));
        assert_eq!((found.leaves[0].resident_bytes, found.uncertainty_bytes), (Some(-9), 7));
        assert!(found.read_once().is_empty());
        assert_eq!(difference(&before, &with("mappings of process 7", 4, &[])).leaves[0].resident_bytes, None);
    }

    /// A server that stood still while it was asked has not freed its memory.
    #[test]
    fn what_could_not_be_read_is_not_gone() {
        let of_server = |mut account: Account, silent: &str| {
            account.leaves.iter_mut().filter(|it| it.path != "kernel").for_each(|it| it.basis = Basis::Server);
            let missing = |what: &str| Missing { what: what.into(), ..Missing::default() };
            account.missing = [silent].iter().filter(|it| !it.is_empty()).map(|what| missing(what)).collect();
            account
        };
        let whole = || of_server(account(&[("kernel", 4), ("pfs", 90)], 0), "");
        let silent = |why: &str| of_server(account(&[("kernel", 3)], 91), why);
        let changes = |before: &Account, after: &Account| {
            let found = difference(before, after);
            (found.leaves.iter().map(|it| it.resident_bytes).collect::<Vec<_>>(), found.read_once())
        };
        let rows = "the server's own rows";
        assert_eq!(changes(&whole(), &silent(rows)), (vec![Some(-1), None], vec![format!("{rows} (after)")]));
        assert_eq!(changes(&silent(rows), &whole()), (vec![Some(1), None], vec![format!("{rows} (before)")]));
        // neither was read in both, so it has come; another thing hides no leaf
        assert_eq!(changes(&silent(rows), &of_server(whole(), rows)).0, [Some(1), Some(90)]);
        for beside in ["memory cgroup", Missing::FILES] {
            assert_eq!(changes(&whole(), &silent(beside)).0, [Some(-1), Some(-90)], "{beside}");
        }
        // the log's buffer is a mapping that only the settings tell from others; and who was not asked at all did not answer for instruments either
        let mut mapped = of_server(account(&[("kernel", 4), ("log", 16)], 0), "memory by the server's instruments");
        mapped.leaves.iter_mut().for_each(|it| it.basis = Basis::Kernel);
        assert_eq!(changes(&mapped, &silent(rows)), (vec![Some(-1), None], vec![format!("{rows} (after)")]));
    }
}
