// SPDX-License-Identifier: Apache-2.0
//! `wringer stalls reproduce`: an annex of the article, run here.

mod article;
mod file;
mod measured;
mod predict;
mod shown;
mod views;
mod why;

use crate::commands::plan;
use crate::commands::run::{RECORDING, Ready, RunArguments, refuse_missed, show_report};
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;
use article::Figures;
use capability::Algorithm;
use experiment::Experiment;
use file::Annex;
use host::places::Places;
use measured::Measurement;
use predict::{Host, Prediction};
use recording::Recording;
use sandbox::Request;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use units::Span;

/// The name of the predictions among the recording's files.
const PREDICTIONS: &str = "predictions.json";

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The annexes of \"Tail Latencies in Percona Server because of InnoDB Stalls on Empty Free List\" (2022) are ready files: \
    `wringer examples article-4-annex-3` and `-5`. This command runs one on MariaDB 10.1, which has Percona's XtraDB with the algorithm `backoff`, or on a \
    Percona Server that you unpacked. The predictions are made, and written into the recording, before the server starts.\n\n\
    Examples:\n  \
    # print the predictions and the plan; change nothing\n  \
    wringer stalls reproduce annex-3 --dry-run\n  \
    # both algorithms, two seconds each, half a minute in all\n  \
    wringer stalls reproduce annex-3 --quick\n  \
    # the whole annex, in about eight minutes\n  \
    wringer stalls reproduce annex-5 --to out\n  \
    wringer stalls reproduce annex-3 --server percona@8.0 -o json \\\n    | jq '.arms[] | [.arm, .measured.figures.first_max_us]'\n\n\
    Exit codes: 0 done; 2 the annex makes no sense with this server; 3 the server is missing, or something is in the way; 4 the run broke off, everything given back.\n\n\
    How to read the table: docs/stalls-reproduce.md, or `wringer doc stalls-reproduce`."
)]
pub(super) struct Args {
    /// Which annex
    #[arg(value_enum)]
    annex: Annex,
    /// Predictions and plan only; nothing is changed
    #[arg(long)]
    dry_run: bool,
    /// Only the arms that take seconds, once, on half of the table; of annex 3 with innodb_lru_scan_depth = 128 in place of 512
    #[arg(long)]
    quick: bool,
    /// A server that has the algorithm `backoff`, instead of MariaDB 10.1
    #[arg(long, value_name = "SERVER@VERSION")]
    server: Option<Request>,
    /// Folder for recording, result and report [default: a new one below Wringer's recordings]
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
    /// Replace the results of an earlier run in that folder
    #[arg(long)]
    force: bool,
    /// For the prediction before the run: time of a query on this host that waits for no page, with its reads. After the run a second prediction uses the
    /// time that a query took in the arms with `legacy`
    #[arg(long, value_name = "TIME", default_value = "60us")]
    service_time: Span,
    /// For the prediction: by how much a sleep on this host is longer than asked for [default: measured before the run, by 20 sleeps of 10 ms]
    #[arg(long, value_name = "TIME")]
    sleep_overhead: Option<Span>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = terminal::Output::Text)]
    output: terminal::Output,
}

/// The figures of one arm, to be shown side by side.
#[derive(Debug, Serialize)]
struct Row {
    arm: String,
    /// `None`: the article has no experiment like this arm.
    article: Option<Figures>,
    /// The prediction for the article's server and host.
    article_server: Prediction,
    /// The prediction for this server, made before the server ran.
    here: Prediction,
    /// The same prediction with the time that a query took in the arms with `legacy`; so it is made after the run. No other value in it was measured.
    /// `None`: these arms do not tell that time, because the load sends its queries at times of its own.
    here_by_legacy: Option<Prediction>,
    /// `None`: the arm did not run.
    measured: Option<Measurement>,
}

