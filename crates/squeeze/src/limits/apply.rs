// SPDX-License-Identifier: Apache-2.0
use super::account::{Account, number};
use super::plan::{Group, Plan, Setting};
use super::{CpuList, Cpus, LimitRequest};
use crate::{Error, cgroup};
use host::change;
use run::CgroupVersion::{V1, V2};
use run::{Run, Step, StepId, controllers};
use std::path::{Path, PathBuf};

/// Limits in force, for a command or a server that will join them. They end with the run.
#[derive(Debug, Clone)]
pub struct Limits {
    plan: Plan,
    folders: Vec<PathBuf>,
    /// In the order in which they were made.
    steps: Vec<StepId>,
}

/// The kernel's values, read back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Got {
    pub ram_bytes: Option<u64>,
    pub swap_bytes: Option<u64>,
    pub cpus: Option<Cpus>,
    pub cpuset: Option<CpuList>,
}

impl Plan {
    /// Makes the limits.
    ///
    /// # Errors
    /// The kernel refuses; limits that are already made end with the run. [`Error::Refused`]: the kernel lacks one of the limits.
    pub(crate) fn apply(&self, run: &mut Run) -> Result<Limits, Error> {
        let mut made = Limits { plan: self.clone(), folders: Vec::new(), steps: Vec::new() };
        self.groups.iter().try_for_each(|group| made.make_group(run, group, &self.name()))?;
        Ok(made)
    }
}

impl Limits {
    /// Removes the limits before the end of the run, when the limited processes have ended.
    ///
    /// # Errors
    /// The cgroups hold processes that do not belong to the run.
    pub(crate) fn remove(self, run: &mut Run) -> Result<(), Error> {
        self.steps.into_iter().rev().try_for_each(|step| Ok(run.undo_step(step)?))
    }

    /// `command`, `server`.
    pub(crate) fn who(&self) -> &'static str {
        self.plan.names.who
    }

    pub fn asked(&self) -> &LimitRequest {
        &self.plan.asked
    }

    /// The folders of the cgroups, for [`run::ChildSpec::cgroups`].
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// The numbers of the CPUs, for [`run::ChildSpec::affinity`].
    pub fn affinity(&self) -> Option<Vec<u32>> {
        self.plan.affinity.as_ref().map(CpuList::numbers)
    }

    /// The limits and their mechanisms: `256 MiB, page cache included (memory cgroup v2), the time of 0.5 CPUs (cpu cgroup v2)`.
    pub fn describe(&self) -> String {
        let asked = self.asked();
        let by = |controller| self.mechanism(controller).unwrap_or_else(|| "not limited".into());
        let got = [
            asked.ram.map(|ram| format!("{ram}, page cache included ({})", by("memory"))),
            asked.swap.map(|swap| format!("swap {swap} ({})", by("memory"))),
            asked.cpus.map(|cpus| format!("the time of {} ({})", cpus.in_words(), by("cpu"))),
            asked.cpuset.as_ref().map(|list| format!("CPU {list} ({})", by("cpuset"))),
            (asked.cpu_group && asked.cpus.is_none()).then(|| format!("as much CPU time as there is ({})", by("cpu"))),
        ];
        got.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// The controllers that limit it: `memory`, `cpu`, `cpuset`.
    pub fn mechanism(&self, name: &str) -> Option<String> {
        self.plan.mechanism(name)
    }

    pub fn got(&self) -> Got {
        let (memory, cpu) = (self.group("memory"), self.group("cpu"));
        let ram_bytes = memory.and_then(|(group, folder)| match group.controller.version {
            V1 => number(folder, "memory.limit_in_bytes"),
            V2 => number(folder, "memory.max"),
        });
        let swap_bytes = memory.and_then(|(group, folder)| match group.controller.version {
            V1 => Some(number(folder, "memory.memsw.limit_in_bytes")?.saturating_sub(ram_bytes?)),
            V2 => number(folder, "memory.swap.max"),
        });
        let list = |folder: &Path| {
            let read = |file| change::read_value(&folder.join(file)).ok()?.parse().ok();
            read("cpuset.cpus.effective").or_else(|| read("cpuset.effective_cpus"))
        };
        Got {
            ram_bytes,
            swap_bytes,
            cpus: cpu.and_then(|(_, folder)| quota(folder)),
            cpuset: self.group("cpuset").and_then(|(_, folder)| list(folder)),
        }
    }

    /// The memory cgroup, when RAM is limited.
    pub fn memory_folder(&self) -> Option<&Path> {
        self.group("memory").map(|(_, folder)| folder)
    }

    pub fn account(&self) -> Account {
        Account::read(self.group("memory").map(|(_, folder)| folder), self.group("cpu").map(|(_, folder)| folder))
    }

    pub(super) fn group(&self, name: &str) -> Option<(&Group, &Path)> {
        let groups = self.plan.groups.iter().zip(&self.folders);
        groups.map(|(group, folder)| (group, folder.as_path())).find(|(group, _)| group.names.contains(&name))
    }

    fn make_group(&mut self, run: &mut Run, group: &Group, name: &str) -> Result<(), Error> {
        let root = &group.controller.root;
        if group.controller.version == V2 {
            for name in &group.names {
                self.steps.extend(controllers::hand_down(run, root, name)?);
            }
        }
        let folder = root.join(format!("wringer-{}-{name}", run.id()));
        let (version, home) = (group.controller.version, change::own_cgroup(root));
        let make = Step::Cgroup { path: folder.clone(), version, home, members: self.plan.members };
        self.steps.push(run.step(make, |permit| change::make_cgroup(permit, &folder))?.0);
        for Setting { file, value, may_be_missing } in &group.values {
            let path = folder.join(file);
            if path.exists() {
                self.steps.push(cgroup::set_value(run, &path, value)?);
            } else if !may_be_missing {
                return Err(Error::Refused {
                    what: format!("this kernel has no {file}"),
                    hint: "leave that squeeze out; `wringer doctor` says what this machine has".into(),
                });
            }
        }
        self.folders.push(folder);
        Ok(())
    }
}

fn quota(folder: &Path) -> Option<Cpus> {
    if let Ok(text) = change::read_value(&folder.join("cpu.max")) {
        let (quota, period) = text.split_once(' ')?;
        return Some(Cpus::of_quota(quota.parse().ok()?, period.parse().ok()?));
    }
    Some(Cpus::of_quota(number(folder, "cpu.cfs_quota_us")?, number(folder, "cpu.cfs_period_us")?))
}
