// SPDX-License-Identifier: Apache-2.0
//! A limit for each account, from the connections that it was seen to need.
//!
//! The rule: `limit = min(max(ceil(peak x headroom), floor), share x what ordinary accounts have together)`, and never below the peak itself. An
//! existing limit between need and share stays. An account that was never seen connected gets no limit, because there is nothing to derive it from.

use crate::claim::{Claim, Claimant, claim};
use crate::standing::is_ordinary;
use crate::statement::statement;
use crate::{Account, AccountUse, Audit, ServerReading, audit};
use serde::Serialize;

/// What the caller wants.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanRequest {
    /// An account may have its peak times this; 1 or more.
    pub headroom: f64,
    /// No account that was seen gets a lower limit.
    pub floor: u64,
    /// No account gets a larger share of the connections that ordinary accounts have together; above 0, up to 1.
    pub share: f64,
    /// Accounts as a user writes them, each with the limit that it is to have instead.
    pub limits: Vec<(String, u64)>,
}

/// The plan for all accounts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// The connections that ordinary accounts have together. `None`: not known; then no limit is derived.
    pub ordinary: Option<u64>,
    pub accounts: Vec<Planned>,
    /// The statements that set the limits, in this order.
    pub statements: Vec<String>,
    /// The statements that restore the present limits, in the same order.
    pub restore: Vec<String>,
    pub memory_now: Claim,
    pub memory_planned: Claim,
    /// Doubts about the plan, in sentences.
    pub doubts: Vec<String>,
    #[serde(skip)]
    pub changes: Vec<Change>,
}

/// One account of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Planned {
    pub account: String,
    /// The account's own limit. `None`: it has none.
    pub limit_now: Option<u64>,
    pub in_use: u64,
    pub peak: u64,
    /// The limit that the account is to have. `None`: it keeps its present limit.
    pub limit: Option<u64>,
    /// The reason for this limit, or for none.
    pub why: String,
    pub session_bytes_max: Option<u64>,
    /// Limit times the largest connection that was seen. `None`: one of them is not known.
    pub claim_bytes: Option<u64>,
}

/// One statement, and the statement that undoes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub account: Account,
    pub statement: String,
    pub restore: String,
    /// The limit before and after, as the server stores it.
    pub former: i64,
    pub wanted: i64,
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unplanned {
    /// The server does not show its accounts.
    AccountsUnknown,
    /// No account fits the written name, or several do.
    NoSuchAccount { written: String, those: Vec<String> },
    /// A limit was asked for an account that gets none.
    Refused { account: String, why: String },
}

/// Plans what was seen.
///
/// # Errors
/// [`Unplanned`]: nothing is planned at all.
pub fn plan(seen: &ServerReading, asked: &PlanRequest) -> Result<Plan, Unplanned> {
    let audit = audit(seen);
    let stored = seen.accounts.as_deref().ok_or(Unplanned::AccountsUnknown)?;
    let wishes = wishes(seen, asked)?;
    let is_twice = |at: &usize| wishes[..*at].iter().any(|(account, _)| *account == wishes[*at].0);
    if let Some(at) = (1..wishes.len()).find(is_twice) {
        let why = "--limit names it twice: name each account once".to_owned();
        return Err(Unplanned::Refused { account: wishes[at].0.to_string(), why });
    }
    let mut plan = Plan {
        ordinary: audit.server.ordinary,
        accounts: Vec::new(),
        statements: Vec::new(),
        restore: Vec::new(),
        memory_now: Claim::default(),
        memory_planned: Claim::default(),
        doubts: Vec::new(),
        changes: Vec::new(),
    };
    for (row, used) in stored.iter().zip(&audit.accounts) {
        let wish = wishes.iter().find(|(account, _)| *account == row.account).map(|(_, limit)| *limit);
        let decided = decide(seen, asked, &audit, used, &row.account, wish);
        let (limit, why) = match decided {
            Decided::Limit(limit, why) => (Some(limit), why),
            Decided::Keep(why) => (None, why),
            Decided::Refused(why) if wish.is_some() => return Err(refused(used, why)),
            Decided::Refused(why) => (None, why),
        };
        let change = limit.filter(|limit| used.limit != Some(*limit)).map(|limit| change(seen, row, limit));
        let (limit, why) = match change {
            Some(Err(why)) if wish.is_some() => return Err(refused(used, why.to_owned())),
            Some(Err(why)) => (None, why.to_owned()),
            Some(Ok(change)) => {
                plan.statements.push(change.statement.clone());
                plan.restore.push(change.restore.clone());
                plan.changes.push(change);
                (limit, why)
            }
            None => (limit, why),
        };
        plan.accounts.push(planned(used, limit, why));
    }
    (plan.memory_now, plan.memory_planned) = memory(&audit, &plan.accounts);
    plan.doubts = doubts(seen, &audit, &plan);
    Ok(plan)
}

