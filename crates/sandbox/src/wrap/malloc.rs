// SPDX-License-Identifier: Apache-2.0
//! Libraries that replace malloc: found where the loader would look, or beside a fetched server.

use super::unwrappable;
use crate::{Error, Installation};
use host::tool;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// As people name them; or a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Malloc {
    Jemalloc,
    Tcmalloc,
    Mimalloc,
    File(PathBuf),
}

impl Malloc {
    /// The library's file names, preferred ones first, and the package that has it in Debian and its kin.
    fn names(&self) -> (&'static [&'static str], &'static str) {
        match self {
            Self::Jemalloc => (&["libjemalloc.so.2", "libjemalloc.so.1", "libjemalloc.so"], "libjemalloc2"),
            Self::Tcmalloc => (
                &["libtcmalloc_minimal.so.4", "libtcmalloc.so.4", "libtcmalloc_minimal.so", "libtcmalloc.so"],
                "libtcmalloc-minimal4",
            ),
            Self::Mimalloc => {
                (&["libmimalloc.so.3", "libmimalloc.so.2", "libmimalloc.so.2.0", "libmimalloc.so"], "libmimalloc2.0")
            }
            Self::File(_) => (&[], ""),
        }
    }

    /// The library's file: one of the server's own before the machine's, for it was made for the same C library.
    ///
    /// # Errors
    /// [`Error::Unwrappable`] names the package that has it.
    pub fn find(&self, installation: &Installation) -> Result<PathBuf, Error> {
        let (names, package) = self.names();
        if let Self::File(path) = self {
            // the server starts in another folder
            let missing = |error| unwrappable(format!("--malloc: {}: {error}", path.display()), None);
            return path.canonicalize().map_err(missing);
        }
        let own = |name: &&str| {
            let files = installation.libraries.folders.iter().map(|folder| folder.join(name));
            files.into_iter().find(|path| path.is_file())
        };
        let cached = loader_cache();
        let machines = |name: &&str| {
            let found = cached.iter().find(|path| path.file_name().is_some_and(|file| file == *name));
            let paths = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
            let named = std::env::split_paths(&paths).map(|folder| folder.join(name)).find(|path| path.is_file());
            named.or_else(|| found.cloned())
        };
        let found = names.iter().find_map(own).or_else(|| names.iter().find_map(machines));
        found.ok_or_else(|| {
            let what = format!("--malloc: the loader of this machine finds no {}", names.join(", "));
            let hint = format!("its package is named {package}: `apt-get install {package}`, or `--malloc FILE`");
            unwrappable(what, Some(hint))
        })
    }
}

impl FromStr for Malloc {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "jemalloc" => Ok(Self::Jemalloc),
            "tcmalloc" => Ok(Self::Tcmalloc),
            "mimalloc" => Ok(Self::Mimalloc),
            path if path.contains('/') => Ok(Self::File(path.into())),
            _ => Err("known are 'jemalloc', 'tcmalloc', 'mimalloc', and the path of a library".into()),
        }
    }
}

/// What ldconfig(8) has found in the loader's folders, those of this machine's word size first.
fn loader_cache() -> Vec<PathBuf> {
    let Some(ldconfig) = tool::find("ldconfig") else { return Vec::new() };
    let output = tool::command(ldconfig).arg("-p").env("LC_ALL", "C").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    parse_cache(&text)
}

/// A line: `libjemalloc.so.2 (libc6,x86-64) => /lib/x86_64-linux-gnu/libjemalloc.so.2`.
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

    #[test]
    fn names() {
        assert_eq!("jemalloc".parse(), Ok(Malloc::Jemalloc));
        assert_eq!("./libm.so".parse(), Ok(Malloc::File("./libm.so".into())));
        assert!("jmalloc".parse::<Malloc>().is_err());
    }
}
