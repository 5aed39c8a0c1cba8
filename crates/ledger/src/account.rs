// SPDX-License-Identifier: Apache-2.0
//! The account: leaves and what is unexplained, which sum to the kernel's total exactly.

use crate::figures::Figures;
use crate::leaf::{Row, Rule};
use crate::pieces::{Partition, partition};
use crate::settle::{self, Claim};
use crate::share::{sane, signed};
use crate::{Class, Estimates, Inventory, Missing, Probe, beside, huge, rows_for};
use capability::Version;
use serde::{Deserialize, Serialize};

/// So many of the largest mappings that hold what is unexplained are named.
const NAMED: usize = 8;

/// Where a server's memory is. In bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    pub schema: u32,
    /// When reading began, in microseconds since 1970, UTC.
    pub at_unix_us: u64,
    /// Pss of all processes, their page tables, and huge pages once.
    pub kernel_total_bytes: u64,
    /// What the leaves are of the total: 0 to 1. `None`: nothing is resident.
    pub explained_share: Option<f64>,
    /// Total less leaves. Below zero where the kernel's figures moved while they were read.
    pub unexplained_bytes: i64,
    /// How far the total may be off: sampled processes, readings at different times.
    pub uncertainty_bytes: u64,
    /// In order of their paths.
    pub leaves: Vec<Leaf>,
    pub unexplained: Vec<Unexplained>,
    pub processes: Vec<ProcessAccount>,
    /// What the server causes outside of the sum.
    pub beside: Vec<Beside>,
    pub probes: Vec<Probe>,
    pub missing: Vec<Missing>,
    pub estimates: Estimates,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Leaf {
    /// `data_cache/buffer_pool`.
    pub path: String,
    pub resident_bytes: u64,
    /// By its meter; `None`: no meter says it.
    pub allocated_bytes: Option<u64>,
    pub basis: Basis,
    pub source: String,
    /// When it was read, in microseconds after [`Account::at_unix_us`].
    pub at_us: u64,
}

/// Who says that the memory is there and what for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    #[default]
    Kernel,
    Server,
    Allocator,
    /// Of the server's source, from its own variables.
    Formula,
}

/// What no source names, of one class of memory: `private` (malloc's heaps and anonymous mappings), or `rounding` (between the kernel's own
/// sum of a process and the sum of its mappings).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unexplained {
    pub class: String,
    pub bytes: i64,
    /// The largest mappings among which it lies, largest first.
    pub mappings: Vec<UnnamedMapping>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnnamedMapping {
    pub pid: u32,
    /// `heap` or `anonymous`.
    pub class: String,
    /// As in /proc/PID/maps.
    pub range: String,
    pub path: String,
    /// Of all that is in it, explained or not.
    pub resident_bytes: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessAccount {
    pub pid: u32,
    pub role: String,
    pub pss_bytes: u64,
    pub page_tables_bytes: u64,
    /// Whether the kernel said it, or it was estimated from like processes.
    pub is_estimated: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// `kernel_stacks`, `page_cache`, ...
    pub name: String,
    pub bytes: u64,
    pub source: String,
}

/// Makes the account of an inventory, whole or with parts missing.
pub fn account(inventory: &Inventory) -> Account {
    let figures = Figures::of(inventory);
    let version = inventory.version.as_deref().and_then(version_in);
    let rows: Vec<&'static Row> = rows_for(inventory.flavour, version.as_ref()).collect();
    let partition = partition(inventory, &figures);
    let segments = huge::segments(inventory);
    let mut claims = settle::claims(inventory, &partition, &rows);
    claims.extend(huge::claims(&segments, &figures, &rows));
    claims.extend(page_tables(inventory, &rows));
    let in_huge_pages: u64 = segments.iter().map(|segment| segment.resident).sum();
    let huge_apart: u64 = segments.iter().map(|segment| segment.apart).sum();
    let total = partition.pss.iter().sum::<u64>() + page_tables_bytes(inventory) + in_huge_pages;
    let uncertainty = partition.estimates.uncertainty_bytes + partition.apart + huge_apart;
    let leaves = settle::merged(claims);
    finish(inventory, partition, leaves, total, uncertainty)
}

fn finish(inventory: &Inventory, partition: Partition, leaves: Vec<Leaf>, total: u64, uncertainty: u64) -> Account {
    let explained: u64 = leaves.iter().map(|leaf| leaf.resident_bytes).sum();
    let unexplained = signed(total) - signed(explained);
    Account {
        schema: 1,
        at_unix_us: inventory.at_unix_us,
        kernel_total_bytes: total,
        explained_share: (total > 0).then(|| (explained as f64 / total as f64).min(1.0)),
        unexplained_bytes: unexplained,
        uncertainty_bytes: uncertainty,
        leaves,
        unexplained: remainders(inventory, &partition, unexplained),
        processes: processes(inventory, &partition),
        beside: beside::of(inventory),
        probes: inventory.probes.clone(),
        missing: inventory.missing.clone(),
        estimates: partition.estimates,
    }
}

/// `10.11.19-MariaDB`, `15.4 (Debian 15.4-1)`, `9.7.4`, `18beta1`.
fn version_in(text: &str) -> Option<Version> {
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

fn processes(inventory: &Inventory, partition: &Partition) -> Vec<ProcessAccount> {
    let each = inventory.processes.iter().zip(&partition.pss);
    let one = |(process, pss): (&crate::ProcessSeen, &u64)| ProcessAccount {
        pid: process.pid,
        role: process.role.clone(),
        pss_bytes: *pss,
        page_tables_bytes: page_tables_of(process),
        is_estimated: crate::pieces::measured(process).is_none()
            && crate::estimate::Parts::of_rollup(process).is_none(),
    };
    each.map(one).collect()
}

/// All that is unexplained is in private memory, but for what the kernel's own sums differ by.
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
