// SPDX-License-Identifier: Apache-2.0
//! How the programs of a server find their shared libraries: in the same way as the machine's own programs; or in further folders; or, if the server
//! came with its own C library, through the dynamic loader of that library, because loader and C library belong together.

use host::tool;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Libraries {
    /// Folders of shared libraries that this machine lacks.
    #[serde(rename = "library_path")]
    pub folders: Vec<PathBuf>,
    /// The dynamic loader beside these libraries. For a process that it starts, `/proc/PID/exe` and `/proc/PID/comm` show the loader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loader: Option<PathBuf>,
}

impl Libraries {
    /// The libraries of an unpacked tree.
    pub(crate) fn below(tree: &Path) -> Self {
        let tops = ["usr/lib", "lib", "usr/lib64", "lib64"].map(|name| tree.join(name));
        let loader = tops.iter().flat_map(|top| entries(top)).find(|path| is_loader(path));
        let triplets = tops.iter().flat_map(|top| entries(top)).filter(|path| path.is_dir());
        let folders = tops.iter().cloned().chain(triplets).filter(|folder| holds_libraries(folder)).collect();
        Self { folders, loader }
    }

    /// The program to execute for `program`, and the arguments that come before the program's own.
    pub(crate) fn invocation(&self, program: &Path) -> (PathBuf, Vec<OsString>) {
        let Some(loader) = &self.loader else { return (program.to_owned(), Vec::new()) };
        // ld.so(8); the machine's cache names libraries that belong to the machine's C library
        let mut arguments: Vec<OsString> = vec!["--inhibit-cache".into()];
        if let Some(folders) = self.joined() {
            arguments.extend(["--library-path".into(), folders]);
        }
        arguments.push(program.into());
        (loader.clone(), arguments)
    }

    /// The variable that such a process needs in its environment. ld.so(8): these folders come before the machine's own.
    pub(crate) fn environment(&self) -> Option<(OsString, OsString)> {
        let folders = if self.loader.is_some() { None } else { self.joined() };
        folders.map(|folders| ("LD_LIBRARY_PATH".into(), folders))
    }

    /// A command for `program`, without the program's own arguments.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let (program, arguments) = self.invocation(program);
        let mut command = tool::command(program);
        command.args(arguments).envs(self.environment());
        command
    }

    fn joined(&self) -> Option<OsString> {
        std::env::join_paths(&self.folders).ok().filter(|joined| !joined.is_empty())
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Whether it is a dynamic loader: names such as `ld-linux-x86-64.so.2` and `ld-linux-aarch64.so.1` are part of each platform's ABI.
fn is_loader(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy());
    name.is_some_and(|name| name.starts_with("ld-linux") && name.contains(".so.")) && path.is_file()
}

/// Whether the folder has shared libraries, as `usr/lib/x86_64-linux-gnu` or `lib/x86_64-linux-gnu` has.
fn holds_libraries(folder: &Path) -> bool {
    entries(folder).iter().filter_map(|path| path.file_name()).any(|name| {
        let name = name.to_string_lossy();
        name.starts_with("lib") && name.contains(".so")
    })
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // tests lay out folders of their own
mod tests {
    use super::*;

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let tree = tempfile::tempdir().expect("a folder");
        for file in files {
            let path = tree.path().join(file);
            std::fs::create_dir_all(path.parent().expect("a folder above")).expect("makes");
            std::fs::write(path, "").expect("writes");
        }
        tree
    }

    #[test]
    fn libraries_beside_the_machines_come_by_the_environment() {
        let tree = tree(&["usr/lib/x86_64-linux-gnu/libfoo.so.1", "usr/lib/notes.txt"]);
        let libraries = Libraries::below(tree.path());
        let folder = tree.path().join("usr/lib/x86_64-linux-gnu");
        assert_eq!(libraries, Libraries { folders: vec![folder.clone()], loader: None });
        assert_eq!(libraries.invocation(Path::new("/p")), ("/p".into(), Vec::new()));
        assert_eq!(libraries.environment(), Some(("LD_LIBRARY_PATH".into(), folder.into())));
    }

    #[test]
    fn a_c_library_of_its_own_comes_with_its_loader() {
        let tree = tree(&["usr/lib/x86_64-linux-gnu/libc.so.6", "usr/lib64/ld-linux-x86-64.so.2"]);
        let libraries = Libraries::below(tree.path());
        let (program, arguments) = libraries.invocation(Path::new("/p"));
        assert_eq!(program, tree.path().join("usr/lib64/ld-linux-x86-64.so.2"));
        let folder = tree.path().join("usr/lib/x86_64-linux-gnu").into_os_string();
        assert_eq!(arguments, ["--inhibit-cache".into(), "--library-path".into(), folder, "/p".into()]);
        assert_eq!(libraries.environment(), None, "its children are the machine's programs");
    }
}
