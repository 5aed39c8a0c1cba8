// SPDX-License-Identifier: Apache-2.0
//! The server's memory at marks of an arm: before and after its load, and at the end of the rest after it. Where an arm of the file names a
//! malloc, a library is loaded into the server of every arm alike, and is asked at these marks how many bytes the server has asked its malloc for.
//! The heaps of PostgreSQL's processes are counted from outside.

use crate::cell::Cell;
use crate::error::Error;
use crate::lab::Lab;
use capability::{Flavour, MallocKind};
use evidence::{FOOTPRINT, Footprint, Format, SampleSink as _, Snapshot};
use host::meminfo;
use host::places::Places;
use observe::memory::{self, Options};
use sandbox::Preload;
use std::fs;
use std::time::Duration;

/// How long to wait for the server's answer: the malloc takes each of its locks for it, and a busy server may hold them.
const PATIENCE: Duration = Duration::from_secs(10);

/// The settings with which a server is started so that it answers.
pub(crate) struct Asking {
    pub(crate) preload: Preload,
    pub(crate) map: asked::Map,
}

/// `None`: no arm names a malloc, or the server has several processes, each with a heap of its own.
pub(crate) fn asking(cell: &Cell, flavour: Flavour, places: &Places) -> Result<Option<Asking>, Error> {
    if !is_wanted(cell) || flavour == Flavour::Postgresql {
        return Ok(None);
    }
    let made = asked::install(&places.cache.join("asked")).and_then(|library| Ok((library, asked::Map::create()?)));
    let (library, map) = made.map_err(|source| Error::Asked { source })?;
    let preload = Preload { environment: asked::environment(&library, &map), inherit: vec![map.descriptor()] };
    Ok(Some(Asking { preload, map }))
}

fn is_wanted(cell: &Cell) -> bool {
    cell.phases.iter().any(|phase| phase.start.malloc.is_some())
}

impl Lab<'_> {
    /// Recorded as a snapshot with the mark as its entity.
    pub(crate) fn footprint(&self, arm: &str, mark: &str) -> Result<(), Error> {
        let Some(serving) = self.serving.as_ref().filter(|_| is_wanted(self.cell)) else { return Ok(()) };
        let (pid, flavour, map) = (serving.running.pid, serving.kind.flavour, serving.asked.as_ref());
        let pids = processes(pid, flavour);
        let mut seen = of_processes(&pids, true);
        mark.clone_into(&mut seen.mark);
        let heap = heap(pid);
        let heap = || heap.as_ref().map_err(Clone::clone);
        let told = heap().and_then(|heap| match flavour {
            Flavour::Postgresql => held(heap, &pids),
            _ => asked(heap, map),
        });
        match told {
            Ok((bytes, by)) => (seen.asked_bytes, seen.asked_by) = (Some(bytes), by),
            Err(why) => seen.asked_by = why,
        }
        let counted = heap().and_then(|heap| match flavour {
            Flavour::Postgresql => Err("each process of PostgreSQL has a heap of its own".into()),
            _ => arenas(pid, heap, map),
        });
        match counted {
            Ok((count, by)) => (seen.arenas, seen.arenas_by) = (Some(count), by),
            Err(why) => seen.arenas_by = why,
        }
        let content = serde_json::json!(seen).to_string();
        let (source, entity, at_us) = (FOOTPRINT.to_owned(), mark.to_owned(), self.notes.clock.now_us());
        let snapshot = Snapshot { at_us, arm: Some(arm.to_owned()), source, entity, format: Format::Json, content };
        self.sinks().snapshot(&snapshot).map_err(|source| Error::Sink { source })
    }
}

/// The malloc that serves in the server, and its name; else the reason why there is no figure of it. It also serves in the server's forks.
fn heap(pid: u32) -> Result<(MallocKind, String), String> {
    let serving = malloc::serving(pid);
    let kind = serving.kind.ok_or_else(|| format!("{}: nobody knows how to ask it", serving.name))?;
    Ok((kind, serving.name))
}

const NO_LIBRARY: &str = "the library that asks is not in the server";

