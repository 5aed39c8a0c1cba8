// SPDX-License-Identifier: Apache-2.0
//! `wringer compare`: two sides of runs, one verdict for each figure.

mod limits;
mod settings;
mod table;

use super::report::{read, recording_in};
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::{self, Output};
use evidence::Evidence;
use explain::sides::{Sides, Wanted, compare};
use limits::{Checked, check, end};
use serde_json::{Value, json};
use std::path::PathBuf;
use verdict::Limit;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A repeat is one run of its own: a fresh server on fresh data. Below three runs of each side there is no verdict.\n\
    All intervals of a comparison hold together with a confidence of 95 %. Conditions that differ between the runs are listed first.\n\
    A difference that --across does not allow makes the runs not comparable. `wringer doc compare` says how a verdict is made.\n\n\
    Examples:\n  \
      # list how the conditions of two runs differ; two runs give no verdict\n  \
      wringer compare before after\n  \
      # compare three repeats of each side\n  \
      wringer compare --a old-1 old-2 old-3 --b new-1 new-2 new-3\n  \
      wringer compare --a old-* --b new-* --paired --across server.version --fail-if 'p99>1.05x'\n  \
      # compare two settings of a matrix, paired within blocks\n  \
      wringer compare --sweep out --a threads=1 --b threads=8\n\n\
    Exit codes: 0 compared, and no --fail-if was reached; without --fail-if also when there is no verdict (not comparable, too few repeats); \
    1 a --fail-if was reached: the difference is shown, and it is beyond the limit; 2 wrong usage, or a --fail-if names no figure; 3 there is no verdict for a --fail-if, or a recording is missing or is something else; \
    4 a recording cannot be read."
)]
pub struct Args {
    /// The recording of the first side, or its folder
    #[arg(value_name = "A", required_unless_present = "a", conflicts_with_all = ["a", "b"], requires = "second")]
    first: Option<PathBuf>,
    /// The recording of the second side, or its folder
    #[arg(value_name = "B")]
    second: Option<PathBuf>,
    /// The folder of a matrix: --a and --b then name one setting each, KEY=VALUE, and its cells are the repeats, paired within blocks
    #[arg(long, value_name = "FOLDER", requires = "a", conflicts_with_all = ["first", "paired"])]
    sweep: Option<PathBuf>,
    /// Recordings of the first side, each a repeat
    #[arg(long, num_args = 1.., value_name = "RECORDING", requires = "b")]
    a: Vec<PathBuf>,
    /// Recordings of the second side, each a repeat
    #[arg(long, num_args = 1.., value_name = "RECORDING", requires = "a")]
    b: Vec<PathBuf>,
    /// The first run of one side ran beside the first run of the other, the second beside the second, and so on
    #[arg(long)]
    paired: bool,
    /// A condition that may differ between the sides. KEY is a key of the printed list (server.version), the first part of several keys (host), or
    /// the name of a variable
    #[arg(long, value_name = "KEY")]
    across: Vec<String>,
    /// Compare this arm only
    #[arg(long, value_name = "NAME")]
    arm: Option<String>,
    /// Exit code 1 when a figure is shown to be so much higher or lower on the second side: 'p99>1.05x', 'throughput<0.95x'
    #[arg(long, value_name = "LIMIT")]
    fail_if: Vec<Limit>,
    /// How to print the comparison
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// # Errors
/// Exit codes 1 and 3: a limit is shown to be exceeded, or this cannot be told. 2 and 3: the runs cannot be compared. 4: a recording cannot be read.
pub fn main(args: Args) -> Outcome {
    limits::require_known(&args.fail_if)?;
    let (a, b) = match (args.first, args.second) {
        (Some(a), Some(b)) => (vec![a], vec![b]),
        _ => (args.a, args.b),
    };
    let (a, b, wanted) = match &args.sweep {
        Some(folder) => {
            let settings::Compared { a, b, wanted } = settings::compared(folder, [&a, &b], args.arm.as_deref())?;
            (a, b, wanted)
        }
        None => (a, b, Wanted { paired: args.paired, ..Wanted::default() }),
    };
    let (a, b) = (all(&a)?, all(&b)?);
    let wanted = Wanted { across: args.across, arm: args.arm, ..wanted };
    let sides = compare(&a, &b, &wanted).map_err(|error| Failure::new(Exit::Usage, error))?;
    let checked: Vec<Checked> = args.fail_if.iter().flat_map(|limit| check(limit, &sides)).collect();
    match args.output {
        Output::Text => {
            let about = table::About { has_runs: !a.is_empty() && !b.is_empty(), is_sweep: args.sweep.is_some() };
            terminal::data(table::text(&sides, about, checked.iter().map(|one| one.statement.as_str())).trim_end())
        }
        Output::Json => terminal::json(&document(&sides, &checked)),
    }
    end(&checked)
}

fn all(paths: &[PathBuf]) -> Result<Vec<Evidence>, Failure> {
    let compared = |path: &PathBuf| {
        let mut evidence = read(&recording_in(path), explain::needs, explain::without_inventory)?;
        // hundreds of megabytes a recording; no figure comes from them
        (evidence.snapshots, evidence.spans) = (Vec::new(), Vec::new());
        Ok(evidence)
    };
    paths.iter().map(compared).collect()
}

fn document(sides: &Sides, checked: &[Checked]) -> Value {
    let figures = match sides.comparisons.as_slice() {
        [one] => Some(&one.judged.figures),
        _ => None,
    };
    json!({
        "schema": report::SCHEMA,
        "differs": sides.differs,
        "verdict": if sides.not_comparable.is_empty() { "compared" } else { "not_comparable" },
        "not_comparable": sides.not_comparable,
        "figures": figures,
        "comparisons": sides.comparisons,
        "fail_if": checked,
    })
}
