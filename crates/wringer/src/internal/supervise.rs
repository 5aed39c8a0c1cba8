// SPDX-License-Identifier: Apache-2.0
//! `wringer internal supervise`: the controller of a standing squeeze. The command that started it passes the squeeze.

use super::standing_order::{Supervise, Supervised, told_to_the_command};
use crate::commands::sandbox;
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;
use host::places::Places;
use run::{Begin, Kind, supervise};
use squeeze::Squeezes;

pub fn main(order: Supervise) -> Outcome {
    let order = match order {
        Supervise::Squeeze(order) => order,
        Supervise::Sandbox(timed) => return sandbox::supervise(*timed),
    };
    let begin = Begin {
        kind: Kind::Standing,
        command: order.command.clone(),
        resources: order.squeeze.resources(),
        places: Places::from_environment(),
    };
    let (_, released) = supervise::daemon::<Supervise, _, _>(begin, order.lasts, |run| {
        let mut squeezes = Squeezes::default();
        squeezes.apply(run, &order.squeeze, order.strict).map_err(told_to_the_command)?;
        let report =
            squeezes.into_report().ok_or("the supervisor was told of a squeeze that affects one program only")?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(Supervised::Squeeze(Box::new(report)))
    })?;
    if let Some(reason) = &released.neutralised {
        terminal::say(format_args!("{}: ended by its watchdog: {reason}", released.run));
    }
    match released.conflicts.first() {
        None => Ok(()),
        Some(it) => {
            Err(Failure::message(Exit::NotRestored, format_args!("{}: now '{}'", it.step, it.found)).hint(&it.repair))
        }
    }
}
