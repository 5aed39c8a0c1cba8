// SPDX-License-Identifier: Apache-2.0
//! Lists sandboxes and their state.

use super::{Format, Log, Output, Status, pooler};
use crate::exit::Outcome;
use crate::terminal;
use host::places::Places;
use run::FoundRun;
use sandbox::{Behind, Lag, Member, Sandbox, Server, State};
use serde_json::{Value, json};

pub(super) fn list(format: &Format) -> Outcome {
    let places = Places::from_environment();
    print(Sandbox::list(&places), &Runs::of(&places)?, format.output);
    Ok(())
}

pub(super) fn status(args: &Status) -> Outcome {
    let places = Places::from_environment();
    let mut found = Sandbox::list(&places);
    for name in &args.names {
        if !found.iter().any(|(known, _)| known == name) {
            return Err(sandbox::Error::NoSandbox { name: name.clone() }.into());
        }
    }
    found.retain(|(name, _)| args.names.is_empty() || args.names.contains(name));
    print(found, &Runs::of(&places)?, args.format.output);
    Ok(())
}

type Found = Vec<(String, Result<Sandbox, sandbox::Error>)>;

/// All runs of this home, live or dead.
struct Runs<'a> {
    places: &'a Places,
    found: Vec<FoundRun>,
}

impl<'a> Runs<'a> {
    fn of(places: &'a Places) -> Result<Self, run::Error> {
        Ok(Self { places, found: run::find_runs(places)? })
    }

    fn server(&self, sandbox: &Sandbox) -> Server {
        sandbox.server(self.places, &self.found)
    }

    /// Whether the server ended without being stopped: it crashed, or was killed.
    fn has_died(&self, sandbox: &Sandbox) -> bool {
        sandbox.has_died_in(self.places, &self.found)
    }

    fn is_live(&self, run: &str) -> bool {
        self.found.iter().any(|found| found.live && found.id.as_str() == run)
    }
}

fn print(found: Found, runs: &Runs<'_>, output: Output) {
    if output == Output::Json {
        let rows: Vec<Value> = found.iter().map(|(name, sandbox)| row(name, sandbox.as_ref(), runs)).collect();
        return terminal::json(&json!({"schema": 1, "sandboxes": rows}));
    }
    if found.is_empty() {
        return terminal::say("no sandboxes; `wringer sandbox deploy mariadb` makes one");
    }
    for (name, sandbox) in found {
        match sandbox {
            Ok(sandbox) => terminal::data(line(&sandbox, runs)),
            Err(error) => terminal::data(format_args!("{name:<24} broken: {error}")),
        }
    }
}

fn line(sandbox: &Sandbox, runs: &Runs<'_>) -> String {
    let manifest = &sandbox.manifest;
    let program = format!("{} {}", sandbox.flavour(), manifest.installation.version);
    let of = match &manifest.run {
        Some(run) if is_left_over(sandbox, runs) => {
            format!("; left over from {run}, which was cut off: `wringer sandbox delete {}` removes it", manifest.name)
        }
        Some(run) => format!("; {run} deletes it when it ends"),
        None => String::new(),
    };
    let server = runs.server(sandbox);
    let part = part(sandbox, &server).map(|part| format!("; {part}")).unwrap_or_default();
    let pooler = pooler::line(sandbox).map(|line| format!("; {line}")).unwrap_or_default();
    format!(
        "{:<24} {program:<20} 127.0.0.1:{:<6} {}{part}{pooler}{of}",
        manifest.name,
        manifest.port,
        state(sandbox, &server, runs)
    )
}

/// The role of the sandbox, primary or replica, and how far a replica is behind its primary.
fn part(sandbox: &Sandbox, server: &Server) -> Option<String> {
    match sandbox.manifest.member.as_ref()? {
        Member::Primary { replicas } => Some(format!("primary of {}", replicas.join(", "))),
        Member::Replica { of, .. } => {
            let lag = server.pid().map(|_| sandbox.lag());
            let lag = lag.map(|lag| lag.map_or_else(|error| format!(", lag unknown: {}", host::chain(&error)), behind));
            Some(format!("replica of {of}{}", lag.unwrap_or_default()))
        }
    }
}

