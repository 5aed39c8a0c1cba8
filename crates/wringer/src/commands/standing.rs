// SPDX-License-Identifier: Apache-2.0
//! Shared by `ram`, `disk`, `status` and `undo`: standing squeezes, found by their journals, and how they are shown.

use super::command_line;
use crate::exit::{Exit, Failure, Outcome};
use crate::hints::BUSY;
use crate::internal::{StandingSqueeze, Supervise, Supervised};
pub use crate::terminal::Output;
use crate::{signals, terminal};
use host::clock::{rfc3339, unix_seconds};
use host::places::Places;
use run::{FoundRun, Phase, Reading, RunId, Scope, StepState, UndoReport};
use rustix::io::Errno;
use serde::Serialize;
use serde_json::{Value, json};
use squeeze::standing::Report;
use squeeze::{Plan, Slowed};
use std::collections::BTreeSet;
use std::time::Duration;
use units::Span;

/// The flags that every standing squeeze has.
#[derive(Debug, clap::Args)]
pub struct Standing {
    /// How long it lasts; then everything is given back by itself [default: 1h]
    #[arg(long = "for", value_name = "SPAN", value_parser = lasting)]
    pub lasts: Option<Span>,
    /// Print every change with its undo, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Fail, and give everything back, when the measured value is out of its tolerance. Without this flag, both values are printed, and the command fails only
    /// when the measured value is less than half of the value that was asked for (with hidden RAM: also when it is more than twice as much)
    #[arg(long)]
    pub strict: bool,
    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

impl Standing {
    pub fn lasts(&self) -> Span {
        self.lasts.unwrap_or(Span::secs(3600))
    }

