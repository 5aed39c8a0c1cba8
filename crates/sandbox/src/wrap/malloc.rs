// SPDX-License-Identifier: Apache-2.0
//! The mallocs with which a server can be started: finds the library where the loader would look, beside a fetched server, or in Wringer's cache; and
//! makes the list of libraries to preload, and the variables of the malloc's setting.

use super::unwrappable;
use crate::{Error, Installation, Progress, fetch};
use capability::{MALLOCS, MallocKind, MallocSetting, malloc_setting};
use host::places::Places;
use host::{files, tool};
use malloc::{Elf, Serving};
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A malloc by a known name; or a file, which may have a name of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Malloc {
    Setting(&'static MallocSetting),
    File { name: Option<String>, path: PathBuf },
}

/// How a server is started with a malloc: the result of looking up the name on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MallocStart {
    /// The name that was asked for.
    pub name: String,
    /// `None`: the malloc that the server has anyway; no library is put before it.
    pub library: Option<PathBuf>,
    /// The name of that malloc, if there is no library.
    own: Option<String>,
    /// The value of `LD_PRELOAD`: paths, or names that the loader looks up.
    preload: Vec<PathBuf>,
    /// Further folders of libraries, which a fetched library needs.
    folders: Vec<PathBuf>,
    environment: Vec<(String, String)>,
}

const C_LIBRARY: &str = "libc.so.6";
const CXX_LIBRARY: &str = "libstdc++.so.6";

impl Malloc {
    /// The name that was asked for.
    pub fn name(&self) -> String {
        match self {
            Self::Setting(setting) => setting.name.to_owned(),
            Self::File { name, path } => name.clone().unwrap_or_else(|| path.display().to_string()),
        }
    }

    /// How this server is started with the malloc; a library that this machine lacks is fetched into the cache and not installed.
    ///
    /// # Errors
    /// [`Error::Unwrappable`]: the malloc cannot be found, or does not fit this server. Nothing was started.
    pub fn locate(
        &self,
        installation: &Installation,
        places: &Places,
        progress: &mut dyn Progress,
    ) -> Result<MallocStart, Error> {
        if let Some(found) = self.present(installation, places)? {
            return Ok(found);
        }
        let Self::Setting(setting) = self else { return Err(no_file(Path::new(&self.name()), "it is not there")) };
        let library = fetch::malloc(setting.kind, places, progress)?;
        self.start_with(Some(library), installation)
    }

    /// As [`Malloc::locate`], without fetching. `None`: the library would have to be fetched.
    ///
    /// # Errors
    /// [`Error::Unwrappable`]: the malloc does not fit this server.
    pub fn present(&self, installation: &Installation, places: &Places) -> Result<Option<MallocStart>, Error> {
        if let Some(start) = self.built_in(installation)? {
            return Ok(Some(start));
        }
        let library = match self {
            // an absolute path, because the server starts in another folder
            Self::File { path, .. } => {
                path.canonicalize().map(Some).map_err(|error| no_file(path, &error.to_string()))?
            }
            Self::Setting(setting) if setting.kind == MallocKind::Glibc => {
                return self.start_with(None, installation).map(Some);
            }
            Self::Setting(setting) => {
                on_machine(setting.kind, installation).or_else(|| fetch::fetched_malloc(setting.kind, places))
            }
        };
        library.map(|library| self.start_with(Some(library), installation)).transpose()
    }

    /// What can be said of a library's file while the server is not here: whether it is there, may be loaded, and is for this machine.
    ///
    /// # Errors
    /// [`Error::Unwrappable`]: no server of this machine can be started with it.
    pub fn check_file(&self) -> Result<(), Error> {
        let Self::File { path, .. } = self else { return Ok(()) };
        let real = path.canonicalize().map_err(|error| no_file(path, &error.to_string()))?;
        safe(&real)?;
        malloc::fit(&real, Path::new("/proc/self/exe"), None).map(drop).map_err(|unfit| misfit(&real, &unfit))
    }

