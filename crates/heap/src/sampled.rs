// SPDX-License-Identifier: Apache-2.0
//! The text of gperftools and of jemalloc: counts with addresses, then `MAPPED_LIBRARIES:`.
//!
//! gperftools 2.10 (src/heap-profile-table.cc, src/malloc_hook; the header of sampled ones: src/tcmalloc.cc):
//!
//! ```text
//! heap profile:     12:   655420 [    12:   655420] @ heapprofile       count: bytes in use [allocated ever]; `heap_v2/524288`: sampled
//!      1:    65536 [     1:    65536] @ 0x55e4d6fdb1d8 0x55e4d6fdb224   the innermost address first
//!
//! MAPPED_LIBRARIES:
//! ```
//!
//! jemalloc 5.3 (src/prof_data.c), sampled once in so many bytes on the average:
//!
//! ```text
//! heap_v2/524288
//!   t*: 11: 737280 [0: 0]                                             all threads together
//!   t0: 11: 737280 [0: 0]
//! @ 0x55775c4dd1d8 0x55775c4dd211
//!   t*: 1: 65536 [0: 0]
//! ```

use crate::addresses::{Mapping, Moment, Symbols};
use crate::budget::Budget;
use crate::damage::{Damage, Error};
use crate::estimate::Estimate;
use crate::format::Format;
use crate::lines::Lines;
use crate::outline::Outline;
use crate::paths::MOST_CALLERS;
use crate::snapshot::{Kind, Snapshot};
use crate::tree::Tree;
use std::io::Read;

/// # Errors
/// [`Error::Damage`]: the first line belongs to neither of the two formats.
pub(crate) fn outline(input: impl Read, format: Format) -> Result<Outline, Error> {
    let file = File::read(input, format)?;
    let mut outline = Outline::of(format);
    outline.sampled_every_bytes = file.sampling.every_bytes();
    outline.snapshots.push(Snapshot::with_tree(0, 0, file.moment.bytes(), Kind::Detailed));
    outline.damage = file.damage;
    Ok(outline)
}

/// # Errors
/// As [`outline`].
pub(crate) fn tree(input: impl Read, outline: &Outline, symbols: &mut dyn Symbols) -> Result<Option<Tree>, Error> {
    let mut file = File::read(input, outline.format)?;
    Ok(outline.snapshots.first().map(|it| file.moment.tree(*it, symbols)))
}

struct File {
    sampling: Sampling,
    moment: Moment,
    damage: Option<Damage>,
}

/// How the profiler chose the allocations that it looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sampling {
    All,
    /// Each allocated byte was chosen with the probability of one in so many.
    Bytes(u64),
    /// As versions before 2.0 wrote it: one allocation in so many bytes was chosen, and its size is not taken into account.
    Evenly(u64),
}

impl Sampling {
    /// `heapprofile`, `heap`, `heap/524288`, `heap_v2/524288`.
    fn of(word: &str) -> Option<Self> {
        let (kind, every) = word.split_once('/').map_or((word, None), |(kind, every)| (kind, Some(every)));
        match (kind, every.map(str::parse)) {
            ("heapprofile" | "heap" | "growth", None) => Some(Self::All),
            ("heap_v2", Some(Ok(0 | 1))) => Some(Self::All),
            ("heap_v2", Some(Ok(every))) => Some(Self::Bytes(every)),
            ("heap", Some(Ok(every))) => Some(if every > 1 { Self::Evenly(every) } else { Self::All }),
            _ => None,
        }
    }

    fn every_bytes(self) -> Option<u64> {
        match self {
            Self::All => None,
            Self::Bytes(every) | Self::Evenly(every) => Some(every),
        }
    }

    /// The bytes that there were, estimated from the bytes that the profiler saw, as `pprof` and `jeprof` compute it (`AdjustSamples`). An allocation of s
    /// bytes is seen with the probability 1 - exp(-s / every).
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a number that is too large becomes the largest one
    fn all_of(self, count: u64, bytes: u64) -> Estimate {
        let count = count.max(1) as f64;
        let mean = bytes as f64 / count;
        let seen = match self {
            Self::All => return bytes.into(),
            _ if bytes == 0 => return Estimate::default(),
            Self::Bytes(every) => -(-mean / every as f64).exp_m1(),
            Self::Evenly(every) => (2.0 * mean / every as f64).min(1.0),
        };
        let all = (bytes as f64 / seen).round();
        Estimate { bytes: all as u64, variance: (all * all * (1.0 - seen) / count).round() as u128 }
    }
}

impl File {
    fn read(input: impl Read, format: Format) -> Result<Self, Error> {
        let mut lines = Lines::new(input);
        let mut advance = || -> Result<(), Error> {
            while lines.advance()? {
                if !lines.text().trim_ascii().is_empty() {
                    return Ok(());
                }
            }
            Ok(())
        };
        advance()?;
        let none = || lines.damage("the first line tells no kind of heap profile that is known");
        let text = str::from_utf8(lines.text()).map_err(|_| none())?;
        let (counted, kind) = match format {
            Format::Jemalloc => (None, text.trim()),
            _ => {
                let (counts, kind) = text.split_once('@').ok_or_else(none)?;
                let counts = counts.trim_start().strip_prefix("heap profile:").and_then(|it| in_use(it.as_bytes()));
                (Some(counts.ok_or_else(none)?), kind.trim())
            }
        };
        let sampling = Sampling::of(kind).ok_or_else(none)?;
        let moment = Moment { sampled_every_bytes: sampling.every_bytes(), ..Moment::default() };
        let mut file = Self { sampling, moment, damage: None };
        if sampling == Sampling::All {
            file.moment.total_bytes = counted.map_or(0, |(_, bytes)| bytes);
        }
        match file.entries(&mut lines, format) {
            Ok(()) => {}
            Err(Error::Damage(damage)) => file.damage = Some(damage),
            Err(error) => return Err(error),
        }
        Ok(file)
    }

