// SPDX-License-Identifier: Apache-2.0
use crate::ram::holder::Held;
use crate::ram::plan::Plan;
use crate::ram::{MECHANISM, OVERCOMMIT};
use crate::{Error, Meminfo};
use evidence::{Measured, Quantity};
use host::change::{drop_page_cache, set_value};
use run::{ChildSpec, Role, Run, Step, StepId};
use std::path::{Path, PathBuf};
use std::time::Duration;
use units::Bytes;

/// RAM that is hidden until its step is undone.
#[derive(Debug)]
pub struct Hidden {
    /// The holder's step: [`run::Run::undo_step`] gives the RAM back. `None` when there was nothing to hide.
    pub step: Option<StepId>,
    pub bytes: u64,
    pub holder: Option<Held>,
    pub before: Meminfo,
    pub after: Meminfo,
    /// `ram.hidden` and `ram.available`, at 0 us: the caller knows the run's clock.
    pub measured: Vec<Measured>,
}

impl Hidden {
    /// Gives the RAM back before the end of the run.
    pub fn release(&self, run: &mut Run) -> Result<(), Error> {
        self.step.map_or(Ok(()), |step| Ok(run.undo_step(step)?))
    }
}

/// Hides what was planned, and measures it.
///
/// # Errors
/// [`Error::Shortage`], [`Error::OutOfTolerance`]: the holder is ended again. [`Error::Run`]: a step failed; what there is of it is
/// undone with the run.
pub fn hide(run: &mut Run, plan: &Plan) -> Result<Hidden, Error> {
    let before = Meminfo::now()?;
    if plan.is_nothing() {
        let measured = vec![nothing_to_hide(plan, &before)];
        return Ok(Hidden { step: None, bytes: 0, holder: None, before, after: before, measured });
    }
    if plan.options.drop_caches {
        run.step(Step::Note { text: "page cache dropped".into() }, drop_page_cache)?;
    }
    let before = Meminfo::now()?;
    let (child, held) = reserve(run, plan)?;
    let hidden = measure(plan, before, child, held);
    let checked = hidden.and_then(check);
    if checked.is_err() {
        run.undo_step(child)?;
    }
    checked
}

/// The cap is up only while the holder reserves; a crash in between is repaired from the journal.
fn reserve(run: &mut Run, plan: &Plan) -> Result<(StepId, Held), Error> {
    let path = Path::new(OVERCOMMIT);
    let cap_before = host::change::read_value(path)?;
    let cap_after = (cap_before.parse::<u64>().unwrap_or(plan.overcommit_before) + plan.pages).to_string();
    let step = Step::Value { path: PathBuf::from(path), before: cap_before.clone(), after: cap_after.clone() };
    let (cap, _) = run.step(step, |permit| set_value(permit, path, &cap_before, &cap_after))?;
    let child = run.spawn(Role::Holder, holder_spec(plan));
    run.undo_step(cap)?;
    let child = child?;
    let ready = child.ready.unwrap_or_default();
    let held: Held =
        serde_json::from_value(ready.clone()).map_err(|_| Error::HolderAnswer { answer: ready.to_string() })?;
    Ok((child.step, held))
}

fn holder_spec(plan: &Plan) -> ChildSpec {
    let deadline = plan.options.deadline;
    let args = [
        ("--pages", plan.pages),
        ("--page-bytes", plan.before.huge_page_bytes),
        ("--deadline-ms", u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX)),
        ("--floor-bytes", plan.floor_bytes),
    ];
    let args = args.into_iter().flat_map(|(name, value)| [name.to_owned(), value.to_string()]);
    ChildSpec {
        oom_score_adj: Some(1000),
        ready: true,
        ready_timeout: deadline + Duration::from_secs(10),
        grace: Duration::from_secs(1),
        ..ChildSpec::internal("holder", args)
    }
}

fn measure(plan: &Plan, before: Meminfo, step: StepId, held: Held) -> Result<Hidden, Error> {
    let page = plan.before.huge_page_bytes;
    if held.reserved_pages < plan.pages {
        return Err(Error::Shortage {
            asked: Bytes(plan.hide_bytes),
            got: Bytes(held.reserved_pages * page),
            seconds: held.elapsed_us / 1_000_000,
            why: held.stopped.unwrap_or_else(|| "no reason given".into()),
        });
    }
    let after = settled(plan.hide_bytes, &before)?;
    let measured = vec![hidden_pages(plan, &before, &after), hidden_available(plan, &before, &after)];
    Ok(Hidden { step: Some(step), bytes: held.reserved_pages * page, holder: Some(held), before, after, measured })
}

