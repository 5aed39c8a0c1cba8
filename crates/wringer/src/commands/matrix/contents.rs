// SPDX-License-Identifier: Apache-2.0
//! Files that an experiment only names, and whose content a setting runs: logs that are replayed, programs that fill or load the server and the files of their
//! commands, histograms of a disk's times, libraries that serve malloc, the data of `fill.from`, and the server's own program. A setting with such a file is
//! another setting when the file was edited, or another build of the server has come.

use crate::exit::{Exit, Failure};
use experiment::{Arm, Experiment, Plan};
use host::places::Places;
use lab::{Found, Program, files_named, files_that_fill, server_request};
use sandbox::{Origin, sha256};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What stands for the build of the server, beside the names of files.
const SERVER: &str = "program of the server";

/// The checksums of files, and of folders of data. Each file is read once, and each folder looked at once, however many settings name it.
pub(in crate::commands) struct Contents<'a> {
    places: &'a Places,
    sums: BTreeMap<PathBuf, String>,
    /// What the data of `fill.from` take.
    bytes: BTreeMap<PathBuf, u64>,
    fills: BTreeMap<Vec<String>, Vec<PathBuf>>,
    /// The build of each server, by its name in the experiment. `None`: it is not on this machine yet.
    builds: BTreeMap<String, Option<String>>,
    /// What no id counts, each as one sentence.
    pub(super) unseen: BTreeSet<String>,
}

impl<'a> Contents<'a> {
    pub(in crate::commands) fn new(places: &'a Places) -> Self {
        let (sums, bytes) = (BTreeMap::new(), BTreeMap::new());
        Self { places, sums, bytes, fills: BTreeMap::new(), builds: BTreeMap::new(), unseen: BTreeSet::new() }
    }

    /// The name of each file, and the SHA-256 of its content; of a folder of data, that of the sizes and times of its files. `file` is the experiment's file; logs are looked for in its folder, histograms in the
    /// current one.
    ///
    /// # Errors
    /// Exit code 3: a file cannot be read.
    pub(in crate::commands) fn of(
        &mut self,
        file: &Path,
        experiment: &Experiment,
        found: &Found,
    ) -> Result<Vec<(String, String)>, Failure> {
        let folder = file.parent().unwrap_or(Path::new(""));
        let replays = experiment.arms.iter().filter_map(|arm| arm.load.replay.as_ref());
        let logs: BTreeSet<&str> = replays.map(|replay| replay.log.as_str()).collect();
        let logs = logs.into_iter().map(|name| (format!("log {name}"), folder.join(name)));
        let mut named: Vec<(String, PathBuf)> = logs.collect();
        for arm in &experiment.arms {
            if let Some((program, driver)) = found.programs.get(&arm.name).zip(arm.load.driver.as_ref()) {
                let files = files_named(program, &driver.arguments);
                named.extend(labelled(&format!("program of {}", arm.name), program, files));
            }
        }
        if let Some(program) = &found.filler {
            let files = self.files_of_fill(program, &experiment.fill.command)?;
            named.extend(labelled("program of fill", program, files));
        }
        named.extend(of_arms(experiment));
        let build = self.build(experiment)?.map(|build| (SERVER.to_owned(), build));
        let origin = found.origin.as_ref().map(|origin| Ok(("data of fill.from".to_owned(), self.origin(origin)?)));
        let sums: Vec<_> = named.into_iter().map(|(name, path)| Ok((name, self.sum(path)?))).collect();
        build.into_iter().map(Ok).chain(sums).chain(origin).collect()
    }

    /// The build of the server that runs now under the name that the experiment has.
    fn build(&mut self, experiment: &Experiment) -> Result<Option<String>, Failure> {
        let request = server_request(&experiment.server)?;
        let name = format!("{} {:?}", request.flavour, request.version);
        if let Some(known) = self.builds.get(&name) {
            return Ok(known.clone());
        }
        let build = sandbox::present(&request, self.places).map(|found| found.build()).transpose()?;
        self.builds.insert(name, build.clone());
        Ok(build)
    }

    fn files_of_fill(&mut self, program: &Program, words: &[String]) -> Result<Vec<PathBuf>, Failure> {
        if let Some(known) = self.fills.get(words) {
            return Ok(known.clone());
        }
        let files = files_that_fill(program, words, self.places)?.unwrap_or_else(|| {
            self.unseen.insert(format!(
                "more than 1000 files and folders are below {}: only those that fill.command names count for a setting, and a cell is not run again when another \
                 one is edited; put the program that fills into a folder of its own",
                program.folder.display()
            ));
            files_named(program, words)
        });
        self.fills.insert(words.to_vec(), files.clone());
        Ok(files)
    }

    /// The content of a dump; of a folder of data, the sizes and times of its files.
    fn origin(&mut self, origin: &Origin) -> Result<String, Failure> {
        if !origin.is_folder() {
            return self.sum(origin.path.clone());
        }
        match self.sums.entry(origin.path.clone()) {
            Entry::Occupied(known) => Ok(known.get().clone()),
            Entry::Vacant(new) => Ok(new.insert(origin.as_it_is()?).clone()),
        }
    }

