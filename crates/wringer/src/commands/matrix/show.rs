// SPDX-License-Identifier: Apache-2.0
//! A sweep's state as text for people.

use super::unlike;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;
use sweep::{AttemptEnd, Cell, CellState, FigureOf, Setting, State};
use units::{Span, counted};
use verdict::THROUGHPUT;

/// `1 h 20 min`, `12 min 5 s`, `41 s`.
pub(super) fn time(us: u64) -> String {
    let seconds = (us + 500_000) / 1_000_000;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// Columns as wide as their longest text, two spaces apart.
pub(super) fn rows(table: &[Vec<String>]) -> String {
    let count = table.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| table.iter().filter_map(|row| row.get(column)).map(|it| it.chars().count()).max();
    let widths: Vec<usize> = (0..count).map(|column| width(column).unwrap_or_default()).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(text, width)| format!("{text:<width$}")).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    table.iter().map(line).collect()
}

/// Names of settings, in which the values of each key are as wide as its longest value, so that lines below one another are in columns.
pub(super) struct Names<'a> {
    keys: &'a [String],
    widths: BTreeMap<&'a str, usize>,
}

impl<'a> Names<'a> {
    pub(super) fn of(keys: &'a [String], settings: impl Iterator<Item = &'a BTreeMap<String, String>>) -> Self {
        let mut widths: BTreeMap<&str, usize> = BTreeMap::new();
        for (key, value) in settings.flatten() {
            let width = widths.entry(key).or_default();
            *width = value.chars().count().max(*width);
        }
        Self { keys, widths }
    }

    pub(super) fn name(&self, cell: &Cell) -> String {
        let width = |key: &String| self.widths.get(key.as_str()).copied().unwrap_or_default();
        let padded = |(key, value): (&String, &String)| (key.clone(), format!("{value:<0$}", width(key)));
        let padded = Setting { settings: cell.settings.iter().map(padded).collect(), ..Setting::default() };
        padded.label(self.keys)
    }
}

/// The result of one cell, on one line. `name`: its setting.
pub(super) fn cell_line(cell: &Cell, name: &str) -> String {
    let mut text = format!("block {}  {name}", cell.block);
    let last = cell.attempts.last();
    match cell.state {
        CellState::Done => {
            let _ = write!(text, "  {}", came_to(cell));
        }
        CellState::Failed => {
            let _ = write!(text, "  failed: {}", cell.told.join("; "));
        }
        CellState::Pending if last.is_some_and(|last| last.end == Some(AttemptEnd::Interrupted)) => {
            text.push_str("  interrupted; runs again with the same command");
        }
        CellState::Pending | CellState::Running => {
            let why = last.map(|attempt| attempt.why.join("; ")).unwrap_or_default();
            let _ = write!(text, "  runs once more: {why}");
        }
    }
    if let Some(last) = last {
        let _ = write!(text, " ({})", time(last.elapsed_us));
    }
    text
}

fn came_to(cell: &Cell) -> String {
    let mut told: Vec<String> = cell
        .outcomes
        .iter()
        .filter(|(_, outcome)| *outcome != "measured")
        .map(|(arm, outcome)| if cell.outcomes.len() == 1 { outcome.clone() } else { format!("{arm}: {outcome}") })
        .collect();
    let figure = |name: &str| cell.figures.iter().find(|it| it.figure.name == name);
    told.extend(figure(THROUGHPUT).map(value));
    told.extend(figure("p99").map(|it| format!("p99 {}", value(it))));
    told.extend(cell.disturbed.then(|| "disturbed".to_owned()));
    told.extend(cell.unsteady.then(|| "unsteady".to_owned()));
    told.join(", ")
}

fn value(of: &FigureOf) -> String {
    number(of.figure.value, &of.figure.unit)
}

pub(super) fn number(value: f64, unit: &str) -> String {
    match unit {
        "us" => Span(Duration::from_nanos(nanos(value))).to_string(),
        "transactions/s" => format!("{} tps", rate(value)),
        unit => format!("{value:.3} {unit}"),
    }
}

/// Three significant digits or more; a rate below 1 may be the whole result of a slow setting.
fn rate(value: f64) -> String {
    let decimals = match value {
        value if value >= 100.0 => 0,
        value if value >= 0.1 || value <= 0.0 => 2,
        value if value >= 0.001 => 4,
        _ => 6,
    };
    format!("{value:.decimals$}")
}