    /// A malloc in the program itself comes before all that can be preloaded: if it is not the one that was asked for, the start is refused.
    fn built_in(&self, installation: &Installation) -> Result<Option<MallocStart>, Error> {
        let Some(program) = Elf::open(&installation.program).filter(Elf::has_malloc) else { return Ok(None) };
        let asked = match self {
            Self::Setting(setting) => Some(setting.kind),
            Self::File { .. } => None,
        };
        if asked.is_some() && asked == program.kind() {
            // jemalloc 3 in XtraDB 5.6 starts without a message, and writes "Invalid conf pair" into the server's log
            if let Some((variable, value)) = self.settings().first() {
                let (name, program) = (self.name(), installation.program.display());
                let what = format!(
                    "--malloc: {program} is linked with a malloc of its own, and nothing says whether that one knows {variable}={value}, which {name} sets"
                );
                return Err(unwrappable(what, Some("name the malloc without its settings".into())));
            }
            return Ok(Some(self.without_library(asked)));
        }
        let has = program.kind().map_or("a malloc", MallocKind::name);
        let (name, program) = (self.name(), installation.program.display());
        let what =
            format!("--malloc: {program} is linked with {has} of its own, and a preloaded {name} cannot replace that");
        Err(unwrappable(what, Some("take another build of this server".into())))
    }

    fn without_library(&self, kind: Option<MallocKind>) -> MallocStart {
        let own = kind.map(|kind| kind.name().to_owned());
        let (preload, folders) = (Vec::new(), Vec::new());
        MallocStart { name: self.name(), library: None, own, preload, folders, environment: self.environment() }
    }

    fn settings(&self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Setting(setting) => setting.environment,
            Self::File { .. } => &[],
        }
    }

    fn environment(&self) -> Vec<(String, String)> {
        self.settings().iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn start_with(&self, library: Option<PathBuf>, installation: &Installation) -> Result<MallocStart, Error> {
        let own = library.as_deref().map(|library| fitting(library, installation)).transpose()?;
        let mut preload: Vec<PathBuf> = library.clone().into_iter().collect();
        if let Some(linked) = linked(installation) {
            // libraries with which the program is linked come after preloaded ones
            preload.extend(library.is_none().then(|| C_LIBRARY.into()));
            let takes_new = linked.has_operator_new() && !own.is_some_and(|own| own.has_operator_new());
            preload.extend(takes_new.then(|| CXX_LIBRARY.into()));
        }
        let folders = library.as_deref().map(fetch::folders_of_malloc).unwrap_or_default();
        let start = self.without_library(library.is_none().then_some(MallocKind::Glibc));
        Ok(MallocStart { library, preload, folders, ..start })
    }
}

impl MallocStart {
    /// The variables without those that other libraries need: [`super::joined`] joins both.
    pub(crate) fn variables(&self) -> Vec<(OsString, OsString)> {
        let mut variables: Vec<(OsString, OsString)> = Vec::new();
        if !self.preload.is_empty() {
            variables.push(("LD_PRELOAD".into(), listed(&self.preload)));
        }
        if !self.folders.is_empty() {
            variables.push(("LD_LIBRARY_PATH".into(), listed(&self.folders)));
        }
        variables.extend(self.environment.iter().map(|(name, value)| (name.into(), value.into())));
        variables
    }

    /// The libraries that are preloaded for this malloc, in the words of a record: [`MallocKind::PRELOADED`].
    pub(super) fn preloaded(&self) -> String {
        let list = listed(&self.preload);
        let list = if list.is_empty() { OsStr::new(MallocKind::NOTHING) } else { &list };
        format!("{}{}", MallocKind::PRELOADED, list.display())
    }

    /// The name that was asked for, and the file for it.
    pub fn described(&self) -> String {
        match &self.library {
            Some(library) if library.as_os_str() != self.name.as_str() => {
                format!("{} ({})", self.name, library.display())
            }
            _ => self.name.clone(),
        }
    }

    /// Whether the asked malloc serves, and no other one beside it.
    pub fn is_served_by(&self, serving: &Serving) -> bool {
        let is_it = match &self.library {
            Some(library) => {
                let real = library.canonicalize().unwrap_or_else(|_| library.clone());
                serving.file.as_ref() == Some(&real)
            }
            None => serving.kind.map(MallocKind::name) == self.own.as_deref(),
        };
        is_it && serving.operator_new.is_none()
    }

    /// # Errors
    /// [`Error::Unwrappable`]: the library was removed meanwhile.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.library.as_deref().filter(|library| !library.is_file()) {
            Some(gone) => Err(no_file(gone, "it is not there")),
            None => Ok(()),
        }
    }
}

