// SPDX-License-Identifier: Apache-2.0
//! A server program with the files that belong to it: installed on the machine, or fetched and unpacked.

use crate::libraries::Libraries;
use crate::{Error, Flavour, Version, elf};
use capability::{Capability, any_words, words};
use host::{files, tool};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installation {
    pub flavour: Flavour,
    /// The version that the program reports with `--version`.
    pub version: Version,
    /// The server program.
    pub program: PathBuf,
    /// The folder above the server's own folders: `/usr`, or `usr` of an unpacked tree.
    pub prefix: PathBuf,
    /// SQL files, messages, character sets.
    pub share: PathBuf,
    #[serde(flatten)]
    pub libraries: Libraries,
    pub source: Source,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Source {
    /// Found on this machine.
    Installed,
    /// Unpacked from the distribution's package; if a suite is named, it is not the machine's own suite.
    Package {
        name: String,
        version: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        suite: Option<String>,
    },
    /// Unpacked from an artifact of Maven's repository: `GROUP:ARTIFACT`.
    Artifact { name: String, version: String },
    /// Unpacked from an archive that the user named.
    Archive { name: String, sha256: String },
}

impl Source {
    /// The source for the conditions of a run: `installed`, `distribution package mariadb-server-core 1:10.11.19-0+deb12u1`.
    pub fn describe(&self) -> String {
        match self {
            Self::Installed => "installed".into(),
            Self::Package { name, version, suite: None } => format!("distribution package {name} {version}"),
            Self::Package { name, version, suite: Some(suite) } => {
                format!("distribution package {name} {version} of suite {suite}")
            }
            Self::Artifact { name, version } => format!("Maven artifact {name} {version}"),
            Self::Archive { name, sha256 } => format!("archive {name}, SHA-256 {sha256}"),
        }
    }
}

/// The servers of this flavour that are installed on this machine, newest first.
pub fn installed(flavour: Flavour) -> Vec<Installation> {
    let mut prefixes: Vec<PathBuf> = ["/usr", "/usr/local"].map(PathBuf::from).to_vec();
    for name in any_words(Capability::ServerProgram, flavour) {
        let program = tool::find(name).and_then(|path| path.canonicalize().ok());
        prefixes.extend(program.and_then(|path| Some(path.parent()?.parent()?.to_owned())));
    }
    let prefixes: BTreeSet<PathBuf> = prefixes.into_iter().collect();
    let mut found: Vec<Installation> =
        prefixes.iter().flat_map(|prefix| below(flavour, prefix, &Libraries::default(), &Source::Installed)).collect();
    found.sort_by(|one, other| other.version.cmp(&one.version));
    found.dedup_by(|one, other| one.program == other.program);
    found
}

/// The server in an unpacked tree, when it runs on this machine.
pub(crate) fn unpacked(flavour: Flavour, tree: &Path, source: &Source) -> Option<Installation> {
    let libraries = Libraries::below(tree);
    let prefixes = [tree.join("usr"), tree.to_owned()];
    prefixes.iter().find_map(|prefix| below(flavour, prefix, &libraries, source).into_iter().next())
}

/// Why the server in an unpacked tree does not run, in the program's own words.
pub(crate) fn trouble(flavour: Flavour, tree: &Path) -> String {
    let libraries = Libraries::below(tree);
    let program =
        [tree.join("usr"), tree.to_owned()].iter().find_map(|prefix| programs(flavour, prefix).into_iter().next());
    let Some(program) = program else { return "the packages hold no server program".into() };
    match version_command(&program, &libraries).output() {
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    }
}

impl Installation {
    /// A line such as `installed: /usr/bin/postgres, version 15.18`; a fetched server is described with its package.
    pub fn describe(&self) -> String {
        let origin = match &self.source {
            Source::Installed => "installed".to_owned(),
            source => format!("fetched earlier ({})", source.describe()),
        };
        format!("{origin}: {}, version {}", self.program.display(), self.version)
    }

    /// Which build of the server's program this is: its build ID, else the checksum of the file. A copy of the program at another place is the same build.
    ///
    /// # Errors
    /// The program cannot be read.
    pub fn build(&self) -> Result<String, Error> {
        elf::build(&self.program).map_err(|source| Error::path("read", &self.program, source))
    }

    /// A helper command that finds this server's libraries.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = self.libraries.command(program);
        command.env("LC_ALL", "C");
        command
    }

    /// The program to execute for the server, and the arguments that come before the server's own.
    pub(crate) fn invocation(&self) -> (PathBuf, Vec<OsString>) {
        self.libraries.invocation(&self.program)
    }

    /// Whether process `pid` runs this server. If a loader has started the server, the kernel shows the loader as the program: then the mapped files
    /// of the process decide.
    pub(crate) fn is_run_by(&self, pid: u32) -> bool {
        let program = std::fs::read_link(format!("/proc/{pid}/exe"));
        let Some(loader) = &self.libraries.loader else {
            return program.is_ok_and(|program| program == self.program);
        };
        let is_loader = loader.canonicalize().is_ok_and(|loader| program.is_ok_and(|program| program == loader));
        let maps = || std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        is_loader && maps().lines().any(|line| crate::wrap::mapped(line) == Some(&self.program))
    }

    /// The variables that a server process needs in its environment.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        self.libraries.environment().into_iter().collect()
    }

    /// A program of the same version, beside the server, such as `initdb`.
    pub fn companion(&self, capability: Capability) -> Option<PathBuf> {
        let folder = self.program.parent()?;
        let beside = words(capability, self.flavour, &self.version).iter().map(|name| folder.join(name));
        let in_bin =
            words(capability, self.flavour, &self.version).iter().map(|name| self.prefix.join("bin").join(name));
        beside.chain(in_bin).find(|path| path.is_file())
    }

    /// Another program of the same packages, if it exists.
    pub(crate) fn beside(&self, name: &str) -> Option<PathBuf> {
        let beside = self.program.parent()?.join(name);
        [beside, self.prefix.join("bin").join(name)].into_iter().find(|path| path.is_file())
    }

    /// The interactive client, without its arguments: the one of this version, or, if there is none, one on the machine.
    pub fn client(&self) -> Option<Command> {
        let names = words(Capability::ClientProgram, self.flavour, &self.version);
        let own = self.companion(Capability::ClientProgram).map(|program| self.libraries.command(&program));
        own.or_else(|| names.iter().find_map(|name| tool::find(name)).map(tool::command))
    }

    /// The order of preference: an installed server before a fetched one, then the newer version, then one from an archive that the user has named.
    pub(crate) fn preference(&self) -> (bool, Version, bool) {
        let is_named = matches!(self.source, Source::Archive { .. });
        (self.source == Source::Installed, self.version.clone(), is_named)
    }
}

