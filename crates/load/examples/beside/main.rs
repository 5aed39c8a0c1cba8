// SPDX-License-Identifier: Apache-2.0
//! `wringer load`, a peer and a bare client in turn on the same server, same workload, same prepared mode; ratios with their
//! spread. Called by `benches/load/run.sh`:
//! `beside PEER WRINGER ROWS SECONDS PAIRS PLACEMENT JSON CONNECTIONS...`; the server in WRINGER_DSN, by its socket. PEER is
//! `sysbench` (MySQL family) or `pgbench` (PostgreSQL), PLACEMENT a label, JSON a file to write.
//!
//! Queries a second are each program's own count over its own time. CPU is the kernel's account of the whole process, start-up
//! included, from `getrusage(RUSAGE_CHILDREN)`. The server's own count is read around each run.
#![allow(clippy::disallowed_methods)]

mod figures;
mod programs;

use programs::{Peer, Programs, Ran};
use std::error::Error;
use std::io::{Write as _, stdout};

/// One row of measurements: the three programs, one after the other.
struct Turn {
    ours: Ran,
    theirs: Ran,
    bare: Ran,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [peer, wringer, rows, seconds, pairs, placement, json, connections @ ..] = arguments.as_slice() else {
        return Err("see the head of this file".into());
    };
    let peer: Peer = peer.parse()?;
    let mut programs = Programs::new(peer, wringer, rows, seconds)?;
    let server = programs.server_version();
    let pairs: u32 = pairs.parse()?;
    writeln!(stdout(), "{placement}, beside {peer}: server {server}, {rows} rows, {seconds} s a run, {pairs} pairs")?;
    let mut results = Vec::new();
    for connections in connections {
        programs.warm(connections)?;
        let turns = (0..pairs).map(|pair| turn(&mut programs, connections, pair)).collect::<Result<Vec<_>, _>>()?;
        results.push(figures::report(peer, connections.parse()?, &turns)?);
    }
    let result = serde_json::json!({
        "peer": peer.to_string(), "placement": placement, "server": server, "rows": rows.parse::<u64>()?,
        "run_s": seconds.parse::<u64>()?, "confidence_percent": 95, "connections": results,
    });
    std::fs::write(json, serde_json::to_string_pretty(&result)?)?;
    Ok(())
}

/// Who goes first changes from turn to turn, so that a machine that slows down disfavours nobody.
fn turn(programs: &mut Programs, connections: &str, pair: u32) -> Result<Turn, Box<dyn Error>> {
    let (ours, theirs);
    if pair.is_multiple_of(2) {
        ours = programs.wringer(connections)?;
        theirs = programs.peer(connections)?;
    } else {
        theirs = programs.peer(connections)?;
        ours = programs.wringer(connections)?;
    }
    Ok(Turn { ours, theirs, bare: programs.bare(connections)? })
}
