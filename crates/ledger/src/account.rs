// SPDX-License-Identifier: Apache-2.0
//! The account: leaves and the unexplained rest, which sum to the kernel's total exactly.

use crate::claim::Claim;
use crate::entries::{Account, Leaf, ProcessAccount, ProcessLeaf, Unexplained, UnnamedMapping};
use crate::figures::Figures;
use crate::leaf;
use crate::leaves_of_classes::{self, Claims};
use crate::pieces::{Partition, partition};
use crate::row::{Row, Rule};
use crate::share::{sane, signed};
use crate::{Class, Inventory, Missing, beside_the_sum, huge, implausible, rows_for};
use capability::Version;
use std::collections::BTreeMap;

/// The number of largest mappings with unexplained memory that are named.
const NAMED: usize = 8;
/// Smaller differences come from figures that were read at different times.
const LEAST_HIDDEN: u64 = 1 << 20;

/// Makes the account of an inventory, whole or with parts missing. For an inventory with impossible figures ([`crate::implausible`]) the account is empty, and
/// says why.
pub fn account(inventory: &Inventory) -> Account {
    if let Some(why) = implausible(inventory) {
        let missing = vec![Missing { what: "the account".into(), why, remedy: None }];
        return Account { schema: 1, at_unix_us: inventory.at_unix_us, missing, ..Account::default() };
    }
    let figures = Figures::of(inventory);
    let version = inventory.version.as_deref().and_then(version_in);
    let rows: Vec<&'static Row> = rows_for(inventory.flavour, version.as_ref()).collect();
    let partition = partition(inventory, &figures);
    let segments = huge::segments(inventory);
    let Claims { mut claims, of_each, overcounted } = leaves_of_classes::claims(inventory, &partition, &rows);
    let processes = processes(inventory, &partition, &of_each);
    claims.extend(of_each.into_iter().flatten());
    claims.extend(huge::claims(&segments, inventory.segment.as_ref(), &figures, &rows));
    claims.extend(page_tables(inventory, &rows));
    let in_huge_pages: u64 = segments.iter().map(|segment| segment.resident).sum();
    let huge_apart: u64 = segments.iter().map(|segment| segment.apart).sum();
    let total = partition.pss.iter().sum::<u64>() + page_tables_bytes(inventory) + in_huge_pages;
    let uncertainty = partition.estimates.uncertainty_bytes + partition.apart + huge_apart;
    let leaves = leaves_of_classes::merged(claims);
    let explained: u64 = leaves.iter().map(|leaf| leaf.resident_bytes).sum();
    let unexplained = signed(total) - signed(explained);
    let missing = inventory.missing.iter().cloned().chain(beside_the_sum::untold(inventory));
    Account {
        schema: 1,
        at_unix_us: inventory.at_unix_us,
        kernel_total_bytes: total,
        explained_share: explained_share(explained, total),
        unexplained_bytes: unexplained,
        uncertainty_bytes: uncertainty,
        overcounted_bytes: overcounted,
        leaves,
        unexplained: remainders(inventory, &partition, unexplained),
        processes,
        beside: beside_the_sum::of(inventory),
        probes: inventory.probes.clone(),
        missing: missing.chain(huge::missing(&segments)).chain(hidden(overcounted)).collect(),
        interval: inventory.interval.clone(),
        estimates: partition.estimates,
    }
}

/// Meters that count more than is resident explain all of it, whatever it is.
fn hidden(overcounted: u64) -> Option<Missing> {
    (overcounted >= LEAST_HIDDEN).then(|| Missing {
        what: Missing::HIDDEN.into(),
        why: format!(
            "the server's meters count {} more than is resident: a leak of up to that size does not show",
            units::Bytes(overcounted)
        ),
        remedy: None,
    })
}

fn explained_share(explained: u64, total: u64) -> Option<f64> {
    (total > 0).then(|| explained as f64 / total as f64)
}

/// `10.11.19-MariaDB`, `15.4 (Debian 15.4-1)`, `9.7.4`, `18beta1`.
pub(crate) fn version_in(text: &str) -> Option<Version> {
    Version::find_in(text).or_else(|| {
        let digits = text.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok()
    })
}

fn page_tables_of(process: &crate::ProcessSeen) -> u64 {
    // kernels up to 4.14 count the middle level apart
    let part = |name: &str| process.status.get(name).map_or(0, |bytes| sane(*bytes));
    part("VmPTE") + part("VmPMD")
}

fn page_tables_bytes(inventory: &Inventory) -> u64 {
    inventory.processes.iter().map(page_tables_of).sum()
}