/// Every server of this flavour below `prefix` that runs.
fn below(flavour: Flavour, prefix: &Path, libraries: &Libraries, source: &Source) -> Vec<Installation> {
    programs(flavour, prefix)
        .into_iter()
        .filter(|program| *source == Source::Installed || files::check_usable_file(program).is_ok())
        .filter_map(|program| {
            let version = ask_version(flavour, &program, libraries)?;
            let share = share_folder(flavour, &version, prefix)?;
            Some(Installation {
                flavour,
                version,
                program,
                prefix: prefix.to_owned(),
                share,
                libraries: libraries.clone(),
                source: source.clone(),
            })
        })
        .collect()
}

/// The files with the server's name in the folders where this flavour keeps programs; a file with several names comes once.
pub(crate) fn programs(flavour: Flavour, prefix: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let folders: Vec<PathBuf> =
        any_words(Capability::ProgramFolder, flavour).iter().flat_map(|word| expand(prefix, word)).collect();
    for name in any_words(Capability::ServerProgram, flavour) {
        let files = folders.iter().filter_map(|folder| folder.join(name).canonicalize().ok());
        found.extend(files.filter(|path| path.is_file()));
    }
    let mut seen = BTreeSet::new();
    found.retain(|path| seen.insert(path.clone()));
    found
}

