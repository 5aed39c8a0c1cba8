// SPDX-License-Identifier: Apache-2.0
//! The durability test is worth something only if it can fail: with a layer whose sync does nothing, commits are lost.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // the test kills, and fails where it must

mod durable;

use durable::{Victim, commits_that_survive, use_program, why_not};
use sandbox::Flavour;

/// The program built with the feature `broken-sync`; `make test` builds it and says where it is.
const LIAR: &str = "WRINGER_BROKEN_SYNC_PROGRAM";

#[test]
fn a_layer_that_does_not_sync_loses_commits() {
    if let Some(why) = why_not() {
        testkit::skip!("{why}");
    }
    let Ok(program) = std::env::var(LIAR) else {
        testkit::skip!("{LIAR} is not set: `make test` sets it");
    };
    use_program(&program);
    let survivors = commits_that_survive(Flavour::Mariadb, Victim::Layer);
    assert!(survivors.acknowledged.len() >= 300);
    assert!(!survivors.lost().is_empty(), "every commit survived a layer that never synced");
}
