// SPDX-License-Identifier: Apache-2.0
//! The symbols that a file has for the dynamic linker: elf(5).

use object::elf::FileHeader64;
use object::read::StringTable;
use object::read::elf::{ElfFile, SectionHeader as _, Sym as _};
use object::{Endianness, ReadCache, SymbolIndex};
use std::fs::File;

pub type Parsed<'a> = ElfFile<'a, FileHeader64<Endianness>, &'a ReadCache<File>>;

/// A symbol that a file offers to other files, or takes from them.
pub struct DynamicSymbol<'a> {
    pub name: &'a [u8],
    /// Before relocation; 0 for a symbol that is taken from another file.
    pub address: u64,
    /// The file offers it.
    pub is_defined: bool,
    /// The file takes it from another file.
    pub is_taken: bool,
    pub(crate) index: SymbolIndex,
}

/// The symbols of a file that is read through `cache`. All names are read at once: read one by one, each name costs two system calls, and the
/// libraries of one server have tens of thousands of names.
pub fn dynamic_symbols<'a>(parsed: &Parsed<'a>, cache: &'a ReadCache<File>) -> Vec<DynamicSymbol<'a>> {
    let (endian, table) = (parsed.endian(), parsed.elf_dynamic_symbol_table());
    let section = parsed.elf_section_table().section(table.string_section());
    let strings = section.and_then(|section| section.data(endian, cache)).unwrap_or_default();
    let names = StringTable::new(strings, 0, strings.len() as u64);
    let symbol = |(index, it): (SymbolIndex, &'a object::elf::Sym64<Endianness>)| {
        Some(DynamicSymbol {
            name: it.name(endian, names).ok()?,
            address: it.st_value(endian),
            is_defined: it.is_definition(endian, names),
            is_taken: it.is_undefined(endian),
            index,
        })
    };
    table.enumerate().filter_map(symbol).collect()
}
