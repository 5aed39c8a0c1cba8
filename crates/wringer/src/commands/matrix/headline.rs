// SPDX-License-Identifier: Apache-2.0
//! The first sentence about a sweep: which setting has the most transactions, and whether the verdicts show it.

use super::show::number;
use sweep::{Cell, CellState, Comparable, Setting, State, most_transactions, throughput};
use verdict::{THROUGHPUT, Verdict};

/// `None`: nothing was measured yet.
pub(super) fn headline(state: &State) -> Option<String> {
    let (place, rate) = most_transactions(&state.settings)?;
    let best = state.settings.get(place)?;
    let is_measured = |setting: &&Setting| throughput(setting, &rate.arm).is_some();
    let measured: Vec<&Setting> = state.settings.iter().filter(is_measured).collect();
    let others: Vec<&Setting> = measured.iter().filter(|setting| setting.id != best.id).copied().collect();
    let with = |is: Against| -> Vec<&Setting> {
        others.iter().filter(|other| against(state, best, other, &rate.arm) == is).copied().collect()
    };
    let arm = if rate.arm == "baseline" { String::new() } else { format!(", arm {}", rate.arm) };
    let (best, most) = (best.label(&state.keys), format!("{}{arm}", number(rate.typical, &rate.unit)));
    let unmeasured = state.settings.len() - measured.len();
    let of_them = if unmeasured == 0 { "" } else { "measured " };
    let rest = match unmeasured {
        0 => String::new(),
        1 => "; 1 setting has no measurement".to_owned(),
        count => format!("; {count} settings have no measurement"),
    };
    let is_missing = |cell: &Cell| matches!(cell.state, CellState::Pending | CellState::Running);
    let so_far = if state.planned().any(is_missing) { " so far" } else { "" };
    let named = |settings: &[&Setting]| match settings {
        [one] => one.label(&state.keys),
        several if several.len() == others.len() => format!("any of the {} other {of_them}settings", others.len()),
        several => format!("{} of the {} other {of_them}settings", several.len(), others.len()),
    };
    let [alike, untold, unlike] = [Against::NotMore, Against::NoVerdict, Against::NotComparable].map(with);
    let but = match unlike.as_slice() {
        [] => rest,
        unlike => format!("; it is not comparable with {}{rest}", named(unlike)),
    };
    Some(match (alike.as_slice(), untold.as_slice()) {
        ([], []) if others.len() == unlike.len() => {
            format!("{best} has the most transactions{so_far}: {most}{but}.")
        }
        ([], []) if unlike.is_empty() => {
            format!(
                "{best} has the most transactions{so_far}: {most}; every other {of_them}setting is shown to have fewer{but}."
            )
        }
        ([], []) => {
            let fewer = others.len() - unlike.len();
            format!(
                "{best} has the most transactions{so_far}: {most}; {fewer} of the {} other {of_them}settings {} shown to have fewer{but}.",
                others.len(),
                if fewer == 1 { "is" } else { "are" }
            )
        }
        ([], untold) => {
            format!(
                "{best} has the most transactions{so_far}: {most}; there is no verdict between it and {}{but}.",
                named(untold)
            )
        }
        (alike, _) => {
            format!(
                "No difference shown{so_far} between {best}, which has the most transactions ({most}), and {}{but}.",
                named(alike)
            )
        }
    })
}

/// What is shown of the transactions of the best setting against another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Against {
    More,
    NotMore,
    NoVerdict,
    NotComparable,
}

