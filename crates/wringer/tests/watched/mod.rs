// SPDX-License-Identifier: Apache-2.0
//! A watch that runs beside a test's clients, and what those felt.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, dead_code, unreachable_pub)] // each test program uses a part

pub mod queued;

use crate::accounted::{self, Server};
use crate::standing::signal;
use load::admin::Connection;
use rustix::process::Signal;
use serde_json::Value;
use std::process::{Child, ExitStatus};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// What one of the servers' clients felt.
#[derive(Debug, Clone)]
pub struct Felt {
    pub connection: u64,
    pub started_us: u64,
    pub took_us: u64,
}

impl Felt {
    pub fn ended_us(&self) -> u64 {
        self.started_us + self.took_us
    }
}

pub fn unix_us() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

/// A connection that has been there for a while, and knows its number.
pub struct Client {
    pub connection: Connection,
    pub number: u64,
}

impl Client {
    pub fn of(server: &Server, own: &str) -> Self {
        let mut connection = server.connect();
        let number = connection.query(own).unwrap().text(0, 0).unwrap().parse().unwrap();
        Self { connection, number }
    }

    pub fn run(&mut self, sql: &str) -> Felt {
        let (started_us, began) = (unix_us(), Instant::now());
        self.connection.execute(sql).unwrap();
        let took_us = u64::try_from(began.elapsed().as_micros()).unwrap();
        Felt { connection: self.number, started_us, took_us }
    }
}

pub const MYSQL: &str = "SELECT CONNECTION_ID()";
pub const POSTGRESQL: &str = "SELECT pg_backend_pid()";

/// A watch that runs beside.
pub struct Watch<'a> {
    server: &'a Server,
    child: Child,
    name: &'static str,
}

/// What a watch has printed: stalls, and the summary.
pub struct Told {
    pub status: ExitStatus,
    pub stalls: Vec<Value>,
    pub summary: Value,
}

impl<'a> Watch<'a> {
    /// Until it looks.
    pub fn start(server: &'a Server, name: &'static str, args: &[&str]) -> Self {
        let args = [&["stalls", "watch", "--sandbox", "s", "-o", "json"], args].concat();
        let child = server.lab.start(name, &args);
        assert!(testkit::wait_until(accounted::PATIENCE, || server.lab.said(name).contains("watching ")));
        Self { server, child, name }
    }

    /// Until it has told a stall of this cause.
    #[track_caller]
    pub fn tells(&self, cause: &str) {
        let cause = format!("\"cause\":\"{cause}\"");
        let told = testkit::wait_until(accounted::PATIENCE, || self.server.lab.said(self.name).contains(&cause));
        assert!(told, "{cause} is not in {}", self.server.lab.said(self.name));
    }

    /// By Ctrl-C.
    pub fn end(self) -> Told {
        signal(self.child.id().into(), Signal::INT);
        self.ended()
    }

    pub fn ended(mut self) -> Told {
        let status = self.child.wait().unwrap();
        let said = self.server.lab.said(self.name);
        let lines: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let (summary, stalls): (Vec<Value>, Vec<Value>) = lines.into_iter().partition(|it| it["kind"] == "summary");
        let [summary] = summary.as_slice() else { panic!("one summary: {said}") };
        assert_eq!(summary["stalls"].as_array().unwrap().len(), stalls.len(), "{said}");
        Told { status, stalls, summary: summary.clone() }
    }
}

/// Begin and end of a wait lie between two looks each, and a look is somewhere between its begin and the next one.
pub fn exact_within_us(summary: &Value) -> u64 {
    2 * summary["cost"]["interval_max_us"].as_u64().unwrap()
}

pub fn overlap_us(victim: &Value, felt: &Felt) -> u64 {
    let (from, length) = (victim["started_us"].as_u64().unwrap(), victim["length_us"].as_u64().unwrap());
    (from + length).min(felt.ended_us()).saturating_sub(from.max(felt.started_us))
}
