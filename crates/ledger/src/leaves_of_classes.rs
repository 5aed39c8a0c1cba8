// SPDX-License-Identifier: Apache-2.0
//! From the partition to leaves: classes that are leaves by themselves, and classes that the server's figures split.

use crate::claim::Claim;
use crate::class::{self, Class};
use crate::entries::{Basis, Leaf};
use crate::figures::Figures;
use crate::leaf;
use crate::pieces::Partition;
use crate::row::{Row, Rule};
use crate::share::sane;
use crate::{Inventory, Mapping, SegmentSeen, allocations, private, unread_processes};
use std::collections::BTreeMap;

/// All leaves but page tables and huge pages.
pub(crate) struct Claims {
    /// Those of shared memory, and of processes that were not read.
    pub(crate) claims: Vec<Claim>,
    /// Those of each process's private memory.
    pub(crate) of_each: Vec<Vec<Claim>>,
    /// By how much the server's meters count more than is resident.
    pub(crate) overcounted: u64,
}

pub(crate) fn claims(inventory: &Inventory, partition: &Partition, rows: &[&'static Row]) -> Claims {
    let figures = Figures::of(inventory);
    let mut claims = named_by_kernel(inventory, partition);
    claims.extend(pool(partition.of_class(Class::BufferPool), partition, inventory, &figures));
    claims.extend(shared(
        partition.of_class(Class::MainShared),
        &figures,
        rows,
        inventory.segment.as_ref(),
        at_us(inventory, Class::MainShared, partition),
    ));
    let processes = 0..inventory.processes.len();
    let splits = processes.map(|process| private::split(inventory, partition, process, rows));
    let (of_each, overcounted): (Vec<Vec<Claim>>, Vec<u64>) = splits.map(|it| (it.leaves, it.overcounted)).unzip();
    claims.extend(unread_processes::leaves(inventory, partition, &of_each));
    Claims { claims, of_each, overcounted: overcounted.into_iter().fold(0, u64::saturating_add) }
}

/// Leaves with equal paths become one leaf. Its basis is the basis of its largest part.
pub(crate) fn merged(claims: Vec<Claim>) -> Vec<Leaf> {
    let mut leaves: BTreeMap<String, (Leaf, u64)> = BTreeMap::new();
    for claim in claims {
        let largest = claim.resident;
        match leaves.get_mut(&claim.path) {
            Some((leaf, most)) => add(leaf, most, claim),
            None => drop(leaves.insert(claim.path.clone(), (Leaf::of(claim), largest))),
        }
    }
    leaves
        .into_values()
        .map(|(leaf, _)| leaf)
        .filter(|leaf| leaf.resident_bytes > 0 || leaf.allocated_bytes > Some(0))
        .collect()
}

fn add(leaf: &mut Leaf, most: &mut u64, claim: Claim) {
    let mixed = leaf.allocated_bytes.is_some() || claim.allocated.is_some();
    // a part without a meter is allocated as far as it is resident
    let allocated = leaf.allocated_bytes.unwrap_or(leaf.resident_bytes) + claim.allocated.unwrap_or(claim.resident);
    leaf.allocated_bytes = mixed.then_some(allocated);
    leaf.resident_bytes += claim.resident;
    if claim.resident > *most {
        *most = claim.resident;
        (leaf.basis, leaf.source, leaf.at_us) = (claim.basis, claim.source, claim.at_us);
    }
}

fn named_by_kernel(inventory: &Inventory, partition: &Partition) -> Vec<Claim> {
    let split = [Class::BufferPool, Class::MainShared, Class::HugePages];
    let mut sums: BTreeMap<Class, u64> = BTreeMap::new();
    for piece in partition.pieces.iter().filter(|piece| !piece.class.is_private() && !split.contains(&piece.class)) {
        *sums.entry(piece.class).or_default() += piece.bytes;
    }
    let named = sums.into_iter().filter_map(|(class, bytes)| {
        let row = leaf::of_class(class)?;
        Some(of_row(row, bytes, None, at_us(inventory, class, partition)))
    });
    let mut named: Vec<Claim> = named.collect();
    let figures = Figures::of(inventory);
    for claim in &mut named {
        claim.allocated = configured(&claim.path, &figures);
    }
    named
}

/// The size to which a cache with a mapping of its own may grow.
fn configured(path: &str, figures: &Figures<'_>) -> Option<u64> {
    match path {
        "log/redo_buffer" => figures.size("innodb_log_buffer_size").map(|size| 2 * size),
        "data_cache/key_cache" => figures.size("key_buffer_size"),
        "data_cache/aria_cache" => figures.size("aria_pagecache_buffer_size"),
        "data_cache/key_and_aria_cache" => {
            Some(figures.size("key_buffer_size")? + figures.size("aria_pagecache_buffer_size")?)
        }
        _ => None,
    }
}

fn of_row(row: &Row, resident: u64, allocated: Option<u64>, at_us: u64) -> Claim {
    Claim {
        path: row.path.to_owned(),
        resident,
        allocated,
        basis: row.rule.basis(),
        source: row.source.to_owned(),
        at_us,
    }
}

/// When the first process that has the class was read.
fn at_us(inventory: &Inventory, class: Class, partition: &Partition) -> u64 {
    let first = partition.pieces.iter().find(|piece| piece.class == class).map_or(0, |piece| piece.process);
    inventory.processes.get(first).map_or(0, |process| process.at_us)
}

/// The mapping of the pool holds pages and their descriptors.
fn pool(resident: u64, partition: &Partition, inventory: &Inventory, figures: &Figures<'_>) -> Vec<Claim> {
    if resident == 0 {
        return Vec::new();
    }
    let at = at_us(inventory, Class::BufferPool, partition);
    let mapped = partition.pool_mapped.unwrap_or_else(|| mapped(inventory, partition, Class::BufferPool));
    split_pool(resident, mapped, figures, at)
}

/// The descriptors are the part of a mapping beyond its pages. MySQL writes them all at start. In MariaDB, pages and descriptors become resident together,
/// so that pages with data count first.
pub(crate) fn split_pool(resident: u64, mapped: u64, figures: &Figures<'_>, at_us: u64) -> Vec<Claim> {
    let pages = figures.pool_pages().map(|pages| pages.saturating_mul(figures.page_size()));
    let allocated = mapped.saturating_sub(pages.unwrap_or(mapped).min(mapped));
    let data = figures.pool_data().unwrap_or(0);
    let overhead = allocated.min(resident.saturating_sub(data));
    let source = "/proc/PID/smaps, the mapping of the pool";
    let claim = |path: &str, resident, allocated, source: &str| Claim {
        path: path.to_owned(),
        resident,
        allocated,
        basis: Basis::Kernel,
        source: source.to_owned(),
        at_us,
    };
    let beyond = "/proc/PID/smaps, the mapping of the pool without its Innodb_buffer_pool_pages_total";
    let configured = figures.pool_size().map(|size| size.max(resident - overhead));
    let mut claims = vec![claim("data_cache/buffer_pool", resident - overhead, configured, source)];
    if allocated > 0 {
        claims.push(claim("data_cache/buffer_pool_overhead", overhead, Some(allocated), beyond));
    }
    claims
}

fn mapped(inventory: &Inventory, partition: &Partition, class: Class) -> u64 {
    let processes = inventory.processes.iter().zip(&partition.classes);
    let mappings = processes.flat_map(|(process, classes)| process.mappings.iter().flatten().zip(classes));
    let of_class = mappings.filter(|(_, it)| **it == class);
    of_class.map(|(mapping, _): (&Mapping, _)| sane(class::length(mapping))).fold(0, u64::saturating_add)
}

/// Leaves by allocation. Memory that the server's rows do not name has the kernel as its basis: it is shared memory in any case.
pub(crate) fn shared(
    resident: u64,
    figures: &Figures<'_>,
    rows: &[&'static Row],
    segment: Option<&SegmentSeen>,
    at_us: u64,
) -> Vec<Claim> {
    if resident == 0 {
        return Vec::new();
    }
    let has_rows = rows.iter().any(|row| matches!(row.rule, Rule::Allocations));
    let mut claims = if has_rows { allocations::claims(resident, figures, segment) } else { Vec::new() };
    private::cap(&mut claims, resident);
    let named: u64 = claims.iter().map(|claim| claim.resident).sum();
    if let Some(row) = leaf::of_class(Class::MainShared).filter(|_| named < resident) {
        claims.push(of_row(row, resident - named, None, at_us));
    }
    claims
}
