// SPDX-License-Identifier: Apache-2.0
//! How much slower a server is under a profiler.

use load::Target;
use load::admin::Connection;
use serde::Serialize;
use std::time::{Duration, Instant};

/// How long a small query takes, over one connection, and how long the server's start took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Pace {
    pub start_ms: f64,
    /// The median of one connection's `SELECT 1`, from sending to its answer.
    pub query_us: f64,
}

const FOR: Duration = Duration::from_millis(500);
const FEWEST: usize = 50;

impl Pace {
    pub(crate) fn measure(target: &Target, start: Duration) -> Result<Self, load::Error> {
        let mut connection = Connection::open(target)?;
        connection.query("SELECT 1")?;
        let (began, mut times) = (Instant::now(), Vec::new());
        while began.elapsed() < FOR || times.len() < FEWEST {
            let sent = Instant::now();
            connection.query("SELECT 1")?;
            times.push(sent.elapsed());
        }
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        Ok(Self { start_ms: start.as_secs_f64() * 1e3, query_us: median.as_secs_f64() * 1e6 })
    }

    /// How many times as long a query takes as at the pace `native`.
    pub fn times(&self, native: &Self) -> f64 {
        self.query_us / native.query_us
    }
}
