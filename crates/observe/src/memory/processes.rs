// SPDX-License-Identifier: Apache-2.0
//! The processes of one server. The status of all is read; mappings, contexts and heaps are read of as many as the budget admits: first of one
//! process of each role, then of the others in turn.

use super::merged_log::Buffers;
use super::process_files::{comm, lossy, number};
use super::reading::Reading;
use super::segment::{self, Segment};
use super::target::Target;
use super::turns::{Turns, in_turn};
use super::{collations, contexts, elf, glibc, holes, mappings, tcmalloc};
use crate::process::title_role;
use capability::Flavour;
use host::pause_point;
use host::process::{Identity, descendants, numbers_in_namespaces, server_program};
use ledger::{HeapWalk, Mapping, ProcessSeen};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Facts that do not change during the life of a server, and that cost more to find than all other facts together, because the files of its program
/// and its libraries are searched. They are kept from one reading to the next.
#[derive(Default)]
pub(super) struct Known {
    /// The process to which the facts belong; they also hold for its forks.
    of: Option<Identity>,
    program: Option<elf::Program>,
    /// The allocator that serves malloc; empty: not known. `None`: not yet looked for.
    allocator: Option<String>,
    /// Where tcmalloc's page heap was found.
    page_heap: Option<u64>,
    /// What the readings so far have told of its processes.
    turns: Turns,
    segment: Option<segment::Kept>,
    /// The last sizes that MariaDB told; a server that does not answer has the same buffers.
    pub(super) buffers: Option<Buffers>,
}

impl Known {
    /// Whether nothing has been read yet.
    pub(super) fn is_nothing(&self) -> bool {
        self.turns.is_first()
    }

    /// The facts about this server; all facts about another server are dropped.
    fn of(&mut self, first: Identity) -> &mut Self {
        if self.of != Some(first) {
            *self = Self { of: Some(first), ..Self::default() };
        }
        self
    }
}

/// What was read of the processes of one server.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) processes: Vec<ProcessSeen>,
    /// Of a server with a process for each connection: the memory that they share.
    pub(super) segment: Option<Segment>,
}

pub(super) fn read(first_pid: u32, flavour: Option<Flavour>, known: &mut Known, reading: &mut Reading) -> Seen {
    let Some(first) = Identity::of(first_pid) else {
        reading.missing(format!("process {first_pid}"), "it has ended", None);
        return Seen::default();
    };
    let has_family = flavour.is_some_and(Flavour::has_process_per_connection);
    let others = if has_family { descendants(&[first]) } else { BTreeSet::new() };
    let others = others.into_iter().filter(|it| *it != first);
    let mut seen: Vec<ProcessSeen> =
        [first].into_iter().chain(others).filter_map(|it| look(it, first, flavour, reading)).collect();
    pause_point("the status of all processes was read");
    let mut segment = None;
    if !reading.options.lightly {
        let known = known.of(first);
        segment = if has_family { segment::read(&seen, &mut known.segment, reading) } else { None };
        deepen(&mut seen, flavour, known, reading);
        leave_out_the_ended(&mut seen, first, reading);
        if reading.options.is_repeated() {
            known.turns.note(&mut seen);
        }
    }
    if !first.is_alive() {
        reading.missing(format!("process {first_pid}"), "it has ended while it was read", None);
    }
    Seen { processes: seen, segment }
}

/// The data of a process that can be read without holding it. `None`: it has ended.
fn look(it: Identity, first: Identity, flavour: Option<Flavour>, reading: &mut Reading) -> Option<ProcessSeen> {
    let pid = it.pid;
    let at_us = reading.now_us();
    let text = lossy(&format!("/proc/{pid}/status"))?;
    reading.count("status");
    let numbers = numbers_in_namespaces(&text);
    let seen = ProcessSeen {
        pid,
        inner_pid: numbers.last().copied().filter(|inner| *inner != pid),
        role: role(pid, it == first, flavour),
        command: comm(pid),
        started_ticks: it.start_time,
        at_us,
        status: ledger::mapping::sizes(&text),
        oom_score: number(pid, "oom_score"),
        oom_score_adj: number(pid, "oom_score_adj"),
        ..ProcessSeen::default()
    };
    it.is_alive().then_some(seen)
}

/// The postmaster's working directory is its data directory, whose file `PG_VERSION` has the major version (storage-file-layout of its manual).
pub(super) fn version_of_data(postmaster: u32) -> Option<String> {
    version_in(Path::new(&format!("/proc/{postmaster}/cwd")))
}

