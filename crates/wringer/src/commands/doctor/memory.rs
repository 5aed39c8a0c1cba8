// SPDX-License-Identifier: Apache-2.0
//! The checks for `wringer memory`, `hugepages`, and the keys `server.malloc`, `server.thp` and `server.pgbouncer` of experiments.

use super::check::{Check, State, has_package_client};
use capability::MallocKind;
use host::places::Places;
use observe::memory::Readable;

/// What reading a server's memory needs. Less depth is no failure: the commands say in `missing[]` what they could not read.
pub fn readers(readable: &Readable) -> Vec<Check> {
    vec![mappings(readable), pages(readable), process_memory(readable), kernel_log(readable)]
}

fn mappings(readable: &Readable) -> Check {
    const ID: &str = "mappings";
    if !readable.sums {
        let found = "/proc/PID/smaps_rollup is not there (it needs Linux 4.14, with CONFIG_PROC_PAGE_MONITOR)";
        return Check::missing(ID, found, "another kernel; or read the server's memory on its own host");
    }
    match readable.lacks_for_mappings {
        None => Check::good(ID, "mappings and sums (smaps, smaps_rollup) of every process"),
        Some(remedy) => Check::caution(ID, "mappings and sums of processes of this user only", remedy),
    }
}

fn pages(readable: &Readable) -> Check {
    const ID: &str = "pagemap";
    let ranges = "which pages a process has touched is read word by word (no ioctl PAGEMAP_SCAN)";
    let counts = "with how many processes a page is shared is not shown";
    match (readable.page_ranges, readable.page_counts) {
        (true, true) => Check::good(ID, "single pages: which are resident, and in how many processes"),
        (false, true) => Check::caution(ID, ranges, "Linux 6.7 or later, for shorter readings of PostgreSQL"),
        (true, false) => Check::caution(ID, format!("{counts}: large shared memory is read by smaps"), "run as root"),
        (false, false) => {
            Check::caution(ID, format!("{counts}; {ranges}"), "run as root, on Linux 6.7 or later for short readings")
        }
    }
}

fn process_memory(readable: &Readable) -> Check {
    const ID: &str = "process-memory";
    let what = "free memory of malloc, and memory contexts of PostgreSQL (/proc/PID/mem)";
    match (&readable.lacks_for_memory, readable.lacks_for_mappings) {
        (Some(remedy), _) => Check::caution(ID, format!("not readable: {what}; such memory is unexplained"), remedy),
        (None, None) => Check::good(ID, format!("readable: {what}")),
        (None, Some(remedy)) => Check::caution(ID, format!("readable of processes of this user only: {what}"), remedy),
    }
}

fn kernel_log(readable: &Readable) -> Check {
    const ID: &str = "kernel-log";
    match &readable.kernel_log {
        Ok(()) => Check::good(ID, "readable: `wringer memory oom` finds the last kill in it"),
        Err(why) => Check::caution(ID, format!("{why}: the last kill of the OOM killer is not known"), "run as root"),
    }
}

pub fn thp() -> Check {
    const ID: &str = "thp";
    const SETTING: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    let text = std::fs::read_to_string(SETTING).unwrap_or_default();
    match host::change::chosen(&text) {
        Some(word) => {
            Check::good(ID, format!("transparent huge pages: {word} on this host; one server can go without"))
        }
        None => Check::caution(ID, "this kernel has no transparent huge pages", "leave out `server.thp` and `--thp`"),
    }
}

pub fn pooler(places: &Places) -> Check {
    const ID: &str = "pgbouncer";
    if let Some(found) = sandbox::present_pooler(places) {
        return Check::good(ID, format!("{}, version {}", found.path.display(), found.version));
    }
    if has_package_client() {
        return Check::caution(
            ID,
            "not here yet; can be fetched without installing it",
            "the first `wringer sandbox deploy postgresql --pgbouncer` fetches it",
        );
    }
    Check::missing(ID, "not on this machine, and there is no apt-get to fetch it", "install pgbouncer")
}

/// The libraries for `--malloc` and `server.malloc`. The C library's own malloc is everywhere.
pub fn mallocs(places: &Places) -> Check {
    let others = MallocKind::ALL.into_iter().filter(|kind| *kind != MallocKind::Glibc);
    let (here, lacking): (Vec<_>, Vec<_>) =
        others.map(|kind| (kind.name(), sandbox::present_malloc(kind, places))).partition(|(_, it)| it.is_some());
    let names = |list: &[(&str, _)]| list.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    judge_mallocs(&names(&here), &names(&lacking), has_package_client())
}

fn judge_mallocs(here: &str, lacking: &str, can_fetch: bool) -> Check {
    const ID: &str = "mallocs";
    let here = if here.is_empty() { "glibc".to_owned() } else { format!("glibc, {here}") };
    if lacking.is_empty() {
        return Check::good(ID, here);
    }
    if can_fetch {
        let found = format!("{here}; {lacking} can be fetched without installing");
        let remedy = "the first `wringer sandbox start --malloc NAME` fetches it";
        return Check { id: ID, state: State::Good, found, remedy: Some(remedy.into()) };
    }
    Check::caution(ID, format!("{here}; not {lacking}, and there is no apt-get to fetch them"), "install the library")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Readable {
        Readable {
            sums: true,
            lacks_for_mappings: None,
            lacks_for_memory: None,
            page_ranges: true,
            page_counts: true,
            kernel_log: Ok(()),
        }
    }

    #[test]
    fn each_thing_that_cannot_be_read_is_named_with_what_would_help() {
        assert!(readers(&all()).iter().all(|check| check.state == State::Good && check.remedy.is_none()));
        let cases = [
            (Readable { lacks_for_mappings: Some("run as root"), ..all() }, "mappings", "of this user only"),
            (Readable { lacks_for_mappings: Some("run as root"), ..all() }, "process-memory", "of this user only"),
            (Readable { page_counts: false, ..all() }, "pagemap", "read by smaps"),
            (Readable { page_ranges: false, ..all() }, "pagemap", "PAGEMAP_SCAN"),
            (Readable { lacks_for_memory: Some("root".into()), ..all() }, "process-memory", "unexplained"),
            (Readable { kernel_log: Err("/dev/kmsg: no".into()), ..all() }, "kernel-log", "/dev/kmsg: no"),
        ];
        for (readable, id, words) in cases {
            let checks = readers(&readable);
            let check = checks.iter().find(|check| check.id == id).unwrap();
            assert_eq!(check.state, State::Caution, "{check:?}");
            assert!(check.found.contains(words) && check.remedy.is_some(), "{check:?}");
        }
        let without_sums = readers(&Readable { sums: false, ..all() });
        assert_eq!(without_sums[0].state, State::Missing, "{without_sums:?}");
    }

    #[test]
    fn the_mallocs_are_named_that_are_here_and_those_that_are_not() {
        assert_eq!(judge_mallocs("jemalloc, mimalloc, tcmalloc", "", false).state, State::Good);
        let fetched = judge_mallocs("", "jemalloc, tcmalloc", true);
        assert!(fetched.found.starts_with("glibc; jemalloc") && fetched.remedy.is_some(), "{fetched:?}");
        let none = judge_mallocs("jemalloc", "tcmalloc", false);
        assert!(none.state == State::Caution && none.found.contains("not tcmalloc"), "{none:?}");
    }
}
