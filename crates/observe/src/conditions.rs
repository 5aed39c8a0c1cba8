// SPDX-License-Identifier: Apache-2.0
//! The properties of the host, and the facts that could weaken a result on it.

use evidence::Host;
use rustix::time::ClockId;
use std::fs;
use std::path::{Path, PathBuf};

/// The host as a result's condition. `storage`: a path on the file system that holds the server's data.
pub fn host(storage: &Path) -> Host {
    let meminfo = read("/proc/meminfo");
    Host {
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        distribution: value_of(&read("/etc/os-release"), "PRETTY_NAME=")
            .unwrap_or_default()
            .trim_matches('"')
            .to_owned(),
        cpu_model: value_of(&read("/proc/cpuinfo"), "model name")
            .unwrap_or_default()
            .trim_start_matches([' ', '\t', ':'])
            .to_owned(),
        cpus: std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)),
        mem_total_bytes: host::meminfo::bytes(&meminfo, "MemTotal").unwrap_or(0),
        swap_total_bytes: host::meminfo::bytes(&meminfo, "SwapTotal").unwrap_or(0),
        page_size_bytes: u64::try_from(rustix::param::page_size()).unwrap_or(0),
        huge_page_size_bytes: host::meminfo::bytes(&meminfo, "Hugepagesize").unwrap_or(0),
        hz: kernel_hz(),
        virtualisation: virtualisation(),
        cgroup: cgroup(&read("/proc/mounts")).to_owned(),
        storage: storage_of(storage, &read("/proc/self/mountinfo")).unwrap_or_default(),
        clock_source: read("/sys/devices/system/clocksource/clocksource0/current_clocksource").trim().to_owned(),
    }
}

/// The facts that weaken a measurement on this host, in sentences.
pub fn caveats(host: &Host) -> Vec<String> {
    let mut caveats = Vec::new();
    let mut say = |when: bool, text: String| {
        if when {
            caveats.push(text)
        }
    };
    say(host.swap_total_bytes > 0, "swap is on: memory that is short may be paged out instead of missed".into());
    say(
        !["tsc", "kvm-clock", "arch_sys_counter", ""].contains(&host.clock_source.as_str()),
        format!("the clock source is {}: each look at the clock is a slow system call", host.clock_source),
    );
    say(
        !["none", ""].contains(&host.virtualisation.as_str()),
        format!("this is a virtual machine or container ({}): neighbours may disturb", host.virtualisation),
    );
    say(
        host.cpus <= 2,
        format!("{} CPUs are shared by the server and whatever else runs here, the observer too", host.cpus),
    );
    let overcommit = read("/proc/sys/vm/overcommit_memory");
    say(overcommit.trim() == "2", "vm.overcommit_memory is 2: hiding RAM also lowers the commit limit".into());
    caveats
}

/// The frequency of the kernel's timer in ticks a second: the coarse clock advances once a tick (clock_getres(2)).
fn kernel_hz() -> u32 {
    let step = rustix::time::clock_getres(ClockId::MonotonicCoarse);
    let ns = u64::try_from(step.tv_nsec).unwrap_or(0);
    (1_000_000_000 + ns / 2).checked_div(ns).map_or(0, |hz| u32::try_from(hz).unwrap_or(0))
}

/// The kind of container if there are marks of one, otherwise the hypervisor; `none`: on bare metal, as far as it can be determined.
fn virtualisation() -> String {
    let container = if Path::new("/.dockerenv").exists() {
        Some("docker")
    } else if Path::new("/run/.containerenv").exists() {
        Some("podman")
    } else {
        None
    };
    let has_hypervisor = value_of(&read("/proc/cpuinfo"), "flags").is_some_and(|flags| flags.contains(" hypervisor"));
    let vendor = read("/sys/class/dmi/id/sys_vendor").trim().to_owned();
    let machine = match (has_hypervisor, vendor.as_str()) {
        (false, _) => None,
        (true, "") if read("/sys/devices/system/clocksource/clocksource0/available_clocksource").contains("kvm") => {
            Some("kvm".to_owned())
        }
        (true, "") => Some("a hypervisor".to_owned()),
        (true, vendor) => Some(vendor.to_owned()),
    };
    match (container, machine) {
        (Some(container), Some(machine)) => format!("{container} on {machine}"),
        (Some(container), None) => container.to_owned(),
        (None, Some(machine)) => machine,
        (None, None) => "none".to_owned(),
    }
}

fn cgroup(mounts: &str) -> &'static str {
    let has = |fstype: &str| mounts.lines().any(|line| line.split(' ').nth(2) == Some(fstype));
    match (has("cgroup"), has("cgroup2")) {
        (true, true) => "hybrid",
        (true, false) => "v1",
        (false, true) => "v2",
        (false, false) => "none",
    }
}

/// `ext4 on /dev/vda (ssd)`: the mount with the longest target that contains the path (proc_pid_mountinfo(5)).
fn storage_of(path: &Path, mountinfo: &str) -> Option<String> {
    let path = fs::canonicalize(path).ok()?;
    let entry = |line: &str| {
        let (head, tail) = line.split_once(" - ")?;
        let fields: Vec<&str> = head.split(' ').collect();
        let mut tail = tail.split(' ');
        Some((
            PathBuf::from(fields.get(4)?),
            (*fields.get(2)?).to_owned(),
            tail.next()?.to_owned(),
            tail.next()?.to_owned(),
        ))
    };
    let found = mountinfo.lines().filter_map(entry).filter(|(target, ..)| path.starts_with(target));
    let (_, device, fstype, source) = found.max_by_key(|(target, ..)| target.components().count())?;
    let rotational = read_block(&device, "rotational");
    let medium = match rotational.trim() {
        "1" => " (rotational)",
        "0" => " (not rotational)",
        _ => "",
    };
    Some(format!("{fstype} on {source}{medium}"))
}

/// A queue setting of the block device, or, for a partition, of its disk.
fn read_block(device: &str, setting: &str) -> String {
    let base = format!("/sys/dev/block/{device}");
    [format!("{base}/queue/{setting}"), format!("{base}/../queue/{setting}")]
        .iter()
        .find_map(|path| fs::read_to_string(path).ok())
        .unwrap_or_default()
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn value_of<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(prefix))
}
