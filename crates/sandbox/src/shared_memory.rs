// SPDX-License-Identifier: Apache-2.0
//! Shared memory that a PostgreSQL server leaves when all of its processes are killed: one System V segment, and the segments of dynamic shared
//! memory in `/dev/shm`. PostgreSQL removes them itself when it starts again with the same data directory, but after a deletion no server starts. So
//! a segment is removed with the data directory, if it is proven to belong to this server and nobody uses it.
//!
//! The segments are found like this: `postmaster.pid` names the System V segment. The first bytes of that segment (PGShmemHeader) tell to which
//! server it belongs, and name the control segment of dynamic shared memory, which lists the other segments.

use crate::{Error, Flavour, Sandbox};
use host::shared_memory::{Removal, SystemV, posix_path, read_posix, remove_posix};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The magic numbers at the begin of PostgreSQL's shared memory and of a control segment (PGShmemMagic, PG_DYNSHMEM_CONTROL_MAGIC): they are the same
/// from 12 to 18.
const MAGIC: u32 = 679_834_894;
const CONTROL_MAGIC: u32 = 0x9a50_3d32;
/// The length of PGShmemHeader.
const HEADER_BYTES: usize = 56;
/// The length of dsm_control_header up to its items.
const CONTROL_HEADER_BYTES: usize = 16;
/// The length of dsm_control_item: first for PostgreSQL 12 and 13, then since 14, where a segment may also be in the main shared memory.
const ITEM_BYTES: usize = 24;
const ITEM_BYTES_WITH_PAGES: usize = 40;
/// Far more bytes than a control segment for the largest number of connections (262,143) has.
const CONTROL_LIMIT_BYTES: u64 = 64 << 20;
/// A server records the time of its start, and then makes its segment. This is twice the time between the two on a host with hardly any free memory.
const START_SECONDS: u64 = 60;

/// The content of `postmaster.pid`.
#[derive(Debug, PartialEq, Eq)]
struct LockFile {
    pid: u32,
    started: i64,
    key: i32,
    id: i32,
}

impl LockFile {
    /// `None`: there is no complete lock file, or a server that has made no shared memory yet.
    fn parse(text: &str) -> Option<Self> {
        let line = |number: usize| text.lines().nth(number - 1).map(str::trim);
        // for a server in single-user mode the number is negative
        let pid = line(1)?.parse::<i32>().ok()?.unsigned_abs();
        let mut numbers = line(7)?.split_whitespace().map(|word| word.parse::<u64>().ok());
        // a key is a signed number of 32 bits, written as an unsigned number of 64 bits
        let key = i32::try_from(numbers.next()??.cast_signed()).ok()?;
        let id = i32::try_from(numbers.next()??).ok()?;
        Some(Self { pid, started: line(3)?.parse().ok()?, key, id })
    }

    /// Reads the file with care: the server's user owns the folder, and could have put anything there.
    fn read(data: &Path) -> Option<Self> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open(data.join("postmaster.pid"), flags, Mode::empty()).ok()?;
        let mut text = String::new();
        File::from(file).take(64 << 10).read_to_string(&mut text).ok()?;
        Self::parse(&text)
    }
}

/// The begin of PGShmemHeader.
#[derive(Debug, PartialEq, Eq)]
struct Header {
    creator: u32,
    /// The handle of the control segment; 0: there is none.
    control: u32,
    device: u64,
    inode: u64,
}

impl Header {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let header = Self {
            creator: number(bytes, 4)?,
            control: number(bytes, 24)?,
            device: long_number(bytes, 40)?,
            inode: long_number(bytes, 48)?,
        };
        (number(bytes, 0)? == MAGIC).then_some(header)
    }
}

