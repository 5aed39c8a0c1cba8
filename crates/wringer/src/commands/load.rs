// SPDX-License-Identifier: Apache-2.0
mod dry_run;
mod runs;
mod settings;
mod verbs;
pub mod wanted;

use super::connection::{Connection, server_failure};
use super::rand_numbers::RandNumbers;
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;
use assertion::Assertion;
use evidence::Arrivals;
use host::clock::RunClock;
use lab::WorkloadFromFile;
use load::engine::{Hooks, LoadSpec, PhaseEdge};
use runs::{Runs, When};
use settings::SettingFlags;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use units::Span;
use wanted::Wanted;
use workload::distribution;
use workload::{Name, Tables, Workload};

/// Drive a server with an OLTP load
///
/// The workloads, their statements and most flags are sysbench's; in a flag's name `_` means the same as `-`. Latency counts from the moment at which a
/// transaction was meant to start; the time that the server took is reported as well.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    MYSQL_PWD=... wringer load oltp_point_select --mysql-user=me \\\n    --table-size=1000000 --threads=16 --time=60\n  \
    wringer load oltp_read_write --db-driver=pgsql --rate=500 --warmup-time=10 \\\n    --percentile=50,99,99.9 -o json\n  \
    wringer load oltp_point_select --time=60 --assert 'p99<20ms'; [ $? = 1 ] && echo too slow\n  \
    wringer load oltp_update_index --threads=8,64,512,4096 --time=30\n  \
    wringer load my.toml --dry-run\n\n\
    The tables come from `wringer load WORKLOAD ... prepare`, `wringer fill` or `sysbench ... prepare`; give the same --tables and --table-size. \
    Those of pgbench's scripts come from `wringer fill --pgbench SCALE` or from `pgbench -i`.")]
pub struct Args {
    /// oltp_point_select, oltp_read_only, oltp_read_write, oltp_write_only, oltp_update_index, oltp_update_non_index,
    /// oltp_insert, oltp_delete, bulk_insert, select_random_points, select_random_ranges; pgbench's scripts:
    /// pgbench_tpcb_like, pgbench_simple_update, pgbench_select_only; or a file of your own, my.toml (docs/workloads.md)
    workload: Wanted,
    /// What to do, in sysbench's words: `run`; `prepare` makes the tables, as `wringer fill` does; `cleanup` drops them [default: run]
    #[arg(value_name = "VERB")]
    verb: Option<String>,
    /// Connections; one statement is in flight on each. Several numbers (8,64,512,4096): a load with each, one after the other,
    /// and a table of them all
    #[arg(long, value_delimiter = ',', default_value = "1", value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    threads: Vec<u32>,
    /// Threads of Wringer that drive the connections [default: one for every four connections, at least one for each CPU, and at most four for each CPU or sixteen in all]
    #[arg(long, value_name = "N")]
    workers: Option<u32>,
    /// Seconds, or with a unit (500ms, 2m); 0: no limit
    #[arg(long, default_value = "10", value_parser = seconds, value_name = "TIME")]
    time: Duration,
    /// Transactions; 0: no limit
    #[arg(long, default_value_t = 0, value_name = "N")]
    events: u64,
    /// Transactions a second over all connections, whether the server keeps up or not; 0: each as soon as the last one is done
    #[arg(long, default_value_t = 0.0, value_name = "N")]
    rate: f64,
    /// How --rate spaces them: `poisson` (random, as independent users come) or `constant` [default: poisson]
    #[arg(long, value_enum)]
    arrivals: Option<Spacing>,
    /// How long the load runs before it is measured; this warm-up is reported apart
    #[arg(long, alias = "warmup_time", default_value = "0", value_parser = seconds, value_name = "TIME")]
    warmup_time: Duration,
    /// The time from one line of progress to the next, on stderr, with -o sysbench on stdout; 0: no lines
    #[arg(long, alias = "report_interval", default_value = "0", value_parser = seconds, value_name = "TIME")]
    report_interval: Duration,
    /// Which percentiles to print; all of the distribution is recorded anyway [default: 50,95,99,99.9; with -o sysbench 95, as sysbench]
    #[arg(long, value_delimiter = ',', value_parser = percentile, value_name = "LIST")]
    percentile: Vec<f64>,
    /// Print the latency histogram too, as sysbench does; `wringer modes` reads it. The JSON output always has it
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "on", default_value = "off", value_parser = on_off)]
    histogram: bool,
    /// What the result must be, else the exit code is 1: 'p99<20ms', 'service p99.9<=5ms', 'point_select max<1s',
    /// 'queries/s>1000', errors=0. May be given several times; the message about a wrong one says what can be written
    #[arg(long = "assert", value_name = "ASSERTION")]
    assertions: Vec<Assertion>,
    /// Length of a slot of the timeline in the JSON output, 10ms to 1s
    #[arg(long, default_value = "100ms", value_parser = seconds, value_name = "TIME")]
    timeline_interval: Duration,
    /// `disable` sends statements as text
    #[arg(long, alias = "db_ps_mode", value_enum, default_value = "auto")]
    db_ps_mode: PsMode,
    /// Print the first N transactions as they would be sent, and send nothing
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "5")]
    dry_run: Option<u32>,
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    oltp: OltpArgs,
}

