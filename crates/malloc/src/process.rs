// SPDX-License-Identifier: Apache-2.0
//! A process. Its files below /proc are opened once, at the start: when the process ends and a later process gets its number, they do not show the later one.

use crate::elf::Elf;
use ledger::Mapping;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) mappings: Vec<Mapping>,
    /// `None`: this user may not read it (ptrace(2), "Ptrace access mode checking").
    memory: Option<File>,
}

/// An object that is loaded: the program or a library.
pub(crate) struct Loaded {
    /// As it stands in `maps`.
    pub(crate) path: String,
    pub(crate) elf: Elf,
    /// Where its first byte is mapped.
    start: u64,
}

impl Process {
    /// `None`: the process has ended, or this user may not read its mappings.
    pub(crate) fn open(pid: u32, with_memory: bool) -> Option<Self> {
        let memory = with_memory.then(|| File::open(format!("/proc/{pid}/mem")).ok()).flatten();
        let text = fs::read(format!("/proc/{pid}/maps")).ok()?;
        let mappings = ledger::mapping::mappings(&String::from_utf8_lossy(&text));
        (!mappings.is_empty()).then_some(Self { pid, mappings, memory })
    }

    pub(crate) fn with(pid: u32, mappings: Vec<Mapping>) -> Self {
        Self { pid, mappings, memory: File::open(format!("/proc/{pid}/mem")).ok() }
    }

    pub(crate) fn has_memory(&self) -> bool {
        self.memory.is_some()
    }

    /// The program. Where somebody calls the dynamic linker with the program as argument, the program is the first loaded file that is no library.
    pub(crate) fn program(&self) -> Option<Loaded> {
        let path = fs::read_link(format!("/proc/{}/exe", self.pid)).ok()?.display().to_string();
        if !file_name(&path).starts_with("ld-") {
            return self.loaded(&path);
        }
        let is_program = |it: &&Mapping| {
            it.path.starts_with('/') && it.offset == 0 && !file_name(&it.path).contains(".so") && it.inode > 0
        };
        self.mappings.iter().filter(is_program).find_map(|it| self.loaded(&it.path))
    }

    pub(crate) fn loaded(&self, path: &str) -> Option<Loaded> {
        let first = self.mappings.iter().find(|it| it.path == path && it.offset == 0)?;
        Some(Loaded { path: path.to_owned(), elf: Elf::open(&self.in_root(path))?, start: first.start })
    }

    /// Where this program finds a file that the process names: below the process's root; a file that was deleted meanwhile, by its mapping.
    pub(crate) fn in_root(&self, path: &str) -> PathBuf {
        let there = Path::new(&format!("/proc/{}/root", self.pid)).join(path.trim_start_matches('/'));
        match self.mappings.iter().find(|it| it.path == path && it.offset == 0) {
            Some(it) if !there.exists() => format!("/proc/{}/map_files/{:x}-{:x}", self.pid, it.start, it.end).into(),
            _ => there,
        }
    }

    pub(crate) fn word(&self, at: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.memory.as_ref()?.read_exact_at(&mut bytes, at).ok()?;
        Some(u64::from_ne_bytes(bytes))
    }

    /// The file whose code is at this address.
    pub(crate) fn code_at(&self, address: u64) -> Option<&str> {
        let holds = |it: &&Mapping| (it.start..it.end).contains(&address) && it.permissions.contains('x');
        let mapping = self.mappings.iter().find(holds)?;
        Some(mapping.path.as_str()).filter(|path| path.starts_with('/'))
    }

    /// The mapped file with this name, or with a name that goes on with a dot: `libjemalloc.so` is `libjemalloc.so.2`. glibc's own files have the version in
    /// front of the ending before 2.34: `libc.so.6` is a link to `libc-2.31.so`.
    pub(crate) fn mapped(&self, name: &str) -> Option<&str> {
        let fits = |path: &str| {
            let file = file_name(path);
            let goes_on = file.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
            goes_on || is_versioned(file, name)
        };
        let found = self.mappings.iter().find(|it| it.inode > 0 && fits(&it.path));
        found.map(|it| it.path.as_str())
    }

    /// Every library that is mapped with code.
    pub(crate) fn libraries(&self) -> Vec<&str> {
        let mut found: Vec<&str> = Vec::new();
        let code = self.mappings.iter().filter(|it| it.permissions.contains('x') && it.path.contains(".so"));
        for mapping in code {
            if !found.contains(&mapping.path.as_str()) {
                found.push(&mapping.path);
            }
        }
        found
    }
}

/// `libc-2.31.so` for `libc.so.6`.
fn is_versioned(file: &str, name: &str) -> bool {
    let version =
        name.split_once(".so").and_then(|(stem, _)| file.strip_prefix(stem)?.strip_prefix('-')?.strip_suffix(".so"));
    version.is_some_and(|version| !version.is_empty() && version.bytes().all(|it| it.is_ascii_digit() || it == b'.'))
}

impl Loaded {
    /// The address that the linker has written for `name`.
    pub(crate) fn resolved(&self, name: &str, process: &Process) -> Option<u64> {
        process.word(self.elf.slot(name, self.start)?)
    }
}

pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}
