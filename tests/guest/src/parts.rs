// SPDX-License-Identifier: Apache-2.0
//! The parts of a guest: QEMU, a kernel, busybox, and the program. They are found or made once for all tests.

use crate::image::BESIDE;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The program with the feature `failpoints` that the tests of this machine run: `make test` and `make test-guest` build it, and say here where it is.
const PROGRAM: &str = "WRINGER_WITH_FAILPOINTS";
/// With this variable, the guest has the static program instead, which is built first.
const STATIC: &str = "WRINGER_GUEST_STATIC";

#[derive(Debug, Clone)]
pub struct Parts {
    pub qemu: PathBuf,
    /// The folder with `vmlinuz`, `busybox`, `modules/`, `complete`.
    pub kernel: PathBuf,
    /// The program, without symbols; the programs of [`crate::BESIDE`] lie beside it.
    pub wringer: PathBuf,
    /// The shared libraries that these programs need, their loader among them. None for static programs.
    pub libraries: BTreeSet<PathBuf>,
    /// The program of e2fsprogs that makes file systems.
    pub mke2fs: PathBuf,
}

/// The parts, or the reason why no guest can run here.
pub fn parts() -> Result<&'static Parts, String> {
    static PARTS: OnceLock<Result<Parts, String>> = OnceLock::new();
    PARTS.get_or_init(make).as_ref().map_err(Clone::clone)
}

fn make() -> Result<Parts, String> {
    if !cfg!(target_arch = "x86_64") {
        return Err("the guest is an x86-64 machine".into());
    }
    let qemu = found("qemu-system-x86_64").ok_or("no qemu-system-x86_64")?;
    let mke2fs = found("mke2fs").ok_or("no mke2fs")?;
    let cache = testkit::shared_cache(testkit::own_uid()).join("guest");
    std::fs::create_dir_all(&cache).expect("make the cache");
    let kernel = last_line_of(Command::new(here("fetch-kernel.sh")).arg(cache));
    let wringer = if std::env::var_os(STATIC).is_some() {
        last_line_of(&mut Command::new(here("build-program.sh"))).into()
    } else {
        let built = std::env::var(PROGRAM).map_err(|_| format!("{PROGRAM} is not set: `make test-guest` sets it"))?;
        stripped(Path::new(&built))
    };
    let libraries = with_those_beside(&wringer).iter().flat_map(|program| libraries_of(program, None)).collect();
    Ok(Parts { qemu, kernel: kernel.into(), wringer, libraries, mke2fs })
}

fn with_those_beside(wringer: &Path) -> Vec<PathBuf> {
    BESIDE.iter().map(|name| wringer.with_file_name(name)).chain([wringer.to_owned()]).collect()
}

/// Copies without symbols, in a folder beside the programs: the guest's RAM holds them. A copy that is newer than its program stays.
fn stripped(built: &Path) -> PathBuf {
    let folder = built.with_file_name("guest");
    fs::create_dir_all(&folder).expect("make a folder for the guest's programs");
    for program in with_those_beside(built) {
        let copy = folder.join(program.file_name().expect("a program has a name"));
        let changed = |file: &Path| fs::metadata(file).and_then(|it| it.modified());
        let built = changed(&program).unwrap_or_else(|error| panic!("look at {}: {error}", program.display()));
        if changed(&copy).is_ok_and(|copied| copied > built) {
            continue;
        }
        let status = Command::new("strip").arg("-o").arg(&copy).arg(&program).status();
        assert!(status.expect("start strip").success(), "strip {}", program.display());
    }
    folder.join("wringer")
}

/// The shared libraries that the file needs, and that are on this machine, but not in `tree`, where the file's own ones are. Empty for a file that
/// is no program, and for a static one.
pub(crate) fn libraries_of(file: &Path, tree: Option<&Path>) -> Vec<PathBuf> {
    let is_elf = fs::read(file).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF"));
    if !is_elf {
        return Vec::new();
    }
    let mut ldd = Command::new("ldd");
    if let Some(tree) = tree {
        ldd.env("LD_LIBRARY_PATH", tree.join("usr/lib/x86_64-linux-gnu"));
    }
    let told = ldd.arg(file).output().expect("start ldd");
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    let paths = text.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    paths.map(PathBuf::from).filter(|path| tree.is_none_or(|tree| !path.starts_with(tree))).collect()
}

/// Whether the library is the loader, which has a folder of its own.
pub(crate) fn is_loader(library: &Path) -> bool {
    library.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld-"))
}

/// The path of a file of this crate.
pub(crate) fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The system programs are searched, too: they are not in an ordinary user's PATH.
fn found(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).map(|folder| folder.join(program)).find(|file| file.is_file())
}

fn last_line_of(command: &mut Command) -> String {
    let output = command.stderr(std::process::Stdio::inherit()).output().expect("start a script of the guest's");
    assert!(output.status.success(), "{command:?}: {}", output.status);
    String::from_utf8_lossy(&output.stdout).lines().last().unwrap_or_default().to_owned()
}
