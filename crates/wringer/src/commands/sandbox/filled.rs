// SPDX-License-Identifier: Apache-2.0
//! `sandbox deploy --filled`: a sandbox that begins with filled tables, which are cloned from data that are kept in the cache.

use crate::commands::experiment_file::programs::filler_in;
use crate::exit::{Exit, Failure};
use crate::terminal;
use experiment::Experiment;
use host::places::Places;
use lab::{Cell, Found, Hooks, KeptFills};
use sandbox::{Installation, ServerOption};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const EXAMPLE: &str = "write the keys of an experiment's [fill], as in --filled 'rows=100000 tables=2 secondary=true', or a program that fills, as in \
                       --filled 'command=./fill.sh {dsn}'";
/// All words after it are the program and its arguments.
const COMMAND: &str = "command=";

/// The kept data of this fill. If there are none yet, the fill is made and kept now.
///
/// # Errors
/// Exit code 2: the words describe no fill. 3: the data may not be kept. 4: the fill failed.
pub(super) fn entry(
    words: &str,
    installation: &Installation,
    options: &[ServerOption],
    places: &Places,
    stop: Arc<AtomicBool>,
) -> Result<Arc<fills::Entry>, Failure> {
    let experiment = experiment(words, installation)?;
    let found = Found { filler: filler_in(&std::env::current_dir()?, &experiment)?, ..Found::default() };
    let no_bins = &mut |file: &str| Err(format!("no {file}"));
    let mut cell = Cell {
        kept_fills: KeptFills::Use,
        installation: Some(installation.clone()),
        command: crate::commands::command_line(),
        ..Cell::of(&experiment, found, no_bins)?
    };
    for phase in &mut cell.phases {
        phase.server_options = options.to_vec();
    }
    let hooks = Hooks { progress: &terminal::Shown, samples: None, stop };
    lab::kept_entry(&cell, installation, places, hooks)?.ok_or_else(|| {
        Failure::message(Exit::Missing, "the filled data cannot be kept, so that no sandbox can begin with them")
            .hint("the lines above say why; WRINGER_FILLS_LIMIT says how much may be kept, and `wringer purge --dry-run` what is")
    })
}

/// An experiment that makes these data on this server; its load is never sent.
fn experiment(words: &str, installation: &Installation) -> Result<Experiment, Failure> {
    let refused = |why: String| Failure::message(Exit::Usage, format!("--filled: {why}")).hint(EXAMPLE);
    let mut text = format!("schema = 1\nname = \"filled\"\n[server]\nflavour = \"{}\"\n[fill]\n", installation.flavour);
    let (words, command) = match words.split_once(COMMAND) {
        Some((before, command)) if before.is_empty() || before.ends_with([' ', ',', ';']) => (before, Some(command)),
        _ => (words, None),
    };
    for word in words.split([' ', ',', ';']).filter(|word| !word.is_empty()) {
        let Some((key, value)) = word.split_once('=') else {
            return Err(refused(format!("'{word}' is no KEY=VALUE")));
        };
        if ["from", "database"].contains(&key) {
            return Err(refused(format!("data of '{key}' are never kept")));
        }
        if key == "size" && value.trim_end_matches("pool").ends_with(['x', 'X']) {
            return Err(refused(
                "a size in multiples of the pool is an experiment's: write a size, such as size=192M".into(),
            ));
        }
        let is_bare = value == "true" || value == "false" || value.parse::<f64>().is_ok();
        let value = if is_bare { value.to_owned() } else { format!("{value:?}") };
        let _ = writeln!(text, "{key} = {value}");
    }
    if let Some(command) = command {
        let command: Vec<&str> = command.split_whitespace().collect();
        let _ = writeln!(text, "command = {command:?}");
    }
    text.push_str("[load]\nworkload = \"oltp_point_select\"\n");
    Experiment::parse(&text).map_err(|problems| {
        let told = problems.iter().map(|problem| match &problem.suggestion {
            Some(hint) => format!("{}: {hint}", problem.message),
            None => problem.message.clone(),
        });
        refused(told.collect::<Vec<_>>().join("; "))
    })
}
