// SPDX-License-Identifier: Apache-2.0
//! The parts of a guest: QEMU, a kernel, busybox, and the program. They are found or made once for all tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

#[derive(Debug, Clone)]
pub struct Parts {
    pub qemu: PathBuf,
    /// The folder with `vmlinuz`, `busybox`, `modules/`, `complete`.
    pub kernel: PathBuf,
    /// The static program.
    pub wringer: PathBuf,
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
    let wringer = last_line_of(&mut Command::new(here("build-program.sh")));
    Ok(Parts { qemu, kernel: kernel.into(), wringer: wringer.into(), mke2fs })
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
