// SPDX-License-Identifier: Apache-2.0
//! CPU time and page faults of the server's processes, and the time in which their threads waited for a CPU, as counters that are read at the begin and the end
//! of the measured part: proc_pid_stat(5), and `schedstat` of each thread.

use host::process::{Identity, descendants};
use std::collections::BTreeMap;
use std::fs;

/// The time in which threads could run, and no CPU was free for them.
pub(crate) const WAITED: &str = "waited for a CPU us";

/// The place of each counter after the program's name, from 0; and the place of the same counter for ended children that the server's first process has
/// waited for.
const FIELDS: [(&str, usize, usize); 4] =
    [("minor faults", 7, 8), ("major faults", 9, 10), ("user us", 11, 13), ("system us", 12, 14)];

/// The sum over this process and its descendants.
pub(crate) fn read(pid: u32) -> BTreeMap<String, u64> {
    let first: Vec<Identity> = Identity::of(pid).into_iter().collect();
    let stat = |pid: u32| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let pids: Vec<u32> = descendants(&first).into_iter().map(|it| it.pid).filter(|it| *it != pid).collect();
    let others: Vec<String> = pids.iter().copied().map(stat).collect();
    let mut counts = counted(&stat(pid), &others, 1_000_000 / rustix::param::clock_ticks_per_second().max(1));
    let waited: Vec<u64> = [pid].iter().chain(&pids).filter_map(|pid| waited_us(*pid)).collect();
    counts.extend((!waited.is_empty()).then(|| (WAITED.to_owned(), waited.iter().sum())));
    counts
}

/// How long the threads of a process that are alive have waited for a CPU. `None`: this kernel does not count it.
pub(crate) fn waited_us(pid: u32) -> Option<u64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let waited_ns = |thread: fs::DirEntry| -> Option<u64> {
        fs::read_to_string(thread.path().join("schedstat")).ok()?.split(' ').nth(1)?.parse().ok()
    };
    let waited: Vec<u64> = threads.filter_map(waited_ns).collect();
    (!waited.is_empty()).then(|| waited.iter().sum::<u64>() / 1000)
}

fn counted(first: &str, others: &[String], tick_us: u64) -> BTreeMap<String, u64> {
    let of = |(name, own, ended): (&'static str, usize, usize)| {
        let sum = field(first, own)? + field(first, ended)?;
        let sum = others.iter().filter_map(|stat| field(stat, own)).sum::<u64>() + sum;
        Some((name.to_owned(), if name.ends_with(" us") { sum * tick_us } else { sum }))
    };
    FIELDS.into_iter().filter_map(of).collect()
}

/// The field at this place after the name, which stands in brackets and may contain any bytes.
fn field(stat: &str, place: usize) -> Option<u64> {
    stat.rsplit_once(") ")?.1.split(' ').nth(place)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn all_processes_are_added_up() {
        let stat = |user: u32| format!("1 (a b) c) S 1 1 1 0 -1 0 5 6 7 8 {user} 20 100 200 20 0 1 0 9\n");
        let of = |counted: &BTreeMap<String, u64>| [counted["user us"], counted["minor faults"], counted["system us"]];
        let alone = counted(&stat(10), &[], 10_000);
        assert_eq!(of(&alone), [1_100_000, 11, 2_200_000]);
        let both = counted(&stat(10), &[stat(3), String::new()], 10_000);
        assert_eq!(of(&both), [1_130_000, 16, 2_400_000]);
        assert!(counted("", &[], 10_000).is_empty());
        let own = read(std::process::id());
        let is_counted = Path::new("/proc/self/schedstat").exists();
        assert_eq!((own.len(), own.contains_key(WAITED)), (4 + usize::from(is_counted), is_counted), "{own:?}");
    }
}
