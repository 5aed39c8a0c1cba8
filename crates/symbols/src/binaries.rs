// SPDX-License-Identifier: Apache-2.0
//! The files of a profile's mappings, each opened once.

use crate::debug_file;
use crate::elf::Elf;
use addr2line::Loader;
use heap::{Frame, Mapping, Symbols};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A file whose functions have no names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    pub path: String,
    pub why: String,
    /// Addresses that were asked for.
    pub addresses: u64,
}

/// Opens the files of a profile at their own paths, or below folders that were copied from the profiled machine.
#[derive(Default)]
pub struct Binaries {
    folders: Vec<PathBuf>,
    opened: BTreeMap<String, Opened>,
}

struct Opened {
    file: Result<Binary, String>,
    /// Places in the file that had a name; each is counted once, however often it was asked for.
    named: BTreeSet<u64>,
    unnamed: BTreeSet<u64>,
}

struct Binary {
    elf: Elf,
    /// Symbols of the debug file; it has more symbols than the file itself.
    debug: Option<Elf>,
    lines: Option<Loader>,
}

impl Binaries {
    /// `folders`: searched first, for `FOLDER/path/of/the/file` and `FOLDER/file`.
    pub fn new(folders: Vec<PathBuf>) -> Self {
        Self { folders, opened: BTreeMap::new() }
    }

    /// How many addresses had a name, and how many had none.
    pub fn counts(&self) -> (u64, u64) {
        let count = |places: &BTreeSet<u64>| places.len() as u64;
        let add = |(named, unnamed), it: &Opened| (named + count(&it.named), unnamed + count(&it.unnamed));
        self.opened.values().fold((0, 0), add)
    }

    /// The files with addresses that have no name; the file with the most such addresses stands first.
    pub fn missing(&self) -> Vec<Missing> {
        let why = |file: &Result<Binary, String>| match file {
            Err(why) => why.clone(),
            Ok(file) => file.why_unnamed(),
        };
        let unnamed = self.opened.iter().filter(|(_, it)| !it.unnamed.is_empty());
        let mut missing: Vec<Missing> = unnamed
            .map(|(path, it)| Missing { path: path.clone(), why: why(&it.file), addresses: it.unnamed.len() as u64 })
            .collect();
        missing.sort_by_key(|it| std::cmp::Reverse(it.addresses));
        missing
    }
}

impl Symbols for Binaries {
    fn functions(&mut self, mapping: &Mapping, address: u64) -> Vec<Frame> {
        let folders = &self.folders;
        let opened = self.opened.entry(mapping.path.clone()).or_insert_with(|| Opened {
            file: Binary::open(mapping, folders),
            named: BTreeSet::new(),
            unnamed: BTreeSet::new(),
        });
        let Some(offset) = address.checked_sub(mapping.start).and_then(|it| it.checked_add(mapping.offset)) else {
            return Vec::new();
        };
        let found = opened.file.as_ref().map_or_else(|_| Vec::new(), |file| file.functions(offset));
        let counted = if found.is_empty() { &mut opened.unnamed } else { &mut opened.named };
        counted.insert(offset);
        found
    }
}

impl Binary {
    fn open(mapping: &Mapping, folders: &[PathBuf]) -> Result<Self, String> {
        let path = Path::new(&mapping.path);
        let below = path.strip_prefix("/").unwrap_or(path);
        let name = path.file_name().map(Path::new).unwrap_or(path);
        let copies = folders.iter().flat_map(|it| [it.join(below), it.join(name)]);
        let path = copies.chain([path.to_owned()]).find(|it| it.is_file()).ok_or("the file is not on this machine")?;
        let elf = Elf::read(&path)?;
        if !elf.fits(mapping.offset, mapping.end - mapping.start) {
            return Err(
                "the file on this machine is not the one that was profiled: its segments lie elsewhere".to_owned()
            );
        }
        let debug_path = elf.build_id.as_ref().and_then(|id| debug_file::of_build(id, folders));
        let debug = debug_path.as_ref().and_then(|it| Some((it, Elf::read(it).ok()?)));
        let debug = debug.filter(|(_, it)| it.build_id == elf.build_id);
        let shared = debug.as_ref().and_then(|(path, debug)| debug_file::shared(path, debug, folders));
        let with_lines = debug.as_ref().map_or(&path, |(path, _)| *path);
        let lines = Loader::new_with_sup(with_lines, shared.as_ref()).ok();
        Ok(Self { debug: debug.map(|(_, debug)| debug), elf, lines })
    }

    /// The functions at a place in the file.
    fn functions(&self, offset: u64) -> Vec<Frame> {
        let Some(address) = self.elf.address(offset) else { return Vec::new() };
        let mut functions = self.with_lines(address);
        let symbol = self.debug.as_ref().and_then(|it| it.symbols.at(address)).or_else(|| self.elf.symbols.at(address));
        let symbol = symbol.map(|it| demangled(it.into()));
        match functions.last_mut() {
            None => functions.extend(symbol.map(|function| Frame { function, place: None })),
            Some(outermost) if outermost.function == "???" => {
                outermost.function = symbol.unwrap_or_else(|| "???".to_owned());
            }
            Some(_) => {}
        }
        functions.retain(|it| it.function != "???");
        functions
    }

    /// The functions by the debug information; inlined functions stand first.
    fn with_lines(&self, address: u64) -> Vec<Frame> {
        let found = self.lines.as_ref().and_then(|it| it.find_frames(address).ok());
        let Some(mut found) = found else { return Vec::new() };
        let mut functions = Vec::new();
        while let Ok(Some(frame)) = found.next() {
            let name = frame.function.and_then(|it| Some(demangled(it.raw_name().ok()?)));
            let place = frame.location.and_then(|it| {
                let file = it.file?;
                Some(format!("{}:{}", file.rsplit('/').next().unwrap_or(file), it.line.unwrap_or(0)))
            });
            functions.push(Frame { function: name.unwrap_or_else(|| "???".to_owned()), place });
        }
        functions
    }

    fn why_unnamed(&self) -> String {
        match (&self.debug, self.elf.symbols.is_empty()) {
            (Some(_), _) => "not all its functions are in its symbols".to_owned(),
            (None, true) => "it has no symbols; the package with its debug symbols has them".to_owned(),
            (None, false) => {
                "it has only the symbols that others call; the package with its debug symbols has all".to_owned()
            }
        }
    }
}

fn demangled(name: std::borrow::Cow<'_, str>) -> String {
    addr2line::demangle_auto(name, None).into_owned()
}
