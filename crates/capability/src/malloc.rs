// SPDX-License-Identifier: Apache-2.0
//! The mallocs that a server can be started with, by the names that people give: which library, and which variables of the environment.

/// Whose malloc it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MallocKind {
    Glibc,
    Jemalloc,
    /// Of gperftools.
    Tcmalloc,
    Mimalloc,
}

/// A malloc with its settings, under one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MallocSetting {
    pub name: &'static str,
    pub kind: MallocKind,
    /// Of the server's process, beside the library.
    pub environment: &'static [(&'static str, &'static str)],
    /// What it is for, in a few words.
    pub what: &'static str,
}

/// mallopt(3); jemalloc(3), TUNING.
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
        // The default value, set: glibc then stops raising this threshold and that of mmap when large blocks are freed (malloc/malloc.c,
        // `mp_.no_dyn_threshold`).
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

    pub fn name(self) -> &'static str {
        match self {
            Self::Glibc => "glibc",
            Self::Jemalloc => "jemalloc",
            Self::Tcmalloc => "tcmalloc",
            Self::Mimalloc => "mimalloc",
        }
    }

    /// A function that no other library exports: by it a library is known, whatever its file is named.
    pub fn mark(self) -> &'static str {
        match self {
            Self::Glibc => "gnu_get_libc_version",
            Self::Jemalloc => "mallctl",
            Self::Tcmalloc => "tc_malloc",
            Self::Mimalloc => "mi_malloc",
        }
    }

    /// Names of its library's file, preferred ones first. Of the C library: it comes with the server.
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

    /// The packages that have it in Debian and its kin, preferred ones first.
    pub fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Glibc => &[],
            Self::Jemalloc => &["libjemalloc2"],
            Self::Tcmalloc => &["libtcmalloc-minimal4", "libtcmalloc-minimal4t64"],
            Self::Mimalloc => &["libmimalloc3", "libmimalloc2.0"],
        }
    }

    /// Whether MariaDB's variable `version_malloc_library` may say this while this malloc serves. It looks for functions of jemalloc and
    /// tcmalloc (mysys/my_malloc.c, sql/mysqld.cc), and says `system` of all others.
    pub fn fits_word(kind: Option<Self>, word: &str) -> bool {
        match kind {
            // `bundled jemalloc`, where it is in the program
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
    fn the_servers_word() {
        assert!(MallocKind::fits_word(Some(MallocKind::Jemalloc), "jemalloc 5.3.0-0-g54eaed"));
        assert!(!MallocKind::fits_word(Some(MallocKind::Glibc), "jemalloc 5.3.0-0-g54eaed"));
        assert!(MallocKind::fits_word(Some(MallocKind::Jemalloc), "bundled jemalloc"));
        assert!(MallocKind::fits_word(None, "system"));
    }
}