fn version_in(folder: &Path) -> Option<String> {
    let text = String::from_utf8(elf::read_plain(&folder.join("PG_VERSION"), 16)?).ok()?;
    let version = text.trim();
    (!version.is_empty() && version.chars().all(|c| c.is_ascii_digit() || c == '.')).then(|| version.to_owned())
}

/// The role of a process. PostgreSQL's processes have it in their titles.
fn role(pid: u32, is_first: bool, flavour: Option<Flavour>) -> String {
    match (is_first, flavour) {
        (true, Some(Flavour::Postgresql)) => "postmaster".to_owned(),
        // also when a loader runs it
        (true, _) => server_program(pid).unwrap_or_else(|| comm(pid)),
        (false, _) => role_by_title(pid),
    }
}

fn role_by_title(pid: u32) -> String {
    let title = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    match title_role(&String::from_utf8_lossy(&title)) {
        Some("connection") => "client backend".to_owned(),
        Some(role) => role.to_owned(),
        None => comm(pid),
    }
}

/// The facts that all processes of a server share: PostgreSQL's processes are forks of the first one.
struct Family<'a> {
    count: usize,
    flavour: Option<Flavour>,
    known: &'a mut Known,
    /// Roles for which one process was read so that its total is exact: the kernel rounds each mapping down.
    exact: BTreeSet<String>,
}

impl<'a> Family<'a> {
    fn of(seen: &[ProcessSeen], flavour: Option<Flavour>, known: &'a mut Known) -> Self {
        Self { count: seen.len(), flavour, known, exact: BTreeSet::new() }
    }
}

/// Reads mappings, heaps and contexts of one process after the other, while the budget lasts, and until the others are well known from those.
fn deepen(seen: &mut [ProcessSeen], flavour: Option<Flavour>, known: &mut Known, reading: &mut Reading) {
    let is_repeated = reading.options.is_repeated();
    let turns = if is_repeated { known.turns.in_detail(seen) } else { in_turn(seen) };
    let reserve_us = if is_repeated { reading.left_us() / 2 } else { 0 };
    let mut family = Family::of(seen, flavour, known);
    let mut dearest_us = 0;
    let in_any_case = in_any_case(seen, reading);
    for (nth, at) in turns.iter().enumerate() {
        if nth >= in_any_case
            && let Some((why, remedy)) = why_no_more(seen, dearest_us, reserve_us, reading)
        {
            let what = format!("mappings of {} of {} processes", turns.len() - nth, family.count);
            reading.missing(what, why, Some(&remedy));
            break;
        }
        let Some(process) = seen.get_mut(*at) else { continue };
        let began = reading.used_us();
        read_into(process, &mut family, reading);
        dearest_us = dearest_us.max(reading.used_us() - began);
    }
    if is_repeated {
        sum_up(seen, &known.turns, reading);
    }
}

/// So many sums are read in any case: after some readings each process has had its turn.
const SUMS_IN_ANY_CASE: usize = 2;

/// Reads the sums of the processes that were not read in detail, while the budget lasts.
fn sum_up(seen: &mut [ProcessSeen], turns: &Turns, reading: &mut Reading) {
    let (count, mut dearest_us, mut got) = (seen.len(), 0, 0);
    for at in turns.in_sum(seen) {
        // a process that is too large for a sum is no turn of its own
        if got >= SUMS_IN_ANY_CASE && !reading.admits_another(dearest_us) {
            return;
        }
        let began = reading.used_us();
        seen[at].rollup = mappings::rollup(&seen[at], count, reading);
        got += usize::from(seen[at].rollup.is_some());
        dearest_us = dearest_us.max(reading.used_us() - began);
    }
}

/// Why no further process is read, and what would read it, in words. `dearest_us`: how long the process that took longest was held. `reserve_us`: the part
/// of the budget of a repeated reading that is for something else.
fn why_no_more(
    seen: &[ProcessSeen],
    dearest_us: u64,
    reserve_us: u64,
    reading: &Reading,
) -> Option<(&'static str, String)> {
    let remedy = reading.remedy();
    if !reading.admits_another(dearest_us) || reading.left_us() < reserve_us {
        return Some(match reading.options.others_us {
            Some(_) => {
                ("to read them would cost more than the budget admits", format!("a longer interval, or {remedy}"))
            }
            None => ("they would hold the server longer than the budget admits", remedy.to_owned()),
        });
    }
    let is_enough = !reading.options.deep && ledger::is_enough(seen);
    is_enough.then(|| ("others of their roles were read, and tell their sizes well enough", remedy.to_owned()))
}

