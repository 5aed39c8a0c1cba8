// SPDX-License-Identifier: Apache-2.0
//! Lists available servers; makes and removes sandboxes.

use super::capabilities;
use super::{Available, Delete, Deploy, Fetch, Output, Unpack, Watch, filled, pooler, standing};
use crate::exit::{Failure, Outcome};
use crate::{signals, terminal};
use host::places::Places;
use sandbox::{Archive, Flavour, Installation, Origin, Request, Sandbox, Source, Spec};
use serde_json::json;
use std::collections::BTreeSet;

pub(super) fn deploy(args: Deploy) -> Outcome {
    let stop = signals::install()?;
    let places = Places::from_environment();
    if let Some(name) = &args.name {
        Sandbox::check_free(name, &places)?;
    }
    let origin = args.from.as_deref().map(Origin::look).transpose()?;
    if let Some(origin) = &origin {
        terminal::say(format_args!("{} is a {}: {}", origin.path.display(), origin.describe(), origin.why));
        if origin.recovers {
            terminal::say(
                "note: its server was not stopped cleanly, or the backup is to be replayed: the copy recovers at its first start",
            );
        }
    }
    let mut watch = Watch::default();
    let named = match &origin {
        Some(origin) if args.server.is_empty() => Named::Request(origin.request()),
        _ => Named::of(&args.server)?,
    };
    // what is refused is refused before anything is fetched
    let pooler = args.pooler.settings(named.flavour())?;
    let found = named.obtain(args.fetched, &places, &mut watch)?;
    let pooler = pooler.map(|settings| pooler::obtain(settings, found.flavour, &places, &mut watch)).transpose()?;
    let filled = match &args.filled {
        Some(words) => Some(filled::entry(words, &found, &args.options, &places, stop)?),
        None => None,
    };
    let spec = Spec::new(found);
    let name = args.name.unwrap_or(spec.name);
    let spec =
        Spec { name, port: args.port, options: args.options, origin, filled, replicas: args.replicas, pooler, ..spec };
    let sandbox = Sandbox::deploy(spec, &places, &mut watch)?;
    drop(watch);
    describe(&sandbox);
    if args.start {
        return standing::start_members(&sandbox, &places);
    }
    terminal::hint(format_args!("wringer sandbox start {}", sandbox.name()));
    Ok(())
}

fn describe(sandbox: &Sandbox) {
    let manifest = &sandbox.manifest;
    let installation = &manifest.installation;
    terminal::data(format_args!("{}", manifest.name));
    terminal::say(format_args!(
        "  server  {} {} ({})",
        installation.flavour,
        installation.version,
        installation.source.describe()
    ));
    terminal::say(format_args!("  folder  {}", sandbox.folder.display()));
    terminal::say(format_args!("  socket  {}", sandbox.socket().display()));
    terminal::say(format_args!("  port    127.0.0.1:{}", manifest.port));
    if let Some(pooler) = &manifest.pooler {
        terminal::say(format_args!("  pooler  {} ({})", pooler::words(pooler), pooler.program.source.describe()));
    }
    terminal::say(format_args!("  runs as {}", manifest.user.name));
    if let Some(origin) = &manifest.origin {
        terminal::say(format_args!("  data    {}, from {}", origin.what, origin.path.display()));
        terminal::say(format_args!("  holds   {}", origin.databases.join(", ")));
        for (index, change) in origin.changes.iter().enumerate() {
            terminal::say(format_args!("  {:<7} {change}", if index == 0 { "notes" } else { "" }));
        }
    }
    if let Some(taken) = &manifest.filled {
        let seconds = taken.elapsed_us as f64 / 1e6;
        let size = units::Bytes(taken.bytes);
        terminal::say(format_args!(
            "  data    a clone of kept data ({}), {size} by {} in {seconds:.1} s",
            taken.key, taken.mechanism
        ));
    }
    for replica in sandbox.replicas() {
        let port = replica.manifest.port;
        terminal::say(format_args!("  replica {}, port 127.0.0.1:{port}", replica.name()));
    }
    terminal::say(format_args!(
        "  throw-away: data, accounts and logs are all in that folder{}, and go with `wringer sandbox delete {}`",
        if sandbox.replicas().is_empty() { "" } else { " and the replicas'" },
        manifest.name
    ));
}

/// A server: flavour and version, or the file of an archive.
enum Named {
    Archive(Archive),
    Request(Request),
}

impl Named {
    fn of(words: &[String]) -> Result<Self, Failure> {
        Ok(match words {
            [word] if word.contains('/') || word.contains(".tar") || word.ends_with(".tgz") => {
                Self::Archive(Archive { path: word.into(), ..Archive::default() })
            }
            _ => Self::Request(words.join(" ").parse()?),
        })
    }

    /// `None`: the archive tells it when it is unpacked.
    fn flavour(&self) -> Option<Flavour> {
        match self {
            Self::Archive(_) => None,
            Self::Request(request) => Some(request.flavour),
        }
    }

    fn obtain(&self, fetched: bool, places: &Places, watch: &mut Watch) -> Result<Installation, Failure> {
        match self {
            Self::Archive(archive) => Ok(sandbox::unpack(archive, places, watch)?),
            Self::Request(request) => take(request, fetched, places, watch),
        }
    }
}

