// SPDX-License-Identifier: Apache-2.0
//! MariaDB's pool begins at an address that 8 MiB divides (`buf_pool_t::create`, MariaDB 10.11.19). Where the kernel gave it such an address at once, no gap is left below
//! it, and the log buffers, which are mapped next, become one mapping with it: in 1 of 4 starts both of them, in another of 4 one of them.

use super::mappings::fill;
use super::pagemap::{Way, resident};
use super::reading::Reading;
use super::target::Target;
use ledger::{Mapping, ProcessSeen, ServerSeen};

/// The sizes that the server has told, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Buffers {
    pool: u64,
    log: u64,
}

impl Buffers {
    fn told(server: &ServerSeen) -> Option<Self> {
        let size = |name: &str| server.variables.get(name)?.parse().ok();
        Some(Self { pool: size("innodb_buffer_pool_size")?, log: size("innodb_log_buffer_size")? })
    }

    /// The bytes of log buffers at the start of a mapping that ends with the pool.
    fn below_pool(self, mapped: u64) -> Option<u64> {
        let rest = mapped.checked_sub(self.pool)?;
        (self.log > 0 && (rest == self.log || rest == 2 * self.log)).then_some(rest)
    }
}

/// Makes two mappings of it. What cannot be read stays one.
pub(super) fn part(
    process: &mut ProcessSeen,
    server: Option<&ServerSeen>,
    known: &mut Option<Buffers>,
    reading: &mut Reading,
) {
    *known = server.and_then(Buffers::told).or(*known);
    let Some(buffers) = *known else { return };
    let found = process.mappings.as_deref().and_then(|mappings| merged(mappings, buffers));
    let Some((at, length)) = found else { return };
    let target = Target::open(process, reading);
    let Some((target, mappings)) = target.zip(process.mappings.as_mut()) else { return };
    if let Some(log) = log_part(&target, &mappings[at], length, reading) {
        cut(&mut mappings[at], &log);
        mappings.insert(at, log);
    }
}

/// Which mapping, and the length of its first part.
fn merged(mappings: &[Mapping], buffers: Buffers) -> Option<(usize, u64)> {
    let at = (0..mappings.len()).find(|at| ledger::is_pool_that_may_grow(mappings, *at))?;
    Some((at, buffers.below_pool(mappings[at].end - mappings[at].start)?))
}

fn log_part(target: &Target, whole: &Mapping, length: u64, reading: &mut Reading) -> Option<Mapping> {
    let mut log = Mapping { end: whole.start + length, holes: 0, ..whole.clone() };
    let way = Way { sparse: false, may_be_huge: true, sharers: 1 };
    let pages = resident(target.pagemap(), log.start, log.end, way, reading)?;
    fill(&mut log, pages, false);
    target.is_alive().then_some(log)
}

fn cut(whole: &mut Mapping, log: &Mapping) {
    whole.start = log.end;
    for (of_whole, of_log) in [
        (&mut whole.rss, log.rss),
        (&mut whole.pss, log.pss),
        (&mut whole.anonymous, log.anonymous),
        (&mut whole.swap, log.swap),
        (&mut whole.anon_huge_pages, log.anon_huge_pages),
    ] {
        *of_whole = of_whole.saturating_sub(of_log);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Options;
    use super::*;
    use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap};

    const MIB: u64 = 1 << 20;

    fn told(pool: u64, log: u64) -> ServerSeen {
        let size = |name: &str, bytes: u64| (name.to_owned(), bytes.to_string());
        let variables = [size("innodb_buffer_pool_size", pool), size("innodb_log_buffer_size", log)].into();
        ServerSeen { variables, ..ServerSeen::default() }
    }

    #[test]
    fn what_is_below_the_pool_are_one_or_two_log_buffers() {
        let buffers = Buffers::told(&told(128 * MIB, 16 * MIB)).unwrap();
        let below = |mib: u64| buffers.below_pool(mib * MIB).map(|bytes| bytes / MIB);
        assert_eq!([100, 128, 144, 152, 160, 176].map(below), [None, None, Some(16), None, Some(32), None]);
        assert_eq!(Buffers { log: 0, ..buffers }.below_pool(128 * MIB), None);
        assert_eq!(Buffers::told(&ServerSeen::default()), None);
    }

    /// As MariaDB 10.11.19 has it, in this process: 4 MiB of log buffers, of which 2 are written, a pool of 8 MiB, of which 1 is written, and 1 TiB in which the pool may grow.
    #[test]
    fn the_two_are_told_apart_also_while_the_server_is_silent() {
        let (length, whole) = (12 * MIB, (1 << 40) + 12 * MIB);
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let whole = usize::try_from(whole).unwrap();
        // SAFETY: a new mapping, which nothing else uses; it is written to within its length.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), whole, ProtFlags::empty(), flags) }.unwrap();
        let of = usize::try_from(length).unwrap();
        // SAFETY: within the mapping.
        unsafe { mprotect(start, of, MprotectFlags::READ | MprotectFlags::WRITE) }.unwrap();
        for advice in [Advice::LinuxDontDump, Advice::LinuxNoHugepage] {
            // SAFETY: as above.
            unsafe { madvise(start, of, advice) }.unwrap();
        }
        for at in (0..2 * MIB).chain(4 * MIB..5 * MIB).step_by(4096) {
            // SAFETY: as above.
            unsafe { *start.cast::<u8>().add(usize::try_from(at).unwrap()) = 1 };
        }
        let mut reading = Reading::begin(Options::default());
        let pid = std::process::id();
        let started_ticks = host::process::Identity::of(pid).unwrap().start_time;
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mappings = Some(ledger::mapping::mappings(&smaps));
        let read = || ProcessSeen { pid, started_ticks, mappings: mappings.clone(), ..ProcessSeen::default() };
        let from = start as u64;
        let parts = |process: &ProcessSeen| -> Vec<(u64, u64)> {
            let ours = |it: &&Mapping| it.start >= from && it.end <= from + length;
            let all = process.mappings.iter().flatten().filter(ours);
            all.map(|it| ((it.end - it.start) / MIB, it.rss / MIB)).collect()
        };
        let mut known = None;
        let mut process = read();
        part(&mut process, None, &mut known, &mut reading);
        assert_eq!(parts(&process), [(12, 3)], "the sizes are not known");
        part(&mut process, Some(&told(8 * MIB, 2 * MIB)), &mut known, &mut reading);
        assert_eq!(parts(&process), [(4, 2), (8, 1)]);
        let mut later = read();
        part(&mut later, None, &mut known, &mut reading);
        assert_eq!(parts(&later), [(4, 2), (8, 1)], "it does not answer");
        part(&mut later, Some(&told(8 * MIB, 2 * MIB)), &mut known, &mut reading);
        assert_eq!(parts(&later).len(), 2, "nothing is left to be parted");
        // SAFETY: the mapping is ours, and is not used any more.
        unsafe { munmap(start, whole) }.unwrap();
    }
}