/// Which rows are touched.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Rows")]
struct KeyArgs {
    /// Tables sbtest1 to sbtestN
    #[arg(long, default_value_t = 1, value_name = "N")]
    tables: u32,
    /// Rows in each table
    #[arg(long, alias = "table_size", default_value_t = 10_000, value_name = "N")]
    table_size: u64,
    /// pgbench's scale: keys are drawn from 1 to 100000 times this [default: the rows of pgbench_branches, as pgbench does]
    #[arg(long, value_name = "N")]
    scale: Option<u32>,
    /// uniform, gaussian, special, pareto or zipfian [default: uniform; sysbench 1.0.20 has special]
    #[arg(long, alias = "rand_type", value_name = "TYPE")]
    rand_type: Option<distribution::Kind>,
    /// The same seed draws the same keys; 0: by the clock
    #[arg(long, alias = "rand_seed", default_value_t = 0, value_name = "N")]
    rand_seed: u64,
    #[command(flatten)]
    numbers: RandNumbers,
}

/// What a transaction consists of.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Statements in a transaction")]
struct OltpArgs {
    #[command(flatten)]
    settings: SettingFlags,
    /// Of the tables that `prepare` makes; `run` leaves them alone, as sysbench's does
    #[arg(long = "create-secondary", hide = true, alias = "create_secondary", num_args = 0..=1, require_equals = true, default_missing_value = "on", value_parser = on_off)]
    create_secondary: Option<bool>,
    /// Accepted without an effect; with this flag sysbench's `prepare` makes an index instead of the primary key
    #[arg(long = "secondary", hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "on", value_parser = on_off)]
    _secondary: Option<bool>,
    /// Accepted without an effect: tables are InnoDB's
    #[arg(long = "mysql-storage-engine", hide = true, alias = "mysql_storage_engine")]
    _mysql_storage_engine: Option<String>,
}