/// # Errors
/// Exit codes as the help says.
pub(super) fn main(args: &Args) -> Outcome {
    let (text, experiment) = file::read(args.annex, args.server.as_ref(), args.quick)?;
    let theirs = Host::of_the_article()?;
    let sleep_overhead = args.sleep_overhead.unwrap_or_else(measured_overhead);
    let ours = Host::here(&experiment, args.service_time, sleep_overhead)?;
    let mut rows = predicted(&experiment, theirs, ours)?;
    let file = PathBuf::from(format!("{}.toml", args.annex.example()));
    if args.dry_run {
        return dry_run(args, &file, &experiment, &rows);
    }
    let asked = RunArguments { to: args.to.as_deref(), force: args.force, ..RunArguments::default() };
    let mut ready = Ready::look(&file, text, &experiment, &asked)?;
    let predictions = serde_json::to_string(&rows).map_err(|error| Failure::new(Exit::Failed, error))?;
    ready.cell.files.push((PREDICTIONS.to_owned(), predictions));
    let walked = ready.walk();
    let path = ready.output.path(RECORDING);
    let mut why = Vec::new();
    if path.exists() {
        let evidence = Recording::read_for(&path, |_| false)?;
        for row in &mut rows {
            row.measured = measured::of_arm(&evidence, &row.arm);
        }
        predict_again(&experiment, ours, &mut rows)?;
        why.extend(why::another_server(ours.server, &evidence.conditions.server.version));
    }
    why.extend(why::sentences(theirs.server, ours.server, &rows));
    match args.output {
        terminal::Output::Json => terminal::json(&serde_json::json!({
            "schema": 1,
            "experiment": experiment.name,
            "recording": path,
            "arms": rows,
            "why": why,
        })),
        terminal::Output::Text => terminal::data(text_of(&rows, &why).trim_end()),
    }
    show_report(&ready.output)?;
    refuse_missed(&walked?)
}

fn predicted(experiment: &Experiment, theirs: Host, ours: Host) -> Result<Vec<Row>, Failure> {
    let row = |arm: &experiment::Arm| {
        Ok(Row {
            arm: arm.name.clone(),
            article: article::printed(&arm.name),
            article_server: theirs.predict(experiment, arm)?,
            here: ours.predict(experiment, arm)?,
            here_by_legacy: None,
            measured: None,
        })
    };
    experiment.arms.iter().map(row).collect()
}

/// By how much a sleep of 10 ms takes longer than asked for, on average: most of a stall is spent in such sleeps.
fn measured_overhead() -> Span {
    const ASKED: Duration = Duration::from_millis(10);
    const TIMES: u32 = 20;
    let began = Instant::now();
    (0..TIMES).for_each(|_| std::thread::sleep(ASKED));
    Span((began.elapsed() / TIMES).saturating_sub(ASKED))
}

/// Predicts the arms with `backoff` once more, with the time that a query took in the arms where no query waits for a page.
fn predict_again(experiment: &Experiment, ours: Host, rows: &mut [Row]) -> Result<(), Failure> {
    let loads = experiment.arms.iter().zip(&*rows);
    let services: Vec<f64> = loads.filter_map(|(arm, row)| predict::service_us(arm, row.measured.as_ref()?)).collect();
    if services.is_empty() {
        return Ok(());
    }
    let service_us = services.iter().sum::<f64>() / services.len() as f64;
    let service_from = Some("clients divided by the queries a second that the arms with legacy had");
    let host = Host { service: Span(Duration::from_secs_f64(service_us / 1e6)), service_from, ..ours };
    for (arm, row) in experiment.arms.iter().zip(rows) {
        if row.measured.is_some() && predict::algorithm(ours.server, arm) == Algorithm::Backoff {
            row.here_by_legacy = Some(host.predict(experiment, arm)?);
        }
    }
    Ok(())
}

fn dry_run(args: &Args, file: &Path, experiment: &Experiment, rows: &[Row]) -> Outcome {
    let places = Places::from_environment();
    let facts = plan::host_facts(experiment, &places);
    let plan = experiment::plan(experiment, &facts);
    match args.output {
        terminal::Output::Json => {
            terminal::json(
                &serde_json::json!({ "schema": 1, "experiment": experiment.name, "arms": rows, "plan": plan }),
            );
        }
        terminal::Output::Text => {
            terminal::data(shown::table(rows).trim_end());
            terminal::data("");
            terminal::data(plan::as_text(&plan).trim_end());
        }
    }
    plan::refuse_blocked(file, &plan)
}

fn text_of(rows: &[Row], why: &[String]) -> String {
    let mut out = shown::table(rows);
    let views = shown::views(rows);
    if !views.is_empty() {
        out.push('\n');
        out.push_str(&views);
    }
    out.push_str("\nwhy they differ\n");
    why.iter().for_each(|sentence| out.push_str(&format!("  {sentence}\n")));
    out
}