fn page_tables(inventory: &Inventory, rows: &[&'static Row]) -> Option<Claim> {
    let row = rows.iter().find(|row| matches!(row.rule, Rule::PageTables))?;
    Some(Claim {
        path: row.path.to_owned(),
        resident: page_tables_bytes(inventory),
        allocated: None,
        basis: row.rule.basis(),
        source: row.source.to_owned(),
        at_us: inventory.processes.first().map_or(0, |process| process.at_us),
    })
}

/// `of_each`: the leaves of each process's private memory.
fn processes(inventory: &Inventory, partition: &Partition, of_each: &[Vec<Claim>]) -> Vec<ProcessAccount> {
    let each = inventory.processes.iter().zip(&partition.pss).zip(leaves_of_each(partition, of_each));
    let one = |((process, pss), leaves): ((&crate::ProcessSeen, &u64), BTreeMap<&str, u64>)| {
        let is_estimated = crate::parts::Parts::read(process).is_none();
        let is_split = crate::parts::measured(process).is_some();
        let explained: u64 = leaves.values().sum();
        let leaf = |(path, resident_bytes): (&str, u64)| ProcessLeaf { path: path.to_owned(), resident_bytes };
        ProcessAccount {
            pid: process.pid,
            role: process.role.clone(),
            pss_bytes: *pss,
            page_tables_bytes: page_tables_of(process),
            is_estimated,
            estimated_from_us_before: process.earlier.as_ref().filter(|_| is_estimated).map(|it| it.age_us),
            unexplained_bytes: is_split.then(|| signed(*pss) - signed(explained)),
            leaves: if is_split { leaves.into_iter().map(leaf).collect() } else { Vec::new() },
        }
    };
    each.map(one).collect()
}

/// The bytes of each leaf, process by process. The pool, and a segment of shared memory, are not divided.
fn leaves_of_each<'a>(partition: &Partition, of_each: &'a [Vec<Claim>]) -> Vec<BTreeMap<&'a str, u64>> {
    let mut of_classes: Vec<BTreeMap<Class, u64>> = vec![BTreeMap::new(); of_each.len()];
    for piece in partition.pieces.iter().filter(|piece| !piece.class.is_private()) {
        *of_classes[piece.process].entry(piece.class).or_default() += piece.bytes;
    }
    let leaves_of = |(classes, claims): (BTreeMap<Class, u64>, &'a Vec<Claim>)| {
        let named = classes.into_iter().filter_map(|(class, bytes)| Some((leaf::of_class(class)?.path, bytes)));
        let claimed = claims.iter().filter(|claim| claim.resident > 0).map(|claim| (&*claim.path, claim.resident));
        let mut leaves: BTreeMap<&str, u64> = BTreeMap::new();
        named.chain(claimed).for_each(|(path, bytes)| *leaves.entry(path).or_default() += bytes);
        leaves
    };
    of_classes.into_iter().zip(of_each).map(leaves_of).collect()
}

/// All unexplained memory is private memory, except the difference between the kernel's own sums.
fn remainders(inventory: &Inventory, partition: &Partition, unexplained: i64) -> Vec<Unexplained> {
    let private = Unexplained {
        class: "private".into(),
        bytes: unexplained - partition.rounding,
        mappings: largest(inventory, partition),
    };
    let rounding = Unexplained { class: "rounding".into(), bytes: partition.rounding, mappings: Vec::new() };
    [private, rounding].into_iter().filter(|it| it.bytes != 0).collect()
}

fn largest(inventory: &Inventory, partition: &Partition) -> Vec<UnnamedMapping> {
    let mut pieces: Vec<_> =
        partition.pieces.iter().filter(|piece| matches!(piece.class, Class::Heap | Class::Anonymous)).collect();
    pieces.sort_by_key(|piece| (std::cmp::Reverse(piece.bytes), piece.process, piece.mapping));
    let unnamed = |piece: &&crate::pieces::Piece| {
        let process = &inventory.processes[piece.process];
        let mapping = process.mappings.as_ref()?.get(piece.mapping?)?;
        Some(UnnamedMapping {
            pid: process.pid,
            class: piece.class.name().to_owned(),
            range: format!("{:x}-{:x}", mapping.start, mapping.end),
            path: mapping.path.clone(),
            resident_bytes: piece.bytes,
        })
    };
    pieces.iter().filter_map(unnamed).take(NAMED).collect()
}

impl Leaf {
    pub(crate) fn of(claim: Claim) -> Self {
        Self {
            path: claim.path,
            resident_bytes: claim.resident,
            allocated_bytes: claim.allocated,
            basis: claim.basis,
            source: claim.source,
            at_us: claim.at_us,
        }
    }
}

#[cfg(test)]
#[path = "account_tests.rs"]
mod tests;
