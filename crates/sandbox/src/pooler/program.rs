// SPDX-License-Identifier: Apache-2.0
//! The pgBouncer program: an installed one, or the distribution's package, unpacked into the cache and never installed.

use crate::libraries::Libraries;
use crate::{Source, Version};
use host::{files, tool};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Stdio;

const NAME: &str = "pgbouncer";
/// The folders below a prefix; the package has the program in the second one.
const FOLDERS: [&str; 3] = ["usr/bin", "usr/sbin", "usr/local/bin"];

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolerProgram {
    pub path: PathBuf,
    /// The version that the program reports with `--version`.
    pub version: Version,
    #[serde(flatten)]
    pub libraries: Libraries,
    pub source: Source,
}

/// The program that is installed on this machine.
pub(super) fn installed() -> Option<PoolerProgram> {
    let on_path = tool::find(NAME);
    let usual = FOLDERS.iter().map(|folder| Path::new("/").join(folder).join(NAME));
    on_path.into_iter().chain(usual).find_map(|path| look_at(&path, Libraries::default(), &Source::Installed))
}

/// The program in an unpacked tree, when it runs on this machine.
pub(crate) fn unpacked(tree: &Path, source: &Source) -> Option<PoolerProgram> {
    let libraries = Libraries::below(tree);
    FOLDERS.iter().find_map(|folder| look_at(&tree.join(folder).join(NAME), libraries.clone(), source))
}

fn look_at(path: &Path, libraries: Libraries, source: &Source) -> Option<PoolerProgram> {
    let path = path.canonicalize().ok().filter(|path| path.is_file())?;
    if *source != Source::Installed {
        files::check_usable_file(&path).ok()?;
    }
    let mut command = libraries.command(&path);
    let output = command.arg("--version").env("LC_ALL", "C").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.lines().next().filter(|line| line.starts_with("PgBouncer")).and_then(Version::find_in)?;
    output.status.success().then(|| PoolerProgram { path, version, libraries, source: source.clone() })
}

impl PoolerProgram {
    pub(super) fn is_run_by(&self, pid: u32) -> bool {
        std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|program| program == self.path)
    }
}
