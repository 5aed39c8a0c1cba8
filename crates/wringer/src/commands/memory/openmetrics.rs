// SPDX-License-Identifier: Apache-2.0
//! An account as OpenMetrics text, for Prometheus and similar programs: `node_exporter`'s textfile collector reads it unchanged.

use crate::commands::openmetrics::Exposition;
use ledger::{Account, Inventory};

/// Each line names `server`: the files of several servers may be collected together. The text ends with `# EOF`, without a line end after it.
pub(super) fn text(server: &str, account: &Account, inventory: &Inventory) -> String {
    let mut text = Exposition::new(server);
    totals(&mut text, account, inventory);
    leaves(&mut text, account);
    processes(&mut text, account);
    text.family("wringer_memory_beside_bytes", "What the server causes outside of the total");
    for beside in &account.beside {
        text.sample(&[("name", &beside.name)], beside.bytes as f64);
    }
    probes(&mut text, account);
    text.end()
}

fn totals(text: &mut Exposition<'_>, account: &Account, inventory: &Inventory) {
    let available = inventory.host.meminfo.get("MemAvailable").map(|bytes| *bytes as f64);
    let one: [(&str, &str, Option<f64>); 6] = [
        (
            "wringer_memory_total_bytes",
            "Pss of all of the server's processes, their page tables, and huge pages once",
            Some(account.kernel_total_bytes as f64),
        ),
        ("wringer_memory_unexplained_bytes", "Total less all leaves", Some(account.unexplained_bytes as f64)),
        ("wringer_memory_uncertainty_bytes", "How far the total may be off", Some(account.uncertainty_bytes as f64)),
        ("wringer_memory_explained_ratio", "What the leaves are of the total", account.explained_share),
        ("wringer_memory_host_available_bytes", "MemAvailable of /proc/meminfo", available),
        (
            "wringer_memory_read_timestamp_seconds",
            "When it was read, since 1970",
            Some(account.at_unix_us as f64 / 1e6),
        ),
    ];
    for (name, help, value) in one.into_iter().filter_map(|(name, help, value)| Some((name, help, value?))) {
        text.family(name, help);
        text.sample(&[], value);
    }
}

fn leaves(text: &mut Exposition<'_>, account: &Account) {
    text.family(
        "wringer_memory_leaf_resident_bytes",
        "What is resident of each leaf; with the unexplained they sum to the total",
    );
    for leaf in &account.leaves {
        text.sample(&[("path", &leaf.path)], leaf.resident_bytes as f64);
    }
    text.family("wringer_memory_leaf_allocated_bytes", "What the server says that it has allocated, where it says so");
    for (leaf, bytes) in account.leaves.iter().filter_map(|leaf| Some((leaf, leaf.allocated_bytes?))) {
        text.sample(&[("path", &leaf.path)], bytes as f64);
    }
    // the basis changes with what could be read: as a label of the bytes it would make a second series of the same leaf
    text.family("wringer_memory_leaf_info", "What tells the purpose of each leaf; always 1");
    for leaf in &account.leaves {
        text.sample(&[("path", &leaf.path), ("basis", leaf.basis.name())], 1.0);
    }
}

/// A metric, its help, and its value.
type Figure<T> = (&'static str, &'static str, fn(&T) -> u64);

fn processes(text: &mut Exposition<'_>, account: &Account) {
    let figures: [Figure<ledger::ProcessAccount>; 2] = [
        ("wringer_memory_process_pss_bytes", "The process's share of the memory", |it| it.pss_bytes),
        ("wringer_memory_process_page_tables_bytes", "Its page tables", |it| it.page_tables_bytes),
    ];
    for (name, help, figure) in figures {
        text.family(name, help);
        for process in &account.processes {
            text.sample(&[("pid", &process.pid.to_string()), ("role", &process.role)], figure(process) as f64);
        }
    }
}

fn probes(text: &mut Exposition<'_>, account: &Account) {
    let figures: [Figure<ledger::Probe>; 2] = [
        ("wringer_memory_probe_held_seconds", "For how long reading held the server's address space", |it| it.held_us),
        ("wringer_memory_probe_held_max_seconds", "The longest time at a stretch", |it| it.held_us_max),
    ];
    for (name, help, figure) in figures {
        text.family(name, help);
        for probe in account.probes.iter().filter(|probe| probe.is_hold()) {
            text.sample(&[("tier", &probe.tier)], figure(probe) as f64 / 1e6);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ledger::{Basis, Leaf, ProcessAccount};

    #[test]
    fn the_text_is_openmetrics() {
        let leaf = |path: &str, allocated_bytes| Leaf {
            path: path.into(),
            resident_bytes: 1 << 40,
            allocated_bytes,
            basis: Basis::Server,
            source: String::new(),
            at_us: 0,
        };
        let process = ProcessAccount { pid: 7, role: "a\"\\\n\u{1b}b".into(), ..ProcessAccount::default() };
        let account = Account {
            unexplained_bytes: -5,
            leaves: vec![leaf("a/b", None), leaf("c", Some(9))],
            processes: vec![process],
            ..Account::default()
        };
        let text = text("shop", &account, &Inventory::default());
        for line in [
            "# TYPE wringer_memory_leaf_resident_bytes gauge",
            "# UNIT wringer_memory_leaf_resident_bytes bytes",
            "wringer_memory_leaf_resident_bytes{server=\"shop\",path=\"a/b\"} 1099511627776",
            "wringer_memory_leaf_allocated_bytes{server=\"shop\",path=\"c\"} 9",
            "wringer_memory_leaf_info{server=\"shop\",path=\"c\",basis=\"server\"} 1",
            "wringer_memory_unexplained_bytes{server=\"shop\"} -5",
            "wringer_memory_process_pss_bytes{server=\"shop\",pid=\"7\",role=\"a\\\"\\\\\\n\u{fffd}b\"} 0",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
        assert!(!text.contains("explained_ratio") && !text.contains("available"), "what is not known is left out");
        assert!(text.ends_with("\n# EOF") && !text.contains("allocated_bytes{server=\"shop\",path=\"a/b\""));
    }

    /// node_exporter reads all files of a folder, and drops data of a series that is there twice.
    #[test]
    fn no_series_of_two_servers_is_the_same() {
        let of = |basis| {
            let leaf = Leaf {
                path: "data_cache/buffer_pool".into(),
                resident_bytes: 2,
                allocated_bytes: Some(3),
                basis,
                source: String::new(),
                at_us: 0,
            };
            let processes = vec![ProcessAccount { pid: 7, role: "mariadbd".into(), ..ProcessAccount::default() }];
            Account { explained_share: Some(0.5), leaves: vec![leaf], processes, ..Account::default() }
        };
        let series = |text: &str| -> Vec<String> {
            let values = text.lines().filter(|line| !line.starts_with('#'));
            values.map(|line| line.rsplit_once(' ').expect("a value").0.to_owned()).collect()
        };
        let text = |server: &str, basis| text(server, &of(basis), &Inventory::default());
        let mut all: Vec<String> =
            ["shop", "/run/other.sock"].iter().flat_map(|it| series(&text(it, Basis::Kernel))).collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
        // another basis is no other series of the leaf
        let same = |text: String| series(&text).into_iter().filter(|it| !it.contains("leaf_info")).collect::<Vec<_>>();
        assert_eq!(same(text("shop", Basis::Server)), same(text("shop", Basis::Kernel)));
    }
}
