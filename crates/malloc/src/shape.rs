// SPDX-License-Identifier: Apache-2.0
//! The shape of a process's heap: a second witness of who serves malloc, which does not use the linker's order.
//!
//! Only glibc makes arenas in heaps that begin at multiples of 64 MiB with a header (malloc/arena.c, `heap_info`). jemalloc and mimalloc leave
//! `[heap]`, the memory of brk(2), alone; glibc's first arena and gperftools' tcmalloc live in it.

use crate::process::Process;
use crate::serving::Serving;
use capability::MallocKind;

/// malloc/arena.c, `HEAP_MAX_SIZE`, on machines of 64 bit.
const HEAP_MAX: u64 = 64 << 20;
/// The header is 32 to 48 bytes long, and the arena's structure begins behind it.
const HEADER_MOST: u64 = 128;
/// The most that `[heap]` holds in a server whose malloc does not use it: memory that the linker and glibc asked for before.
const BRK_IDLE_MOST: u64 = 16 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// glibc's arenas of threads.
    pub arenas: usize,
    /// The length of `[heap]`.
    pub brk_bytes: u64,
}

/// `None`: this user may not read the process's memory.
pub fn shape(pid: u32) -> Option<Shape> {
    let process = Process::open(pid, true).filter(Process::has_memory)?;
    let brk_bytes = process.mappings.iter().filter(|it| it.path == "[heap]").map(|it| it.end - it.start).sum();
    let anonymous = process.mappings.iter().filter(|it| it.inode == 0 && it.permissions.starts_with("rw"));
    // each heap is a mapping, or two that the kernel has merged
    let starts = anonymous.flat_map(|it| {
        let first = it.start.next_multiple_of(HEAP_MAX);
        (0..MOST_IN_A_MAPPING).map(move |index| first + index * HEAP_MAX).take_while(move |at| *at < it.end)
    });
    Some(Shape { arenas: starts.filter(|at| is_first_heap(&process, *at)).count(), brk_bytes })
}

/// No more heaps are looked for in one mapping: a buffer pool of many gigabytes is one mapping too, and would take long.
const MOST_IN_A_MAPPING: u64 = 64;

/// Whether an arena's first heap begins here: the arena lies behind the heap's header, no heap is before this one, and it is not longer than a heap can be.
fn is_first_heap(process: &Process, at: u64) -> bool {
    let word = |index: u64| process.word(at + index * 8);
    let (Some(arena), Some(previous), Some(size)) = (word(0), word(1), word(2)) else { return false };
    previous == 0
        && (at + 1..at + HEADER_MOST).contains(&arena)
        && (4096..=HEAP_MAX).contains(&size)
        && size.is_multiple_of(4096)
}

impl Shape {
    /// Why the heap does not look like that of the malloc that is said to serve. `None`: it does, or nothing can be said.
    pub fn doubt(&self, serving: &Serving) -> Option<String> {
        let kind = serving.kind?;
        if kind != MallocKind::Glibc && self.arenas > 0 {
            return Some(format!("{} arenas of glibc are there", self.arenas));
        }
        let leaves_brk = matches!(kind, MallocKind::Jemalloc | MallocKind::Mimalloc);
        (leaves_brk && self.brk_bytes > BRK_IDLE_MOST)
            .then(|| format!("{} MiB are in [heap], which {} does not use", self.brk_bytes >> 20, kind.name()))
    }
}

#[cfg(test)]
#[cfg(target_env = "gnu")]
mod tests {
    use super::*;
    use crate::serving::serving;

    #[test]
    fn arenas_of_threads_are_seen_and_fit_glibc_alone() {
        let (begin, end) = (std::sync::mpsc::channel::<()>(), std::sync::mpsc::channel::<()>());
        let thread = std::thread::spawn(move || {
            let held = vec![1_u8; 100_000];
            begin.0.send(()).unwrap();
            let _ = end.1.recv();
            held.len()
        });
        begin.1.recv().unwrap();
        let (seen, own) = (shape(std::process::id()).unwrap(), serving(std::process::id()));
        end.0.send(()).unwrap();
        thread.join().unwrap();
        assert!(seen.arenas >= 1, "{seen:?}");
        assert_eq!(seen.doubt(&own), None);
        let other = Serving { kind: Some(MallocKind::Jemalloc), ..own };
        assert!(seen.doubt(&other).is_some_and(|why| why.contains("arenas")), "{seen:?}");
    }
}
