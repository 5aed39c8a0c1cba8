// SPDX-License-Identifier: Apache-2.0
//! Maven, as the client of the repository for which it is set up on this machine (with its mirrors and proxies). It lists the versions of an
//! artifact, and unpacks an artifact. Its local repository is one of ours, so that it works for users without a home.

use crate::client;
use crate::{Error, Flavour, Progress};
use host::files;
use host::places::Places;
use host::tool;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub(crate) struct Maven {
    flavour: Flavour,
    folder: PathBuf,
}

/// The name of an artifact: `GROUP:ARTIFACT`.
pub(crate) type Coordinates = str;

/// The jar that was unpacked.
pub(crate) struct Jar {
    pub(crate) sha256: String,
    pub(crate) size_bytes: u64,
}

/// A fixed version, so that its behaviour does not change over time.
const PLUGIN: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1";
/// How old a list of versions may be.
const LIST_AGE: Duration = Duration::from_secs(12 * 3600);

impl Maven {
    /// # Errors
    /// [`Error::NoArtifactClient`] when this machine has no Maven, or no Java to run it.
    pub(crate) fn open(flavour: Flavour, wanted: &str, places: &Places) -> Result<Self, Error> {
        for (program, package) in [("mvn", "maven"), ("java", "default-jre-headless")] {
            let missing = || Error::NoArtifactClient { flavour, wanted: wanted.into(), program, package };
            tool::find(program).ok_or_else(missing)?;
        }
        let folder = places.cache.join("maven");
        // its repository holds the plugins that Maven runs
        files::usable_dir(&folder)?;
        Ok(Self { flavour, folder })
    }

    /// The versions of an artifact in its repository, in no order.
    pub(crate) fn versions(&self, artifact: &Coordinates, progress: &mut dyn Progress) -> Result<Vec<String>, Error> {
        if let Some(versions) = self.listed(artifact, Some(LIST_AGE)) {
            return Ok(versions);
        }
        progress.doing(&format!("read the versions of {artifact}"));
        let mut command = self.command("get", &self.folder);
        // the description of the newest version; Maven gets the list of all versions with it
        command.args(["-U", "-Dtransitive=false"]).arg(format!("-Dartifact={artifact}:RELEASE:pom"));
        self.run(command, "reading the versions of an artifact", &mut || {})?;
        self.listed(artifact, None).ok_or_else(|| self.unreachable(vec!["no list of versions came".into()]))
    }

    /// Downloads an artifact, checked against the repository's checksum, and unpacks it into `folder`. Nothing of it stays in the local repository.
    pub(crate) fn unpack(
        &self,
        artifact: &Coordinates,
        version: &str,
        folder: &Path,
        progress: &mut dyn Progress,
    ) -> Result<Jar, Error> {
        progress.doing(&format!("download {artifact} {version}"));
        let place = self.place(artifact).join(version);
        files::remove_tree(&place)?;
        let mut command = self.command("unpack", folder);
        command.arg(format!("-Dartifact={artifact}:{version}"));
        command.arg(format!("-DoutputDirectory={}", folder.display()));
        command.arg("-Dmdep.overWriteReleases=true");
        let look = &mut || progress.bytes(client::folder_bytes(&place), 0);
        let downloaded = self.run(command, "downloading an artifact", look);
        if downloaded.is_err() {
            files::remove_tree(&place)?;
        }
        downloaded?;
        let name = artifact.rsplit_once(':').map_or(artifact, |(_, name)| name);
        let jar = place.join(format!("{name}-{version}.jar"));
        let file = File::open(&jar).map_err(|source| Error::path("open", &jar, source))?;
        let size_bytes = file.metadata().map_err(|source| Error::path("look at", &jar, source))?.len();
        let sha256 = client::sha256(file)?;
        files::remove_tree(&place)?;
        Ok(Jar { sha256, size_bytes })
    }

