// SPDX-License-Identifier: Apache-2.0
//! `wringer fill`: tables of a given size and shape.

use super::connection::Connection;
use super::fill_failure::{failed, refused};
use super::fill_keys::KeyArgs;
use super::{fill_pgbench, fill_space};
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;
use crate::terminal::Output;
use indicatif::ProgressBar;
use load::Target;
use load::fill::{self, FillPlan, FillReport, FillSpec, Progress, ServerFacts, Shape, Size, Stage};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use units::Bytes;
use workload::distribution;

/// Makes the tables sbtest1..N as sysbench does, at any size, and reads them back to check them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wringer fill --mysql-socket=/run/mysqld/mysqld.sock --times-pool 1.5 --rows-per-page 4\n  \
    wringer fill --dsn postgresql://postgres@localhost/sbtest --tables 4 --size 2G\n  \
    wringer fill --tables=10 --table-size=100000 --create-secondary=off\n  \
    wringer fill --size 2G --k-distribution zipfian --secondary-indexes 2\n  \
    wringer fill --dsn postgresql://postgres@localhost/sbtest --pgbench 100\n\n\
    Asked, predicted and got stand side by side; rows a page come from the server's own statistics. Rows are \
    written once, at their width, and keep it when a load deletes and inserts them.")]
pub struct Args {
    #[arg(long, default_value_t = 1, help = "Number of tables")]
    tables: u32,
    /// Rows in each table [default: 10000, unless a size is given]
    #[arg(long, visible_alias = "rows", alias = "table_size", value_name = "ROWS", group = "amount")]
    table_size: Option<u64>,
    /// Size of all tables together with their indexes, such as 192M or 2G
    #[arg(long, value_name = "SIZE", group = "amount")]
    size: Option<Bytes>,
    /// Size of all tables together, as a multiple of the server's buffer pool (PostgreSQL: shared_buffers): with 1.5 the tables are one and a half times as large as the pool
    #[arg(long, alias = "times_pool", value_name = "TIMES", group = "amount", value_parser = times)]
    times_pool: Option<f64>,
    /// pgbench's tables at this scale instead, as `pgbench -i` makes them: 100000 accounts for each unit
    #[arg(long, value_name = "SCALE", group = "amount", value_parser = clap::value_parser!(u32).range(1..=200_000_000),
        conflicts_with_all = ["tables", "shape", "create_secondary", "secondary_indexes", "auto_inc", "threads", "rand_seed",
            "k_distribution", "resume"])]
    pgbench: Option<u32>,
    /// Rows so wide that this many fit one page (16 KiB in InnoDB, 8 KiB in PostgreSQL)
    #[arg(long, alias = "rows_per_page", value_name = "ROWS", group = "shape")]
    rows_per_page: Option<u32>,
    /// Rows of this many bytes, all columns together [default: sysbench's 188]
    #[arg(long, alias = "row_bytes", value_name = "SIZE", group = "shape")]
    row_bytes: Option<Bytes>,
    /// Make the index on k, after the rows
    #[arg(long, alias = "create_secondary", value_name = "ON|OFF", value_parser = on_off, action = clap::ArgAction::Set,
        num_args = 0..=1, default_value = "on", default_missing_value = "on")]
    create_secondary: bool,
    /// How many indexes to make after the rows: 1 makes the index on k, 2 also one on pad, 3 also one on c, 0 makes none
    #[arg(long, alias = "secondary_indexes", value_name = "N", value_parser = clap::value_parser!(u32).range(0..=3),
        conflicts_with = "create_secondary")]
    secondary_indexes: Option<u32>,
    /// The server hands out keys to later inserts
    #[arg(long, alias = "auto_inc", value_name = "ON|OFF", value_parser = on_off, action = clap::ArgAction::Set,
        num_args = 0..=1, default_value = "on", default_missing_value = "on")]
    auto_inc: bool,
    /// Connections that fill at the same time; an InnoDB table is filled by one
    #[arg(long, default_value_t = 2, value_name = "N")]
    threads: u32,
    /// The same seed gives the same rows
    #[arg(long, alias = "rand_seed", default_value_t = 0, value_name = "N")]
    rand_seed: u64,
    /// Drop tables of the same names first
    #[arg(long)]
    replace: bool,
    /// Go on with a fill that was killed: compare the rows that are there with those that the same flags give, and write the missing ones
    #[arg(long, conflicts_with_all = ["replace", "dry_run"])]
    resume: bool,
    /// Fill also when the server is on this machine and its disk seems too small
    #[arg(long)]
    no_space_check: bool,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    #[arg(short, long, value_enum, default_value_t = Output::Text, help = "How to print the result")]
    output: Output,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    connection: Connection,
}

