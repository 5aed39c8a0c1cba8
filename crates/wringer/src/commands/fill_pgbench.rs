// SPDX-License-Identifier: Apache-2.0
//! `wringer fill --pgbench`: pgbench's tables instead of sysbench's.

use super::fill_failure::{failed, refused};
use crate::exit::Outcome;
use crate::terminal::{self, Output};
use load::Target;
use load::prepare::pgbench;
use std::sync::atomic::AtomicBool;

pub fn main(target: &Target, scale: u32, replace: bool, stop: &AtomicBool, output: Output) -> Outcome {
    let bar = terminal::bar(0, "pgbench's tables");
    let mut show = |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    };
    let report = pgbench::fill(target, scale, replace, stop, &mut show);
    bar.finish_and_clear();
    let report = report.map_err(|error| match error {
        load::fill::Error::Exists { .. } | load::fill::Error::Spec { .. } => refused(error),
        load::fill::Error::Server { ref operation, .. } if operation.starts_with("connect") => refused(error),
        error => failed(error),
    })?;
    match output {
        Output::Text => terminal::data(&report),
        Output::Json => terminal::json(&serde_json::json!({ "schema": 1, "fill": report })),
    }
    Ok(())
}

/// The least size of the tables. At scale 1, the tables have 12.5 MiB in InnoDB, and 15 MiB in PostgreSQL.
pub fn bytes(scale: u32) -> u64 {
    u64::from(scale) * (12 << 20)
}

/// Prints the statements that a fill would send.
pub fn show_plan(target: &Target, scale: u32, output: Output) {
    let statements = pgbench::statements(target.protocol, scale);
    match output {
        Output::Json => {
            let plan = serde_json::json!({ "pgbench_scale": scale, "statements": statements });
            terminal::json(&serde_json::json!({ "schema": 1, "plan": plan }));
        }
        Output::Text => {
            statements.iter().for_each(|sql| terminal::data(format_args!("{sql};")));
            terminal::data(format_args!(
                "-- {scale} branches, {} tellers, {} accounts",
                u64::from(scale) * 10,
                u64::from(scale) * 100_000
            ));
        }
    }
}
