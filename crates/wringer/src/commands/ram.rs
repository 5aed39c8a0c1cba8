// SPDX-License-Identifier: Apache-2.0
//! `wringer ram`: hide RAM from the whole host for a stated time.

use super::hidden;
use super::probe::refuse;
use super::standing::{self, Format, Output, Shown, Standing};
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;
use ::probe::target::Target;
use ::probe::{Round, Verdict, scan};
use clap::builder::PossibleValue;
use clap::{Subcommand, ValueEnum};
use evidence::{RamAmount, RamMechanism};
use host::places::Places;
use serde::Serialize;
use serde_json::{Value, json};
use squeeze::ram::{Options, Plan, Traits, persist, plan};
use squeeze::standing::HiddenRam;
use squeeze::{Meminfo, databases};
use std::path::PathBuf;
use units::{Bytes, Span, counted};

#[derive(Debug, clap::Args)]
#[command(after_help = "How does this host's database behave with 8 GiB?\n  \
    sudo wringer ram leave 8G --dry-run\n  \
    sudo wringer ram leave 8G --for 30m\n  \
    wringer ram status\n  \
    sudo wringer ram release\n\n\
    A process reserves huge pages without touching them: they are gone for everybody else at once, and back as soon as that \
    process ends, also after a crash. Under memory pressure the kernel ends that process before any database. MemTotal stays, \
    MemAvailable falls. At least 1 GiB or 5 % of RAM is always left.\n\n\
    Other mechanisms, and in what they differ: --mechanism, docs/ram.md, or `wringer doc ram`.")]
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
    /// How much RAM is hidden, by which run, and how much is left
    Status(Format),
    /// Give the hidden RAM back
    Release(Format),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    sudo wringer ram hide 4G --for 30m\n  \
    # what would be changed, and how it is undone\n  \
    sudo wringer ram leave 8G --dry-run\n  \
    # prove it with a file that is larger than the RAM that is left\n  \
    sudo wringer ram leave 2G --for 10m --verify /srv/large-file")]
struct Squeezed {
    /// 512M, 4G, ... in powers of 1024
    size: Bytes,
    #[command(flatten)]
    standing: Standing,
    /// Drop the page cache of the whole host first: this is faster when the cache is full, and slows every program on the host
    #[arg(long)]
    drop_caches: bool,
    /// How long the kernel may take to make room
    #[arg(long, value_name = "SPAN", default_value = "60s")]
    deadline: Span,
    /// Go on although this host has swap
    #[arg(long)]
    with_swap: bool,
    /// The mechanism that takes the RAM away: auto takes the holder, or the balloon without root or without huge pages
    #[arg(long, value_enum, default_value_t = Wanted::AUTO)]
    mechanism: Wanted,
    /// Check that the RAM is really gone: when it is hidden, read FILE twice. The second reading must not be faster than the first. FILE must be larger
    /// than the RAM that is left
    #[arg(long, value_name = "FILE")]
    verify: Option<PathBuf>,
    /// Print the lines that would hide the same amount at each boot; hide nothing, and write no file
    #[arg(long, conflicts_with_all = ["verify", "dry_run"])]
    persist: bool,
    /// Hide RAM although a database runs here that this WRINGER_HOME did not start
    #[arg(short, long)]
    yes: bool,
}

/// `--mechanism`. `None`: what this machine allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted(pub Option<RamMechanism>);

impl Wanted {
    pub const AUTO: Self = Self(None);
}

impl ValueEnum for Wanted {
    fn value_variants<'a>() -> &'a [Self] {
        const { &[Self(None), of(0), of(1), of(2), of(3)] }
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self.0 {
            None => "What this machine allows",
            Some(RamMechanism::Holder) => "A process that reserves huge pages and touches none",
            Some(RamMechanism::Pool) => {
                "Pages of the huge-page pool, held by nobody: they stay when all of Wringer is killed, until `wringer undo` or a reboot"
            }
            Some(RamMechanism::Offline) => "Memory blocks taken offline: MemTotal shrinks; they stay, as the pool does",
            Some(RamMechanism::Balloon) => "A process that touches memory of its own: without root, and in containers",
        };
        Some(PossibleValue::new(self.0.map_or("auto", RamMechanism::name)).help(help))
    }
}

/// The mechanism of this number.
const fn of(number: usize) -> Wanted {
    Wanted(Some(RamMechanism::ALL[number]))
}

pub fn main(args: Args) -> Outcome {
    let places = Places::from_environment();
    match args.command {
        Command::Hide(args) => squeeze(&places, &args, RamAmount::Hide(args.size)),
        Command::Leave(args) => squeeze(&places, &args, RamAmount::Leave(args.size)),
        Command::Status(format) => status(&places, format.output),
        Command::Release(format) => release(&places, format.output),
    }
}