    /// Prints a note for a squeeze that exists and is only changed: `--for` does not apply.
    pub fn note_that_its_time_stays(&self, run: &RunId) {
        if self.lasts.is_some() {
            terminal::say(format_args!(
                "note: run {run} ends when it would have ended without this change; for another --for, release it and begin anew"
            ));
        }
    }
}

/// Parses a duration that is long enough, for clap.
pub fn lasting(text: &str) -> Result<Span, String> {
    match text.parse::<Span>() {
        Ok(span) if span.0 < Duration::from_secs(1) => Err("one second is the least".into()),
        other => other.map_err(|error| error.to_string()),
    }
}

#[derive(Debug, clap::Args)]
pub struct Format {
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// The time that a supervisor may take in addition to its own time limit.
const START_SLACK: Duration = Duration::from_secs(30);

/// A squeeze in force, as it is printed.
#[derive(Debug, Serialize)]
pub struct Shown<T> {
    schema: u32,
    pub run: RunId,
    /// The pid of the supervisor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(flatten)]
    pub in_force: T,
    /// The time of the end. `None`: the squeeze was only changed, and its end stays the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

impl<T> Shown<T> {
    pub fn changed(run: &RunId, in_force: T) -> Self {
        Self { schema: 1, run: run.clone(), pid: None, in_force, until: None }
    }
}

impl Shown<Report> {
    /// The same, of the squeeze that the caller has asked for.
    ///
    /// # Errors
    /// It is another squeeze.
    pub fn only<T: TryFrom<Report>>(self) -> Result<Shown<T>, Failure> {
        let Self { schema, run, pid, in_force, until } = self;
        let in_force = T::try_from(in_force).map_err(|_| another_squeeze())?;
        Ok(Shown { schema, run, pid, in_force, until })
    }
}

/// Starts the supervisor, and returns its report. Ctrl-C ends it, and undoes everything that it has changed so far.
pub fn start(places: &Places, words: &Standing, squeeze: Plan, takes: Duration) -> Result<Shown<Report>, Failure> {
    squeeze.resources().first().map_or(Ok(()), |resource| run::require_free(places, resource))?;
    let command = std::iter::once("wringer".to_owned()).chain(command_line().into_iter().skip(1)).collect();
    let order = StandingSqueeze { command, lasts: words.lasts().0, strict: words.strict, squeeze };
    signals::install()?;
    let order = Supervise::Squeeze(Box::new(order));
    let standing = run::supervise::start(places, &order, takes + START_SLACK).map_err(told)?;
    let Supervised::Squeeze(report) = standing.told else { return Err(another_squeeze()) };
    let (run, pid, until) = (standing.run, Some(standing.pid), Some(standing.until));
    Ok(Shown { schema: 1, run, pid, in_force: *report, until })
}

fn another_squeeze() -> Failure {
    Failure::message(Exit::Failed, "the supervisor answers for another squeeze than it was told of")
}

/// A supervisor's error needs neither its name nor the path of its log, which repeats the error; on a full disk there is no log.
pub fn told(error: run::Error) -> Failure {
    match error {
        run::Error::Host(host::Error::Child { why, log, .. }) if log.is_empty() || says_the_same(&log, &why) => {
            // below the end of a server's log, the words would be taken for the log's
            let failure = match why.contains('\n') {
                true => Failure::message(Exit::Failed, &why).hint("everything is undone"),
                false => Failure::message(Exit::Failed, format_args!("{why}; everything is undone")),
            };
            let (out_of_tolerance, full) = (why.contains("was expected (allowed:"), Errno::NOSPC.to_string());
            match () {
                () if out_of_tolerance => failure.hint(BUSY),
                () if why.contains(&full) => failure.hint(NO_ROOM),
                () => failure,
            }
        }
        run::Error::Host(host::Error::Interrupted) => {
            Failure::message(Exit::Interrupted, "interrupted; everything is undone")
        }
        error => error.into(),
    }
}

const NO_ROOM: &str = "set WRINGER_HOME to a folder on a disk that has room: journals are kept there";

fn says_the_same(log: &[String], why: &str) -> bool {
    let first = why.lines().next().unwrap_or_default();
    log.iter().any(|line| line.contains(first))
}

/// Refuses to start anything while an earlier run is not undone.
pub fn refuse_hot(places: &Places, look: &run::Look) -> Outcome {
    run::refuse_hot(&look.runs)?;
    Ok(run::refuse_lost(places, look)?)
}

/// The live runs that slow a target down for all programs.
pub fn slowing(found: &[FoundRun]) -> Vec<(&FoundRun, Slowed)> {
    slowing_or_left(found).into_iter().filter(|(run, _)| run.live).collect()
}

/// The live runs, and also runs whose processes are all dead: without its processes, the delay of a device-mapper device stays, and a layer continues
/// to serve.
pub fn slowing_or_left(found: &[FoundRun]) -> Vec<(&FoundRun, Slowed)> {
    let there = found.iter().filter(|run| run.live || run.hot);
    there.filter_map(|run| Some((run, Slowed::of(run)?))).collect()
}

/// Releases these runs, which are sorted oldest first, and prints the result. The newest is released first, because a newer layer may be mounted below an
/// older one.
pub fn release(places: &Places, runs: &[&FoundRun], output: Output) -> Outcome {
    signals::install()?;
    let mut report = UndoReport::default();
    for found in runs.iter().rev() {
        let progress = &mut |what: &str| terminal::say(format_args!("release {what}"));
        let one = match run::undo(places, Scope::One(found.id.clone()), progress) {
            // it has ended meanwhile
            Err(run::Error::NoSuchRun { .. }) if runs.len() > 1 => continue,
            outcome => outcome?,
        };
        report.ended.extend(one.ended);
        report.restored.extend(one.restored);
        report.conflicts.extend(one.conflicts);
        report.failures.extend(one.failures);
        report.unsure.extend(one.unsure);
        report.untouched.extend(one.untouched);
        report.unknown.extend(one.unknown);
    }
    finish_undo(&report, output)
}

/// Prints a report. Exit code 5 unless everything is restored; 3 when something was left alone because it may belong to a live run.
pub fn finish_undo(report: &UndoReport, output: Output) -> Outcome {
    if output == Output::Json {
        terminal::json(&undo_json(report));
    } else {
        for id in &report.ended {
            let kept = report.conflicts.iter().filter(|conflict| conflict.run == *id).count();
            let what = if kept == 0 { "everything is back" } else { "ended, and not everything is back" };
            terminal::data(format_args!("{id}: {what}"));
        }
        report.aside.iter().for_each(|path| terminal::data(format_args!("its folder is now {}", path.display())));
        report.untouched.iter().for_each(|(id, why)| terminal::data(format_args!("{id}: left alone: {why}")));
        report.unknown.iter().for_each(|(id, why)| terminal::data(format_args!("{id}: left alone, unknown: {why}")));
    }
    if report.is_whole() {
        return report
            .unknown
            .first()
            .map_or(Ok(()), |(id, why)| Err(run::Error::Unknown { id: id.clone(), why: why.clone() }.into()));
    }
    let conflicts = report.conflicts.iter().map(|it| format!("{}: now '{}', set by somebody else", it.step, it.found));
    let unsure = report.unsure.iter().map(|unsure| unsure.why.clone());
    let what: Vec<String> = report.failures.iter().cloned().chain(conflicts).chain(unsure).collect();
    let mut failure =
        Failure::message(Exit::NotRestored, format_args!("the host is not restored: {}", what.join("; ")));
    for conflict in &report.conflicts {
        failure = failure.hint(format!("as root, if that value is not wanted: {}", conflict.repair));
    }
    let mut cures = BTreeSet::new();
    for unsure in &report.unsure {
        failure = unsure.looks.iter().fold(failure, |failure, look| failure.hint(look));
        if cures.insert(&unsure.cure) {
            failure = failure.hint(&unsure.cure);
        }
    }
    if !report.failures.is_empty() {
        failure = failure.hint("stop what is in the way, then `wringer undo` again");
    }
    Err(failure)
}

fn undo_json(report: &UndoReport) -> Value {
    let conflicts = report.conflicts.iter().map(
        |it| json!({ "run": it.run, "step": it.step, "expected": it.expected, "found": it.found, "repair": it.repair }),
    );
    let reasons = |list: &[(RunId, String)]| -> Vec<Value> {
        list.iter().map(|(id, reason)| json!({ "run": id, "reason": reason })).collect()
    };
    let unsure =
        report.unsure.iter().map(|it| json!({ "run": it.run, "why": it.why, "looks": it.looks, "cure": it.cure }));
    json!({
        "schema": 1,
        "ended": report.ended,
        "restored": report.restored,
        "conflicts": conflicts.collect::<Vec<_>>(),
        "failures": report.failures,
        "unsure": unsure.collect::<Vec<_>>(),
        "aside": report.aside,
        "untouched": reasons(&report.untouched),
        "unknown": reasons(&report.unknown),
    })
}

/// Prints a hint when a run was cut off.
pub fn hint_at_hot(any: bool) {
    if any {
        terminal::hint("a run was cut off: `wringer undo` puts the host back");
    }
}

/// One word for the state of a run; `wringer status --help` explains each.
pub fn condition(run: &FoundRun) -> &'static str {
    match run {
        _ if run.hot => "hot",
        _ if run.live => "live",
        _ if run.stale => "stale",
        _ if run.unknown.is_some() => "unknown",
        _ if run.left => "standing",
        _ => "over",
    }
}

pub fn run_json(run: &FoundRun) -> Value {
    let step = |step: &StepState| {
        json!({
            "id": step.id,
            "change": step.change.to_string(),
            "phase": phase(&step.phase),
            "open": step.is_open(),
            "processes": step.processes.iter().map(|it| it.pid).collect::<Vec<_>>(),
        })
    };
    json!({
        "run": run.id,
        "condition": condition(run),
        "kind": run.kind,
        "command": run.command,
        "started": (run.started > 0).then(|| rfc3339(run.started)),
        "age_s": run.age.map(|age| age.as_secs()),
        "resources": run.resources,
        "steps": run.steps.iter().map(step).collect::<Vec<_>>(),
        "processes": run.processes.iter().map(|it| it.pid).collect::<Vec<_>>(),
        "unknown": run.unknown,
        "trouble": run.reading.trouble(),
        "neutralised": run.neutralised,
    })
}

pub fn phase(phase: &Phase) -> &'static str {
    match phase {
        Phase::Intended => "intended",
        Phase::Done => "done",
        Phase::Undoing => "undoing",
        Phase::Undone(_) => "undone",
    }
}

/// `w-...: live, started 12 min ago: wringer ram hide 2G`.
pub fn headline(run: &FoundRun) -> String {
    let by_the_clock = || unix_seconds().saturating_sub(run.started);
    let since = match (run.started, run.age.map_or_else(by_the_clock, |age| age.as_secs())) {
        (0, _) => String::new(),
        (_, 0) => ", just started".to_owned(),
        (_, age) => format!(", started {} ago", Span::secs(age)),
    };
    format!("{}: {}{since}: {}", run.id, condition(run), command_of(run))
}

fn command_of(run: &FoundRun) -> String {
    match (run.command.as_slice(), &run.reading) {
        // its first record did not get onto a full disk, or its controller was killed before
        ([], Reading::Whole(_) | Reading::TornTail(_)) => "its journal is empty: it changed nothing".to_owned(),
        ([], _) => "its command cannot be read".to_owned(),
        (command, _) => command.join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_supervisor_says_is_told_once() {
        let child = |why: &str| {
            let error =
                host::Error::Child { program: "wringer".into(), why: why.into(), log: vec![format!("error: {why}")] };
            told(run::Error::Host(error))
        };
        let one = child("there is no room");
        assert_eq!((one.error.to_string().as_str(), one.hints.len()), ("there is no room; everything is undone", 0));
        let with_log = child("the server ended; the end of its log:\n  Aborting");
        assert!(with_log.error.to_string().ends_with("\n  Aborting"), "{with_log:?}");
        assert_eq!(with_log.hints, ["everything is undone"]);
    }
}
