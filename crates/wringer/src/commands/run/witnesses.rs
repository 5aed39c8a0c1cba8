// SPDX-License-Identifier: Apache-2.0
//! Two counts of physical reads that owe nothing to the latency histogram: the server's own, and the slow layer's.

use super::server::Serving;
use crate::exit::Failure;
use evidence::Witness;
use load::engine::PhaseEdge;
use observe::server::witnesses;
use squeeze::disk::SlowLayer;
use std::collections::BTreeMap;

/// Both counts at one moment with nothing in flight.
#[derive(Debug, Default, Clone)]
pub struct Counts {
    server: BTreeMap<String, u64>,
    layer: BTreeMap<String, u64>,
}

impl Counts {
    /// Asking the server opens a connection, which may itself read from the disk: the layer is asked after it when the phase
    /// starts, and before it when the phase ends, so that no such read is in between.
    pub fn read(edge: PhaseEdge, serving: &Serving, layer: Option<&mut SlowLayer>) -> Result<Self, Failure> {
        let of_layer = |layer: Option<&mut SlowLayer>| layer.map_or(Ok(BTreeMap::new()), layer_counters);
        match edge {
            PhaseEdge::MeasuredStart => {
                let server = serving.counters()?;
                Ok(Self { server, layer: of_layer(layer)? })
            }
            PhaseEdge::MeasuredEnd => {
                let layer = of_layer(layer)?;
                Ok(Self { server: serving.counters()?, layer })
            }
        }
    }

    pub fn since(&self, before: &Self) -> Vec<Witness> {
        let mut both = witnesses("server", &before.server, &self.server);
        both.extend(witnesses("layer", &before.layer, &self.layer));
        both
    }
}

fn layer_counters(layer: &mut SlowLayer) -> Result<BTreeMap<String, u64>, Failure> {
    let stats = layer.stats()?;
    let counters = [
        ("slow layer reads", stats.reads),
        ("slow layer read-ahead", stats.read_ahead),
        ("slow layer reads unseen", stats.unseen_reads),
        ("slow layer writes", stats.writes),
        ("slow layer syncs", stats.syncs),
        ("slow layer read bytes", stats.read_bytes),
    ];
    Ok(counters.map(|(name, value)| (name.to_owned(), value)).into())
}
