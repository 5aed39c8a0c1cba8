// SPDX-License-Identifier: Apache-2.0
//! `wringer connections plan`.

use super::apply::{self, Done};
use super::audit::{bytes, missing};
use super::in_line;
use super::looks::{Looked, Looks, no_server};
use super::table::{number, table};
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;
use connections::{Claim, Plan, PlanRequest, Planned, Unplanned};
use ledger::Missing;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;
use units::counted;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The limit of an account is its peak times --headroom; at least --floor; at most --share of the connections for ordinary accounts; and never \
    less than the peak. An account that was not seen connected gets no limit. Look during the busiest hour: a limit that is too low refuses connections.\n\n\
    Examples:\n  \
    wringer connections plan --sandbox shop --for 1h --every 2s > limits.txt\n  \
    wringer connections plan --sandbox shop --limit app@%=40 --limit batch=5 --apply\n\n\
    Exit codes: 0 done; 2 usage; 3 no connection, no such account, an account that gets no limit, or with --apply a limit that changed during the looks, or a restore file that exists already: nothing was changed; 4 the server ended, or a statement failed, and the statements before it are undone; \
    5 not all of them are undone: the restore file has the statements that undo them; 130 interrupted, nothing is changed."
)]
pub(super) struct Args {
    /// The limit of an account as a multiple of its peak
    #[arg(long, value_name = "FACTOR", default_value_t = 1.5, value_parser = headroom)]
    headroom: f64,
    /// The lowest limit of an account that was seen connected, such as the size of your application's pool
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    floor: u64,
    /// The largest part of the connections for ordinary accounts that one account gets
    #[arg(long, value_name = "PART", default_value_t = 0.8, value_parser = share)]
    share: f64,
    /// A limit that you choose for an account: app@%=40, or app=40 where only one account has the name. Give it again for others
    #[arg(long = "limit", value_name = "ACCOUNT=N", value_parser = limit)]
    limits: Vec<(String, u64)>,
    /// Run the statements. Before that, the statements that restore the old limits are written to --restore-file and synced
    #[arg(long)]
    apply: bool,
    /// New file for the statements that restore the old limits [default: a file in Wringer's own folder; its path is printed]
    #[arg(long, value_name = "FILE", requires = "apply")]
    restore_file: Option<PathBuf>,
    #[command(flatten)]
    looks: Looks,
}

/// The plan, and the result of `--apply`.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    plan: &'a Plan,
    looks: u64,
    missing: &'a [Missing],
    /// The result of `--apply`; `None` without this flag.
    applied: Option<&'a Done>,
}

pub(super) fn main(args: &Args) -> Outcome {
    let looked = args.looks.look(true)?.ok_or_else(no_server)?;
    if looked.was_stopped {
        return Err(Failure::message(
            Exit::Interrupted,
            "asked to stop before the looks were over; nothing was changed",
        ));
    }
    let asked =
        PlanRequest { headroom: args.headroom, floor: args.floor, share: args.share, limits: args.limits.clone() };
    let plan = connections::plan(&looked.seen, &asked).map_err(|why| unplanned(why, &looked.seen.missing))?;
    let done = if args.apply { Some(apply::apply(&looked, &plan, args.restore_file.as_deref())?) } else { None };
    match args.looks.output {
        terminal::Output::Json => terminal::document(&Shown {
            plan: &plan,
            looks: looked.seen.looks.len() as u64,
            missing: &looked.seen.missing,
            applied: done.as_ref(),
        }),
        terminal::Output::Text => terminal::data(text(&looked, &plan, done.as_ref()).trim_end()),
    }
    Ok(())
}

