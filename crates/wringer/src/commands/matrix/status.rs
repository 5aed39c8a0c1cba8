// SPDX-License-Identifier: Apache-2.0
//! `wringer matrix status`.

use super::show;
use super::{failure, folder, ready};
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::{self, Output};
use host::places::Places;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wringer matrix status out\n  \
    wringer matrix status out -o json | jq '.cells[] | select(.state != \"done\")'\n\n\
    Reads sweep.json, and changes nothing. It may be called while the matrix runs.\n\n\
    Exit codes: 0 there is a matrix; 2 the file is wrong; 3 nothing was run there yet.")]
pub struct Args {
    /// The folder of a matrix's results, or the experiment file, whose results are in the default folder
    place: PathBuf,
    /// How to print; json: the content of sweep.json
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub(super) fn main(args: &Args) -> Outcome {
    let folder = match args.place.is_file() {
        true => folder(None, &ready::read(&args.place)?.name, &Places::from_environment()),
        false => args.place.clone(),
    };
    let Some(state) = sweep::read(&folder).map_err(failure)? else {
        let message = format!("no matrix was run in {}", folder.display());
        return Err(Failure::message(Exit::Missing, message).hint("name the folder that `wringer matrix run` printed"));
    };
    match args.output {
        Output::Json => terminal::json(&state),
        Output::Text => {
            let runs = if sweep::is_running(&folder) { "It runs now.\n" } else { "" };
            terminal::data(format!("{runs}{}", show::text(&state)).trim_end());
        }
    }
    Ok(())
}
