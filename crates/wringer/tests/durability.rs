// SPDX-License-Identifier: Apache-2.0
//! Whatever a server acknowledged as committed is there after a `kill -9` of the server, and of the slow layer under it, and its own
//! check finds nothing wrong, in each way in which it reads and writes.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // the test kills, and fails where it must

mod durable;

use durable::{LARGE, SMALL, Subject, Victim, use_program, ways, why_not};
use sandbox::Flavour;

fn check(flavour: Flavour, victim: Victim) {
    if let Some(why) = why_not() {
        testkit::skip!("{why}");
    }
    use_program(env!("CARGO_BIN_EXE_wringer"));
    let subject = match Subject::deploy(flavour) {
        Ok(subject) => subject,
        Err(why) => testkit::skip!("no {flavour} to be had: {why}"),
    };
    for way in ways(flavour) {
        let survivors = subject.commits_that_survive(way, victim, LARGE);
        let name = way.name;
        assert!(survivors.present.is_ok(), "{flavour}, {name}: after the kill: {:?}", survivors.present);
        let (lost, all) = (survivors.lost(), survivors.acknowledged.len());
        assert_eq!(lost, Vec::<u64>::new(), "{flavour}, {name}: of {all} acknowledged");
        let updates = survivors.present.unwrap().updates;
        assert!(updates >= survivors.updates, "{flavour}, {name}: {updates} of {} updates", survivors.updates);
    }
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
fn mysql_keeps_its_commits_when_the_server_is_killed() {
    check(Flavour::Mysql, Victim::Server);
}

#[test]
fn mysql_keeps_its_commits_when_the_layer_is_killed() {
    check(Flavour::Mysql, Victim::Layer);
}

#[test]
fn postgresql_keeps_its_commits_when_the_server_is_killed() {
    check(Flavour::Postgresql, Victim::Server);
}

#[test]
fn postgresql_keeps_its_commits_when_the_layer_is_killed() {
    check(Flavour::Postgresql, Victim::Layer);
}

/// Its library cannot see asynchronous I/O, which is turned off: one way of reading and writing.
fn check_with_a_library(flavour: Flavour) {
    use_program(env!("CARGO_BIN_EXE_wringer"));
    let subject = Subject::deploy(flavour).unwrap();
    let survivors = subject.commits_that_survive_with_a_library(SMALL);
    assert!(survivors.present.is_ok(), "{flavour}: after the kill: {:?}", survivors.present);
    assert_eq!(survivors.lost(), Vec::<u64>::new(), "{flavour}: of {} acknowledged", survivors.acknowledged.len());
}

#[test]
fn mariadb_keeps_its_commits_when_it_is_killed_with_a_library_in_it() {
    check_with_a_library(Flavour::Mariadb);
}

#[test]
fn postgresql_keeps_its_commits_when_it_is_killed_with_a_library_in_it() {
    check_with_a_library(Flavour::Postgresql);
}
