// SPDX-License-Identifier: Apache-2.0
use super::{CpuList, Cpus, LimitRequest, OptionNames, Swap};
use crate::cgroup::{self, Controller};
pub use crate::ram::Change;
use crate::{Error, Meminfo};
use host::change::own_cgroup;
use run::CgroupVersion::{V1, V2};
use run::Members;
use run::controllers::is_handed_down;
use std::path::Path;
use units::Bytes;

/// The planned changes, for this machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub asked: LimitRequest,
    /// Facts that the user should know; they forbid nothing.
    pub notes: Vec<String>,
    pub(super) groups: Vec<Group>,
    /// CPUs to set by affinity, where no controller of CPU sets can be used.
    pub(super) affinity: Option<CpuList>,
    pub(super) names: OptionNames,
    /// Which processes in the cgroups end with them.
    pub(super) members: Members,
    /// Distinguishes the limits of a run that come one after the other.
    number: Option<u32>,
}

/// One cgroup; on v1 each hierarchy has one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Group {
    pub(super) controller: Controller,
    pub(super) names: Vec<&'static str>,
    /// Files of the cgroup, in the order in which they are written.
    pub(super) values: Vec<Setting>,
}

/// A value for a file of a new cgroup.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Setting {
    pub(super) file: &'static str,
    pub(super) value: String,
    /// Skip it when the kernel lacks the file: then there is nothing to limit.
    pub(super) may_be_missing: bool,
}

fn setting(file: &'static str, value: impl ToString) -> Setting {
    Setting { file, value: value.to_string(), may_be_missing: false }
}

pub(super) const PERIOD_US: u64 = 100_000;
/// The least RAM: a program that gets less does not start.
const LEAST_RAM: Bytes = Bytes::mib(4);

/// Checks whether this machine can set these limits, and by which mechanism. Changes nothing.
///
/// # Errors
/// [`Error::Refused`], with a form that would work.
pub fn plan(asked: &LimitRequest, names: OptionNames) -> Result<Plan, Error> {
    let members = if names == OptionNames::COMMAND { Members::Command } else { Members::Marked };
    let mut plan = Plan {
        asked: asked.clone(),
        notes: Vec::new(),
        groups: Vec::new(),
        affinity: None,
        names,
        members,
        number: None,
    };
    plan.memory(&Meminfo::now()?)?;
    if asked.cpus.is_some() || asked.cpu_group {
        plan.cpu_time()?;
    }
    if let Some(list) = &asked.cpuset {
        plan.cpu_list(list)?;
    }
    Ok(plan)
}

impl Plan {
    /// Lets processes that are left in the cgroups live on; they move to the caller's own cgroups.
    ///
    /// # Errors
    /// [`Error::Refused`]: one of the caller's cgroups is not visible from here.
    pub fn leaving(self) -> Result<Self, Error> {
        for Group { controller, .. } in &self.groups {
            if own_cgroup(&controller.root).is_none() {
                return Err(refused(
                    format!("--leave: our own cgroup is outside of what is mounted at {}", controller.root.display()),
                    "without --leave what the command leaves running is ended",
                ));
            }
        }
        Ok(Self { members: Members::Leave, ..self })
    }

    /// For limits that a run makes one after the other.
    #[must_use]
    pub fn numbered(self, number: u32) -> Self {
        Self { number: Some(number), ..self }
    }

    /// The last word in the names of its cgroups.
    pub(super) fn name(&self) -> String {
        let who = self.names.who;
        self.number.map_or_else(|| who.to_owned(), |number| format!("{who}-{number}"))
    }

    /// Each change with its undo, in the order in which they are made.
    pub fn changes(&self) -> Vec<Change> {
        let who = self.names.who;
        let mut changes: Vec<Change> = self.groups.iter().flat_map(|group| group.changes(who, self.members)).collect();
        if let Some(list) = &self.affinity {
            changes.push(Change {
                change: format!("the {who} may run on CPU {list} alone (CPU affinity, which it could change itself)"),
                undo: format!("none: it ends with the {who}"),
            });
        }
        changes
    }

    /// The controllers that limit it: `memory`, `cpu`, `cpuset`.
    pub fn mechanism(&self, name: &str) -> Option<String> {
        let group = self.groups.iter().find(|group| group.names.contains(&name));
        let of_group = group.map(|group| format!("{name} cgroup {}", group.controller));
        of_group.or_else(|| self.affinity.as_ref().filter(|_| name == "cpuset").map(|_| "CPU affinity".to_owned()))
    }