const PERCENTILES: [f64; 4] = [50.0, 95.0, 99.0, 99.9];

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Spacing {
    Poisson,
    Constant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum PsMode {
    Auto,
    Disable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Text,
    Json,
    /// In sysbench's shape, for scripts that read that
    Sysbench,
}

pub fn main(mut args: Args) -> Outcome {
    let verb = verbs::Verb::of(args.verb.as_deref())?;
    if args.percentile.is_empty() {
        args.percentile = if args.output == Output::Sysbench { vec![95.0] } else { PERCENTILES.to_vec() };
    }
    let target = args.connection.target()?;
    if verb != verbs::Verb::Run {
        return verbs::do_it(verb, &args, &target);
    }
    let file = match &args.workload {
        Wanted::File(path) => Some(wanted::read(path)?),
        Wanted::Named(_) => None,
    };
    if args.dry_run.is_some() {
        args.keys.scale.get_or_insert(1);
    } else {
        args.take_scale(&target)?;
    }
    let spec = |connections: &u32| args.spec(target.protocol, *connections, file.as_ref());
    let specs = args.threads.iter().map(spec);
    let specs = specs.collect::<Result<Vec<_>, _>>()?;
    if let (Some(transactions), Some(spec)) = (args.dry_run, specs.first()) {
        dry_run::show(spec, target.protocol, transactions, args.output == Output::Json);
        return Ok(());
    }
    args.check_assertions(&specs)?;
    specs.iter().try_for_each(load::engine::check).map_err(server_failure)?;
    if let Some(most) = specs.iter().max_by_key(|spec| spec.connections) {
        load::capacity::check(&target, most.connections, most.statements_prepared()).map_err(server_failure)?;
    }
    let stop = interruptible()?;
    let mut runs = Runs::new(&args, file.as_ref().map(|file| file.file.text.as_str()));
    for spec in &specs {
        let lost = args.one(spec, &target, &stop, &mut runs)?;
        if stop.load(Ordering::Relaxed) || lost.is_some() {
            runs.end();
            let interrupted =
                || Failure::message(Exit::Interrupted, "interrupted; what was measured until then is above");
            return Err(lost.map_or_else(interrupted, server_failure));
        }
    }
    runs.end();
    runs.verdict()
}

impl Args {
    /// Runs one load. `Some`: the server went away; the result until then is among `runs`.
    fn one(
        &self,
        spec: &LoadSpec,
        target: &load::Target,
        stop: &Arc<AtomicBool>,
        runs: &mut Runs<'_>,
    ) -> Result<Option<load::Error>, Failure> {
        if let Wanted::Named(name) = self.workload {
            load::prepare(target, name, &self.tables(spec.connections)).map_err(server_failure)?;
        }
        if let Err(error) = load::capacity::check(target, spec.connections, spec.statements_prepared()) {
            runs.end();
            return Err(server_failure(error));
        }
        let mut hooks = Hooks {
            on_phase: &mut |edge| {
                if self.output == Output::Sysbench && edge == PhaseEdge::MeasuredStart {
                    terminal::data(load::summary::SYSBENCH_STARTED);
                }
            },
            on_progress: &mut |progress| {
                let line = load::summary::progress(progress, &self.percentile);
                // A line for people only, which sysbench does not print.
                match self.output {
                    Output::Sysbench if progress.connecting.is_none() => terminal::data(line),
                    _ => terminal::say(line),
                }
            },
            progress_interval: Some(self.report_interval).filter(|interval| !interval.is_zero()),
            stop: stop.clone(),
        };
        terminal::say(header(spec));
        if self.output == Output::Sysbench {
            terminal::data(load::summary::sysbench_head(spec, self.report_interval));
        }
        if self.keys.rand_type.is_none() && self.workload.name().is_some_and(|name| !name.is_pgbench()) {
            terminal::say(DEFAULT_KEYS);
        }
        let clock = RunClock::start();
        let when = When::of(clock, target, self.output == Output::Json);
        match load::engine::run(spec, target, &clock, &mut hooks) {
            Ok(result) => {
                runs.add(result, when);
                Ok(None)
            }
            Err(load::Error::ServerLost { phase, after_ms, waited_ms, partial, last }) => {
                runs.add((*partial).clone(), when);
                Ok(Some(load::Error::ServerLost { phase, after_ms, waited_ms, partial, last }))
            }
            Err(error) => {
                // The results of earlier loads are not lost with this one.
                runs.end();
                Err(server_failure(error))
            }
        }
    }

    fn check_assertions(&self, specs: &[LoadSpec]) -> Outcome {
        let statements = specs.iter().flat_map(|spec| spec.workload.statements());
        let classes: Vec<&str> = statements.map(|statement| statement.class.as_str()).collect();
        let has_rate = specs.iter().all(|spec| spec.arrivals != Arrivals::Closed);
        let check = |assertion: &Assertion| {
            if let Some(figure) = assertion.of_arrivals().filter(|_| !has_rate) {
                return Err(format!("'{assertion}': without --rate nothing is {figure}"));
            }
            assertion.check_class(classes.iter().copied())
        };
        self.assertions.iter().try_for_each(check).map_err(|why| Failure::message(Exit::Usage, why))
    }

    /// Name, statements, and the source of their values.
    fn workload(
        &self,
        protocol: load::Protocol,
        connections: u32,
        file: Option<&WorkloadFromFile>,
    ) -> Result<(String, Box<dyn Workload>, String), Failure> {
        let usage = |error: anyhow::Error| Failure::new(Exit::Usage, error);
        let distribution = self.keys.distribution().map_err(|error| usage(error.into()))?;
        match (&self.workload, file) {
            (Wanted::Named(name), _) => {
                let built =
                    workload::build(*name, protocol, &self.tables(connections), &self.oltp.settings.0, &distribution);
                Ok((name.to_string(), built.map_err(|error| usage(error.into()))?, distribution.to_string()))
            }
            (Wanted::File(path), None) => {
                Err(Failure::message(Exit::Usage, format!("{} was not read", path.display())))
            }
            (Wanted::File(_), Some(file)) => {
                Ok((file.name(), file.build(protocol, self.keys.table_size)?, file.file.describe()))
            }
        }
    }

    fn spec(
        &self,
        protocol: load::Protocol,
        connections: u32,
        file: Option<&WorkloadFromFile>,
    ) -> Result<LoadSpec, Failure> {
        let (name, workload, distribution) = self.workload(protocol, connections, file)?;
        let per_second = self.rate;
        let arrivals = match self.arrivals {
            None if per_second == 0.0 => Arrivals::Closed,
            Some(_) if per_second == 0.0 => {
                let message = "--arrivals says how the starts of --rate are spaced, and there is no --rate";
                return Err(Failure::message(Exit::Usage, message).hint("--rate=500: so many transactions a second"));
            }
            None | Some(Spacing::Poisson) => Arrivals::Poisson { per_second },
            Some(Spacing::Constant) => Arrivals::Constant { per_second },
        };
        file.map_or(Ok(()), |file| file.check_arrivals(arrivals))?;
        let mut spec = LoadSpec::new(name, workload.into());
        spec.distribution = distribution;
        spec.connections = connections;
        spec.workers = self.workers;
        spec.arrivals = arrivals;
        spec.seed = if self.keys.rand_seed == 0 { host::clock::unix_seconds() } else { self.keys.rand_seed };
        spec.warmup = self.warmup_time;
        spec.time = Some(self.time).filter(|time| !time.is_zero());
        spec.events = Some(self.events).filter(|events| *events > 0);
        spec.prepared = self.db_ps_mode == PsMode::Auto;
        spec.timeline = self.timeline_interval;
        Ok(spec)
    }

    /// Sets the scale as pgbench does: without the flag, the scale is the number of branches.
    fn take_scale(&mut self, target: &load::Target) -> Outcome {
        match (self.workload.name().is_some_and(Name::is_pgbench), self.keys.scale) {
            (false, Some(_)) => {
                let message = "--scale is of pgbench's workloads; the others have --tables and --table-size";
                Err(Failure::message(Exit::Usage, message))
            }
            (true, None) => {
                self.keys.scale = Some(load::prepare::pgbench::scale(target).map_err(|error| {
                    let missing =
                        matches!(error.code(), Some("1146" | "42P01")) || matches!(error, load::Error::Invalid(_));
                    match missing {
                        true => {
                            Failure::new(Exit::Missing, anyhow::Error::new(error).context("look for pgbench's tables"))
                                .hint("`wringer fill --pgbench SCALE`, or `pgbench -i`, makes them")
                        }
                        false => server_failure(error),
                    }
                })?);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn tables(&self, connections: u32) -> Tables {
        let keys = &self.keys;
        Tables { tables: keys.tables, table_size: keys.table_size, scale: keys.scale.unwrap_or(1), connections }
    }
}

/// A user who compares the result with sysbench's must know this.
pub(super) const DEFAULT_KEYS: &str = "note: no --rand-type was given, so keys are drawn uniformly; sysbench 1.0.20 would use special, \
    which finds most rows cached";

fn header(spec: &LoadSpec) -> String {
    let arrivals = match spec.arrivals {
        Arrivals::Closed => "closed loop".to_owned(),
        Arrivals::Constant { per_second } => format!("open loop, {per_second} a second, even"),
        Arrivals::Poisson { per_second } => format!("open loop, {per_second} a second, Poisson"),
        Arrivals::Recorded { times } => format!("the moments of a log, {times} times as fast"),
    };
    format!(
        "{}: {}, {arrivals}, keys {}, seed {}",
        spec.name,
        units::counted(spec.connections.into(), "connection"),
        spec.distribution,
        spec.seed
    )
}

impl KeyArgs {
    fn distribution(&self) -> Result<distribution::Distribution, distribution::Error> {
        self.numbers.of(self.rand_type.unwrap_or_default()).check()
    }
}

/// Ctrl-C drains the load and prints the result so far; the second Ctrl-C ends at once, because there is nothing to undo.
pub(super) fn interruptible() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [libc::SIGINT, libc::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, Exit::Interrupted as i32, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// 0 is allowed, and prints none, as in sysbench.
pub(super) fn percentile(text: &str) -> Result<f64, String> {
    let found = text.trim().parse().ok().filter(|percentile| (0.0..=100.0).contains(percentile));
    found.ok_or_else(|| format!("'{text}' is no percentile: write numbers from 0 to 100, such as 50,99,99.9"))
}

fn seconds(text: &str) -> Result<Duration, units::ParseError> {
    Span::parse_seconds(text).map(|span| span.0)
}

fn on_off(text: &str) -> Result<bool, String> {
    match text {
        "on" | "true" | "yes" | "1" => Ok(true),
        "off" | "false" | "no" | "0" => Ok(false),
        other => Err(format!("'{other}' is neither on nor off")),
    }
}

#[cfg(test)]
mod tests;
