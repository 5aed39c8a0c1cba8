// SPDX-License-Identifier: Apache-2.0
use super::words::{CpuList, Cpus, Swap};
use super::{Asked, Limits};
use crate::cgroup::{self, Controller};
pub use crate::ram::Change;
use crate::{Error, Meminfo};
use run::CgroupVersion::{V1, V2};
use std::path::Path;
use units::Bytes;

/// What is to be done, and on which machine that was looked at.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub asked: Asked,
    /// What somebody should know, and that forbids nothing.
    pub notes: Vec<String>,
    pub(super) groups: Vec<Group>,
    /// Where no controller of CPU sets can be used.
    pub(super) affinity: Option<CpuList>,
}

/// One cgroup; on v1 each hierarchy has one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Group {
    pub(super) controller: Controller,
    pub(super) names: Vec<&'static str>,
    /// Written in this order.
    pub(super) values: Vec<(&'static str, String)>,
}

/// In which a quota is granted.
pub(super) const PERIOD_US: u64 = 100_000;
/// A program that gets less does not even start.
const LEAST_RAM: Bytes = Bytes::mib(4);

/// Looks whether this machine can give what is asked, by which mechanism. Changes nothing.
///
/// # Errors
/// [`Error::Refused`], with what would work.
pub fn plan(asked: &Asked) -> Result<Plan, Error> {
    let mut plan = Plan { asked: asked.clone(), notes: Vec::new(), groups: Vec::new(), affinity: None };
    let swap_there = Meminfo::now()?.swap_total_bytes > 0;
    plan.memory(swap_there)?;
    if let Some(cpus) = asked.cpus {
        plan.quota(cpus)?;
    }
    if let Some(list) = &asked.cpuset {
        plan.cpu_list(list)?;
    }
    Ok(plan)
}

impl Plan {
    /// Each change beside its undo, in the order in which they are made.
    pub fn changes(&self) -> Vec<Change> {
        let mut changes: Vec<Change> = self.groups.iter().flat_map(Group::changes).collect();
        if let Some(list) = &self.affinity {
            changes.push(Change {
                change: format!("the command may run on CPU {list} alone (CPU affinity, which it could change itself)"),
                undo: "none: it ends with the command".into(),
            });
        }
        changes
    }

    /// # Errors
    /// See [`Limits`].
    pub fn apply(&self, run: &mut run::Run) -> Result<Limits, Error> {
        Limits::make(run, self)
    }

    fn memory(&mut self, swap_there: bool) -> Result<(), Error> {
        let (ram, swap) = (self.asked.ram, self.asked.swap);
        if ram.is_none() && swap.is_none() {
            return Ok(());
        }
        if let Some(ram) = ram.filter(|ram| *ram < LEAST_RAM) {
            return Err(refused(format!("--ram {ram} is less than a program needs to start"), "4M is the least"));
        }
        let controller = cgroup::writable("memory")?;
        let mut values = Vec::new();
        if controller.version == V1 {
            values.extend(ram.map(|ram| ("memory.limit_in_bytes", ram.0.to_string())));
            values.extend(self.swap_v1(&controller.root, swap_there)?);
        } else {
            // first, so that the limit of RAM pushes nothing into swap
            values.extend(swap.map(|swap| ("memory.swap.max", swap.bytes().to_string())));
            values.extend(ram.map(|ram| ("memory.max", ram.0.to_string())));
        }
        if swap.is_none() && swap_there {
            self.notes
                .push("this host has swap, and what --ram leaves no room for goes there first: --swap off".into());
        }
        self.add(controller, "memory", values);
        Ok(())
    }

    /// v1 limits RAM and swap together (kernel, admin-guide/cgroup-v1/memory.rst, "Swap Extension").
    fn swap_v1(&mut self, root: &Path, swap_there: bool) -> Result<Option<(&'static str, String)>, Error> {
        const TOGETHER: &str = "memory.memsw.limit_in_bytes";
        let Some(swap) = self.asked.swap else { return Ok(None) };
        let Some(ram) = self.asked.ram else {
            return Err(refused("cgroup v1 limits RAM and swap together", "say --ram SIZE, too"));
        };
        if root.join(TOGETHER).exists() {
            return Ok(Some((TOGETHER, ram.0.saturating_add(swap.bytes()).to_string())));
        }
        if swap == Swap::Off && !swap_there {
            self.notes.push("--swap off: this host has no swap, and its kernel does not count any".into());
            return Ok(None);
        }
        Err(refused(
            "this kernel does not count swap by cgroup",
            "boot it with swapaccount=1, or take the swap from the whole host for as long: swapoff -a",
        ))
    }

    fn quota(&mut self, cpus: Cpus) -> Result<(), Error> {
        let there = available_cpus();
        if cpus.is_more_than(there.numbers().len()) {
            let count = there.numbers().len();
            let what = format!("--cpus {cpus}, and there are {count} here (CPU {there})");
            return Err(refused(what, format!("{count} is the most; less makes it slower")));
        }
        let controller = cgroup::writable("cpu")?;
        let quota = cpus.quota_us(PERIOD_US);
        if controller.version == V1 && !controller.root.join("cpu.cfs_quota_us").exists() {
            return Err(refused("this kernel has no CPU quotas (CONFIG_CFS_BANDWIDTH)", "--cpuset gives whole CPUs"));
        }
        let value = match controller.version {
            V1 => ("cpu.cfs_quota_us", quota.to_string()),
            V2 => ("cpu.max", format!("{quota} {PERIOD_US}")),
        };
        self.add(controller, "cpu", vec![value]);
        Ok(())
    }

