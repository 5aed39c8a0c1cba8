// SPDX-License-Identifier: Apache-2.0
//! The last kill of the OOM killer, by the kernel's log: `oom_kill_process` and `dump_oom_summary` of mm/oom_kill.c, `mem_cgroup_print_oom_group` of mm/memcontrol.c. Any text is accepted; other
//! lines are skipped.

use crate::KernelLine;
use crate::share::sane;
use serde::{Deserialize, Serialize};

/// A process that the kernel killed. Sizes in bytes; `None` where the kernel's version does not say it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kill {
    /// Microseconds since 1970, UTC, by the log's own clock, which stands still while the machine sleeps.
    pub at_unix_us: u64,
    pub pid: u32,
    pub command: String,
    /// `host`, `cgroup`, or as the kernel names it.
    pub ran_out: Option<String>,
    /// The cgroup whose limit was reached.
    pub cgroup: Option<String>,
    /// The process whose request for memory led to the kill.
    pub invoked_by: Option<String>,
    /// The cgroup whose processes were all killed with it, because of its `memory.oom.group`.
    #[serde(default)]
    pub killed_whole: Option<String>,
    pub anon_rss_bytes: Option<u64>,
    pub file_rss_bytes: Option<u64>,
    pub shmem_rss_bytes: Option<u64>,
    pub page_tables_bytes: Option<u64>,
    pub oom_score_adj: Option<i64>,
}

const KILLED: &str = "Killed process ";
const SUMMARY: &str = "oom-kill:";
const INVOKED: &str = " invoked oom-killer:";
const WHOLE: [&str; 2] = ["Tasks in ", " are going to be killed due to memory.oom.group set"];

/// Whether a line of the kernel's log is one that [`last_kill`] reads.
pub fn is_of_a_kill(text: &str) -> bool {
    text.contains(KILLED) || text.starts_with(SUMMARY) || text.contains(INVOKED) || whole(text).is_some()
}

/// Whether a line is of one more process of a cgroup that is killed whole. Such a kill has a line for each process: of hundreds, the first one matters.
pub fn is_of_a_member(lines_before: &[KernelLine], line: &KernelLine) -> bool {
    let is_killed = |line: &KernelLine| line.text.contains(KILLED);
    let before = lines_before.iter().rev().find(|line| !is_killed(line));
    is_killed(line) && before.is_some_and(|line| whole(&line.text).is_some())
}

/// `lines`: in the order of the log. `None`: there is no kill in it. Of a cgroup that was killed whole: the process that the kernel chose.
pub fn last_kill(lines: &[KernelLine]) -> Option<Kill> {
    let last = lines.iter().rposition(|line| killed(line).is_some() || whole(&line.text).is_some())?;
    let is_other = |line: &KernelLine| killed(line).is_none();
    // after this line come the other processes of the cgroup
    let of_group = lines.get(..=last)?.iter().rposition(is_other).filter(|at| whole(&lines[*at].text).is_some());
    let at = match of_group.and_then(|at| at.checked_sub(1)).filter(|chosen| killed(&lines[*chosen]).is_some()) {
        Some(chosen) => chosen,
        None => lines.iter().rposition(|line| killed(line).is_some())?,
    };
    let mut kill = killed(lines.get(at)?)?;
    kill.killed_whole = of_group.and_then(|at| whole(&lines[at].text)).map(str::to_owned);
    // the lines that belong to a kill stand between the kill before it and the kill itself
    let before = lines.get(..at).unwrap_or_default();
    let since = before.iter().rposition(|line| killed(line).is_some()).map_or(0, |before| before + 1);
    let own = before.get(since..).unwrap_or_default();
    let summary = own.iter().rev().find_map(|line| line.text.strip_prefix(SUMMARY));
    kill.ran_out = summary.and_then(ran_out);
    kill.cgroup = summary.and_then(cgroup);
    kill.invoked_by = own.iter().rev().find_map(|line| Some(line.text.split_once(INVOKED)?.0.to_owned()));
    Some(kill)
}

/// `Memory cgroup out of memory: Killed process 26540 (dd) total-vm:310176kB, anon-rss:65280kB, ..., pgtables:180kB oom_score_adj:0`
fn killed(line: &KernelLine) -> Option<Kill> {
    let (_, rest) = line.text.split_once(KILLED)?;
    let pid = rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
    // a process may name itself so that its name looks like what follows it; the name has 15 bytes at most
    let (command, figures) = rest.split_once('(')?.1.rsplit_once(") total-vm:")?;
    let kib = |name: &str| {
        let value = after(figures, name)?.split_once("kB")?.0;
        value.parse::<u64>().ok().map(|kib| sane(kib.saturating_mul(1024)))
    };
    Some(Kill {
        at_unix_us: line.at_unix_us,
        pid,
        command: command.to_owned(),
        anon_rss_bytes: kib("anon-rss:"),
        file_rss_bytes: kib("file-rss:"),
        shmem_rss_bytes: kib("shmem-rss:"),
        page_tables_bytes: kib("pgtables:"),
        oom_score_adj: after(figures, "oom_score_adj:").and_then(|text| text.trim().parse().ok()),
        ..Kill::default()
    })
}

fn whole(text: &str) -> Option<&str> {
    text.strip_prefix(WHOLE[0])?.strip_suffix(WHOLE[1])
}

fn after<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.split_once(name).map(|(_, rest)| rest)
}

