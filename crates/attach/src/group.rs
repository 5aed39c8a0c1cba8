// SPDX-License-Identifier: Apache-2.0
use capability::Flavour;
use observe::memory::InventoryReader;
use observe::process::readable;
use observe::server::{self, ServerKind};
use observe::{Reader, Reopening, host_readers};
use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// Readers that share one observer. A reader that may block, such as one that waits for a server's answers, has another observer than the others.
pub struct Group {
    /// As in [`observe::Options::name`].
    pub name: &'static str,
    pub readers: Vec<Box<dyn Reader>>,
    /// Things that cannot be read here, in words.
    pub refused: Vec<String>,
    /// The interval of its observer, where it differs from that of the other groups.
    pub interval: Option<Duration>,
}

impl Group {
    /// Readers of the whole host, as far as this kernel tells.
    pub fn host() -> Self {
        let (readers, missing) = host_readers::all(Path::new("/proc"));
        let refused = missing.into_iter().map(|what| format!("not on this kernel: {what}")).collect();
        Self { name: "host", readers, refused, interval: None }
    }

    /// Readers of a server's process, as far as this user may read it. `flavour`: where the server has a process for each connection, all of them are read.
    pub fn process(pid: u32, flavour: Option<Flavour>) -> Self {
        let descendants = flavour.is_some_and(Flavour::has_process_per_connection);
        let (readers, unread) = readable("server", pid, descendants);
        let refused = unread.into_iter().map(|what| format!("not for this user: {what}")).collect();
        Self { name: "process", readers, refused, interval: None }
    }

    /// Readers of a server's counters, over a connection of their own.
    pub fn server(connection: Reopening, kind: &ServerKind) -> Self {
        let readers = server::readers(connection, kind);
        Self { name: "server", readers, refused: Vec::new(), interval: None }
    }

    /// A reader of inventories of a server's memory, as often as the reader asks for.
    pub fn memory(reader: InventoryReader) -> Self {
        let (pid, interval) = (reader.process().pid, reader.interval());
        let unread = File::open(format!("/proc/{pid}/smaps")).err();
        let refused = unread.map(|error| format!("not for this user: the mappings of process {pid}: {error}"));
        Self { name: "memory", readers: vec![Box::new(reader)], refused: refused.into_iter().collect(), interval }
    }
}