    fn cpu_list(&mut self, list: &CpuList) -> Result<(), Error> {
        let there = available_cpus();
        if let Some(more) = list.beyond(&there) {
            let what = format!("--cpuset {list}: there is no CPU {more} for us here");
            return Err(refused(what, format!("those of {there}")));
        }
        let cpus = list.numbers().len();
        if let Some(quota) = self.asked.cpus.filter(|quota| quota.is_more_than(cpus)) {
            self.notes.push(format!("--cpus {quota} is more than the {cpus} of --cpuset {list}: these are the limit"));
        }
        let Ok(controller) = cgroup::writable("cpuset") else {
            self.affinity = Some(list.clone());
            return Ok(());
        };
        let mut values = vec![("cpuset.cpus", list.to_string())];
        if controller.version == V1 {
            // nobody can join while one of the two is empty (kernel, admin-guide/cgroup-v1/cpusets.rst)
            let nodes = host::change::read_value(&controller.root.join("cpuset.mems"))?;
            values.push(("cpuset.mems", nodes));
        }
        self.add(controller, "cpuset", values);
        Ok(())
    }

    /// To the cgroup of the same hierarchy, when there is one already.
    fn add(&mut self, controller: Controller, name: &'static str, values: Vec<(&'static str, String)>) {
        if let Some(group) = self.groups.iter_mut().find(|group| group.controller == controller) {
            group.names.push(name);
            group.values.extend(values);
        } else {
            self.groups.push(Group { controller, names: vec![name], values });
        }
    }
}

impl Group {
    fn changes(&self) -> Vec<Change> {
        let root = self.controller.root.display();
        let change = |change: String, undo: &str| Change { change, undo: undo.to_owned() };
        let missing =
            |name: &&&str| self.controller.version == V2 && !cgroup::is_handed_down(&self.controller.root, name);
        let handed = self.names.iter().filter(missing).map(|name| {
            change(
                format!("{root}/cgroup.subtree_control: +{name}"),
                &format!("-{name}, unless somebody else limits something by it"),
            )
        });
        let made = change(
            format!("a cgroup {} for the command: {root}/wringer-<run>-command", self.controller),
            "whoever of the command is left in it is ended, and it is removed",
        );
        let set = self.values.iter().map(|(file, value)| {
            change(format!("{root}/wringer-<run>-command/{file} = {value}"), "what it was; it goes with the cgroup")
        });
        handed.chain([made]).chain(set).collect()
    }
}

fn refused(what: impl Into<String>, hint: impl Into<String>) -> Error {
    Error::Refused { what: what.into(), hint: hint.into() }
}

/// Those that this process may run on.
fn available_cpus() -> CpuList {
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
        Group { controller, names: names.to_vec(), values: vec![("memory.max", "1048576".into())] }
    }

    #[test]
    fn each_change_has_its_undo() {
        let changes = group(&["memory", "cpu"]).changes();
        let texts: Vec<&str> = changes.iter().map(|it| it.change.as_str()).collect();
        assert_eq!(texts.len(), 4, "{texts:?}");
        assert!(texts[0].ends_with("subtree_control: +memory") && texts[3].ends_with("/memory.max = 1048576"));
        assert!(changes.iter().all(|it| !it.undo.is_empty()));
    }

    #[test]
    fn controllers_of_one_hierarchy_share_a_cgroup() {
        let mut plan =
            Plan { asked: Asked::default(), notes: vec![], groups: vec![group(&["memory"])], affinity: None };
        plan.add(group(&[]).controller, "cpu", vec![("cpu.max", "1 2".into())]);
        assert_eq!(plan.groups.len(), 1);
        assert_eq!(plan.groups[0].names, ["memory", "cpu"]);
        plan.add(Controller { root: "/other".into(), version: V1 }, "cpuset", vec![]);
        assert_eq!(plan.groups.len(), 2);
    }

    #[test]
    fn what_this_machine_does_not_have_is_refused() {
        let refusal = |asked: &Asked| match plan(asked) {
            Err(Error::Refused { what, hint }) => format!("{what}; {hint}"),
            other => panic!("{other:?}"),
        };
        let cpus = Asked { cpus: "8000".parse().ok(), ..Asked::default() };
        assert!(refusal(&cpus).contains("is the most"), "{}", refusal(&cpus));
        let cpuset = Asked { cpuset: "0,8000".parse().ok(), ..Asked::default() };
        assert!(refusal(&cpuset).contains("no CPU 8000"), "{}", refusal(&cpuset));
        let ram = Asked { ram: Some(Bytes(4096)), ..Asked::default() };
        assert!(refusal(&ram).contains("less than a program needs"), "{}", refusal(&ram));
    }
}