pub fn main(args: Args) -> Outcome {
    let target = args.connection.target()?;
    let spec = args.spec().map_err(|error| Failure::new(Exit::Usage, error))?;
    let stop = stop_flag()?;
    if !args.dry_run && fill::ensure_database(&target).map_err(refused)? {
        terminal::say(format_args!("made the database {}", target.database.as_deref().unwrap_or_default()));
    }
    if let Some(scale) = args.pgbench {
        if args.dry_run {
            fill_pgbench::show_plan(&target, scale, args.output);
            return Ok(());
        }
        if !args.replace && !args.no_space_check {
            fill_space::require(fill_pgbench::bytes(scale), &target)?;
        }
        return fill_pgbench::main(&target, scale, args.replace, &stop, args.output);
    }
    let facts = ServerFacts::read(&target).map_err(refused)?;
    let plan = fill::plan(&spec, &facts).map_err(refused)?;
    if args.dry_run {
        print_plan(&plan, args.output);
        return Ok(());
    }
    // When tables are replaced or resumed, the needed space is not known exactly.
    if facts.existing.is_empty() && !args.no_space_check {
        fill_space::require(plan.predicted.used_bytes, &target)?;
    }
    let report = with_bar(&plan, &target, &stop)?;
    if !report.as_predicted() {
        terminal::say("warning: rows take more or fewer pages than predicted; the figures below are the server's");
    }
    print_report(&report, args.output);
    Ok(())
}

impl Args {
    fn spec(&self) -> Result<FillSpec, distribution::Error> {
        let rows = self.table_size.map(Size::Rows);
        let size = rows.or(self.size.map(|size| Size::Bytes(size.0))).or(self.times_pool.map(Size::TimesPool));
        let shape = self.rows_per_page.map(Shape::RowsPerPage).or(self.row_bytes.map(|bytes| Shape::RowBytes(bytes.0)));
        let default = FillSpec::default();
        let indexes = self.secondary_indexes.unwrap_or_else(|| self.create_secondary.into());
        Ok(FillSpec {
            tables: self.tables,
            size: size.unwrap_or(default.size),
            shape: shape.unwrap_or(default.shape),
            secondary: indexes > 0,
            keys: self.keys.distribution()?,
            text_indexes: indexes.saturating_sub(1),
            auto_inc: self.auto_inc,
            threads: self.threads,
            seed: self.rand_seed,
            resume: self.resume,
            replace: self.replace,
        })
    }
}

/// Makes these tables in an existing database, and prints the result.
pub fn make(spec: &FillSpec, target: &Target, stop: &AtomicBool, output: Output) -> Outcome {
    let facts = ServerFacts::read(target).map_err(refused)?;
    let plan = fill::plan(spec, &facts).map_err(refused)?;
    if facts.existing.is_empty() {
        fill_space::require(plan.predicted.used_bytes, target)?;
    }
    print_report(&with_bar(&plan, target, stop)?, output);
    Ok(())
}

