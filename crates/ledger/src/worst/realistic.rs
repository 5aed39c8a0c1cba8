// SPDX-License-Identifier: Apache-2.0
//! The memory that is likely at the next peak: the memory now, and the amounts by which high-water marks exceed it.
//!
//! Two sources say how much that is: the kernel's mark of the process, and the server's marks of its sessions. The larger one counts. Neither knows of a time
//! before the server's start.

use super::concurrency::is_client;
use super::entries::{Concurrency, Line, sum};
use super::high_water::HighWater;
use crate::parts::{Parts, measured};
use crate::share::sane;
use crate::{Account, Inventory, Missing, ProcessSeen, ServerSeen, estimate};
use capability::Flavour;
use units::{Bytes, counted};

/// The most that one session has held so far.
pub(crate) struct Largest {
    pub(crate) bytes: u64,
    pub(crate) source: &'static str,
}

pub(crate) fn lines(inventory: &Inventory, account: &Account, concurrency: &Concurrency) -> Vec<Line> {
    let now = Line::new("now", 1, account.kernel_total_bytes, "the kernel's total, as of the account");
    let marks = HighWater::of(inventory);
    let by_kernel = by_kernel(&marks);
    let by_server = if inventory.flavour == Some(Flavour::Postgresql) {
        more_backends(inventory, account, concurrency, &marks)
    } else {
        by_sessions(inventory, account, concurrency)
    };
    // PostgreSQL's backends beyond those that run add to what those once had; a MariaDB's sessions lie in the one process whose mark is known
    let both = inventory.flavour == Some(Flavour::Postgresql);
    let server_is_more = sum(&by_server) > sum(&by_kernel);
    let counted = |lines: Vec<Line>, counts: bool| lines.into_iter().map(move |line| Line { counts, ..line });
    let kernel = counted(by_kernel, both || !server_is_more);
    let server = counted(by_server, both || server_is_more);
    std::iter::once(now).chain(kernel).chain(server).collect()
}

fn by_kernel(marks: &HighWater<'_>) -> Vec<Line> {
    let mut source = "/proc/PID/status, VmHWM - VmRSS of all processes".to_owned();
    let taken_back = marks.all_taken_back();
    if taken_back > 0 {
        source += &format!(", less {} of files that the kernel may have taken back from them", Bytes(taken_back));
    }
    let mut lines = vec![Line::new("the processes at their largest", 1, marks.all_private_beyond_now(), source)];
    let text = marks.text();
    if text > 0 {
        let source = "pages that no process has now; counted once, because all processes share them";
        lines.push(Line::new("program and libraries, taken back by the kernel", 1, text, source));
    }
    lines
}

/// The sessions that are there, each grown to its mark, and as many more as there were at the peak of connections. Memory that is free in malloc already
/// is subtracted, because the sessions use it first.
fn by_sessions(inventory: &Inventory, account: &Account, concurrency: &Concurrency) -> Vec<Line> {
    let Some(server) = &inventory.server else { return Vec::new() };
    let marks = marks(server);
    if marks.is_empty() {
        return Vec::new();
    }
    let grown = marks.iter().map(|(now, most)| most.saturating_sub(*now)).sum();
    let mean = marks.iter().map(|(_, most)| *most).sum::<u64>() / marks.len() as u64;
    let more = concurrency.more();
    let source = "PROCESSLIST or threads: what each session held at most, less what it holds";
    let mut lines = vec![
        Line::new("sessions at their largest", 1, grown, source),
        Line::new(
            "more sessions at once",
            more,
            mean,
            "as of the peak of connections; the mean of the sessions' marks",
        ),
    ];
    let free = resident(account, "allocator/retained").min(sum(&lines));
    lines.push(Line::less("free in malloc already", free, "walk of malloc's chunks"));
    lines
}

/// What each session holds, and what it held at most. A server that does not count it leaves both out, or says 0.
fn marks(server: &ServerSeen) -> Vec<(u64, u64)> {
    let mark = |it: &crate::Session| Some((sane(it.bytes?), sane(it.bytes_max.filter(|bytes| *bytes > 0)?)));
    server.sessions.iter().filter_map(mark).collect()
}

