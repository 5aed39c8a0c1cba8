// SPDX-License-Identifier: Apache-2.0
//! `wringer ram`: hide RAM from the whole host for a stated time.

use super::standing::{self, Format, Output, Standing};
use crate::exit::{Exit, Failure, Outcome};
use crate::internal::Squeeze;
use crate::terminal;
use clap::Subcommand;
use host::places::Places;
use serde_json::{Value, json};
use squeeze::ram::{Amount, Options, Plan, plan};
use squeeze::{Meminfo, databases};
use units::{Bytes, Span};

#[derive(Debug, clap::Args)]
#[command(after_help = "How does this host's database behave with 8 GiB?\n  \
    sudo wringer ram leave 8G --dry-run\n  \
    sudo wringer ram leave 8G --for 30m\n  \
    wringer ram status\n  \
    sudo wringer ram release\n\n\
    A process reserves huge pages without touching them: they are gone for everybody else at once, and back as soon as that \
    process ends, also after a crash. Under memory pressure the kernel ends that process before any database. MemTotal stays, \
    MemAvailable falls. At least 1 GiB or 5 % of RAM is always left.")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Take this much RAM away from the host
    Hide(Squeezed),
    /// Take so much RAM away that this much is available
    Leave(Squeezed),
    /// How much is hidden, by whom, and what is left
    Status(Format),
    /// Give the hidden RAM back
    Release(Format),
}

#[derive(Debug, clap::Args)]
struct Squeezed {
    /// 512M, 4G, ... in powers of 1024
    size: Bytes,
    #[command(flatten)]
    standing: Standing,
    /// Drop the page cache of the whole host first: faster on a full cache, and felt by everybody
    #[arg(long)]
    drop_caches: bool,
    /// How long the kernel may take to make room
    #[arg(long, value_name = "SPAN", default_value = "60s")]
    deadline: Span,
    /// Go on although this host has swap
    #[arg(long)]
    with_swap: bool,
    /// Yes, although a database that is not Wringer's runs here
    #[arg(short, long)]
    yes: bool,
}

pub fn main(args: Args) -> Outcome {
    let places = Places::from_environment();
    match args.command {
        Command::Hide(args) => squeeze(&places, &args, Amount::Hide(args.size)),
        Command::Leave(args) => squeeze(&places, &args, Amount::Leave(args.size)),
        Command::Status(format) => status(&places, format.output),
        Command::Release(format) => release(&places, format.output),
    }
}

fn squeeze(places: &Places, args: &Squeezed, amount: Amount) -> Outcome {
    let found = run::find_runs(places)?;
    if !args.standing.dry_run {
        standing::refuse_hot(&found)?;
        refuse_second(&found)?;
    }
    let options =
        Options { amount, drop_caches: args.drop_caches, deadline: args.deadline.0, with_swap: args.with_swap };
    let plan = plan(&options)?;
    plan.warnings.iter().for_each(|warning| terminal::say(format_args!("warning: {warning}")));
    if args.standing.dry_run {
        return dry_run(&plan, args.standing.output);
    }
    if plan.is_nothing() {
        return nothing(&plan, args.standing.output);
    }
    ask_consent(places, args.yes)?;
    let spinner = terminal::spinner(&format!("hiding {}", Bytes(plan.hide_bytes)));
    let result = standing::start(places, args.standing.lasts, Squeeze::Ram(plan), args.deadline.0);
    spinner.finish_and_clear();
    show(&result?, args.standing.output);
    Ok(())
}

fn refuse_second(found: &[run::FoundRun]) -> Outcome {
    let hiding = standing::hiding_ram(found);
    let Some(run) = hiding.first() else { return Ok(()) };
    Err(Failure::message(Exit::Missing, format_args!("the host's RAM is held by run {}", run.id))
        .hint("`wringer ram release` gives it back, `wringer ram status` shows it"))
}

pub fn ask_consent(places: &Places, yes: bool) -> Outcome {
    let databases = databases::unknown(places)?;
    if yes || databases.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = databases.iter().map(|it| format!("{} (process {})", it.program, it.pid)).collect();
    Err(Failure::message(
        Exit::Missing,
        format_args!("not Wringer's, and would suffer with the host: {}", names.join(", ")),
    )
    .hint("--yes, if they may; or limit one server alone: squeeze.server-ram in an experiment"))
}

fn dry_run(plan: &Plan, output: Output) -> Outcome {
    if output == Output::Json {
        terminal::data(format_args!(
            "{:#}",
            json!({ "schema": 1, "dry_run": true, "plan": plan, "changes": plan.changes() })
        ));
        return Ok(());
    }
    if plan.is_nothing() {
        terminal::data(format_args!("nothing to hide: {} are available", Bytes(plan.before.available_bytes)));
    }
    for change in plan.changes() {
        terminal::data(format_args!("{}\n    undo: {}", change.change, change.undo));
    }
    Ok(())
}

fn nothing(plan: &Plan, output: Output) -> Outcome {
    if output == Output::Json {
        let available = plan.before.available_bytes;
        let value = json!({ "schema": 1, "run": null, "hidden_bytes": 0, "available_before_bytes": available,
            "available_after_bytes": available, "measured": [], "until": null });
        terminal::data(format_args!("{value:#}"));
    } else {
        terminal::data(format_args!(
            "nothing to hide: {} are available, no more than asked for",
            Bytes(plan.before.available_bytes)
        ));
    }
    Ok(())
}

fn show(value: &Value, output: Output) {
    if output == Output::Json {
        return terminal::data(format_args!("{value:#}"));
    }
    let bytes = |name: &str| Bytes(value[name].as_u64().unwrap_or(0));
    let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
    terminal::data(format_args!(
        "{} hidden in {} (run {})",
        bytes("hidden_bytes"),
        Span::micros(value["holder"]["elapsed_us"].as_u64().unwrap_or(0)),
        text("run")
    ));
    terminal::data(format_args!(
        "available: {} before, {} now",
        bytes("available_before_bytes"),
        bytes("available_after_bytes")
    ));
    terminal::say(format_args!("until {}; `wringer ram release` gives it back", text("until")));
}

fn status(places: &Places, output: Output) -> Outcome {
    let found = run::find_runs(places)?;
    let hiding = standing::hiding_ram(&found);
    let meminfo = Meminfo::now()?;
    let reserved = meminfo.huge_reserved_pages * meminfo.huge_page_bytes;
    if output == Output::Json {
        let runs: Vec<Value> = hiding.iter().map(|run| standing::run_json(run)).collect();
        terminal::data(format_args!(
            "{:#}",
            json!({ "schema": 1, "runs": runs, "reserved_bytes": reserved, "memory": meminfo })
        ));
        return Ok(());
    }
    hiding.iter().for_each(|run| terminal::data(standing::headline(run)));
    if hiding.is_empty() {
        terminal::data("no RAM is hidden by Wringer");
    }
    terminal::data(format_args!(
        "RAM {}, available {}, reserved in huge pages {}",
        Bytes(meminfo.total_bytes),
        Bytes(meminfo.available_bytes),
        Bytes(reserved)
    ));
    Ok(())
}

fn release(places: &Places, output: Output) -> Outcome {
    let found = run::find_runs(places)?;
    let hiding: Vec<_> =
        standing::hiding_ram(&found).into_iter().filter(|run| run.kind == Some(run::Kind::Standing)).collect();
    if hiding.is_empty() {
        standing::refuse_hot(&found)?;
        terminal::say("no RAM is hidden by a standing squeeze");
    }
    standing::release(places, &hiding, output)
}
