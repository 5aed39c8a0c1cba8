// SPDX-License-Identifier: Apache-2.0
//! What the file of a program or a library tells of its malloc, its libraries and its versions: elf(5).

use crate::symbols::{DynamicSymbol, Parsed, dynamic_symbols};
use capability::MallocKind;
use object::elf::{self, FileHeader64};
use object::read::elf::{ElfFile, FileHeader as _, ProgramHeader as _};
use object::{Endianness, Object as _, ReadCache, RelocationTarget};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

pub(crate) const MALLOC: &str = "malloc";
/// `operator new(size_t)`, by which C++ asks for memory.
pub(crate) const OPERATOR_NEW: &str = "_Znwm";

/// What is read from one file of 64 bit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Elf {
    /// The file has a table of symbols for the dynamic linker: a static program has none.
    pub is_dynamic: bool,
    /// The functions that this file defines, of those that this module looks for.
    exports: BTreeSet<&'static str>,
    /// Functions that the file takes from other files, and where the linker writes their addresses, before relocation.
    slots: BTreeMap<&'static str, u64>,
    /// The libraries that the file needs, in the order in which the linker searches them.
    pub needs: Vec<String>,
    /// The address of the file's first byte, before relocation. `None`: nothing of it is loaded.
    first_address: Option<u64>,
    is_relocated: bool,
    /// Versions of symbols that the file needs, each with the name of the library: (`libc.so.6`, `GLIBC_2.34`).
    pub versions_needed: Vec<(String, String)>,
    /// Versions of symbols that the file offers.
    pub versions: BTreeSet<String>,
}

/// For which machine a file is: `e_machine`, and whether it is of 64 bit. `None`: no ELF file.
pub(crate) fn machine(path: &Path) -> Option<(u16, bool)> {
    let mut head = [0_u8; 20];
    open_plain(path)?.read_exact(&mut head).ok()?;
    // EI_CLASS: 2 is 64 bit; EI_DATA: 1 is little-endian, 2 big-endian
    match head {
        [0x7f, b'E', b'L', b'F', class, 1, .., low, high] => Some((u16::from_le_bytes([low, high]), class == 2)),
        [0x7f, b'E', b'L', b'F', class, 2, .., high, low] => Some((u16::from_be_bytes([high, low]), class == 2)),
        _ => None,
    }
}

/// Opens a plain file, and nothing else: the owner of a process may have put a FIFO that nobody writes to there, or a device.
pub fn open_plain(path: &Path) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    fs::metadata(path).ok()?.is_file().then_some(())?;
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    #[allow(clippy::disallowed_methods)] // reads only
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().ok()?.is_file().then_some(file)
}

impl Elf {
    /// `None`: no such file, or none of 64 bit that can be read.
    pub fn open(path: &Path) -> Option<Self> {
        let cache = ReadCache::new(open_plain(path)?);
        let parsed = ElfFile::<FileHeader64<Endianness>, _>::parse(&cache).ok()?;
        Some(Self::of(&parsed, &cache))
    }

    fn of(parsed: &Parsed<'_>, cache: &ReadCache<File>) -> Self {
        let endian = parsed.endian();
        let loaded = parsed.elf_program_headers().iter().filter(|it| it.p_type(endian) == elf::PT_LOAD);
        let first_address = loaded.map(|it| it.p_vaddr(endian).wrapping_sub(it.p_offset(endian))).next();
        let (versions_needed, versions) = versions(parsed, cache).unwrap_or_default();
        let needs = needs(parsed, cache);
        let symbols = dynamic_symbols(parsed, cache);
        Self {
            is_dynamic: needs.is_some(),
            exports: exports(&symbols),
            slots: slots(parsed, &symbols),
            needs: needs.unwrap_or_default(),
            first_address,
            is_relocated: parsed.elf_header().e_type(endian) == elf::ET_DYN,
            versions_needed,
            versions,
        }
    }

    pub fn exports(&self, name: &str) -> bool {
        self.exports.contains(name)
    }

    /// Whether a program that links this file may get its memory from it.
    pub fn has_malloc(&self) -> bool {
        self.exports(MALLOC)
    }

    /// Whether C++ may get its memory from it without asking malloc.
    pub fn has_operator_new(&self) -> bool {
        self.exports(OPERATOR_NEW)
    }

    /// Which malloc this file has, by a function that only this malloc's library has.
    pub fn kind(&self) -> Option<MallocKind> {
        // the C library is looked for last: another library may replace some of its functions
        let all = MallocKind::ALL.into_iter().rev();
        all.filter(|_| self.has_malloc()).find(|kind| self.exports(kind.mark()))
    }