/// The handles of the segments in `/dev/shm` that a control segment lists. `None`: it is no control segment, or one of an unknown layout.
fn handles(control: &[u8]) -> Option<Vec<u32>> {
    let (count, most) = (number(control, 4)?, usize::try_from(number(control, 8)?).ok()?);
    let items = control.get(CONTROL_HEADER_BYTES..)?;
    // a control segment is exactly as long as its items: so the size of an item shows the layout
    let size = items.len().checked_div(most)?;
    let is_known = matches!(size, ITEM_BYTES | ITEM_BYTES_WITH_PAGES) && items.len() == size * most;
    let count = usize::try_from(count).ok().filter(|count| *count <= most)?;
    if !is_known || number(control, 0)? != CONTROL_MAGIC {
        return None;
    }
    let is_used = |item: &&[u8]| number(item, 4).is_some_and(|references| references > 0);
    let is_segment = |handle: &u32| size == ITEM_BYTES || handle & 1 == 0;
    let used = items.chunks_exact(size).take(count).filter(is_used);
    Some(used.filter_map(|item| number(item, 0)).filter(is_segment).collect())
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long_number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// The System V segment, if it is proven to belong to the server that had this data directory.
#[derive(Debug)]
struct Proven {
    segment: SystemV,
    header: Header,
}

impl Proven {
    fn of(data: &Path, is_wanted: impl Fn(&SystemV) -> bool) -> Result<Option<Self>, Error> {
        let (Some(lock), Ok(folder)) = (LockFile::read(data), std::fs::symlink_metadata(data)) else {
            return Ok(None);
        };
        let Some(segment) = SystemV::with_id(lock.id)?.filter(|it| it.key == lock.key && it.owner == folder.uid())
        else {
            return Ok(None);
        };
        if !is_wanted(&segment) {
            return Ok(None);
        }
        let header = Header::parse(&segment.head(HEADER_BYTES)?);
        let is_proven = |header: &Header| {
            // On a slow disk the server has seen another device number for the folder. Then its pid and the time are the proof.
            let by_time = segment.created.abs_diff(lock.started) <= START_SECONDS;
            let by_folder = (header.device, header.inode) == (folder.dev(), folder.ino());
            header.creator == lock.pid && (by_folder || by_time)
        };
        Ok(header.filter(is_proven).map(|header| Self { segment, header }))
    }

    /// Removes the segments; returns those that are left, and why. The System V segment is removed last, because it leads to the others.
    fn remove(self) -> Result<Vec<String>, Error> {
        let owner = self.segment.owner;
        let mut left = Vec::new();
        let mut remove = |handle: u32| -> Result<(), Error> {
            let name = segment_name(handle);
            if let Removal::Left(why) = remove_posix(&name, owner)? {
                left.push(format!("{}: {why}", posix_path(&name).display()));
            }
            Ok(())
        };
        let control = self.header.control;
        if let Some(content) = read_posix(&segment_name(control), owner, CONTROL_LIMIT_BYTES)? {
            match handles(&content) {
                Some(handles) => handles.into_iter().chain([control]).try_for_each(&mut remove)?,
                None => left.push(format!(
                    "{}: it is no list of segments that can be read",
                    posix_path(&segment_name(control)).display()
                )),
            }
        }
        if let Removal::Left(why) = self.segment.remove()? {
            left.push(format!("System V shared memory {}: {why}", self.segment.id));
        }
        Ok(left)
    }
}

fn segment_name(handle: u32) -> String {
    format!("PostgreSQL.{handle}")
}

impl Sandbox {
    /// How often the server's shared memory is attached, counted for processes of every namespace. This look only attaches memory that others have
    /// attached: otherwise a server that starts now would take us for its predecessor.
    ///
    /// # Errors
    /// The kernel gives an error.
    pub(crate) fn attached(&self) -> Result<u64, Error> {
        let proven = Proven::of(&self.data(), |segment| segment.attached > 0)?;
        Ok(proven.map_or(0, |it| it.segment.attached))
    }

    /// Removes shared memory that a killed server has left and that nobody uses. To be called before the server's data directory is removed, under
    /// the sandbox's lock. Returns the segments that were left alone, and why.
    ///
    /// # Errors
    /// The kernel gives an error, or refuses.
    pub(crate) fn clear_shared_memory(&self) -> Result<Vec<String>, Error> {
        if self.flavour() != Flavour::Postgresql {
            return Ok(Vec::new());
        }
        Proven::of(&self.data(), |_| true)?.map_or(Ok(Vec::new()), |it| {
            if it.segment.attached == 0 {
                return it.remove();
            }
            Ok(vec![format!("System V shared memory {}: it is attached {} times", it.segment.id, it.segment.attached)])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_file_names_the_segment() {
        let text = "4711\n/s/data\n1795339173\n5433\n/s/run\n127.0.0.1\n  1064997         7\nready   \n";
        let expected = LockFile { pid: 4711, started: 1_795_339_173, key: 1_064_997, id: 7 };
        assert_eq!(LockFile::parse(text), Some(expected));
        let negative = text.replace("1064997", "18446744073709551615").replace("4711", "-4711");
        let found = LockFile::parse(&negative).expect("parses");
        assert_eq!((found.pid, found.key), (4711, -1));
        for broken in
            ["", "4711\n", "4711\n/s\n1\n5433\n/s\n\n", &text.replace("         7", ""), &text.replace('7', "x")]
        {
            assert_eq!(LockFile::parse(broken), None, "{broken}");
        }
    }

    fn header(magic: u32) -> Vec<u8> {
        let mut bytes = [magic.to_ne_bytes(), 4711_u32.to_ne_bytes()].concat();
        for long in [56_u64, 56, u64::from(4_000_000_002_u32), 0xdead, 66_305, 1_064_997] {
            bytes.extend(long.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn a_header_says_whose_it_is() {
        let expected = Header { creator: 4711, control: 4_000_000_002, device: 66_305, inode: 1_064_997 };
        assert_eq!(header(MAGIC).len(), HEADER_BYTES);
        assert_eq!(Header::parse(&header(MAGIC)), Some(expected));
        assert_eq!(Header::parse(&header(MAGIC + 1)), None);
        assert_eq!(Header::parse(&header(MAGIC)[..55]), None);
        assert_eq!(Header::parse(&[]), None);
    }

    fn control(magic: u32, count: u32, most: u32, item_bytes: usize, items: &[(u32, u32)]) -> Vec<u8> {
        let mut bytes = [magic, count, most, 0].map(u32::to_ne_bytes).concat();
        for (handle, references) in items {
            let item = [handle.to_ne_bytes(), references.to_ne_bytes()].concat();
            bytes.extend(item.into_iter().chain(std::iter::repeat_n(0xff, item_bytes - 8)));
        }
        bytes.resize(CONTROL_HEADER_BYTES + item_bytes * usize::try_from(most).expect("fits"), 0);
        bytes
    }

    #[test]
    fn a_control_segment_lists_the_others() {
        let items = [(10, 2), (11, 1), (12, 0), (14, 3)];
        // since 14 an odd handle is a segment in the main shared memory
        assert_eq!(handles(&control(CONTROL_MAGIC, 4, 9, 40, &items)), Some(vec![10, 14]));
        assert_eq!(handles(&control(CONTROL_MAGIC, 4, 9, 24, &items)), Some(vec![10, 11, 14]));
        // items after the used ones are not read
        assert_eq!(handles(&control(CONTROL_MAGIC, 1, 9, 40, &items)), Some(vec![10]));
        assert_eq!(handles(&control(CONTROL_MAGIC, 0, 9, 40, &[])), Some(vec![]));
        for unknown in [
            control(CONTROL_MAGIC + 1, 4, 9, 40, &items),
            control(CONTROL_MAGIC, 10, 9, 40, &items),
            control(CONTROL_MAGIC, 0, 0, 40, &[]),
            control(CONTROL_MAGIC, u32::MAX, 9, 24, &items),
            control(CONTROL_MAGIC, 4, 9, 32, &items),
            control(CONTROL_MAGIC, 4, 9, 40, &items)[..375].to_vec(),
            vec![],
        ] {
            assert_eq!(handles(&unknown), None);
        }
    }
}
