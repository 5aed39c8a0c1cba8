// SPDX-License-Identifier: Apache-2.0
//! Makes PostgreSQL's connections report their counts. A working connection keeps them back for up to a second, an idle one for ten, so an
//! observer between two phases would read counters that are too low. From version 15 on, a connection can be told to report them.

use super::client::Client;
use super::shared::Shared;
use crate::protocol::Discard;
use crate::transport::Link;
use crate::{Error, Protocol};
use std::io;

/// Before 15 there is no such function: the server refuses, and at most half a second of work is missing.
const HAND_OVER: &[u8] = b"SELECT pg_stat_force_next_flush()";

/// Call it between two phases, with nothing in flight. A connection that does not answer is closed; its next transaction notices that.
pub(super) fn hand_over(clients: &mut [Client], shared: &Shared<'_>) {
    if !shared.spec.counted || shared.target.protocol != Protocol::Postgresql {
        return;
    }
    for link in clients.iter_mut().filter_map(Client::link) {
        if exchange(link, shared).is_err() {
            link.transport.shut();
        }
    }
}

fn exchange(link: &mut Link, shared: &Shared<'_>) -> Result<(), Error> {
    let system = |source: io::Error| Error::System { operation: "set a socket up", source };
    link.transport.set_blocking(true).map_err(system)?;
    link.transport.set_read_limit(Some(shared.spec.drain_limit)).map_err(system)?;
    link.session.query(&mut link.outbox, |out| out.extend_from_slice(HAND_OVER));
    let answered = link.exchange(&mut Discard, "handing its statistics over");
    link.transport.set_read_limit(None).map_err(system)?;
    link.transport.set_blocking(false).map_err(system)?;
    answered.map(drop)
}
