// SPDX-License-Identifier: Apache-2.0
//! The folders in which Wringer keeps its files.
//!
//! | what | root | ordinary user | with `WRINGER_HOME=DIR` |
//! | --- | --- | --- | --- |
//! | journals, run folders | `/var/lib/wringer/journal` | `$XDG_STATE_HOME/wringer/journal` | `DIR/journal` |
//! | sandboxes | `/var/lib/wringer/sandboxes` | `$XDG_DATA_HOME/wringer/sandboxes` | `DIR/sandboxes` |
//! | fetched servers | `/var/cache/wringer` | `$XDG_CACHE_HOME/wringer` | `DIR/cache` |
//! | recordings | `/var/lib/wringer/recordings` | `$XDG_DATA_HOME/wringer/recordings` | `DIR/recordings` |
//!
//! `WRINGER_CACHE=DIR` moves the cache alone, so that several homes can share the servers that were fetched once.

use std::env;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Journals, locks and run folders: 0700.
    pub journal: PathBuf,
    /// 0711 for root, so that a server's own user can pass through to its own sandbox; 0700 otherwise.
    pub sandboxes: PathBuf,
    /// 0755: fetched binaries are readable by the server's user.
    pub cache: PathBuf,
    pub recordings: PathBuf,
}

impl Places {
    /// The places by the environment: `WRINGER_HOME`, else the system's folders for root, else the XDG folders.
    pub fn from_environment() -> Self {
        let mut places = Self::without_overrides();
        if let Some(cache) = variable("WRINGER_CACHE") {
            places.cache = cache;
        }
        places
    }

    fn without_overrides() -> Self {
        if let Some(home) = variable("WRINGER_HOME") {
            return Self::below(&home);
        }
        if rustix::process::geteuid().is_root() {
            return Self {
                journal: "/var/lib/wringer/journal".into(),
                sandboxes: "/var/lib/wringer/sandboxes".into(),
                cache: "/var/cache/wringer".into(),
                recordings: "/var/lib/wringer/recordings".into(),
            };
        }
        let home = variable("HOME").unwrap_or_else(|| PathBuf::from("/tmp"));
        let folder = |name, default: &str| variable(name).unwrap_or_else(|| home.join(default)).join("wringer");
        let data = folder("XDG_DATA_HOME", ".local/share");
        Self {
            journal: folder("XDG_STATE_HOME", ".local/state").join("journal"),
            sandboxes: data.join("sandboxes"),
            cache: folder("XDG_CACHE_HOME", ".cache"),
            recordings: data.join("recordings"),
        }
    }

    /// All places below one folder.
    pub fn below(home: &Path) -> Self {
        Self {
            journal: home.join("journal"),
            sandboxes: home.join("sandboxes"),
            cache: home.join("cache"),
            recordings: home.join("recordings"),
        }
    }
}

/// A relative path is made absolute from the present folder: journals record it for readers that start in another folder.
fn variable(name: &str) -> Option<PathBuf> {
    let value = env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)?;
    Some(std::path::absolute(&value).unwrap_or(value))
}
