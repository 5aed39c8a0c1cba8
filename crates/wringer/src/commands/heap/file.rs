// SPDX-License-Identifier: Apache-2.0
//! Opens a profile, compressed or not, as often as it is read.

use crate::exit::{Exit, Failure};
use crate::input;
use flate2::read::MultiGzDecoder;
use heap::{Error, Holdings, Outline, Tree};
use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};

/// One profile.
pub(super) struct Profile {
    path: PathBuf,
    pub(super) outline: Outline,
}

impl Profile {
    /// # Errors
    /// Exit code 3: it cannot be read, or is no output of Massif.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let outline = Outline::read(open(path)?).map_err(|error| unreadable(path, error))?;
        if outline.snapshots.is_empty() {
            let why = outline.damage.map_or_else(|| "it ends behind the header".to_owned(), |it| it.to_string());
            return Err(Failure::message(Exit::Missing, format!("{} has no snapshot: {why}", path.display()))
                .hint("Massif writes its file when the program ends; `vgdb detailed_snapshot FILE` writes one of a program that runs"));
        }
        Ok(Self { path: path.to_owned(), outline })
    }

    /// Who holds the heap in the snapshot at this place.
    pub(super) fn tree(&self, place: usize) -> Result<Tree, Failure> {
        let trees = heap::trees(open(&self.path)?, &[place]).map_err(|error| unreadable(&self.path, error))?;
        let gone = || Failure::message(Exit::Missing, format!("{} was changed while it was read", self.path.display()));
        trees.into_iter().next().ok_or_else(gone)
    }

    pub(super) fn holdings(&self, place: usize) -> Result<Holdings, Failure> {
        Ok(Holdings::of(&self.tree(place)?))
    }

    /// The place of the snapshot with this number.
    ///
    /// # Errors
    /// Exit code 3: there is none, or it has no tree; those that have one are named.
    pub(super) fn place_of(&self, number: u64) -> Result<usize, Failure> {
        let has_number = |place: &usize| self.outline.snapshots.get(*place).is_some_and(|it| it.number == number);
        self.outline.with_trees().find(has_number).ok_or_else(|| {
            let numbers =
                self.outline.with_trees().filter_map(|it| Some(self.outline.snapshots.get(it)?.number.to_string()));
            let numbers: Vec<String> = numbers.collect();
            Failure::message(Exit::Missing, format!("{}: snapshot {number} has no tree", self.path.display()))
                .hint(format!("those that have one: {}", numbers.join(", ")))
        })
    }

    /// The place of the last tree.
    ///
    /// # Errors
    /// Exit code 3: there is no tree.
    pub(super) fn last(&self) -> Result<usize, Failure> {
        self.outline.with_trees().next_back().ok_or_else(|| {
            Failure::message(Exit::Missing, format!("{}: no snapshot says who held the heap", self.path.display()))
                .hint("Massif gives every tenth snapshot a tree; --detailed-freq=1 all of them")
        })
    }

    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    pub(super) fn command(&self) -> String {
        String::from_utf8_lossy(&self.outline.header.command).into_owned()
    }
}

/// At its beginning.
///
/// # Errors
/// Exit code 3: it cannot be read.
pub(super) fn open(path: &Path) -> Result<Box<dyn Read>, Failure> {
    again(path).map_err(|error| unreadable(path, error))
}

/// The same, for who has read it before.
pub(super) fn again(path: &Path) -> Result<Box<dyn Read>, Error> {
    let mut file = BufReader::new(input::open_input(path)?);
    let is_compressed = file.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    Ok(if is_compressed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) })
}

pub(super) fn unreadable(path: &Path, error: Error) -> Failure {
    match error {
        Error::Damage(damage) => Failure::message(Exit::Missing, format!("{}: {damage}", path.display()))
            .hint("a profile of Massif is expected: massif.out.PID, as it is or compressed by gzip"),
        Error::Io(error) => Failure::new(Exit::Missing, input::named(error, path)),
    }
}
