// SPDX-License-Identifier: Apache-2.0
//! Changes to a server's process for one start: another malloc, further variables of its environment, Valgrind, huge pages, no transparent huge
//! pages. Each concerns one process; nothing on the host is changed. [`in_force`] reads afterwards which of them are in force.

mod in_force;
mod malloc;

pub use self::malloc::{Malloc, MallocStart, library_of_machine, present_malloc};
pub(crate) use in_force::mapped;
pub use in_force::{Got, huge_page_bytes};

use crate::joint_needs::pool_bytes;
use crate::manifest::Manifest;
use crate::{Error, Flavour, Sandbox, ServerOption};
use capability::{Capability, is_malloc_variable, words};
use host::process::Leftovers;
use host::{files, tool};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The asked changes; `None`: no change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wrapping {
    /// The result of [`Malloc::locate`].
    pub malloc: Option<MallocStart>,
    pub thp: Option<Thp>,
    pub valgrind: Option<Valgrind>,
    /// Options of Valgrind, after those that Wringer sets.
    #[serde(default)]
    pub valgrind_options: Vec<String>,
    pub huge_pages: Option<HugePages>,
    /// Further variables of the server's environment: they replace those of the malloc.
    #[serde(default)]
    pub environment: Vec<(String, String)>,
}

/// Transparent huge pages. For one process they can be turned off (prctl(2), `PR_SET_THP_DISABLE`); everything else is the host's setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Thp {
    Always,
    Madvise,
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Valgrind {
    Massif,
    Memcheck,
}

/// Huge pages for the server's pool: PostgreSQL's `huge_pages`, `large_pages` of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HugePages {
    On,
    Try,
    Off,
}

/// The file with the host's setting; the word in force is in brackets.
const HOST_THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
/// In Valgrind a server is many times slower, and writes its report at its end.
const VALGRIND_GRACE: Duration = Duration::from_secs(600);
const VALGRIND_READY: Duration = Duration::from_secs(600);
/// The folder in the sandbox to which Valgrind writes as the server's user.
pub(crate) const VALGRIND_FOLDER: &str = "valgrind";
/// The beginning of the names of the pipes through which a program in Valgrind can be asked. They are in that folder, and not in /tmp.
const PIPES: &str = "vgdb-";
/// The folder in the sandbox to which other heap profilers write as the server's user.
const PROFILES_FOLDER: &str = "profiles";
/// PostgreSQL forks its processes, and only with this option each of them has its own pipes. Programs of the machine that a server starts are not
/// traced.
const WITH_CHILDREN: [&str; 2] = ["--trace-children=yes", "--trace-children-skip=/bin/*,/usr/bin/*"];

impl Thp {
    pub fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Madvise => "madvise",
            Self::Never => "never",
        }
    }
}

impl Valgrind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Massif => "massif",
            Self::Memcheck => "memcheck",
        }
    }
}

impl HugePages {
    pub fn name(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Try => "try",
            Self::Off => "off",
        }
    }
}

impl Wrapping {
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// # Errors
    /// [`Error::Unwrappable`]: a change that this host cannot make. Nothing was changed.
    pub fn check(&self) -> Result<(), Error> {
        self.check_of_server()?;
        match self.thp {
            Some(asked @ (Thp::Always | Thp::Madvise)) => check_host_thp(asked),
            _ => Ok(()),
        }
    }

    /// Checks everything but the host's own setting of transparent huge pages.
    ///
    /// # Errors
    /// As [`Wrapping::check`].
    pub fn check_of_server(&self) -> Result<(), Error> {
        self.malloc.as_ref().map_or(Ok(()), MallocStart::check)?;
        if self.valgrind.is_some() {
            valgrind_program()?;
        }
        Ok(())
    }

