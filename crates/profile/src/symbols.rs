// SPDX-License-Identifier: Apache-2.0
//! Which share of a program's functions a profile can name.
//!
//! The table for unwinding (`.eh_frame_hdr`, in the Linux Standard Base) tells how many functions there are; a stripped program has this table, too.
//! It has one entry for each function, and one for each part that the compiler has moved away from its function (`.text.unlikely`). Three tables of
//! symbols tell which functions have names: the program's own, the table of the names that it exports, and the table in a separate file for
//! debuggers, which is found by the program's build id.

use host::tool;
use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, ReadCache, SymbolKind};
use sandbox::{Installation, Source};
use serde::Serialize;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Where distributions put files for debuggers.
const DEBUG_FILES: &str = "/usr/lib/debug";

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Symbols {
    pub program: PathBuf,
    /// Functions and parts of functions. `None`: the program has no such table.
    pub functions: Option<u64>,
    /// How many of these functions lie in a symbol.
    pub named: u64,
    /// The file for debuggers, where this machine has it.
    pub debug_file: Option<PathBuf>,
    /// The package with the file for debuggers, as Debian and distributions made from it name it.
    pub package: Option<String>,
    /// Hexadecimal digits.
    pub build_id: Option<String>,
}

impl Symbols {
    /// The symbols of a server's program. `further`: one more folder with files for debuggers, as Valgrind's option `--extra-debuginfo-path` takes it. `None`: the
    /// program is not a 64-bit ELF file, or cannot be read.
    pub fn of(installation: &Installation, further: Option<&Path>) -> Option<Self> {
        let mut symbols = Self::of_program(&installation.program, further)?;
        symbols.package = package(installation);
        Some(symbols)
    }

    fn of_program(program: &Path, further: Option<&Path>) -> Option<Self> {
        let cache = ReadCache::new(File::open(program).ok()?);
        let elf = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
        let build_id: Option<String> =
            elf.build_id().ok().flatten().map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect());
        let mut named = Vec::new();
        ranges(&elf, &mut named);
        let folders = further.into_iter().chain([Path::new(DEBUG_FILES)]);
        let debug_file = build_id.as_deref().and_then(|id| {
            let (first, rest) = id.split_at_checked(2)?;
            let place = format!(".build-id/{first}/{rest}.debug");
            folders.map(|folder| folder.join(&place)).find(|file| file.is_file())
        });
        if let Some(file) = debug_file.as_deref().and_then(|path| File::open(path).ok()) {
            let cache = ReadCache::new(file);
            ElfFile64::<Endianness, _>::parse(&cache).iter().for_each(|elf| ranges(elf, &mut named));
        }
        let starts = elf.section_by_name(".eh_frame_hdr").and_then(|section| {
            let little = elf.endianness() == Endianness::Little;
            starts(section.data().ok()?, section.address()).filter(|_| little)
        });
        let count = starts.as_ref().map(|starts| count_within(starts, named));
        Some(Self {
            program: program.to_owned(),
            functions: starts.map(|starts| starts.len() as u64),
            named: count.unwrap_or(0),
            debug_file,
            package: None,
            build_id,
        })
    }

    /// The share of functions with a name, 0 to 1. `None`: the number of functions is not known.
    pub fn share(&self) -> Option<f64> {
        self.functions.filter(|all| *all > 0).map(|all| self.named as f64 / all as f64)
    }
}

/// The range of addresses of each function that has a name.
fn ranges<'a>(elf: &ElfFile64<'a, Endianness, &'a ReadCache<File>>, found: &mut Vec<(u64, u64)>) {
    let symbols = elf.symbols().chain(elf.dynamic_symbols());
    let functions = symbols.filter(|it| it.is_definition() && it.kind() == SymbolKind::Text && it.address() > 0);
    found.extend(functions.map(|it| (it.address(), it.address().saturating_add(it.size().max(1)))));
}

