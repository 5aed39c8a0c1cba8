// SPDX-License-Identifier: Apache-2.0
//! Whether a program can be started with a library in it: the dynamic linker must start it, and must heed `LD_PRELOAD` (ld.so(8)).

use crate::Error;
use object::elf;
use object::read::elf::{ElfFile, FileHeader, ProgramHeader as _};
use std::fs::{self, Metadata};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loadable {
    Yes,
    /// The file, and the reason.
    No {
        program: PathBuf,
        why: &'static str,
    },
}

/// A script's interpreter may be another script.
const MOST_INTERPRETERS: u32 = 4;
#[cfg(target_arch = "x86_64")]
const MACHINE: elf::Machine = elf::EM_X86_64;
#[cfg(target_arch = "aarch64")]
const MACHINE: elf::Machine = elf::EM_AARCH64;

/// Checks the program, or the interpreter of a script. Programs that the checked program starts are not checked.
///
/// # Errors
/// A file cannot be read.
pub fn loadable(program: &Path) -> Result<Loadable, Error> {
    let mut program = program.to_owned();
    for _ in 0..MOST_INTERPRETERS {
        match interpreter(&program).map_err(|source| Error::Program { path: program.clone(), source })? {
            Some(interpreter) => program = interpreter,
            None => break,
        }
    }
    let metadata = fs::metadata(&program).map_err(|source| Error::Program { path: program.clone(), source })?;
    let why = match gains_rights(&program, &metadata) {
        true => Some("runs with other rights than who starts it, and then no library is preloaded"),
        false => headers(&program)?,
    };
    Ok(why.map_or(Loadable::Yes, |why| Loadable::No { program, why }))
}

/// Parses the first line of a script as the kernel does. For `env`, returns the program that `env` would start.
fn interpreter(program: &Path) -> std::io::Result<Option<PathBuf>> {
    let mut line = Vec::new();
    BufReader::new(fs::File::open(program)?).take(256).read_until(b'\n', &mut line)?;
    let Some(words) = line.strip_prefix(b"#!") else { return Ok(None) };
    let words = String::from_utf8_lossy(words).into_owned();
    let mut words = words.split_whitespace();
    let Some(interpreter) = words.next().map(PathBuf::from) else { return Ok(None) };
    let is_env = interpreter.file_name().is_some_and(|name| name == "env");
    let named = words.find(|word| !word.starts_with('-') && !word.contains('=')).filter(|_| is_env);
    Ok(Some(named.and_then(host::tool::find).unwrap_or(interpreter)))
}

/// Set-user-id, set-group-id, or file capabilities: ld.so(8), "secure-execution mode".
fn gains_rights(program: &Path, metadata: &Metadata) -> bool {
    let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
    let changes_user = metadata.mode() & libc::S_ISUID != 0 && metadata.uid() != uid.as_raw();
    let changes_group = metadata.mode() & libc::S_ISGID != 0 && metadata.gid() != gid.as_raw();
    let mut nothing: [u8; 64] = [0; 64];
    let capable = rustix::fs::getxattr(program, "security.capability", &mut nothing).is_ok();
    changes_user || changes_group || capable && !uid.is_root()
}

/// The reason why the headers forbid it.
fn headers(program: &Path) -> Result<Option<&'static str>, Error> {
    let bytes = fs::read(program).map_err(|source| Error::Program { path: program.to_owned(), source })?;
    let Ok(file) = ElfFile::<elf::FileHeader64<object::Endianness>>::parse(bytes.as_slice()) else {
        return Ok(Some("is no 64-bit program"));
    };
    let endian = file.endian();
    if file.elf_header().e_machine(endian) != MACHINE {
        return Ok(Some("is a program for another processor"));
    }
    let is_dynamic = file.elf_program_headers().iter().any(|header| header.p_type(endian) == elf::PT_INTERP);
    Ok((!is_dynamic).then_some("is a static program, into which no library is loaded"))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn why(program: &Path) -> Option<&'static str> {
        match loadable(program).unwrap() {
            Loadable::Yes => None,
            Loadable::No { why, .. } => Some(why),
        }
    }

    fn script(folder: &Path, name: &str, text: &str) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn dynamic_programs_and_their_scripts_are_and_others_say_why_not() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(why(Path::new("/bin/sh")), None);
        assert_eq!(why(&script(folder.path(), "one", "#!/bin/sh -e\ntrue\n")), None);
        assert_eq!(why(&script(folder.path(), "two", "#!/usr/bin/env -S sh -e\ntrue\n")), None);
        assert!(why(&script(folder.path(), "text", "true\n")).unwrap().contains("64-bit"));

        // The same program without its interpreter is a static program.
        let bytes = fs::read("/bin/sh").unwrap();
        let mut still = bytes.clone();
        let file = ElfFile::<elf::FileHeader64<object::Endianness>>::parse(bytes.as_slice()).unwrap();
        let endian = file.endian();
        let at = file.elf_program_headers().iter().position(|header| header.p_type(endian) == elf::PT_INTERP).unwrap();
        let header = usize::try_from(file.elf_header().e_phoff(endian)).unwrap() + at * 56;
        still[header..header + 4].copy_from_slice(&elf::PT_NULL.0.to_le_bytes());
        let path = script(folder.path(), "static", "");
        fs::write(&path, still).unwrap();
        assert!(why(&path).unwrap().contains("static"));
        let by_it = script(folder.path(), "by-it", &format!("#!{}\n", path.display()));
        assert!(matches!(loadable(&by_it).unwrap(), Loadable::No { program, .. } if program == path));
    }
}
