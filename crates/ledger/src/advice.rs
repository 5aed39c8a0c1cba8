// SPDX-License-Identifier: Apache-2.0
//! Changes by which the OOM killer stays away, or kills the right process. Nothing here makes these changes.

use crate::danger::{Advice, Arena, Victim};
use crate::{Inventory, Missing};
use capability::Flavour;
use units::Bytes;

pub(crate) fn of(inventory: &Inventory, host: &Arena) -> Vec<Advice> {
    let adjustments = match inventory.flavour {
        Some(Flavour::Postgresql) => of_postgresql(inventory),
        _ => of_one_process(inventory, host),
    };
    let some =
        [swap(inventory), overcommit(inventory), huge(inventory), group(inventory), order(inventory), panic(inventory)];
    some.into_iter().flatten().chain(adjustments).collect()
}

fn advice(about: &str, setting: &str, now: Option<String>, wanted: &str, why: String) -> Advice {
    Advice { about: about.into(), setting: setting.into(), now, wanted: wanted.into(), why }
}

fn swap(inventory: &Inventory) -> Option<Advice> {
    let total = *inventory.host.meminfo.get("SwapTotal")?;
    let swappiness = setting(inventory, "vm/swappiness");
    if total == 0 {
        let why = "there is no swap: a short peak ends in a kill at once, where pages that nobody uses could have gone to swap".into();
        return Some(advice("swap", "swapon", Some("0".into()), "some swap, with vm.swappiness = 1", why));
    }
    let is_high = swappiness.as_deref().and_then(|it| it.parse::<u32>().ok()).is_some_and(|it| it > 10);
    let why = format!(
        "there is {} of swap, and the kernel moves a server's caches there before it gives up page cache",
        Bytes(total)
    );
    is_high.then(|| advice("swap", "vm.swappiness", swappiness, "1", why))
}

fn overcommit(inventory: &Inventory) -> Option<Advice> {
    let now = setting(inventory, "vm/overcommit_memory").filter(|it| it != "2")?;
    let why = "PostgreSQL's manual: with 2 the server is told that there is no memory, and one statement fails; else the kernel kills a \
        process, and all sessions end";
    let is_postgresql = inventory.flavour == Some(Flavour::Postgresql);
    is_postgresql.then(|| {
        advice("overcommit", "vm.overcommit_memory", Some(now), "2, with a fitting vm.overcommit_ratio", why.into())
    })
}

fn order(inventory: &Inventory) -> Option<Advice> {
    let now = setting(inventory, "vm/oom_kill_allocating_task").filter(|it| it != "0")?;
    let why = "the kernel kills the process that asks for memory when the host has none left, whichever it is: the order of the victims does not hold";
    Some(advice("order_of_victims", "vm.oom_kill_allocating_task", Some(now), "0", why.into()))
}

fn panic(inventory: &Inventory) -> Option<Advice> {
    let now = setting(inventory, "vm/panic_on_oom").filter(|it| it != "0")?;
    let also = if now == "2" { ", or a cgroup has used up its limit" } else { "" };
    let why = format!("nobody is killed: the kernel stops the whole host when memory runs out{also}");
    Some(advice("panic", "vm.panic_on_oom", Some(now), "0, unless another machine takes over", why))
}

fn huge(inventory: &Inventory) -> Option<Advice> {
    let settings = inventory.host.settings.iter();
    let (_, now) = settings.into_iter().find(|(name, _)| name.ends_with("transparent_hugepage/enabled"))?;
    let is_always = now.contains("[always]") || now.trim() == "always";
    let why = "with `always` the kernel makes huge pages of memory that a server touched in small parts: its resident size grows, by 20 to \
        29 % where an allocator asked for them"
        .to_owned();
    let setting = "/sys/kernel/mm/transparent_hugepage/enabled";
    is_always.then(|| advice("transparent_huge_pages", setting, Some(now.trim().to_owned()), "madvise", why))
}

fn group(inventory: &Inventory) -> Option<Advice> {
    let cgroup = inventory.cgroup.as_ref()?;
    // inventories of earlier versions have only the word of the group with the limit
    let of_limit = || cgroup.oom_group.filter(|is_on| *is_on).map(|_| &cgroup.path);
    let path = cgroup.oom_groups.last().or_else(of_limit)?;
    let mut why =
        "memory.oom.group is 1: when the kernel chooses one process of this group, it kills all of them".to_owned();
    let mut wanted = None;
    if inventory.flavour == Some(Flavour::Postgresql) {
        why.push_str("; the postmaster dies with its sessions, and only a supervisor can start the server again");
        wanted = Some("0 (OOMPolicy=continue of its unit), unless a supervisor starts the server again");
    }
    if cgroup.strangers > 0 {
        let are = if cgroup.strangers == 1 { "is" } else { "are" };
        why.push_str(&format!("; {} of them {are} not the server's", cgroup.strangers));
        wanted = Some("0, or a group for the server alone");
    }
    Some(advice("oom_group", &format!("{path}/memory.oom.group"), Some("1".into()), wanted?, why))
}