fn squeeze(places: &Places, args: &Squeezed, amount: RamAmount) -> Outcome {
    let look = run::Look::take(places)?;
    let found = &look.runs;
    if !args.standing.dry_run && !args.persist {
        standing::refuse_hot(places, &look)?;
        refuse_second(found)?;
    }
    let options = Options {
        drop_caches: args.drop_caches,
        deadline: args.deadline.0,
        with_swap: args.with_swap,
        mechanism: args.mechanism.0,
        strict: args.standing.strict,
        ..Options::new(amount)
    };
    let plan = plan(&options)?;
    plan.warnings.iter().for_each(|warning| terminal::say(format_args!("warning: {warning}")));
    if args.standing.dry_run {
        dry_run(&plan, args.standing.output);
        return Ok(());
    }
    if args.persist {
        return persist(&plan, args.standing.output);
    }
    if plan.is_nothing() {
        nothing(&plan, args.standing.output);
        return Ok(());
    }
    ask_consent(places, args.yes)?;
    let verify = args.verify.as_deref().map(Target::open).transpose().map_err(refuse)?;
    let spinner = terminal::spinner(&format!("hiding {}", Bytes(plan.hide_bytes)));
    let result = standing::start(places, &args.standing, squeeze::Plan::Ram(Box::new(plan)), args.deadline.0);
    spinner.finish_and_clear();
    let result = result?.only()?;
    // The RAM is hidden; a failed check does not undo it.
    let warn = |target: &Target, failure: Failure| {
        let path = target.path.display();
        terminal::say(format_args!("warning: {path} was not read twice: {:#}", failure.error));
    };
    let read = verify.and_then(|target| reread(&target).map_err(|failure| warn(&target, failure)).ok());
    show(&result, read, args.standing.output);
    Ok(())
}

/// `--verify`.
#[derive(Serialize)]
struct Reread {
    path: String,
    size_bytes: u64,
    rounds: Vec<Round>,
    verdict: Verdict,
    verdict_text: String,
}

/// Reads a file twice: when it is larger than the remaining RAM, the second read must not be faster.
fn reread(target: &Target) -> Result<Reread, Failure> {
    let bar = terminal::bar(target.size_bytes * 2, "reading it twice");
    let options = scan::Options { rounds: 2, block_bytes: 128 << 10, evict: true };
    let read = scan::scan(&target.file, &target.path, &options, &mut |bytes| bar.set_position(bytes));
    bar.finish_and_clear();
    let scan::Scan { rounds, verdict, .. } = read?;
    let (path, verdict_text) = (target.path.to_string_lossy().into_owned(), verdict.to_string());
    Ok(Reread { path, size_bytes: target.size_bytes, rounds, verdict, verdict_text })
}

fn persist(plan: &Plan, output: Output) -> Outcome {
    let lines = persist::lines(plan, Meminfo::now()?.huge_total_pages);
    if output == Output::Json {
        terminal::json(&json!({ "schema": 1, "persist": lines }));
        return Ok(());
    }
    terminal::data(format_args!(
        "to hide {} at each boot, one of these (nothing was changed):",
        Bytes(plan.hide_bytes)
    ));
    for line in lines {
        terminal::data(format_args!(
            "\n{}\n    in {}\n    {}\n    undo: {}",
            line.line, line.place, line.note, line.undo
        ));
    }
    Ok(())
}

pub fn refuse_second(found: &[run::FoundRun]) -> Outcome {
    if let Some(run) = hidden::huge_pages_for_servers(found).first() {
        let message = format!("the host's RAM is held by run {}: huge pages for a server", run.id);
        return Err(Failure::message(Exit::Missing, message)
            .hint("`wringer hugepages release` gives them back, as far as no server uses them"));
    }
    let hiding = hidden::hiding_ram(found);
    let Some(run) = hiding.first() else { return Ok(()) };
    Err(Failure::message(Exit::Missing, format_args!("the host's RAM is held by run {}", run.id))
        .hint("`wringer ram release` gives it back, `wringer ram status` shows it"))
}

pub fn ask_consent(places: &Places, yes: bool) -> Outcome {
    let databases = databases::unknown(places)?;
    if yes || databases.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = databases.iter().map(databases::described).collect();
    let what = "databases that this WRINGER_HOME did not start would suffer with the host";
    Err(Failure::message(Exit::Missing, format_args!("{what}: {}", names.join(", ")))
        .hint("--yes, if they may; or limit one server alone: squeeze.server_ram in an experiment"))
}

fn dry_run(plan: &Plan, output: Output) {
    if output == Output::Json {
        return terminal::json(&json!({ "schema": 1, "dry_run": true, "plan": plan, "changes": plan.changes() }));
    }
    if plan.is_nothing() {
        terminal::data(format_args!("nothing to hide: {} are available", Bytes(plan.before.available_bytes)));
    }
    for change in plan.changes() {
        terminal::data(format_args!("{}\n    undo: {}", change.change, change.undo));
    }
}

fn nothing(plan: &Plan, output: Output) {
    if output == Output::Json {
        let available = plan.before.available_bytes;
        let value = json!({ "schema": 1, "run": null, "hidden_bytes": 0, "available_before_bytes": available,
            "available_after_bytes": available, "measured": [], "until": null });
        terminal::json(&value);
    } else {
        terminal::data(format_args!(
            "nothing to hide: {} are available, and that is left as it is",
            Bytes(plan.before.available_bytes)
        ));
    }
}

