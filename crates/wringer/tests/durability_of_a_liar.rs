// SPDX-License-Identifier: Apache-2.0
//! The durability test is worth something only if it can fail: with a layer whose sync does nothing, commits are lost.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // the test kills, and fails where it must

mod durable;

use durable::{SMALL, Subject, Victim, use_program, ways, why_not};
use sandbox::Flavour;
use std::sync::Once;

fn check(flavour: Flavour) {
    if let Some(why) = why_not() {
        testkit::skip!("{why}");
    }
    if cfg!(not(feature = "failpoints")) {
        testkit::skip!("needs the feature `failpoints`: `make test` sets it");
    }
    static ONCE: Once = Once::new();
    // SAFETY: done once, before any thread of this test program reads the environment.
    ONCE.call_once(|| unsafe { std::env::set_var("WRINGER_BROKEN_SYNC", "1") });
    use_program(env!("CARGO_BIN_EXE_wringer"));
    let subject = match Subject::deploy(flavour) {
        Ok(subject) => subject,
        Err(why) => testkit::skip!("no {flavour} to be had: {why}"),
    };
    let survivors = subject.commits_that_survive(&ways(flavour)[0], Victim::Layer, SMALL);
    assert!(survivors.acknowledged.len() >= 300);
    assert!(!survivors.lost().is_empty(), "every commit survived a layer that never synced");
}

#[test]
fn a_layer_that_does_not_sync_loses_commits() {
    check(Flavour::Mariadb);
}

#[test]
fn a_layer_that_does_not_sync_loses_commits_of_mysql() {
    check(Flavour::Mysql);
}
