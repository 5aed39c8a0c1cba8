// SPDX-License-Identifier: Apache-2.0
//! Which allocator serves malloc. That a library is mapped does not say so: the first one in the order of linking that has a malloc is it, and
//! the program itself is before all, then what is preloaded, then what it needs (ld.so(8)).

use super::elf::{Program, file_name, in_root, read_plain};
use ledger::Mapping;
use std::fs;
use std::path::Path;

/// By the name of their libraries, and by what a program exports that has one in itself.
const KNOWN: [(&str, &str, &str); 3] = [
    ("libjemalloc", "mallctl", "jemalloc"),
    ("libtcmalloc", "tc_malloc", "tcmalloc"),
    ("libmimalloc", "mi_malloc", "mimalloc"),
];

/// `glibc 2.36`, `jemalloc`, `tcmalloc`, `mimalloc`, or the library's file. Empty: not told.
pub(super) fn serving(pid: u32, mappings: &[Mapping]) -> String {
    let Some(program) = Program::of(pid, mappings) else { return String::new() };
    let of_program = program.exports("malloc").then(|| built_in(&program));
    let before_libc = of_program.or_else(|| preloaded(pid, mappings)).or_else(|| linked(&program, mappings));
    before_libc.or_else(|| libc(pid, mappings)).unwrap_or_default()
}

fn built_in(program: &Program) -> String {
    let known = KNOWN.into_iter().find(|(_, export, _)| program.exports(export));
    known.map_or("the program's own", |(_, _, name)| name).to_owned()
}

/// What is preloaded counts where it is mapped: the environment is that of the start.
fn preloaded(pid: u32, mappings: &[Mapping]) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let of_environment = environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(b"LD_PRELOAD="));
    let of_environment = String::from_utf8_lossy(of_environment.unwrap_or_default()).into_owned();
    let of_host = read_plain(&in_root(pid, "/etc/ld.so.preload"), 64 << 10).unwrap_or_default();
    let of_host = String::from_utf8_lossy(&of_host).into_owned();
    let listed = of_environment.split([' ', ':']).chain(of_host.split_ascii_whitespace());
    let mapped = listed.filter_map(|name| mapped_as(&canonical(pid, name), mappings));
    mapped.filter(|path| has_malloc(pid, path)).map(|path| known(&path)).next()
}

fn canonical(pid: u32, name: &str) -> String {
    let path = fs::canonicalize(in_root(pid, name)).or_else(|_| fs::canonicalize(name));
    path.map_or_else(|_| name.to_owned(), |path| path.display().to_string())
}

/// The path by which the library of this name is mapped.
fn mapped_as(name: &str, mappings: &[Mapping]) -> Option<String> {
    let file = Path::new(name).file_name()?;
    let is_it = |mapping: &&Mapping| Path::new(&mapping.path).file_name() == Some(file);
    mappings.iter().find(is_it).map(|mapping| mapping.path.clone())
}

fn has_malloc(pid: u32, path: &str) -> bool {
    Program::open(&in_root(pid, path)).is_some_and(|library| library.exports("malloc"))
}

fn known(path: &str) -> String {
    let file = Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = KNOWN.into_iter().find(|(library, ..)| file.starts_with(library)).map(|(.., name)| name.to_owned());
    name.unwrap_or(file)
}

/// Of the libraries that the program names, one before libc.
fn linked(program: &Program, mappings: &[Mapping]) -> Option<String> {
    let before_libc = program.needs.iter().take_while(|name| !name.starts_with("libc.so"));
    let is_known = |name: &&String| KNOWN.into_iter().any(|(library, ..)| name.starts_with(library));
    let is_mapped = |name: &&String| mappings.iter().any(|mapping| file_name(&mapping.path).starts_with(name.as_str()));
    before_libc.filter(is_known).find(is_mapped).map(|name| known(name))
}

fn libc(pid: u32, mappings: &[Mapping]) -> Option<String> {
    let mapping = mappings.iter().find(|mapping| is_libc(mapping))?;
    let text = read_plain(&in_root(pid, &mapping.path), 64 << 20);
    let version = text.and_then(|text| glibc_version(&text));
    Some(version.map_or_else(|| "glibc".to_owned(), |version| format!("glibc {version}")))
}

/// `libc.so.6`, or `libc-2.31.so` until 2.33.
pub(super) fn is_libc(mapping: &Mapping) -> bool {
    let name = file_name(&mapping.path);
    name.starts_with("libc.so.6") || name.starts_with("libc-2.")
}

/// From the library's own notice: `GNU C Library (Debian GLIBC 2.36-9+deb12u14) stable release version 2.36.`
fn glibc_version(library: &[u8]) -> Option<String> {
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
        assert_eq!(glibc_version(notice).as_deref(), Some("2.36"));
        assert_eq!(glibc_version(b"GNU C Library"), None);
    }

    #[test]
    fn libraries_are_known_by_their_files() {
        assert_eq!(known("/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4.5.10"), "tcmalloc");
        assert_eq!(known("/opt/planted.so"), "planted.so");
        let of = |path: &str| Mapping { path: path.to_owned(), ..Mapping::default() };
        assert!(
            is_libc(&of("/lib/libc-2.31.so")) && is_libc(&of("/lib/libc.so.6")) && !is_libc(&of("/lib/libcap.so.2"))
        );
        assert_eq!(
            mapped_as("x/libjemalloc.so.2", &[of("/lib/libjemalloc.so.2")]).as_deref(),
            Some("/lib/libjemalloc.so.2")
        );
    }
}