/// Leaves out sessions that ended during the reading. Their memory is free again: an estimate from similar processes would count memory that nobody
/// has. The caller reports the end of the first process.
fn leave_out_the_ended(seen: &mut Vec<ProcessSeen>, first: Identity, reading: &mut Reading) {
    let is_there = |it: &ProcessSeen| Identity { pid: it.pid, start_time: it.started_ticks }.is_alive();
    let before = seen.len();
    seen.retain(|it| it.pid == first.pid || it.mappings.is_some() || is_there(it));
    if seen.len() < before {
        reading.missing("processes that ended", "they ended while the server was read, and are left out", None);
    }
}

/// The number of processes that are read in detail even on a busy host: three of each role, because the others are estimated from them, and one
/// alone does not tell how much they differ. In repeated readings the server's first process and the one that has most memory of its own, because the
/// budget of each reading is small.
fn in_any_case(seen: &[ProcessSeen], reading: &Reading) -> usize {
    let mut of_role: BTreeMap<&str, usize> = BTreeMap::new();
    seen.iter().for_each(|process| *of_role.entry(&process.role).or_default() += 1);
    if reading.options.is_repeated() { 2 } else { of_role.values().map(|count| count.min(&3)).sum() }
}

fn read_into(process: &mut ProcessSeen, family: &mut Family<'_>, reading: &mut Reading) {
    let Some(mut target) = Target::open(process, reading) else { return };
    let Some(mut found) = mappings::read(&mut target, &process.status, family.count, reading) else { return };
    if matches!(family.flavour, Some(Flavour::Mysql | Flavour::Mariadb | Flavour::Percona)) {
        holes::note(&target, &mut found, reading);
    }
    pause_point("the mappings of a process were read");
    if family.exact.insert(process.role.clone()) || reading.options.deep {
        process.rollup = mappings::rollup(process, family.count, reading);
    }
    let allocator = family.known.allocator.get_or_insert_with(|| serving(target.pid(), &found)).clone();
    process.heap = heap(&target, &found, &allocator, &mut family.known.page_heap, reading);
    process.allocator = Some(allocator).filter(|name| !name.is_empty());
    if matches!(family.flavour, Some(Flavour::Postgresql | Flavour::Mariadb)) {
        if family.known.program.is_none() {
            family.known.program = elf::Program::of(target.pid(), &found);
        }
        of_program(process, &target, &found, family, reading);
    }
    process.mappings = Some(found);
    if !target.is_alive() {
        reading.missing(format!("process {}", process.pid), "it has ended while it was read", None);
    }
}

/// The allocator that serves malloc; empty: not known.
fn serving(pid: u32, mappings: &[Mapping]) -> String {
    let serving = malloc::serving_with(pid, mappings.to_vec());
    if serving.is_known() { serving.name } else { String::new() }
}

/// Reads the data that begin at names that the program exports.
fn of_program(
    process: &mut ProcessSeen,
    target: &Target,
    found: &[Mapping],
    family: &Family<'_>,
    reading: &mut Reading,
) {
    let program = family.known.program.as_ref();
    if family.flavour == Some(Flavour::Postgresql) {
        process.contexts = contexts::read(target, found, program, reading);
    } else {
        process.collations = collations::read(target, found, program, reading);
    }
}