fn against(state: &State, best: &Setting, other: &Setting, arm: &str) -> Against {
    let found = state.comparisons.iter().filter(|one| one.arm == arm).find_map(|one| {
        match (one.a == best.id && one.b == other.id, one.a == other.id && one.b == best.id) {
            (true, _) => Some((one, Verdict::Lower)),
            (_, true) => Some((one, Verdict::Higher)),
            _ => None,
        }
    });
    let Some((one, is_more)) = found else { return Against::NoVerdict };
    let figure = one.figures.iter().find(|figure| figure.name == THROUGHPUT);
    match figure.and_then(|figure| figure.verdict) {
        _ if one.verdict == Comparable::NotComparable => Against::NotComparable,
        None => Against::NoVerdict,
        Some(verdict) if verdict == is_more => Against::More,
        Some(_) => Against::NotMore,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sweep::{Comparison, Value};
    use verdict::Compared;

    fn compared(verdict: Option<Verdict>) -> Compared {
        Compared {
            name: THROUGHPUT.into(),
            unit: "transactions/s".into(),
            repeats_a: 5,
            repeats_b: 5,
            pairs: Some(5),
            a: None,
            b: None,
            ratio: None,
            low: None,
            high: None,
            confidence: None,
            verdict,
            no_verdict: None,
            detectable_ratio: None,
            told: Vec::new(),
        }
    }

    fn state(rates: &[f64], verdicts: &[(usize, usize, Option<Verdict>)]) -> State {
        let id = |place: usize| format!("s{place}");
        let figure = |rate: f64| Value {
            arm: "baseline".into(),
            name: THROUGHPUT.into(),
            unit: "transactions/s".into(),
            repeats: 5,
            typical: rate,
            lowest: rate,
            highest: rate,
        };
        let setting = |(place, rate): (usize, &f64)| Setting {
            id: id(place),
            settings: [("k".to_owned(), place.to_string())].into(),
            figures: vec![figure(*rate)],
            ..Setting::default()
        };
        let comparison = |(a, b, verdict): &(usize, usize, Option<Verdict>)| Comparison {
            a: id(*a),
            b: id(*b),
            arm: "baseline".into(),
            differs: vec!["k".into()],
            verdict: Comparable::Compared,
            not_comparable: Vec::new(),
            figures: vec![compared(*verdict)],
            told: Vec::new(),
        };
        State {
            keys: vec!["k".into()],
            settings: rates.iter().enumerate().map(setting).collect(),
            comparisons: verdicts.iter().map(comparison).collect(),
            ..State::default()
        }
    }

    fn said(rates: &[f64], verdicts: &[(usize, usize, Option<Verdict>)]) -> String {
        headline(&state(rates, verdicts)).expect("something was measured")
    }

    #[test]
    fn the_first_sentence_claims_no_more_than_the_verdicts_show() {
        use Verdict::{Higher, Lower, NoDifferenceShown};
        assert_eq!(headline(&State::default()), None);
        assert_eq!(said(&[500.0], &[]), "k=0 has the most transactions: 500 tps.");
        let rates = [500.0, 900.0, 700.0];
        let shown = [(0, 1, Some(Higher)), (1, 2, Some(Lower)), (0, 2, Some(Higher))];
        let most = "k=1 has the most transactions";
        assert_eq!(said(&rates, &shown), format!("{most}: 900 tps; every other setting is shown to have fewer."));
        let one = [(0, 1, Some(Higher)), (1, 2, Some(NoDifferenceShown)), (0, 2, None)];
        let text = "No difference shown between k=1, which has the most transactions (900 tps), and";
        assert_eq!(said(&rates, &one), format!("{text} k=2."));
        let both = [(0, 1, Some(NoDifferenceShown)), (1, 2, Some(NoDifferenceShown))];
        assert_eq!(said(&rates, &both), format!("{text} any of the 2 other settings."));
        let text = "900 tps; there is no verdict between it and";
        assert_eq!(said(&rates, &shown[..1]), format!("{most}: {text} k=2."));
        assert_eq!(said(&rates, &[(0, 1, None)]), format!("{most}: {text} any of the 2 other settings."));
        // the means of a few cells may be in another order than what is shown
        assert!(said(&rates, &[(0, 1, Some(Lower)), shown[1]]).starts_with("No difference shown between k=1"));
    }

    /// The first arm ran out of memory in the first setting: its other arm is no match for the first arm of the second.
    #[test]
    fn figures_of_different_arms_are_not_held_against_each_other() {
        let mut state = state(&[500.0, 500.0], &[(0, 1, Some(Verdict::Higher))]);
        state.comparisons[0].arm = "fast".into();
        let [first, second] = &mut state.settings[..] else { panic!("two settings") };
        let fast = |rate, of: &Setting| sweep::Value { arm: "fast".into(), typical: rate, ..of.figures[0].clone() };
        first.figures = vec![fast(900.0, first)];
        second.figures.push(fast(1000.0, second));
        let text = "k=1 has the most transactions: 1000 tps, arm fast; every other setting is shown to have fewer.";
        assert_eq!(headline(&state).unwrap(), text);
    }

    #[test]
    fn settings_that_are_not_comparable_are_told_to_be_that() {
        use Verdict::{Lower, NoDifferenceShown};
        let said = |verdicts: [Option<Option<Verdict>>; 2]| {
            let mut state = state(&[900.0, 500.0, 700.0], &[(0, 1, None), (0, 2, None)]);
            for (one, verdict) in state.comparisons.iter_mut().zip(verdicts) {
                match verdict {
                    Some(verdict) => one.figures = vec![compared(verdict)],
                    // whatever figures there are, it is not comparable
                    None => (one.verdict, one.figures) = (Comparable::NotComparable, vec![compared(Some(Lower))]),
                }
            }
            headline(&state).expect("something was measured")
        };
        let most = "k=0 has the most transactions";
        let (shown, alike) = (Some(Some(Lower)), Some(Some(NoDifferenceShown)));
        assert_eq!(
            said([None, None]),
            format!("{most}: 900 tps; it is not comparable with any of the 2 other settings.")
        );
        let some = "1 of the 2 other settings is shown to have fewer; it is not comparable with k=1.";
        assert_eq!(said([None, shown]), format!("{most}: 900 tps; {some}"));
        let text = "No difference shown between k=0, which has the most transactions (900 tps), and k=2";
        assert_eq!(said([None, alike]), format!("{text}; it is not comparable with k=1."));
        let text = "900 tps; there is no verdict between it and k=2; it is not comparable with k=1.";
        assert_eq!(said([None, Some(None)]), format!("{most}: {text}"));
    }

    #[test]
    fn settings_without_a_measurement_and_cells_that_are_missing_are_told() {
        let mut state = state(&[500.0, 900.0], &[(0, 1, Some(Verdict::Higher))]);
        state.settings.extend(["s2", "s3"].map(|id| Setting { id: id.into(), ..Setting::default() }));
        let said = |state: &State, so_far: &str| {
            let text = headline(state).unwrap();
            let expected = format!(
                "k=1 has the most transactions{so_far}: 900 tps; every other measured setting is shown to have fewer; "
            );
            assert_eq!(text, format!("{expected}2 settings have no measurement."));
        };
        let cell = |state| Cell { state, ..Cell::default() };
        state.cells = vec![cell(CellState::Done), cell(CellState::Failed), Cell { dropped: true, ..Cell::default() }];
        said(&state, "");
        state.cells.push(cell(CellState::Pending));
        said(&state, " so far");
        state.settings.remove(0);
        state.settings.pop();
        let text = "k=1 has the most transactions so far: 900 tps; 1 setting has no measurement.";
        assert_eq!(headline(&state).unwrap(), text);
    }
}