fn refused(used: &AccountUse, why: String) -> Unplanned {
    Unplanned::Refused { account: used.account.clone(), why }
}

/// Which accounts the caller names.
fn wishes(seen: &ServerReading, asked: &PlanRequest) -> Result<Vec<(Account, u64)>, Unplanned> {
    let named = |(written, limit): &(String, u64)| {
        let rows = || seen.accounts.iter().flatten().map(|row| &row.account);
        // an account with this full name comes before the accounts of a user with this name
        let exact: Vec<&Account> = rows().filter(|account| account.to_string() == *written).collect();
        let all: Vec<&Account> = rows().filter(|account| account.is_written_as(written)).collect();
        match (exact.as_slice(), all.as_slice()) {
            ([one], _) | ([], [one]) => Ok(((*one).clone(), *limit)),
            (_, those) => Err(Unplanned::NoSuchAccount {
                written: written.clone(),
                those: those.iter().map(ToString::to_string).collect(),
            }),
        }
    };
    asked.limits.iter().map(named).collect()
}

enum Decided {
    Limit(u64, String),
    Keep(String),
    Refused(String),
}

fn decide(
    seen: &ServerReading,
    asked: &PlanRequest,
    audit: &Audit,
    used: &AccountUse,
    account: &Account,
    wish: Option<u64>,
) -> Decided {
    if let Some(why) = refusal(seen, used, account) {
        return Decided::Refused(why);
    }
    match (wish, &used.reserve_by, audit.server.ordinary) {
        (Some(limit), ..) => Decided::Limit(limit, "as asked".into()),
        (None, Some(right), _) => Decided::Keep(format!("it holds {right}: it is meant to get in when others do not")),
        (None, None, None) => Decided::Keep("max_connections is not known".into()),
        (None, None, Some(_)) if used.peak == 0 => {
            Decided::Keep("it was not seen connected: there is nothing to derive a limit from".into())
        }
        (None, None, Some(ordinary)) => derive(asked, used, ordinary),
    }
}

/// The reason why the account never gets a limit from us.
fn refusal(seen: &ServerReading, used: &AccountUse, account: &Account) -> Option<String> {
    if used.is_the_servers_own {
        return Some("an account of the server's own".into());
    }
    if let Some(right) = &used.exempt_by {
        return Some(format!("it holds {right}: the server holds it to no limit of an account"));
    }
    if seen.own.as_ref() == Some(account) {
        return Some("the account in use: a limit could lock out whoever would restore it".into());
    }
    (!used.may_log_in).then(|| "it may not log in".into())
}

fn derive(asked: &PlanRequest, used: &AccountUse, ordinary: u64) -> Decided {
    let need = times(used.peak, asked.headroom).max(asked.floor);
    let most = (part(ordinary, asked.share)).max(1);
    let limit = need.min(most).max(used.peak);
    if let Some(now) = used.limit.filter(|now| (limit..=most.max(limit)).contains(now)) {
        let why = match now {
            _ if need <= now && now <= most => format!("between its need of {need} and its share of {most}"),
            _ if now > most => format!("its peak, which is more than its share of {most}"),
            _ => format!("at its share of {most}; its need is {need}"),
        };
        return Decided::Keep(format!("its limit of {now} is right: {why}"));
    }
    let head = asked.headroom;
    let why = match limit {
        limit if limit > most => format!("its peak of {limit}, which is more than its share of {most}"),
        limit if limit < need => format!("its share; {} x {head} would be {need}", used.peak),
        limit if limit == asked.floor && times(used.peak, head) < limit => {
            format!("the floor; peak {} x {head} would be {}", used.peak, times(used.peak, head))
        }
        _ => format!("peak {} x {head}", used.peak),
    };
    Decided::Limit(limit, why)
}

