// SPDX-License-Identifier: Apache-2.0
//! The results of one or several loads: text is printed at once, JSON at the end; assertions are checked.

use super::{Args, Output};
use crate::commands::connection::hint_for;
use crate::commands::verdicts;
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;
use evidence::{Clock, LoadResult, Phase, Verdict};
use host::clock::RunClock;
use load::server_clock::{self, ServerClock};
use load::{Target, summary};
use serde::Serialize;
use serde_json::Value;

pub(super) struct Runs<'a> {
    args: &'a Args,
    /// The text of the workload's file.
    file: Option<&'a str>,
    done: Vec<(LoadResult, Vec<Verdict>, When)>,
}

/// The start of a load on each clock: with it, the load can be compared with the observations of the server's host.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct When {
    /// The zero of the load's own times, on this host's clock.
    started_unix_us: u64,
    /// `None`: the server was not asked, or did not tell.
    server_clock: Option<ServerClock>,
}

impl When {
    /// `ask`: ask the server for its clock, too.
    pub(super) fn of(clock: RunClock, target: &Target, ask: bool) -> Self {
        let server_clock = ask.then(|| server_clock::measure(target).ok()).flatten();
        Self { started_unix_us: clock.started_unix_us(), server_clock }
    }
}

impl<'a> Runs<'a> {
    pub(super) fn new(args: &'a Args, file: Option<&'a str>) -> Self {
        Self { args, file, done: Vec::new() }
    }

    pub(super) fn add(&mut self, result: LoadResult, when: When) {
        let args = self.args;
        let verdicts: Vec<Verdict> = args.assertions.iter().map(|assertion| assertion.judge(&result)).collect();
        match args.output {
            Output::Text => {
                terminal::data(summary::text(&result, &args.percentile, args.histogram));
                if !verdicts.is_empty() {
                    terminal::data(assertion::text(&verdicts));
                }
                if self.is_a_series() {
                    terminal::data("");
                }
            }
            Output::Sysbench => {
                terminal::data(summary::sysbench(&result, &args.percentile, args.histogram));
                summary::unended(&result.measured).into_iter().for_each(terminal::say);
                if !verdicts.is_empty() {
                    terminal::say(assertion::text(&verdicts));
                }
            }
            Output::Json => {}
        }
        self.done.push((result, verdicts, when));
    }

    /// Output that needs all results: the table of a series, or the JSON.
    pub(super) fn end(&self) {
        let percentiles = &self.args.percentile;
        match self.args.output {
            Output::Text if self.is_a_series() && !self.done.is_empty() => {
                let results: Vec<&LoadResult> = self.done.iter().map(|(result, ..)| result).collect();
                terminal::data(summary::series(&results, percentiles));
            }
            Output::Json => {
                let mut runs: Vec<Run<'_>> = self
                    .done
                    .iter()
                    .map(|(result, verdicts, when)| Run::new(result, verdicts, *when, percentiles))
                    .collect();
                let figures = match (self.is_a_series(), runs.len()) {
                    (false, 1) => Figures::One(Box::new(runs.remove(0))),
                    (false, _) => return,
                    (true, _) => Figures::Series { runs },
                };
                terminal::json(&Document::new(figures, self.file));
            }
            Output::Text | Output::Sysbench => {}
        }
    }

    /// # Errors
    /// Exit code 4: no transaction was completed. Exit code 1: an assertion failed.
    pub(super) fn verdict(&self) -> Outcome {
        if let Some((result, ..)) = self.done.iter().find(|(result, ..)| came_to_nothing(&result.measured)) {
            return Err(nothing_done(result, self.is_a_series()));
        }
        let judged = self.done.iter().flat_map(|(result, verdicts, _)| {
            let with = match self.is_a_series() {
                true => format!(" with {} connections", result.connections),
                false => String::new(),
            };
            verdicts.iter().map(move |verdict| (with.clone(), verdict))
        });
        verdicts::outcome(judged)
    }

    fn is_a_series(&self) -> bool {
        self.args.threads.len() > 1
    }
}

/// Every attempt failed: a script must not take that for a load.
fn came_to_nothing(phase: &Phase) -> bool {
    phase.transactions == 0 && !phase.errors.is_empty()
}

fn nothing_done(result: &LoadResult, in_a_series: bool) -> Failure {
    let phase = &result.measured;
    let with = if in_a_series { format!(" with {} connections", result.connections) } else { String::new() };
    let most = phase.errors.iter().max_by_key(|(_, count)| **count);
    let (code, count) = most.map_or(("", 0), |(code, count)| (code.as_str(), *count));
    let words = phase.error_messages.get(code).map_or_else(String::new, |words| format!(": {words}"));
    let message = format!("no transaction was completed{with}; {count} x {code}{words}");
    let failure = Failure::message(Exit::Failed, message);
    match hint_for(code) {
        "" => failure,
        hint => failure.hint(hint),
    }
}

/// The JSON output.
#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    tool: String,
    command: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workload_file: Option<&'a str>,
    #[serde(flatten)]
    figures: Figures<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Figures<'a> {
    One(Box<Run<'a>>),
    Series { runs: Vec<Run<'a>> },
}

/// `load` is complete; the figures before it are a summary for people and for `jq`.
#[derive(Serialize)]
struct Run<'a> {
    connections: u32,
    queries_per_second: Option<f64>,
    transactions_per_second: Option<f64>,
    #[serde(flatten)]
    when: When,
    response: Vec<Percentile>,
    service: Vec<Percentile>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    assertions: Vec<Value>,
    load: &'a LoadResult,
}

#[derive(Serialize)]
struct Percentile {
    percentile: f64,
    latency_us: f64,
    /// The true percentile may be higher: transactions were due that had not ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    at_least: bool,
}

impl<'a> Document<'a> {
    fn new(figures: Figures<'a>, workload_file: Option<&'a str>) -> Self {
        Self {
            schema: 1,
            tool: format!("wringer {}", env!("CARGO_PKG_VERSION")),
            command: crate::commands::command_line(),
            workload_file,
            figures,
        }
    }
}

impl<'a> Run<'a> {
    fn new(load: &'a LoadResult, verdicts: &[Verdict], when: When, percentiles: &[f64]) -> Self {
        let measured = &load.measured;
        let read = |clock: Clock| {
            let times = measured.times(clock);
            let at = |p: &f64| {
                let time = times.percentile(*p);
                Percentile { percentile: *p, latency_us: time.us(), at_least: time.is_at_least() }
            };
            percentiles.iter().map(at).collect()
        };
        Self {
            connections: load.connections,
            queries_per_second: measured.queries_per_second(),
            transactions_per_second: measured.transactions_per_second(),
            when,
            response: read(Clock::Response),
            service: read(Clock::Service),
            assertions: verdicts.iter().map(Verdict::json).collect(),
            load,
        }
    }
}
