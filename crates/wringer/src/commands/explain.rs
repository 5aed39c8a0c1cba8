// SPDX-License-Identifier: Apache-2.0
//! The findings of a recording, or of several together, computed anew.

use super::report::{read, recording_in};
use crate::exit::Outcome;
use crate::terminal;
use crate::terminal::Output;
use evidence::Evidence;
use report::Context;
use serde_json::{Value, json};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A recording holds measurements and no conclusions. This version draws the conclusions anew, also from an old recording.\n\n\
    Examples:\n  \
      wringer explain out\n  \
      wringer explain out -o json | jq '.findings[] | select(.id == \"latency.modes\").evidence'\n  \
      # compare the runs, arm by arm, and say how their conditions differ\n  \
      wringer explain before after"
)]
pub struct Args {
    /// The recording, or the folder that holds it. When there are several, each later one is compared with the first
    #[arg(required = true, value_name = "RECORDING")]
    recordings: Vec<PathBuf>,
    /// How to print the findings
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub fn main(args: Args) -> Outcome {
    let recordings = args.recordings.iter();
    let recordings = recordings.map(|path| read(&recording_in(path), explain::needs, explain::with_figures_alone));
    let recordings = recordings.collect::<Result<Vec<Evidence>, _>>()?;
    match (recordings.as_slice(), args.output) {
        ([evidence], output) => one(evidence, output),
        (several, output) => together(several, output),
    }
    Ok(())
}

fn one(evidence: &Evidence, output: Output) {
    let explained = explain::explain(evidence);
    let context = Context::new(evidence, &explained).within(terminal::columns());
    match output {
        Output::Text => terminal::data(report::findings_text(&context).trim_end()),
        Output::Json => {
            let (run, findings) = (&evidence.run_id, &explained.findings);
            terminal::json(&json!({ "schema": report::SCHEMA, "run": run, "findings": findings }));
        }
    }
}

fn together(recordings: &[Evidence], output: Output) {
    let explained = explain::explain_together(&recordings.iter().collect::<Vec<_>>());
    let contexts = recordings.iter().zip(&explained.runs);
    let columns = terminal::columns();
    let contexts = contexts.map(|(evidence, explained)| Context::new(evidence, explained).within(columns));
    let contexts: Vec<Context<'_>> = contexts.collect();
    match output {
        Output::Text => terminal::data(report::together_text(&contexts, &explained.findings).trim_end()),
        Output::Json => {
            let of_run =
                |context: &Context<'_>| json!({ "run": context.evidence.run_id, "findings": context.findings });
            let runs: Vec<Value> = contexts.iter().map(of_run).collect();
            terminal::json(&json!({ "schema": report::SCHEMA, "runs": runs, "findings": explained.findings }));
        }
    }
}
