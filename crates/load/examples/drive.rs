// SPDX-License-Identifier: Apache-2.0
//! Drives a load and prints a few lines: `cargo run --release -p load --example drive -- DSN WORKLOAD CONNECTIONS SECONDS [ROWS] [RATE]`.

use load::engine::{Hooks, LoadSpec, run};
use load::workload::{Options, build};
use std::io::Write as _;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dsn, name, connections, seconds, rest @ ..] = arguments.as_slice() else {
        return Err("DSN, workload, connections and seconds, please".into());
    };
    let target: load::Target = dsn.parse()?;
    let table_size = rest.first().map_or(Ok(100_000), |rows| rows.parse())?;
    let options = Options { table_size, connections: connections.parse()?, ..Options::default() };
    let distribution = load::distribution::Distribution::Uniform;
    let workload = build(name.parse()?, target.flavour, &options, &distribution)?;
    let mut spec = LoadSpec::new(name, workload.into());
    spec.connections = connections.parse()?;
    spec.time = Some(Duration::from_secs_f64(seconds.parse()?));
    if let Some(rate) = rest.get(1) {
        spec.arrivals = evidence::Arrivals::Poisson { per_second: rate.parse()? };
    }
    spec.workers = std::env::var("WORKERS").ok().and_then(|workers| workers.parse().ok());
    let mut hooks = Hooks {
        on_phase: &mut |_| {},
        on_progress: &mut |_| {},
        progress_interval: None,
        stop: std::sync::Arc::default(),
    };
    let result = run(&spec, &target, &host::clock::RunClock::start(), &mut hooks)?;
    let phase = &result.measured;
    let queries = phase.queries();
    writeln!(
        std::io::stdout(),
        "{queries} queries {} transactions {:.0}/s on {} workers; us a query: user {:.2} system {:.2}; response us p50 {} p99 {} max {}; service p99 {}; late {} skipped {} backlog {}; errors {:?} reconnects {}",
        phase.transactions,
        phase.queries_per_second().unwrap_or(0.0),
        result.workers,
        phase.client_user_us as f64 / queries as f64,
        phase.client_system_us as f64 / queries as f64,
        phase.transaction.response.percentile_ns(50.0) / 1000,
        phase.transaction.response.percentile_ns(99.0) / 1000,
        phase.transaction.response.max_ns() / 1000,
        phase.transaction.service.percentile_ns(99.0) / 1000,
        phase.late,
        phase.skipped,
        phase.backlog_max,
        phase.errors,
        phase.reconnects,
    )?;
    Ok(())
}
