// SPDX-License-Identifier: Apache-2.0
use crate::ram::holder::Held;
use crate::ram::plan::Plan;
use crate::ram::taken_ram::{Node, Taken};
use crate::ram::traits::Traits;
use crate::ram::{OVERCOMMIT, balloon, holder, measure, offline, pool};
use crate::{Error, Meminfo, accept};
use evidence::{Measured, RamAmount, RamMechanism};
use host::change::{drop_page_cache, set_value};
use host::process::Order;
use run::{Child, ChildSpec, Role, Run, Step, StepId};
use std::path::{Path, PathBuf};
use std::time::Duration;
use units::Bytes;

/// RAM that is hidden until its step is undone.
#[derive(Debug)]
pub struct Hidden {
    /// [`run::Run::undo_step`] of it gives the RAM back. `None` when there was nothing to hide.
    pub step: Option<StepId>,
    pub asked: RamAmount,
    pub mechanism: RamMechanism,
    pub bytes: u64,
    /// The report of the holding process.
    pub holder: Option<Held>,
    pub before: Meminfo,
    pub after: Meminfo,
    pub elapsed: Duration,
    /// The pages that each NUMA node gave to a pool; empty for other mechanisms.
    pub nodes: Vec<Node>,
    /// `ram.hidden` and `ram.available`, at 0 us: the caller knows the run's clock.
    pub measured: Vec<Measured>,
    child: Option<Child>,
}

impl Hidden {
    /// Gives the RAM back before the end of the run.
    pub(crate) fn release(&self, run: &mut Run) -> Result<(), Error> {
        self.step.map_or(Ok(()), |step| Ok(run.undo_step(step)?))
    }

    /// The traits of the mechanism on this host: a locked balloon cannot be swapped.
    pub fn traits(&self) -> Traits {
        let traits = Traits::of(self.mechanism);
        let locked = self.holder.as_ref().is_some_and(|held| held.locked == Some(true));
        Traits { hidden_ram_swappable: traits.hidden_ram_swappable && !locked, ..traits }
    }

    /// The process that holds the RAM, if there is one.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(|child| child.pid)
    }

    /// # Errors
    /// [`Error::HolderDied`]: the holding process has ended, and the RAM is free again.
    pub fn check(&self) -> Result<(), Error> {
        let dead = self.child.as_ref().is_some_and(|child| !child.is_alive());
        if dead { Err(Error::HolderDied) } else { Ok(()) }
    }
}

/// Hides the planned RAM, and measures it.
///
/// # Errors
/// [`Error::Shortage`]: less than half of it was available; with `strict`, less than all. [`Error::OutOfTolerance`]: the measured loss of RAM is
/// smaller than that. In both cases all RAM is given back. [`Error::Run`]: a step failed; finished steps are undone with the run.
pub(crate) fn hide(run: &mut Run, plan: &Plan) -> Result<Hidden, Error> {
    let before = Meminfo::now()?;
    if plan.is_nothing() {
        let measured = vec![measure::nothing_to_hide(plan, &before)];
        let mechanism = plan.mechanism;
        return Ok(Hidden {
            step: None,
            asked: plan.options.amount,
            mechanism,
            bytes: 0,
            holder: None,
            before,
            after: before,
            elapsed: Duration::ZERO,
            nodes: Vec::new(),
            measured,
            child: None,
        });
    }
    if plan.options.drop_caches {
        run.step(Step::Note { text: "page cache dropped".into() }, drop_page_cache)?;
    }
    let before = Meminfo::now()?;
    let taken = run.with_oom_victim(plan.options.oom_victim, |run| take(run, plan))?;
    let step = taken.step;
    let checked = finish(plan, before, taken);
    if checked.is_err() {
        run.undo_step(step)?;
    }
    checked
}