#[allow(clippy::cast_possible_truncation)] // a time of a few hours at most
fn nanos(us: f64) -> u64 {
    (us.max(0.0) * 1e3) as u64
}

/// The whole state: the progress, each setting, and the failed cells.
pub(super) fn text(state: &State) -> String {
    let (done, failed, all) = (state.count(CellState::Done), state.count(CellState::Failed), state.planned().count());
    let mut out = format!("{}: {done} of {all} cells are done", state.name);
    if failed > 0 {
        let _ = write!(out, ", {failed} failed");
    }
    if let Some(left) = state.remaining {
        let _ = write!(out, "; about {} left", time(left.us));
    }
    let _ = writeln!(out, "; {} spent", time(state.spent_us));
    if let Some(ended) = state.ended.as_ref().filter(|_| done + failed < all) {
        let _ = writeln!(out, "It ended because {ended}.");
    }
    let dropped = state.cells.iter().filter(|cell| cell.dropped).count();
    if dropped > 0 {
        let _ = writeln!(
            out,
            "{dropped} more are of settings that the file no longer has, or whose files or server changed."
        );
    }
    out.push('\n');
    out.push_str(&settings(state));
    out.push_str(&remarks(state));
    out
}

fn settings(state: &State) -> String {
    let arms: Vec<&str> = arms(state);
    let mut head = state.keys.clone();
    if arms.len() > 1 {
        head.push("arm".into());
    }
    head.extend(["cells", "throughput", "from .. to", "p99", "against the first"].map(str::to_owned));
    let mut table = vec![head];
    for setting in &state.settings {
        for arm in arms.iter().copied().chain(arms.is_empty().then_some("")) {
            let mut row: Vec<String> =
                state.keys.iter().map(|key| setting.settings.get(key).cloned().unwrap_or_default()).collect();
            if arms.len() > 1 {
                row.push(arm.to_owned());
            }
            row.extend(measured(state, setting, arm));
            table.push(row);
        }
    }
    rows(&table)
}

fn arms(state: &State) -> Vec<&str> {
    let mut arms: Vec<&str> = Vec::new();
    for figure in state.settings.iter().flat_map(|setting| &setting.figures) {
        if !arms.contains(&figure.arm.as_str()) {
            arms.push(&figure.arm);
        }
    }
    arms
}

fn measured(state: &State, setting: &Setting, arm: &str) -> [String; 5] {
    let figure = |name: &str| setting.figures.iter().find(|it| it.arm == arm && it.name == name);
    let others: Vec<String> = setting
        .outcomes
        .iter()
        .filter(|(outcome, _)| *outcome != "measured")
        .map(|(outcome, count)| format!("{outcome} {count}x"))
        .collect();
    let throughput = figure(THROUGHPUT);
    let typical = throughput.map(|it| number(it.typical, &it.unit));
    let range = throughput.map(|it| format!("{} .. {}", rate(it.lowest), rate(it.highest))).unwrap_or_default();
    let p99 = figure("p99").map(|it| number(it.typical, &it.unit)).unwrap_or_default();
    let first = state.settings.first().map(|first| first.id.as_str());
    let compared =
        state.comparisons.iter().find(|it| Some(it.a.as_str()) == first && it.b == setting.id && it.arm == arm);
    let figure = compared.and_then(|it| it.figures.iter().find(|it| it.name == THROUGHPUT)).map(|it| {
        let ratio = it.ratio.map(|ratio| format!("{}x ", report::ratio(ratio))).unwrap_or_default();
        format!("{ratio}{}", it.verdict.map_or_else(|| "no verdict".to_owned(), |verdict| verdict.to_string()))
    });
    let verdict = compared.and_then(unlike::word).map(str::to_owned).or(figure);
    let typical = typical.into_iter().chain(others).collect::<Vec<_>>().join(", ");
    [setting.done.to_string(), typical, range, p99, verdict.unwrap_or_default()]
}

