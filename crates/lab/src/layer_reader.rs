// SPDX-License-Identifier: Apache-2.0
//! The slow layer's counters over time, as one more thing to observe.

use observe::{Collector, Error, Kind, Reader};
use slowfs::control::Client;

pub(crate) struct LayerReader(pub Client);

impl Reader for LayerReader {
    fn name(&self) -> String {
        "slow layer".into()
    }

    fn read(&mut self, into: &mut Collector) -> Result<(), Error> {
        let stats = self
            .0
            .stats()
            .map_err(|error| Error::Server { sql: "stats of the slow layer".into(), source: error.into() })?;
        let counters = [
            ("reads", stats.reads),
            ("read-ahead", stats.read_ahead),
            ("writes", stats.writes),
            ("syncs", stats.syncs),
            ("errors", stats.errors),
        ];
        for (name, value) in counters {
            into.value("layer", "", name, Kind::CountTotal, value as f64);
        }
        let waited = stats.waited;
        for (name, ns) in [
            ("waited for operations", waited.operations_ns),
            ("waited for bytes", waited.bytes_ns),
            ("waited for its queue", waited.queue_ns),
        ] {
            into.value("layer", "", name, Kind::MicrosTotal, ns as f64 / 1000.0);
        }
        into.value("layer", "", "cpu", Kind::MicrosTotal, stats.cpu_us as f64);
        Ok(())
    }

    fn costs_elsewhere(&self) -> bool {
        true
    }
}
