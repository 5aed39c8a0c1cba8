// SPDX-License-Identifier: Apache-2.0
//! `wringer connections audit`.

use super::in_line;
use super::looks::{Looked, Looks, no_server};
use super::table::{number, table};
use crate::exit::{Exit, Failure, Outcome};
use crate::{input, terminal};
use connections::{AccountUse, Audit, Explained, PoolerUse};
use serde::Serialize;
use std::fmt::Write as _;
use std::time::Duration;
use units::{Bytes, Span, counted};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wringer connections audit --sandbox shop --for 5m\n  \
    # which limit was hit; needs no server\n  \
    wringer connections audit --error 1226\n\n\
    The figures do not include the connection of this command itself.\n\
    Exit codes: 0 done, also when parts could not be read; 2 usage; 3 no connection, or the error does not come from a limit of connections; 4 the server ended \
    meanwhile.")]
pub(super) struct Args {
    /// An error message that a client got, or its number (1040, 1203, 1226, 53300); `-` reads it from the standard input. The answer says which limit was hit,
    /// which needs no server, and the limit's value and use now
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    error: Option<String>,
    /// Show accounts that nobody uses, too
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    looks: Looks,
}

/// The audit, and the meaning of the error if an error was given.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    audit: Option<&'a Audit>,
    /// Not `error`: this is the name in the answer of a command that failed.
    explained_error: Option<&'a Explained>,
}

pub(super) fn main(args: &Args) -> Outcome {
    let text = args.error.as_deref().map(error_text).transpose()?;
    if text.as_deref().is_some_and(|text| connections::explain(text, None).is_none()) {
        return Err(Failure::message(Exit::Missing, "this error says nothing of a limit of connections")
            .hint("known are 1040, 1203, 1226, SQLSTATE 53300 and pgBouncer's messages, in the words of the server"));
    }
    let looked = args.looks.look(false)?;
    if looked.is_none() && text.is_none() {
        return Err(no_server());
    }
    let audit = looked.as_ref().map(|looked| connections::audit(&looked.seen));
    let error = text.and_then(|text| connections::explain(&text, audit.as_ref()));
    match args.looks.output {
        terminal::Output::Json => terminal::document(&Shown { audit: audit.as_ref(), explained_error: error.as_ref() }),
        terminal::Output::Text => {
            let of_error = error.iter().map(explained).collect::<String>();
            let of_audit =
                looked.iter().zip(&audit).map(|(looked, audit)| shown(looked, audit, args.all)).collect::<String>();
            terminal::data([of_error, of_audit].concat().trim_end());
        }
    }
    Ok(())
}

