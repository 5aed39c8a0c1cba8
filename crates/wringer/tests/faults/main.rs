// SPDX-License-Identifier: Apache-2.0
//! The fault campaign: Wringer is killed, starved and lied to at every point that can be enumerated, and each time the host is the
//! same before and after `wringer undo`, as an independent script sees it. `docs/faults.md` lists the faults, with the tests here
//! and elsewhere that try them. Needs the feature `failpoints`. `WRINGER_FAULTS=full` tries every case where the default takes a
//! sample.
#![cfg(feature = "failpoints")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

#[path = "../standing/mod.rs"]
mod standing;

mod busy;
mod campaign;
mod confined;
mod errno;
mod full_disk;
mod mutants;
mod neighbours;
mod order;
mod real_servers;
mod records;
mod second_reader;
mod stand_in;
mod syscalls;

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");