    /// Where its slot for `name` is in a process that has mapped its first byte at `start`.
    pub(crate) fn slot(&self, name: &str, start: u64) -> Option<u64> {
        let slot = *self.slots.get(name)?;
        if !self.is_relocated {
            return Some(slot);
        }
        start.checked_sub(self.first_address?)?.checked_add(slot)
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    [MALLOC, OPERATOR_NEW].into_iter().chain(MallocKind::ALL.map(MallocKind::mark))
}

fn exports(symbols: &[DynamicSymbol<'_>]) -> BTreeSet<&'static str> {
    let defined = symbols.iter().filter(|symbol| symbol.is_defined);
    defined.filter_map(|symbol| names().find(|name| name.as_bytes() == symbol.name)).collect()
}

fn slots(parsed: &Parsed<'_>, symbols: &[DynamicSymbol<'_>]) -> BTreeMap<&'static str, u64> {
    let asked: Vec<_> = symbols
        .iter()
        .filter(|symbol| symbol.is_taken)
        .filter_map(|symbol| {
            let name = [MALLOC, OPERATOR_NEW].into_iter().find(|name| name.as_bytes() == symbol.name)?;
            Some((RelocationTarget::Symbol(symbol.index), name))
        })
        .collect();
    if asked.is_empty() {
        return BTreeMap::new();
    }
    let mut found = BTreeMap::new();
    for (address, relocation) in parsed.dynamic_relocations().into_iter().flatten() {
        if let Some((_, name)) = asked.iter().find(|(symbol, _)| *symbol == relocation.target()) {
            found.entry(*name).or_insert(address);
        }
    }
    found
}

fn needs(parsed: &Parsed<'_>, cache: &ReadCache<File>) -> Option<Vec<String>> {
    let endian = parsed.endian();
    let has_table = parsed.elf_program_headers().iter().any(|it| it.p_type(endian) == elf::PT_DYNAMIC);
    has_table.then_some(())?;
    let table = parsed.elf_section_table().dynamic_table(endian, cache).ok()?;
    let needed = table.iter().filter(|entry| entry.tag == elf::DT_NEEDED);
    let names = needed.filter_map(|entry| table.string(entry).ok());
    Some(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

type Versions = (Vec<(String, String)>, BTreeSet<String>);

fn versions(parsed: &Parsed<'_>, cache: &ReadCache<File>) -> Option<Versions> {
    let (endian, sections) = (parsed.endian(), parsed.elf_section_table());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut needed = Vec::new();
    if let Some((mut files, link)) = sections.gnu_verneed(endian, cache).ok()? {
        let strings = sections.strings(endian, cache, link).ok()?;
        while let Ok(Some((file, mut entries))) = files.next() {
            let name = text(file.file(endian, strings).ok()?);
            while let Ok(Some(entry)) = entries.next() {
                needed.push((name.clone(), text(entry.name(endian, strings).ok()?)));
            }
        }
    }
    let mut has = BTreeSet::new();
    if let Some((mut definitions, link)) = sections.gnu_verdef(endian, cache).ok()? {
        let strings = sections.strings(endian, cache, link).ok()?;
        while let Ok(Some((_, mut names))) = definitions.next() {
            if let Ok(Some(name)) = names.next() {
                has.insert(text(name.name(endian, strings).ok()?));
            }
        }
    }
    Some((needed, has))
}

#[cfg(test)]
#[cfg(target_env = "gnu")]
mod tests {
    use super::*;

    #[test]
    fn of_this_test() {
        let own = Elf::open(Path::new("/proc/self/exe")).unwrap();
        assert!(own.is_dynamic && own.needs.iter().any(|name| name == "libc.so.6"), "{:?}", own.needs);
        assert!(!own.has_malloc() && own.slots.contains_key(MALLOC), "{:?}", own.slots);
        assert!(own.versions_needed.iter().any(|(file, version)| file == "libc.so.6" && version.starts_with("GLIBC_")));
    }

    /// A reader of such a file would wait without end, or fill the memory.
    #[test]
    fn what_is_no_plain_file_is_not_opened() {
        for path in ["/dev/zero", "/proc/self/maps", "/", "/no/such/file"] {
            assert!(Elf::open(Path::new(path)).is_none() && machine(Path::new(path)).is_none(), "{path}");
        }
    }
}
