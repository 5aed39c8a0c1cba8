// SPDX-License-Identifier: Apache-2.0
//! The package client of Debian and related systems, with its own state below Wringer's cache: it uses the machine's sources, keys and proxies, but
//! private package lists and a private archive. It works as an ordinary user, and changes nothing on the machine.

use crate::client::{self, folder_bytes, log_end};
use crate::{Error, Flavour, Progress};
use host::files;
use host::places::Places;
use host::tool;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A package with a version, as the lists have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) sha256: String,
    pub(crate) size_bytes: u64,
    pub(crate) unpacked_bytes: u64,
}

pub(crate) struct Apt {
    pub(crate) folder: PathBuf,
    /// The suite of the machine's archive, when it is not the machine's own suite.
    pub(crate) suite: Option<String>,
}

/// How old the lists may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Age {
    /// For the first try: older lists may name versions that the archive no longer has.
    Hours,
    /// For the second try, after the lists were wrong.
    Minutes,
}

impl Age {
    fn most(self) -> Duration {
        match self {
            Self::Hours => Duration::from_secs(12 * 3600),
            Self::Minutes => Duration::from_secs(120),
        }
    }
}

/// Settings of the machine that would act outside our folders, or fetch what we do not need.
const LEFT_OUT: [&str; 11] = [
    "APT::Update::P",
    "DPkg::P",
    "APT::Periodic",
    "Unattended-Upgrade",
    "Acquire::IndexTargets",
    "Acquire::Languages",
    "Dir::State",
    "Dir::Cache",
    "Dir::Log",
    "Dir::Etc::parts",
    "Dir::Etc::main",
];

/// The client's names for its indexes; a client that fails leaves them with six more letters, `pkgcache.bin.Xa3bC9`.
const INDEXES: [&str; 2] = ["pkgcache.bin", "srcpkgcache.bin"];

impl Drop for Apt {
    /// Also runs after a failure: one client at a time works here, under the lock of the cache.
    fn drop(&mut self) {
        let _ = self.drop_indexes();
        let _ = self.drop_partial();
    }
}

impl Apt {
    /// # Errors
    /// [`Error::NoPackageClient`] when this machine has no such client.
    pub(crate) fn open(flavour: Flavour, places: &Places) -> Result<Self, Error> {
        for program in ["apt-get", "apt-cache", "apt-config", "dpkg-deb"] {
            tool::find(program).ok_or(Error::NoPackageClient { flavour, program })?;
        }
        let apt = Self { folder: places.cache.join("apt"), suite: None };
        apt.make_folders()?;
        let mut command = tool::command("apt-config");
        command.arg("dump").env("LC_ALL", "C");
        let machine = apt.output(command, "reading the package client's settings")?;
        apt.write_configuration(&machine, "Dir::State::status \"/var/lib/dpkg/status\";\n")?;
        Ok(apt)
    }

    pub(crate) fn make_folders(&self) -> Result<(), Error> {
        // its settings name programs that the client runs
        files::usable_dir(&self.folder)?;
        for name in ["state/lists/partial", "cache/archives/partial"] {
            files::private_dir(&self.folder.join(name), 0o755)?;
        }
        Ok(())
    }

    /// Refreshes the lists when they are older than `most`; returns whether they were refreshed. A source of the machine that does not answer is no
    /// error: the wanted package may be in another source.
    pub(crate) fn update(&self, most: Age, progress: &mut dyn Progress) -> Result<bool, Error> {
        let stamp = self.folder.join("updated");
        let age = stamp.metadata().and_then(|it| it.modified()).ok().and_then(|then| then.elapsed().ok());
        if age.is_some_and(|age| age < most.most()) {
            return Ok(false);
        }
        let of = self.suite.as_ref().map_or_else(|| "the distribution".into(), |suite| format!("suite {suite}"));
        progress.doing(&format!("read the package lists of {of}"));
        let lists = self.folder.join("state/lists");
        let mut command = self.command("apt-get");
        command.args(["-q", "update"]);
        let doing = "reading the package lists";
        let updated = self.run(command, doing, &mut || progress.bytes(folder_bytes(&lists), 0));
        let is_full = matches!(updated, Err(Error::NoRoom { .. })) || client::says_no_room(&log_end(&self.log_path()));
        if is_full || !holds_lists(&lists) {
            // the client reports success even when no source answers
            updated?;
            let (program, status) = ("apt-get".into(), "success, but without a list".into());
            let failed = Error::Program { program, doing, status, log: log_end(&self.log_path()) };
            return Err(client::or_no_room(failed, &self.folder));
        }
        files::write_atomic(&stamp, b"", 0o644)?;
        Ok(true)
    }

    /// Removes the client's indexes of the lists: they are 70 MiB, and the client makes them anew in a second.
    pub(crate) fn drop_indexes(&self) -> Result<(), Error> {
        let entries = std::fs::read_dir(self.folder.join("cache")).into_iter().flatten().flatten();
        let is_index = |name: &str| INDEXES.iter().any(|index| name.starts_with(index));
        for entry in entries.filter(|entry| is_index(&entry.file_name().to_string_lossy())) {
            files::remove_file(&entry.path())?;
        }
        Ok(())
    }