    fn memory(&mut self, host: &Meminfo) -> Result<(), Error> {
        let swap_there = host.swap_total_bytes > 0;
        let (ram, swap) = (self.asked.ram, self.asked.swap);
        if ram.is_none() && swap.is_none() {
            return Ok(());
        }
        if let Some(ram) = ram.filter(|ram| *ram < LEAST_RAM) {
            return Err(refused(
                format!("{} {ram} is less than a program needs to start", self.names.ram),
                "4M is the least",
            ));
        }
        if let Some(ram) = ram.filter(|ram| ram.0 > host.total_bytes) {
            let (name, there) = (self.names.ram, Bytes(host.total_bytes));
            return Err(refused(
                format!("{name} {ram} limits nothing: the host has {there}"),
                format!("write less, or leave {name} out"),
            ));
        }
        let controller = cgroup::writable("memory")?;
        let mut values = Vec::new();
        if controller.version == V1 {
            values.extend(ram.map(|ram| setting("memory.limit_in_bytes", ram.0)));
            values.extend(self.swap_v1(&controller.root, swap_there)?);
        } else {
            // First, so that the limit of RAM moves nothing into swap.
            let unasked = || self.names.ram_without_swap.then_some(Swap::Off);
            let off = |swap: Swap| Setting {
                may_be_missing: self.asked.swap.is_none(),
                ..setting("memory.swap.max", swap.bytes())
            };
            values.extend(swap.or_else(unasked).map(off));
            values.extend(ram.map(|ram| setting("memory.max", ram.0)));
        }
        if swap.is_none() && swap_there && !values.iter().any(|it| it.file == "memory.swap.max") {
            let OptionNames { ram, swap, .. } = self.names;
            self.notes
                .push(format!("this host has swap, and what {ram} leaves no room for goes there first: {swap} off"));
        }
        self.add(controller, "memory", values);
        Ok(())
    }

    /// v1 limits RAM and swap together (kernel, admin-guide/cgroup-v1/memory.rst, "Swap Extension").
    fn swap_v1(&mut self, root: &Path, swap_there: bool) -> Result<Option<Setting>, Error> {
        const TOGETHER: &str = "memory.memsw.limit_in_bytes";
        let Some(swap) = self.asked.swap else { return Ok(None) };
        let Some(ram) = self.asked.ram else {
            return Err(refused("cgroup v1 limits RAM and swap together", format!("write {}, too", self.names.ram)));
        };
        if root.join(TOGETHER).exists() {
            return Ok(Some(setting(TOGETHER, ram.0.saturating_add(swap.bytes()))));
        }
        if swap == Swap::Off && !swap_there {
            self.notes
                .push(format!("{} off: this host has no swap, and its kernel does not count any", self.names.swap));
            return Ok(None);
        }
        Err(refused(
            "this kernel does not count swap by cgroup",
            "boot it with swapaccount=1, or take the swap from the whole host for as long: swapoff -a",
        ))
    }

    fn cpu_time(&mut self) -> Result<(), Error> {
        let there = available_cpus();
        if let Some(cpus) = self.asked.cpus.filter(|cpus| cpus.is_more_than(there.numbers().len())) {
            let count = there.numbers().len();
            let what = format!("{} {cpus}, and there are {count} here (CPU {there})", self.names.cpus);
            return Err(refused(what, format!("{count} is the most; less makes it slower")));
        }
        let controller = cgroup::writable("cpu")?;
        if controller.version == V1 && !controller.root.join("cpu.cfs_quota_us").exists() {
            return Err(refused(
                "this kernel has no CPU quotas (CONFIG_CFS_BANDWIDTH)",
                format!("{} gives whole CPUs", self.names.cpuset),
            ));
        }
        let version = controller.version;
        let quota = |cpus: Cpus| match version {
            V1 => setting("cpu.cfs_quota_us", cpus.quota_us(PERIOD_US)),
            V2 => setting("cpu.max", format_args!("{} {PERIOD_US}", cpus.quota_us(PERIOD_US))),
        };
        self.add(controller, "cpu", self.asked.cpus.map(quota).into_iter().collect());
        Ok(())
    }

    fn cpu_list(&mut self, list: &CpuList) -> Result<(), Error> {
        let there = available_cpus();
        if let Some(more) = list.beyond(&there) {
            let what = format!("{} {list}: there is no CPU {more} for us here", self.names.cpuset);
            return Err(refused(what, format!("those of {there}")));
        }
        let cpus = list.numbers().len();
        if let Some(quota) = self.asked.cpus.filter(|quota| quota.is_more_than(cpus)) {
            let OptionNames { cpus: quota_name, cpuset, .. } = self.names;
            self.notes
                .push(format!("{quota_name} {quota} is more than the {cpus} of {cpuset} {list}: these are the limit"));
        }
        let Ok(controller) = cgroup::writable("cpuset") else {
            self.affinity = Some(list.clone());
            return Ok(());
        };
        let mut values = vec![setting("cpuset.cpus", list)];
        if controller.version == V1 {
            // No process can join while one of the two files is empty (kernel, admin-guide/cgroup-v1/cpusets.rst).
            let nodes = host::change::read_value(&controller.root.join("cpuset.mems"))?;
            values.push(setting("cpuset.mems", nodes));
        }
        self.add(controller, "cpuset", values);
        Ok(())
    }

