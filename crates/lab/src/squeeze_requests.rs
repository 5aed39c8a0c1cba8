// SPDX-License-Identifier: Apache-2.0
//! Translates the squeezes that an experiment asks for into the types of `squeeze`, and checks before anything is made whether they can be done.

use crate::error::Error;
use experiment::{Arm, Experiment, OomVictim, RamAmount, RamMechanism, RamSqueeze};
use squeeze::limits::{self, Asked, OptionNames};
use squeeze::ram::{self, Amount, Choice, Mechanism};

/// Swap is no obstacle here: the recording's caveats name it.
pub(crate) fn ram_options(asked: RamSqueeze) -> ram::Options {
    let amount = match asked.amount {
        RamAmount::Hide(bytes) => Amount::Hide(bytes),
        RamAmount::Leave(bytes) => Amount::Leave(bytes),
    };
    let oom_victim = match asked.oom_victim {
        OomVictim::Holder => run::OomVictim::Holder,
        OomVictim::Server => run::OomVictim::Server,
    };
    ram::Options { oom_victim, with_swap: true, mechanism: mechanism_of(asked), ..ram::Options::new(amount) }
}

fn mechanism_of(asked: RamSqueeze) -> Choice {
    asked.mechanism.map_or(Choice::Auto, |mechanism| {
        Choice::This(match mechanism {
            RamMechanism::Holder => Mechanism::Holder,
            RamMechanism::Pool => Mechanism::Pool,
            RamMechanism::Offline => Mechanism::Offline,
            RamMechanism::Balloon => Mechanism::Balloon,
        })
    })
}

/// The mechanism by which RAM is hidden. `None`: none could be chosen.
pub(crate) fn ram_mechanism(asked: RamSqueeze) -> Option<Mechanism> {
    match mechanism_of(asked) {
        Choice::This(mechanism) => Some(mechanism),
        Choice::Auto => ram::automatic().ok(),
    }
}

/// Looks whether the host's RAM can be hidden as the arms ask, before anything is fetched or made.
///
/// # Errors
/// It cannot; the error has every reason, and what would help.
pub fn refuse_ram(experiment: &Experiment) -> Result<(), Error> {
    for asked in experiment.arms.iter().filter_map(|arm| arm.squeeze.ram).filter(|_| is_root()) {
        ram::plan(&ram_options(asked))?;
    }
    Ok(())
}

/// What the server of an arm is started in. RAM that this user cannot limit is left out, and the plan has said so.
pub(crate) fn limits_of(experiment: &Experiment, arm: &Arm) -> Asked {
    let squeeze = &arm.squeeze;
    Asked {
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
        limits::plan(&Asked { cpuset: arm.load.cpuset.clone(), ..Asked::default() }, OptionNames::LOAD)?;
    }
    Ok(())
}

/// Only root may hide the host's RAM; the plan says what is left out otherwise.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
