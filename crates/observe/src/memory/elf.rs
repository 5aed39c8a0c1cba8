// SPDX-License-Identifier: Apache-2.0
//! Facts from the file of a program or a library: exported names, needed libraries, constant text.

use ledger::Mapping;
use malloc::{Parsed, dynamic_symbols, open_plain};
use object::elf::{self, FileHeader64};
use object::read::elf::{ElfFile, FileHeader as _, ProgramHeader as _};
use object::{Endianness, ReadCache};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// The exported names that are looked up.
const NAMES: [&str; 2] = ["TopMemoryContext", "my_once_root_block"];

pub(super) struct Program {
    file: File,
    /// The path in `maps`.
    path: String,
    /// Whether it is loaded at an address that differs from run to run.
    is_relocated: bool,
    segments: Vec<Segment>,
    names: BTreeMap<&'static str, u64>,
}

struct Segment {
    address: u64,
    length: u64,
    offset: u64,
    is_constant: bool,
}

/// The first bytes of a plain file, at most `most`. The owner of the process that names it may have put anything there.
pub(super) fn read_plain(path: &Path, most: u64) -> Option<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    open_plain(path)?.take(most).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

impl Program {
    /// The program of a process, also when a loader runs it.
    pub(super) fn of(pid: u32, mappings: &[Mapping]) -> Option<Self> {
        let link = format!("/proc/{pid}/exe");
        let path = fs::read_link(&link).ok()?.display().to_string();
        if !file_name(&path).starts_with("ld-") {
            return Some(Self { path, ..Self::open(Path::new(&link))? });
        }
        let is_program =
            |it: &&Mapping| it.path.starts_with('/') && it.offset == 0 && !file_name(&it.path).contains(".so");
        let mut loaded = mappings.iter().filter(is_program);
        loaded.find_map(|it| Some(Self { path: it.path.clone(), ..Self::open(&in_root(pid, &it.path))? }))
    }

    pub(super) fn open(path: &Path) -> Option<Self> {
        let file = open_plain(path)?;
        let cache = ReadCache::new(file.try_clone().ok()?);
        let parsed = ElfFile::<FileHeader64<Endianness>, _>::parse(&cache).ok()?;
        let endian = parsed.endian();
        let segments = parsed.elf_program_headers().iter().filter(|it| it.p_type(endian) == elf::PT_LOAD);
        let segments = segments.map(|it| segment(it, endian)).collect();
        let is_relocated = parsed.elf_header().e_type(endian) == elf::ET_DYN;
        let names = names(&parsed, &cache);
        let path = path.display().to_string();
        Some(Self { file, path, is_relocated, segments, names })
    }

    /// The address of an exported name in a process with these mappings.
    pub(super) fn address(&self, name: &str, mappings: &[Mapping]) -> Option<u64> {
        Some(self.base(mappings)? + self.names.get(name)?)
    }

    fn base(&self, mappings: &[Mapping]) -> Option<u64> {
        if !self.is_relocated {
            return Some(0);
        }
        let first = self.segments.iter().find(|it| it.offset == 0)?;
        let loaded = mappings.iter().find(|it| it.path == self.path && it.offset == 0)?;
        loaded.start.checked_sub(first.address)
    }

    /// A text that ends with a zero byte, if it is in the program's file and the process cannot have changed it.
    pub(super) fn text(&self, at: u64, mappings: &[Mapping]) -> Option<String> {
        let address = at.checked_sub(self.base(mappings)?)?;
        let holds = |it: &&Segment| it.is_constant && (it.address..it.address + it.length).contains(&address);
        let segment = self.segments.iter().find(holds)?;
        let mut bytes = [0; 128];
        let read = self.file.read_at(&mut bytes, segment.offset + (address - segment.address)).ok()?;
        let end = bytes[..read].iter().position(|byte| *byte == 0)?;
        String::from_utf8(bytes[..end].to_vec()).ok()
    }
}

pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// A path that a process names, in the process's own view of the file system.
pub(super) fn in_root(pid: u32, path: &str) -> PathBuf {
    Path::new(&format!("/proc/{pid}/root")).join(path.trim_start_matches('/'))
}

fn segment(header: &elf::ProgramHeader64<Endianness>, endian: Endianness) -> Segment {
    Segment {
        address: header.p_vaddr(endian),
        length: header.p_filesz(endian),
        offset: header.p_offset(endian),
        is_constant: header.p_flags(endian).0 & elf::PF_W.0 == 0,
    }
}

fn names(parsed: &Parsed<'_>, cache: &ReadCache<File>) -> BTreeMap<&'static str, u64> {
    let mut found = BTreeMap::new();
    for symbol in dynamic_symbols(parsed, cache).into_iter().filter(|symbol| symbol.is_defined) {
        if let Some(wanted) = NAMES.into_iter().find(|wanted| wanted.as_bytes() == symbol.name) {
            found.insert(wanted, symbol.address);
        }
    }
    found
}

#[cfg(test)]
#[cfg(target_env = "gnu")]
mod tests {
    use super::*;

    #[test]
    fn of_this_test() {
        let mut reading = super::super::reading::Reading::begin(super::super::Options::default());
        let mappings = super::super::target::own(&mut reading).maps(&mut reading).unwrap();
        let own = Program::of(std::process::id(), &mappings).unwrap();
        assert!(own.names.is_empty() && Program::open(Path::new("/proc/self/maps")).is_none());
        let text = c"a text that does not change";
        assert_eq!(own.text(text.as_ptr() as u64, &mappings).as_deref(), text.to_str().ok());
        assert_eq!(own.text(&raw const reading as u64, &mappings), None, "on the stack");
    }

    /// Reading such a file would never end, or would fill the memory.
    #[test]
    fn what_is_no_plain_file_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        assert!(Program::open(&fifo).is_none() && read_plain(&fifo, 10).is_none());
        assert!(read_plain(Path::new("/dev/zero"), 10).is_none());
        assert_eq!(read_plain(Path::new("/proc/self/exe"), 4).as_deref(), Some(&b"\x7fELF"[..]));
    }
}
