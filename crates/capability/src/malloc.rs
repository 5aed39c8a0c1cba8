// SPDX-License-Identifier: Apache-2.0
//! The mallocs that a server can be started with, by their names for users: the library and the environment variables of each.

/// The library that a malloc belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MallocKind {
    Glibc,
    Jemalloc,
    /// The tcmalloc of gperftools.
    Tcmalloc,
    Mimalloc,
}

/// A malloc with its settings, under one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MallocSetting {
    pub name: &'static str,
    pub kind: MallocKind,
    /// Environment variables of the server's process, in addition to the library.
    pub environment: &'static [(&'static str, &'static str)],
    /// A description in a few words.
    pub what: &'static str,
}

/// Sources: mallopt(3); jemalloc(3), TUNING.
pub const MALLOCS: [MallocSetting; 7] = [
    MallocSetting { name: "glibc", kind: MallocKind::Glibc, environment: &[], what: "the C library's own" },
    MallocSetting {
        name: "glibc-arenas2",
        kind: MallocKind::Glibc,
        environment: &[("MALLOC_ARENA_MAX", "2")],
        what: "glibc with two arenas for all threads, where it has eight for each CPU",
    },
    MallocSetting {
        name: "glibc-trim",
        kind: MallocKind::Glibc,
        // This is the default value, but it is set: then glibc no longer raises this threshold and the one of mmap when large blocks are freed
        // (malloc/malloc.c, `mp_.no_dyn_threshold`).
        environment: &[("MALLOC_TRIM_THRESHOLD_", "131072")],
        what: "glibc that gives back what is free above 128 KiB at the end of a heap, and large blocks at once",
    },
    MallocSetting { name: "jemalloc", kind: MallocKind::Jemalloc, environment: &[], what: "jemalloc" },
    MallocSetting {
        name: "jemalloc-background",
        kind: MallocKind::Jemalloc,
        environment: &[("MALLOC_CONF", "background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0")],
        what: "jemalloc with a thread that gives free pages back after a second, also while the server is idle",
    },
    MallocSetting { name: "tcmalloc", kind: MallocKind::Tcmalloc, environment: &[], what: "tcmalloc of gperftools" },
    MallocSetting { name: "mimalloc", kind: MallocKind::Mimalloc, environment: &[], what: "mimalloc" },
];

/// Beginnings of variables that change what a malloc does: glibc's (mallopt(3), `GLIBC_TUNABLES`), jemalloc's, tcmalloc's, mimalloc's.
const MALLOC_VARIABLES: [&str; 6] =
    ["MALLOC_", "GLIBC_TUNABLES", "JE_MALLOC_CONF", "TCMALLOC_", "MIMALLOC_", "HEAPPROFILE"];

/// The setting of this name.
pub fn malloc_setting(name: &str) -> Option<&'static MallocSetting> {
    MALLOCS.iter().find(|setting| setting.name == name)
}

impl MallocKind {
    pub const ALL: [MallocKind; 4] = [Self::Glibc, Self::Jemalloc, Self::Tcmalloc, Self::Mimalloc];
    /// Where the loader splits `LD_PRELOAD` (ld.so(8)): no library with one of these characters in its path can be preloaded.
    pub const PRELOAD_SEPARATORS: [char; 2] = [' ', ':'];
    /// The words with which the record of a server's start names the libraries that were preloaded for its malloc. After them stand the libraries as
    /// in `LD_PRELOAD`, or [`Self::NOTHING`].
    pub const PRELOADED: &'static str = "preloaded for it: ";
    pub const NOTHING: &'static str = "nothing";
    /// The beginning of what the record says of how it is known who serves, where nothing of the process's memory was read.
    pub const INFERRED: &'static str = "inferred: ";
    /// The beginning of each piece of the record that contradicts who serves.
    pub const DOUBT: &'static str = "DOUBT: ";
    /// Stands between two pieces of the record, and in none of them.
    pub const PIECES: &'static str = "; ";

