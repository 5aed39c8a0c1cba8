// SPDX-License-Identifier: Apache-2.0
//! Who serves malloc in a process. The address that the dynamic linker has written into the program's slot for `malloc` tells it. Where this user
//! may not read that memory, the linker's order tells it; that is an inference, and the answer says so.

use crate::elf::{MALLOC, OPERATOR_NEW, open_plain};
use crate::process::{Loaded, Process, file_name};
use capability::MallocKind;
use ledger::Mapping;
use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// How it is known who serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// The address that the program calls was read in its memory; or the program has its malloc itself.
    Resolved,
    /// From what was preloaded and linked: nothing of the process's memory was read.
    Inferred,
    Unknown,
}

/// Who serves malloc in one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serving {
    /// `None`: a library that Wringer does not know serves, or it is not known who serves.
    pub kind: Option<MallocKind>,
    /// `glibc 2.36`, `jemalloc`, `tcmalloc`, `mimalloc`, the file name of another library, or `unknown`.
    pub name: String,
    /// The library's file, as the process has mapped it.
    pub file: Option<PathBuf>,
    pub how: How,
    /// How it is known who serves, or why it is not known.
    pub evidence: String,
    /// Who serves C++'s `operator new`, where another library does and does not ask malloc.
    pub operator_new: Option<String>,
    /// Other mallocs that are mapped, and serve nothing.
    pub idle: Vec<String>,
}

/// Who serves malloc in a process.
pub fn serving(pid: u32) -> Serving {
    of(pid, Process::open(pid, true))
}

/// As [`serving`], when the process's mappings have been read already.
pub fn serving_with(pid: u32, mappings: Vec<Mapping>) -> Serving {
    of(pid, Some(Process::with(pid, mappings)))
}

/// As [`serving`], without reading the process's memory: the answer for a user who may not trace the process.
pub fn inferred(pid: u32) -> Serving {
    of(pid, Process::open(pid, false))
}

impl Serving {
    fn unknown(why: impl Into<String>) -> Self {
        Self {
            kind: None,
            name: "unknown".into(),
            file: None,
            how: How::Unknown,
            evidence: why.into(),
            operator_new: None,
            idle: Vec::new(),
        }
    }

    pub fn is_known(&self) -> bool {
        self.how != How::Unknown
    }
}

fn of(pid: u32, process: Option<Process>) -> Serving {
    let Some(process) = process else {
        return Serving::unknown(format!("/proc/{pid}/maps cannot be read: run as root or as the server's user"));
    };
    let Some(program) = process.program() else {
        return Serving::unknown(format!("the program of process {pid} cannot be read"));
    };
    let name = file_name(&program.path);
    if !program.elf.is_dynamic {
        return Serving::unknown(format!("{name} is a static program: nothing outside of it says which malloc it has"));
    }
    if program.elf.has_malloc() {
        return built_in(&process, &program);
    }
    let resolved = program.resolved(MALLOC, &process).and_then(|address| process.code_at(address));
    // a slot that has not been used yet leads back into the program
    let resolved = resolved.filter(|path| *path != program.path);
    match resolved {
        Some(path) => {
            let evidence = format!("the address that {name} calls, in /proc/{pid}/mem");
            of_library(&process, &program, path, How::Resolved, evidence)
        }
        None => by_order(&process, &program),
    }
}

/// A program with a malloc of its own: it stands first in the linker's order, and no library can come before it.
fn built_in(process: &Process, program: &Loaded) -> Serving {
    let name = file_name(&program.path);
    let Some(kind) = program.elf.kind() else {
        return Serving::unknown(format!("{name} is linked with a malloc of its own, and does not say which"));
    };
    let evidence = format!("{name} has it in itself: it exports malloc and {}", kind.mark());
    Serving {
        kind: Some(kind),
        name: kind.name().into(),
        file: Some(program.path.clone().into()),
        how: How::Resolved,
        evidence,
        operator_new: None,
        idle: idle(process, &program.path),
    }
}

fn of_library(process: &Process, program: &Loaded, path: &str, how: How, evidence: String) -> Serving {
    let kind = process.loaded(path).and_then(|library| library.elf.kind());
    let name = match kind {
        Some(MallocKind::Glibc) => {
            let version = glibc_version(&process.in_root(path));
            version.map_or_else(|| "glibc".to_owned(), |version| format!("glibc {version}"))
        }
        Some(kind) => kind.name().to_owned(),
        None => file_name(path).trim_end_matches(" (deleted)").to_owned(),
    };
    Serving {
        kind,
        name,
        file: Some(path.into()),
        how,
        evidence,
        operator_new: operator_new(process, program, path),
        idle: idle(process, path),
    }
}

/// The library that C++ gets its memory from, where it is not malloc's library. `None` also for libstdc++, when it asks the same malloc.
fn operator_new(process: &Process, program: &Loaded, malloc: &str) -> Option<String> {
    let address = program.resolved(OPERATOR_NEW, process)?;
    let path = process.code_at(address).filter(|path| *path != malloc && *path != program.path)?;
    let library = process.loaded(path)?;
    let asks = library.resolved(MALLOC, process).and_then(|address| process.code_at(address));
    match asks {
        Some(asked) if asked == malloc => None,
        _ => Some(library.elf.kind().map_or_else(|| file_name(path).to_owned(), |kind| kind.name().to_owned())),
    }
}

