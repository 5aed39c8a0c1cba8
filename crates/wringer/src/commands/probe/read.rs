// SPDX-License-Identifier: Apache-2.0
use super::{conditions, interrupted, place, refuse, warn_of_holes};
use crate::commands::chart::{chart, mark, time};
use crate::exit::{Exit, Failure, Outcome};
use crate::signals;
use crate::terminal::{self, Output};
use evidence::LatencyHistogram;
use modes::{Modes, bins_of, find};
use probe::evict::{evict, why_left};
use probe::random::{Measured, Operation, Options, measure};
use probe::residency::residency;
use probe::target::Target;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use units::{Bytes, Span};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "PATH is a file, or a folder: then the largest file below it is read. Past the page cache, unless --cached is given. Nothing is \
    ever written but a file that --create has made; it has no name, and is gone with the probe, however that ends.\n\n\
    Examples:\n  \
      # one read at a time, for 5 seconds\n  \
      wringer probe read /srv/data\n  \
      # how many reads the disk can serve at once\n  \
      wringer probe read /srv/data --threads 32 --time 30s\n  \
      # the same as `ioping -C -c 1024 -i 0`\n  \
      wringer probe read big.ibd --cached --count 1024\n  \
      # what a commit costs: write and fdatasync\n  \
      wringer probe read /srv --create 1G --sync\n  \
      # a histogram that can be replayed as a delay\n  \
      wringer probe read /srv/data -o json > disk.json\n\n\
    How to read the answer: docs/probe.md, or `wringer doc probe`."
)]
pub struct Args {
    /// A file or a folder
    path: PathBuf,
    /// Through the page cache
    #[arg(long)]
    cached: bool,
    /// Drop the file's pages from the page cache first
    #[arg(long)]
    evict: bool,
    /// Bytes of one operation
    #[arg(long, value_name = "SIZE", default_value = "4K")]
    block: Bytes,
    /// Operations in flight, each by a thread of its own
    #[arg(long, alias = "depth", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// How long [default: 5s, or until --count]
    #[arg(long, value_name = "SPAN", value_parser = Span::parse_seconds)]
    time: Option<Span>,
    /// How many operations
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Read only this much of the file, from its beginning
    #[arg(long, value_name = "SIZE")]
    working_set: Option<Bytes>,
    /// Pause of each thread between two operations
    #[arg(long, value_name = "SPAN", default_value = "0")]
    interval: Span,
    /// The seed: the same number gives the same blocks in the same order [default: a random one]
    #[arg(long)]
    seed: Option<u64>,
    /// Make a nameless file of this size in PATH, a folder, and probe that
    #[arg(long, value_name = "SIZE")]
    create: Option<Bytes>,
    /// Write instead of read
    #[arg(long, requires = "create", conflicts_with = "sync")]
    write: bool,
    /// Write and fdatasync, timed together
    #[arg(long, requires = "create")]
    sync: bool,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

const DEFAULT_TIME: Duration = Duration::from_secs(5);
/// The name as users write it, and as a JSON key.
const PERCENTILES: [(f64, &str); 7] =
    [(1.0, "p1"), (25.0, "p25"), (50.0, "p50"), (90.0, "p90"), (95.0, "p95"), (99.0, "p99"), (99.9, "p99_9")];

pub fn main(args: &Args) -> Outcome {
    let options = options(args)?;
    signals::install()?;
    let target = target(args)?;
    if host::interrupt::requested() {
        return Err(interrupted());
    }
    warn_of_holes(&target);
    if args.evict {
        let left = evict(&target.file, &target.path).map_err(refuse)?;
        if left.cached_pages > 0 {
            let (pages, why) = (left.cached_pages, why_left(&left));
            terminal::say(format_args!("warning: {pages} pages stay in the page cache: {why}"));
        }
    }
    if !args.cached {
        target.go_direct()?;
    }
    let cached_before = share(&target);
    let spinner = terminal::spinner(&format!("{} {}", verb(options.operation), target.path.display()));
    let measured = measure(&target, &options);
    spinner.finish_and_clear();
    let measured = measured.map_err(|error| explain_refusal(error, args))?;
    let result = Result { args, target, options, measured, cached_before };
    match args.output {
        Output::Json => terminal::json(&result.as_json()),
        Output::Text => terminal::data(result.as_text()),
    }
    if host::interrupt::requested() { Err(interrupted()) } else { Ok(()) }
}

fn options(args: &Args) -> std::result::Result<Options, Failure> {
    let usage = |why: &str| Failure::message(Exit::Usage, why);
    let block_bytes = usize::try_from(args.block.0).ok().filter(|bytes| (1..=64 << 20).contains(bytes));
    let block_bytes = block_bytes.ok_or_else(|| usage("--block is from 1 byte to 64 MiB"))?;
    if !args.cached && !block_bytes.is_multiple_of(512) {
        return Err(usage("past the page cache, --block is a multiple of 512").hint("or add --cached"));
    }
    let operation = match (args.write, args.sync) {
        (true, _) => Operation::Write,
        (_, true) => Operation::Sync,
        _ => Operation::Read,
    };
    let default_time = args.count.is_none().then_some(DEFAULT_TIME);
    Ok(Options {
        operation,
        block_bytes,
        threads: args.threads.into(),
        count: args.count,
        time: args.time.map(|time| time.0).or(default_time),
        working_set_bytes: args.working_set.map(|size| size.0),
        interval: args.interval.0,
        seed: args.seed.unwrap_or_else(by_chance),
    })
}

/// A different number for each run; its quality does not matter.
fn by_chance() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(std::process::id()) >> 11
}