/// `ram hide -o json`.
#[derive(Serialize)]
struct Printed<'a> {
    #[serde(flatten)]
    shown: &'a Shown<HiddenRam>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verify: Option<Reread>,
}

fn show(shown: &Shown<HiddenRam>, verify: Option<Reread>, output: Output) {
    if output == Output::Json {
        return terminal::json(&Printed { shown, verify });
    }
    let HiddenRam { mechanism, traits, hidden_bytes, available_before_bytes, available_after_bytes, .. } =
        &shown.in_force;
    let elapsed = Span::micros(shown.in_force.elapsed_us);
    terminal::data(format_args!("{} hidden by {mechanism} in {elapsed} (run {})", Bytes(*hidden_bytes), shown.run));
    let (before, after) = (Bytes(*available_before_bytes), Bytes(*available_after_bytes));
    terminal::data(format_args!("available: {before} before, {after} now"));
    let HiddenRam { shortage, remainder, .. } = &shown.in_force;
    shortage.iter().chain(remainder).for_each(terminal::data);
    show_traits(traits);
    if let Some(read) = verify {
        terminal::data(format_args!("read twice: {}", read.verdict_text));
    }
    let until = shown.until.as_deref().unwrap_or_default();
    terminal::say(format_args!("until {until}; `wringer ram release` gives it back"));
}

/// The traits of this mechanism, one line each.
fn show_traits(traits: &Traits) {
    let say = |holds: bool, yes: &'static str, no: &'static str| if holds { yes } else { no };
    let lines = [
        say(
            traits.mem_total_shrinks,
            "MemTotal has shrunk",
            "MemTotal stays: what sizes itself from it notices nothing",
        ),
        say(
            traits.hidden_ram_swappable,
            "with swap, the hidden RAM itself could be paged out",
            "swap takes none of it",
        ),
        say(traits.safe_from_others, "nobody else can take it", "other programs may take a part of it for themselves"),
        say(
            traits.back_by_itself,
            "back by itself when Wringer is killed",
            "stays until `wringer undo` or a reboot when all of Wringer is killed",
        ),
    ];
    terminal::data(lines.join("; "));
}

fn status(places: &Places, output: Output) -> Outcome {
    let look = run::Look::take(places)?;
    let hiding = hidden::hiding_ram(&look.runs);
    let meminfo = Meminfo::now()?;
    let others = hidden::by_others(places, &run::find_lost(places, &look), &meminfo);
    let reserved = meminfo.huge_reserved_pages * meminfo.huge_page_bytes;
    let hidden = hidden::bytes(&hiding, &meminfo);
    if output == Output::Json {
        let runs: Vec<Value> = hiding.iter().map(|run| standing::run_json(run)).collect();
        terminal::json(&json!({
            "schema": 1,
            "runs": runs,
            "hidden_bytes": hidden,
            "hidden_by_others": others,
            "reserved_bytes": reserved,
            "memory": meminfo,
        }));
        return Ok(());
    }
    hiding.iter().for_each(|run| terminal::data(standing::headline(run)));
    if hiding.is_empty() {
        terminal::data("no RAM is hidden by this WRINGER_HOME");
    } else {
        terminal::data(format_args!("hidden {}", Bytes(hidden)));
    }
    others.iter().for_each(|other| terminal::data(other.line()));
    terminal::data(format_args!(
        "RAM {}, available {}, reserved in huge pages {}",
        Bytes(meminfo.total_bytes),
        Bytes(meminfo.available_bytes),
        Bytes(reserved)
    ));
    let pool = meminfo.huge_total_pages.saturating_sub(meminfo.huge_reserved_pages);
    if pool > 0 {
        terminal::data(format_args!(
            "pool: {}, {} of them in use by other programs",
            counted(pool, "huge page"),
            meminfo.huge_total_pages - meminfo.huge_free_pages
        ));
    }
    if hiding.iter().any(|run| run.hot) {
        terminal::hint("its supervisor is dead: `wringer undo` gives the RAM back");
    }
    Ok(())
}

fn release(places: &Places, output: Output) -> Outcome {
    let look = run::Look::take(places)?;
    let found = &look.runs;
    let hiding: Vec<_> =
        hidden::hiding_ram(found).into_iter().filter(|run| run.kind == Some(run::Kind::Standing)).collect();
    if hiding.is_empty() {
        standing::refuse_hot(places, &look)?;
        terminal::say("no RAM is hidden by a standing squeeze of this WRINGER_HOME");
        let others = hidden::by_others(places, &run::find_lost(places, &look), &Meminfo::now()?);
        others.iter().for_each(|other| terminal::say(other.line()));
    }
    standing::release(places, &hiding, output)?;
    let pool = |run: &run::FoundRun| run.steps.iter().any(|it| matches!(it.change, run::Step::HugePool { .. }));
    let surplus = Meminfo::now()?.huge_surplus_pages;
    if surplus > 0 && hiding.iter().any(|run| pool(run)) {
        terminal::say(format_args!(
            "still used by other programs: {}; each is free as soon as it is let go",
            counted(surplus, "huge page")
        ));
    }
    Ok(())
}