    /// Removes the files that a failed client has begun to download: on a full disk they take all the space that was left.
    fn drop_partial(&self) -> Result<(), Error> {
        for name in ["state/lists/partial", "cache/archives/partial"] {
            let entries = std::fs::read_dir(self.folder.join(name)).into_iter().flatten().flatten();
            for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file())) {
                files::remove_file(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Names of packages that begin with `prefix`.
    pub(crate) fn names(&self, prefix: &str) -> Result<Vec<String>, Error> {
        let mut command = self.command("apt-cache");
        command.arg("pkgnames").arg(prefix);
        let mut names: Vec<String> = self.output(command, "listing packages")?.lines().map(str::to_owned).collect();
        names.sort();
        Ok(names)
    }

    /// Every version of these packages that the sources offer; none if they have none.
    pub(crate) fn versions(&self, packages: &[String]) -> Result<Vec<Package>, Error> {
        let mut command = self.command("apt-cache");
        command.arg("show").args(packages);
        Ok(parse_show(&self.output(command, "looking a package up")?))
    }

    /// The packages that `wanted` need and this machine lacks: names and versions, `wanted` included.
    pub(crate) fn missing_with(&self, wanted: &[String]) -> Result<Vec<(String, String)>, Error> {
        // On a machine whose own packages are inconsistent the client gives no useful answer: it is then asked as on an empty machine.
        let empty = self.folder.join("state/empty-status");
        files::write_atomic(&empty, b"", 0o644)?;
        self.resolve(wanted, None).or_else(|_| self.resolve(wanted, Some(&empty)))
    }

    fn resolve(&self, wanted: &[String], status: Option<&Path>) -> Result<Vec<(String, String)>, Error> {
        let mut command = self.command("apt-get");
        if let Some(status) = status {
            command.arg("-o").arg(format!("Dir::State::status={}", status.display()));
        }
        command.args(["-qq", "--print-uris", "--no-install-recommends", "--allow-downgrades", "install"]).args(wanted);
        Ok(self.output(command, "resolving dependencies")?.lines().filter_map(parse_uri).collect())
    }

    /// Downloads `packages` into `folder`; the client checks them against the signed lists, and we check them again.
    pub(crate) fn download(
        &self,
        packages: &[Package],
        folder: &Path,
        progress: &mut dyn Progress,
    ) -> Result<(), Error> {
        let total_bytes = packages.iter().map(|package| package.size_bytes).sum();
        progress.doing(&format!("download {} packages", packages.len()));
        let mut command = self.command("apt-get");
        command.args(["-q", "download"]).current_dir(folder);
        command.args(packages.iter().map(|package| format!("{}={}", package.name, package.version)));
        self.run(command, "downloading packages", &mut || progress.bytes(folder_bytes(folder), total_bytes))?;
        self.verify(packages, folder)
    }

    fn verify(&self, packages: &[Package], folder: &Path) -> Result<(), Error> {
        let line = |package: &Package| Some(format!("{}  {}\n", package.sha256, file_of(package, folder)?.display()));
        let sums: Option<String> = packages.iter().map(line).collect();
        let list = folder.join("SHA256SUMS");
        let missing = || Error::Program {
            program: "apt-get".into(),
            doing: "downloading packages",
            status: "success, but not with every package".into(),
            log: Vec::new(),
        };
        files::write_atomic(&list, sums.ok_or_else(missing)?.as_bytes(), 0o644)?;
        let mut command = tool::command("sha256sum");
        command.args(["--check", "--strict", "--quiet"]).arg(&list).env("LC_ALL", "C");
        self.run(command, "checking the packages", &mut || {})
    }

    /// Unpacks one package file below `tree`; runs none of its scripts.
    pub(crate) fn unpack(&self, package: &Package, folder: &Path, tree: &Path) -> Result<(), Error> {
        let file = file_of(package, folder).ok_or_else(|| Error::path("find", folder, std::io::ErrorKind::NotFound))?;
        let mut command = tool::command("dpkg-deb");
        command.arg("-x").arg(file).arg(tree).env("LC_ALL", "C");
        self.run(command, "unpacking a package", &mut || {})
    }

    /// Writes the machine's settings, but without its hooks, and with our folders; `more` comes last.
    pub(crate) fn write_configuration(&self, machine: &str, more: &str) -> Result<(), Error> {
        let kept = machine.lines().filter(|line| !is_left_out(line));
        let mut text: String = kept.flat_map(|line| [line, "\n"]).collect();
        let folder = self.folder.display();
        text += &format!(
            "Dir::Etc::parts \"/dev/null\";\nDir::Etc::main \"/dev/null\";\n\
             Dir::State \"{folder}/state/\";\nDir::State::lists \"lists/\";\n\
             Dir::Cache \"{folder}/cache/\";\nDir::Cache::archives \"archives/\";\n\
             Dir::Cache::pkgcache \"pkgcache.bin\";\nDir::Cache::srcpkgcache \"srcpkgcache.bin\";\n\
             Acquire::Languages \"none\";\nAcquire::IndexTargets::deb-src::Sources::DefaultEnabled \"false\";\n\
             APT::Sandbox::User \"root\";\nDebug::NoLocking \"true\";\nAPT::Get::List-Cleanup \"false\";\n\
             Acquire::Retries \"2\";\n{more}"
        );
        // The file may hold the password of a proxy.
        Ok(files::write_atomic(&self.folder.join("apt.conf"), text.as_bytes(), 0o600)?)
    }

    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = tool::command(program);
        command
            .env("APT_CONFIG", self.folder.join("apt.conf"))
            .env("LC_ALL", "C")
            .env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    pub(crate) fn output(&self, mut command: Command, doing: &'static str) -> Result<String, Error> {
        command.stdin(Stdio::null());
        client::output(command, doing).map_err(|error| client::or_no_room(error, &self.folder))
    }

    /// Runs a command to its end, and calls `look` meanwhile.
    fn run(&self, command: Command, doing: &'static str, look: &mut dyn FnMut()) -> Result<(), Error> {
        client::run(command, doing, &self.log_path(), look).map_err(|error| client::or_no_room(error, &self.folder))
    }

    fn log_path(&self) -> PathBuf {
        self.folder.join("output.log")
    }
}

/// The client does not distinguish capital and small letters in the names of settings.
fn is_left_out(line: &str) -> bool {
    let begins =
        |name: &str| line.as_bytes().get(..name.len()).is_some_and(|it| it.eq_ignore_ascii_case(name.as_bytes()));
    LEFT_OUT.iter().any(|name| begins(name))
}

/// The name and version in `'URI' name_version_arch.deb size hash`; `%3a` stands for the colon of an epoch.
fn parse_uri(line: &str) -> Option<(String, String)> {
    let file = line.strip_prefix('\'')?.split_whitespace().nth(1)?;
    let mut parts = file.split('_');
    let (name, version) = (parts.next()?, parts.next()?);
    Some((name.to_owned(), version.replace("%3a", ":")))
}

/// The paragraphs of `apt-cache show` for packages that a source offers; a package that only dpkg knows has no checksum.
fn parse_show(text: &str) -> Vec<Package> {
    text.split("\n\n").filter_map(parse_paragraph).collect()
}

fn parse_paragraph(text: &str) -> Option<Package> {
    let field = |name: &str| {
        let line = text.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(':')))?;
        line.split_once(':').map(|(_, value)| value.trim().to_owned())
    };
    Some(Package {
        name: field("Package")?,
        version: field("Version")?,
        sha256: field("SHA256")?,
        size_bytes: field("Size")?.parse().ok()?,
        // The field is in KiB (deb-control(5)).
        unpacked_bytes: field("Installed-Size").and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10,
    })
}

