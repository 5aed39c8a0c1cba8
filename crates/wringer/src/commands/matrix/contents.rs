// SPDX-License-Identifier: Apache-2.0
//! Files that an experiment only names, and whose content a setting runs: logs that are replayed, programs that fill or load the server, histograms of a disk's
//! times, libraries that serve malloc. A setting with such a file is another setting when the file was edited.

use crate::exit::{Exit, Failure};
use experiment::{Arm, Experiment};
use lab::Found;
use sha2::{Digest as _, Sha256};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

/// The checksums of files. Each file is read once, however many settings name it.
#[derive(Default)]
pub(super) struct Contents {
    sums: BTreeMap<PathBuf, String>,
}

impl Contents {
    /// The name of each file, and the SHA-256 of its content. `file` is the experiment's file; logs are looked for in its folder, histograms in the
    /// current one.
    ///
    /// # Errors
    /// Exit code 3: a file cannot be read.
    pub(super) fn of(
        &mut self,
        file: &Path,
        experiment: &Experiment,
        found: &Found,
    ) -> Result<Vec<(String, String)>, Failure> {
        let folder = file.parent().unwrap_or(Path::new(""));
        let logs = found.logs.keys().map(|name| (format!("log {name}"), folder.join(name)));
        let loads = found.programs.iter().map(|(arm, program)| (format!("program of {arm}"), program.program.clone()));
        let fill = found.filler.iter().map(|program| ("program of fill".to_owned(), program.program.clone()));
        let named: Vec<(String, PathBuf)> = logs.chain(loads).chain(fill).chain(of_arms(experiment)).collect();
        named.into_iter().map(|(name, path)| Ok((name, self.sum(path)?))).collect()
    }

    fn sum(&mut self, path: PathBuf) -> Result<String, Failure> {
        match self.sums.entry(path) {
            Entry::Occupied(known) => Ok(known.get().clone()),
            Entry::Vacant(new) => {
                let sum = sha256(new.key()).map_err(|source| {
                    let context = format!("read {}", new.key().display());
                    Failure::new(Exit::Missing, anyhow::Error::new(source).context(context))
                })?;
                Ok(new.insert(sum).clone())
            }
        }
    }
}

/// The histograms of an arm's disk, and the library that serves malloc in its server. Arms mostly have the same ones.
fn of_arms(experiment: &Experiment) -> BTreeSet<(String, PathBuf)> {
    let histograms = |arm: &Arm| -> Vec<String> {
        arm.squeeze.disk.iter().flat_map(|disk| disk.files().map(str::to_owned)).collect()
    };
    let mut named = BTreeSet::new();
    for arm in &experiment.arms {
        named.extend(histograms(arm).into_iter().map(|file| (format!("histogram {file}"), file.into())));
        let library = arm.start.malloc.as_ref().and_then(|malloc| malloc.library());
        named.extend(library.map(|path| (format!("malloc {path}"), path.into())));
    }
    named
}

fn sha256(path: &Path) -> std::io::Result<String> {
    let mut hash = Sha256::new();
    let mut reader = BufReader::with_capacity(1 << 20, File::open(path)?);
    loop {
        let bytes = reader.fill_buf()?;
        let count = bytes.len();
        if count == 0 {
            break;
        }
        hash.update(bytes);
        reader.consume(count);
    }
    Ok(hash.finalize().iter().fold(String::new(), |mut sum, byte| {
        let _ = write!(sum, "{byte:02x}");
        sum
    }))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;
    use lab::Program;

    #[test]
    fn an_edited_program_is_another_one_and_a_moved_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let told = |name: &str, content: &str| {
            let program = folder.path().join(name);
            std::fs::write(&program, content).unwrap();
            let filler = Program { program, folder: folder.path().into(), scripts: Vec::new() };
            let found = Found { filler: Some(filler), ..Found::default() };
            Contents::default().of(Path::new("x.toml"), &parsed(""), &found).unwrap()
        };
        let first = told("fill.sh", "one");
        assert_ne!(first, told("fill.sh", "two"));
        assert_eq!(first, told("moved.sh", "one"));
    }

    fn parsed(more: &str) -> Experiment {
        let text = "schema = 1\nname = \"x\"\n[server]\nflavour = \"mariadb\"\nMORE\n[fill]\nrows = 10\n[load]\nworkload = \"oltp_point_select\"\ntime = \"1s\"\n";
        Experiment::parse(&text.replace("MORE", more)).unwrap()
    }

    #[test]
    fn an_edited_histogram_or_library_is_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let [histogram, library] = ["times.json", "malloc.so"].map(|name| folder.path().join(name));
        let more =
            format!("malloc = \"{}\"\n[squeeze.disk]\nread = \"histogram:{}\"", library.display(), histogram.display());
        let told = |one: &str, other: &str| {
            std::fs::write(&histogram, one).unwrap();
            std::fs::write(&library, other).unwrap();
            Contents::default().of(Path::new("x.toml"), &parsed(&more), &Found::default()).unwrap()
        };
        let first = told("a", "b");
        assert_eq!((first.len(), first.clone()), (2, told("a", "b")));
        assert_ne!(first[0], told("c", "b")[0]);
        assert_ne!(first[1], told("a", "c")[1]);
    }

    #[test]
    fn what_cannot_be_read_is_told_by_its_path() {
        let failure = Contents::default().sum("/nowhere/at/all".into()).unwrap_err();
        assert!(format!("{failure:?}").contains("/nowhere/at/all"));
    }
}
