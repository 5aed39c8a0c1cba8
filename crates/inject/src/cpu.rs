// SPDX-License-Identifier: Apache-2.0
//! `cpu`: the server's CPU cgroup gets one millisecond of CPU time a second. Each change of the cgroup is a step of the run, so that its
//! watchdog, or `wringer undo`, puts it back. The witness is the kernel's count of how long the cgroup was throttled.

use crate::injected::{Bite, Witness, has_bitten};
use crate::stop_request::{Stop, us};
use crate::{Error, Injection};
use host::change::{read_value, set_value};
use load::admin::Connection;
use load::{Protocol, Target};
use run::{Run, Step, StepId};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The longest period that the kernel takes, in microseconds, and the least time in it (kernel, kernel/sched/core.c: `max_cfs_quota_period`,
/// `min_cfs_quota_period`).
const PERIOD_US: &str = "1000000";
const QUOTA_US: &str = "1000";
/// v2, and both of v1.
const MAX: &str = "cpu.max";
const QUOTA: &str = "cpu.cfs_quota_us";
const PERIOD: &str = "cpu.cfs_period_us";

/// The CPU cgroup of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CpuGroup {
    folder: PathBuf,
    is_v2: bool,
}

/// A file of the cgroup, and its new value.
type Value = (&'static str, String);

impl CpuGroup {
    /// `None`: this folder is no cgroup that can limit CPU time.
    pub(crate) fn of(folder: &Path) -> Option<Self> {
        let is_v2 = folder.join(MAX).is_file();
        (is_v2 || folder.join(QUOTA).is_file()).then(|| Self { folder: folder.to_owned(), is_v2 })
    }

    /// The values that are written before the moment, and those that are written at the moment.
    ///
    /// The kernel gives the next millisecond when its present period is over, and a period that has begun keeps its length (kernel,
    /// kernel/sched/fair.c: `start_cfs_bandwidth`): the server would run for a moment in the middle of the stall. So a quota that limits nothing is
    /// removed before the moment, so that no period has begun.
    fn values(&self) -> Result<(Vec<Value>, Vec<Value>), Error> {
        let read = |file: &str| read_value(&self.folder.join(file));
        let is_free = |quota: &str, period: &str| {
            let cpus = thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64);
            let (quota, period) = (quota.parse::<u64>().ok(), period.parse::<u64>().unwrap_or(u64::MAX));
            quota.is_none_or(|quota| quota >= period.saturating_mul(cpus))
        };
        let to = str::to_owned;
        if self.is_v2 {
            let value = read(MAX)?;
            let (quota, period) = value.split_once(' ').unwrap_or((&value, ""));
            let ahead = if is_free(quota, period) { vec![(MAX, format!("max {PERIOD_US}"))] } else { Vec::new() };
            return Ok((ahead, vec![(MAX, format!("{QUOTA_US} {PERIOD_US}"))]));
        }
        let (period, quota) = ((PERIOD, to(PERIOD_US)), (QUOTA, to(QUOTA_US)));
        if is_free(&read(QUOTA)?, &read(PERIOD)?) {
            Ok((vec![(QUOTA, to("-1")), period], vec![quota]))
        } else {
            Ok((Vec::new(), vec![period, quota]))
        }
    }

    /// How long its threads were not allowed to run so far, summed over CPUs (kernel, admin-guide/cgroup-v2.rst and scheduler/sched-bwc.rst).
    fn throttled_us(&self) -> Option<u64> {
        let text = fs::read_to_string(self.folder.join("cpu.stat")).ok()?;
        let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        value("throttled_usec ").or_else(|| Some(value("throttled_time ")? / 1000))
    }
}

/// Everything ready for one stall. The next stall of the same cgroup can be made ready when this one is over.
pub(crate) struct Cpu<'a> {
    group: CpuGroup,
    /// A connection that uses up the CPU time that the group still has: an idle server would not be throttled.
    spender: Connection,
    changes: Changes<'a>,
    cut: Vec<Value>,
    _turn: MutexGuard<'a, ()>,
}

