// SPDX-License-Identifier: Apache-2.0
//! Translates the squeezes that an experiment asks for into the types of `squeeze`, and checks before anything is made whether they can be done.

use crate::error::Error;
use evidence::RamMechanism;
use experiment::{Arm, Experiment, RamSqueeze};
use squeeze::limits::{self, LimitRequest, OptionNames};
use squeeze::ram;

/// Swap is no obstacle here: the recording's caveats name it.
pub(crate) fn ram_options(asked: RamSqueeze) -> ram::Options {
    let RamSqueeze { amount, oom_victim, mechanism } = asked;
    ram::Options { oom_victim, with_swap: true, mechanism, ..ram::Options::new(amount) }
}

/// The mechanism by which RAM is hidden. `None`: none could be chosen.
pub(crate) fn ram_mechanism(asked: RamSqueeze) -> Option<RamMechanism> {
    asked.mechanism.or_else(|| ram::automatic().ok())
}

/// Checks whether the host's RAM can be hidden as the arms ask, before anything is fetched or made.
///
/// # Errors
/// It cannot be hidden; the error has every reason, and what would help.
pub fn refuse_ram(experiment: &Experiment) -> Result<(), Error> {
    for asked in experiment.arms.iter().filter_map(|arm| arm.squeeze.ram).filter(|_| is_root()) {
        ram::plan(&ram_options(asked))?;
    }
    Ok(())
}

/// The limits in which the server of an arm is started. A limit of RAM that this user cannot set is left out; the plan has said so.
pub(crate) fn limits_of(experiment: &Experiment, arm: &Arm) -> LimitRequest {
    let squeeze = &arm.squeeze;
    LimitRequest {
        ram: squeeze.server_ram.filter(|_| squeeze::cgroup::writable("memory").is_ok()),
        swap: squeeze.swap,
        cpus: squeeze.cpus,
        cpuset: squeeze.cpuset.clone(),
        cpu_group: experiment.cpu_group(),
    }
}

/// Looks whether the server and the load can be limited as the arms ask, before anything is fetched or made.
///
/// # Errors
/// They cannot; the error says what would work.
pub fn refuse_limits(experiment: &Experiment) -> Result<(), Error> {
    for arm in &experiment.arms {
        limits::plan(&limits_of(experiment, arm), OptionNames::EXPERIMENT)?;
        limits::plan(&LimitRequest { cpuset: arm.load.cpuset.clone(), ..LimitRequest::default() }, OptionNames::LOAD)?;
    }
    Ok(())
}

/// Only root may hide the host's RAM; the plan says what is left out otherwise.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