fn behind(lag: Lag) -> String {
    let time = lag.time_s.map(|seconds| format!("{seconds} s behind ({})", lag.time_source));
    let lacks = lag.behind.map(|behind| match behind {
        Behind::Transactions(count) => format!("lacks {} (by GTID)", units::counted(count, "transaction")),
        Behind::WalBytes(bytes) => format!("lacks {bytes} B of write-ahead log"),
    });
    let trouble = lag.trouble.map(|trouble| format!("NOT REPLICATING: {trouble}"));
    [trouble, time, lacks].into_iter().flatten().map(|words| format!(", {words}")).collect()
}

fn replication(sandbox: &Sandbox, server: &Server) -> Value {
    match &sandbox.manifest.member {
        None => Value::Null,
        Some(Member::Primary { replicas }) => json!({"role": "primary", "replicas": replicas}),
        Some(Member::Replica { of, .. }) => {
            let mut row = json!({"role": "replica", "of": of});
            match server.pid().map(|_| sandbox.lag()) {
                None => {}
                Some(Err(error)) => row["trouble"] = host::chain(&error).into(),
                Some(Ok(lag)) => {
                    row["is_replicating"] = lag.is_replicating.into();
                    row["lag_s"] = lag.time_s.into();
                    row["lag_source"] = lag.time_source.into();
                    row["trouble"] = lag.trouble.into();
                    match lag.behind {
                        Some(Behind::Transactions(count)) => row["behind_transactions"] = count.into(),
                        Some(Behind::WalBytes(bytes)) => row["behind_wal_bytes"] = bytes.into(),
                        None => {}
                    }
                }
            }
            row
        }
    }
}

/// The run that should delete it has died.
fn is_left_over(sandbox: &Sandbox, runs: &Runs<'_>) -> bool {
    sandbox.manifest.run.as_ref().is_some_and(|run| !runs.is_live(run))
}

fn state(sandbox: &Sandbox, server: &Server, runs: &Runs<'_>) -> String {
    match (sandbox.manifest.state, server) {
        (State::Deploying, _) if sandbox.is_locked() => "being deployed".into(),
        (State::Deploying, _) => "never deployed to its end".into(),
        (State::Ready, Server::Runs(pid)) => format!("running, process {pid}"),
        (State::Ready, Server::Stopped) if runs.has_died(sandbox) => {
            format!("ended by itself, crashed or killed: `wringer sandbox log {}` may say why", sandbox.name())
        }
        (State::Ready, Server::Stopped) => "stopped".into(),
        (State::Ready, Server::Unknown(why)) => format!("unknown: {why}"),
    }
}

fn row(name: &str, sandbox: Result<&Sandbox, &sandbox::Error>, runs: &Runs<'_>) -> Value {
    match sandbox.map(|sandbox| (sandbox, runs.server(sandbox))) {
        Ok((sandbox, server)) => json!({
            "name": name,
            "flavour": sandbox.flavour(),
            "version": sandbox.manifest.installation.version,
            "source": sandbox.manifest.installation.source.describe(),
            "state": state(sandbox, &server, runs),
            "has_died": runs.has_died(sandbox),
            "pid": server.pid(),
            "port": sandbox.manifest.port,
            "socket": sandbox.socket(),
            "folder": sandbox.folder,
            "log": sandbox.log(),
            "options": sandbox.manifest.options,
            "created_unix": sandbox.manifest.created,
            "run": sandbox.manifest.run,
            "left_over": is_left_over(sandbox, runs),
            "replication": replication(sandbox, &server),
            "pooler": pooler::row(sandbox),
        }),
        Err(error) => json!({"name": name, "state": "broken", "why": error.to_string()}),
    }
}

pub(super) fn log(args: &Log) -> Outcome {
    let sandbox = Sandbox::open(&args.name, &Places::from_environment())?;
    if args.path {
        terminal::data(sandbox.log().display());
        return Ok(());
    }
    for line in host::files::tail(&sandbox.log(), args.lines) {
        terminal::data(line);
    }
    Ok(())
}
