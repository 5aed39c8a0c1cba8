// SPDX-License-Identifier: Apache-2.0
//! The CPUs that the load runs on: its threads inherit them from the thread that starts them.

use crate::error::Error;
use crate::notes::Notes;
use evidence::{Measured, Quantity};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use units::CpuList;

/// Until it is dropped, this thread and those that it starts run on the asked CPUs alone.
pub(crate) struct LoadCpus {
    before: Option<CpuSet>,
}

impl LoadCpus {
    /// # Errors
    /// The kernel refuses: this process may not use such CPUs.
    pub(crate) fn only(asked: Option<&CpuList>) -> Result<Self, Error> {
        let Some(asked) = asked else { return Ok(Self { before: None }) };
        let fail = |errno: rustix::io::Errno| Error::LoadCpus { asked: asked.clone(), source: errno.into() };
        let before = sched_getaffinity(None).map_err(fail)?;
        let mut set = CpuSet::new();
        asked.numbers().iter().filter_map(|cpu| usize::try_from(*cpu).ok()).for_each(|cpu| set.set(cpu));
        sched_setaffinity(None, &set).map_err(fail)?;
        Ok(Self { before: Some(before) })
    }
}

impl Drop for LoadCpus {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // the CPUs that it had before; the kernel decides about one that went offline meanwhile
            let _ = sched_setaffinity(None, before);
        }
    }
}

/// The allowed CPUs of this thread (`"thread-self"`), or of a process by its pid.
pub(crate) fn measured(of: &str, asked: &CpuList, arm: &str, notes: &Notes<'_>) -> Measured {
    let status = std::fs::read_to_string(format!("/proc/{of}/status")).unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let got: Option<CpuList> = list.and_then(|list| list.trim().parse().ok());
    let count = |list: &CpuList| Quantity::count(list.numbers().len() as f64);
    Measured {
        at_us: notes.clock.now_us(),
        arm: Some(arm.to_owned()),
        asked: Some(count(asked)),
        got: got.as_ref().map(count),
        within_tolerance: got.as_ref().map(|got| got == asked),
        tolerance: Some(format!("exactly CPU {asked}")),
        ..Measured::of("load.cpuset", "CPU affinity", "Cpus_allowed_list of the load in /proc")
    }
}
