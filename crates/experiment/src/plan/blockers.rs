// SPDX-License-Identifier: Apache-2.0
//! The reasons why an experiment cannot run on this host, each with the line of the file.

use super::{HostFacts, disk_mechanism, estimate, no_right_to_ram, no_right_to_server_ram};
use crate::model::{Arm, Experiment, Flavour};
use crate::problem::Problem;
use crate::server_start::HugePages;
use crate::squeezed::Squeezed;
use evidence::{DiskMechanism, RamAmount};
use units::Bytes;

/// Below this the kernel starts to kill processes.
const RAM_FLOOR_BYTES: u64 = Bytes::GIB;

pub(super) fn blockers(experiment: &Experiment, host: &HostFacts) -> Vec<Problem> {
    let mut found: Vec<Problem> = Vec::new();
    for (index, arm) in experiment.arms.iter().enumerate() {
        let add = |key: &str, message: String, suggestion: Option<String>| -> Problem {
            let (line, column) = experiment.place(index, key);
            Problem { line, column, message, suggestion }
        };
        if let Some((message, hint)) = ram(experiment, arm, host) {
            found.push(add("squeeze.ram", message, hint));
        }
        if let Some((message, hint)) = server_ram(arm, host) {
            found.push(add("squeeze.server_ram", message, hint));
        }
        if let Some((key, message, hint)) = cpus(experiment, arm, host) {
            found.push(add(key, message, Some(hint)));
        }
        if let Some((message, hint)) = huge_pages(experiment, arm, host) {
            found.push(add("server.huge_pages", message, Some(hint)));
        }
        for (key, message) in required(experiment, arm, host) {
            let hint =
                "run as who has the right, or take `required` (or --require) away: then it is left out, and said";
            found.push(add(&key, message, Some(hint.into())));
        }
        if experiment.pool(arm).0 >= host.mem_available_bytes {
            let message = format!("a pool of {} does not fit: {} is available", experiment.pool(arm), available(host));
            let key = format!("server.options.{}", experiment.server.flavour.pool_variable());
            found.push(add(&key, message, Some("write a smaller one".into())));
        }
    }
    found.extend(percona(experiment, host));
    found.extend(disk_layer(experiment, host));
    found.extend(disk(experiment, host));
    found.sort();
    found.dedup();
    found
}

/// No package client that Wringer uses offers Percona Server.
fn percona(experiment: &Experiment, host: &HostFacts) -> Option<Problem> {
    let (line, column) = experiment.places.get("server.flavour").copied().unwrap_or((1, 1));
    (experiment.server.flavour == Flavour::Percona && host.server_binary.is_none()).then(|| Problem {
        line,
        column,
        message: "no such Percona Server is on this machine or in the cache, and it cannot be fetched".into(),
        suggestion: Some("`wringer sandbox unpack TARBALL` takes it from Percona's own tarball".into()),
    })
}

/// Squeezes that must not be left out, and for which this host or this user lacks the rights.
fn required(experiment: &Experiment, arm: &Arm, host: &HostFacts) -> Vec<(String, String)> {
    let lacking = [(Squeezed::Ram, no_right_to_ram(host)), (Squeezed::ServerRam, no_right_to_server_ram(host))];
    let refused = lacking.into_iter().filter_map(|(squeeze, why)| Some((squeeze, why?)));
    refused
        .filter(|(squeeze, _)| experiment.demands(arm, *squeeze))
        .map(|(squeeze, why)| {
            let key = format!("squeeze.{squeeze}");
            let message = format!("{key} is required, and would be left out: {why}");
            (key, message)
        })
        .collect()
}

/// Hiding more RAM than there is, or RAM that the server needs, kills the server. `leave 24 GiB` of 20 available hides nothing, and is no obstacle.
fn ram(experiment: &Experiment, arm: &Arm, host: &HostFacts) -> Option<(String, Option<String>)> {
    if !host.as_root {
        return None; // the squeeze is left out, and the plan says so
    }
    let left = match arm.squeeze.ram?.amount {
        RamAmount::Leave(leave) => leave.0.min(host.mem_available_bytes),
        RamAmount::Hide(hide) if hide.0 >= host.mem_available_bytes => {
            let message = format!("squeeze.ram cannot hide {hide}: only {} is available", available(host));
            return Some((message, Some("hide less".into())));
        }
        RamAmount::Hide(hide) => host.mem_available_bytes - hide.0,
    };
    let needed = estimate::ram(experiment).0.max(RAM_FLOOR_BYTES);
    (left < needed).then(|| {
        let message = format!(
            "squeeze.ram leaves {}, and the server, its load and the host need about {}",
            Bytes(left),
            Bytes(needed)
        );
        (message, Some("leave more, or make the server's pool smaller".into()))
    })
}

