// SPDX-License-Identifier: Apache-2.0
//! The limits of `--fail-if`: which of them are exceeded, and why some cannot be told.

use crate::exit::{Exit, Failure, Outcome};
use explain::figures;
use explain::sides::{ComparedArms, Sides};
use serde::Serialize;
use verdict::{Compared, Held, Limit, NoVerdict};

/// One limit with one comparison.
#[derive(Debug, Serialize)]
pub(super) struct Checked {
    limit: String,
    /// The arm of the first side; `None`: nothing could be compared.
    arm: Option<String>,
    held: Held,
    /// One sentence for people.
    pub(super) statement: String,
    /// What would help, where it cannot be told.
    #[serde(skip)]
    hint: Option<String>,
}

/// # Errors
/// Exit code 2: no run can have a figure of such a name.
pub(super) fn require_known(limits: &[Limit]) -> Outcome {
    let Some(unknown) = limits.iter().find(|limit| !figures::is_name(limit.figure())) else { return Ok(()) };
    let name = unknown.figure();
    let near = keyfile::suggest(name, &figures::NAMES).filter(|text| text.starts_with("did"));
    let all =
        format!("figures are {}, and of a hump \"1 reads: place\" and \"1 reads: share\"", figures::NAMES.join(", "));
    let hint = near.into_iter().chain([all]).collect::<Vec<_>>().join(" ");
    Err(Failure::message(Exit::Usage, format!("--fail-if {unknown}: there is no figure \"{name}\"")).hint(hint))
}

pub(super) fn check(limit: &Limit, sides: &Sides) -> Vec<Checked> {
    if sides.comparisons.is_empty() {
        let why = sides.not_comparable.first().map(|why| format!(": {why}")).unwrap_or_default();
        let statement = format!("{limit}: it cannot be told, because the two sides are not comparable{why}.");
        let hint = Some(not_comparable(sides).to_owned());
        return vec![Checked { limit: limit.to_string(), arm: None, held: Held::CannotTell, statement, hint }];
    }
    sides.comparisons.iter().map(|one| of_arms(limit, one)).collect()
}

fn of_arms(limit: &Limit, one: &ComparedArms) -> Checked {
    let held = limit.check(&one.judged);
    let figure = one.judged.figure(limit.figure());
    let (what, hint) = match held {
        Held::Shown => ("it is shown.".to_owned(), None),
        Held::NotShown => ("it is not shown, and would have been.".to_owned(), None),
        Held::Unseen => (unseen(limit, figure), None),
        Held::CannotTell => match figure {
            Some(figure) => {
                let why = figure.told.first().map(|why| format!(": {why}")).unwrap_or_default();
                (format!("it cannot be told{why}."), no_verdict(figure))
            }
            None => {
                let names: Vec<&str> = one.judged.figures.iter().map(|figure| figure.name.as_str()).collect();
                let hint = format!("these runs have {}", names.join(", "));
                ("it cannot be told: no run has this figure.".to_owned(), (!names.is_empty()).then_some(hint))
            }
        },
    };
    let statement = format!("{limit}, \"{}\": {what}", one.a);
    Checked { limit: limit.to_string(), arm: Some(one.a.clone()), held, statement, hint }
}

/// What a limit that is not shown leaves open.
fn unseen(limit: &Limit, figure: Option<&Compared>) -> String {
    match figure.and_then(|figure| figure.detectable_ratio) {
        Some(detectable) if detectable <= limit.times() => {
            let number = |bound: Option<f64>| bound.map_or_else(|| "an unknown ratio".to_owned(), |it| format!("{it:.2}"));
            let (low, high) = figure.map_or((None, None), |figure| (figure.low, figure.high));
            format!(
                "it is not shown. But the true ratio lies between {} and {}, so it may be beyond the limit: more repeats would tell.",
                number(low),
                number(high)
            )
        }
        Some(ratio) if ratio > 10.0 => {
            "it is not shown. But these repeats lie so far apart that they show hardly any difference: more repeats, or longer ones, \
             would tell."
                .to_owned()
        }
        Some(ratio) => format!(
            "it is not shown. But these repeats show only what is {ratio:.2} times as much or more (or as much less): more repeats, \
             or longer ones, would tell."
        ),
        None => "it is not shown, and nothing says how large a difference would have been.".to_owned(),
    }
}

fn not_comparable(sides: &Sides) -> &'static str {
    match sides.differs.iter().any(|one| !one.allowed) {
        true => "a condition that is meant to differ is named with --across",
        false => "only runs that measured their arm to its end can be compared",
    }
}

fn no_verdict(figure: &Compared) -> Option<String> {
    let hint = match figure.no_verdict? {
        NoVerdict::TooFewRepeats => "a verdict needs three runs of each side",
        NoVerdict::NotMeasured => "a verdict needs three runs of each side that have this figure",
        NoVerdict::LowerBounds => "lower the rate until each run keeps up with it, or compare throughput",
        NoVerdict::DifferentUnits => "name a figure that both sides give in one unit",
    };
    Some(hint.to_owned())
}

/// The failure, if there is one: a limit that is shown to be exceeded counts before a limit that cannot be told.
pub(super) fn end(checked: &[Checked]) -> Outcome {
    let first = |held: Held| checked.iter().find(|one| one.held == held);
    let failure = match (first(Held::Shown), first(Held::CannotTell)) {
        (Some(shown), _) => Failure::message(Exit::Finding, &shown.statement),
        (None, Some(untold)) => {
            let failure = Failure::message(Exit::Missing, &untold.statement);
            untold.hint.iter().fold(failure, Failure::hint)
        }
        (None, None) => return Ok(()),
    };
    Err(failure)
}
