// SPDX-License-Identifier: Apache-2.0
//! The files that shape what a program of the user does. When one of them was edited, data that were filled before are other data, and cells that were
//! measured before are of another setting.

use crate::cell::Program;
use crate::error::Error;
use host::places::Places;
use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// With more files and folders below the program's folder none of them is counted, because looking at all of them before each run would take long.
const MOST_FILES: usize = 1000;

/// Files that do not shape the data: experiments, whose settings are counted already, and what Python has compiled.
const NO_PART: [&str; 2] = ["toml", "pyc"];
/// What programs print (`nohup.out`, `run.log`): it grows while cells run.
const PRINTED: [&str; 2] = ["log", "out"];
/// A folder with one of these has results of Wringer.
const RESULTS: [&str; 2] = ["sweep.json", "recording.sqlite"];
/// Folders of version control, which change with each commit, and of Python's compiled modules.
const HISTORIES: [&str; 4] = [".git", ".hg", ".svn", "__pycache__"];

/// The program, and each of its arguments that names a file, except what programs print: `words` is the whole command.
pub fn files_named(program: &Program, words: &[String]) -> Vec<PathBuf> {
    let named =
        words.iter().skip(1).flat_map(|word| [Some(word.as_str()), word.split_once('=').map(|(_, value)| value)]);
    let named = named
        .flatten()
        .map(|word| program.folder.join(word))
        .filter(|path| path.is_file() && !has_ending(path, &PRINTED));
    std::iter::once(program.program.clone()).chain(named).collect()
}

/// All files that shape what a program fills: those that its command names, and each file below the folder that it is started in, because a script may read it;
/// but no results of Wringer, no files of [`NO_PART`] and [`PRINTED`], and none into which this process prints. `None`: there are too many below the folder.
///
/// # Errors
/// The folder cannot be read.
pub fn files_that_fill(program: &Program, words: &[String], places: &Places) -> Result<Option<Vec<PathBuf>>, Error> {
    let unread = |source| host::Error::path("look at", &program.folder, source);
    let mut beside = Beside::of(places);
    beside.shut.insert(identity(&fs::metadata(&program.folder).map_err(unread)?));
    beside.look(&program.folder).map_err(unread)?;
    if beside.looked > MOST_FILES {
        return Ok(None);
    }
    let mut files = beside.files;
    files.extend(files_named(program, words));
    Ok(Some(files.into_iter().collect()))
}

/// What was found below a folder.
struct Beside {
    files: BTreeSet<PathBuf>,
    looked: usize,
    /// Folders that are not looked into: those of Wringer, and those that were looked into already, by another link.
    shut: BTreeSet<(u64, u64)>,
    printed: Vec<(u64, u64)>,
}

impl Beside {
    fn of(places: &Places) -> Self {
        let own = [&places.journal, &places.sandboxes, &places.cache, &places.recordings];
        let printed = ["/proc/self/fd/1", "/proc/self/fd/2"];
        Self {
            files: BTreeSet::new(),
            looked: 0,
            shut: own.iter().filter_map(|place| Some(identity(&fs::metadata(place).ok()?))).collect(),
            printed: printed.iter().filter_map(|place| Some(identity(&fs::metadata(place).ok()?))).collect(),
        }
    }

    /// Looks at all files below `folder`, until there are too many.
    fn look(&mut self, folder: &Path) -> io::Result<()> {
        let mut paths: Vec<PathBuf> = fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
        // of two links to one folder, the same one is followed each time
        paths.sort();
        for path in paths {
            // a socket, a link to nothing, and what was removed meanwhile, are no files
            let Ok(about) = fs::metadata(&path) else { continue };
            if about.is_dir() && self.is_open(&path, &about) {
                self.looked += 1;
                // what this user cannot read, the program cannot read either
                let _ = self.look(&path);
            } else if about.is_file()
                && is_part(&path)
                && !self.printed.contains(&identity(&about))
                && is_readable(&path)
            {
                self.looked += 1;
                self.files.insert(path);
            }
            if self.looked > MOST_FILES {
                break;
            }
        }
        Ok(())
    }