/// An arm that runs without the asked huge pages would be another arm.
fn huge_pages(experiment: &Experiment, arm: &Arm, host: &HostFacts) -> Option<(String, String)> {
    let pool = experiment.pool(arm);
    let is_asked = arm.start.huge_pages == Some(HugePages::On);
    (is_asked && !host.huge_pool && host.huge_unclaimed_bytes < pool.0).then(|| {
        let free = Bytes(host.huge_unclaimed_bytes);
        (
            format!("server.huge_pages needs {pool} and more in huge pages: {free} are free, and only root makes the pool larger"),
            "run as root, or have vm.nr_hugepages raised beforehand".to_owned(),
        )
    })
}

fn server_ram(arm: &Arm, host: &HostFacts) -> Option<(String, Option<String>)> {
    let limit = arm.squeeze.server_ram?;
    (limit.0 > host.mem_total_bytes).then(|| {
        let message =
            format!("squeeze.server_ram = {limit} limits nothing: the host has {}", Bytes(host.mem_total_bytes));
        (message, Some("write less, or leave the key out".into()))
    })
}

/// Limits that would be left out here. Without them the arms would not differ in the property that the experiment compares.
fn cpus(experiment: &Experiment, arm: &Arm, host: &HostFacts) -> Option<(&'static str, String, String)> {
    const ROOT: &str = "run as root, or leave the key out; `wringer doctor` says what this host has";
    if arm.squeeze.swap.is_some() && host.memory_cgroup == "none" {
        return Some((
            "squeeze.swap",
            "squeeze.swap needs a memory cgroup, and this user can make none".into(),
            ROOT.into(),
        ));
    }
    let cpus = arm.squeeze.cpus?;
    if experiment.cpu_group() && host.cpu_cgroup == "none" {
        let hint = format!("{ROOT}; squeeze.cpuset needs no right to a cgroup");
        return Some(("squeeze.cpus", "squeeze.cpus needs a cpu cgroup, and this user can make none".into(), hint));
    }
    cpus.is_more_than(host.cpus as usize).then(|| {
        let hint = format!("{} is the most; less makes it slower", host.cpus);
        ("squeeze.cpus", format!("squeeze.cpus = {cpus} limits nothing: the host has {}", host.cpus), hint)
    })
}

fn disk(experiment: &Experiment, host: &HostFacts) -> Option<Problem> {
    let needed = estimate::disk(experiment, host);
    let free = Bytes(host.disk_free_bytes?);
    let (line, column) =
        ["fill.size", "fill.rows"].iter().find_map(|key| experiment.places.get(*key)).copied().unwrap_or((1, 1));
    (needed > free).then(|| Problem {
        line,
        column,
        message: format!("the data needs about {needed}, and {} has {free} free", host.data_folder),
        suggestion: Some("fill less, or set WRINGER_HOME to a larger file system".into()),
    })
}

/// Every arm has the slow layer when one has. The problem's place is the first arm that asks for it.
fn disk_layer(experiment: &Experiment, host: &HostFacts) -> Option<Problem> {
    let asks = |index: &usize| experiment.arms[*index].squeeze.disk.as_ref().is_some_and(|disk| !disk.is_none());
    let asking = (0..experiment.arms.len()).find(asks).unwrap_or_default();
    let (line, column) = experiment.place(asking, "squeeze.disk");
    let message = match disk_mechanism(experiment, host)? {
        DiskMechanism::Fuse if !host.fuse => {
            "a disk squeeze needs /dev/fuse and a private mount namespace, and this user cannot have both here"
        }
        DiskMechanism::Preload if !host.preload => {
            "a disk squeeze by a preloaded library needs a place that the dynamic linker can load it from"
        }
        _ => return None,
    };
    let other = if host.preload { "; mechanism = \"preload\" needs neither" } else { "" };
    let suggestion = Some(format!("wringer doctor says what is missing{other}"));
    Some(Problem { line, column, message: message.into(), suggestion })
}

fn available(host: &HostFacts) -> Bytes {
    Bytes(host.mem_available_bytes)
}