/// As the loader reads lists of libraries and of folders.
fn listed(paths: &[PathBuf]) -> OsString {
    let paths: Vec<&OsStr> = paths.iter().map(|path| path.as_os_str()).collect();
    paths.join(OsStr::new(":"))
}

impl FromStr for Malloc {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        if let Some(setting) = malloc_setting(word) {
            return Ok(Self::Setting(setting));
        }
        let (name, path) = match word.split_once('=') {
            Some((name, path)) if !name.contains('/') => (Some(name), path),
            _ => (None, word),
        };
        let known = MALLOCS.map(|setting| setting.name);
        let names = known.join(", ");
        match name {
            Some(name) if known.contains(&name) => {
                Err(format!("'{name}' is the name of another one: give yours its own"))
            }
            Some("") => Err("a name stands before the '='".into()),
            _ if path.contains('/') => Ok(Self::File { name: name.map(str::to_owned), path: path.into() }),
            Some(_) => Err(format!("'{path}' is no path of a library: it has no '/'")),
            None => Err(format!("known are {names}, and the path of a library, also as NAME=PATH")),
        }
    }
}

/// The library for this malloc: one that came with the server before the machine's, because the former was made for the server's C library.
fn on_machine(kind: MallocKind, installation: &Installation) -> Option<PathBuf> {
    let own = |name: &&str| in_folders(name, installation);
    let cached = loader_cache();
    let names = kind.libraries();
    names.iter().find_map(own).or_else(|| names.iter().find_map(|name| named(name, &cached)))
}

/// The library of this file name that programs on this machine get.
pub fn library_of_machine(name: &str) -> Option<PathBuf> {
    named(name, &loader_cache())
}

/// The library of this malloc that a server of this machine gets without fetching: the loader's, or one that was fetched earlier.
pub fn present_malloc(kind: MallocKind, places: &Places) -> Option<PathBuf> {
    let cached = loader_cache();
    let on_machine = kind.libraries().iter().find_map(|name| named(name, &cached));
    on_machine.or_else(|| fetch::fetched_malloc(kind, places))
}

fn named(name: &str, cached: &[PathBuf]) -> Option<PathBuf> {
    let folders = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let cached = || cached.iter().find(|path| path.file_name().is_some_and(|file| file == name)).cloned();
    in_list(name, &folders).or_else(cached)
}