/// Rounded up.
#[allow(clippy::cast_possible_truncation)] // numbers of connections; beyond u64 the cast saturates
fn times(count: u64, factor: f64) -> u64 {
    // 10 x 1.1 is 11, not 12: the error of a binary fraction must not add a connection
    (count as f64 * factor - 1e-9).ceil().max(0.0) as u64
}

/// Rounded down.
#[allow(clippy::cast_possible_truncation)]
fn part(count: u64, share: f64) -> u64 {
    (count as f64 * share + 1e-9).floor().max(0.0) as u64
}

fn change(seen: &ServerReading, row: &crate::AccountSeen, limit: u64) -> Result<Change, &'static str> {
    let wanted = i64::try_from(limit).map_err(|_| "no server knows so large a limit")?;
    let statement = |limit| statement(seen.flavour, &seen.version, &row.account, limit);
    Ok(Change {
        account: row.account.clone(),
        statement: statement(wanted)?,
        restore: statement(row.limit)?,
        former: row.limit,
        wanted,
    })
}

fn planned(used: &AccountUse, limit: Option<u64>, why: String) -> Planned {
    let holds = limit.or(used.limit_that_holds);
    Planned {
        account: used.account.clone(),
        limit_now: used.limit,
        in_use: used.in_use,
        peak: used.peak,
        limit,
        why,
        session_bytes_max: used.session_bytes_max,
        claim_bytes: holds.zip(used.session_bytes_max).map(|(limit, bytes)| limit.saturating_mul(bytes)),
    }
}

/// The claims on memory, now and as planned.
fn memory(audit: &Audit, planned: &[Planned]) -> (Claim, Claim) {
    let room = audit.server.ordinary.unwrap_or(0);
    let ordinary = || audit.accounts.iter().zip(planned).filter(|(used, _)| is_ordinary(used));
    let claimant = |used: &'_ AccountUse, limit| (used.account.clone(), limit, used.session_bytes_max);
    let of = |all: Vec<(String, Option<u64>, Option<u64>)>| {
        claim(
            room,
            all.iter().map(|(account, limit, session_bytes_max)| Claimant {
                account,
                limit: *limit,
                session_bytes_max: *session_bytes_max,
            }),
        )
    };
    let now = ordinary().map(|(used, _)| claimant(used, used.limit_that_holds)).collect();
    let then = ordinary().map(|(used, planned)| claimant(used, planned.limit.or(used.limit_that_holds))).collect();
    (of(now), of(then))
}

fn doubts(seen: &ServerReading, audit: &Audit, plan: &Plan) -> Vec<String> {
    let mut doubts = Vec::new();
    let ordinary = || audit.accounts.iter().zip(&plan.accounts).filter(|(used, _)| is_ordinary(used));
    let sum = ordinary()
        .filter_map(|(used, planned)| planned.limit.or(used.limit_that_holds))
        .fold(0_u64, u64::saturating_add);
    if let Some(all) = audit.server.ordinary.filter(|all| sum > *all) {
        doubts.push(format!(
            "the limits sum to {sum}, and ordinary accounts have {all} together: two accounts that reach their limits could still refuse a third"
        ));
    }
    let unlimited: Vec<&str> = ordinary()
        .filter(|(used, planned)| planned.limit.or(used.limit_that_holds).is_none())
        .map(|(used, _)| used.account.as_str())
        .collect();
    if !unlimited.is_empty() {
        doubts.push(format!("without a limit, each could still take all connections: {}", unlimited.join(", ")));
    }
    if seen.looks.len() < 2 {
        doubts.push("the connections were looked at once: this is no peak. --for looks for longer".into());
    }
    for (used, planned) in ordinary() {
        if let Some(limit) = planned.limit.filter(|limit| *limit < used.peak) {
            doubts.push(format!(
                "{} has had {} connections, and is to have {limit}: it will be refused",
                used.account, used.peak
            ));
        }
    }
    if seen.flavour == capability::Flavour::Mariadb && audit.server.account_default.is_none() {
        doubts.push(
            "max_user_connections, the default for all accounts, cannot be raised from 0 while MariaDB runs (error 1290); limits of accounts can".into(),
        );
    }
    doubts
}
