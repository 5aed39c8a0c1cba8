// SPDX-License-Identifier: Apache-2.0
//! `wringer stalls inject`: a stall of a known cause, length and moment, in a sandbox, and a witness that says whether it took effect.

mod planned_stalls;
mod recorded;
mod show;

use crate::commands::connection::Connection;
use crate::exit::{Exit, Failure, Outcome};
use crate::signals;
use crate::terminal::{self, Output};
use ::inject::{Conducted, Error, Ground, Injected, Plantable};
use ::run::{Begin, Kind, Resource, Run};
use ::sandbox::Sandbox;
use host::places::Places;
use planned_stalls::PlannedStalls;
use recorded::Recorded;
use serde_json::json;

/// Make a stall of a known cause and length happen in a sandbox, and check whether it took effect
///
/// A tool that looks for stalls should find all that are there, and no others. To test such a tool, this command makes stalls whose cause, moment and
/// length are known. row_lock: a connection of this command holds rows of a table. metadata_lock: the connection holds the whole table. disk_reads, sync: the
/// slow layer over the data directory answers no read, or no sync, until the stall is over. cpu: the server's CPU cgroup gets almost no CPU
/// time. free_list_backoff: a connection reads a table that is larger than XtraDB's buffer pool. `--list` says which causes a sandbox can
/// have, and why it cannot have the others. For each stall a witness says whether it took effect: another connection that waits for the same
/// thing, the counters of the slow layer, or the kernel's. Every stall ends with this command, also when the command is killed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    # the causes disk_reads, sync and cpu need a sandbox that was started so\n  \
    wringer sandbox restart pears --disk read=0 --cpus 2\n  \
    wringer stalls inject --list --sandbox pears\n  \
    wringer stalls inject --sandbox pears --cause row_lock --length 400ms --at 2s -o json\n  \
    wringer stalls inject --sandbox pears --plan random --seed 7 --count 20 --length 20ms..2s \\\n  \
      --causes row_lock,metadata_lock --for 60s\n  \
    # what was planted, and what a watch saw of it, in one recording\n  \
    wringer stalls inject --sandbox pears --cause row_lock --length 400ms --to out \\\n    && wringer stalls explain out\n\n\
    Exit codes: 0 done; 1 with --strict, if a stall took no effect; 2 usage, or the plan does not fit into its time; 3 outside of a sandbox, if the sandbox cannot have such a stall, \
    or if another run plants stalls in it; 4 the server ended meanwhile; 130 interrupted.\n\n\
    More: docs/stalls-inject.md, or `wringer doc stalls-inject`.")]
