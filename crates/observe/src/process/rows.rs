// SPDX-License-Identifier: Apache-2.0
//! The values of each process of a server with many processes: rows of their own beside the sum, for a limited number of processes.

use crate::{Collector, Kind};
use std::collections::BTreeMap;
use std::fs;

/// The number of processes that get rows in one recording, oldest first: those that serve all connections, and the first connections. When each
/// transaction has a connection of its own, rows for all would fill the recording; further processes are only in the sum.
const MOST: usize = 64;

/// The values that are kept for each process; the sum has all values.
const NAMES: [&str; 13] = [
    "utime",
    "stime",
    "majflt",
    "rss",
    "delayacct_blkio",
    "read_bytes",
    "write_bytes",
    "Pss",
    "Pss_Anon",
    "VmRSS",
    "RssAnon",
    "VmPTE",
    "HugetlbPages",
];

/// The processes that have rows.
#[derive(Default)]
pub(super) struct Rows {
    entities: BTreeMap<u32, String>,
    given: usize,
}

impl Rows {
    /// Updates the rows for the processes that exist now; `root` is the server's first one.
    pub(super) fn keep(&mut self, root: u32, pids: &[u32]) {
        self.entities.retain(|pid, _| pids.contains(pid));
        for pid in pids {
            if self.given == MOST {
                return;
            }
            if !self.entities.contains_key(pid)
                && let Some(role) = role(*pid, root)
            {
                self.entities.insert(*pid, format!("{pid} {role}"));
                self.given += 1;
            }
        }
    }

    /// The values of one process; `source` is the source of the rows.
    pub(super) fn value(&self, into: &mut Collector, source: &'static str, pid: u32, it: (&str, Kind, f64)) {
        let (name, kind, value) = it;
        if let Some(entity) = self.entities.get(&pid).filter(|_| NAMES.contains(&name)) {
            into.value(source, entity, name, kind, value);
        }
    }
}

/// `None`: not yet known. A process that was just forked still has its parent's command line.
fn role(pid: u32, root: u32) -> Option<&'static str> {
    if pid == root {
        return Some("main");
    }
    role_of(&String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/cmdline")).ok()?))
}

/// PostgreSQL's names for its kinds of process (miscinit.c, GetBackendTypeDesc), in the titles that it sets.
const ROLES: [&str; 18] = [
    "archiver",
    "autovacuum launcher",
    "autovacuum worker",
    "background writer",
    "checkpointer",
    "io worker",
    "logger",
    "logical replication launcher",
    "logical replication",
    "parallel worker",
    "slotsync worker",
    "startup",
    "stats collector",
    "walreceiver",
    "walsender",
    "walsummarizer",
    "walwriter",
    "bgworker",
];

/// The role by the title `postgres: [CLUSTER: ]WHAT`. The WHAT of a connection is its account, its database and its activity.
pub(crate) fn role_of(title: &str) -> Option<&'static str> {
    let what = title.trim_end_matches('\0').strip_prefix("postgres: ")?;
    let begins = |what: &str| ROLES.into_iter().find(|role| what.starts_with(role));
    let behind_cluster = || what.split_once(": ").and_then(|(_, what)| begins(what));
    let role = begins(what).or_else(behind_cluster);
    Some(match role {
        Some("walsender") => "walsender",
        _ if has_client(what) => "connection",
        // the background worker of an extension has any name
        role => role.unwrap_or("background worker"),
    })
}

/// Whether a title tells where the client is: `[local]`, or `HOST(PORT)` (backend_startup.c). A client's account may have the name of a role.
fn has_client(what: &str) -> bool {
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let is_host =
        |word: &str| word.strip_suffix(')').and_then(|it| it.rsplit_once('(')).is_some_and(|(_, port)| is_port(port));
    what.split(' ').skip(2).any(|word| word == "[local]" || is_host(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_read_from_titles() {
        for (title, role) in [
            ("postgres: checkpointer \0\0", Some("checkpointer")),
            ("postgres: 15/main: logical replication launcher ", Some("logical replication launcher")),
            ("postgres: io worker 2", Some("io worker")),
            ("postgres: wringer sbtest [local] idle", Some("connection")),
            ("postgres: 15/main: me shop 127.0.0.1(4711) SELECT", Some("connection")),
            ("postgres: logger shop 10.0.0.1(5432) idle", Some("connection")),
            ("postgres: walsender me 10.0.0.1(5432) streaming 0/3000148", Some("walsender")),
            ("postgres: pg_cron launcher ", Some("background worker")),
            ("postgres: 15/main: TimescaleDB Background Worker Scheduler 16384", Some("background worker")),
            ("postgres: parallel worker for PID 4711", Some("parallel worker")),
            ("/usr/lib/postgresql/15/bin/postgres\0-D\0/data", None),
            ("sleep\09", None),
            ("", None),
        ] {
            assert_eq!(role_of(title), role, "{title}");
        }
    }

    #[test]
    fn rows_are_bounded_and_not_given_again() {
        let mut rows = Rows::default();
        let own = std::process::id();
        (0..1000).for_each(|_| {
            rows.keep(own, &[own]);
            rows.keep(own, &[]);
        });
        assert_eq!((rows.given, rows.entities.len()), (MOST, 0));
        let mut rows = Rows::default();
        rows.keep(own, &[own, 1]);
        assert_eq!(rows.entities, BTreeMap::from([(own, format!("{own} main"))]), "process 1 says no role");
    }
}