    /// Adds to the cgroup of the same hierarchy, if there is one already.
    fn add(&mut self, controller: Controller, name: &'static str, values: Vec<Setting>) {
        if let Some(group) = self.groups.iter_mut().find(|group| group.controller == controller) {
            group.names.push(name);
            group.values.extend(values);
        } else {
            self.groups.push(Group { controller, names: vec![name], values });
        }
    }
}

impl Group {
    fn changes(&self, who: &str, members: Members) -> Vec<Change> {
        let root = self.controller.root.display();
        let change = |change: String, undo: &str| Change { change, undo: undo.to_owned() };
        let missing = |name: &&&str| self.controller.version == V2 && !is_handed_down(&self.controller.root, name);
        let handed = self.names.iter().filter(missing).map(|name| {
            change(
                format!("{root}/cgroup.subtree_control: +{name}"),
                &format!("-{name}, unless somebody else limits something by it"),
            )
        });
        let made = change(
            format!("a cgroup {} for the {who}: {root}/wringer-<run>-{who}", self.controller),
            &match members {
                Members::Leave => {
                    format!("who of the {who} is left in it goes back to our own cgroup, and it is removed")
                }
                _ => format!("whoever of the {who} is left in it is ended, and it is removed"),
            },
        );
        let set = self.values.iter().map(|Setting { file, value, .. }| {
            change(format!("{root}/wringer-<run>-{who}/{file} = {value}"), "what it was; it goes with the cgroup")
        });
        handed.chain([made]).chain(set).collect()
    }
}

fn refused(what: impl Into<String>, hint: impl Into<String>) -> Error {
    Error::Refused { what: what.into(), hint: hint.into() }
}

/// The CPUs that this process may run on.
pub fn available_cpus() -> CpuList {
    use rustix::thread::{CpuSet, sched_getaffinity};
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    CpuList::of((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).filter_map(|cpu| u32::try_from(cpu).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn group(names: &[&'static str]) -> Group {
        let controller = Controller { root: PathBuf::from("/no/such/cgroup2"), version: V2 };
        Group { controller, names: names.to_vec(), values: vec![setting("memory.max", 1_048_576)] }
    }

    #[test]
    fn each_change_has_its_undo() {
        let changes = group(&["memory", "cpu"]).changes("command", Members::Command);
        let texts: Vec<&str> = changes.iter().map(|it| it.change.as_str()).collect();
        assert_eq!(texts.len(), 4, "{texts:?}");
        assert!(texts[0].ends_with("subtree_control: +memory") && texts[3].ends_with("/memory.max = 1048576"));
        assert!(changes.iter().all(|it| !it.undo.is_empty()));
    }

    #[test]
    fn controllers_of_one_hierarchy_share_a_cgroup() {
        let groups = vec![group(&["memory"])];
        let mut plan = Plan {
            asked: LimitRequest::default(),
            notes: vec![],
            groups,
            affinity: None,
            names: OptionNames::COMMAND,
            members: Members::Command,
            number: None,
        };
        plan.add(group(&[]).controller, "cpu", vec![setting("cpu.max", "1 2")]);
        assert_eq!(plan.groups.len(), 1);
        assert_eq!(plan.groups[0].names, ["memory", "cpu"]);
        plan.add(Controller { root: "/other".into(), version: V1 }, "cpuset", vec![]);
        assert_eq!(plan.groups.len(), 2);
    }

    #[test]
    fn what_this_machine_does_not_have_is_refused() {
        let refusal = |asked: &LimitRequest| match plan(asked, OptionNames::EXPERIMENT) {
            Err(Error::Refused { what, hint }) => format!("{what}; {hint}"),
            other => panic!("{other:?}"),
        };
        let cpus = LimitRequest { cpus: "8000".parse().ok(), ..LimitRequest::default() };
        assert!(refusal(&cpus).contains("squeeze.cpus 8000, and there are"), "{}", refusal(&cpus));
        let cpuset = LimitRequest { cpuset: "0,8000".parse().ok(), ..LimitRequest::default() };
        assert!(refusal(&cpuset).contains("no CPU 8000"), "{}", refusal(&cpuset));
        let ram = LimitRequest { ram: Some(Bytes(4096)), ..LimitRequest::default() };
        assert!(refusal(&ram).contains("less than a program needs"), "{}", refusal(&ram));
        let ram = LimitRequest { ram: Some(Bytes::gib(1 << 20)), ..LimitRequest::default() };
        assert!(
            refusal(&ram).contains("squeeze.server_ram 1024 TiB limits nothing: the host has"),
            "{}",
            refusal(&ram)
        );
    }
}
