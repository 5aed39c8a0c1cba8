// SPDX-License-Identifier: Apache-2.0
//! How busy a host was, and with which programs, from counters that were read when an arm began and when it ended.

use evidence::{Arm, Witness};
use serde::{Deserialize, Serialize};

/// [`Witness::of`] of the counters.
pub const HOST: &str = "host";

/// The share of the time in which some task waited for a CPU, or for the disk, above which a host is not quiet on which no load of Wringer's runs.
pub const WAITING_RATIO: f64 = 0.1;

/// The load of a host during one arm. Shares of CPU time are of all CPUs together; shares of waiting are of the elapsed time. From 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Busy {
    pub elapsed_us: u64,
    /// CPU time that the hypervisor gave to other machines.
    pub stolen_ratio: f64,
    /// CPU time of programs that are no part of this run; other runs are included.
    pub others_ratio: f64,
    /// CPU time of this run: its server, its load, its layers, and its observers.
    pub own_ratio: f64,
    /// CPU time of other runs of Wringer, a part of `others_ratio`.
    pub other_runs_ratio: f64,
    /// The number of other runs, idle ones included.
    pub other_runs: u64,
    /// The share of time in which some task, of any program, waited, by the kernel's pressure stall information. `None`: this kernel has none.
    pub cpu_waiting_ratio: Option<f64>,
    pub io_waiting_ratio: Option<f64>,
    pub memory_waiting_ratio: Option<f64>,
    /// Bytes that other programs read and wrote on the disk of the server's data. `None`: not known.
    pub disk_others_bytes_per_second: Option<f64>,
    /// Bytes of all programs.
    pub disk_bytes_per_second: Option<f64>,
}

impl Busy {
    /// `None` when the host was not observed.
    pub fn of(arm: &Arm) -> Option<Self> {
        Self::from_counters(&arm.witnesses)
    }

    /// From the counters of [`HOST`]; all other counters are ignored.
    pub fn from_counters(witnesses: &[Witness]) -> Option<Self> {
        let find = |name: &str| witnesses.iter().find(|it| it.of == HOST && it.counter == name);
        let grown = |name: &str| find(name).map(|it| it.delta() as f64);
        let elapsed_us = find("elapsed us")?.delta().max(1);
        let all = grown("host cpu us").filter(|all| *all > 0.0)?;
        let (stolen, own) = (grown("host stolen us")?, grown("own cpu us")?);
        let aside = grown("host idle us")? + grown("host interrupts us")? + stolen + own + grown("kernel cpu us")?;
        let waiting = |name: &str| grown(name).map(|us| (us / elapsed_us as f64).min(1.0));
        let a_second = |bytes: f64| bytes * 1e6 / elapsed_us as f64;
        let (disk, own_disk) = (grown("disk bytes"), grown("own disk bytes"));
        Some(Self {
            elapsed_us,
            stolen_ratio: stolen / all,
            others_ratio: ((all - aside) / all).max(0.0),
            own_ratio: (own / all).min(1.0),
            other_runs_ratio: grown("other runs cpu us").unwrap_or_default() / all,
            other_runs: find("other runs").map_or(0, |it| it.before.max(it.after)),
            cpu_waiting_ratio: waiting("waiting for cpu, some us"),
            io_waiting_ratio: waiting("waiting for io, some us"),
            memory_waiting_ratio: waiting("waiting for memory, some us"),
            disk_others_bytes_per_second: disk.zip(own_disk).map(|(all, own)| a_second((all - own).max(0.0))),
            disk_bytes_per_second: disk.map(a_second),
        })
    }

    /// The shares of the time in which some task waited for a CPU, and for the disk, where the kernel tells them.
    pub fn waits(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let waits = [("a CPU", self.cpu_waiting_ratio), ("the disk", self.io_waiting_ratio)];
        waits.into_iter().filter_map(|(what, ratio)| Some((what, ratio?)))
    }

    /// The causes that are large enough to change the figures. `squeezes_memory`: the run squeezes memory, so waiting for memory is intended.
    pub fn causes(&self, squeezes_memory: bool) -> Vec<Cause> {
        let others = self.disk_others_bytes_per_second.unwrap_or_default();
        let of_disk = others / self.disk_bytes_per_second.unwrap_or_default().max(1.0);
        let is_high = |cause: &Cause| match cause {
            Cause::Others => self.others_ratio > 0.1,
            Cause::Stolen => self.stolen_ratio > 0.02,
            Cause::OtherRun => self.other_runs_ratio > 0.02,
            Cause::Disk => others > 4e6 && of_disk > 0.2,
            Cause::Memory => !squeezes_memory && self.memory_waiting_ratio.is_some_and(|ratio| ratio > 0.05),
        };
        Cause::ALL.into_iter().filter(is_high).collect()
    }
}

/// Another reason why a host was busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    Others,
    Stolen,
    OtherRun,
    Disk,
    Memory,
}

impl Cause {
    pub const ALL: [Self; 5] = [Self::Others, Self::Stolen, Self::OtherRun, Self::Disk, Self::Memory];

    /// The id of the doubt: `host.others`.
    pub fn id(self) -> &'static str {
        match self {
            Self::Others => "host.others",
            Self::Stolen => "host.stolen",
            Self::OtherRun => "host.other_run",
            Self::Disk => "host.disk",
            Self::Memory => "host.memory",
        }
    }

    /// The size of this cause, for comparisons.
    pub fn amount(self, busy: &Busy) -> f64 {
        match self {
            Self::Others => busy.others_ratio,
            Self::Stolen => busy.stolen_ratio,
            Self::OtherRun => busy.other_runs_ratio,
            Self::Disk => busy.disk_others_bytes_per_second.unwrap_or_default(),
            Self::Memory => busy.memory_waiting_ratio.unwrap_or_default(),
        }
    }

    /// In words: `other programs used 48.2 % of the CPU time`.
    pub fn words(self, busy: &Busy) -> String {
        let amount = self.amount(busy);
        let share = crate::findings::percent(amount);
        match self {
            Self::Others => format!("other programs used {share} of the CPU time"),
            Self::Stolen => format!("the hypervisor gave {share} of the CPU time to other machines"),
            Self::OtherRun => format!("another run of Wringer's used {share} of the CPU time"),
            Self::Disk => format!("other programs read and wrote {:.1} MiB a second on the disk", amount / 1_048_576.0),
            Self::Memory => format!("programs waited for memory {share} of the time"),
        }
    }

    pub fn hint(self) -> &'static str {
        match self {
            Self::Others => "stop them, and run again; `wringer doctor` tries whether the host is quiet",
            Self::Stolen => "run again when the neighbours are quiet, or on a machine of your own",
            Self::OtherRun => "let one run end before the next one begins; `wringer status` shows yours",
            Self::Disk => "stop what uses the disk, or set WRINGER_HOME to another disk, and run again",
            Self::Memory => "stop what needs the memory, and run again",
        }
    }
}
