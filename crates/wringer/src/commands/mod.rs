// SPDX-License-Identifier: Apache-2.0
//! One module per command: `Args`, `main(args)`.

pub mod allocators;
pub mod chart;
pub mod compare;
pub mod connection;
pub mod connections;
pub mod disk;
pub mod doc;
pub mod doctor;
pub mod examples;
mod experiment_file;
pub mod explain;
pub mod fill;
mod fill_failure;
mod fill_keys;
mod fill_pgbench;
mod fill_space;
pub mod heap;
pub mod hidden;
pub mod hugepages;
pub mod limits;
pub mod load;
pub mod lost;
pub mod matrix;
pub mod memory;
pub mod modes;
pub mod observe;
mod openmetrics;
pub mod plan;
pub mod probe;
pub mod purge;
pub mod ram;
mod rand_numbers;
mod recorded_log;
pub mod replay;
pub mod report;
pub mod run;
pub mod sandbox;
pub mod squeeze;
pub mod stalls;
pub mod standing;
pub mod status;
pub mod undo;
mod verdicts;

/// The command line for a journal or a recording: as typed, without its secrets; bytes that are no text are replaced.
pub fn command_line() -> Vec<String> {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    evidence::command_masked(&words)
}