    /// The server's own options for these changes.
    pub(crate) fn options(&self, sandbox: &Sandbox, extra: &[ServerOption]) -> Result<Vec<ServerOption>, Error> {
        let flavour = sandbox.flavour();
        let mut options = Vec::new();
        if self.valgrind.is_some() && flavour == Flavour::Mariadb {
            // versions that know this option reserve 8 TiB of addresses for it, which Valgrind does not have; the other versions ignore the option
            let pool = pool_bytes(sandbox, extra).to_string();
            options.push(ServerOption::new("loose_innodb_buffer_pool_size_max", Some(&pool))?);
        }
        if let Some(asked) = self.huge_pages {
            let words = words(Capability::HugePages, flavour, &sandbox.manifest.installation.version);
            let known = words.iter().filter_map(|word| word.split_once('='));
            let option = known.filter(|(choice, _)| *choice == asked.name()).map(|(_, option)| option.parse()).next();
            let lacks = || unwrappable(format!("--huge-pages: this version of {flavour} has no option for them"), None);
            options.push(option.ok_or_else(lacks)??);
        }
        Ok(options)
    }

    pub(crate) fn environment(&self, sandbox: &Sandbox) -> Vec<(OsString, OsString)> {
        let own = self.environment.iter().map(|(name, value)| (name.into(), value.into()));
        // Valgrind does not start when the server's user may not write to its temporary folder, such as a folder of the caller that TMPDIR names
        let temporary = self.valgrind.map(|_| ("TMPDIR".into(), sandbox.valgrind_folder().into()));
        self.malloc.iter().flat_map(MallocStart::variables).chain(temporary).chain(own).collect()
    }

    /// The caller's variables that would change the asked malloc.
    pub(crate) fn left_out(&self) -> Vec<OsString> {
        let of_malloc =
            |name: &OsString| name.to_str().is_some_and(|name| is_malloc_variable(name) || name == "LD_PRELOAD");
        let inherited = std::env::vars_os().map(|(name, _)| name).filter(of_malloc);
        if self.malloc.is_some() { inherited.collect() } else { Vec::new() }
    }

    /// The program and the arguments that come before the server's program.
    pub(crate) fn valgrind_command(&self, sandbox: &Sandbox) -> Result<Option<(PathBuf, Vec<OsString>)>, Error> {
        let Some(asked) = self.valgrind else { return Ok(None) };
        let folder = sandbox.valgrind_folder();
        let file = |option: &str, end: &str| -> OsString {
            format!("--{option}={}/{}.%p{end}", folder.display(), asked.name()).into()
        };
        let mut arguments: Vec<OsString> = vec![format!("--tool={}", asked.name()).into()];
        arguments.push(format!("--vgdb-prefix={}/vgdb", folder.display()).into());
        if sandbox.flavour() == Flavour::Postgresql {
            arguments.extend(WITH_CHILDREN.map(OsString::from));
        }
        match asked {
            Valgrind::Massif => arguments.extend([file("massif-out-file", ".out"), file("log-file", ".log")]),
            Valgrind::Memcheck => arguments.extend(["--leak-check=full".into(), file("log-file", ".log")]),
        }
        arguments.extend(self.valgrind_options.iter().map(OsString::from));
        Ok(Some((valgrind_program()?, arguments)))
    }

    /// The files that Valgrind leaves when it is killed.
    pub(crate) fn leftovers(&self, sandbox: &Sandbox) -> Option<Leftovers> {
        self.valgrind.map(|_| Leftovers { folder: sandbox.valgrind_folder(), beginning: PIPES.into() })
    }

    pub(crate) fn stop_grace(&self, usual: Duration) -> Duration {
        self.valgrind.map_or(usual, |_| usual.max(VALGRIND_GRACE))
    }

    pub(crate) fn ready_timeout(&self, usual: Duration) -> Duration {
        self.valgrind.map_or(usual, |_| usual.max(VALGRIND_READY))
    }
}

/// Joins lists of libraries and of folders, as the loader reads them; for any other variable the last value counts.
pub(crate) fn joined(variables: Vec<(OsString, OsString)>) -> Vec<(OsString, OsString)> {
    let mut all: Vec<(OsString, OsString)> = Vec::new();
    for (name, value) in variables {
        match all.iter_mut().find(|(other, _)| *other == name) {
            Some((name, earlier)) if name == "LD_PRELOAD" || name == "LD_LIBRARY_PATH" => {
                earlier.push(":");
                earlier.push(value);
            }
            Some((_, earlier)) => *earlier = value,
            None => all.push((name, value)),
        }
    }
    all
}