/// The file of a package. The client names files `name_version_arch.deb`, with `%3a` for a colon.
fn file_of(package: &Package, folder: &Path) -> Option<PathBuf> {
    let start = format!("{}_{}_", package.name, package.version.replace(':', "%3a"));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&start)))
}

fn holds_lists(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().contains("_Packages"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris() {
        let line = "'http://x.invalid/m/mariadb-server-core_10.11.19-0%2bdeb12u1_amd64.deb' \
                    mariadb-server-core_1%3a10.11.19-0+deb12u1_amd64.deb 7342456 ";
        let expected = ("mariadb-server-core".to_owned(), "1:10.11.19-0+deb12u1".to_owned());
        assert_eq!(parse_uri(line), Some(expected));
        assert_eq!(parse_uri("E: Unable to locate package"), None);
    }

    #[test]
    fn no_hook_of_the_machine_is_kept_however_it_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let apt = Apt { folder: folder.path().into(), suite: None };
        let machine = "apt::update::post-invoke:: \"touch /x\";\nDPKG::Post-Invoke:: \"touch /x\";\nDir::Etc::Parts \"/x\";\n\
                       Acquire::http::Proxy \"http://proxy.invalid\";\nAPT\n";
        apt.write_configuration(machine, "").expect("writes");
        let kept = std::fs::read_to_string(folder.path().join("apt.conf")).expect("is there");
        assert!(!kept.contains("/x") && kept.starts_with("Acquire::http::Proxy"), "{kept}");
    }

    #[test]
    fn paragraphs_without_a_checksum_are_left_out() {
        let text = "Package: libx\nVersion: 1:2-3\nInstalled-Size: 10\nSize: 99\nSHA256: abc\nDescription: x\n y\n\n\
                    Package: libx\nStatus: install ok installed\nVersion: 1\n\n";
        let found = parse_show(text);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].version.as_str(), found[0].size_bytes, found[0].unpacked_bytes), ("1:2-3", 99, 10 << 10));
    }
}
