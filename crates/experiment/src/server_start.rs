// SPDX-License-Identifier: Apache-2.0
//! The settings of a server's start besides its variables: huge pages, another malloc, a pooler in front of the server.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// `None` in a field leaves that setting unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ServerStart {
    pub huge_pages: Option<HugePages>,
    pub malloc: Option<Malloc>,
    pub thp: Option<Thp>,
    /// Further variables of the server's environment.
    pub environment: BTreeMap<String, String>,
    /// PostgreSQL only. The load connects through it; observers and witnesses connect directly to the server.
    pub pgbouncer: Option<PgBouncer>,
}

/// Whether the server's shared memory, or InnoDB's pool, is in huge pages of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HugePages {
    /// The server must get them, or it does not start.
    On,
    /// As many as are available.
    Try,
    Off,
}

impl HugePages {
    pub const ALL: [HugePages; 3] = [HugePages::On, HugePages::Try, HugePages::Off];

    /// As written in the file.
    pub fn name(self) -> &'static str {
        match self {
            HugePages::On => "on",
            HugePages::Try => "try",
            HugePages::Off => "off",
        }
    }

    /// Whether the host's pool of huge pages must have room for the server.
    pub fn wants_pages(self) -> bool {
        self != HugePages::Off
    }
}

/// The malloc of the server: one of [`capability::MALLOCS`], the whole path of a library, or `NAME=PATH`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Malloc(pub String);

impl Malloc {
    /// As written in the file.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// The path of the library. `None`: a malloc that Wringer knows by its name.
    pub fn library(&self) -> Option<&str> {
        Some(path_of(&self.0)).filter(|path| path.starts_with('/'))
    }
}

/// A path, without the name that may be written before it: `NAME=PATH`.
pub(crate) fn path_of(text: &str) -> &str {
    text.split_once('=').filter(|(name, _)| !name.is_empty() && !name.contains('/')).map_or(text, |(_, path)| path)
}

/// Transparent huge pages of the server's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Thp {
    Always,
    Madvise,
    Never,
}

impl Thp {
    pub const ALL: [Thp; 3] = [Thp::Always, Thp::Madvise, Thp::Never];

    /// As written in the file.
    pub fn name(self) -> &'static str {
        match self {
            Thp::Always => "always",
            Thp::Madvise => "madvise",
            Thp::Never => "never",
        }
    }
}

/// A pgBouncer that keeps server connections open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PgBouncer {
    /// The number of connections to the server. Once they are made they stay until the server stops.
    pub connections: u32,
    pub mode: PoolMode,
}

/// How long a client keeps a server connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PoolMode {
    /// Until the client disconnects.
    #[default]
    Session,
    Transaction,
    Statement,
}

impl PoolMode {
    pub const ALL: [PoolMode; 3] = [PoolMode::Session, PoolMode::Transaction, PoolMode::Statement];

    /// As written in the file.
    pub fn name(self) -> &'static str {
        match self {
            PoolMode::Session => "session",
            PoolMode::Transaction => "transaction",
            PoolMode::Statement => "statement",
        }
    }
}

impl fmt::Display for PgBouncer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pooling, {} server connections", self.mode.name(), self.connections)
    }
}

impl ServerStart {
    /// Whether the host's pool of huge pages must have room for the server.
    pub fn wants_huge_pages(&self) -> bool {
        self.huge_pages.is_some_and(HugePages::wants_pages)
    }
}