    /// What a cell takes on a disk: what its plan says, and the data that it begins with.
    ///
    /// # Errors
    /// Exit code 3: the data cannot be looked at.
    pub(in crate::commands) fn disk_bytes(&mut self, plan: &Plan, origin: Option<&Origin>) -> Result<u64, Failure> {
        Ok(plan.disk_bytes + origin.map_or(Ok(0), |origin| self.bytes(origin))?)
    }

    fn bytes(&mut self, origin: &Origin) -> Result<u64, Failure> {
        Ok(match self.bytes.entry(origin.path.clone()) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => *new.insert(origin.bytes()?),
        })
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

/// Names for the files of a program, by where they are below its folder: a folder that was moved has the same files.
fn labelled(of: &str, program: &Program, files: Vec<PathBuf>) -> Vec<(String, PathBuf)> {
    let label = |path: &PathBuf| match path.strip_prefix(&program.folder).unwrap_or(path) {
        _ if *path == program.program => of.to_owned(),
        shown => format!("{of}: {}", shown.display()),
    };
    files.into_iter().map(|path| (label(&path), path)).collect()
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

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;
    use experiment::{Driver, DriverProgram};

    /// What the ids of `experiment` count, whose program is `name`.
    fn counted(folder: &Path, name: &str, experiment: &Experiment) -> Vec<(String, String)> {
        let program = Program { program: folder.join(name), folder: folder.into(), scripts: Vec::new() };
        let programs = experiment.arms.iter().filter(|arm| arm.load.driver.is_some());
        let programs = programs.map(|arm| (arm.name.clone(), program.clone())).collect();
        let filler = Some(program.clone()).filter(|_| !experiment.fill.command.is_empty());
        let found = Found { filler, programs, ..Found::default() };
        files_of(&folder.join("home"), experiment, &found)
    }

    /// The same without the server, which is on some machines only.
    fn files_of(home: &Path, experiment: &Experiment, found: &Found) -> Vec<(String, String)> {
        let places = Places::below(home);
        let all = Contents::new(&places).of(Path::new("x.toml"), experiment, found).unwrap();
        all.into_iter().filter(|(name, _)| name != SERVER).collect()
    }

    #[test]
    fn an_edited_program_or_file_of_a_fill_is_another_one_and_a_moved_folder_is_not() {
        let mut experiment = parsed("");
        experiment.fill.command = vec!["./fill.sh".to_owned()];
        let told = |script: &str, data: &str| {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("fill.sh"), script).unwrap();
            std::fs::create_dir(folder.path().join("sub")).unwrap();
            std::fs::write(folder.path().join("sub/data.sql"), data).unwrap();
            counted(folder.path(), "fill.sh", &experiment)
        };
        let first = told("one", "1");
        assert_eq!(first, told("one", "1"));
        assert_ne!(first, told("two", "1"));
        assert_ne!(first, told("one", "2"));
    }

    #[test]
    fn an_edited_script_of_a_load_is_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut experiment = parsed("");
        let arguments = ["bash", "./go.sh", "{socket}"].map(str::to_owned).to_vec();
        experiment.arms[0].load.driver = Some(Driver { program: DriverProgram::Command, arguments });
        let told = |script: &str| {
            std::fs::write(folder.path().join("bash"), "").unwrap();
            std::fs::write(folder.path().join("go.sh"), script).unwrap();
            counted(folder.path(), "bash", &experiment)
        };
        assert_ne!(told("one"), told("two"));
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
            files_of(folder.path(), &parsed(&more), &Found::default())
        };
        let first = told("a", "b");
        assert_eq!((first.len(), first.clone()), (2, told("a", "b")));
        assert_ne!(first[0], told("c", "b")[0]);
        assert_ne!(first[1], told("a", "c")[1]);
    }

    #[test]
    fn another_dump_of_fill_from_is_another_setting() {
        let folder = tempfile::tempdir().unwrap();
        // a dump is its content, whatever it is called
        let dumped = |name: &str, rows: &str| {
            let dump = folder.path().join(name);
            std::fs::write(&dump, format!("-- MariaDB dump 10.19  Distrib 10.11.6-MariaDB\n{rows}\n")).unwrap();
            let found = Found { origin: Some(Origin::look(&dump).unwrap()), ..Found::default() };
            files_of(folder.path(), &parsed(""), &found)
        };
        let one = dumped("a.sql", "SELECT 1;");
        assert_eq!((one[0].0.as_str(), &one), ("data of fill.from", &dumped("b.sql", "SELECT 1;")));
        assert_ne!(one, dumped("a.sql", "SELECT 2;"));
    }

    #[test]
    fn what_cannot_be_read_is_told_by_its_path() {
        let failure = Contents::new(&Places::below(Path::new("/nowhere"))).sum("/nowhere/at/all".into()).unwrap_err();
        assert!(format!("{failure:?}").contains("/nowhere/at/all"));
    }
}
