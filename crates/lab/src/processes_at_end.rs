// SPDX-License-Identifier: Apache-2.0
//! The memory of the server's processes when an arm's load has ended: each process in a snapshot, their sums beside the arm, and the processes that the
//! OOM killer would kill first.

use crate::error::Error;
use crate::lab::Lab;
use evidence::{Format, Measured, Quantity, SampleSink as _, Snapshot};
use experiment::ServerStart;
use observe::memory::{self, Options};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use units::Bytes;

/// The source of the snapshot: a list of the server's processes, in the order in which the OOM killer would kill them.
const SOURCE: &str = "memory.processes";
/// The role of a process that serves one connection.
const CONNECTION: &str = "client backend";
/// How many processes of the OOM killer's order are kept.
const FIRST: usize = 3;

/// One process of the server; sizes in bytes.
struct Seen {
    pid: u32,
    role: String,
    status: BTreeMap<String, u64>,
    pss: Option<u64>,
    oom_score: Option<i64>,
}

impl Seen {
    fn of(&self, name: &str) -> u64 {
        self.status.get(name).copied().unwrap_or(0)
    }

    fn row(&self) -> Value {
        json!({
            "pid": self.pid,
            "role": self.role,
            "oom_score": self.oom_score,
            "pss_bytes": self.pss,
            "page_tables_bytes": self.of("VmPTE"),
            "huge_pages_bytes": self.of("HugetlbPages"),
            "rss_anonymous_bytes": self.of("RssAnon"),
            "rss_file_bytes": self.of("RssFile"),
            "rss_shared_bytes": self.of("RssShmem"),
        })
    }
}

impl Lab<'_> {
    /// Whether the memory is read: where an arm has settings of the server's start, and its processes are observed.
    pub(crate) fn processes_at_end(&self, arm: &str) -> Result<(), Error> {
        let is_asked =
            self.cell.observe.process && self.cell.phases.iter().any(|it| it.start != ServerStart::default());
        let Some(serving) = self.serving.as_ref().filter(|_| is_asked) else { return Ok(()) };
        let lightly = Options { lightly: true, ..Options::default() };
        let inventory = memory::inventory(Some(serving.running.pid), Some(serving.kind.flavour), None, &lightly);
        let mut seen: Vec<Seen> = inventory.processes.into_iter().map(look).collect();
        seen.sort_by_key(|process| std::cmp::Reverse(process.oom_score));
        for measured in sums(&seen) {
            let (at_us, arm) = (self.notes.clock.now_us(), Some(arm.to_owned()));
            self.notes.measured(&Measured { at_us, arm, ..measured })?;
        }
        let told = |it: &Seen| format!("{} {} ({} page tables)", it.pid, it.role, Bytes(it.of("VmPTE")));
        let first: Vec<String> = seen.iter().take(FIRST).map(told).collect();
        let order = format!("{arm}: of the server's processes the OOM killer would take first: {}", first.join(", "));
        self.notes.event("observe", order)?;
        let content = Value::from(seen.iter().map(Seen::row).collect::<Vec<_>>()).to_string();
        let (source, at_us) = (SOURCE.to_owned(), self.notes.clock.now_us());
        let snapshot = Snapshot { at_us, arm: None, source, entity: String::new(), format: Format::Json, content };
        self.sinks().snapshot(&snapshot).map_err(|source| Error::Sink { source })
    }
}

/// The load has ended, so that no statement waits while this holds the server.
fn look(process: ledger::ProcessSeen) -> Seen {
    let ledger::ProcessSeen { pid, role, status, oom_score, .. } = process;
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let pss = host::meminfo::bytes(&rollup, "Pss");
    Seen { pid, role, status, pss, oom_score }
}

/// The sums over all processes; and, where each connection is a process, the median of those processes.
fn sums(seen: &[Seen]) -> Vec<Measured> {
    let of = |name: &str| seen.iter().map(|process| process.of(name)).sum::<u64>();
    let all = format!("{} processes of the server, at the end of the load", seen.len());
    let of_all =
        |what: &str, name: &str| bytes(what, of(name), (&all, &format!("{name} in /proc/PID/status, added up")));
    let all_pss: Option<u64> = seen.iter().map(|process| process.pss).sum();
    let pss = all_pss.map(|sum| bytes("server.pss", sum, (&all, "Pss in /proc/PID/smaps_rollup, added up")));
    let connections: Vec<&Seen> = seen.iter().filter(|process| process.role == CONNECTION).collect();
    let each = format!("{} connections, at the end of the load", connections.len());
    let of_one = |what: &str, name: &str| {
        let value = median(connections.iter().map(|process| process.of(name)).collect())?;
        Some(bytes(what, value, (&each, &format!("{name} in /proc/PID/status, the median"))))
    };
    let counted = [of_all("server.page_tables", "VmPTE"), of_all("server.shared_mapped", "RssShmem")];
    let of_connection = [of_one("connection.page_tables", "VmPTE"), of_one("connection.shared_mapped", "RssShmem")];
    counted.into_iter().chain(pss).chain(of_connection.into_iter().flatten()).collect()
}

fn median(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

fn bytes(what: &str, value: u64, (mechanism, witness): (&str, &str)) -> Measured {
    Measured { got: Some(Quantity::bytes(value)), ..Measured::of(what, mechanism, witness) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_added_up_and_none_is_made_up() {
        let seen = |pss, tables| Seen {
            pid: 1,
            role: CONNECTION.into(),
            status: BTreeMap::from([("VmPTE".to_owned(), tables)]),
            pss,
            oom_score: None,
        };
        let got = |seen: &[Seen], what: &str| {
            let found = sums(seen).into_iter().find(|it| it.what == what);
            found.and_then(|it| it.got).map(|got| got.value)
        };
        let both = [seen(Some(5), 7), seen(Some(6), 8)];
        assert_eq!((got(&both, "server.page_tables"), got(&both, "server.pss")), (Some(15.0), Some(11.0)));
        let three = [seen(None, 90), seen(None, 7), seen(None, 8)];
        assert_eq!(got(&three, "connection.page_tables"), Some(8.0));
        assert_eq!(got(&[], "connection.page_tables"), None);
        let refused = [seen(Some(5), 7), seen(None, 8)];
        assert_eq!(got(&refused, "server.pss"), None, "not a sum over some of them");
        assert_eq!(both[0].row()["page_tables_bytes"], 7);
    }
}