/// The library in a list of folders such as `LD_LIBRARY_PATH`. Only absolute folders count: an empty entry stands for the folder in which Wringer was
/// started, and anybody may have put a library there.
fn in_list(name: &str, folders: &OsStr) -> Option<PathBuf> {
    let absolute = std::env::split_paths(folders).filter(|folder| folder.is_absolute());
    absolute.map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn in_folders(name: &str, installation: &Installation) -> Option<PathBuf> {
    let files = installation.libraries.folders.iter().map(|folder| folder.join(name));
    files.into_iter().find(|path| path.is_file())
}

/// The library of this name that the server's loader finds.
fn library_of(name: &str, installation: &Installation) -> Option<PathBuf> {
    let machines = || loader_cache().into_iter().find(|path| path.file_name().is_some_and(|file| file == name));
    in_folders(name, installation).or_else(machines)
}

/// A malloc with which the server is linked and that comes before the C library.
fn linked(installation: &Installation) -> Option<Elf> {
    let program = Elf::open(&installation.program)?;
    let before_libc = program.needs.iter().take_while(|name| !name.starts_with("libc.so"));
    // other libraries, such as the C++ library, have no malloc, and there are many of them: only those with "malloc" in the name are opened
    let named = before_libc.filter(|name| name.contains("malloc"));
    let libraries = named.filter_map(|name| Elf::open(&library_of(name, installation)?));
    libraries.into_iter().find(Elf::has_malloc)
}

/// The library's own description, if the server can be started with it.
fn fitting(library: &Path, installation: &Installation) -> Result<Elf, Error> {
    let real = safe(library)?;
    let c_library = library_of(C_LIBRARY, installation);
    malloc::fit(&real, &installation.program, c_library.as_deref()).map_err(|unfit| misfit(library, &unfit))
}

/// The file itself, if its path can stand in a list of libraries, and if nobody else can write it.
fn safe(library: &Path) -> Result<PathBuf, Error> {
    let shown = library.display();
    if library.to_string_lossy().contains(MallocKind::PRELOAD_SEPARATORS) {
        let what = format!("--malloc: {shown}: the loader splits its list of libraries at ' ' and ':'");
        return Err(unwrappable(what, Some("copy it to a path without them".into())));
    }
    let real = library.canonicalize().map_err(|error| no_file(library, &error.to_string()))?;
    let folder = real.parent().unwrap_or(Path::new("/"));
    let is_safe = files::safe_folder(folder).and_then(|_| files::open_safe(&real, false));
    if let Err(error) = is_safe {
        let what = format!("--malloc: {shown} is not taken: {}", host::chain(&error));
        let hint =
            "it would run in the server with all of its rights: copy it to a folder that only you can write".to_owned();
        return Err(unwrappable(what, Some(hint)));
    }
    Ok(real)
}

fn misfit(library: &Path, unfit: &malloc::Unfit) -> Error {
    let hint = match unfit {
        malloc::Unfit::NotElf => "name the file of a shared library",
        malloc::Unfit::Machine { .. } => "take a build for this machine",
        malloc::Unfit::Version { .. } => "take a build for this server's C library, or an older one",
    };
    unwrappable(format!("--malloc: {} {unfit}", library.display()), Some(hint.to_owned()))
}

fn no_file(path: &Path, why: &str) -> Error {
    unwrappable(format!("--malloc: {}: {why}", path.display()), None)
}

/// The libraries that ldconfig(8) has found in the loader's folders, those of this machine's word size first.
fn loader_cache() -> Vec<PathBuf> {
    let Some(ldconfig) = tool::find("ldconfig") else { return Vec::new() };
    let output = tool::command(ldconfig).arg("-p").env("LC_ALL", "C").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    parse_cache(&text)
}

/// The paths in lines such as `libjemalloc.so.2 (libc6,x86-64) => /lib/x86_64-linux-gnu/libjemalloc.so.2`.
fn parse_cache(text: &str) -> Vec<PathBuf> {
    let file = |line: &str| Some(Path::new(line.split_once(" => ")?.1.trim()).to_owned());
    let (mut wide, narrow): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.contains("64"));
    wide.extend(narrow);
    wide.into_iter().filter_map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaders_cache_is_read() {
        let text = "2 libs found in cache `/etc/ld.so.cache'\n\tlibjemalloc.so.2 (libc6) => /lib32/libjemalloc.so.2\n\
                    \tlibjemalloc.so.2 (libc6,x86-64) => /lib/x86_64-linux-gnu/libjemalloc.so.2\n";
        let expected = ["/lib/x86_64-linux-gnu/libjemalloc.so.2", "/lib32/libjemalloc.so.2"];
        assert_eq!(parse_cache(text), expected.map(PathBuf::from));
    }

    /// Tests run in the folder of their crate.
    #[test]
    fn a_library_of_the_current_folder_is_not_taken() {
        let of = |folders: &str| in_list("Cargo.toml", OsStr::new(folders));
        assert_eq!([of(""), of("."), of(":/nowhere"), of("../sandbox")], [None, None, None, None]);
        let own = env!("CARGO_MANIFEST_DIR");
        assert_eq!(of(&format!(":{own}")), Some(Path::new(own).join("Cargo.toml")));
    }

    #[test]
    fn a_record_has_what_is_preloaded() {
        let glibc: Malloc = "glibc-trim".parse().unwrap();
        let plain = glibc.without_library(Some(MallocKind::Glibc));
        assert_eq!(plain.preloaded(), "preloaded for it: nothing");
        let before_another = MallocStart { preload: vec![C_LIBRARY.into(), CXX_LIBRARY.into()], ..plain };
        assert_eq!(before_another.preloaded(), "preloaded for it: libc.so.6:libstdc++.so.6");
    }

    #[test]
    fn names() {
        for setting in &MALLOCS {
            assert_eq!(setting.name.parse(), Ok(Malloc::Setting(setting)));
        }
        assert_eq!("./libm.so".parse(), Ok(Malloc::File { name: None, path: "./libm.so".into() }));
        assert_eq!("mine=/a=b.so".parse(), Ok(Malloc::File { name: Some("mine".into()), path: "/a=b.so".into() }));
        assert_eq!("/a=b.so".parse(), Ok(Malloc::File { name: None, path: "/a=b.so".into() }));
        for wrong in ["jmalloc", "=/x.so", "mine=x.so", "jemalloc=/x.so", "mine=jemalloc"] {
            assert!(wrong.parse::<Malloc>().is_err(), "{wrong}");
        }
    }
}
