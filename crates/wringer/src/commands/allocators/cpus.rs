// SPDX-License-Identifier: Apache-2.0
//! Which CPUs the server gets, and which the load: whole cores of one node first, the load on the rest.

use crate::exit::{Exit, Failure};
use ::allocators::Cpus;
use std::fs;

/// How many CPUs this process may run on.
pub(super) fn of_host() -> u32 {
    u32::try_from(std::thread::available_parallelism().map_or(1, usize::from)).unwrap_or(1)
}

/// # Errors
/// Exit code 3: this machine has fewer CPUs than that and one more for the load.
pub(super) fn split(counts: &[u32]) -> Result<Vec<Cpus>, Failure> {
    let all = in_order(of_host());
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

/// By package and core, so that the threads of a core stand together.
fn in_order(count: u32) -> Vec<u32> {
    let of = |cpu: u32, file: &str| -> u32 {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/{file}");
        fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(cpu)
    };
    let mut all: Vec<u32> = (0..count).collect();
    all.sort_by_key(|cpu| (of(*cpu, "physical_package_id"), of(*cpu, "core_id"), *cpu));
    all
}