fn headroom(text: &str) -> Result<f64, String> {
    let value: Option<f64> = text.parse().ok();
    value
        .filter(|value| (1.0..=1000.0).contains(value))
        .ok_or_else(|| "a factor from 1 to 1000, such as 1.5".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    let value: Option<f64> = text.parse().ok();
    value
        .filter(|value| *value > 0.0 && *value <= 1.0)
        .ok_or_else(|| "a part above 0 and up to 1, such as 0.8".to_owned())
}

/// Reads ACCOUNT=N; a name may contain `=`.
fn limit(text: &str) -> Result<(String, u64), String> {
    let form = || "it is written ACCOUNT=N, with N from 1 to 1000000".to_owned();
    let (account, limit) = text.rsplit_once('=').ok_or_else(form)?;
    let limit: u64 = limit.parse().map_err(|_| form())?;
    (1..=1_000_000).contains(&limit).then(|| (account.to_owned(), limit)).ok_or_else(form)
}

fn unplanned(why: Unplanned, missing: &[Missing]) -> Failure {
    let fail = |message: String| Failure::message(Exit::Missing, message);
    match why {
        Unplanned::AccountsUnknown => {
            let failure = fail("the server does not show its accounts to this one: nothing can be planned".into());
            missing.iter().filter_map(|it| it.remedy.clone()).fold(failure, Failure::hint)
        }
        Unplanned::NoSuchAccount { written, those } if those.is_empty() => {
            fail(format!("there is no account '{}'", in_line(&written)))
                .hint("`wringer connections audit --all` lists them")
        }
        Unplanned::NoSuchAccount { written, those } => {
            let those: Vec<String> = those.iter().map(|it| in_line(it)).collect();
            fail(format!("'{}' names several accounts", in_line(&written)))
                .hint(format!("name one of {}", those.join(", ")))
        }
        Unplanned::Refused { account, why } => fail(format!("{} gets no limit: {why}", in_line(&account))),
    }
}

fn text(looked: &Looked, plan: &Plan, done: Option<&Done>) -> String {
    let mut text = format!("{}\n\n", in_line(&looked.of));
    let is_shown = |it: &&Planned| it.peak > 0 || it.limit.is_some() || it.limit_now.is_some();
    let rows: Vec<Vec<String>> = plan.accounts.iter().filter(is_shown).map(row).collect();
    if rows.is_empty() {
        text.push_str("no account was seen connected, and none has a limit (--for looks for longer)\n");
    } else {
        let head = ["account", "in use", "peak", "limit now", "limit", "a connection", "could claim", "why"];
        text.push_str(&table(&head, &rows));
        memory(&mut text, plan);
    }
    statements(&mut text, plan, done);
    for doubt in &plan.doubts {
        let _ = writeln!(text, "doubt: {}", in_line(doubt));
    }
    missing(&mut text, &looked.seen.missing);
    text
}

fn row(it: &Planned) -> Vec<String> {
    vec![
        in_line(&it.account),
        it.in_use.to_string(),
        it.peak.to_string(),
        number(it.limit_now, "none"),
        number(it.limit, "as it is"),
        bytes(it.session_bytes_max),
        bytes(it.claim_bytes),
        it.why.clone(),
    ]
}

fn memory(text: &mut String, plan: &Plan) {
    let of = |claim: &Claim| match claim.bytes {
        Some(_) => format!("{} in {}", bytes(claim.bytes), counted(claim.connections, "connection")),
        None => "not known".to_owned(),
    };
    let _ = writeln!(
        text,
        "\nmemory that all permitted connections could have, each as much as the largest of its account: now {}, as planned {}",
        of(&plan.memory_now),
        of(&plan.memory_planned)
    );
    let unknown: Vec<String> = plan.memory_planned.unknown.iter().map(|it| in_line(it)).collect();
    if !unknown.is_empty() {
        let _ = writeln!(
            text,
            "these accounts are not included, because nothing tells the memory of their connections: {}",
            unknown.join(", ")
        );
    }
}

fn statements(text: &mut String, plan: &Plan, done: Option<&Done>) {
    let list = |text: &mut String, head: &str, statements: &[String]| {
        let _ = writeln!(text, "\n{head}");
        for it in statements {
            let _ = writeln!(text, "  {it};");
        }
    };
    match (plan.statements.is_empty(), done) {
        (true, _) => text.push_str("\nnothing to change\n"),
        (false, None) => {
            list(text, "these statements set the limits (--apply runs them)", &plan.statements);
            list(text, "these statements restore the limits of now", &plan.restore);
        }
        (false, Some(done)) => {
            list(text, "set", &plan.statements);
            if let Some(file) = &done.restore_file {
                let _ = writeln!(text, "\nthe former limits are restored by {file}\n  {}", done.how_to_restore);
            }
            if done.counts_only_new {
                text.push_str(
                    "connections that were open before are not counted for a limit that did not hold before\n",
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_behind_the_last_equals_sign() {
        assert_eq!(limit("a=b@%=7"), Ok(("a=b@%".into(), 7)));
        for wrong in ["app", "app=", "app=0", "app=-1", "app=x"] {
            assert!(limit(wrong).is_err(), "{wrong}");
        }
        assert!(headroom("NaN").is_err() && headroom("0.9").is_err() && share("0").is_err() && share("inf").is_err());
    }
}