fn error_text(argument: &str) -> Result<String, Failure> {
    if argument != "-" {
        return Ok(argument.to_owned());
    }
    let bytes = input::read_stdin().map_err(|error| Failure::new(Exit::Missing, error))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn explained(error: &Explained) -> String {
    let mut text = format!("{}: {}\n", error.code, error.means);
    for hit in error.hits.iter().flatten() {
        let limit = number(hit.value, "none set now");
        let _ = write!(text, "  {}: {limit}", in_line(&hit.limit));
        if let Some(in_use) = hit.in_use {
            let _ = write!(text, ", in use {in_use}");
        }
        if let Some(peak) = hit.peak {
            let _ = write!(text, ", peak {peak}");
        }
        text.push('\n');
    }
    if error.hits.as_ref().is_some_and(Vec::is_empty) {
        text.push_str("  this server has no such limit now, or does not show it\n");
    }
    text.push('\n');
    text
}

fn shown(looked: &Looked, audit: &Audit, all: bool) -> String {
    let mut text = format!("{}\n{}\n\n", in_line(&looked.of), span(audit));
    server(&mut text, audit);
    accounts(&mut text, audit, all);
    databases(&mut text, audit, all);
    audit.pooler.iter().for_each(|it| pooler(&mut text, it));
    overbooking(&mut text, audit);
    pressure(&mut text, audit);
    missing(&mut text, &audit.missing);
    text
}

fn span(audit: &Audit) -> String {
    match audit.looks {
        0 | 1 => "looked at once: \"peak\" is what is in use now (--for looks for longer)".into(),
        looks => format!("{} in {}", counted(looks, "look"), Span(Duration::from_micros(audit.looked_us))),
    }
}

fn server(text: &mut String, audit: &Audit) {
    let server = &audit.server;
    let mut rows = vec![vec![
        "max_connections".to_owned(),
        number(server.in_use, "?"),
        number(server.peak, "?"),
        number(server.limit, "?"),
        String::new(),
    ]];
    if server.ordinary != server.limit {
        let note = format!("without {} reserved for {}", server.reserve.inside, server.reserve.for_whom);
        rows.push(vec![
            "  for ordinary accounts".into(),
            String::new(),
            String::new(),
            number(server.ordinary, "?"),
            note,
        ]);
    }
    if server.reserve.beside > 0 {
        let note = format!("{} more for {}", server.reserve.beside, server.reserve.for_whom);
        rows[0][4] = note;
    }
    if let Some(limit) = server.account_default {
        let note = match limit {
            0 => "below zero: nobody but administrators is let in".to_owned(),
            _ => "for each account without a limit of its own".to_owned(),
        };
        rows.push(vec!["max_user_connections".into(), String::new(), String::new(), limit.to_string(), note]);
    }
    text.push_str(&table(&["server", "in use", "peak", "limit", ""], &rows));
    if let Some(port) = server.reserve.second_port {
        let limit = server.reserve.second_port_limit.map_or_else(String::new, |limit| format!(": {limit}"));
        let _ = writeln!(text, "port {port} has connections of its own, for administrators{limit}");
    }
}

fn accounts(text: &mut String, audit: &Audit, all: bool) {
    let accounts = &audit.accounts;
    let is_shown = |it: &&AccountUse| all || it.peak > 0 || it.limit.is_some();
    let rows: Vec<Vec<String>> = accounts.iter().filter(is_shown).map(|it| account(audit, it)).collect();
    if !rows.is_empty() {
        let _ = write!(text, "\n{}", table(&["account", "in use", "peak", "limit", ""], &rows));
    }
    let hidden = accounts.len() - rows.len();
    if hidden > 0 {
        let _ =
            writeln!(text, "and {} that nobody uses and no limit holds for (--all)", counted(hidden as u64, "account"));
    }
}

fn account(audit: &Audit, it: &AccountUse) -> Vec<String> {
    let limit = match (it.limit, it.limit_that_holds) {
        (None, Some(limit)) => format!("({limit})"),
        (limit, _) => number(limit, "none"),
    };
    let note = match (&it.exempt_by, &it.reserve_by, it.may_log_in) {
        (_, _, false) => "may not log in".to_owned(),
        (Some(right), ..) => format!("{right}: no limit of an account holds for it"),
        (None, Some(right), _) if audit.overbooking.unlimited.contains(&it.account) => {
            format!("{right}: may use the reserve; could take all other connections, too")
        }
        (None, Some(right), _) => format!("{right}: may use the reserve"),
        (None, None, true) if it.limit_that_holds.is_none() => "could take all connections".into(),
        (None, None, true) => String::new(),
    };
    vec![in_line(&it.account), it.in_use.to_string(), it.peak.to_string(), limit, note]
}

fn databases(text: &mut String, audit: &Audit, all: bool) {
    let rows: Vec<Vec<String>> = audit
        .databases
        .iter()
        .filter(|it| all || it.peak > 0 || it.limit.is_some())
        .map(|it| {
            vec![
                in_line(&it.database),
                it.in_use.to_string(),
                it.peak.to_string(),
                number(it.limit, "none"),
                String::new(),
            ]
        })
        .collect();
    if !rows.is_empty() {
        let _ = write!(text, "\n{}", table(&["database", "in use", "peak", "limit", ""], &rows));
    }
    for it in &audit.unassigned {
        let (user, client) = (in_line(&it.user), in_line(&it.client));
        let _ = writeln!(text, "without a known account: {user} from {client}: {} in use, peak {}", it.in_use, it.peak);
    }
}

fn pooler(text: &mut String, it: &PoolerUse) {
    let clients = vec![
        "max_client_conn".to_owned(),
        it.clients.to_string(),
        it.clients_peak.to_string(),
        number(it.max_client_conn, "?"),
        "clients of pgBouncer".into(),
    ];
    let pools = it.pools.iter().map(|pool| {
        let note =
            format!("server connections; clients: {} active, {} waiting", pool.clients_active, pool.clients_waiting);
        let name = format!("pool {} in {}", in_line(&pool.user), in_line(&pool.database));
        vec![name, pool.servers.to_string(), String::new(), number(pool.limit, "?"), note]
    });
    let rows: Vec<Vec<String>> = std::iter::once(clients).chain(pools).collect();
    let _ = write!(text, "\n{}", table(&["pgBouncer", "in use", "peak", "limit", ""], &rows));
    for (name, value) in
        [("max_db_connections", it.max_db_connections), ("max_user_connections", it.max_user_connections)]
    {
        let _ = writeln!(text, "{name} of pgBouncer: {}", number(value.filter(|value| *value > 0), "none"));
    }
}

fn overbooking(text: &mut String, audit: &Audit) {
    let it = &audit.overbooking;
    let Some(ordinary) = audit.server.ordinary.filter(|_| it.is_overbooked.is_some()) else { return };
    let _ = match (it.limited, it.limits_sum) {
        (0, _) => {
            writeln!(text, "\nno ordinary account has a limit, and there are {ordinary} connections for all of them")
        }
        (_, sum) => {
            writeln!(text, "\nlimits of ordinary accounts sum to {sum}, and there are {ordinary} connections for them")
        }
    };
    if !it.unlimited.is_empty() {
        let names: Vec<String> = it.unlimited.iter().take(8).map(|name| in_line(name)).collect();
        let more = it.unlimited.len().saturating_sub(names.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let _ = writeln!(text, "without a limit, each of these could take all connections: {}{more}", names.join(", "));
    }
    let pooled = audit.pooler.as_ref().and_then(|pooler| pooler.servers_allowed);
    if let Some(pooled) = pooled.filter(|pooled| *pooled > ordinary) {
        let _ = writeln!(text, "pgBouncer's pools of now may make {pooled} connections: more than there are");
    }
}

fn pressure(text: &mut String, audit: &Audit) {
    let _ = writeln!(text, "\nsince the server's start");
    for it in &audit.pressure {
        let value = it.value.as_deref().unwrap_or("not told");
        let _ = writeln!(
            text,
            "  {}: {}\n    counts {}; leaves out: {}",
            it.counter,
            in_line(value),
            it.counts,
            it.leaves_out
        );
    }
}

pub(super) fn missing(text: &mut String, missing: &[ledger::Missing]) {
    for one in missing {
        let _ = writeln!(text, "not read: {}: {}", one.what, one.why);
        if let Some(remedy) = &one.remedy {
            let _ = writeln!(text, "  would help: {remedy}");
        }
    }
}

/// The size as `1.5 MiB`, or `?` if it is not known.
pub(super) fn bytes(value: Option<u64>) -> String {
    value.map_or_else(|| "?".to_owned(), |value| Bytes(value).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use connections::{Account, AccountSeen, Look, PoolSeen, PoolerSeen, ServerReading};

    fn seen(limits: &[(&str, i64, &str)]) -> ServerReading {
        let account = |(user, limit, right): &(&str, i64, &str)| AccountSeen {
            account: Account::at(*user, "%"),
            limit: *limit,
            rights: right.split(',').map(str::to_owned).collect(),
            may_log_in: true,
        };
        ServerReading {
            flavour: capability::Flavour::Mariadb,
            version: "10.11.19".parse().expect("a version"),
            variables: [("max_connections".to_owned(), "500".to_owned())].into(),
            status: [].into(),
            own: None,
            accounts: Some(limits.iter().map(account).collect()),
            databases: Vec::new(),
            looks: vec![Look::default()],
            pooler: None,
            missing: Vec::new(),
        }
    }

    fn told(seen: &ServerReading) -> String {
        let (audit, mut text) = (connections::audit(seen), String::new());
        accounts(&mut text, &audit, false);
        overbooking(&mut text, &audit);
        missing(&mut text, &audit.missing);
        text
    }

    #[test]
    fn a_limit_of_an_administrators_account_is_none_of_ordinary_ones() {
        let text = told(&seen(&[("app", 10, "CONNECTION ADMIN"), ("batch", 0, "")]));
        assert!(text.contains("app@%") && text.contains("may use the reserve"), "{text}");
        assert!(text.contains("\nno ordinary account has a limit, and there are 500 connections for all"), "{text}");
        let text = told(&seen(&[("app", 10, ""), ("batch", 0, "")]));
        assert!(text.contains("\nlimits of ordinary accounts sum to 10, and there are 500 connections"), "{text}");
    }

    #[test]
    fn limits_that_pgbouncer_does_not_show_are_named() {
        let pools = vec![PoolSeen { database: "shop".into(), user: "app".into(), ..PoolSeen::default() }];
        let pooler = PoolerSeen { pools, hides_user_limits: true, ..PoolerSeen::default() };
        let text = told(&ServerReading { pooler: Some(pooler), ..seen(&[]) });
        let line = "not read: pgBouncer's limits of single users: SHOW USERS of this version has no column";
        assert!(text.contains(line), "{text}");
    }
}