fn target(args: &Args) -> std::result::Result<Target, Failure> {
    let Some(size) = args.create else { return Target::open(&args.path).map_err(refuse) };
    if !args.path.is_dir() {
        let error = Failure::message(Exit::Usage, format_args!("{} is no folder", args.path.display()));
        return Err(error.hint("--create makes its file in a folder; existing files are never written"));
    }
    let bar = terminal::bar(size.0, "writing the file to probe");
    let made = Target::create(&args.path, size.0, &mut |bytes| bar.set_position(bytes));
    bar.finish_and_clear();
    made.map_err(refuse)
}

/// The kernel answers EINVAL to a direct read without the alignment that its device needs.
fn explain_refusal(error: probe::Error, args: &Args) -> Failure {
    let unaligned = |error: &probe::Error| match error {
        probe::Error::File { source, .. } => source.raw_os_error() == Some(libc::EINVAL),
        _ => false,
    };
    let hint = (!args.cached && unaligned(&error))
        .then(|| format!("this device takes no direct I/O of {} bytes: use --block 4K, or --cached", args.block.0));
    let failure = Failure::from(error);
    hint.into_iter().fold(failure, Failure::hint)
}

fn share(target: &Target) -> Option<f64> {
    residency(&target.file, &target.path).ok().map(|it| it.share())
}

fn verb(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "read",
        Operation::Write => "write",
        Operation::Sync => "write and sync",
    }
}

struct Result<'a> {
    args: &'a Args,
    target: Target,
    options: Options,
    measured: Measured,
    cached_before: Option<f64>,
}

