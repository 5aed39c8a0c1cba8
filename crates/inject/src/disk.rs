// SPDX-License-Identifier: Apache-2.0
//! `disk_reads` and `sync`: the slow layer below the data directory answers no request of a class until the stall is over. The layer goes
//! back to its own times when this code tells it to, or when the connection to it ends. The witness is the layer's own account of how long requests
//! waited.

use crate::injected::{Bite, Witness, has_bitten};
use crate::stop_request::{Stop, us};
use crate::{Error, Injection};
use diskmodel::{Class, Model, Operation};
use slowfs::control::Client;
use slowfs::stats::{Latency, Stats};
use std::path::Path;
use std::time::{Duration, Instant};

/// The time after the end of the stall until the layer has counted the requests: it counts a request when its answer was sent.
const UNTIL_COUNTED: Duration = Duration::from_millis(10);

pub(crate) struct Disk {
    layer: Client,
    class: Class,
}

impl Disk {
    pub(crate) fn ready(socket: &Path, class: Class) -> Result<Self, Error> {
        Ok(Self { layer: Client::connect(socket)?, class })
    }

    /// The layer's own times, with requests of the class delayed for longer than the stall lasts: so this code ends the stall, and not
    /// the delay of a single request.
    fn slowed(&mut self, length_us: u64) -> Result<Model, Error> {
        let mut model = self.layer.model()?;
        let endless = Operation::constant(length_us as f64 * 2.0);
        match self.class {
            Class::Read => model.read = endless,
            Class::Write => model.write = endless,
            Class::Sync => model.sync = endless,
        }
        Ok(model)
    }

    /// Delays the requests from that moment on, until the time is over or the end is asked for.
    ///
    /// # Errors
    /// Another connection holds the layer, or it is gone.
    pub(crate) fn inject(mut self, asked: &Injection, at: Instant, stop: &Stop) -> Result<Option<Bite>, Error> {
        if stop.or_at(at) {
            return Ok(None);
        }
        let before = self.layer.stats()?;
        // read only now: an earlier injection may have changed the layer until a moment ago
        let slowed = self.slowed(asked.length_us)?;
        self.layer.hold(&slowed)?;
        let (began, started_us) = (Instant::now(), host::clock::unix_us());
        stop.or_at(began + Duration::from_micros(asked.length_us));
        self.layer.let_go()?;
        let length_us = us(began.elapsed());
        std::thread::sleep(UNTIL_COUNTED);
        let waited = of_class(&self.layer.stats()?, self.class).got.since(&of_class(&before, self.class).got);
        let longest_us = waited.max_ns() / 1000;
        let class = if self.class == Class::Read { "read" } else { "sync" };
        let what = format!("microseconds that the longest of {} {class}s waited in the slow layer", waited.count());
        let bit = has_bitten(longest_us, length_us);
        let why = match (bit, waited.is_empty()) {
            (true, _) => None,
            (false, true) => Some(format!("the server sent no {class} to the disk during that time")),
            (false, false) => {
                Some(format!("the server sent its first {class} to the disk when most of the time was over"))
            }
        };
        let witness = Some(Witness { what, value: longest_us, connection: None });
        Ok(Some(Bite { started_us, length_us, bit: Some(bit), witness, held_by: None, why }))
    }
}

fn of_class(stats: &Stats, class: Class) -> &Latency {
    match class {
        Class::Read => &stats.read_latency,
        Class::Write => &stats.write_latency,
        Class::Sync => &stats.sync_latency,
    }
}
