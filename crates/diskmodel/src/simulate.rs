// SPDX-License-Identifier: Apache-2.0
//! Predicts what a probe sees, by running the model in virtual time.

use crate::class::Class;
use crate::law::{Law, Request};
use crate::model::Model;
use evidence::DelayMode;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The result of a closed loop of random requests.
#[derive(Debug, Clone, PartialEq)]
pub struct ClosedLoop {
    /// Latencies in microseconds, ascending.
    latencies_us: Vec<f64>,
    pub per_second: f64,
}

impl ClosedLoop {
    pub fn quantile_us(&self, p: f64) -> f64 {
        #[allow(clippy::cast_possible_truncation)] // an index
        let index = (p.clamp(0.0, 1.0) * (self.latencies_us.len() - 1) as f64).round() as usize;
        self.latencies_us[index]
    }

    pub fn mean_us(&self) -> f64 {
        self.latencies_us.iter().sum::<f64>() / self.latencies_us.len() as f64
    }
}

/// `depth` clients make `requests` random requests of `bytes` in all, each as soon as its last one is answered. Without the model a
/// request takes `own_us`.
pub fn closed_loop(model: &Model, class: Class, depth: u32, requests: u32, bytes: u64, own_us: f64) -> ClosedLoop {
    let mut law = Law::new(model.clone());
    #[allow(clippy::cast_possible_truncation)] // a latency
    let own = (own_us * 1000.0) as u64;
    let begin: u64 = 1_000_000_000;
    let mut clients: BinaryHeap<Reverse<u64>> = (0..depth.max(1)).map(|_| Reverse(begin)).collect();
    let mut latencies_us = Vec::with_capacity(requests as usize);
    let mut last = begin + 1;
    for number in 0..u64::from(requests.max(1)) {
        let Some(Reverse(arrived)) = clients.pop() else { break };
        // No two requests adjoin.
        let request = Request { class, file: 0, offset: number * (bytes + 4096) * 2 + 1, bytes };
        let answered = match model.mode {
            DelayMode::Add => arrived + own + law.takes_ns(&request, arrived + own),
            DelayMode::Total => arrived + law.takes_ns(&request, arrived).max(own),
        };
        latencies_us.push((answered - arrived) as f64 / 1000.0);
        last = last.max(answered);
        clients.push(Reverse(answered));
    }
    latencies_us.sort_by(f64::total_cmp);
    let per_second = latencies_us.len() as f64 / ((last - begin) as f64 / 1e9);
    ClosedLoop { latencies_us, per_second }
}
