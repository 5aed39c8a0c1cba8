// SPDX-License-Identifier: Apache-2.0
//! Reads files that `--keep` or `memory bundle` wrote.

use super::recorded::recording_at;
use crate::exit::{Exit, Failure};
use crate::input;
use bundle::{Files, INVENTORY, MANIFEST};
use ledger::Inventory;
use serde_json::error::Category;
use std::path::Path;

/// # Errors
/// Missing: it cannot be read, is damaged, or is neither an inventory nor a bundle.
pub(super) fn read(path: &Path) -> Result<Inventory, Failure> {
    if recording_at(path).is_some_and(|file| file.is_file()) {
        let message = format!("{} is a recording, which lacks what this answer needs", path.display());
        return Err(Failure::message(Exit::Missing, message).hint(
            "`wringer memory account --from` reads recordings; for this one, keep the raw data of the server: --keep FILE, or `wringer memory bundle`",
        ));
    }
    if path.is_dir() {
        return inventory(&folder(path)?, path);
    }
    let bytes = match path.to_str() {
        Some("-") => input::read_stdin(),
        _ => input::read_bytes(path),
    };
    let bytes = bytes.map_err(|error| Failure::new(Exit::Missing, error))?;
    if bundle::is_packed(&bytes) {
        let files = bundle::unpack(&bytes).map_err(|error| refused(path, &error))?;
        return inventory(&files, path);
    }
    parse(&bytes, path)
}

fn inventory(files: &Files, path: &Path) -> Result<Inventory, Failure> {
    bundle::verify(files).map_err(|error| refused(path, &error))?;
    let bytes = files.get(INVENTORY).map(Vec::as_slice);
    parse(bytes.ok_or_else(|| refused(path, &format!("there is no {INVENTORY} in it")))?, path)
}

/// The manifest, and the files that it lists.
fn folder(path: &Path) -> Result<Files, Failure> {
    let read = |name: &str| input::read_bytes(&path.join(name)).map_err(|error| refused(path, &format!("{error:#}")));
    let manifest = read(MANIFEST)?;
    let names = bundle::paths(&manifest).map_err(|error| refused(path, &error))?;
    let files = names.into_iter().map(|name| Ok((name.clone(), read(&name)?)));
    let mut files: Files = files.collect::<Result<_, Failure>>()?;
    files.insert(MANIFEST.to_owned(), manifest);
    Ok(files)
}

fn parse(bytes: &[u8], path: &Path) -> Result<Inventory, Failure> {
    let inventory: Inventory = serde_json::from_slice(bytes).map_err(|error| {
        let why = match error.classify() {
            _ if bytes.is_empty() => "it is empty".to_owned(),
            Category::Data => format!("it is JSON of something else ({error})"),
            _ => format!("it is no JSON, or cut off ({error})"),
        };
        refused(path, &format!("not what `--keep` of these commands or `wringer memory bundle` writes: {why}"))
    })?;
    match ledger::implausible(&inventory) {
        Some(why) => Err(refused(path, &format!("damaged: {why}"))),
        None => Ok(inventory),
    }
}

fn refused(path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::message(Exit::Missing, format!("{}: {why}", input::name(path)))
        .hint("take another copy of it, or collect it anew: `wringer memory bundle`")
}
