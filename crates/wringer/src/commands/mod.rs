// SPDX-License-Identifier: Apache-2.0
//! One module per command: `Args`, `main(args)`.

pub mod chart;
pub mod connection;
pub mod disk;
pub mod doctor;
pub mod explain;
pub mod fill;
mod fill_pgbench;
pub mod hidden;
pub mod load;
pub mod modes;
pub mod plan;
pub mod probe;
pub mod ram;
pub mod report;
pub mod run;
pub mod sandbox;
pub mod squeeze;
pub mod standing;
pub mod status;
pub mod undo;
