// SPDX-License-Identifier: Apache-2.0
//! Clients that wait: between two transactions, and within one.

use super::*;
use crate::Protocol;
use workload::file::WorkloadFile;

const THOUGHT: Duration = Duration::from_millis(20);

fn spec(file: &str, connections: u32) -> LoadSpec {
    let head = "schema = 1\n[parameters]\nid = { type = \"uniform\", min = 1, max = 9 }\n[[transaction]]\n";
    let file = WorkloadFile::parse(&format!("{head}{file}")).unwrap();
    let workload = file.build(Protocol::Postgresql, 10).unwrap();
    LoadSpec { connections, time: Some(Duration::from_millis(600)), ..LoadSpec::new("file", workload.into()) }
}

/// Each connection starts at most every 22 ms, and the waiting time is in no transaction.
#[test]
fn a_thought_between_transactions_is_in_no_latency() {
    let fake = Fake::new(Duration::from_millis(2), |_| Answer::Row);
    let spec = spec("think = \"20ms\"\nstatements = [\"SELECT c FROM t WHERE id = :id\"]", 3);
    let spec = LoadSpec { time: None, events: Some(3 * 28), ..spec };
    let measured = drive(&spec, &fake, || {}).unwrap().measured;
    assert_eq!(measured.transactions, 3 * 28);
    // One connection has at least 28 of the transactions, and has waited 27 times between them.
    assert!(measured.elapsed_us >= 28 * 2_000 + 27 * 20_000, "{}", measured.elapsed_us);
    let least = measured.transaction.response.min_ns();
    assert!((2 * MS..20 * MS).contains(&least), "{least}");
    assert_eq!(measured.transactions, fake.executions());
}

/// Clients that think when the time is over have no request under way: the rate is over the whole time all the same.
#[test]
fn the_time_in_which_all_clients_think_counts() {
    let fake = Fake::new(Duration::from_millis(2), |_| Answer::Row);
    let spec = spec("think = \"60s\"\nstatements = [\"SELECT c FROM t WHERE id = :id\"]", 2);
    let measured = drive(&spec, &fake, || {}).unwrap().measured;
    assert_eq!((measured.transactions, measured.elapsed_us), (2, 600_000));
}

/// A wait within a transaction counts for the transaction and for no statement. A transaction that runs when the time is over is completed.
#[test]
fn a_thought_within_a_transaction_is_in_its_time_alone() {
    let fake = Fake::new(Duration::from_millis(2), |_| Answer::Row);
    let thinking = "{ name = \"b\", sql = \"SELECT c FROM t WHERE id = :id\", think = \"20ms\" }";
    let first = "{ name = \"a\", sql = \"SELECT c FROM t WHERE id = :id\" }";
    let spec = spec(&format!("begin = false\nstatements = [{first}, {thinking}]"), 2);
    let measured = drive(&spec, &fake, || {}).unwrap().measured;
    assert!(measured.transactions > 0 && measured.errors.is_empty(), "{measured:?}");
    assert_eq!(2 * measured.transactions, fake.executions());
    let thought_ns = u64::try_from(THOUGHT.as_nanos()).unwrap();
    assert!(measured.transaction.service.min_ns() >= thought_ns + 4 * MS);
    for class in ["a", "b"] {
        let least = measured.statements[class].service.min_ns();
        assert!((2 * MS..thought_ns).contains(&least), "{class}: {least}");
    }
}
