// SPDX-License-Identifier: Apache-2.0
//! Whatever a server acknowledged as committed is there after a `kill -9` of the server, and of the slow layer under it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // the test kills, and fails where it must

mod durable;

use durable::{Victim, commits_that_survive, use_program, why_not};
use sandbox::Flavour;

fn check(flavour: Flavour, victim: Victim) {
    if let Some(why) = why_not() {
        testkit::skip!("{why}");
    }
    use_program(env!("CARGO_BIN_EXE_wringer"));
    let survivors = commits_that_survive(flavour, victim);
    assert!(survivors.present.is_ok(), "{flavour} does not start again: {:?}", survivors.present);
    assert_eq!(survivors.lost(), Vec::<u64>::new(), "of {} acknowledged", survivors.acknowledged.len());
}

#[test]
fn mariadb_keeps_its_commits_when_the_server_is_killed() {
    check(Flavour::Mariadb, Victim::Server);
}

#[test]
fn mariadb_keeps_its_commits_when_the_layer_is_killed() {
    check(Flavour::Mariadb, Victim::Layer);
}

#[test]
fn postgresql_keeps_its_commits_when_the_server_is_killed() {
    check(Flavour::Postgresql, Victim::Server);
}

#[test]
fn postgresql_keeps_its_commits_when_the_layer_is_killed() {
    check(Flavour::Postgresql, Victim::Layer);
}