/// Values that were changed; dropping this restores them, the newest first.
struct Changes<'a> {
    run: &'a Mutex<Run>,
    steps: Vec<StepId>,
}

impl<'a> Cpu<'a> {
    pub(crate) fn ready(
        target: &Target,
        group: CpuGroup,
        run: &'a Mutex<Run>,
        turn: &'a Mutex<()>,
    ) -> Result<Self, Error> {
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        let spender = Connection::open(target)?;
        let (ahead, cut) = group.values()?;
        let mut changes = Changes { run, steps: Vec::new() };
        ahead.iter().try_for_each(|value| changes.make(&group, value).map(drop))?;
        Ok(Self { group, spender, changes, cut, _turn })
    }

    /// Takes the CPU time away at that moment, and gives it back when the stall is over, or when the end is asked for.
    ///
    /// # Errors
    /// The cgroup cannot be changed, or is not as it was found.
    pub(crate) fn inject(self, asked: &Injection, at: Instant, stop: &Stop) -> Result<Option<Bite>, Error> {
        let Self { group, mut spender, mut changes, cut, _turn } = self;
        if stop.or_at(at) {
            return changes.undo().map(|()| None);
        }
        let before = group.throttled_us();
        let mut began = (Instant::now(), host::clock::unix_us());
        for value in &cut {
            began = changes.make(&group, value)?;
        }
        let (began, started_us) = began;
        // it gets its answer when the stall is over
        let work = match spender.protocol() {
            Protocol::Mysql => "SELECT BENCHMARK(1000000, 1 + 1)",
            Protocol::Postgresql => "SELECT count(*) FROM generate_series(1, 100000)",
        };
        let spending = thread::Builder::new().name("spender".into()).spawn(move || spender.execute(work).map(drop));
        let spending = spending.map_err(Error::Thread)?;
        stop.or_at(began + Duration::from_micros(asked.length_us));
        changes.undo_last()?;
        let length_us = us(began.elapsed());
        changes.undo()?;
        let _ = spending.join();
        let throttled = before.and_then(|before| Some(group.throttled_us()?.saturating_sub(before)));
        let bite = Bite { started_us, length_us, bit: None, witness: None, held_by: None, why: None };
        Ok(Some(match throttled {
            Some(value) => {
                // writing to the journal that the quota is restored takes time: it is part of the length, and no victim waits for it
                let bit = has_bitten(value, asked.length_us.min(length_us));
                let what =
                    "microseconds that the server's CPU cgroup was throttled, summed over CPUs (cpu.stat)".to_owned();
                let why = (!bit).then(|| "the server wanted no CPU time for most of it".to_owned());
                Bite { bit: Some(bit), witness: Some(Witness { what, value, connection: None }), why, ..bite }
            }
            None => Bite { why: Some("the kernel's cpu.stat cannot be read".to_owned()), ..bite },
        }))
    }
}

impl Changes<'_> {
    /// Changes a file of the cgroup. Returns when the new value was in force.
    fn make(&mut self, group: &CpuGroup, (file, after): &Value) -> Result<(Instant, u64), Error> {
        let path = group.folder.join(file);
        let before = read_value(&path)?;
        let step = Step::Value { path: path.clone(), before: before.clone(), after: after.clone() };
        let set = |permit: &host::permit::Permit| {
            set_value(permit, &path, &before, after)?;
            Ok((Instant::now(), host::clock::unix_us()))
        };
        let (step, when) = self.run.lock().unwrap_or_else(PoisonError::into_inner).step(step, set)?;
        self.steps.push(step);
        Ok(when)
    }

    fn undo_last(&mut self) -> Result<(), Error> {
        let Some(step) = self.steps.pop() else { return Ok(()) };
        Ok(self.run.lock().unwrap_or_else(PoisonError::into_inner).undo_step(step)?)
    }

    fn undo(&mut self) -> Result<(), Error> {
        while !self.steps.is_empty() {
            self.undo_last()?;
        }
        Ok(())
    }
}

impl Drop for Changes<'_> {
    /// A change that cannot be undone here is tried again when the run ends.
    fn drop(&mut self) {
        let _ = self.undo();
    }
}