    fn command(&self, goal: &str, folder: &Path) -> Command {
        let mut command = tool::command("mvn");
        command.args([
            "--batch-mode",
            "--quiet",
            "--strict-checksums",
            "--no-transfer-progress",
            "-Dstyle.color=never",
        ]);
        command.arg(format!("-Dmaven.repo.local={}", self.folder.join("repository").display()));
        // otherwise Maven looks in each folder above for settings (.mvn) that name code to run
        command.env("MAVEN_BASEDIR", &self.folder);
        command.arg(format!("{PLUGIN}:{goal}")).current_dir(folder);
        command
    }

    fn run(&self, command: Command, doing: &'static str, look: &mut dyn FnMut()) -> Result<(), Error> {
        let log_path = self.folder.join("output.log");
        match client::run(command, doing, &log_path, look).map_err(|error| client::or_no_room(error, &self.folder)) {
            Err(Error::Program { log, .. }) => {
                let text = fs::read_to_string(&log_path).unwrap_or_default();
                Err(self.unreachable(essence(&text).map_or(log, |line| vec![line])))
            }
            done => done,
        }
    }

    fn unreachable(&self, log: Vec<String>) -> Error {
        Error::RepositoryUnreachable { flavour: self.flavour, log }
    }

    /// The folder in which Maven keeps an artifact in a local repository.
    fn place(&self, artifact: &Coordinates) -> PathBuf {
        let (group, name) = artifact.split_once(':').unwrap_or(("", artifact));
        self.folder.join("repository").join(group.replace('.', "/")).join(name)
    }

    /// The list that Maven has kept, if it is not older than `most`; the name of its file ends with the name of the repository from which it came.
    fn listed(&self, artifact: &Coordinates, most: Option<Duration>) -> Option<Vec<String>> {
        let entries = fs::read_dir(self.place(artifact)).ok()?.flatten();
        let lists = entries.filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with("maven-metadata-") && name.ends_with(".xml")
        });
        let is_fresh = |path: &Path| {
            let age = fs::metadata(path).and_then(|it| it.modified()).ok().and_then(|then| then.elapsed().ok());
            most.is_none_or(|most| age.is_some_and(|age| age < most))
        };
        let list = lists.map(|entry| entry.path()).find(|path| is_fresh(path))?;
        Some(versions_in(&fs::read_to_string(list).ok()?)).filter(|versions| !versions.is_empty())
    }
}

/// The versions in elements such as `<version>11.4.5</version>`, one on each line, as Maven itself writes them.
fn versions_in(text: &str) -> Vec<String> {
    let parts = text.split("<version>").skip(1);
    parts.filter_map(|part| Some(part.split_once("</version>")?.0.trim().to_owned())).collect()
}

/// The first of the lines that Maven calls errors, without what comes before that word; the lines after it only tell how to ask Maven for more.
fn essence(log: &str) -> Option<String> {
    let errors = log.lines().filter_map(|line| Some(line.split_once("[ERROR] ")?.1.trim()));
    errors.filter(|words| !words.is_empty()).map(str::to_owned).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_in_a_list() {
        let text = "<metadata>\n <versioning>\n  <latest>18.6.0</latest>\n  <versions>\n   <version>9.6.24</version>\n   \
                    <version>10.5.0-1</version>\n  </versions>\n </versioning>\n</metadata>\n";
        assert_eq!(versions_in(text), ["9.6.24", "10.5.0-1"]);
        assert!(versions_in("<html>no such page</html>").is_empty());
    }

    #[test]
    fn settings_in_folders_above_are_not_read() {
        let maven = Maven { flavour: Flavour::Mariadb, folder: "/cache/maven".into() };
        let command = maven.command("get", Path::new("/cache/servers/.new-1/unpacked"));
        let given = command.get_envs().find(|(name, _)| *name == "MAVEN_BASEDIR").and_then(|(_, value)| value);
        assert_eq!(given, Some("/cache/maven".as_ref()));
    }

    #[test]
    fn of_mavens_words_the_error_counts() {
        let log = "\u{1b}[0m[INFO] x\n[ERROR] \n\u{1b}[0m[ERROR] Could not find artifact a:b:1\n[ERROR] To see more, use -e\n";
        assert_eq!(essence(log).as_deref(), Some("Could not find artifact a:b:1"));
        assert_eq!(essence("java: not found"), None);
    }
}