fn heap(
    target: &Target,
    found: &[Mapping],
    allocator: &str,
    page_heap: &mut Option<u64>,
    reading: &mut Reading,
) -> Option<HeapWalk> {
    if allocator.starts_with("glibc") {
        return glibc::walk(target, found, allocator, reading);
    }
    if allocator == "tcmalloc" {
        return tcmalloc::walk(target, found, page_heap, reading);
    }
    let why = match allocator {
        "" => "nothing tells which malloc serves, and only those of glibc and tcmalloc can be read from outside"
            .to_owned(),
        _ => format!(
            "{allocator} serves malloc, and only the free memory of glibc's and of tcmalloc can be read from outside"
        ),
    };
    reading.missing("free memory of malloc", why, None);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_are_read_in_any_case() {
        let of = |role: &str| ProcessSeen { role: role.to_owned(), ..ProcessSeen::default() };
        let many: Vec<ProcessSeen> = ["a"; 5].into_iter().chain(["b"]).map(of).collect();
        let told = |others_us| {
            in_any_case(&many, &Reading::begin(super::super::Options { others_us, ..super::super::Options::default() }))
        };
        assert_eq!((told(None), told(Some(10))), (4, 2), "three of the one role, and all of the other");
    }

    #[test]
    fn no_further_process_is_read_without_a_reason() {
        let options = |deep, others_us| super::super::Options { deep, others_us, ..super::super::Options::default() };
        let why =
            |seen: &[ProcessSeen], dearest_us, options| why_no_more(seen, dearest_us, 0, &Reading::begin(options));
        let unread = ProcessSeen { status: [("VmRSS".into(), 4096)].into(), ..ProcessSeen::default() };
        let mapping = Mapping { rss: 4096, pss: 4096, ..Mapping::default() };
        let read = ProcessSeen { mappings: Some(vec![mapping]), ..unread.clone() };
        let (one, hour_us) = (std::slice::from_ref(&unread), Some(3_600_000_000));
        assert_eq!(why(one, 0, options(false, None)), None);
        let budget = why(one, u64::MAX / 2, options(false, hour_us));
        assert!(budget.is_some_and(|(why, remedy)| why.contains("budget") && remedy.contains("a longer interval")));
        let alike = [vec![read; 100], vec![unread.clone()]].concat();
        let enough = why(&alike, 0, options(false, hour_us));
        assert!(enough.is_some_and(|(why, remedy)| why.contains("well enough") && !remedy.contains("interval")));
        assert_eq!(why(&alike, 0, options(true, None)), None, "--deep reads all");
    }

    #[test]
    #[allow(clippy::disallowed_methods)]
    fn the_version_of_a_data_directory() {
        let folder = tempfile::tempdir().unwrap();
        let with = |text: &str| {
            fs::write(folder.path().join("PG_VERSION"), text).unwrap();
            version_in(folder.path())
        };
        assert_eq!((with("15\n").as_deref(), with("9.6\n").as_deref()), (Some("15"), Some("9.6")));
        assert_eq!((with("; DROP"), with("\n")), (None, None));
        assert_eq!(version_of_data(std::process::id()), None, "this test's folder is no data directory");
    }

    #[test]
    fn what_this_process_is() {
        let own = std::process::id();
        let mut reading = Reading::begin(super::super::Options::default());
        let identity = Identity::own().unwrap();
        let seen = look(identity, identity, None, &mut reading).unwrap();
        assert_eq!((seen.pid, seen.role.as_str(), seen.started_ticks), (own, comm(own).as_str(), identity.start_time));
        let reused = Identity { start_time: 1, ..identity };
        assert!(look(reused, reused, None, &mut reading).is_none(), "the number of another process");
        assert_eq!(role(own, true, Some(Flavour::Postgresql)), "postmaster");
    }

    #[test]
    fn what_is_known_of_one_server_is_not_told_of_another() {
        let (mut known, first) = (Known::default(), Identity::own().unwrap());
        known.of(first).allocator = Some("one".into());
        assert_eq!(known.of(first).allocator.as_deref(), Some("one"), "kept for the next reading");
        assert_eq!(known.of(Identity { start_time: 1, ..first }).allocator, None, "a process that has its number");
    }

    #[test]
    fn who_ends_while_the_server_is_read_is_left_out() {
        let mut reading = Reading::begin(super::super::Options::default());
        let first = Identity::own().unwrap();
        let seen_of = |it: Identity, mappings| ProcessSeen {
            pid: it.pid,
            started_ticks: it.start_time,
            mappings,
            ..ProcessSeen::default()
        };
        let ended = Identity { start_time: 1, ..Identity::of(std::os::unix::process::parent_id()).unwrap() };
        let mut seen = vec![
            seen_of(Identity { start_time: 1, ..first }, None),
            seen_of(ended, None),
            seen_of(ended, Some(Vec::new())),
            seen_of(Identity::of(ended.pid).unwrap(), None),
        ];
        leave_out_the_ended(&mut seen, first, &mut reading);
        assert_eq!(seen.len(), 3, "not the one that ended unread");
        assert!(seen.iter().any(|it| it.pid == ended.pid && it.mappings.is_some()), "what was read is kept");
        assert_eq!(reading.end().2.len(), 1);
    }
}