    pub fn name(self) -> &'static str {
        match self {
            Self::Glibc => "glibc",
            Self::Jemalloc => "jemalloc",
            Self::Tcmalloc => "tcmalloc",
            Self::Mimalloc => "mimalloc",
        }
    }

    /// A function that no other library exports: it identifies the library, whatever its file is named.
    pub fn mark(self) -> &'static str {
        match self {
            Self::Glibc => "gnu_get_libc_version",
            Self::Jemalloc => "mallctl",
            Self::Tcmalloc => "tc_malloc",
            Self::Mimalloc => "mi_malloc",
        }
    }

    /// The names of the library's file, preferred ones first. The C library comes with the server.
    pub fn libraries(self) -> &'static [&'static str] {
        match self {
            Self::Glibc => &["libc.so.6"],
            Self::Jemalloc => &["libjemalloc.so.2", "libjemalloc.so.1", "libjemalloc.so"],
            Self::Tcmalloc => {
                &["libtcmalloc_minimal.so.4", "libtcmalloc.so.4", "libtcmalloc_minimal.so", "libtcmalloc.so"]
            }
            Self::Mimalloc => &["libmimalloc.so.3", "libmimalloc.so.2", "libmimalloc.so.2.0", "libmimalloc.so"],
        }
    }

    /// The library's packages in Debian and its derivatives, preferred ones first.
    pub fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Glibc => &[],
            Self::Jemalloc => &["libjemalloc2"],
            Self::Tcmalloc => &["libtcmalloc-minimal4", "libtcmalloc-minimal4t64"],
            Self::Mimalloc => &["libmimalloc3", "libmimalloc2.0"],
        }
    }

    /// The name by which a program loads this file, if it is one of [`Self::libraries`]: `libtcmalloc_minimal.so.4` of
    /// `libtcmalloc_minimal.so.4.5.9`.
    pub fn library_of(self, file: &str) -> Option<&'static str> {
        let names = self.libraries();
        let is_build_of = |name: &str| {
            let is_versioned = !name.ends_with(".so");
            is_versioned && file.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
        };
        let found = names.iter().find(|name| file == **name).or_else(|| names.iter().find(|name| is_build_of(name)));
        found.copied()
    }

    /// The packages of Debian and its derivatives that have the library of this name. One package is enough; its name depends on the release.
    pub fn packages_of(library: &str) -> &'static [&'static str] {
        match library {
            "libjemalloc.so.1" => &["libjemalloc1"],
            "libjemalloc.so.2" => &["libjemalloc2"],
            "libtcmalloc_minimal.so.4" => &["libtcmalloc-minimal4", "libtcmalloc-minimal4t64"],
            "libtcmalloc.so.4" => &["libgoogle-perftools4", "libgoogle-perftools4t64"],
            "libmimalloc.so.2" | "libmimalloc.so.2.0" => &["libmimalloc2.0"],
            "libmimalloc.so.3" => &["libmimalloc3"],
            _ => &[],
        }
    }

    /// Whether MariaDB's variable `version_malloc_library` may have this value while the server uses this malloc. The server looks for functions of
    /// jemalloc and tcmalloc (mysys/my_malloc.c, sql/mysqld.cc), and says `system` for all other mallocs.
    pub fn fits_word(kind: Option<Self>, word: &str) -> bool {
        match kind {
            // `bundled jemalloc`, where jemalloc is a part of the program
            Some(Self::Jemalloc) => word.contains("jemalloc"),
            Some(Self::Tcmalloc) => word.starts_with("tcmalloc"),
            Some(Self::Glibc | Self::Mimalloc) | None => word == "system",
        }
    }
}

/// Whether a variable of the environment changes what a malloc does.
pub fn is_malloc_variable(name: &str) -> bool {
    MALLOC_VARIABLES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_is_found_by_its_name_and_sets_what_a_malloc_reads() {
        for setting in MALLOCS {
            assert_eq!(malloc_setting(setting.name), Some(&setting));
            assert!(setting.name.starts_with(setting.kind.name()), "{}", setting.name);
            assert!(setting.environment.iter().all(|(name, _)| is_malloc_variable(name)), "{setting:?}");
        }
        assert_eq!(malloc_setting("jmalloc"), None);
        assert!(!is_malloc_variable("LD_PRELOAD"));
    }

    #[test]
    fn a_file_is_loaded_by_its_name_and_comes_with_a_package() {
        let of = MallocKind::library_of;
        assert_eq!(of(MallocKind::Tcmalloc, "libtcmalloc_minimal.so.4.5.10"), Some("libtcmalloc_minimal.so.4"));
        assert_eq!(of(MallocKind::Mimalloc, "libmimalloc.so.2"), Some("libmimalloc.so.2"), "and not the first one");
        assert_eq!(of(MallocKind::Mimalloc, "libmimalloc.so.2.0"), Some("libmimalloc.so.2.0"), "as the file is named");
        assert_eq!(of(MallocKind::Mimalloc, "libmimalloc.so.9"), None, "another version");
        assert_eq!(of(MallocKind::Glibc, "libstdc++.so.6"), None);
        for kind in MallocKind::ALL {
            let known: Vec<&str> =
                kind.libraries().iter().flat_map(|name| MallocKind::packages_of(name)).copied().collect();
            assert!(kind.packages().iter().all(|package| known.contains(package)), "{kind:?}: {known:?}");
        }
    }

    #[test]
    fn the_servers_word() {
        assert!(MallocKind::fits_word(Some(MallocKind::Jemalloc), "jemalloc 5.3.0-0-g54eaed"));
        assert!(!MallocKind::fits_word(Some(MallocKind::Glibc), "jemalloc 5.3.0-0-g54eaed"));
        assert!(MallocKind::fits_word(Some(MallocKind::Jemalloc), "bundled jemalloc"));
        assert!(MallocKind::fits_word(None, "system"));
    }
}