/// The other mallocs that are mapped, without the C library's.
fn idle(process: &Process, serving: &str) -> Vec<String> {
    let others = process.libraries().into_iter().filter(|path| *path != serving);
    let kinds = others.filter_map(|path| process.loaded(path)?.elf.kind());
    let kinds: BTreeSet<MallocKind> = kinds.filter(|kind| *kind != MallocKind::Glibc).collect();
    kinds.into_iter().map(|kind| kind.name().to_owned()).collect()
}

/// The linker's order, by ld.so(8): preloaded libraries; then the libraries that the program needs; then the libraries that those need, breadth first.
fn by_order(process: &Process, program: &Loaded) -> Serving {
    let why = if process.has_memory() {
        "the program's slot for malloc says nothing"
    } else {
        "its memory is not for this user"
    };
    let mut queue: VecDeque<String> = preloaded(process.pid).into();
    let from_environment = queue.len();
    queue.extend(program.elf.needs.iter().cloned());
    let (mut seen, mut taken) = (BTreeSet::new(), 0);
    while let Some(name) = queue.pop_front() {
        taken += 1;
        let Some(path) = process.mapped(file_name(&name)).filter(|path| seen.insert((*path).to_owned())) else {
            continue;
        };
        let Some(library) = process.loaded(path) else { continue };
        if library.elf.has_malloc() {
            let place = if taken <= from_environment { "preloaded" } else { "linked" };
            let inferred = MallocKind::INFERRED;
            let evidence = format!("{inferred}the first one with a malloc that is {place}, because {why}");
            return of_library(process, program, path, How::Inferred, evidence);
        }
        queue.extend(library.elf.needs.iter().cloned());
    }
    Serving::unknown(format!("no library that {} needs has a malloc, and {why}", file_name(&program.path)))
}

/// Preloaded libraries, by the environment that the process had at its start. The linker may have left a library of it out: libraries that are not
/// mapped are skipped.
fn preloaded(pid: u32) -> Vec<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let of_environment = environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(b"LD_PRELOAD="));
    let of_environment = String::from_utf8_lossy(of_environment.unwrap_or_default()).into_owned();
    let mut of_host = Vec::new();
    if let Some(file) = open_plain(Path::new(&format!("/proc/{pid}/root/etc/ld.so.preload"))) {
        let _ = file.take(64 << 10).read_to_end(&mut of_host);
    }
    let of_host = String::from_utf8_lossy(&of_host).into_owned();
    let named = of_environment.split([' ', ':']).chain(of_host.split_ascii_whitespace());
    named.filter(|name| !name.is_empty()).map(|name| real_name(pid, name)).collect()
}

/// `maps` has the names of files, and not those of links to them.
fn real_name(pid: u32, name: &str) -> String {
    let there = format!("/proc/{pid}/root/{}", name.trim_start_matches('/'));
    let path = if name.contains('/') { fs::canonicalize(there) } else { return name.to_owned() };
    path.map_or_else(|_| name.to_owned(), |path| path.display().to_string())
}

/// From the library's own notice: `GNU C Library (Debian GLIBC 2.36-9+deb12u14) stable release version 2.36.`
fn glibc_version(library: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    open_plain(library)?.take(64 << 20).read_to_end(&mut bytes).ok()?;
    of_notice(&bytes)
}

fn of_notice(library: &[u8]) -> Option<String> {
    let notice = find(library, b"GNU C Library")?;
    let notice = &notice[..notice.len().min(200)];
    let version = find(notice, b"release version ")?.get(16..)?;
    let is_part = |byte: &&u8| byte.is_ascii_digit() || **byte == b'.';
    let version: Vec<u8> = version.iter().take_while(is_part).copied().collect();
    let version = String::from_utf8(version).ok()?.trim_end_matches('.').to_owned();
    (!version.is_empty()).then_some(version)
}

fn find<'a>(bytes: &'a [u8], what: &[u8]) -> Option<&'a [u8]> {
    let at = bytes.windows(what.len()).position(|window| window == what)?;
    bytes.get(at..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glibc_tells_its_version_in_its_notice() {
        let notice = b"..\0GNU C Library (Debian GLIBC 2.36-9+deb12u14) stable release version 2.36.\nCopyright";
        assert_eq!(of_notice(notice).as_deref(), Some("2.36"));
        assert_eq!(of_notice(b"GNU C Library"), None);
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn of_this_test() {
        let (read, order) = (serving(std::process::id()), inferred(std::process::id()));
        assert_eq!((read.kind, read.how), (Some(MallocKind::Glibc), How::Resolved), "{read:?}");
        assert_eq!((order.kind, order.how), (Some(MallocKind::Glibc), How::Inferred), "{order:?}");
        assert_eq!(read.name, order.name);
        assert!(read.name.starts_with("glibc 2."), "{read:?}");
        let gone = serving(u32::MAX >> 1);
        assert_eq!((gone.how, gone.name.as_str()), (How::Unknown, "unknown"), "{gone:?}");
    }
}
