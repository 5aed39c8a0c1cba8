// SPDX-License-Identifier: Apache-2.0
//! Opens profiles, compressed or not, each time when they are read. Several files of one moment each are one profile.

use super::order;
use super::source::{Source, unreadable};
use crate::exit::{Exit, Failure};
use heap::{Damage, Format, Holdings, Outline, Tree};
use std::path::PathBuf;
use symbols::Binaries;

/// Where the names of functions come from.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Names {
    /// Folders with copies of the profiled programs and their libraries, or with debug files by build id; they are searched before the paths that the profile
    /// names. Only files of gperftools and jemalloc need this: they have addresses without names
    #[arg(long = "binaries", value_name = "FOLDER")]
    folders: Vec<PathBuf>,
}

/// One profile.
pub(super) struct Profile {
    files: Vec<(Source, Outline)>,
    /// The outline of all files together; the snapshots of several files get new numbers.
    pub(super) outline: Outline,
    pub(super) symbols: Binaries,
}

impl Profile {
    pub(super) fn open(source: &Source, names: &Names) -> Result<Self, Failure> {
        Self::open_all(std::slice::from_ref(source), names)
    }

    /// # Errors
    /// Exit code 3: a file cannot be read or is not a heap profile; or one of several files has more than one moment, so that it cannot be part of a series.
    pub(super) fn open_all(sources: &[Source], names: &Names) -> Result<Self, Failure> {
        let mut sources = sources.to_vec();
        sources.sort_by_cached_key(|source| order::by_numbers(source.path()));
        let read = |source: Source| Self::outline(&source).map(|outline| (source, outline));
        let files: Vec<(Source, Outline)> = sources.into_iter().map(read).collect::<Result<_, Failure>>()?;
        let none = || Failure::message(Exit::Usage, "name a heap profile");
        let mut outline = files.first().ok_or_else(none)?.1.clone();
        if files.len() > 1 {
            is_series(&files)?;
            let all = files.iter().flat_map(|(_, it)| &it.snapshots).copied();
            outline.snapshots = (0..).zip(all).map(|(number, it)| heap::Snapshot { number, ..it }).collect();
            outline.damage = files.iter().find_map(|(_, it)| it.damage.clone());
        }
        Ok(Self { files, outline, symbols: Binaries::new(names.folders.clone()) })
    }

    fn outline(source: &Source) -> Result<Outline, Failure> {
        let outline = Outline::read(source.open()?).map_err(|error| unreadable(source, error))?;
        if outline.snapshots.is_empty() {
            let why = outline.damage.map_or_else(|| "it ends after its beginning".to_owned(), |it| it.to_string());
            return Err(Failure::message(Exit::Missing, format!("{} has no snapshot: {why}", source.name()))
                .hint("Massif writes its file when the program ends; `vgdb detailed_snapshot FILE` writes one of a program that runs"));
        }
        Ok(outline)
    }

    /// The trees at these places, one at a time, in the order of the files.
    pub(super) fn each_tree(&mut self, places: &[usize], each: &mut dyn FnMut(usize, Tree)) -> Result<(), Failure> {
        let mut first = 0;
        for (source, outline) in &self.files {
            let own: Vec<usize> =
                (0..outline.snapshots.len()).filter(|place| places.contains(&(first + place))).collect();
            if !own.is_empty() {
                let number = |place: usize| self.outline.snapshots.get(first + place).copied();
                let mut numbered = |place: usize, mut tree: Tree| {
                    tree.snapshot = number(place).unwrap_or(tree.snapshot);
                    each(first + place, tree);
                };
                heap::each_tree(source.open()?, outline, &own, &mut self.symbols, &mut numbered)
                    .map_err(|error| unreadable(source, error))?;
            }
            first += outline.snapshots.len();
        }
        Ok(())
    }

    /// The tree of callers of the snapshot at this place.
    pub(super) fn tree(&mut self, place: usize) -> Result<Tree, Failure> {
        let mut found = None;
        self.each_tree(&[place], &mut |_, tree| found = Some(tree))?;
        found.ok_or_else(|| Failure::message(Exit::Missing, format!("{} was changed while it was read", self.name())))
    }

    pub(super) fn holdings(&mut self, place: usize) -> Result<Holdings, Failure> {
        Ok(Holdings::of(&self.tree(place)?))
    }

