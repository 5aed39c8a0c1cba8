// SPDX-License-Identifier: Apache-2.0
//! Releases a run when its controller dies.

use crate::exit::{Exit, Failure, Outcome};
use slowfs::control::Client;
use slowfs::disk::KEEPER_SOCKET;
use squeeze::directory::socket_name;
use std::path::Path;

pub fn main(order: run::watchdog::Order) -> Outcome {
    run::watchdog::main(order, layer_answers).map_err(|error| Failure::new(Exit::NotRestored, error))
}

/// Whether all layers answer. A layer whose socket does not exist yet, or does not exist any more, is not counted. A slow disk has two processes, and
/// both must answer.
fn layer_answers(folder: &Path) -> bool {
    let sockets = (0..).map(|number| folder.join(socket_name(number))).take_while(|socket| socket.exists());
    let keeper = Some(folder.join(KEEPER_SOCKET)).filter(|socket| socket.exists());
    sockets.chain(keeper).all(|socket| Client::connect(&socket).and_then(|mut layer| layer.get()).is_ok())
}