/// The first process should be spared, and its children should not inherit that.
fn of_postgresql(inventory: &Inventory) -> Vec<Advice> {
    let Some((postmaster, children)) = inventory.processes.split_first() else { return Vec::new() };
    let Some(own) = postmaster.oom_score_adj else { return Vec::new() };
    let mut found = Vec::new();
    if own >= 0 {
        let why = "the postmaster is not spared: when it is killed, no session can begin and the server has to be started by hand";
        let wanted =
            "-1000 (OOMScoreAdjust of its unit), with PG_OOM_ADJUST_FILE=/proc/self/oom_score_adj for its children";
        found.push(advice("oom_score_adj", "postmaster", Some(own.to_string()), wanted, why.into()));
    }
    let spared = children.iter().filter(|child| child.oom_score_adj.is_some_and(|adj| adj < 0)).count();
    if spared > 0 {
        let why = format!(
            "{spared} of {} other processes are spared, too, because they inherited it: the kernel then kills somebody else for what they use",
            children.len()
        );
        let wanted = "0 (PG_OOM_ADJUST_FILE=/proc/self/oom_score_adj and PG_OOM_ADJUST_VALUE=0)";
        found.push(advice("oom_score_adj", "the postmaster's children", None, wanted, why));
    }
    found
}

/// One process holds nearly all memory, so that it is the victim whichever process has grown.
fn of_one_process(inventory: &Inventory, host: &Arena) -> Vec<Advice> {
    let first: Option<&Victim> = host.victims.first().filter(|it| it.is_server && it.badness_pages.is_some());
    let Some(adj) = inventory.processes.first().and_then(|process| process.oom_score_adj) else { return Vec::new() };
    let why = "the server would be killed first, whichever process needs the memory".to_owned();
    // a process that cannot be seen from here may be larger
    let sees_all = inventory.missing.iter().all(|it| it.what != Missing::OTHER_PROCESSES);
    let is_first = first.is_some() && adj >= 0 && sees_all;
    let wanted = "-600 (OOMScoreAdjust of its unit), where other programs of this host may rather be killed";
    is_first
        .then(|| advice("oom_score_adj", "the server's unit", Some(adj.to_string()), wanted, why))
        .into_iter()
        .collect()
}

fn setting(inventory: &Inventory, path: &str) -> Option<String> {
    inventory.host.settings.get(path).map(|value| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CgroupSeen, HostSeen, ProcessSeen};

    fn about(inventory: &Inventory) -> Vec<String> {
        crate::oom(inventory).advice.into_iter().map(|it| format!("{} {}", it.about, it.setting)).collect()
    }

    #[test]
    fn a_postmaster_that_is_spared_with_all_its_children() {
        let process = |adj| ProcessSeen { oom_score_adj: Some(adj), ..ProcessSeen::default() };
        let settings = [("vm/overcommit_memory".to_owned(), "2\n".to_owned())].into();
        let mut inventory = Inventory {
            flavour: Some(Flavour::Postgresql),
            processes: vec![process(-900), process(-900), process(0)],
            host: HostSeen { settings, ..HostSeen::default() },
            ..Inventory::default()
        };
        assert_eq!(about(&inventory), ["oom_score_adj the postmaster's children"]);
        inventory.processes[1] = process(0);
        assert_eq!(about(&inventory), Vec::<String>::new());
    }

    #[test]
    fn a_host_that_does_not_kill_the_largest_process() {
        let settings = [("vm/oom_kill_allocating_task", "1\n"), ("vm/panic_on_oom", "2\n")];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let mut inventory = Inventory { host: HostSeen { settings, ..HostSeen::default() }, ..Inventory::default() };
        let told = ["order_of_victims vm.oom_kill_allocating_task", "panic vm.panic_on_oom"];
        assert_eq!(about(&inventory), told);
        inventory.host.settings.values_mut().for_each(|value| *value = "0\n".into());
        assert_eq!(about(&inventory), Vec::<String>::new());
    }

    /// It is the postmaster that must not die with a session.
    #[test]
    fn a_postgresql_in_a_group_that_is_killed_whole() {
        let about = |flavour, strangers, oom_groups: &[&str], oom_group| {
            let oom_groups = oom_groups.iter().map(ToString::to_string).collect();
            let cgroup = CgroupSeen { path: "/db".into(), strangers, oom_groups, oom_group, ..CgroupSeen::default() };
            about(&Inventory { flavour: Some(flavour), cgroup: Some(cgroup), ..Inventory::default() })
        };
        let none = Vec::<String>::new();
        assert_eq!(about(Flavour::Postgresql, 0, &["/db/pg"], Some(false)), ["oom_group /db/pg/memory.oom.group"]);
        assert_eq!(
            about(Flavour::Mysql, 0, &["/db/my"], Some(false)),
            none,
            "a server of one process dies in any case"
        );
        assert_eq!(about(Flavour::Mysql, 2, &["/db/my", "/db"], Some(true)), ["oom_group /db/memory.oom.group"]);
        assert_eq!(about(Flavour::Mysql, 2, &[], Some(true)), ["oom_group /db/memory.oom.group"], "as recorded before");
        assert_eq!(about(Flavour::Postgresql, 2, &[], Some(false)), none);
    }

    #[test]
    fn a_host_without_swap_and_with_huge_pages_for_all() {
        let settings =
            [("kernel/mm/transparent_hugepage/enabled".to_owned(), "[always] madvise never".to_owned())].into();
        let meminfo = [("SwapTotal".to_owned(), 0)].into();
        let host = HostSeen { settings, meminfo, ..HostSeen::default() };
        let inventory = Inventory { flavour: Some(Flavour::Mysql), host, ..Inventory::default() };
        let expected = ["swap swapon", "transparent_huge_pages /sys/kernel/mm/transparent_hugepage/enabled"];
        assert_eq!(about(&inventory), expected);
    }
}
