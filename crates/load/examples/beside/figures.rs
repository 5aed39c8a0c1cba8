// SPDX-License-Identifier: Apache-2.0
//! From runs to ratios with their confidence intervals, as a table and as JSON.

use crate::Turn;
use crate::programs::{Peer, Ran};
use serde_json::{Value, json};
use std::io::{Write as _, stdout};

type Figure = fn(&Ran) -> f64;

/// What a ratio is meant to be.
enum Aim {
    /// The lower end of the interval of the ratio to the peer.
    AtLeast(f64),
    /// The mean of the ratio to the peer.
    AtMost(f64),
    /// The mean of the ratio to the bare client.
    OfBare(f64),
    None,
}

impl Aim {
    fn is_met(&self, to_peer: &Ratio, to_bare: &Ratio) -> Option<bool> {
        match *self {
            Self::AtLeast(least) => Some(to_peer.low >= least),
            Self::AtMost(most) => Some(to_peer.mean <= most),
            Self::OfBare(most) => Some(to_bare.mean <= most),
            Self::None => None,
        }
    }

    fn text(&self, met: Option<bool>) -> String {
        let verdict = if met == Some(true) { "met" } else { "MISSED" };
        match self {
            Self::AtLeast(least) => format!("lower bound >= {least}: {verdict}"),
            Self::AtMost(most) => format!("<= {most}: {verdict}"),
            Self::OfBare(most) => format!("<= {most} of bare: {verdict}"),
            Self::None => String::new(),
        }
    }
}

fn figures(peer: Peer) -> [(&'static str, &'static str, Figure, Aim); 4] {
    // half of sysbench's, and not above pgbench's
    let user = match peer {
        Peer::Sysbench => 0.5,
        Peer::Pgbench => 1.0,
    };
    [
        ("queries/s", "queries_per_second", |ran| ran.per_second, Aim::AtLeast(0.97)),
        ("user us/query", "user_us_per_query", |ran| ran.user_us, Aim::AtMost(user)),
        ("system us/query", "system_us_per_query", |ran| ran.system_us, Aim::None),
        ("total us/query", "total_us_per_query", Ran::total_us, Aim::OfBare(1.3)),
    ]
}

/// Prints the table of one number of connections, and gives the same for the JSON file.
pub(crate) fn report(peer: Peer, connections: u32, turns: &[Turn]) -> std::io::Result<Value> {
    let mut out = stdout();
    writeln!(
        out,
        "\n{connections:>4} connections      wringer {:>9}      bare   {:<22} {:<22} aim",
        peer.to_string(),
        format!("wringer/{peer}"),
        "wringer/bare"
    )?;
    let mut all = serde_json::Map::new();
    for (name, key, figure, aim) in figures(peer) {
        let mean = |pick: fn(&Turn) -> &Ran| turns.iter().map(|t| figure(pick(t))).sum::<f64>() / turns.len() as f64;
        let (ours, theirs, bare) = (mean(|t| &t.ours), mean(|t| &t.theirs), mean(|t| &t.bare));
        let to_peer = Ratio::new(turns, figure, |t| &t.ours, |t| &t.theirs);
        let to_bare = Ratio::new(turns, figure, |t| &t.ours, |t| &t.bare);
        let met = aim.is_met(&to_peer, &to_bare);
        writeln!(
            out,
            "{name:<18} {ours:>10.2} {theirs:>9.2} {bare:>9.2}   {:<22} {:<22} {}",
            to_peer.text(),
            to_bare.text(),
            aim.text(met)
        )?;
        let value = json!({
            "wringer": ours, "peer": theirs, "bare": bare, "aim_met": met,
            "wringer_to_peer": to_peer.json(), "wringer_to_bare": to_bare.json(),
            "bare_to_peer": Ratio::new(turns, figure, |t| &t.bare, |t| &t.theirs).json(),
        });
        all.insert(key.to_owned(), value);
    }
    let off =
        |pick: fn(&Turn) -> &Ran| turns.iter().map(|t| (pick(t).queries - pick(t).counted).abs()).fold(0.0, f64::max);
    let (ours, theirs) = (off(|t| &t.ours), off(|t| &t.theirs));
    writeln!(out, "the server counted otherwise by at most: wringer {ours}, {peer} {theirs} a run")?;
    Ok(json!({
        "connections": connections, "pairs": turns.len(), "figures": all,
        "server_counted_otherwise_max": { "wringer": ours, "peer": theirs },
    }))
}

/// Of one program to another in the same turn: the geometric mean and its confidence interval.
struct Ratio {
    low: f64,
    mean: f64,
    high: f64,
    pairs: usize,
}

impl Ratio {
    fn new(turns: &[Turn], figure: Figure, program: fn(&Turn) -> &Ran, other: fn(&Turn) -> &Ran) -> Self {
        // A short run may have no tick in user mode at all: no ratio then.
        let logarithms: Vec<f64> = turns
            .iter()
            .map(|turn| (figure(program(turn)) / figure(other(turn))).ln())
            .filter(|ratio| ratio.is_finite())
            .collect();
        let (low, mean, high) = confidence(&logarithms);
        Self { low, mean, high, pairs: logarithms.len() }
    }

    fn text(&self) -> String {
        format!("{:.3} ({:.3} to {:.3})", self.mean, self.low, self.high)
    }

    fn json(&self) -> Value {
        // An interval of fewer than two pairs has no ends; JSON says null then.
        json!({ "mean": self.mean, "low": self.low, "high": self.high, "pairs": self.pairs })
    }
}

/// Lower bound, geometric mean and upper bound of ratios given as logarithms: Student's t, 95 %.
fn confidence(logarithms: &[f64]) -> (f64, f64, f64) {
    const T: [f64; 16] = [
        f64::INFINITY,
        12.706,
        4.303,
        3.182,
        2.776,
        2.571,
        2.447,
        2.365,
        2.306,
        2.262,
        2.228,
        2.201,
        2.179,
        2.160,
        2.145,
        2.131,
    ];
    let count = logarithms.len() as f64;
    let mean = logarithms.iter().sum::<f64>() / count;
    let variance = logarithms.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let t = T.get(logarithms.len().saturating_sub(1)).copied().unwrap_or(2.131);
    let half = t * (variance / count).sqrt();
    ((mean - half).exp(), mean.exp(), (mean + half).exp())
}
