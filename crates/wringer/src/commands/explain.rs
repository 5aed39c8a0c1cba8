// SPDX-License-Identifier: Apache-2.0
//! The findings of a recording, computed anew.

use super::report::{read, recording_in};
use crate::exit::Outcome;
use crate::terminal;
use crate::terminal::Output;
use serde_json::json;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Nothing that a recording holds was computed, so an old recording is explained as this build explains it.\n\n\
    Examples:\n  \
      wringer explain wringer-demo\n  \
      wringer explain wringer-demo -o json | jq '.findings[] | select(.id == \"latency.modes\").evidence'"
)]
pub struct Args {
    /// The recording, or the folder that holds it
    recording: PathBuf,
    /// How to print the findings
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub fn main(args: Args) -> Outcome {
    let evidence = read(&recording_in(&args.recording))?;
    let explained = explain::explain(&evidence);
    let context = report::Context::new(&evidence, &explained);
    match args.output {
        Output::Text => terminal::data(report::findings_text(&context).trim_end()),
        Output::Json => {
            let whole = report::json(&context);
            let findings =
                json!({ "schema": whole["schema"], "run": whole["run"]["id"], "findings": whole["findings"] });
            terminal::json(&findings);
        }
    }
    Ok(())
}