/// One folder for each version that exists, from `lib/postgresql/{major}/bin`.
fn expand(prefix: &Path, word: &str) -> Vec<PathBuf> {
    let Some((head, tail)) = word.split_once("{major}") else { return vec![prefix.join(word)] };
    let (folder, start) = head.rsplit_once('/').unwrap_or(("", head));
    let entries = std::fs::read_dir(prefix.join(folder)).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let numbered = |name: &String| name.strip_prefix(start).is_some_and(|rest| rest.parse::<u32>().is_ok());
    names.filter(numbered).map(|name| prefix.join(folder).join(name).join(tail.trim_start_matches('/'))).collect()
}

fn version_command(program: &Path, libraries: &Libraries) -> Command {
    let mut command = libraries.command(program);
    command.arg("--version").env("LC_ALL", "C").stdin(Stdio::null());
    command
}

fn ask_version(flavour: Flavour, program: &Path, libraries: &Libraries) -> Option<Version> {
    let output = version_command(program, libraries).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success() && is_of(flavour, &text)).then(|| Version::find_in(&text)).flatten()
}

/// Whether a server with this text of its version is of this flavour. MySQL's maker is named in the version's comment, if at all: a text of the form
/// `/usr/sbin/mysqld  Ver 9.7.4 for Linux` that names neither MariaDB nor Percona is MySQL's.
fn is_of(flavour: Flavour, version_text: &str) -> bool {
    let text = version_text.to_lowercase();
    match (flavour, text.split_once(" ver ")) {
        (Flavour::Mysql, ver) => {
            ver.is_some_and(|(_, version)| !["mariadb", "percona"].iter().any(|other| version.contains(other)))
        }
        (other, ver) => ver.map_or(text.as_str(), |(_, version)| version).contains(other.name()),
    }
}

fn share_folder(flavour: Flavour, version: &Version, prefix: &Path) -> Option<PathBuf> {
    let major = version.major().to_string();
    words(Capability::ShareFolder, flavour, version)
        .iter()
        .map(|word| prefix.join(word.replace("{major}", &major)))
        .find(|folder| marker(flavour, version).iter().any(|name| folder.join(name).is_file()))
}

/// Files by which a share folder is recognised.
fn marker(flavour: Flavour, version: &Version) -> Vec<&'static str> {
    let first = words(Capability::ShareMarker, flavour, version).first();
    first.map_or_else(Vec::new, |names| names.split('|').collect())
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // tests lay out folders of their own
pub(crate) mod tests {
    use super::*;

    /// An installed server of which only flavour and version matter.
    pub(crate) fn installation(flavour: Flavour, version: &str) -> Installation {
        Installation {
            flavour,
            version: version.parse().expect("a version"),
            program: "/proc/self/exe".into(),
            prefix: "/usr".into(),
            share: "/usr/share".into(),
            libraries: Libraries::default(),
            source: Source::Installed,
        }
    }

    #[test]
    fn a_pattern_finds_the_versions_that_are_there() {
        let prefix = tempfile::tempdir().expect("a folder");
        for name in ["lib/postgresql/15/bin", "lib/postgresql/17/bin", "lib/postgresql/common", "pgsql-16/bin"] {
            std::fs::create_dir_all(prefix.path().join(name)).expect("makes");
        }
        let mut found = expand(prefix.path(), "lib/postgresql/{major}/bin");
        found.sort();
        let names = ["lib/postgresql/15/bin", "lib/postgresql/17/bin"];
        assert_eq!(found, names.map(|name| prefix.path().join(name)));
        assert_eq!(expand(prefix.path(), "pgsql-{major}/bin"), [prefix.path().join("pgsql-16/bin")]);
        assert_eq!(expand(prefix.path(), "sbin"), [prefix.path().join("sbin")]);
    }

