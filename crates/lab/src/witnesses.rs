// SPDX-License-Identifier: Apache-2.0
//! Two counts of physical reads that do not depend on the latency histogram: the server's own, and the slow layer's. Also the resources that a
//! limited server has used.

use crate::error::Error;
use crate::process_counts;
use crate::server::Serving;
use crate::squeezes::Squeezes;
use evidence::{LatencyHistogram, Witness};
use host::clock::RunClock;
use load::engine::PhaseEdge;
use observe::server::witnesses;
use slowfs::stats::Latency;
use squeeze::disk::SlowLayer;
use squeeze::limits::Usage;
use std::collections::BTreeMap;

/// Both counts at a moment when no statement runs.
#[derive(Debug, Default, Clone)]
pub(crate) struct Counts {
    server: BTreeMap<String, u64>,
    layer: BTreeMap<String, u64>,
    layer_reads: Option<LatencyHistogram>,
    limits: BTreeMap<String, u64>,
    process: BTreeMap<String, u64>,
    /// Of this process, whose threads are the load.
    load: BTreeMap<String, u64>,
    /// When the limits were looked at, on the run's clock.
    at_us: u64,
}

impl Counts {
    /// Asking the server opens a connection, which may itself read from the disk: the layer is asked after it when the phase
    /// starts, and before it when the phase ends, so that no such read is counted. The same holds for the resources that the server has used.
    pub(crate) fn read(
        edge: PhaseEdge,
        serving: &Serving,
        squeezes: &mut Squeezes,
        clock: RunClock,
    ) -> Result<Self, Error> {
        let of_limits = |squeezes: &Squeezes| {
            squeezes.server_limits().map_or_else(BTreeMap::new, |limits| limits.counters(serving.running.pid))
        };
        match edge {
            PhaseEdge::MeasuredStart => {
                let server = serving.counters()?;
                let (layer, layer_reads) = of_layer(squeezes.disk_mut())?;
                let process = process_counts::read(serving.running.pid);
                Ok(Self {
                    server,
                    layer,
                    layer_reads,
                    at_us: clock.now_us(),
                    limits: of_limits(squeezes),
                    process,
                    load: of_load(),
                })
            }
            PhaseEdge::MeasuredEnd => {
                let (limits, at_us) = (of_limits(squeezes), clock.now_us());
                let process = process_counts::read(serving.running.pid);
                let (layer, layer_reads) = of_layer(squeezes.disk_mut())?;
                Ok(Self { server: serving.counters()?, layer, layer_reads, limits, process, load: of_load(), at_us })
            }
        }
    }

    /// The end of a phase that broke off: the counts that can be read without the server, as far as they can be read.
    pub(crate) fn without_the_server(serving: &Serving, squeezes: &mut Squeezes, clock: RunClock) -> Self {
        let (layer, layer_reads) = of_layer(squeezes.disk_mut()).unwrap_or_default();
        let limits = squeezes.server_limits().map_or_else(BTreeMap::new, |limits| limits.counters(serving.running.pid));
        let process = process_counts::read(serving.running.pid);
        Self { server: BTreeMap::new(), layer, layer_reads, limits, process, load: of_load(), at_us: clock.now_us() }
    }

    pub(crate) fn since(&self, before: &Self) -> Vec<Witness> {
        let mut both = witnesses("server", &before.server, &self.server);
        both.extend(witnesses("layer", &before.layer, &self.layer));
        both.extend(witnesses("limits", &before.limits, &self.limits));
        both.extend(witnesses("process", &before.process, &self.process));
        both.extend(witnesses("load", &before.load, &self.load));
        both
    }

    /// How long the layer took for each read since then.
    pub(crate) fn layer_reads_since(&self, before: &Self) -> Option<LatencyHistogram> {
        Some(self.layer_reads.as_ref()?.since(before.layer_reads.as_ref()?))
    }

    /// The resources that the limited server has used since then.
    pub(crate) fn usage_since(&self, before: &Self) -> Usage {
        let grown = witnesses("limits", &before.limits, &self.limits);
        let grown = grown.into_iter().map(|witness| (witness.counter.clone(), witness.delta())).collect();
        Usage { elapsed_us: self.at_us.saturating_sub(before.at_us), grown }
    }
}

fn of_load() -> BTreeMap<String, u64> {
    let waited = process_counts::waited_us(std::process::id());
    waited.map(|us| (process_counts::WAITED.to_owned(), us)).into_iter().collect()
}

/// The layer's counters, and how long it took for each read. Nothing where there is no layer.
fn of_layer(layer: Option<&mut SlowLayer>) -> Result<(BTreeMap<String, u64>, Option<LatencyHistogram>), Error> {
    let Some(layer) = layer else { return Ok((BTreeMap::new(), None)) };
    let stats = layer.stats()?;
    let counters = [
        ("slow layer reads", stats.reads),
        ("slow layer read-ahead", stats.read_ahead),
        ("slow layer reads unseen", stats.unseen_reads),
        ("slow layer writes", stats.writes),
        ("slow layer syncs", stats.syncs),
        ("slow layer read bytes", stats.read_bytes),
        ("slow layer write bytes", stats.write_bytes),
        ("slow layer read us", took_us(&stats.read_latency)),
        ("slow layer sync us", took_us(&stats.sync_latency)),
        ("slow layer waited for operations us", stats.waited.operations_ns / 1000),
        ("slow layer waited for bytes us", stats.waited.bytes_ns / 1000),
        ("slow layer waited for its queue us", stats.waited.queue_ns / 1000),
    ];
    let counters = counters.map(|(name, value)| (name.to_owned(), value)).into();
    Ok((counters, Some(stats.read_latency.got)))
}

/// The sum over all operations of a class.
fn took_us(latency: &Latency) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    // not negative; below the age of the layer times its requests
    let us = (latency.got.mean_ns() * latency.got.count() as f64 / 1000.0) as u64;
    us
}