fn take(run: &mut Run, plan: &Plan) -> Result<Taken, Error> {
    match plan.mechanism {
        RamMechanism::Holder => reserve(run, plan),
        RamMechanism::Pool => pool::grow(run, plan),
        RamMechanism::Offline => offline::take(run, plan),
        RamMechanism::Balloon => of_child::<balloon::Options>(plan, run.spawn(Role::Holder, balloon_spec(plan)?)?),
    }
}

fn finish(plan: &Plan, before: Meminfo, taken: Taken) -> Result<Hidden, Error> {
    let strict = plan.options.strict;
    if taken.bytes.saturating_mul(2) < plan.hide_bytes || strict && taken.bytes < plan.hide_bytes {
        return Err(Error::Shortage {
            asked: Bytes(plan.hide_bytes),
            got: Bytes(taken.bytes),
            seconds: taken.elapsed.as_secs(),
            why: taken.stopped.unwrap_or_else(|| "no reason given".into()),
        });
    }
    let (after, looks) = measure::looked(&before)?;
    let pid = taken.child.as_ref().map(|child| child.pid);
    let hidden = measure::hidden(plan, &before, &after, pid);
    let mut measured = accept(vec![hidden], strict)?;
    measured.push(measure::available(plan, &before, &after, looks));
    Ok(Hidden {
        step: Some(taken.step),
        asked: plan.options.amount,
        mechanism: plan.mechanism,
        bytes: taken.bytes,
        holder: taken.held,
        before,
        after,
        elapsed: taken.elapsed,
        nodes: taken.nodes,
        measured,
        child: taken.child,
    })
}

/// The limit is raised above the surplus pages that others hold, and only while the holder reserves; after a crash in between the journal restores it.
fn reserve(run: &mut Run, plan: &Plan) -> Result<Taken, Error> {
    let path = Path::new(OVERCOMMIT);
    let cap_before = host::change::read_value(path)?;
    let surplus = Meminfo::now()?.huge_surplus_pages;
    let cap_after = plan.raised_cap(cap_before.parse().unwrap_or(plan.overcommit_before), surplus).to_string();
    let spec = holder_spec(plan)?;
    let step = Step::Value { path: PathBuf::from(path), before: cap_before.clone(), after: cap_after.clone() };
    let (cap, _) = run.step(step, |permit| set_value(permit, path, &cap_before, &cap_after))?;
    let child = run.spawn(Role::Holder, spec);
    run.undo_step(cap)?;
    of_child::<holder::Options>(plan, child?)
}

fn of_child<O: Order<Ready = Held>>(plan: &Plan, child: Child) -> Result<Taken, Error> {
    let held = child.ready::<O>().map_err(|answer| Error::HolderAnswer { answer })?;
    Ok(Taken {
        step: child.step,
        bytes: held.reserved_pages * plan.unit_bytes,
        stopped: held.stopped.clone(),
        elapsed: Duration::from_micros(held.elapsed_us),
        nodes: Vec::new(),
        held: Some(held),
        child: Some(child),
    })
}

fn holder_spec(plan: &Plan) -> Result<ChildSpec, Error> {
    let order = holder::Options {
        pages: plan.units,
        page_bytes: plan.unit_bytes,
        deadline: plan.options.deadline,
        floor_bytes: plan.stop_bytes(),
        oom_score_adj: plan.options.oom_score_adj(),
    };
    spec(plan, &order)
}

fn balloon_spec(plan: &Plan) -> Result<ChildSpec, Error> {
    let order = balloon::Options {
        bytes: plan.hide_bytes,
        deadline: plan.options.deadline,
        floor_bytes: plan.stop_bytes(),
        oom_score_adj: plan.options.oom_score_adj(),
    };
    spec(plan, &order)
}

fn spec(plan: &Plan, order: &impl Order) -> Result<ChildSpec, Error> {
    Ok(ChildSpec {
        oom_score_adj: Some(plan.options.oom_score_adj()),
        ready: true,
        ready_timeout: plan.options.deadline + Duration::from_secs(10),
        grace: Duration::from_secs(1),
        ..ChildSpec::internal(order)?
    })
}
