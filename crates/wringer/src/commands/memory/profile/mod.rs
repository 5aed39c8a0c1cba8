// SPDX-License-Identifier: Apache-2.0
//! `wringer memory profile`: runs a sandbox's server under a heap profiler, and tells which functions hold its heap, which of them grow, and what
//! leaks.

mod keys;
mod marks;
mod output;
mod profiler;
mod show;
mod subject;

use crate::commands::command_line;
use crate::commands::observe::seconds;
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::{self, Output};
use crate::{signals, terminal::spinner};
use ::profile::repeat::{Native, Repeat, What};
use ::profile::{Pace, Session, Settings, Symbols, Tools, With};
use explain::leak::Verdict;
use host::places::Places;
use marks::Wishes;
use profiler::{Profiler, failure, kept_until};
use run::{Begin, Kind, Resource, Run};
use sandbox::{Sandbox, ServerOption};
use show::{Repeated, Shown, SlowDown};
use std::path::PathBuf;
use std::time::Duration;
use subject::{Life, Load, Subject};
use units::Span;

/// Start a sandbox's server under a heap profiler: which functions hold its heap at which time, and what grows; with --repeat, what leaks
///
/// The server must be stopped. This command starts it twice: without Valgrind for a moment, to measure how much slower Massif makes it, and then under Massif; it
/// stops the server at the end. Under Massif the server is about three times slower, and still slower where several threads are busy, because Valgrind runs one
/// thread at a time. Massif writes its file when the server ends. So that a server that is killed leaves a profile, too, snapshots are taken while it runs and
/// are written at once: at the start and at the end, every --every, before and after each --sql, after each block of --repeat, and on a terminal whenever you
/// press Enter. The server stands still for some tenths of a second during each snapshot.
/// --with chooses another profiler: heaptrack, or the profiler of tcmalloc or of jemalloc. With these all threads of the server run at the same time, but PostgreSQL
/// cannot be profiled.
/// Everything is in a folder that stays when the sandbox is deleted; `wringer heap show FOLDER/heap.massif` reads it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    # profile until Ctrl-C; Enter takes a snapshot\n  \
    wringer memory profile pears\n  \
    # profile for 5 minutes; meanwhile, in another terminal, `wringer load --sandbox pears ...`\n  \
    wringer memory profile pears --time 5m --every 30s --to out\n  \
    # take a snapshot before and after a statement\n  \
    wringer memory profile pears --sql 'SELECT * FROM t ORDER BY c'\n  \
    # does the function leak, how much in each call, and where?\n  \
    wringer memory profile pears --repeat 'SELECT my_udf(1)'\n  \
    wringer memory profile apples --repeat 'PREPARE p{i} AS SELECT {i}'\n  \
    # with the profiler in tcmalloc, under which all threads run at the same time\n  \
    wringer memory profile pears --with tcmalloc --time 5m --every 30s\n  \
    # profile an experiment's server with its data and load, without its squeezes\n  \
    wringer memory profile experiments/quick.toml --every 5s\n  \
    wringer heap show out/heap.massif --assert 'growth<1M'\n\n\
    Exit codes: 0 done; 1 with --fail-on-leak, if it leaks; 2 usage; 3 there is no such sandbox, its server runs, the profiler is not there, the folder is not empty, or a program would split a path; 4 the server \
    does not start under the profiler, or ended too early: the snapshots until then are kept; 130 interrupted before the server ran.\n\n\
    More: docs/profile.md, or `wringer doc profile`.")]
