// SPDX-License-Identifier: Apache-2.0
//! Cells that may stand in one chart: those with the same CPUs and the same setting of transparent huge pages.

use allocators::{Cell, Load};
use evidence::Footprint;

/// Cells that were measured as asked and came to their end.
pub(super) struct Group<'a> {
    thp: Option<&'a str>,
    cpus: Option<&'a str>,
    cells: Vec<&'a Cell>,
}

/// The groups, in the order of their first cells.
pub(super) fn groups(cells: &[Cell]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for cell in cells.iter().filter(|cell| cell.counts()) {
        let (thp, cpus) = (cell.thp.as_deref(), cell.cpus.as_deref());
        match groups.iter_mut().find(|group| group.thp == thp && group.cpus == cpus) {
            Some(group) => group.cells.push(cell),
            None => groups.push(Group { thp, cpus, cells: vec![cell] }),
        }
    }
    groups.sort_by_key(|group| (group.cpus, group.thp));
    groups
}

/// All mallocs that a cell asked for, by name: a malloc has the same colour whatever order the cells were run in.
pub(super) fn mallocs(cells: &[Cell]) -> Vec<&str> {
    let mut names: Vec<&str> = cells.iter().map(|cell| cell.malloc.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

impl<'a> Group<'a> {
    /// The settings that this group's cells share, for a title; empty when nothing was asked for.
    pub(super) fn suffix(&self) -> String {
        let thp = self.thp.map(|thp| format!(", transparent huge pages {thp}"));
        let cpus = self.cpus.map(|cpus| format!(", CPUs {cpus}"));
        [thp, cpus].into_iter().flatten().collect()
    }

    pub(super) fn workloads(&self) -> Vec<&'a str> {
        let mut found: Vec<&str> = Vec::new();
        for load in self.cells.iter().flat_map(|cell| &cell.loads) {
            if !found.contains(&load.workload.as_str()) {
                found.push(&load.workload);
            }
        }
        found
    }

    /// The loads of a workload, of all cells.
    pub(super) fn of_workload(&self, workload: &str) -> impl Iterator<Item = &'a Load> {
        self.cells.iter().flat_map(|cell| &cell.loads).filter(move |load| load.workload == workload)
    }

    /// The numbers of threads that a workload was run with, from the lowest to the highest.
    pub(super) fn ladder(&self, workload: &str) -> Vec<u32> {
        let mut threads: Vec<u32> = self.of_workload(workload).map(|load| load.threads).collect();
        threads.sort_unstable();
        threads.dedup();
        threads
    }

    pub(super) fn loads(&self, malloc: &str, workload: &str, threads: Option<u32>) -> impl Iterator<Item = &'a Load> {
        let own = self.cells.iter().filter(move |cell| cell.malloc == malloc);
        own.flat_map(|cell| &cell.loads).filter(move |it| it.workload == workload && Some(it.threads) == threads)
    }

    /// Arm and mark, in the order of the cycle.
    pub(super) fn marks(&self) -> Vec<(String, String)> {
        let longest = self.cells.iter().max_by_key(|cell| cell.footprint.len());
        let marks = longest.into_iter().flat_map(|cell| &cell.footprint);
        marks.map(|it| (it.arm.clone(), it.footprint.mark.clone())).collect()
    }

    pub(super) fn footprints(
        &self,
        malloc: &str,
        (arm, mark): &(String, String),
    ) -> impl Iterator<Item = &'a Footprint> {
        let own = self.cells.iter().filter(move |cell| cell.malloc == malloc);
        let marked =
            own.flat_map(|cell| &cell.footprint).filter(move |it| it.arm == *arm && it.footprint.mark == *mark);
        marked.map(|it| &it.footprint)
    }
}
