// SPDX-License-Identifier: Apache-2.0
//! The memory that the sessions of each account hold, have held, and may hold.

use super::concurrency::is_client;
use super::entries::{AccountClaim, Concurrency};
use super::high_water::HighWater;
use super::realistic;
use crate::share::sane;
use crate::{Inventory, Missing, ServerSeen, Session, estimate};
use capability::Flavour;
use std::collections::BTreeMap;

/// Users of threads of the server's own, as which nobody logs in.
const NOBODY: [&str; 2] = ["event_scheduler", "system user"];

/// The accounts that hold the most memory stand first.
pub(crate) fn of(inventory: &Inventory, concurrency: &Concurrency, per_connection: Option<u64>) -> Vec<AccountClaim> {
    let Some(server) = &inventory.server else { return Vec::new() };
    let weigh = Weigh::of(inventory);
    let mut claims: BTreeMap<&str, AccountClaim> = BTreeMap::new();
    for session in server.sessions.iter().filter(|session| is_account(&session.account)) {
        let Some((now, most)) = weigh.session(session) else { continue };
        let claim = claims.entry(&session.account).or_default();
        claim.connections += 1;
        claim.now_bytes = plus(claim.now_bytes, now);
        claim.session_max_bytes = claim.session_max_bytes.max(most);
    }
    for mark in server.marks.iter().flat_map(|marks| &marks.accounts).filter(|mark| is_account(&mark.account)) {
        let claim = claims.entry(&mark.account).or_default();
        claim.connections = claim.connections.max(mark.connections);
        claim.session_max_bytes = claim.session_max_bytes.max(mark.session_bytes_max.map(sane));
    }
    let bound = |account: &str| Some(per_connection?.saturating_mul(limit(server, account, concurrency)?));
    let mut claims: Vec<AccountClaim> =
        claims.into_iter().map(|(name, claim)| finish(name, claim, bound(name))).collect();
    claims.sort_by_key(|claim| std::cmp::Reverse((claim.at_marks_bytes, claim.connections)));
    claims
}

/// Threads of the server's own have no account, or one as which nobody logs in.
fn is_account(account: &str) -> bool {
    let user = account.split('@').next().unwrap_or_default();
    !account.is_empty() && !NOBODY.contains(&user)
}

fn finish(name: &str, claim: AccountClaim, bound_bytes: Option<u64>) -> AccountClaim {
    let at_marks_bytes = claim.session_max_bytes.map(|most| most.saturating_mul(claim.connections));
    AccountClaim { account: name.to_owned(), at_marks_bytes, bound_bytes, ..claim }
}

/// The most connections of an account: by its own limit, and by the server's. `None`: not known.
fn limit(server: &ServerSeen, account: &str, concurrency: &Concurrency) -> Option<u64> {
    let all = concurrency.connections_max?;
    let own = server.account_limits.as_ref()?.get(account)?;
    Some(own.map_or(all, |own| own.min(all)))
}

/// That the limits of accounts are not known, where the reading has not said so already.
pub(crate) fn unread(inventory: &Inventory, claims: &[AccountClaim]) -> Option<Missing> {
    let server = inventory.server.as_ref()?;
    let is_said = inventory.missing.iter().any(|it| it.what == Missing::ACCOUNT_LIMITS);
    let is_unread = server.account_limits.is_none() && !claims.is_empty() && !is_said;
    is_unread.then(|| Missing {
        what: Missing::ACCOUNT_LIMITS.into(),
        why: "they were not read".into(),
        remedy: Some("`wringer memory worst-case` of the server itself".into()),
    })
}

fn plus(sum: Option<u64>, more: Option<u64>) -> Option<u64> {
    more.map_or(sum, |more| Some(sum.unwrap_or(0).saturating_add(more)))
}

/// The sessions' memory, from the server's rows; for PostgreSQL from the kernel's figures.
struct Weigh<'a> {
    inventory: &'a Inventory,
    estimates: Option<estimate::Estimates>,
    marks: HighWater<'a>,
}

impl<'a> Weigh<'a> {
    fn of(inventory: &'a Inventory) -> Self {
        let is_postgresql = inventory.flavour == Some(Flavour::Postgresql);
        let estimates = is_postgresql.then(|| estimate::of(&inventory.processes));
        Self { inventory, estimates, marks: HighWater::of(inventory) }
    }

    /// The memory that the session holds, and the most that it has held; `None`: it belongs to no client.
    fn session(&self, session: &Session) -> Option<(Option<u64>, Option<u64>)> {
        let Some(estimates) = &self.estimates else {
            return Some((session.bytes.map(sane), session.bytes_max.map(sane)));
        };
        let mut clients = self.inventory.processes.iter().filter(|it| is_client(it));
        let process = clients.find(|it| Some(it.pid_of_server()) == session.pid)?;
        Some((Some(realistic::private(process, estimates)), Some(realistic::largest_private(process, &self.marks))))
    }
}
