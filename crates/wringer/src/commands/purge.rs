// SPDX-License-Identifier: Apache-2.0
//! `wringer purge`: frees what filled data take in the cache.

use crate::exit::Outcome;
use crate::terminal::Output;
use crate::{signals, terminal};
use fills::{Listed, Purged, Store};
use host::clock::rfc3339;
use host::places::Places;
use serde_json::{Value, json};
use std::path::PathBuf;
use units::{Bytes, counted};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Frees the data directories that `wringer run`, matrices and `sandbox deploy --filled` have kept (`wringer doc fills`), and removes what a killed `--filled` has left in the \
    cache. No result, sandbox, recording of a run or fetched server is touched; the next run fills anew. What a run clones at this moment stays, and is named.\n\n\
    Examples:\n  \
    # list what is kept, how large it is, and when it was used last; remove nothing\n  \
    wringer purge --dry-run\n  \
    # remove everything that is kept\n  \
    wringer purge\n  \
    wringer purge -o json | jq .freed_bytes\n\n\
    Exit codes: 0 freed, or there was nothing; 3 the folder of the cache is not this user's alone; 130 interrupted."
)]
pub struct Args {
    /// Print what would be freed, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// # Errors
/// The cache's folder is not the caller's alone; an entry cannot be removed; interrupted.
pub fn main(args: &Args) -> Outcome {
    signals::install()?;
    let places = Places::from_environment();
    let store = Store::open(&places).map_err(sandbox::Error::from)?;
    let purged = store.purge(args.dry_run, &host::interrupt::requested).map_err(sandbox::Error::from)?;
    let recordings = lab::clear_recordings(&places, args.dry_run);
    match args.output {
        Output::Json => terminal::json(&as_json(&store, &purged, &recordings, args.dry_run)),
        Output::Text => show(&store, &purged, &recordings, args.dry_run),
    }
    Ok(())
}

fn freed_bytes(purged: &Purged) -> u64 {
    purged.removed.iter().map(|entry| entry.taken_bytes).sum()
}

fn as_json(store: &Store, purged: &Purged, recordings: &[PathBuf], dry_run: bool) -> Value {
    let entries = |entries: &[Listed]| entries.iter().map(entry_json).collect::<Vec<_>>();
    json!({
        "schema": 1,
        "folder": store.folder(),
        "dry_run": dry_run,
        "freed_bytes": freed_bytes(purged),
        "removed": entries(&purged.removed),
        "left": entries(&purged.left),
        "leftovers": purged.debris,
        "recordings": recordings,
    })
}

fn entry_json(entry: &Listed) -> Value {
    json!({
        "key": entry.id,
        "depends_on": entry.key.parts(),
        "taken_bytes": entry.taken_bytes,
        "made": rfc3339(entry.made),
        "used": rfc3339(entry.used),
        "in_use": entry.in_use,
    })
}

fn show(store: &Store, purged: &Purged, recordings: &[PathBuf], dry_run: bool) {
    let line = |entry: &Listed, what: &str| {
        let server = format!("{} {}", entry.key.text("flavour"), entry.key.text("version"));
        let (bytes, used) = (Bytes(entry.taken_bytes), rfc3339(entry.used));
        terminal::data(format_args!("{what} {}  {server}  {bytes}  used last {used}", entry.id));
    };
    purged.removed.iter().for_each(|entry| line(entry, if dry_run { "would free" } else { "freed" }));
    purged.left.iter().for_each(|entry| line(entry, "in use now, left:"));
    if purged.debris > 0 {
        let what = counted(purged.debris, "leftover");
        terminal::data(format_args!("removed {what} of processes that were killed while they kept data"));
    }
    let what = if dry_run { "would remove" } else { "removed" };
    recordings.iter().for_each(|folder| {
        terminal::data(format_args!("{what} the recording of a killed fill: {}", folder.display()));
    });
    let folder = store.folder().display();
    let (bytes, count) = (Bytes(freed_bytes(purged)), counted(purged.removed.len() as u64, "kept fill"));
    match (purged.removed.is_empty(), dry_run) {
        (true, _) => terminal::data(format_args!("no kept fill to free in {folder}")),
        (false, true) => terminal::data(format_args!("would free {bytes}: {count} in {folder}")),
        (false, false) => terminal::data(format_args!("freed {bytes}: {count} in {folder}")),
    }
}
