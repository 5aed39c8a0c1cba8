// SPDX-License-Identifier: Apache-2.0
//! The kernel's way to the layer and back: the time of a request outside of the layer. It is measured on this host when the layer
//! is mounted, and subtracted from each delay, so that a client sees the asked delay plus the bare latency.
//!
//! A process of its own ([`client`]) reads a file that exists in the layer alone, 4 KiB at a time and past the page cache, as a
//! database would. None of its requests goes to the directory's files. The layer holds each of these reads for a chosen time, and
//! writes into the answer how long it had the request: the rest of the client's wait is the way. After a longer sleep the processor
//! is colder and the way is longer, so it is measured for waits of several lengths.
//!
//! Other requests differ: a write carries its data, and a sync has none. The same time is subtracted for them as for a read.

mod answer;
pub(crate) mod client;

pub(crate) use answer::answer;

use fuser::{FileAttr, FileType, INodeNo};
use serde::{Deserialize, Serialize};
use std::time::{Duration, UNIX_EPOCH};

/// The name of the file in the root of the layer; only the measuring process sees it.
pub(crate) const NAME: &str = ".wringer-way";
/// No file below has this inode number: numbers for files of other devices begin at 2^63.
pub(crate) const INODE: u64 = u64::MAX;
pub(crate) const HANDLE: u64 = u64::MAX;
pub(crate) const BLOCK_BYTES: usize = 4096;
pub(crate) const BLOCK: u64 = BLOCK_BYTES as u64;
/// So that the kernel asks for the file's attributes once, and not with each read.
pub(crate) const ATTRIBUTES_LAST: Duration = Duration::from_secs(1);
/// The kernel keeps no name: another process that looks up this name gets the directory's answer.
pub(crate) const NAME_LASTS: Duration = Duration::ZERO;

/// A host that needs longer is overloaded, perhaps for a moment only. At most this much is subtracted.
const MOST_NS: u64 = 200_000;

/// One length of waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Length {
    /// The longest wait that belongs to it; `None`: no bound.
    up_to_ns: Option<u64>,
    /// How long the layer holds a measuring read.
    held_ns: u64,
    /// How many reads in each round.
    looks: usize,
}

pub(crate) const ROUNDS: usize = 3;
/// Shortest waits first. Three rounds take some 170 ms, so that one disturbance cannot hit all reads of one length.
pub(crate) const LENGTHS: [Length; 5] = [
    Length { up_to_ns: Some(100_000), held_ns: 60_000, looks: 15 },
    Length { up_to_ns: Some(500_000), held_ns: 250_000, looks: 15 },
    Length { up_to_ns: Some(3_000_000), held_ns: 1_000_000, looks: 7 },
    Length { up_to_ns: Some(30_000_000), held_ns: 5_000_000, looks: 2 },
    Length { up_to_ns: None, held_ns: 31_000_000, looks: 1 },
];

/// The time that is subtracted from each delay for the way, and how it was measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// Shortest waits first. Empty: not measured, and nothing is subtracted.
    pub lengths: Vec<Looked>,
    /// The reason why it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

/// The measurements of waits of one length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Looked {
    /// The longest wait that belongs to it; `None`: no bound.
    pub up_to_ns: Option<u64>,
    /// How long the layer held the reads.
    pub held_ns: u64,
    pub looks: u32,
    pub lowest_ns: u64,
    pub median_ns: u64,
    pub highest_ns: u64,
}

impl Looked {
    /// The median way, or the most that is ever subtracted.
    pub fn taken_off_ns(&self) -> u64 {
        self.median_ns.min(MOST_NS)
    }
}

impl Way {
    pub(crate) fn not_measured(why: impl Into<String>) -> Self {
        Self { lengths: Vec::new(), why_not: Some(why.into()) }
    }

    /// From the reads at each of [`LENGTHS`]: how long the client waited, and how long the layer had the request.
    pub(crate) fn of(looks: &[Vec<(u64, u64)>]) -> Self {
        if looks.len() != LENGTHS.len() || looks.iter().any(Vec::is_empty) {
            return Self::not_measured("there was no look at some length of waits");
        }
        let lengths = LENGTHS.iter().zip(looks).map(|(length, looks)| {
            let mut ways: Vec<u64> = looks.iter().map(|(waited, inside)| waited.saturating_sub(*inside)).collect();
            ways.sort_unstable();
            Looked {
                up_to_ns: length.up_to_ns,
                held_ns: length.held_ns,
                looks: u32::try_from(ways.len()).unwrap_or(u32::MAX),
                lowest_ns: ways[0],
                median_ns: ways[ways.len() / 2],
                highest_ns: ways[ways.len() - 1],
            }
        });
        Self { lengths: lengths.collect(), why_not: None }
    }

    /// The time to subtract from a wait of this length.
    pub(crate) fn taken_off_ns(&self, wait_ns: u64) -> u64 {
        let of = self.lengths.iter().find(|looked| looked.up_to_ns.is_none_or(|longest| wait_ns <= longest));
        of.map_or(0, Looked::taken_off_ns)
    }
}

/// The attributes of the measuring file, which is in no directory.
pub(crate) fn attributes() -> FileAttr {
    FileAttr {
        ino: INodeNo(INODE),
        size: BLOCK * LENGTHS.len() as u64,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::RegularFile,
        perm: 0o400,
        nlink: 1,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(ways_ns: [u64; 5]) -> Way {
        let looks = LENGTHS.iter().zip(ways_ns);
        // One read in five was disturbed.
        let of = |(length, way): (&Length, u64)| {
            (0..5).map(|look| (length.held_ns + way + if look == 0 { 900_000 } else { look }, length.held_ns)).collect()
        };
        Way::of(&looks.map(of).collect::<Vec<_>>())
    }

    #[test]
    fn what_the_client_waited_beyond_the_time_inside_is_the_way_at_the_median() {
        let way = way([11_000, 14_000, 17_000, 30_000, 60_000]);
        let first = way.lengths[0];
        assert_eq!((first.lowest_ns, first.median_ns, first.highest_ns, first.looks), (11_001, 11_003, 911_000, 5));
        let off =
            [50_000, 100_000, 100_001, 3_000_000, 10_000_000, 3_600_000_000_000].map(|wait| way.taken_off_ns(wait));
        assert_eq!(off, [11_003, 11_003, 14_003, 17_003, 30_003, 60_003]);
    }

    #[test]
    fn what_an_overloaded_host_needs_is_not_taken_off_in_full() {
        let way = way([11_000, 2_000_000, 17_000, 30_000, 60_000]);
        assert_eq!((way.lengths[1].median_ns, way.taken_off_ns(200_000)), (2_000_003, MOST_NS));
    }

    #[test]
    fn without_looks_nothing_is_taken_off_and_the_reason_is_kept() {
        for way in [Way::default(), Way::not_measured("no process"), Way::of(&[]), Way::of(&vec![Vec::new(); 5])] {
            assert_eq!([0, 60_000, 1_000_000].map(|wait| way.taken_off_ns(wait)), [0, 0, 0], "{way:?}");
        }
        assert!(Way::of(&vec![Vec::new(); 5]).why_not.is_some());
        let text = serde_json::to_string(&way([1, 2, 3, 4, 5])).unwrap();
        assert_eq!(serde_json::from_str::<Way>(&text).unwrap(), way([1, 2, 3, 4, 5]));
    }
}