/// The number of arenas and how they were counted; else the reason why there is none.
fn arenas(pid: u32, (kind, name): &(MallocKind, String), map: Option<&asked::Map>) -> Result<(u64, String), String> {
    match *kind {
        MallocKind::Glibc => {
            let count = memory::arenas_of_glibc(pid, name)?;
            Ok((count as u64, format!("{name}, their heaps, counted from outside")))
        }
        MallocKind::Jemalloc => {
            let map = map.ok_or(NO_LIBRARY)?;
            let count = map.arenas(*kind, PATIENCE).map_err(|silence| silence.to_string())?;
            Ok((count, format!("{name}, mallctl: arena.<i>.initialized")))
        }
        MallocKind::Tcmalloc => Err("tcmalloc has no arenas: each thread has a cache before one heap".into()),
        MallocKind::Mimalloc => Err("mimalloc has no arenas of this kind: each thread has a heap".into()),
    }
}

/// The figure and the malloc that told it; else the reason why there is none.
fn asked((kind, name): &(MallocKind, String), map: Option<&asked::Map>) -> Result<(u64, String), String> {
    let map = map.ok_or(NO_LIBRARY)?;
    let function = match kind {
        MallocKind::Glibc => "mallinfo2: blocks of all arenas and in mappings of their own, with their headers",
        MallocKind::Jemalloc => "mallctl: stats.allocated, without the threads' caches",
        MallocKind::Tcmalloc => "MallocExtension: generic.current_allocated_bytes",
        MallocKind::Mimalloc => "",
    };
    let bytes = map.ask(*kind, PATIENCE).map_err(|silence| silence.to_string())?;
    Ok((bytes, format!("{name}, {function}")))
}

/// What several processes hold of glibc's malloc, and how it was counted; else the reason why there is no figure. The first process is the one of which
/// the others are forks.
fn held((kind, name): &(MallocKind, String), pids: &[u32]) -> Result<(u64, String), String> {
    if *kind != MallocKind::Glibc {
        return Err(format!(
            "each process has a heap of its own, and only glibc's can be counted from outside: {name} serves"
        ));
    }
    let mut each = Vec::new();
    for pid in pids {
        match memory::held_of_glibc(*pid, name) {
            Ok(bytes) => each.push(bytes),
            // as in the other figures, a process that ends meanwhile is none
            Err(_) if has_ended(*pid) => {}
            Err(why) => return Err(format!("the heap of process {pid} cannot be counted from outside: {why}")),
        }
    }
    let bytes = together(&each);
    Ok((
        bytes,
        format!(
            "{name}, the heaps of {} processes, counted from outside; a fork counts what it holds beyond its parent",
            each.len()
        ),
    ))
}

/// A fork begins with a copy of what its parent holds. These pages are shared until one of the two writes to them: they count once.
fn together(each: &[u64]) -> u64 {
    let Some((first, forks)) = each.split_first() else { return 0 };
    first + forks.iter().map(|fork| fork.saturating_sub(*first)).sum::<u64>()
}

fn has_ended(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    meminfo::bytes(&status, "VmRSS").is_none()
}

/// The server's processes now; its first one is the first of them.
pub(crate) fn processes(first: u32, flavour: Flavour) -> Vec<u32> {
    let lightly = Options { lightly: true, ..Options::default() };
    let inventory = memory::inventory(Some(first), Some(flavour), None, &lightly);
    inventory.processes.iter().map(|process| process.pid).collect()
}

/// `with_pss`: the kernel goes through all pages for it, and holds up the process meanwhile. Several processes have no size without it.
pub(crate) fn of_processes(pids: &[u32], with_pss: bool) -> Footprint {
    let read = |pid: &u32, file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let texts: Vec<(String, String)> = pids
        .iter()
        .map(|pid| {
            let rollup = if with_pss { read(pid, "smaps_rollup") } else { String::new() };
            // read last: where the process has ended, this text says so
            (read(pid, "status"), rollup)
        })
        .collect();
    of_texts(&texts)
}

