// SPDX-License-Identifier: Apache-2.0
//! Finds out which descriptors are files below a slow directory.
//!
//! A descriptor is inspected at its first read or write. The result is remembered by its number, until the descriptor is closed or
//! replaced. Forgetting is always safe. Some closes are not seen (the C library closes files of its own), so each entry says which
//! file it is about, and the file is compared before anything is delayed.

use super::sys::{self, File};
use super::{map, maps};
use crate::shared::{PATH_BYTES, Shared};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Descriptors with higher numbers are inspected each time.
const REMEMBERED: usize = 65_536;
static TABLE: [AtomicU64; REMEMBERED] = [const { AtomicU64::new(UNKNOWN) }; REMEMBERED];

const UNKNOWN: u64 = 0;
const OTHER: u64 = 1;
const SLOW: u64 = 2;
/// An entry: two bits for the kind, three for the map, the rest for the file.
const MAP_SHIFT: u32 = 2;
const FILE_SHIFT: u32 = 8;

/// A file below a slow directory.
#[derive(Clone, Copy)]
pub(super) struct Slow {
    pub(super) shared: &'static Shared,
    entry: u64,
}

/// `None`: the file is below no slow directory.
#[inline]
pub(super) fn slow(descriptor: i32) -> Option<Slow> {
    let entry = match usize::try_from(descriptor).ok().and_then(|number| TABLE.get(number)) {
        Some(place) => match place.load(Relaxed) {
            UNKNOWN => look(descriptor),
            entry => entry,
        },
        None => look(descriptor),
    };
    if entry & 3 == SLOW { of(entry) } else { None }
}

fn of(entry: u64) -> Option<Slow> {
    let shared = map(usize::try_from((entry >> MAP_SHIFT) & 7).ok()?)?;
    Some(Slow { shared, entry })
}

#[inline]
pub(super) fn forget(descriptor: i32) {
    if let Some(place) = usize::try_from(descriptor).ok().and_then(|number| TABLE.get(number)) {
        place.store(UNKNOWN, Relaxed);
    }
}

pub(super) fn forget_from(first: u32, last: u32) {
    let (first, last) = (first as usize, (last as usize).min(REMEMBERED - 1));
    TABLE.iter().skip(first).take((last + 1).saturating_sub(first)).for_each(|place| place.store(UNKNOWN, Relaxed));
}

impl Slow {
    /// The file of the descriptor now. `None`: another file than before, and not a slow one.
    pub(super) fn confirm(self, descriptor: i32) -> Option<(Self, File)> {
        let file = sys::file(descriptor)?;
        if identity(&file) == self.entry >> FILE_SHIFT {
            return Some((self, file));
        }
        forget(descriptor);
        slow(descriptor).map(|slow| (slow, file))
    }
}

#[cold]
fn look(descriptor: i32) -> u64 {
    let Some(file) = sys::file(descriptor) else { return OTHER };
    let entry = if [File::REGULAR, File::DIRECTORY].contains(&file.kind) { find(descriptor, &file) } else { OTHER };
    if let Some(place) = usize::try_from(descriptor).ok().and_then(|number| TABLE.get(number)) {
        place.store(entry, Relaxed);
    }
    entry
}

#[inline(never)]
fn find(descriptor: i32, file: &File) -> u64 {
    let mut buffer = [0; PATH_BYTES];
    let Ok(bytes) = sys::path_of(descriptor, &mut buffer) else { return OTHER };
    let path = buffer.get(..bytes).unwrap_or_default();
    let number = maps().position(|shared| is_below(shared, path));
    number.map_or(OTHER, |number| SLOW | (number as u64) << MAP_SHIFT | identity(file) << FILE_SHIFT)
}

fn is_below(shared: &Shared, path: &[u8]) -> bool {
    let bytes = shared.directory_bytes.load(Relaxed) as usize;
    let Some((start, rest)) = path.split_at_checked(bytes) else { return false };
    let same = start.iter().zip(&shared.directory).all(|(byte, other)| *byte == other.load(Relaxed));
    same && rest.first().is_none_or(|next| *next == b'/')
}

fn identity(file: &File) -> u64 {
    (file.inode ^ file.device.rotate_left(40)) & (u64::MAX >> FILE_SHIFT)
}