    fn entries(&mut self, lines: &mut Lines<impl Read>, format: Format) -> Result<(), Error> {
        let mut budget = Budget::default();
        // in jemalloc's files, the path above the counts; counts before the first path are those of the whole heap
        let mut above: Option<Box<[u64]>> = None;
        loop {
            must_advance(lines, "MAPPED_LIBRARIES:")?;
            let text = lines.text().trim_ascii();
            let take = |budget: &mut Budget, path: &[u64]| {
                budget.take(path.len() * 16 + 64).map_err(|what| Error::Damage(lines.damage(what)))
            };
            if text == b"MAPPED_LIBRARIES:" {
                break;
            }
            if text.is_empty() || text.starts_with(b"#") {
                continue;
            }
            if let Some(addresses) = text.strip_prefix(b"@").filter(|_| format == Format::Jemalloc) {
                let path = path_of(addresses).ok_or_else(|| lines.damage("no hexadecimal addresses behind `@`"))?;
                take(&mut budget, &path)?;
                above = Some(path);
            } else if format == Format::Jemalloc {
                let (thread, counts) = split(text, b':').unwrap_or_default();
                // a line of one thread may end with the thread's name, which may hold anything; the line of all threads has the sums
                if thread != b"t*" && thread.starts_with(b"t") {
                    continue;
                }
                let counts = in_use(counts).filter(|_| thread == b"t*");
                let (count, bytes) =
                    counts.ok_or_else(|| lines.damage("no counts, such as `t*: 11: 737280 [0: 0]`"))?;
                match above.take() {
                    Some(path) => self.moment.paths.push((path, self.sampling.all_of(count, bytes))),
                    None if self.sampling == Sampling::All => self.moment.total_bytes = bytes,
                    None => {}
                }
            } else {
                let found = split(text, b'@').and_then(|(counts, path)| Some((in_use(counts)?, path_of(path)?)));
                let none = || lines.damage("no counts with addresses, such as `1: 65536 [1: 65536] @ 0x55e4d6fdb1d8`");
                let ((count, bytes), path) = found.ok_or_else(none)?;
                take(&mut budget, &path)?;
                self.moment.paths.push((path, self.sampling.all_of(count, bytes)));
            }
        }
        while lines.advance()? {
            let mapping = Mapping::of_line(lines.text());
            if !lines.is_whole() {
                return Err(lines.cut().into());
            }
            if let Some(mapping) = mapping {
                let taken = budget.take(size_of::<Mapping>() + mapping.path.len());
                taken.map_err(|what| lines.damage(what))?;
                self.moment.mappings.push(mapping);
            }
        }
        Ok(())
    }
}

fn must_advance(lines: &mut Lines<impl Read>, expected: &str) -> Result<(), Error> {
    if lines.advance()? && lines.is_whole() { Ok(()) } else { Err(lines.end(expected).into()) }
}

fn split(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = memchr::memchr(at, text)?;
    Some((text.get(..place)?, text.get(place + 1..)?))
}

/// Count and bytes of `  12:   655420 [    12:   655420]`.
fn in_use(text: &[u8]) -> Option<(u64, u64)> {
    let (now, ever) = str::from_utf8(text).ok()?.split_once('[')?;
    let pair = |text: &str| {
        let (count, bytes) = text.split_once(':')?;
        Some((count.trim().parse().ok()?, bytes.trim().parse().ok()?))
    };
    pair(ever.trim_end().strip_suffix(']')?).and_then(|_: (u64, u64)| pair(now))
}

/// The addresses of a line, at most as many as any profiler records.
fn path_of(text: &[u8]) -> Option<Box<[u64]>> {
    let words = text.split(|it| *it == b' ').filter(|it| !it.is_empty()).take(MOST_CALLERS);
    let address = |word: &[u8]| u64::from_str_radix(str::from_utf8(word).ok()?.strip_prefix("0x")?, 16).ok();
    words.map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_seen_is_added() {
        let sampling = Sampling::of("heap_v2/524288").unwrap();
        let error = |it: Estimate| (it.variance as f64).sqrt() / it.bytes as f64;
        let one = sampling.all_of(1, 524_288);
        assert_eq!(one.bytes, 829_411, "1 / (1 - 1/e)");
        assert!((error(one) - (-0.5_f64).exp()).abs() < 1e-6, "the root of the share that is not seen: {one:?}");
        assert_eq!(sampling.all_of(10, 1_048_576_000), 1_048_576_000.into(), "what is large is always seen");
        let small = sampling.all_of(25, 25 * 16);
        assert!((error(small) - 0.2).abs() < 1e-4, "1 / √n: {small:?}");
        assert_eq!(sampling.all_of(0, 0), 0.into());
        assert_eq!(Sampling::of("heapprofile").unwrap().all_of(3, 300), 300.into());
        assert_eq!(Sampling::of("heap/1000").unwrap().all_of(2, 200).bytes, 1000);
        assert_eq!([Sampling::of("cpu"), Sampling::of("heap_v2/x")], [None, None]);
    }
}