/// How many of these addresses, which ascend, lie in a range.
fn count_within(starts: &[u64], mut ranges: Vec<(u64, u64)>) -> u64 {
    ranges.sort_unstable();
    let (mut next, mut reaches, mut count) = (0, 0, 0);
    for start in starts {
        while let Some((_, end)) = ranges.get(next).filter(|(from, _)| from <= start) {
            reaches = reaches.max(*end);
            next += 1;
        }
        count += u64::from(*start < reaches);
    }
    count
}

/// The addresses at which functions begin, ascending. They stand in a table for binary search; each of its entries has two numbers of 32 bits, relative
/// to the section (encodings 0x3b and 0x03, which the linkers write). `None`: the table has another encoding.
fn starts(table: &[u8], address: u64) -> Option<Vec<u64>> {
    const VERSION: u8 = 1;
    const FOUR_BYTES: [u8; 2] = [0x03, 0x0b]; // udata4, sdata4
    let (head, rest) = table.split_at_checked(4)?;
    let [version, pointer, count_encoding, encoding] = head else { return None };
    if *version != VERSION || !FOUR_BYTES.contains(&(pointer & 0x0f)) || *count_encoding != 0x03 || *encoding != 0x3b {
        return None;
    }
    let word = |bytes: &[u8]| bytes.first_chunk::<4>().map(|four| i32::from_le_bytes(*four));
    let count = usize::try_from(word(rest.get(4..)?)?).ok()?;
    let entries = rest.get(8..)?.get(..count.checked_mul(8)?)?;
    let mut starts: Vec<u64> =
        entries.chunks_exact(8).filter_map(|entry| address.checked_add_signed(word(entry)?.into())).collect();
    starts.sort_unstable();
    Some(starts)
}

/// The package with the file for debuggers: Debian and distributions made from it name it like the program's package, with this ending.
fn package(installation: &Installation) -> Option<String> {
    let owner = match &installation.source {
        Source::Package { name, .. } => {
            // the package that was asked for may be one that only depends on the program's package
            owner_of(&installation.program).or_else(|| Some(name.clone()))?
        }
        Source::Installed => owner_of(&installation.program)?,
        Source::Artifact { .. } | Source::Archive { .. } => return None,
    };
    Some(format!("{owner}-dbgsym"))
}

/// The package that has installed this file.
fn owner_of(program: &Path) -> Option<String> {
    let mut command = tool::command(tool::find("dpkg-query")?);
    let output = command.arg("--search").arg(program).env("LC_ALL", "C").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let owner = text.lines().next()?.split_once(": ")?.0;
    Some(owner.split(':').next().unwrap_or(owner).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_within_ranges_are_counted() {
        assert_eq!(count_within(&[10, 20, 30, 40], vec![(30, 31), (8, 21), (9, 12)]), 3);
        assert_eq!(count_within(&[10, 20], vec![]), 0);
        assert_eq!(count_within(&[10], vec![(1, 10)]), 0, "the end is not in it");
    }

    #[test]
    fn a_table_that_is_cut_short_or_of_another_kind_tells_nothing() {
        let mut table = vec![1, 0x1b, 0x03, 0x3b, 0, 0, 0, 0, 2, 0, 0, 0];
        for start in [-16_i32, 0, 32, 0] {
            table.extend(start.to_le_bytes());
        }
        assert_eq!(starts(&table, 0x1000), Some(vec![0xff0, 0x1020]));
        assert_eq!(starts(&table[..table.len() - 1], 0x1000), None);
        table[3] = 0x1b;
        assert_eq!(starts(&table, 0x1000), None);
        assert_eq!(starts(&[], 0), None);
    }

    /// The program of a test has all its symbols.
    #[test]
    #[cfg(target_env = "gnu")]
    fn of_this_test() {
        let own = Symbols::of_program(&std::env::current_exe().expect("a path"), None).expect("an ELF file");
        assert!(own.share().is_some_and(|share| share > 0.9), "{own:?}");
        assert_eq!(Symbols::of_program(Path::new("/proc/self/maps"), None), None);
    }
}