fn take(request: &Request, fetched: bool, places: &Places, watch: &mut Watch) -> Result<Installation, Failure> {
    if fetched {
        return Ok(sandbox::fetch(request, places, watch)?);
    }
    let found = sandbox::locate(request, places, watch)?;
    if let Some(newer) = sandbox::newer_fetched(request, &found, places) {
        let (flavour, version) = (newer.flavour, newer.version);
        terminal::say(format_args!(
            "note: {flavour} {} is installed here and taken; {version} is fetched, too: name the version, as in `{flavour} {version}`",
            found.version
        ));
    }
    Ok(found)
}

pub(super) fn fetch(args: &Fetch) -> Outcome {
    signals::install()?;
    let found = Named::of(&args.server)?.obtain(true, &Places::from_environment(), &mut Watch::default())?;
    say_what_came(&found);
    Ok(())
}

pub(super) fn unpack(args: Unpack) -> Outcome {
    signals::install()?;
    let archive = Archive { path: args.archive, flavour: args.flavour, sha256: args.sha256 };
    let found = sandbox::unpack(&archive, &Places::from_environment(), &mut Watch::default())?;
    say_what_came(&found);
    terminal::hint(format_args!("wringer sandbox deploy {} {}", found.flavour, found.version));
    Ok(())
}

fn say_what_came(found: &Installation) {
    terminal::data(found.program.display());
    terminal::say(format_args!("  {} {} ({})", found.flavour, found.version, found.source.describe()));
}

/// One row of `available`.
struct Row {
    flavour: Flavour,
    version: String,
    from: String,
    place: String,
}

pub(super) fn available(args: &Available) -> Outcome {
    if args.capabilities {
        capabilities::table(args.format.output);
        return Ok(());
    }
    signals::install()?;
    let places = Places::from_environment();
    let mut rows = Vec::new();
    let mut troubles: Vec<Failure> = Vec::new();
    for flavour in Flavour::ALL {
        rows.extend(sandbox::installed(flavour).into_iter().chain(sandbox::fetched(flavour, &places)).map(present));
        let (offers, errors) = sandbox::offers(flavour, &places, &mut Watch::default());
        let offers = if args.all { offers.iter().collect() } else { sandbox::newest(&offers) };
        rows.extend(offers.into_iter().map(offered));
        troubles.extend(errors.into_iter().map(Failure::from));
    }
    print(&rows, args.format.output);
    let mut said = BTreeSet::new();
    for trouble in &troubles {
        let line = format!("{:#}", trouble.error);
        if said.insert(line.clone()) {
            terminal::say(format_args!("note: what can be fetched is not fully known: {line}"));
        }
    }
    if rows.is_empty()
        && let Some(trouble) = troubles.into_iter().next()
    {
        return Err(trouble);
    }
    Ok(())
}

fn present(found: Installation) -> Row {
    let from = match found.source {
        Source::Installed => "installed",
        Source::Package { .. } | Source::Artifact { .. } => "fetched",
        Source::Archive { .. } => "unpacked",
    };
    Row {
        flavour: found.flavour,
        version: found.version.to_string(),
        from: from.into(),
        place: found.program.display().to_string(),
    }
}

fn offered(offer: &sandbox::Offer) -> Row {
    let (flavour, version) = (offer.flavour, offer.version.to_string());
    Row { flavour, version, from: "offered".into(), place: offer.source.describe() }
}

fn print(rows: &[Row], output: Output) {
    if output == Output::Json {
        let rows: Vec<_> = rows
            .iter()
            .map(|row| json!({"flavour": row.flavour, "version": row.version, "from": row.from, "place": row.place}))
            .collect();
        return terminal::json(&json!({"schema": 1, "servers": rows}));
    }
    for row in rows {
        terminal::data(format_args!("{:<11} {:<10} {:<10} {}", row.flavour.name(), row.version, row.from, row.place));
    }
}

pub(super) fn delete(args: &Delete) -> Outcome {
    signals::install()?;
    let places = Places::from_environment();
    let names = names_to_delete(args, &places);
    // a wrong name, before anything is deleted
    names.iter().try_for_each(|name| Sandbox::open_any(name, &places).map(drop))?;
    let mut gone: Vec<String> = Vec::new();
    for name in &names {
        // it went with its primary
        if gone.contains(name) {
            continue;
        }
        let deleted = Sandbox::delete(name, &places, args.force)
            .map_err(|error| hint(error.into(), args.force).after_a_change(!gone.is_empty()))?;
        terminal::say(format_args!("deleted {}", deleted.names.join(", ")));
        for kept in deleted.kept {
            terminal::say(format_args!("note: not the sandbox's own, left where it is: {}", kept.display()));
        }
        for left in deleted.memory {
            terminal::say(format_args!("note: shared memory of its server that is left: {left}"));
        }
        gone.extend(deleted.names);
    }
    Ok(())
}

/// Includes sandboxes that were never deployed completely; replicas are deleted with their primaries.
fn names_to_delete(args: &Delete, places: &Places) -> Vec<String> {
    if !args.all {
        return args.names.clone();
    }
    let is_meant = |sandbox: &Sandbox| sandbox.manifest.run.is_none() && sandbox.primary().is_none();
    let all = Sandbox::list(places).into_iter();
    let meant: Vec<String> =
        all.filter(|(_, found)| found.as_ref().is_ok_and(is_meant)).map(|(name, _)| name).collect();
    if meant.is_empty() {
        terminal::say("there are no sandboxes");
    }
    meant
}

fn hint(failure: Failure, forced: bool) -> Failure {
    match failure.error.downcast_ref() {
        Some(sandbox::Error::Running { .. }) if forced => {
            failure.hint("no run of Wringer's holds that process: end it yourself")
        }
        Some(sandbox::Error::Running { .. }) => failure.hint("--force stops it first"),
        _ => failure,
    }
}