    #[test]
    fn a_program_of_another_flavour_is_not_taken() {
        let prefix = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(prefix.path().join("bin")).expect("makes");
        let program = prefix.path().join("bin/mysqld");
        std::fs::write(&program, "#!/bin/sh\necho mysqld  Ver 8.0.36 for Linux on x86_64\n").expect("writes");
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("sets");
        let found = |flavour| below(flavour, prefix.path(), &Libraries::default(), &Source::Installed);
        assert!(found(Flavour::Mariadb).is_empty());
        assert!(found(Flavour::Mysql).is_empty(), "it has no messages");
        std::fs::create_dir_all(prefix.path().join("share/english")).expect("makes");
        std::fs::write(prefix.path().join("share/english/errmsg.sys"), "").expect("writes");
        assert_eq!(found(Flavour::Mysql)[0].version.to_string(), "8.0.36");
        assert!(found(Flavour::Mariadb).is_empty());
    }

    #[test]
    fn root_does_not_run_a_program_of_another_user_in_the_cache() {
        use std::os::unix::fs::{PermissionsExt as _, chown};
        if !rustix::process::geteuid().is_root() {
            testkit::skip!("needs root");
        }
        let tree = tempfile::tempdir().expect("a folder");
        let (program, ran) = (tree.path().join("bin/postgres"), tree.path().join("ran"));
        std::fs::create_dir_all(tree.path().join("bin")).expect("makes");
        let text = tree.path().join("text");
        std::fs::write(&text, format!("#!/bin/sh\n: > {}\n", ran.display())).expect("writes");
        std::fs::set_permissions(&text, std::fs::Permissions::from_mode(0o755)).expect("sets");
        testkit::copy_program(&text, &program);
        chown(&program, Some(12_345), None).expect("gives it away");
        let source = Source::Artifact { name: "a:b".into(), version: "1".into() };
        assert_eq!((unpacked(Flavour::Postgresql, tree.path(), &source), ran.exists()), (None, false));
        chown(&program, Some(0), None).expect("takes it back");
        assert_eq!((unpacked(Flavour::Postgresql, tree.path(), &source), ran.exists()), (None, true));
    }

    #[test]
    fn a_servers_own_words_tell_its_flavour() {
        let mariadb =
            "/opt/mysql/bin/mysqld  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)";
        let mysql = "/opt/mariadb/sbin/mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))";
        let percona =
            "/usr/sbin/mysqld  Ver 8.0.36-28 for Linux on x86_64 (Percona Server (GPL), Release 28, Revision 47601f19)";
        let postgresql = "postgres (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)";
        for (text, flavour) in [
            (mariadb, Flavour::Mariadb),
            (mysql, Flavour::Mysql),
            (percona, Flavour::Percona),
            (postgresql, Flavour::Postgresql),
        ] {
            let found: Vec<Flavour> = Flavour::ALL.into_iter().filter(|flavour| is_of(*flavour, text)).collect();
            assert_eq!(found, [flavour], "{text}");
        }
    }

    /// Manifests from a time when a server had no loader, and all packages came from the machine's own suite.
    #[test]
    fn an_older_manifest_is_read() {
        let text = r#"{"flavour": "mariadb", "version": "10.11.19", "program": "/c/mariadbd", "prefix": "/c", "share": "/c/share",
            "library_path": ["/c/lib"], "source": {"kind": "package", "name": "mariadb-server-core", "version": "1"}}"#;
        let read: Installation = serde_json::from_str(text).expect("reads");
        assert_eq!(read.libraries, Libraries { folders: vec!["/c/lib".into()], loader: None });
        assert_eq!(read.source.describe(), "distribution package mariadb-server-core 1");
    }
}
