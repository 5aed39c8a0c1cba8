// SPDX-License-Identifier: Apache-2.0
//! The memory that the sessions of each account hold, have held, and may hold.

use super::concurrency::is_client;
use super::entries::{AccountClaim, Concurrency};
use super::realistic;
use super::settings::Settings;
use crate::share::sane;
use crate::{Inventory, Session, estimate};
use capability::Flavour;
use std::collections::BTreeMap;

/// The accounts that hold the most memory stand first.
pub(crate) fn of(
    inventory: &Inventory,
    concurrency: &Concurrency,
    settings: &Settings<'_>,
    per_connection: Option<u64>,
) -> Vec<AccountClaim> {
    let Some(server) = &inventory.server else { return Vec::new() };
    let weigh = Weigh::of(inventory);
    let mut claims: BTreeMap<&str, AccountClaim> = BTreeMap::new();
    // threads of the server's own have no account
    for session in server.sessions.iter().filter(|session| !session.account.is_empty()) {
        let Some((now, most)) = weigh.session(session) else { continue };
        let claim = claims.entry(&session.account).or_default();
        claim.connections += 1;
        claim.now_bytes = plus(claim.now_bytes, now);
        claim.session_max_bytes = claim.session_max_bytes.max(most);
    }
    for mark in server.marks.iter().flat_map(|marks| &marks.accounts) {
        let claim = claims.entry(&mark.account).or_default();
        claim.connections = claim.connections.max(mark.connections);
        claim.session_max_bytes = claim.session_max_bytes.max(mark.session_bytes_max.map(sane));
    }
    let limit = limit(concurrency, settings);
    let bound = per_connection.zip(limit).map(|(each, limit)| each.saturating_mul(limit));
    let mut claims: Vec<AccountClaim> = claims.into_iter().map(|(name, claim)| finish(name, claim, bound)).collect();
    claims.sort_by_key(|claim| std::cmp::Reverse((claim.at_marks_bytes, claim.connections)));
    claims
}

fn finish(name: &str, claim: AccountClaim, bound_bytes: Option<u64>) -> AccountClaim {
    let at_marks_bytes = claim.session_max_bytes.map(|most| most.saturating_mul(claim.connections));
    AccountClaim { account: name.to_owned(), at_marks_bytes, bound_bytes, ..claim }
}

/// max_user_connections holds for each account that has no limit of its own; 0 is none.
fn limit(concurrency: &Concurrency, settings: &Settings<'_>) -> Option<u64> {
    let all = concurrency.connections_max?;
    Some(settings.number("max_user_connections").filter(|limit| *limit > 0).map_or(all, |limit| limit.min(all)))
}

fn plus(sum: Option<u64>, more: Option<u64>) -> Option<u64> {
    more.map_or(sum, |more| Some(sum.unwrap_or(0).saturating_add(more)))
}

/// The sessions' memory, from the server's rows; for PostgreSQL from the kernel's figures.
struct Weigh<'a> {
    inventory: &'a Inventory,
    estimates: Option<estimate::Estimates>,
}

impl<'a> Weigh<'a> {
    fn of(inventory: &'a Inventory) -> Self {
        let is_postgresql = inventory.flavour == Some(Flavour::Postgresql);
        Self { inventory, estimates: is_postgresql.then(|| estimate::of(&inventory.processes)) }
    }

    /// The memory that the session holds, and the most that it has held; `None`: it belongs to no client.
    fn session(&self, session: &Session) -> Option<(Option<u64>, Option<u64>)> {
        let Some(estimates) = &self.estimates else {
            return Some((session.bytes.map(sane), session.bytes_max.map(sane)));
        };
        let mut clients = self.inventory.processes.iter().filter(|it| is_client(it));
        let process = clients.find(|it| Some(it.pid) == session.pid)?;
        Some((Some(realistic::private(process, estimates)), Some(realistic::largest_private(process))))
    }
}