fn ran_out(summary: &str) -> Option<String> {
    let constraint = after(summary, "constraint=")?.split(',').next()?;
    Some(match constraint {
        "CONSTRAINT_NONE" => "host".to_owned(),
        "CONSTRAINT_MEMCG" => "cgroup".to_owned(),
        other => other.to_owned(),
    })
}

fn cgroup(summary: &str) -> Option<String> {
    Some(after(summary, "oom_memcg=")?.split_once(",task_memcg=")?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As Linux 6.18 wrote it.
    const LOG: [&str; 4] = [
        "dd invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
        "[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents oom_score_adj name",
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/db/pg,task_memcg=/db/pg/1,task=dd,pid=26540,uid=0",
        "Memory cgroup out of memory: Killed process 26540 (dd) total-vm:310176kB, anon-rss:65280kB, file-rss:1608kB, shmem-rss:4kB, UID:0 \
         pgtables:180kB oom_score_adj:-5",
    ];

    fn lines(texts: &[&str]) -> Vec<KernelLine> {
        texts.iter().zip(1..).map(|(text, at_unix_us)| KernelLine { at_unix_us, text: (*text).to_owned() }).collect()
    }

    #[test]
    fn the_last_kill_of_a_log() {
        let other = "Out of memory: Killed process 7 (mysqld) total-vm:9kB, anon-rss:5kB, file-rss:0kB, shmem-rss:0kB";
        let kill = last_kill(&lines(&[&[other], &LOG[..]].concat())).expect("a kill");
        let expected = Kill {
            at_unix_us: 5,
            pid: 26540,
            command: "dd".into(),
            ran_out: Some("cgroup".into()),
            cgroup: Some("/db/pg".into()),
            invoked_by: Some("dd".into()),
            killed_whole: None,
            anon_rss_bytes: Some(65280 << 10),
            file_rss_bytes: Some(1608 << 10),
            shmem_rss_bytes: Some(4 << 10),
            page_tables_bytes: Some(180 << 10),
            oom_score_adj: Some(-5),
        };
        assert_eq!(kill, expected);
        let older = last_kill(&lines(&[&LOG[..], &[other]].concat())).expect("a kill");
        assert_eq!((older.pid, older.command.as_str(), older.anon_rss_bytes), (7, "mysqld", Some(5 << 10)));
        assert_eq!((older.cgroup, older.page_tables_bytes), (None, None), "nothing of the one before");
        assert_eq!(last_kill(&lines(&LOG[..3])), None);
    }

    /// `memory.oom.group`: the process that the kernel chose comes first, then a line for each process of the cgroup.
    #[test]
    fn of_a_cgroup_that_was_killed_whole_the_process_that_was_chosen() {
        let whole = "Tasks in /db/pg/1 are going to be killed due to memory.oom.group set";
        let member = |pid: u32| {
            format!(
                "Memory cgroup out of memory: Killed process {pid} (postgres) total-vm:9kB, anon-rss:5kB, file-rss:0kB, shmem-rss:0kB"
            )
        };
        let members: Vec<String> = (1..90).map(member).collect();
        let mut log = lines(&LOG);
        log.extend(lines(&[whole]));
        let before_members = log.len();
        log.extend(lines(&members.iter().map(String::as_str).collect::<Vec<_>>()));
        let kill = last_kill(&log).expect("a kill");
        assert_eq!(
            (kill.pid, kill.killed_whole.as_deref(), kill.cgroup.as_deref()),
            (26540, Some("/db/pg/1"), Some("/db/pg"))
        );
        assert!(is_of_a_member(&log[..before_members], &log[before_members]));
        assert!(is_of_a_member(&log[..before_members + 5], &log[before_members + 5]));
        assert!(!is_of_a_member(&log[..before_members - 2], &log[before_members - 2]), "the one that was chosen");
        // the next kill is of one process again
        log.extend(lines(&LOG));
        let next = last_kill(&log).expect("a kill");
        assert_eq!((next.pid, next.killed_whole), (26540, None));
        assert!(!is_of_a_member(&log[..log.len() - 1], &log[log.len() - 1]));
    }

    #[test]
    fn older_kernels_and_names_with_brackets() {
        let of = |text: &str| last_kill(&lines(&[text])).map(|it| (it.pid, it.command));
        assert_eq!(of("Killed process 12, UID 27, (mysqld) total-vm:1kB, anon-rss:1kB"), Some((12, "mysqld".into())));
        assert_eq!(of("Killed process 3 (a) total-vm:b) total-vm:1kB"), Some((3, "a) total-vm:b".into())));
        assert_eq!(
            (of("Killed process x (a) total-vm:1kB"), of("Killed process 99999999999 (a) total-vm:1kB")),
            (None, None)
        );
    }

    proptest! {
        #[test]
        fn any_log_is_taken(texts in prop::collection::vec("(?s).{0,120}", 0..5)) {
            last_kill(&lines(&texts.iter().map(String::as_str).collect::<Vec<_>>()));
        }

        #[test]
        fn damaged_lines_are_taken_and_their_figures_are_sane(line in 0..LOG.len(), cut in 0..200_usize, with in "[ -~]{0,20}") {
            let mut damaged = LOG.map(str::to_owned);
            let cut = cut.min(damaged[line].len());
            damaged[line].insert_str(cut, &with);
            let kill = last_kill(&lines(&damaged.each_ref().map(String::as_str)));
            let figures = kill.into_iter().flat_map(|it| [it.anon_rss_bytes, it.file_rss_bytes, it.shmem_rss_bytes, it.page_tables_bytes]);
            prop_assert!(figures.flatten().all(|bytes| bytes <= 1 << 47));
        }
    }
}
