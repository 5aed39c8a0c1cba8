// SPDX-License-Identifier: Apache-2.0
//! The capabilities of servers: the table, and the servers' own answers.

use super::Capabilities;
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::{self, Output};
use capability::{Answer, Entry, Verdict, entries};
use host::places::Places;
use sandbox::{CapabilityAnswer, Sandbox};
use serde_json::{Value, json};

/// The table that the program uses.
pub(super) fn table(output: Output) {
    let number = |version: &[u32]| version.iter().map(ToString::to_string).collect::<Vec<_>>().join(".");
    if output == Output::Json {
        let row = |entry: &Entry| {
            json!({
                "capability": entry.capability.name(), "flavour": entry.flavour, "since": number(entry.since),
                "until": number(entry.until), "words": entry.words, "source": entry.source,
                "gauges": entry.gauges.patterns().collect::<Vec<_>>(),
            })
        };
        let rows: Vec<_> = entries().map(row).collect();
        return terminal::json(&json!({"schema": 1, "capabilities": rows}));
    }
    let row = |capability: &str, flavour: &str, since: &str, until: &str, words: &str| {
        terminal::data(format_args!("{capability:<27} {flavour:<11} {since:<8} {until:<8} {words}"));
    };
    row("capability", "flavour", "since", "before", "words");
    for entry in entries() {
        let (since, until) = (number(entry.since), number(entry.until));
        row(&entry.capability.name(), entry.flavour.name(), &since, &until, &entry.words.join(", "));
    }
}

/// Each capability that a server can be asked for: the table's entry, the server's answer, and whether they agree.
pub(super) fn of_server(args: &Capabilities) -> Outcome {
    let places = Places::from_environment();
    let sandbox = Sandbox::open_running(&args.name, &places)?;
    let asked = sandbox.ask_capabilities()?;
    let count = |verdict| asked.iter().filter(|asked| asked.verdict == verdict).count();
    let (agree, differ, open) = (count(Verdict::Agrees), count(Verdict::Differs), count(Verdict::Open));
    let server = format!("{} {}", sandbox.flavour(), sandbox.manifest.installation.version);
    if args.format.output == Output::Json {
        let installation = &sandbox.manifest.installation;
        terminal::json(&json!({
            "schema": 1, "name": sandbox.name(), "flavour": installation.flavour, "version": installation.version,
            "agree": agree, "differ": differ, "open": open, "capabilities": asked.iter().map(in_json).collect::<Vec<_>>(),
        }));
    } else {
        terminal::data(format_args!("{:<27} {:<8} {:<62} server", "capability", "verdict", "table"));
        for asked in &asked {
            let table = if asked.words.is_empty() { "no".to_owned() } else { asked.words.join(", ") };
            let verdict = asked.verdict.name();
            terminal::data(format_args!("{:<27} {verdict:<8} {table:<62} {}", asked.capability.name(), said(asked)));
        }
        terminal::say(format_args!("{server}: {agree} capabilities as in the table, {differ} not, {open} open"));
    }
    if differ == 0 {
        return Ok(());
    }
    let message =
        format!("{server} says otherwise than Wringer's table of capabilities in {differ} of {} rows", asked.len());
    Err(Failure::message(Exit::Finding, message).hint(
        "`-o json` has the SQL that was asked; what Wringer does by a row that differs may fail with this server",
    ))
}

fn said(asked: &CapabilityAnswer) -> String {
    let said = match asked.said {
        Some(true) => "yes",
        Some(false) => "no",
        None => "does not say",
    };
    match &asked.answer {
        Answer::Rows(Some(value)) if !value.is_empty() => format!("{said}: {value}"),
        Answer::Rows(_) => said.to_owned(),
        Answer::Refused { code, message } => format!("{said}: {code}, {message}"),
    }
}

fn in_json(asked: &CapabilityAnswer) -> Value {
    let (value, refused) = match &asked.answer {
        Answer::Rows(value) => (value.as_deref(), None),
        Answer::Refused { code, message } => (None, Some(format!("{code}: {message}"))),
    };
    json!({
        "capability": asked.capability.name(), "words": asked.words, "verdict": asked.verdict.name().to_lowercase(),
        "has": asked.said, "value": value, "refused": refused, "sql": asked.sql,
    })
}