    /// Whether a folder is looked into, the first time that this is asked.
    fn is_open(&mut self, path: &Path, about: &Metadata) -> bool {
        let is_history = path.file_name().is_some_and(|name| HISTORIES.iter().any(|history| name == *history));
        let has_results = || RESULTS.iter().any(|file| path.join(file).exists());
        !is_history && !has_results() && self.shut.insert(identity(about))
    }
}

fn identity(about: &Metadata) -> (u64, u64) {
    (about.dev(), about.ino())
}

fn is_part(path: &Path) -> bool {
    !has_ending(path, &NO_PART) && !has_ending(path, &PRINTED)
}

fn has_ending(path: &Path, endings: &[&str]) -> bool {
    path.extension().is_some_and(|ending| endings.iter().any(|one| ending == *one))
}

/// What this user cannot read, the program cannot read either.
fn is_readable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::READ_OK).is_ok()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new() -> Self {
            let folder = Self(tempfile::tempdir().unwrap());
            folder.write("fill.sh");
            folder
        }

        fn write(&self, name: impl AsRef<OsStr>) {
            let path = self.0.path().join(name.as_ref());
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "1").unwrap();
        }

        fn program(&self) -> Program {
            let folder = self.0.path().to_owned();
            Program { program: folder.join("fill.sh"), folder, scripts: Vec::new() }
        }

        fn files(&self, words: &[&str]) -> Option<Vec<PathBuf>> {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let places = Places::below(&self.0.path().join("home"));
            let files = files_that_fill(&self.program(), &words, &places).unwrap()?;
            let below = |path: PathBuf| path.strip_prefix(self.0.path()).map_or(path.clone(), Path::to_owned);
            Some(files.into_iter().map(below).collect())
        }
    }

    #[test]
    fn files_of_subfolders_count_and_results_and_what_is_printed_do_not() {
        let folder = Folder::new();
        ["rows.csv", "sub/data.sql", "sub/deep/more.sql"].iter().for_each(|name| folder.write(name));
        folder.write(OsStr::from_bytes(b"caf\xe9.csv"));
        for name in [
            "nohup.out",
            "run.log",
            "other.toml",
            ".git/index",
            "__pycache__/a.pyc",
            "home/cache/x",
            "one/cells/a-1/note",
        ] {
            folder.write(name);
        }
        ["out/sweep.json", "out/cells/a/1/result.json", "one/recording.sqlite"]
            .iter()
            .for_each(|name| folder.write(name));
        symlink("..", folder.0.path().join("sub/loop")).unwrap();
        symlink("nowhere", folder.0.path().join("broken")).unwrap();
        let paths = |names: &[&[u8]]| Some(names.iter().map(|name| OsStr::from_bytes(name).into()).collect::<Vec<_>>());
        let expected: [&[u8]; 5] = [b"caf\xe9.csv", b"fill.sh", b"rows.csv", b"sub/data.sql", b"sub/deep/more.sql"];
        assert_eq!(folder.files(&["./fill.sh"]), paths(&expected));
    }

    #[test]
    fn a_file_of_another_folder_counts_when_the_command_names_it() {
        let (folder, other) = (Folder::new(), Folder::new());
        let elsewhere = other.0.path().join("fill.sh");
        other.write("print.log");
        let printed = format!("--log={}", other.0.path().join("print.log").display());
        for word in [elsewhere.display().to_string(), format!("--from={}", elsewhere.display())] {
            let words = ["./fill.sh", word.as_str(), "{socket}", "/nowhere", printed.as_str()];
            let mut expected = vec![PathBuf::from("fill.sh"), elsewhere.clone()];
            expected.sort();
            let mut files = folder.files(&words).unwrap();
            files.sort();
            assert_eq!(files, expected);
            let words: Vec<String> = words.map(str::to_owned).to_vec();
            assert_eq!(files_named(&folder.program(), &words), [folder.program().program, elsewhere.clone()]);
        }
    }

    #[test]
    fn of_too_many_files_none_counts() {
        let folder = Folder::new();
        (0..MOST_FILES - 2).for_each(|number| folder.write(format!("sub/{number}")));
        assert_eq!(folder.files(&["./fill.sh"]).map(|files| files.len()), Some(MOST_FILES - 1));
        folder.write("sub/more");
        assert_eq!(folder.files(&["./fill.sh"]), None);
    }
}