/// Connections of the peak whose memory no line counts, because nothing says what one of them holds. `None`: there are none.
pub(crate) fn uncounted(inventory: &Inventory, concurrency: &Concurrency) -> Option<Missing> {
    let more = concurrency.more();
    if more == 0 || is_size_known(inventory) {
        return None;
    }
    let (why, remedy) = match (inventory.flavour, &inventory.server) {
        (Some(Flavour::Postgresql), _) => {
            ("no client backend was seen whose size could count for them", "ask again while clients are connected")
        }
        (_, None) => ("the server was not asked what a session holds", "a connection to the server"),
        (Some(Flavour::Mariadb), Some(_)) => {
            ("no session has a mark of its memory", "a MariaDB whose PROCESSLIST has the column MAX_MEMORY_USED")
        }
        (_, Some(_)) => ("no session has a mark of its memory", "MySQL 8.0.31 or later, with performance_schema=ON"),
    };
    let what = format!("the memory of {}", counted(more, "more connection"));
    Some(Missing { what, why: why.into(), remedy: Some(remedy.into()) })
}

/// Whether something says what one more connection would hold.
fn is_size_known(inventory: &Inventory) -> bool {
    if inventory.flavour == Some(Flavour::Postgresql) {
        return inventory.processes.iter().any(is_client);
    }
    inventory.server.as_ref().is_some_and(|server| !marks(server).is_empty())
}

fn resident(account: &Account, path: &str) -> u64 {
    account.leaves.iter().find(|leaf| leaf.path == path).map_or(0, |leaf| leaf.resident_bytes)
}

/// PostgreSQL's backends beyond those that run. Each counts as the mean of the running client backends, each of them at its largest.
fn more_backends(
    inventory: &Inventory,
    account: &Account,
    concurrency: &Concurrency,
    marks: &HighWater<'_>,
) -> Vec<Line> {
    let estimates = estimate::of(&inventory.processes);
    let tables = |pid: u32| {
        account.processes.iter().find(|process| process.pid == pid).map_or(0, |process| process.page_tables_bytes)
    };
    let each: Vec<u64> = inventory
        .processes
        .iter()
        .filter(|process| is_client(process))
        .map(|process| private(process, &estimates) + marks.private_beyond_now(process) + tables(process.pid))
        .collect();
    let more = concurrency.more();
    let Some(mean) = each.iter().sum::<u64>().checked_div(each.len() as u64) else { return Vec::new() };
    let source = "the mean of the client backends: private memory at its largest, and page tables";
    vec![Line::new("more backends at once", more, mean, source)]
}

/// The process's share of private memory. Pages that it still shares with other processes since the fork count in part.
pub(crate) fn private(process: &ProcessSeen, estimates: &estimate::Estimates) -> u64 {
    Parts::of_rollup(process).unwrap_or_else(|| estimates.parts(process)).anonymous
}

/// The most that one process had privately.
pub(crate) fn largest_private(process: &ProcessSeen, marks: &HighWater<'_>) -> u64 {
    let now = match measured(process) {
        Some(mappings) => mappings.iter().map(|mapping| sane(mapping.anonymous)).fold(0, u64::saturating_add),
        None => process.status.get("RssAnon").map_or(0, |bytes| sane(*bytes)),
    };
    now.saturating_add(marks.private_beyond_now(process))
}

/// The client backend that was the largest so far; where no client is connected, the largest of all processes.
fn largest_backend(inventory: &Inventory) -> Option<Largest> {
    let (processes, marks) = (&inventory.processes, HighWater::of(inventory));
    let largest = |process| largest_private(process, &marks);
    let clients = processes.iter().filter(|it| is_client(it)).map(largest).max();
    let (bytes, source) = match clients {
        Some(bytes) => {
            (bytes, "the client backend that was the largest so far: RssAnon + VmHWM - VmRSS, without pages of files")
        }
        None => (
            processes.iter().map(largest).max()?,
            "no client is connected; the process that was the largest so far: RssAnon + VmHWM - VmRSS, without pages of files",
        ),
    };
    Some(Largest { bytes, source })
}

/// `None`: neither the server nor the kernel says it.
pub(crate) fn largest_session(inventory: &Inventory) -> Option<Largest> {
    if inventory.flavour == Some(Flavour::Postgresql) {
        return largest_backend(inventory);
    }
    let server = inventory.server.as_ref()?;
    let of_sessions = server.sessions.iter().filter_map(|session| session.bytes_max);
    let accounts = server.marks.iter().flat_map(|marks| &marks.accounts).filter_map(|it| it.session_bytes_max);
    let bytes = of_sessions.chain(accounts).map(sane).max()?;
    Some(Largest { bytes, source: "the session that was the largest so far, by PROCESSLIST, threads or accounts" })
}