pub(super) struct Args {
    /// A sandbox, which must be stopped; or the file of an experiment (NAME.toml): its server and data in a new sandbox, with the load of one arm
    #[arg(value_name = "SANDBOX|FILE", required_unless_present = "sandbox")]
    name: Option<String>,
    /// The arm of the experiment whose server options and load are used [default: the first]
    #[arg(long, value_name = "NAME")]
    arm: Option<String>,
    /// The sandbox, as other commands name it
    #[arg(long, value_name = "NAME", conflicts_with = "name")]
    sandbox: Option<String>,
    /// The profiler
    #[arg(long, value_enum, default_value_t = Profiler::Massif)]
    with: Profiler,
    /// Run this statement, and end; with --time, end when the time is over, with the connection open until then. May be repeated. A snapshot is taken
    /// before the first statement, and after each
    #[arg(long, value_name = "SQL")]
    sql: Vec<String>,
    /// Run this statement again and again over one connection, first without and then with the profiler, and say whether it leaks. Give the flag several times
    /// when one repetition has several statements. {i} in a statement is the number of the repetition. Instead of SQL you can name a workload, such as
    /// oltp_read_write: then its transactions are repeated
    #[arg(long, value_name = "SQL|WORKLOAD", conflicts_with_all = ["sql", "time", "every"])]
    repeat: Vec<String>,
    /// Repetitions in a block of --repeat [default: as many as run in a quarter of a second, 10 to 300]
    #[arg(long, value_name = "N", requires = "repeat", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    repetitions: Option<u64>,
    /// The number of blocks of --repeat in the server's life without the profiler; four more blocks before them are a warm-up, and do not count
    #[arg(long, value_name = "N", default_value_t = 32, requires = "repeat", value_parser = clap::value_parser!(u16).range(30..=500))]
    blocks: u16,
    /// The rest between a block of --repeat and the reading of the memory
    #[arg(long, value_name = "TIME", default_value = "200ms", requires = "repeat")]
    rest: Span,
    /// How long to profile, in seconds or with a unit [default: until Ctrl-C, or until the statements are done]
    #[arg(long, visible_alias = "for", value_parser = seconds, value_name = "TIME")]
    time: Option<Duration>,
    /// Time from one snapshot to the next, 1s at least
    #[arg(long, value_parser = every, value_name = "TIME")]
    every: Option<Duration>,
    /// Profile all mappings, such as the buffer pool, and not only the memory that malloc hands out. The sizes are then sizes of address ranges, and cannot be
    /// compared with RSS
    #[arg(long)]
    pages_as_heap: bool,
    /// Callers with less than this percentage of the heap are summed into one line without names [default: 0.1 with massif; 0 with the others, whose
    /// profiles are exact]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    threshold: Option<f64>,
    /// A folder with files for debuggers, such as usr/lib/debug of a package NAME-dbgsym
    #[arg(long, value_name = "FOLDER")]
    debug_files: Option<PathBuf>,
    /// A server option for these starts; may be repeated
    #[arg(short = 'c', long = "option", value_name = "KEY=VALUE", value_parser = ServerOption::asked)]
    options: Vec<ServerOption>,
    /// Do not start the server without the profiler first; then it is not known how much slower the profiler makes the server
    #[arg(long, conflicts_with = "repeat")]
    no_native: bool,
    /// Exit code 1 if --repeat finds a leak
    #[arg(long, requires = "repeat")]
    fail_on_leak: bool,
    /// Folder for the profiles [default: a new one below Wringer's recordings]
    #[arg(long = "to", value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Functions to print; the JSON output has all
    #[arg(long, default_value_t = 10, value_name = "N")]
    top: usize,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

fn every(text: &str) -> Result<Duration, String> {
    let time = seconds(text).map_err(|error| error.to_string())?;
    if time < Duration::from_secs(1) {
        Err("1s at least, because the server stands still for tenths of a second at each snapshot".into())
    } else {
        Ok(time)
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let number: f64 = text.trim_end_matches('%').parse().map_err(|_| "a number of percent".to_owned())?;
    if (0.0..=100.0).contains(&number) { Ok(number) } else { Err("0 to 100".to_owned()) }
}

pub(super) fn main(args: &Args) -> Outcome {
    let stop = signals::install()?;
    let places = Places::from_environment();
    let name = args.name.as_deref().or(args.sandbox.as_deref()).unwrap_or_default();
    let with = With::from(args.with);
    args.with.check(args.pages_as_heap, args.debug_files.is_some())?;
    let subject = Subject::look(args, name, &places)?;
    with.check_server(subject.forks()).map_err(failure)?;
    let tools: Tools = with.find().map_err(failure)?;
    tools.check_paths(&subject.folder(&places), &places.cache).map_err(failure)?;
    let debug_files = args.debug_files.as_deref().map(output::readable_folder).transpose()?;
    let (folder, _locked) = output::folder(args.folder.as_deref(), subject.name(), &places)?;
    let settings = Settings {
        with,
        tools,
        pages_as_heap: args.pages_as_heap,
        threshold: args.threshold.unwrap_or_else(|| with.threshold()),
        debug_files,
        options: args.options.clone(),
        folder: folder.clone(),
    };
    let resources = vec![Resource::Sandbox(subject.name().into())];
    let begin = Begin { kind: Kind::Run, command: command_line(), resources, places: places.clone() };
    let mut run = Run::begin(begin)?;
    let profiled = subject
        .life(args, &mut run, &places, &stop)
        .and_then(|life| both_lives(args, life, &mut run, settings, &places));
    if let Err(not_released) = run.release() {
        if let Err(failure) = profiled {
            terminal::say(format_args!("error: {:#}", failure.error));
        }
        return Err(Failure::new(Exit::NotRestored, not_released).hint("wringer undo"));
    }
    let deleted = subject.end(&places);
    let shown = profiled.map_err(|failure| kept_until(failure, &folder))?;
    deleted?;
    shown.keep(&folder)?;
    match args.output {
        Output::Json => terminal::json(&shown),
        Output::Text => terminal::data(shown.text(args.top).trim_end()),
    }
    let is_leak = shown.leak.as_ref().is_some_and(|it| it.leak.verdict == Verdict::Leak);
    if args.fail_on_leak && is_leak {
        return Err(Failure::message(Exit::Finding, "what was repeated leaks"));
    }
    Ok(())
}

fn both_lives(args: &Args, life: Life, run: &mut Run, settings: Settings, places: &Places) -> Result<Shown, Failure> {
    let Life { sandbox, pace, load, options } = life;
    let mut settings = settings;
    // an option of the command line replaces the same option of a file
    settings.options.splice(0..0, options);
    let symbols = Symbols::of(&sandbox.manifest.installation, settings.debug_files.as_deref());
    say_symbols(symbols.as_ref());
    let repeat = (!args.repeat.is_empty()).then(|| Repeat {
        what: what(&args.repeat),
        repetitions: args.repetitions,
        blocks: args.blocks.into(),
        rest: args.rest.0,
    });
    let native = match pace.filter(|_| repeat.is_none()) {
        Some(pace) => Some(Native { pace, repetitions: 0, leak: None }),
        None => natively(args, &settings.options, repeat.as_ref(), &sandbox, run, places)?,
    };
    native.iter().for_each(say_native);
    let with = settings.with;
    let waiting = spinner(&format!("starts with {}", with.name()));
    let started = Session::start(&sandbox, run, settings, places);
    waiting.finish_and_clear();
    let mut session = started.map_err(failure)?;
    let version = session.server.version.clone();
    let profiled = profile_it(args, repeat.as_ref(), &mut session, native.as_ref(), load);
    let profile = session.profile();
    say_end(with);
    let ended = session.end(run).map_err(failure);
    let (pace, numbers) = match profiled {
        // the failure of the server's end explains more
        Err(error) => return Err(ended.err().unwrap_or_else(|| failure(error))),
        Ok(profiled) => profiled,
    };
    let (marks, ended) = ended?;
    let slow_down = native.as_ref().map(|native| SlowDown::of(native.pace, pace, with));
    let holdings = ::profile::repeat::held(&profile, &numbers).map_err(failure)?;
    let leak = native.and_then(|native| Some(Repeated::of(native.leak?.with_profile(&holdings), native.repetitions)));
    if repeat.is_some() && leak.is_none() {
        terminal::say("note: too few inventories could be read: whether it leaks cannot be told");
    }
    // only the mark `end` is taken after the statements' connection is closed and its memory is freed
    let behind = if args.sql.is_empty() && args.repeat.is_empty() { 1 } else { 2 };
    // growth counts from the first mark at which the statements' connection was open: a connection is a process of PostgreSQL, or memory of its own
    let connected = marks.iter().position(|mark| mark.name == marks::CONNECTED);
    let repeated = numbers.first().map(|(_, number)| *number as usize);
    let (from, to) = (connected.or(repeated).unwrap_or(0), marks.len().saturating_sub(behind));
    let grown = show::growth(&profile, from, to).map_err(failure)?;
    Ok(Shown {
        schema: 1,
        sandbox: sandbox.name().to_owned(),
        server: format!("{} {version}", sandbox.flavour()),
        with: with.name(),
        pages_as_heap: args.pages_as_heap,
        symbols,
        slow_down,
        marks,
        from,
        to,
        growth: grown.grown,
        hidden_bytes: grown.after.hidden_bytes,
        functions: grown.after.functions,
        leak,
        profile,
        ended,
    })
}

/// What is repeated: the workload of this name, or the statements.
fn what(repeat: &[String]) -> What {
    match repeat {
        [one] => one.parse().map_or_else(|_| What::Statements(repeat.to_vec()), What::Workload),
        _ => What::Statements(repeat.to_vec()),
    }
}

fn natively(
    args: &Args,
    options: &[ServerOption],
    repeat: Option<&Repeat>,
    sandbox: &Sandbox,
    run: &mut Run,
    places: &Places,
) -> Result<Option<Native>, Failure> {
    if args.no_native {
        return Ok(None);
    }
    let native = match repeat {
        None => {
            let pace = profile::native(sandbox, run, options).map_err(failure)?;
            Native { pace, repetitions: 0, leak: None }
        }
        Some(repeat) => {
            let bar = terminal::bar(1, "natively");
            let mut say = |done: usize, of: usize| {
                bar.set_length(of as u64);
                bar.set_position(done as u64);
            };
            let native = repeat.natively(sandbox, run, options, places, &mut say).map_err(failure);
            bar.finish_and_clear();
            native?
        }
    };
    Ok(Some(native))
}

fn say_native(native: &Native) {
    let Pace { start_ms, query_us } = native.pace;
    terminal::say(format_args!("  native    started in {:.1} s; a query takes {query_us:.0} us", start_ms / 1e3));
}

/// The speed of queries under the profiler; and for each mark, its number and the number of repetitions before it.
type Profiled = (Pace, Vec<(u64, u32)>);

fn profile_it(
    args: &Args,
    repeat: Option<&Repeat>,
    session: &mut Session,
    native: Option<&Native>,
    load: Option<Load>,
) -> Result<Profiled, profile::Error> {
    let pace = session.pace()?;
    say_pace(With::from(args.with), pace, native.map(|it| it.pace));
    marks::take(session, "start")?;
    let numbers = match (repeat, native) {
        (Some(repeat), Some(native)) => {
            let bar = terminal::bar(1, "under the profiler");
            let mut say = |done: usize, of: usize| {
                bar.set_length(of as u64);
                bar.set_position(done as u64);
            };
            let numbers = repeat.profiled(session, native.repetitions, &mut say);
            bar.finish_and_clear();
            numbers?
        }
        _ => {
            let wishes = Wishes { sql: &args.sql, time: args.time, every: args.every };
            marks::until_the_end(session, &wishes, load)?;
            Vec::new()
        }
    };
    marks::take(session, "end")?;
    Ok((pace, numbers))
}

fn say_symbols(symbols: Option<&Symbols>) {
    let Some(symbols) = symbols else { return };
    terminal::say(show::names(symbols));
}

fn say_pace(with: With, pace: Pace, native: Option<Pace>) {
    let (low, high) = with.expected_times();
    let busy = if with == With::Massif { ", for each thread that is busy at the same time" } else { "" };
    let times = native.map_or_else(String::new, |native| {
        let times = pace.times(&native);
        format!(": {times:.1} times as long (expected {low} to {high}{busy})")
    });
    let (seconds, query, name) = (pace.start_ms / 1e3, pace.query_us, with.name());
    terminal::say(format_args!("  {name:<9} started in {seconds:.1} s; a query takes {query:.0} us{times}"));
}

fn say_end(with: With) {
    let what = match with {
        With::Massif => "Massif writes its file; this takes its time",
        With::Heaptrack => "heaptrack's addresses become names; this takes its time",
        With::Tcmalloc | With::Jemalloc => "stops the server",
    };
    terminal::say(format_args!("  ends     {what}"));
}