/// The flag that SIGINT (Ctrl-C) and SIGTERM set.
fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [libc::SIGINT, libc::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

fn with_bar(plan: &FillPlan, target: &Target, stop: &AtomicBool) -> Result<FillReport, Failure> {
    let bar = terminal::bar(plan.rows(), Stage::Rows.describe());
    let report = fill::run(plan, target, stop, &mut |progress| show(&bar, progress));
    bar.finish_and_clear();
    report.map_err(failed)
}

fn show(bar: &ProgressBar, progress: Progress) {
    bar.set_message(progress.stage.describe());
    bar.set_length(progress.total);
    bar.set_position(progress.done);
}

fn print_plan(plan: &FillPlan, output: Output) {
    if output == Output::Json {
        return terminal::json(&serde_json::json!({ "schema": 1, "plan": plan }));
    }
    for table in 1..=plan.spec.tables {
        terminal::data(format_args!("{};", plan.create_table(table)));
    }
    terminal::data(format_args!(
        "-- {} rows a table, {} bytes a row, {} rows a page, {} in all",
        plan.rows_per_table,
        plan.predicted.row_bytes,
        plan.predicted.rows_per_page,
        Bytes(plan.predicted.used_bytes)
    ));
    for sql in (1..=plan.spec.tables).flat_map(|table| plan.create_indexes(table)) {
        terminal::data(format_args!("{sql};"));
    }
}

fn print_report(report: &FillReport, output: Output) {
    match output {
        Output::Text => terminal::data(report),
        Output::Json => terminal::json(&serde_json::json!({ "schema": 1, "fill": report })),
    }
}

fn on_off(text: &str) -> Result<bool, String> {
    match text {
        "on" | "true" | "1" | "yes" => Ok(true),
        "off" | "false" | "0" | "no" => Ok(false),
        _ => Err("write on or off".to_owned()),
    }
}

/// Reads a factor, as `1.5` or `1.5x`.
fn times(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix(['x', 'X']).unwrap_or(text);
    let times: Option<f64> = number.parse().ok().filter(|times: &f64| times.is_finite() && *times > 0.0);
    times.ok_or_else(|| "write a number above 0, such as 1.5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn spec(flags: &[&str]) -> FillSpec {
        Line::parse_from([&["test"], flags].concat()).args.spec().unwrap()
    }

    #[test]
    fn flags_as_sysbench_has_them() {
        let spec = spec(&["--tables=2", "--table_size=786432", "--create_secondary=off", "--auto-inc=off"]);
        assert_eq!((spec.tables, spec.size), (2, Size::Rows(786_432)));
        assert_eq!((spec.secondary, spec.auto_inc), (false, false));
    }

    #[test]
    fn sizes_and_shapes() {
        let pool = spec(&["--times-pool", "1.5x", "--rows-per-page", "4"]);
        assert_eq!((pool.size, pool.shape), (Size::TimesPool(1.5), Shape::RowsPerPage(4)));
        let bytes = spec(&["--size", "192M", "--row-bytes", "1K"]);
        assert_eq!((bytes.size, bytes.shape), (Size::Bytes(192 << 20), Shape::RowBytes(1024)));
        assert!(spec(&["--create-secondary"]).secondary);
        assert_eq!(spec(&[]), FillSpec::default());
    }

    #[test]
    fn keys_and_indexes() {
        let skewed = spec(&["--k-distribution=pareto", "--rand-pareto-h=0.1", "--secondary-indexes=3"]);
        assert_eq!(skewed.keys, distribution::Distribution::Pareto { h: 0.1 });
        assert_eq!((skewed.secondary, skewed.text_indexes), (true, 2));
        let none = spec(&["--secondary-indexes=0"]);
        assert_eq!((none.secondary, none.text_indexes), (false, 0));
        let wrong = Line::parse_from(["test", "--k-distribution=pareto", "--rand-pareto-h=2"]);
        assert!(wrong.args.spec().unwrap_err().to_string().contains("rand-pareto-h is 2"));
    }

    #[test]
    fn one_amount_one_shape() {
        for flags in [
            ["--size=1G", "--table-size=5"],
            ["--pgbench=1", "--table-size=5"],
            ["--pgbench=1", "--tables=5"],
            ["--pgbench=0", "--replace"],
            ["--pgbench=1", "--k-distribution=zipfian"],
            ["--resume", "--replace"],
            ["--resume", "--dry-run"],
            ["--secondary-indexes=2", "--create-secondary=off"],
            ["--tables=1", "--k-distribution=normal"],
            ["--rows-per-page=4", "--row-bytes=999"],
            ["--tables=1", "--create-secondary=maybe"],
        ] {
            assert!(Line::try_parse_from([&["test"], &flags[..]].concat()).is_err(), "{flags:?}");
        }
    }
}