    /// The place of the snapshot with this number.
    ///
    /// # Errors
    /// Exit code 3: there is no snapshot with this number, or the snapshot has no tree; the message names the snapshots that have one.
    pub(super) fn place_of(&self, number: u64) -> Result<usize, Failure> {
        let has_number = |place: &usize| self.outline.snapshots.get(*place).is_some_and(|it| it.number == number);
        self.outline.with_trees().find(has_number).ok_or_else(|| {
            let numbers =
                self.outline.with_trees().filter_map(|it| Some(self.outline.snapshots.get(it)?.number.to_string()));
            let numbers: Vec<String> = numbers.collect();
            Failure::message(Exit::Missing, format!("{}: snapshot {number} has no tree", self.name()))
                .hint(format!("those that have one: {}", numbers.join(", ")))
        })
    }

    /// The place of the last tree.
    ///
    /// # Errors
    /// Exit code 3: there is no tree.
    pub(super) fn last(&self) -> Result<usize, Failure> {
        self.outline.with_trees().next_back().ok_or_else(|| {
            Failure::message(Exit::Missing, format!("{}: no snapshot says which functions held the heap", self.name()))
                .hint("Massif gives every tenth snapshot a tree; --detailed-freq=1 all of them")
        })
    }

    /// The name of the only file; or the name of the first file, and the number of files.
    pub(super) fn name(&self) -> String {
        let first = self.files.first().map(|(source, _)| source.name()).unwrap_or_default();
        match self.files.len() {
            0 | 1 => first,
            more => format!("{first} and {} more", more - 1),
        }
    }

    /// The file of a snapshot, in a series of files.
    pub(super) fn file_of(&self, place: usize) -> Option<String> {
        let (source, _) = self.files.get(place).filter(|_| self.files.len() > 1)?;
        Some(source.name())
    }

    /// The first file that is damaged.
    pub(super) fn damaged_file(&self) -> Option<String> {
        let damaged = self.files.iter().find(|(_, outline)| outline.damage.is_some());
        damaged.map(|(source, _)| source.name())
    }

    /// The sentence about the damage of a file, if one is damaged.
    pub(super) fn damage(&self) -> Option<String> {
        Some(up_to(&self.damaged_file()?, self.outline.damage.as_ref()?))
    }

    /// Whether some of what the heap held at this place is behind a damage. Massif and heaptrack write a moment after the other: one that could be read is
    /// whole. The other formats have one list for all that a file tells.
    pub(super) fn is_partial(&self, place: usize) -> bool {
        let of = if self.files.len() > 1 { place } else { 0 };
        let damaged = self.files.get(of).filter(|(_, outline)| outline.damage.is_some());
        damaged.is_some_and(|(_, outline)| match outline.format {
            Format::Massif | Format::Heaptrack => false,
            Format::Dhat => place > 0,
            Format::Gperftools | Format::Jemalloc => true,
        })
    }

    /// Whether the last moment of the file, or some of what it held, is behind a damage.
    pub(super) fn is_end_lost(&self) -> bool {
        let last = self.outline.snapshots.len().saturating_sub(1);
        self.is_partial(last) || (self.files.len() == 1 && self.outline.damage.is_some())
    }

    /// `None`: the format does not say it.
    pub(super) fn command(&self) -> Option<String> {
        self.outline.command.as_ref().map(|it| String::from_utf8_lossy(it).into_owned())
    }
}

/// That a file could not be read as a whole.
pub(super) fn up_to(file: &str, damage: &Damage) -> String {
    format!("{file}: read up to the damage: {damage}")
}

fn is_series(files: &[(Source, Outline)]) -> Result<(), Failure> {
    let first = files.first().map(|(_, it)| it.format);
    for (source, outline) in files {
        if !outline.format.is_one_moment() || Some(outline.format) != first {
            let (path, format) = (source.name(), outline.format.name());
            let what = format!(
                "several files are one profile only where each is a moment of the same program, as gperftools and jemalloc write them; {path} is of {format}"
            );
            return Err(Failure::message(Exit::Missing, what)
                .hint("show one at a time; `wringer heap diff` compares two, `wringer heap report` has all of them on one page"));
        }
    }
    Ok(())
}
