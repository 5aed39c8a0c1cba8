// SPDX-License-Identifier: Apache-2.0
use super::{conditions, interrupted, place, refuse, warn_of_holes};
use crate::exit::{Exit, Failure, Outcome};
use crate::signals;
use crate::terminal::{self, Output};
use probe::scan::{Options, Scan, scan};
use probe::target::Target;
use serde_json::json;
use std::path::PathBuf;
use units::Bytes;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The file's own pages are dropped from the page cache first (no root needed, no other file is touched; a server that reads \
    this file through the cache reads it from disk once more). Then it is read from its beginning to its end, as `cat` does.\n\n\
    Examples:\n  \
      # read the file three times: once from disk, twice from RAM\n  \
      wringer probe scan /srv/data/big.ibd\n  \
      # is the RAM really hidden? then the second read is no faster\n  \
      sudo wringer ram leave 4G && wringer probe scan /srv/data/big.ibd\n\n\
    How to read the answer: docs/probe.md, or `wringer doc probe`."
)]
pub struct Args {
    /// The file
    file: PathBuf,
    /// How often it is read
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Bytes a read call asks for
    #[arg(long, value_name = "SIZE", default_value = "128K")]
    block: Bytes,
    /// Leave the page cache as it is before the first round
    #[arg(long)]
    no_evict: bool,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub fn main(args: &Args) -> Outcome {
    let block_bytes = usize::try_from(args.block.0).ok().filter(|bytes| (1..=1 << 30).contains(bytes));
    let block_bytes = block_bytes.ok_or_else(|| Failure::message(Exit::Usage, "--block is from 1 byte to 1 GiB"))?;
    signals::install()?;
    if args.file.is_dir() {
        let error = Failure::message(Exit::Usage, format_args!("{} is a folder", args.file.display()));
        return Err(error.hint("name one file; `wringer probe cache` looks at whole folders"));
    }
    let target = Target::open(&args.file).map_err(refuse)?;
    if target.size_bytes == 0 {
        let error = Failure::message(Exit::Missing, format_args!("{} is empty", target.path.display()));
        return Err(error.hint("name a file with data in it"));
    }
    warn_of_holes(&target);
    let options = Options { rounds: args.rounds, block_bytes, evict: !args.no_evict };
    let bar = terminal::bar(target.size_bytes * u64::from(args.rounds), "reading");
    let result = scan(&target.file, &target.path, &options, &mut |bytes| bar.set_position(bytes));
    bar.finish_and_clear();
    let result = result.map_err(refuse)?;
    match args.output {
        Output::Json => terminal::json(&as_json(&target, &result)),
        Output::Text => show(&target, &result),
    }
    if result.interrupted { Err(interrupted()) } else { Ok(()) }
}

fn as_json(target: &Target, scan: &Scan) -> serde_json::Value {
    json!({
        "schema": 1, "path": target.path.to_string_lossy(), "rounds": scan.rounds, "not_evicted": scan.not_evicted, "verdict": scan.verdict,
        "verdict_text": scan.verdict.to_string(), "interrupted": scan.interrupted, "conditions": conditions(target),
    })
}

fn show(target: &Target, scan: &Scan) {
    terminal::data(format_args!("{}: {}, {}\n", target.path.display(), Bytes(target.size_bytes), place(target)));
    if let Some(why) = &scan.not_evicted {
        terminal::say(format_args!("warning: the file is not cold: {why}"));
    }
    terminal::data("round     seconds          rate       CPU  cached before  cached after");
    for (index, round) in scan.rounds.iter().enumerate() {
        // A rate is far below 2^53 bytes a second.
        #[allow(clippy::cast_possible_truncation)]
        let rate = format!("{}/s", Bytes(round.bytes_per_second as u64));
        terminal::data(format_args!(
            "{:>5}  {:>10.3}  {rate:>12}  {:>6.3} s  {:>11.1} %  {:>10.1} %",
            index + 1,
            round.seconds,
            round.cpu_seconds,
            round.cached_before * 100.0,
            round.cached_after * 100.0
        ));
    }
    terminal::data(format_args!("\n{}", scan.verdict));
}
