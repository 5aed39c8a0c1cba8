// SPDX-License-Identifier: Apache-2.0
//! The probe on the function in which queries wait for a free page: the function's place in the program's file, and its hits on the watch's clock.

use crate::server::ServerKind;
use ::stalls::watch::{Hit, Missing, Probe};
use capability::{Function, waiting_function};
use host::clock::{RunClock, monotonic_time, thread_cpu_time};
use host::uprobe::Uprobe;
use object::elf::{self, FileHeader64};
use object::read::elf::{ElfFile, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSymbol as _, ReadCache};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

const WHAT: &str = "each wait for a free page, by probes";
/// The folder for symbols of distributions' programs, by the program's build id.
const SYMBOLS: &str = "/usr/lib/debug/.build-id";

/// A probe that exists until this is dropped.
#[derive(Debug)]
pub(super) struct Probing {
    uprobe: Uprobe,
    symbol: &'static str,
    /// The time from boot to the begin of the watch's clock, in microseconds.
    zero_us: u64,
    pub(super) hits: u64,
    pub(super) cpu: Duration,
}

impl Probing {
    /// `kind`: the kind of the server that is asked, if there is one.
    ///
    /// # Errors
    /// Why there is no probe, and what would help.
    pub(super) fn start(pid: u32, kind: Option<&ServerKind>, clock: RunClock) -> Result<Self, Missing> {
        let missing = |why: String, remedy: Option<&str>| {
            let remedy = remedy.map(str::to_owned);
            Missing { what: WHAT.to_owned(), why, remedy }
        };
        let Some(kind) = kind else {
            let why = "no server is asked, and nothing else says which version it is".to_owned();
            return Err(missing(why, Some("a connection: --sandbox, --dsn, --mysql-socket, ...")));
        };
        let Some(function) = waiting_function(kind.flavour, &kind.version) else {
            let why =
                format!("nobody has looked how {} {} calls that function, or it has none", kind.flavour, kind.version);
            return Err(missing(why, None));
        };
        let program = PathBuf::from(format!("/proc/{pid}/exe"));
        let offset = place(pid, &program, function).map_err(|(why, remedy)| missing(why, remedy.as_deref()))?;
        let uprobe =
            Uprobe::open(pid, &program, offset).map_err(|error| missing(host::chain(&error), error.remedy()))?;
        let zero_us = micros(monotonic_time()).saturating_sub(clock.now_us());
        Ok(Self { uprobe, symbol: function.symbol, zero_us, hits: 0, cpu: Duration::ZERO })
    }

    pub(super) fn probe(&self, least: Duration) -> Probe {
        Probe { symbol: self.symbol, least_us: micros(least) }
    }

    /// The hits since the last call, without those of the last millisecond; at the end (`all`) including them.
    pub(super) fn take(&mut self, all: bool) -> Vec<Hit> {
        let before = thread_cpu_time();
        let hits = if all { self.uprobe.take_all() } else { self.uprobe.take() };
        let zero_us = self.zero_us;
        let hits: Vec<Hit> = hits
            .into_iter()
            .map(|hit| Hit {
                thread: hit.thread,
                at_us: (hit.at_ns / 1000).saturating_sub(zero_us),
                is_return: hit.is_return,
            })
            .collect();
        self.hits += hits.len() as u64;
        self.cpu += thread_cpu_time().saturating_sub(before);
        hits
    }

    pub(super) fn lost(&self) -> u64 {
        self.uprobe.lost()
    }
}

type Refusal = (String, Option<String>);
type Elf<'a> = ElfFile<'a, FileHeader64<Endianness>, &'a ReadCache<File>>;

/// The offset of the function in the program's file, in bytes.
fn place(pid: u32, program: &Path, function: &Function) -> Result<u64, Refusal> {
    let cache = ReadCache::new(open(program)?);
    let parsed = parse(program, &cache)?;
    let name = || std::fs::read_link(program).unwrap_or_else(|_| program.to_owned()).display().to_string();
    let mut address = address(&parsed, function.symbol);
    let mut looked = Vec::new();
    if address.is_none() {
        for path in symbol_files(pid, &parsed) {
            let other = File::open(&path).ok().map(ReadCache::new);
            address = other.and_then(|other| {
                let symbols = Elf::parse(&other).ok()?;
                self::address(&symbols, function.symbol)
            });
            looked.push(path.display().to_string());
            if address.is_some() {
                break;
            }
        }
    }
    let Some(address) = address else {
        let symbol = function.symbol;
        if parsed.symbols().next().is_some() {
            return Err((
                format!(
                    "{} has a table of symbols, and {symbol} is not in it: this build calls it otherwise, or has no function of its own for it",
                    name()
                ),
                None,
            ));
        }
        let why = format!("{} is stripped: it has no symbol {symbol}; nor has {}", name(), looked.join(" or "));
        return Err((why, Some(format!("the package with the symbols of just this build: {}", function.package))));
    };
    offset(&parsed, address)
        .ok_or_else(|| (format!("{}: the address {address:#x} is in no part of it that is executed", name()), None))
}

