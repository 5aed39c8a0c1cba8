// SPDX-License-Identifier: Apache-2.0
use super::account::{Account, number};
use super::plan::{Group, Plan};
use super::words::{CpuList, Cpus};
use crate::{Error, cgroup};
use host::change;
use run::CgroupVersion::{V1, V2};
use run::{Run, Step};
use std::path::{Path, PathBuf};

/// Limits in force, for a command that is to join them. They go with the run.
#[derive(Debug, Clone)]
pub struct Limits {
    plan: Plan,
    folders: Vec<PathBuf>,
}

/// What the kernel made of it, read back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Got {
    pub ram_bytes: Option<u64>,
    pub swap_bytes: Option<u64>,
    pub cpus: Option<Cpus>,
    pub cpuset: Option<CpuList>,
}

impl Limits {
    /// # Errors
    /// The kernel refuses; what there is already goes with the run. [`Error::Refused`]: it lacks one of the limits.
    pub(super) fn make(run: &mut Run, plan: &Plan) -> Result<Self, Error> {
        let folders = plan.groups.iter().map(|group| make_group(run, group)).collect::<Result<_, _>>()?;
        Ok(Self { plan: plan.clone(), folders })
    }

    /// For [`run::ChildSpec::cgroups`].
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// For [`run::ChildSpec::affinity`].
    pub fn affinity(&self) -> Option<Vec<u32>> {
        self.plan.affinity.as_ref().map(CpuList::numbers)
    }

    /// What limits this: `memory`, `cpu`, `cpuset`.
    pub fn mechanism(&self, name: &str) -> Option<String> {
        let of_group = self.group(name).map(|(group, _)| format!("{name} cgroup {}", group.controller));
        of_group.or_else(|| self.plan.affinity.as_ref().filter(|_| name == "cpuset").map(|_| "CPU affinity".to_owned()))
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

    /// What the kernel has counted so far.
    pub fn account(&self) -> Account {
        Account::read(self.group("memory").map(|(_, folder)| folder), self.group("cpu").map(|(_, folder)| folder))
    }

    fn group(&self, name: &str) -> Option<(&Group, &Path)> {
        let groups = self.plan.groups.iter().zip(&self.folders);
        groups.map(|(group, folder)| (group, folder.as_path())).find(|(group, _)| group.names.contains(&name))
    }
}

fn make_group(run: &mut Run, group: &Group) -> Result<PathBuf, Error> {
    let root = &group.controller.root;
    if group.controller.version == V2 {
        for name in &group.names {
            cgroup::hand_down(run, root, name)?;
        }
    }
    let folder = root.join(format!("wringer-{}-command", run.id()));
    let make = Step::Cgroup { path: folder.clone(), version: group.controller.version };
    run.step(make, |permit| change::make_cgroup(permit, &folder))?;
    for (file, value) in &group.values {
        let path = folder.join(file);
        if !path.exists() {
            return Err(Error::Refused {
                what: format!("this kernel has no {file}"),
                hint: "leave that squeeze out; `wringer doctor` says what this machine has".into(),
            });
        }
        cgroup::set_value(run, &path, value)?;
    }
    Ok(folder)
}

fn quota(folder: &Path) -> Option<Cpus> {
    if let Ok(text) = change::read_value(&folder.join("cpu.max")) {
        let (quota, period) = text.split_once(' ')?;
        return Some(Cpus::of_quota(quota.parse().ok()?, period.parse().ok()?));
    }
    Some(Cpus::of_quota(number(folder, "cpu.cfs_quota_us")?, number(folder, "cpu.cfs_period_us")?))
}
