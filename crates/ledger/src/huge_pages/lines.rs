// SPDX-License-Identifier: Apache-2.0
//! The lines that give a server its huge pages: for sysctl, boot, systemd, containers, and the server itself.

use super::need;
use super::parts;
use super::readings::{HugeSeen, Pool};
use capability::{Capability, Flavour, Version, has, words};
use serde::Serialize;

/// What to write, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lines {
    /// `now`, `sysctl`, `nodes`, `boot`, `systemd`, `server`, `docker`, `kubernetes`.
    pub about: &'static str,
    /// A file or a command.
    pub place: String,
    pub lines: Vec<String>,
    pub note: Option<String>,
}

impl Lines {
    fn new(about: &'static str, place: impl Into<String>, lines: Vec<String>) -> Self {
        Self { about, place: place.into(), lines, note: None }
    }

    fn with_note(self, note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..self }
    }
}

/// `pages`: what the server needs, of which it has `own`. `others`: pages of the pool that others than this server use.
pub(super) fn lines(seen: &HugeSeen, pages: u64, own: u64, others: u64) -> Vec<Lines> {
    let page_bytes = need::page_bytes(seen);
    let is_default = page_bytes == parts::default_page(seen);
    let total = pages.saturating_add(others);
    let mut all = Vec::new();
    if is_default {
        let more = pages.saturating_sub(own);
        let apply = || format!("sudo wringer hugepages apply --pages {more}");
        all.extend((more > 0).then(|| Lines::new("now", "a command, until it is released", vec![apply()])));
        all.push(sysctl(seen, total, others));
    }
    all.extend(nodes(seen, total, page_bytes));
    all.push(boot(total, page_bytes, is_default));
    all.extend(systemd(seen));
    all.extend(server(seen));
    all.push(docker(seen));
    all.push(kubernetes(pages, page_bytes));
    all
}

fn sysctl(seen: &HugeSeen, total: u64, others: u64) -> Lines {
    let mut text = vec![format!("vm.nr_hugepages = {total}")];
    let group = seen.group.filter(|_| is_of_segments(seen));
    text.extend(group.map(|group| format!("vm.hugetlb_shm_group = {group}")));
    let lines = Lines::new("sysctl", "/etc/sysctl.d/60-hugepages.conf, then `sysctl --system`", text);
    match others {
        0 => lines,
        others => lines.with_note(format!("{others} of them are in use by others")),
    }
}

/// Whether the server takes System V segments: the kernel gives huge pages for these to one group only.
fn is_of_segments(seen: &HugeSeen) -> bool {
    let of = |(flavour, version): (Flavour, Version)| has(Capability::LargePageSegments, flavour, &version);
    seen.inventory.flavour.zip(parts::version(seen)).is_some_and(of)
}

/// The kernel takes pages from the nodes in turn, as far as each has them; a server that may run on one node only needs all of them there.
fn nodes(seen: &HugeSeen, total: u64, page_bytes: u64) -> Option<Lines> {
    let nodes = &pool(seen, page_bytes)?.nodes;
    let share = total.div_ceil(nodes.len().max(1) as u64);
    let line = |node: u32| {
        let folder = format!("/sys/devices/system/node/node{node}/hugepages/hugepages-{}kB", page_bytes >> 10);
        format!("echo {share} > {folder}/nr_hugepages")
    };
    let lines: Vec<String> = nodes.iter().map(|node| line(node.node)).collect();
    (lines.len() > 1).then(|| Lines::new("nodes", "as root, to say how many each NUMA node gives", lines))
}

pub(super) fn pool(seen: &HugeSeen, page_bytes: u64) -> Option<&Pool> {
    seen.pools.iter().find(|pool| pool.page_bytes == page_bytes)
}

fn boot(total: u64, page_bytes: u64, is_default: bool) -> Lines {
    let size = short(page_bytes);
    let line = format!("hugepagesz={size} hugepages={total}");
    let lines = Lines::new("boot", "the kernel's command line (GRUB_CMDLINE_LINUX)", vec![line]);
    let note = if is_default {
        "memory is in one piece then; later the kernel may grant fewer"
    } else {
        "pages of this size can mostly be had at boot alone"
    };
    lines.with_note(note)
}

fn systemd(seen: &HugeSeen) -> Option<Lines> {
    let flavour = seen.inventory.flavour.filter(|it| *it != Flavour::Postgresql)?;
    let unit = if flavour == Flavour::Mariadb { "mariadb" } else { "mysql" };
    let lines = Lines::new(
        "systemd",
        format!("systemctl edit {unit}"),
        vec!["[Service]".into(), "LimitMEMLOCK=infinity".into()],
    );
    Some(lines.with_note(if is_of_segments(seen) {
        "this version takes huge pages as System V segments, which count as locked memory"
    } else {
        "this version maps huge pages, which needs no right; earlier ones need it"
    }))
}

fn server(seen: &HugeSeen) -> Option<Lines> {
    let (flavour, version) = seen.inventory.flavour.zip(parts::version(seen))?;
    let on = words(Capability::HugePages, flavour, &version).iter().find_map(|word| word.strip_prefix("on="))?;
    let (place, note) = match flavour {
        Flavour::Postgresql => (
            "postgresql.conf, then a restart",
            "with `try`, a server that finds too few pages starts without them, and says so nowhere before version 17",
        ),
        _ => (
            "the option file, [mysqld], then a restart",
            "a server that finds too few pages starts without them: `wringer hugepages check` tells",
        ),
    };
    Some(Lines::new("server", place, vec![on.to_owned()]).with_note(note))
}

fn docker(seen: &HugeSeen) -> Lines {
    let (lines, note) = if is_of_segments(seen) {
        (vec!["docker run --cap-add IPC_LOCK --ulimit memlock=-1 ...".into()], "the pool is the host's: set it there")
    } else {
        (Vec::new(), "nothing: the pool is the host's, set it there")
    };
    Lines::new("docker", "docker run, podman run", lines).with_note(note)
}

/// A container without such a limit has a limit of 0 there: the server starts, and dies by SIGBUS.
fn kubernetes(pages: u64, page_bytes: u64) -> Lines {
    // hugepages-2Mi, hugepages-512Mi: the node has one resource for each size of pages
    let (name, bytes) = (format!("{}i", short(page_bytes)), pages.saturating_mul(page_bytes));
    let amount = if page_bytes < 1 << 20 { format!("{}Ki", bytes >> 10) } else { format!("{}Mi", bytes >> 20) };
    let lines = vec![
        "resources:".into(),
        "  requests: { memory: ..., cpu: ... }".into(),
        format!("  limits: {{ memory: ..., hugepages-{name}: {amount} }}"),
    ];
    Lines::new("kubernetes", "the container's part of the Pod", lines)
        .with_note("a Pod without it may have none: a server that maps some all the same dies by SIGBUS; the node's pool must be there before kubelet starts")
}

/// `2M`, `1G`, as the kernel's command line has it.
fn short(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 30 => format!("{}G", bytes >> 30),
        bytes if bytes >= 1 << 20 => format!("{}M", bytes >> 20),
        bytes => format!("{}K", bytes >> 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_of_pages_is_a_resource_of_its_own() {
        let limit = |pages, page_bytes| kubernetes(pages, page_bytes).lines[2].clone();
        assert!(limit(4, 512 << 20).contains("hugepages-512Mi: 2048Mi"), "{}", limit(4, 512 << 20));
        assert!(limit(2, 1 << 30).contains("hugepages-1Gi: 2048Mi"));
        assert!(limit(32, 64 << 10).contains("hugepages-64Ki: 2048Ki"));
    }
}