fn remarks(state: &State) -> String {
    let count = |is: fn(&Cell) -> bool| state.planned().filter(|cell| is(cell)).count();
    let (disturbed, unsteady) = (count(|cell| cell.disturbed), count(|cell| cell.unsteady));
    let mut out = String::new();
    if disturbed > 0 {
        let _ = writeln!(
            out,
            "\n{} ran while the host was busy with other work, both times (disturbed), and the result counts.",
            counted(disturbed as u64, "cell")
        );
    }
    if unsteady > 0 {
        let _ = writeln!(
            out,
            "\nOf {} the two halves do not agree (unsteady), and the result counts; a longer load.warmup or load.preheat may help.",
            counted(unsteady as u64, "cell")
        );
    }
    if let Some(sentence) = unlike::sentence(state) {
        let _ = writeln!(out, "\n{sentence}");
    }
    for cell in state.planned().filter(|cell| cell.state == CellState::Failed) {
        let _ = writeln!(out, "\nfailed: {}, block {}: {}", cell.label(&state.keys), cell.block, cell.told.join("; "));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use sweep::Attempt;

    #[test]
    fn a_cell_that_runs_once_more_says_why() {
        let line = |end, why: &[&str]| {
            let why = why.iter().map(|why| (*why).to_owned()).collect();
            let attempt = Attempt { end: Some(end), elapsed_us: 1_000_000, why, ..Attempt::default() };
            cell_line(&Cell { block: 1, attempts: vec![attempt], ..Cell::default() }, "a=1")
        };
        let interrupted = line(AttemptEnd::Interrupted, &[]);
        assert_eq!(interrupted, "block 1  a=1  interrupted; runs again with the same command (1 s)");
        let disturbed = line(AttemptEnd::Disturbed, &["other programs ran"]);
        assert_eq!(disturbed, "block 1  a=1  runs once more: other programs ran (1 s)");
    }

    #[test]
    fn small_rates_and_ratios_keep_their_digits() {
        let of = |id: &str, lowest: f64, highest: f64| Setting {
            id: id.into(),
            figures: vec![sweep::Value {
                arm: "baseline".into(),
                name: THROUGHPUT.into(),
                unit: "transactions/s".into(),
                repeats: 3,
                typical: lowest,
                lowest,
                highest,
            }],
            ..Setting::default()
        };
        let figure = serde_json::json!({"name": THROUGHPUT, "unit": "transactions/s", "repeats_a": 3, "repeats_b": 3, "pairs": 3, "a": 9500.0, "b": 0.33,
            "ratio": 0.00003, "low": null, "high": null, "confidence": null, "verdict": "lower", "no_verdict": null, "detectable_ratio": null, "told": []});
        let comparison = sweep::Comparison {
            a: "a".into(),
            b: "b".into(),
            arm: "baseline".into(),
            differs: Vec::new(),
            verdict: sweep::Comparable::Compared,
            not_comparable: Vec::new(),
            figures: vec![serde_json::from_value(figure).unwrap()],
            told: Vec::new(),
        };
        let settings = vec![of("a", 9500.4, 9612.0), of("b", 0.33, 5.48), of("c", 0.0042, 0.0)];
        let unlike = sweep::Comparison {
            b: "c".into(),
            verdict: sweep::Comparable::NotComparable,
            figures: Vec::new(),
            ..comparison.clone()
        };
        let state = State { settings, comparisons: vec![comparison, unlike], ..State::default() };
        let row = |place: usize| measured(&state, &state.settings[place], "baseline");
        assert_eq!(row(0)[1..3], ["9500 tps", "9500 .. 9612"]);
        assert_eq!(row(1)[1..3], ["0.33 tps", "0.33 .. 5.48"]);
        assert_eq!(row(1)[4], "< 0.001x lower");
        assert_eq!(row(2)[1..3], ["0.0042 tps", "0.0042 .. 0.00"]);
        assert_eq!(row(2)[4], "not comparable");
    }

    #[test]
    fn lines_of_cells_are_in_columns_whatever_their_values_are() {
        let keys = ["load.threads", "server.options.pool"].map(str::to_owned);
        let settings = |threads: &str, pool: &str| {
            BTreeMap::from([(keys[0].clone(), threads.to_owned()), (keys[1].clone(), pool.to_owned())])
        };
        let all = [settings("3", "1280M"), settings("128", "8M")];
        let names = Names::of(&keys, all.iter());
        let line = |settings: &BTreeMap<String, String>| {
            let cell = Cell { block: 1, settings: settings.clone(), ..Cell::default() };
            cell_line(&cell, &names.name(&cell))
        };
        assert_eq!(line(&all[0]), "block 1  threads=3   pool=1280M  runs once more: ");
        assert_eq!(line(&all[1]), "block 1  threads=128 pool=8M     runs once more: ");
    }
}
