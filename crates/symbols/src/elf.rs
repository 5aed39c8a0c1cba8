// SPDX-License-Identifier: Apache-2.0
//! The segments and symbols of an ELF file.

use object::read::elf::{ElfFile64, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSymbol as _, ReadCache, SymbolKind, elf};
use std::fs::File;
use std::path::Path;

/// The size of a page: mappings begin and end at multiples of it.
const PAGE: u64 = 4096;

/// A part of the file that is mapped to be executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Its place in the file.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// Its address, in the file's own addresses.
    pub(crate) address: u64,
}

/// What is read from one ELF file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Elf {
    pub(crate) segments: Vec<Segment>,
    pub(crate) build_id: Option<Vec<u8>>,
    /// In a debug file: the file with parts that several debug files share, and the build id of that file (`.gnu_debugaltlink`, made by dwz).
    pub(crate) shared: Option<(Vec<u8>, Vec<u8>)>,
    pub(crate) symbols: Functions,
}

impl Elf {
    /// # Errors
    /// A text: the file cannot be read, or is not an ELF file of 64 bits.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let cache = ReadCache::new(File::open(path).map_err(|error| error.to_string())?);
        let file: ElfFile64<'_, Endianness, _> = ElfFile64::parse(&cache).map_err(|error| error.to_string())?;
        let endian = file.endian();
        let loaded = file.elf_program_headers().iter().filter(|it| it.p_type(endian) == elf::PT_LOAD);
        let executed = loaded.filter(|it| it.p_flags(endian).0 & elf::PF_X.0 != 0);
        let segment = |it: &elf::ProgramHeader64<Endianness>| Segment {
            offset: it.p_offset(endian),
            bytes: it.p_filesz(endian),
            address: it.p_vaddr(endian),
        };
        Ok(Self {
            segments: executed.map(segment).collect(),
            build_id: file.build_id().ok().flatten().map(<[u8]>::to_vec),
            shared: file.gnu_debugaltlink().ok().flatten().map(|(name, id)| (name.to_vec(), id.to_vec())),
            symbols: Functions::of(&file),
        })
    }

    /// The address of a place in the file, in the file's own addresses.
    pub(crate) fn address(&self, offset: u64) -> Option<u64> {
        let holds = |it: &&Segment| (it.offset..it.offset.saturating_add(it.bytes)).contains(&offset);
        let segment = self.segments.iter().find(holds)?;
        segment.address.checked_add(offset - segment.offset)
    }

    /// Whether so many bytes of the file from an offset on can have been mapped to be executed.
    pub(crate) fn fits(&self, offset: u64, bytes: u64) -> bool {
        self.segments.iter().any(|it| {
            let begin = it.offset - it.offset % PAGE;
            let end = it.offset.saturating_add(it.bytes).div_ceil(PAGE).saturating_mul(PAGE);
            offset >= begin && offset.saturating_add(bytes) <= end
        })
    }
}

/// Functions, sorted by their addresses.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Functions {
    /// Address, size, name; by address.
    all: Vec<(u64, u64, String)>,
}

impl Functions {
    fn of<'a>(file: &impl object::Object<'a>) -> Self {
        let mut all: Vec<(u64, u64, String)> = Vec::new();
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            let is_function = symbol.kind() == SymbolKind::Text && symbol.size() > 0 && symbol.is_definition();
            if let Some(name) = symbol.name().ok().filter(|name| is_function && !name.is_empty()) {
                all.push((symbol.address(), symbol.size(), name.to_owned()));
            }
        }
        all.sort_by(|a, b| (a.0, b.1).cmp(&(b.0, a.1)));
        all.dedup_by_key(|(address, ..)| *address);
        Self { all }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn at(&self, address: u64) -> Option<&str> {
        let behind = self.all.partition_point(|(begin, ..)| *begin <= address);
        let (begin, size, name) = self.all.get(behind.checked_sub(1)?)?;
        (address - begin < *size).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_the_file_has_an_address() {
        let segment = Segment { offset: 0x1234, bytes: 0x3000, address: 0x40_1234 };
        let elf = Elf { segments: vec![segment], ..Elf::default() };
        assert_eq!(elf.address(0x1300), Some(0x40_1300));
        assert_eq!([elf.address(0x1233), elf.address(0x4234)], [None, None]);
        assert!(elf.fits(0x1000, 0x4000) && elf.fits(0x2000, 0x1000));
        assert!(!elf.fits(0x1000, 0x5000) && !elf.fits(0, 0x1000), "another build of it");
    }

    #[test]
    fn a_function_has_an_end() {
        let functions = Functions { all: vec![(10, 5, "a".into()), (20, 5, "b".into())] };
        let at = |address| functions.at(address);
        assert_eq!([at(9), at(10), at(14), at(15), at(24)], [None, Some("a"), Some("a"), None, Some("b")]);
    }
}
