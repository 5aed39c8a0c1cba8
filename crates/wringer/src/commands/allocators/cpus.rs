// SPDX-License-Identifier: Apache-2.0
//! Divides the CPUs between server and load: the server gets whole cores of one node first, and the load gets the rest.

use crate::exit::{Exit, Failure};
use ::allocators::Cpus;
use squeeze::limits::{CpuList, available_cpus};
use std::fs;
use std::path::{Path, PathBuf};

/// The number of CPUs on which this process may run.
pub(super) fn of_host() -> u32 {
    u32::try_from(available_cpus().numbers().len()).unwrap_or(1).max(1)
}

/// # Errors
/// Exit code 3: a count is 0, or this machine does not have that many CPUs and one more for the load.
pub(super) fn split(counts: &[u32]) -> Result<Vec<Cpus>, Failure> {
    let all = in_order(&available_cpus().numbers(), Path::new("/sys/devices/system"));
    let each = counts.iter().map(|count| {
        let most = u32::try_from(all.len()).unwrap_or(1).saturating_sub(1);
        if *count == 0 || *count > most {
            let message =
                format!("--cpus {count}: this machine has {} CPUs, and the load needs one of its own", all.len());
            return Err(Failure::message(Exit::Missing, message).hint(match most {
                0 => "leave --cpus out: server and load share the CPU".to_owned(),
                _ => format!("1 to {most}; without --cpus server and load share all"),
            }));
        }
        let (server, load) = all.split_at(*count as usize);
        Ok(Cpus { server: list(server), load: list(load) })
    });
    each.collect()
}

fn list(cpus: &[u32]) -> String {
    cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// The CPUs on which this process may run, by node, package and core: the threads of a core are next to each other, and so are the cores of a node,
/// which share its memory. If /sys has no nodes (a kernel without NUMA), all CPUs are of one node.
fn in_order(allowed: &[u32], system: &Path) -> Vec<u32> {
    let read = |path: PathBuf| fs::read_to_string(path).ok();
    let of = |cpu: u32, file: &str| -> u32 {
        let text = read(system.join(format!("cpu/cpu{cpu}/topology/{file}")));
        text.and_then(|text| text.trim().parse().ok()).unwrap_or(cpu)
    };
    let nodes = fs::read_dir(system.join("node")).into_iter().flatten().flatten();
    let cpus_of = |entry: fs::DirEntry| -> Option<(u32, Vec<u32>)> {
        let node = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
        Some((node, read(entry.path().join("cpulist"))?.parse::<CpuList>().ok()?.numbers()))
    };
    let nodes: Vec<(u32, Vec<u32>)> = nodes.filter_map(cpus_of).collect();
    let node_of = |cpu: u32| nodes.iter().find(|(_, cpus)| cpus.contains(&cpu)).map_or(0, |(node, _)| *node);
    let mut all = allowed.to_vec();
    all.sort_by_key(|cpu| (node_of(*cpu), of(*cpu, "physical_package_id"), of(*cpu, "core_id"), *cpu));
    all
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_threads_of_a_core_stand_together_and_the_cores_of_a_node() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: String, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        // two nodes, each with two cores of two threads, in the usual numbering: the first thread of each core, then the second threads
        for cpu in 0..8 {
            write(format!("cpu/cpu{cpu}/topology/core_id"), &format!("{}\n", cpu / 2 % 2));
            write(format!("cpu/cpu{cpu}/topology/physical_package_id"), "0\n");
        }
        write("node/node0/cpulist".into(), "0,2,4,6\n");
        write("node/node1/cpulist".into(), "1,3,5,7\n");
        assert_eq!(in_order(&[0, 1, 2, 3, 4, 5, 6, 7], folder.path()), [0, 4, 2, 6, 1, 5, 3, 7]);
        assert_eq!(in_order(&[1, 2, 6], folder.path()), [2, 6, 1], "of those that this process may use");
        assert_eq!(in_order(&[3, 1], Path::new("/nowhere")), [1, 3]);
        assert_eq!("0-2,8\n".parse::<CpuList>().unwrap().numbers(), [0, 1, 2, 8]);
        assert!("".parse::<CpuList>().is_err(), "a node without CPUs");
    }

    #[test]
    fn this_process_may_run_somewhere() {
        let own = available_cpus().numbers();
        assert_eq!(u32::try_from(own.len()).unwrap(), of_host());
    }
}