impl Result<'_> {
    fn count(&self) -> u64 {
        self.measured.histogram.count()
    }

    fn iops(&self) -> f64 {
        self.count() as f64 / self.measured.elapsed.as_secs_f64().max(1e-9)
    }

    fn each_us(&self, time: Duration) -> f64 {
        rounded(time.as_secs_f64() * 1e6 / self.count().max(1) as f64)
    }

    fn modes(&self) -> Modes {
        find(&bins_of(&self.measured.histogram), None)
    }

    fn as_json(&self) -> Value {
        let (histogram, cpu) = (&self.measured.histogram, self.measured.cpu);
        let modes = self.modes();
        let mut value = json!({
            "schema": 1,
            "operation": self.options.operation,
            "path": self.target.path.to_string_lossy(),
            "own_file": self.target.own,
            "direct": !self.args.cached,
            "block_bytes": self.options.block_bytes,
            "threads": self.options.threads,
            "working_set_bytes": self.measured.working_set_bytes,
            "interval_us": Span(self.options.interval).as_us(),
            "seed": self.options.seed,
            "count": self.count(),
            "elapsed_us": Span(self.measured.elapsed).as_us(),
            "iops": rounded(self.iops()),
            "bytes_per_second": rounded(self.iops() * self.options.block_bytes as f64),
            "min_us": us(histogram.min_ns()),
            "avg_us": avg_us(histogram),
            "stdev_us": rounded(histogram.stdev_ns() / 1e3),
            "max_us": us(histogram.max_ns()),
            "cached_share_before": self.cached_before,
            "cached_share_after": share(&self.target),
            "own_cost": {
                "cpu_user_us_per_operation": self.each_us(cpu.user),
                "cpu_system_us_per_operation": self.each_us(cpu.system),
                "between_us_per_operation": self.each_us(self.measured.between),
            },
            "modes": modes.modes,
            "histogram": histogram,
            "conditions": conditions(&self.target),
        });
        for (percentile, name) in PERCENTILES {
            value[format!("{name}_us")] = json!(us(histogram.percentile_ns(percentile)));
        }
        value
    }

    fn as_text(&self) -> String {
        let (histogram, cpu) = (&self.measured.histogram, self.measured.cpu);
        let modes = self.modes();
        let what = if self.target.own { "a file of our own in " } else { "" };
        let way = if self.args.cached { "through the page cache" } else { "past the page cache" };
        let mut lines = vec![format!(
            "{} {what}{} ({}, {}): blocks of {}, {} thread{}, {way}, in {}\n",
            verb(self.options.operation),
            self.target.path.display(),
            Bytes(self.target.size_bytes),
            place(&self.target),
            Bytes(self.options.block_bytes as u64),
            self.options.threads,
            if self.options.threads == 1 { "" } else { "s" },
            Bytes(self.measured.working_set_bytes),
        )];
        lines.push(chart(&bins_of(histogram), &modes.modes));
        // A rate is far below 2^53.
        #[allow(clippy::cast_possible_truncation)]
        let rate = Bytes((self.iops() * self.options.block_bytes as f64) as u64);
        lines.push(format!(
            "{} in {}: {:.1} a second, {rate}/s",
            self.count(),
            Span(self.measured.elapsed),
            self.iops()
        ));
        lines.push(format!(
            "min {}, avg {}, max {}, standard deviation {}",
            time(us(histogram.min_ns())),
            time(avg_us(histogram)),
            time(us(histogram.max_ns())),
            time(histogram.stdev_ns() / 1e3)
        ));
        let percentiles = PERCENTILES.map(|(percentile, name)| {
            format!("{} {}", name.replace('_', "."), time(us(histogram.percentile_ns(percentile))))
        });
        lines.push(percentiles.join(", "));
        if modes.modes.len() > 1 {
            let hump = |(index, mode): (usize, &modes::Mode)| {
                format!("{} {:.1} % at {}", mark(index), mode.share * 100.0, time(mode.center_us))
            };
            let humps: Vec<String> = modes.modes.iter().enumerate().map(hump).collect();
            lines.push(format!("{} humps: {}", humps.len(), humps.join(", ")));
        }
        if let (Some(before), Some(after)) = (self.cached_before, share(&self.target)) {
            lines.push(format!("cached: {:.1} % before, {:.1} % after", before * 100.0, after * 100.0));
        }
        lines.push(format!(
            "the probe's own cost, each: {} CPU in user mode, {} in the kernel; {} between two",
            time(self.each_us(cpu.user)),
            time(self.each_us(cpu.system)),
            time(self.each_us(self.measured.between))
        ));
        lines.join("\n")
    }
}

fn us(ns: u64) -> f64 {
    rounded(ns as f64 / 1e3)
}

fn avg_us(histogram: &LatencyHistogram) -> f64 {
    if histogram.is_empty() { 0.0 } else { rounded(histogram.mean_ns() / 1e3) }
}

/// Rounded to a thousandth: to a nanosecond when the unit is microseconds.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