fn open(program: &Path) -> Result<File, Refusal> {
    File::open(program).map_err(|error| {
        let remedy = "root, or the server's own user with CAP_PERFMON".to_owned();
        (format!("{}: {error}", program.display()), Some(remedy))
    })
}

fn parse<'a>(program: &Path, cache: &'a ReadCache<File>) -> Result<Elf<'a>, Refusal> {
    Elf::parse(cache).map_err(|error| (format!("{} is no 64-bit ELF program: {error}", program.display()), None))
}

fn address(parsed: &Elf<'_>, symbol: &str) -> Option<u64> {
    let is_it = |it: &object::read::elf::ElfSymbol<'_, '_, FileHeader64<Endianness>, &ReadCache<File>>| {
        it.address() != 0 && it.name() == Ok(symbol)
    };
    parsed.symbols().chain(parsed.dynamic_symbols()).find(is_it).map(|it| it.address())
}

/// Files with the symbols of a stripped program: in the server's own view of the file system, and in ours.
fn symbol_files(pid: u32, parsed: &Elf<'_>) -> Vec<PathBuf> {
    let Ok(Some(id)) = parsed.build_id() else { return Vec::new() };
    let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let Some((folder, rest)) = id.split_at_checked(2) else { return Vec::new() };
    let below = format!("{SYMBOLS}/{folder}/{rest}.debug");
    vec![PathBuf::from(format!("/proc/{pid}/root{below}")), PathBuf::from(below)]
}

fn offset(parsed: &Elf<'_>, address: u64) -> Option<u64> {
    let endian = parsed.endian();
    let segments = parsed.elf_program_headers().iter();
    let mut executed =
        segments.filter(|it| it.p_type(endian) == elf::PT_LOAD && it.p_flags(endian) & elf::PF_X == elf::PF_X);
    executed.find_map(|it| {
        let within = address.checked_sub(it.p_vaddr(endian))?;
        (within < it.p_filesz(endian)).then(|| it.p_offset(endian) + within)
    })
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use capability::{Flavour, Version};

    fn function(symbol: &'static str) -> Function {
        let of = waiting_function(Flavour::Mariadb, &Version::of(&[10, 1, 23])).expect("known");
        Function { symbol, ..*of }
    }

    /// The name is not mangled, and is in this program's own table.
    #[unsafe(no_mangle)]
    #[inline(never)]
    extern "C" fn wringer_observe_probed_function() -> u32 {
        std::hint::black_box(7)
    }

    #[test]
    fn the_place_of_a_function_in_the_file_is_where_it_is_loaded_from() {
        let loaded = wringer_observe_probed_function as extern "C" fn() -> u32 as usize as u64;
        let maps = std::fs::read_to_string("/proc/self/maps").expect("our own");
        let expected = ledger::mapping::mappings(&maps)
            .into_iter()
            .find_map(|it| (it.start..it.end).contains(&loaded).then_some(loaded - it.start + it.offset));
        let found =
            place(std::process::id(), Path::new("/proc/self/exe"), &function("wringer_observe_probed_function"));
        assert_eq!(found.ok(), expected);
    }

    #[test]
    fn what_is_not_there_is_told_with_what_would_help() {
        let exe = Path::new("/proc/self/exe");
        let (why, remedy) = place(std::process::id(), exe, &function("no_such_function")).expect_err("not there");
        assert!(why.contains("no_such_function is not in it") && remedy.is_none(), "{why} {remedy:?}");
        let (why, _) = place(1, Path::new("/proc/self/status"), &function("x")).expect_err("text");
        assert!(why.contains("no 64-bit ELF"), "{why}");
        let (why, _) = place(1, Path::new("/nowhere"), &function("x")).expect_err("no file");
        assert!(why.contains("/nowhere"), "{why}");
        let of = |kind| Probing::start(std::process::id(), kind, RunClock::start()).expect_err("no such server");
        assert!(of(None).remedy.is_some());
        let kind = ServerKind { flavour: Flavour::Postgresql, version: Version::of(&[15]) };
        assert!(of(Some(&kind)).why.contains("nobody has looked"));
    }
}