/// `texts`: of each process its `status` and its `smaps_rollup`. A process that has ended, or is about to, has no memory, and is not counted.
fn of_texts(texts: &[(String, String)]) -> Footprint {
    let has_memory = |(status, _): &&(String, String)| meminfo::bytes(status, "VmRSS").is_some();
    let (statuses, rollups): (Vec<&String>, Vec<&String>) =
        texts.iter().filter(has_memory).map(|(status, rollup)| (status, rollup)).unzip();
    let sum = |texts: &[&String], name: &str| {
        let values: Option<Vec<u64>> = texts.iter().map(|text| meminfo::bytes(text, name)).collect();
        values.filter(|values| !values.is_empty()).map(|values| values.iter().sum())
    };
    let pss: Option<u64> = sum(&rollups, "Pss");
    Footprint {
        mark: String::new(),
        processes: u32::try_from(statuses.len()).unwrap_or(u32::MAX),
        rss_bytes: if statuses.len() == 1 { sum(&statuses, "VmRSS") } else { pss },
        peak_rss_bytes: sum(&statuses, "VmHWM").filter(|_| statuses.len() == 1),
        pss_bytes: pss,
        vsz_bytes: statuses.iter().filter_map(|status| meminfo::bytes(status, "VmSize")).max(),
        page_tables_bytes: sum(&statuses, "VmPTE"),
        anon_huge_bytes: sum(&rollups, "AnonHugePages").filter(|_| pss.is_some()),
        huge_pool_bytes: statuses.iter().filter_map(|status| meminfo::bytes(status, "HugetlbPages")).max(),
        asked_bytes: None,
        asked_by: String::new(),
        arenas: None,
        arenas_by: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_fork_has_of_its_parent_counts_once() {
        assert_eq!(together(&[]), 0);
        assert_eq!(together(&[700, 1700, 900]), 700 + 1000 + 200);
        assert_eq!(together(&[700, 600, 1700]), 1700, "one that gave back some of its copy");
    }

    #[test]
    fn other_mallocs_are_not_counted_from_outside() {
        let why = held(&(MallocKind::Jemalloc, "jemalloc".into()), &[1]).unwrap_err();
        assert!(why.contains("only glibc's can be counted from outside: jemalloc serves"), "{why}");
    }

    #[test]
    fn shared_memory_counts_once_and_nothing_is_made_up() {
        let status = |rss: u64| {
            format!("VmSize:\t  900 kB\nVmHWM:\t  70 kB\nVmRSS:\t  {rss} kB\nVmPTE:\t  4 kB\nHugetlbPages:\t  0 kB\n")
        };
        let rollup = |pss: u64| format!("Rss:   50 kB\nPss:   {pss} kB\nAnonHugePages:   2 kB\n");
        let one = of_texts(&[(status(50), rollup(40))]);
        assert_eq!(
            (one.rss_bytes, one.pss_bytes, one.anon_huge_bytes),
            (Some(50 << 10), Some(40 << 10), Some(2 << 10))
        );
        assert_eq!(one.peak_rss_bytes, Some(70 << 10));
        let both = [(status(50), rollup(40)), (status(50), rollup(10))];
        let two = of_texts(&both);
        assert_eq!((two.rss_bytes, two.page_tables_bytes, two.processes), (Some(50 << 10), Some(8 << 10), 2));
        assert_eq!(two.peak_rss_bytes, None, "of two processes at two times");
        assert_eq!((two.vsz_bytes, two.huge_pool_bytes), (Some(900 << 10), Some(0)));
        let light = of_texts(&[(status(50), String::new())]);
        assert_eq!((light.rss_bytes, light.pss_bytes), (Some(50 << 10), None));
        let ending = ("State:\tZ (zombie)\n".to_owned(), String::new());
        assert_eq!(of_texts(&[both[0].clone(), ending, both[1].clone()]), two, "a process that ends meanwhile");
        let refused = of_texts(&[(status(50), rollup(40)), (status(50), String::new())]);
        assert_eq!((refused.rss_bytes, refused.anon_huge_bytes), (None, None), "no sum over some of them");
        assert_eq!(of_texts(&[]).vsz_bytes, None);
    }
}
