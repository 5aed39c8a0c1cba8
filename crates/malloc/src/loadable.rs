// SPDX-License-Identifier: Apache-2.0
//! Whether a library can be loaded into a program, before anything is started. The dynamic linker leaves a library for another machine out, with a
//! line in the log, and ends a program when a library needs a newer C library.

use crate::elf::{Elf, machine};
use std::path::Path;

/// Why a library cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("is no library (it is not an ELF file)")]
    NotElf,
    #[error("is for {there}, and the server is for {here}")]
    Machine { there: String, here: String },
    #[error("needs {missing} of {library}, and the server's has no newer than {newest}")]
    Version { library: String, missing: String, newest: String },
}

/// Checks a library for a program that has this C library. `c_library`: `None` where the C library is not known; then its versions are not checked.
///
/// # Errors
/// The first reason why the library cannot be loaded.
pub fn fit(library: &Path, program: &Path, c_library: Option<&Path>) -> Result<Elf, Unfit> {
    let there = machine(library).ok_or(Unfit::NotElf)?;
    if let Some(here) = machine(program).filter(|here| *here != there) {
        return Err(Unfit::Machine { there: named(there), here: named(here) });
    }
    let elf = Elf::open(library).ok_or(Unfit::NotElf)?;
    let Some(c_library) = c_library.and_then(Elf::open) else { return Ok(elf) };
    let of_c_library = elf.versions_needed.iter().filter(|(file, _)| file.starts_with("libc.so."));
    let missing = of_c_library.filter(|(_, version)| !c_library.versions.contains(version));
    match missing.max_by_key(|(_, version)| numbers(version)) {
        None => Ok(elf),
        Some((library, missing)) => {
            let newest = c_library.versions.iter().max_by_key(|version| numbers(version)).cloned();
            let (library, missing) = (library.clone(), missing.clone());
            Err(Unfit::Version { library, missing, newest: newest.unwrap_or_default() })
        }
    }
}

/// The numbers of a version: by them `GLIBC_2.36` is later than `GLIBC_2.4`. `GLIBC_PRIVATE` has no number.
fn numbers(version: &str) -> Vec<u32> {
    let numbers = version.rsplit('_').next().unwrap_or_default().split('.').map(str::parse);
    numbers.collect::<Result<_, _>>().unwrap_or_default()
}

fn named((machine, is_wide): (u16, bool)) -> String {
    let name = match machine {
        3 => return "x86 of 32 bit".into(),
        40 => return "arm of 32 bit".into(),
        21 => "powerpc64",
        22 => "s390x",
        62 => "x86_64",
        183 => "aarch64",
        243 => "riscv64",
        other => return format!("another machine (ELF machine {other})"),
    };
    if is_wide { name.into() } else { format!("{name} of 32 bit") }
}

#[cfg(test)]
#[cfg(target_env = "gnu")]
#[allow(clippy::disallowed_methods)] // tests lay out files of their own
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        assert!(numbers("GLIBC_2.36") > numbers("GLIBC_2.4"));
        assert!(numbers("GLIBC_PRIVATE").is_empty());
    }

    #[test]
    fn a_library_for_another_machine_and_one_for_a_newer_c_library() {
        let own = Path::new("/proc/self/exe");
        let process = crate::process::Process::open(std::process::id(), false).unwrap();
        let c_library = process.mapped("libc.so.6").unwrap().to_owned();
        let c_library = Path::new(&c_library);
        fit(own, own, Some(c_library)).unwrap();
        assert_eq!(fit(Path::new("/etc/passwd"), own, None), Err(Unfit::NotElf));

        let folder = tempfile::tempdir().unwrap();
        let bytes = fs::read(own).unwrap();
        let mut foreign = bytes.clone();
        foreign[18] = if bytes[18] == 62 { 183 } else { 62 };
        let path = folder.path().join("foreign.so");
        fs::write(&path, &foreign).unwrap();
        assert!(matches!(fit(&path, own, None), Err(Unfit::Machine { .. })));

        let needed = Elf::open(own).unwrap().versions_needed;
        let (_, newest) =
            needed.iter().filter(|(file, _)| file == "libc.so.6").max_by_key(|it| numbers(&it.1)).unwrap();
        let newer = newest.replace("GLIBC_2.", "GLIBC_9.");
        let text: Vec<u8> = replaced(&bytes, newest.as_bytes(), newer.as_bytes());
        let path = folder.path().join("newer.so");
        fs::write(&path, text).unwrap();
        let refused = fit(&path, own, Some(c_library)).unwrap_err();
        assert!(refused.to_string().contains(&newer), "{refused}");
    }

    /// Each place with `from`, of the same length as `to`, in a file.
    fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
        let mut made = bytes.to_vec();
        for at in 0..bytes.len() - from.len() {
            if &bytes[at..at + from.len()] == from && bytes.get(at + from.len()) == Some(&0) {
                made[at..at + to.len()].copy_from_slice(to);
            }
        }
        made
    }
}