pub struct Args {
    #[command(flatten)]
    asked: planned_stalls::Flags,
    /// The table that row_lock and metadata_lock hold, and that free_list_backoff reads [default: sbtest1 or pgbench_accounts; without them, a
    /// table that is made for this, and dropped at the end]
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// Print which causes can be made, by which means, and why others cannot; with --sandbox, in that sandbox
    #[arg(long, conflicts_with_all = ["cause", "plan"])]
    list: bool,
    /// Print the plan, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Exit code 1 if a stall took no effect
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    to: recorded::To,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

pub fn main(args: &Args) -> Outcome {
    let places = Places::from_environment();
    if args.list {
        return list(args, &places);
    }
    let asked = args.asked.asked()?;
    if args.dry_run {
        asked.causes().try_for_each(inject::check_cause).map_err(failure)?;
        show_plan(args, &asked);
        return Ok(());
    }
    let ground = ground(args, &places)?;
    ground.check(asked.causes()).map_err(failure)?;
    ground.note().iter().for_each(|note| terminal::say(format_args!("note: {note}")));
    ::run::require_free(&places, &planting(args))?;
    let recorded = args.to.start(&args.connection, &places)?;
    inject(args, &asked, &ground, places, recorded)
}

fn list(args: &Args, places: &Places) -> Outcome {
    let causes = match args.connection.named_sandbox() {
        Some(_) => ground(args, places)?.list(),
        None => Plantable::anywhere(),
    };
    match args.output {
        Output::Json => terminal::json(&json!({ "schema": 1, "causes": causes })),
        Output::Text => terminal::data(show::causes(&causes).trim_end()),
    }
    Ok(())
}

fn show_plan(args: &Args, asked: &PlannedStalls) {
    match args.output {
        Output::Json => terminal::json(&json!({ "schema": 1, "seed": asked.seed, "plan": asked.plan })),
        Output::Text => terminal::data(show::plan(&asked.plan).trim_end()),
    }
}

/// # Errors
/// Exit code 3: the name is no sandbox, or its server does not run.
fn ground(args: &Args, places: &Places) -> Result<Ground, Failure> {
    let name = args.connection.named_sandbox().ok_or_else(|| {
        Failure::message(Exit::Missing, "a stall is made only in a sandbox: others may work with any other server")
            .hint("`--sandbox NAME`; `wringer sandbox list` has the names, `wringer sandbox deploy` makes one")
    })?;
    let sandbox = Sandbox::open_running(name, places)?;
    let target = args.connection.target()?;
    Ground::look(sandbox, target, args.table.as_deref(), places).map_err(failure)
}

/// Only one run at a time plants stalls in a sandbox: each of two would end the other's locks, and drop its table.
fn planting(args: &Args) -> Resource {
    Resource::Injection(args.connection.named_sandbox().unwrap_or_default().to_owned())
}

fn inject(args: &Args, asked: &PlannedStalls, ground: &Ground, places: Places, recorded: Option<Recorded>) -> Outcome {
    signals::install()?;
    // the typed command line is not stored, because flags of a connection may contain a password
    let sandbox = args.connection.named_sandbox().unwrap_or_default();
    let command = ["wringer", "stalls", "inject", "--sandbox", sandbox].map(str::to_owned).to_vec();
    // the run does not take the sandbox's lock: its server holds it
    let begin = Begin { kind: Kind::Run, command, resources: vec![planting(args)], places };
    let run = Run::begin(begin)?;
    let told = |injected: &Injected| {
        if args.output == Output::Text {
            terminal::data(show::injected(injected));
        }
    };
    let conduct = |told: &(dyn Fn(&Injected) + Sync)| ::inject::conduct(run, ground, &asked.plan, asked.rows, told);
    let (conducted, recording) = match recorded {
        Some(recorded) => recorded.beside(conduct, &told),
        None => (conduct(&told), Ok(())),
    };
    let (conducted, run) = conducted.map_err(failure)?;
    let released = run.release()?;
    if args.output == Output::Json {
        let Conducted { injections, zero_us, server_ended, .. } = &conducted;
        terminal::json(&json!({
            "schema": 1,
            "sandbox": args.connection.named_sandbox(),
            "seed": asked.seed,
            "zero_us": zero_us,
            "server_ended": server_ended,
            "injections": injections,
        }));
    }
    if let Some(conflict) = released.conflicts.first() {
        let message = format!("{}: now '{}', set by somebody else", conflict.step, conflict.found);
        return Err(Failure::message(Exit::NotRestored, message).hint(&conflict.repair));
    }
    judged(args, asked, &conducted)?;
    recording
}

fn judged(args: &Args, asked: &PlannedStalls, conducted: &Conducted) -> Outcome {
    if conducted.was_interrupted {
        return Err(Failure::message(Exit::Interrupted, "interrupted; nothing is held any more"));
    }
    if conducted.server_ended {
        let log = args.connection.named_sandbox().unwrap_or_default();
        return Err(Failure::message(Exit::Failed, "the server ended meanwhile")
            .hint(format!("`wringer sandbox log {log}` has its last words")));
    }
    let bitten = conducted.injections.iter().filter(|it| it.bit == Some(true)).count();
    if args.strict && bitten < asked.plan.len() {
        let message = format!("{bitten} of {} took effect: --strict", asked.plan.len());
        return Err(Failure::message(Exit::Finding, message));
    }
    Ok(())
}

fn failure(error: Error) -> Failure {
    match error {
        Error::Refused { what, hint } => Failure::message(Exit::Missing, what).hint(hint),
        Error::Server(error) => crate::commands::connection::server_failure(error),
        Error::Sandbox(error) => error.into(),
        Error::Run(error) => error.into(),
        Error::Host(error) => error.into(),
        Error::Layer(error) => error.into(),
        error @ Error::Thread(_) => error.into(),
    }
}
