// SPDX-License-Identifier: Apache-2.0
//! The machine for which a program was built, and which build of it this is: elf(5).

use crate::digest::{in_hex, sha256};
use object::{Object as _, ReadCache};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Which build of the program this is: the build ID that its linker has written into it, else the SHA-256 of the file.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn build(program: &Path) -> io::Result<String> {
    let cache = ReadCache::new(File::open(program)?);
    let id = object::File::parse(&cache).ok().and_then(|file| file.build_id().ok().flatten().map(in_hex));
    match id {
        Some(id) => Ok(format!("build ID {id}")),
        None => Ok(format!("SHA-256 {}", sha256(program)?)),
    }
}

/// The name of the program's machine, when it is not that of this process.
pub(crate) fn foreign_machine(program: &Path) -> Option<String> {
    let (there, here) = (machine(program)?, machine(Path::new("/proc/self/exe"))?);
    (there != here).then(|| name(there))
}

/// `e_machine`; none for a file that is no ELF file, such as a script.
fn machine(program: &Path) -> Option<u16> {
    let mut head = [0_u8; 20];
    File::open(program).ok()?.read_exact(&mut head).ok()?;
    // EI_DATA: 1 is little-endian, 2 big-endian
    match head {
        [0x7f, b'E', b'L', b'F', _, 1, .., low, high] => Some(u16::from_le_bytes([low, high])),
        [0x7f, b'E', b'L', b'F', _, 2, .., high, low] => Some(u16::from_be_bytes([high, low])),
        _ => None,
    }
}

fn name(machine: u16) -> String {
    match machine {
        3 => "x86 of 32 bit".into(),
        21 => "powerpc64".into(),
        22 => "s390x".into(),
        40 => "arm of 32 bit".into(),
        62 => "x86_64".into(),
        183 => "aarch64".into(),
        243 => "riscv64".into(),
        other => format!("another machine (ELF machine {other})"),
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_known_by_its_build_id_and_a_script_by_its_content() {
        let own = build(Path::new("/proc/self/exe")).unwrap();
        assert!(own.starts_with("build ID ") && own.len() >= "build ID ".len() + 16, "{own}");
        let folder = tempfile::tempdir().unwrap();
        let told = |text: &str| {
            let script = folder.path().join("mariadbd");
            std::fs::write(&script, text).unwrap();
            build(&script).unwrap()
        };
        let first = told("#!/bin/sh\nexec one");
        assert!(first.starts_with("SHA-256 ") && first.len() == "SHA-256 ".len() + 64, "{first}");
        assert_eq!(first, told("#!/bin/sh\nexec one"));
        assert_ne!(first, told("#!/bin/sh\nexec two"));
        assert!(build(&folder.path().join("none")).is_err());
    }
}