/// Other programs take and give memory all the time: `MemAvailable` is looked at until it agrees, five times at most.
fn settled(asked_bytes: u64, before: &Meminfo) -> Result<Meminfo, Error> {
    let mut after = Meminfo::now()?;
    for _ in 0..4 {
        let drop = before.available_bytes.saturating_sub(after.available_bytes);
        if drop.abs_diff(asked_bytes) <= available_tolerance(asked_bytes) {
            break;
        }
        std::thread::sleep(Duration::from_millis(200));
        after = Meminfo::now()?;
    }
    Ok(after)
}

/// `Hugetlb` is the sum over all huge pages; the holder asked for reservations. Both must have grown by what was asked.
fn hidden_pages(plan: &Plan, before: &Meminfo, after: &Meminfo) -> Measured {
    let by_total = after.hugetlb_bytes.saturating_sub(before.hugetlb_bytes);
    let by_reserved =
        after.huge_reserved_pages.saturating_sub(before.huge_reserved_pages) * plan.before.huge_page_bytes;
    let got = by_total.min(by_reserved);
    Measured {
        at_us: 0,
        arm: None,
        what: "ram.hidden".into(),
        mechanism: MECHANISM.into(),
        asked: Some(Quantity::bytes(plan.hide_bytes)),
        predicted: None,
        got: Some(Quantity::bytes(got)),
        witness: "growth of Hugetlb and of HugePages_Rsvd in /proc/meminfo".into(),
        within_tolerance: Some(got.abs_diff(plan.hide_bytes) <= plan.before.huge_page_bytes),
        tolerance: Some(format!("{} of asked", Bytes(plan.before.huge_page_bytes))),
    }
}

fn hidden_available(plan: &Plan, before: &Meminfo, after: &Meminfo) -> Measured {
    let got = before.available_bytes.saturating_sub(after.available_bytes);
    let tolerance = available_tolerance(plan.hide_bytes);
    Measured {
        at_us: 0,
        arm: None,
        what: "ram.available".into(),
        mechanism: MECHANISM.into(),
        asked: Some(Quantity::bytes(plan.hide_bytes)),
        predicted: None,
        got: Some(Quantity::bytes(got)),
        witness: "fall of MemAvailable".into(),
        within_tolerance: Some(got.abs_diff(plan.hide_bytes) <= tolerance),
        tolerance: Some(format!("{} of asked: other programs take and give, too", Bytes(tolerance))),
    }
}

/// 5 % and what a compiler takes and gives within a second.
fn available_tolerance(asked_bytes: u64) -> u64 {
    asked_bytes / 20 + 512 * Bytes::MIB
}

fn check(hidden: Hidden) -> Result<Hidden, Error> {
    let outside = hidden.measured.iter().find(|measured| measured.within_tolerance == Some(false));
    let Some(measured) = outside else { return Ok(hidden) };
    // what is asked in bytes is far below 2^53
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let text = |quantity: &Option<Quantity>| quantity.map_or_else(String::new, |it| Bytes(it.value as u64).to_string());
    Err(Error::OutOfTolerance {
        what: measured.what.clone(),
        asked: text(&measured.asked),
        got: text(&measured.got),
        tolerance: measured.tolerance.clone().unwrap_or_default(),
    })
}

fn nothing_to_hide(plan: &Plan, before: &Meminfo) -> Measured {
    let asked = match plan.options.amount {
        crate::ram::Amount::Hide(bytes) | crate::ram::Amount::Leave(bytes) => bytes.0,
    };
    Measured {
        at_us: 0,
        arm: None,
        what: "ram.left".into(),
        mechanism: "none: the host is as small as asked".into(),
        asked: Some(Quantity::bytes(asked)),
        predicted: None,
        got: Some(Quantity::bytes(before.available_bytes)),
        witness: "MemAvailable".into(),
        within_tolerance: None,
        tolerance: None,
    }
}