impl Sandbox {
    /// The folder to which Valgrind writes as the server's user, and which has the pipes through which it is asked
    /// (`vgdb --vgdb-prefix=FOLDER/vgdb`).
    pub fn valgrind_folder(&self) -> PathBuf {
        self.folder.join(VALGRIND_FOLDER)
    }

    /// Removes the pipes of a server in Valgrind that was killed together with its launcher. To be called while the server does not run.
    ///
    /// # Errors
    /// A pipe cannot be removed.
    pub fn remove_pipes(&self) -> Result<u64, Error> {
        Ok(files::remove_beginning(&self.valgrind_folder(), PIPES)?)
    }
}

impl Sandbox {
    /// Makes an empty folder to which the server may write, for the heap profiles of its next start. To be called while the server does not run.
    ///
    /// # Errors
    /// The folder cannot be made, or the files of an earlier start cannot be removed.
    pub fn make_profiles_folder(&self) -> Result<PathBuf, Error> {
        self.make_servers_folder(PROFILES_FOLDER)?;
        self.empty_profiles_folder()?;
        Ok(self.folder.join(PROFILES_FOLDER))
    }

    /// # Errors
    /// A file cannot be removed.
    pub fn empty_profiles_folder(&self) -> Result<(), Error> {
        files::remove_beginning(&self.folder.join(PROFILES_FOLDER), "")?;
        Ok(())
    }

    /// Makes a folder that belongs to the server's user. An older manifest gets the folder's name first, so that the folder is deleted with the
    /// sandbox.
    pub(crate) fn make_servers_folder(&self, name: &str) -> Result<(), Error> {
        let folder = self.folder.join(name);
        if folder.is_dir() {
            return Ok(());
        }
        let mut stored = Manifest::read(&self.folder.join("manifest.json"))?;
        if !stored.contents.iter().any(|known| known.as_os_str() == name) {
            stored.contents.insert(0, name.into());
            stored.write(&self.folder)?;
        }
        files::new_private_dir(&folder)?;
        let user = &self.manifest.user;
        if user.identity().is_some() {
            files::set_owner(&folder, user.uid, user.gid)?;
        }
        Ok(())
    }
}

fn unwrappable(what: String, hint: Option<String>) -> Error {
    Error::Unwrappable { what, hint }
}

fn valgrind_program() -> Result<PathBuf, Error> {
    tool::find("valgrind").ok_or_else(|| {
        let what = "--valgrind: no program 'valgrind' on this machine".to_owned();
        unwrappable(what, Some("its package is named valgrind: `apt-get install valgrind`".into()))
    })
}

fn check_host_thp(asked: Thp) -> Result<(), Error> {
    let text = std::fs::read_to_string(HOST_THP).unwrap_or_default();
    let in_force = host::change::chosen(&text);
    if in_force == Some(asked.name()) {
        return Ok(());
    }
    let name = asked.name();
    let now = in_force.map_or("not there".to_owned(), |word| format!("'{word}'"));
    let what = format!("--thp {name}: the host's setting is {now}, and of one process they can only be turned off");
    Err(unwrappable(what, Some(format!("`echo {name} > {HOST_THP}` changes it, for every program of this host"))))
}

/// Whether process `pid` is `program` in Valgrind: the kernel shows Valgrind's tool as its program, and the tool maps the server's program.
pub(crate) fn is_under_valgrind(pid: u32, program: &Path) -> bool {
    let tool = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let is_valgrind = tool.components().any(|part| part.as_os_str() == "valgrind");
    is_valgrind && in_force::maps(pid).lines().any(|line| mapped(line) == Some(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_libraries_are_joined_and_other_variables_replaced() {
        let of = |pairs: &[(&str, &str)]| -> Vec<(OsString, OsString)> {
            pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
        };
        let asked = of(&[("LD_PRELOAD", "/a.so"), ("MALLOC_CONF", "x"), ("LD_PRELOAD", "/b.so"), ("MALLOC_CONF", "y")]);
        assert_eq!(joined(asked), of(&[("LD_PRELOAD", "/a.so:/b.so"), ("MALLOC_CONF", "y")]));
    }
}
