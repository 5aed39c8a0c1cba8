// SPDX-License-Identifier: Apache-2.0
//! What each workload sends: kinds and order of statements, values in range, in both dialects.

use super::rand_core::SeedableRng as _;
use super::{Error, Kind, Name, Options, Param, Rng, SETTINGS, Slot, Tables, Transaction, Workload, build};
use crate::distribution::Distribution;
use capability::Protocol;
use proptest::prelude::*;

fn workload(name: Name, protocol: Protocol, tables: &Tables, options: &Options) -> Box<dyn Workload> {
    build(name, protocol, tables, options, &Distribution::Uniform).unwrap()
}

/// One transaction, a line a step: the statement and its values.
fn script(name: Name, protocol: Protocol, options: &Options) -> String {
    let (workload, mut rng, mut transaction) =
        (workload(name, protocol, &Tables::default(), options), Rng::seed_from_u64(42), Transaction::default());
    workload.next(&mut rng, &mut transaction);
    (0..transaction.len()).map(|step| line(&*workload, &transaction, step)).collect::<Vec<_>>().join("\n")
}

fn line(workload: &dyn Workload, transaction: &Transaction, step: usize) -> String {
    let (statement, params) = transaction.get(step);
    let text = |start: u32, end: u32| &transaction.texts()[start as usize..end as usize];
    let values: Vec<String> = params
        .iter()
        .map(|param| match *param {
            Param::Int(value) => value.to_string(),
            Param::Text { start, end } => format!("text of {}", text(start, end).len()),
        })
        .collect();
    format!("{} <- [{}]", workload.statements()[statement].sql, values.join(", "))
}

fn classes(name: Name, options: &Options) -> Vec<String> {
    let workload = workload(name, Protocol::Mysql, &Tables::default(), options);
    let mut transaction = Transaction::default();
    workload.next(&mut Rng::seed_from_u64(1), &mut transaction);
    (0..transaction.len()).map(|step| workload.statements()[transaction.get(step).0].class.clone()).collect()
}

#[test]
fn read_write_has_sysbenchs_order_and_counts() {
    let mut expected = vec!["begin"];
    expected.extend(["point_select"; 10]);
    expected.extend(["simple_range", "sum_range", "order_range", "distinct_range"]);
    expected.extend(["index_update", "non_index_update", "delete", "insert", "commit"]);
    assert_eq!(classes(Name::OltpReadWrite, &Options::default()), expected);
}

#[test]
fn options_cut_the_transaction() {
    let bare = Options { skip_trx: true, range_selects: false, point_selects: 2, ..Options::default() };
    assert_eq!(classes(Name::OltpReadOnly, &bare), ["point_select", "point_select"]);
    let twice = Options { delete_inserts: 2, index_updates: 0, non_index_updates: 0, ..Options::default() };
    assert_eq!(classes(Name::OltpWriteOnly, &twice), ["begin", "delete", "insert", "delete", "insert", "commit"]);
    assert_eq!(classes(Name::OltpPointSelect, &Options { point_selects: 7, ..Options::default() }), ["point_select"]);
}

#[test]
fn nothing_to_send_is_refused() {
    let nothing = Options { index_updates: 0, non_index_updates: 0, delete_inserts: 0, ..Options::default() };
    let refused = |name, tables: &Tables, options: &Options| {
        build(name, Protocol::Mysql, tables, options, &Distribution::Uniform).err().unwrap()
    };
    let (tables, options) = (Tables::default(), Options::default());
    assert_eq!(refused(Name::OltpWriteOnly, &tables, &nothing), Error::Empty { name: "oltp_write_only" });
    let no_rows = refused(Name::OltpPointSelect, &Tables { table_size: 0, ..Tables::default() }, &options);
    assert!(no_rows.to_string().contains("table-size is 0"), "{no_rows}");
    let no_tables = refused(Name::OltpDelete, &Tables { tables: 0, ..Tables::default() }, &options);
    assert!(no_tables.to_string().contains("tables"), "{no_tables}");
    assert!("oltp_nothing".parse::<Name>().unwrap_err().to_string().contains("oltp_point_select"));
    assert_eq!("oltp-read-only".parse::<Name>(), Ok(Name::OltpReadOnly));
}

#[test]
fn mysql_text() {
    insta::assert_snapshot!(script(Name::OltpWriteOnly, Protocol::Mysql, &Options::default()), @r"
    BEGIN <- []
    UPDATE sbtest1 SET k=k+1 WHERE id=? <- [8144]
    UPDATE sbtest1 SET c=? WHERE id=? <- [text of 119, 8501]
    DELETE FROM sbtest1 WHERE id=? <- [6801]
    INSERT INTO sbtest1 (id, k, c, pad) VALUES (?, ?, ?, ?) <- [6801, 696, text of 119, text of 59]
    COMMIT <- []
    ");
    insta::assert_snapshot!(script(Name::OltpInsert, Protocol::Mysql, &Options { auto_inc: false, ..Options::default() }), @"INSERT INTO sbtest1 (id, k, c, pad) VALUES (?, ?, ?, ?) <- [10001, 8144, text of 119, text of 59]");
    insta::assert_snapshot!(script(Name::OltpReadOnly, Protocol::Mysql, &Options { point_selects: 1, ..Options::default() }), @r"
    BEGIN <- []
    SELECT c FROM sbtest1 WHERE id=? <- [8144]
    SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ? <- [3189, 3288]
    SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN ? AND ? <- [9839, 9938]
    SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c <- [7012, 7111]
    SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c <- [7936, 8035]
    COMMIT <- []
    ");
}

#[test]
fn postgresql_text() {
    insta::assert_snapshot!(script(Name::OltpUpdateNonIndex, Protocol::Postgresql, &Options::default()), @"UPDATE sbtest1 SET c=$1 WHERE id=$2 <- [text of 119, 5596]");
    insta::assert_snapshot!(script(Name::OltpInsert, Protocol::Postgresql, &Options::default()), @"INSERT INTO sbtest1 (k, c, pad) VALUES ($1, $2, $3) <- [8144, text of 119, text of 59]");
    let three = Options { random_points: 3, number_of_ranges: 2, bulk_rows: 2, ..Options::default() };
    insta::assert_snapshot!(script(Name::SelectRandomPoints, Protocol::Postgresql, &three), @"SELECT id, k, c, pad FROM sbtest1 WHERE k IN ($1, $2, $3) <- [8143, 3188, 9839]");
    insta::assert_snapshot!(script(Name::SelectRandomRanges, Protocol::Postgresql, &three), @"SELECT count(k) FROM sbtest1 WHERE k BETWEEN $1 AND $2 OR k BETWEEN $3 AND $4 <- [8143, 8148, 3188, 3193]");
    insta::assert_snapshot!(script(Name::BulkInsert, Protocol::Postgresql, &three), @"INSERT INTO sbtest1 (id, k) VALUES ($1, $2), ($3, $4) <- [1, 1, 2, 2]");
}

#[test]
fn every_table_gets_its_share() {
    let tables = Tables { tables: 4, ..Tables::default() };
    let workload = workload(Name::OltpPointSelect, Protocol::Mysql, &tables, &Options::default());
    let (mut rng, mut transaction, mut seen) = (Rng::seed_from_u64(9), Transaction::default(), [0; 4]);
    for _ in 0..4000 {
        transaction.clear();
        workload.next(&mut rng, &mut transaction);
        seen[transaction.get(0).0] += 1;
    }
    assert!(seen.iter().all(|n| (850..1150).contains(n)), "{seen:?}");
    assert!(workload.statements()[3].sql.contains("sbtest4"));
}

/// 100 rows: ids up to 200, about half of which do not exist.
#[test]
fn ids_go_beyond_the_last_row_by_the_factor_that_is_asked_for() {
    let tables = Tables { table_size: 100, ..Tables::default() };
    for (factor, largest, beyond) in [(1, 100, 0..=0), (2, 200, 450..=550)] {
        let options = Options { ids_times_rows: factor, ..Options::default() };
        let workload = workload(Name::OltpPointSelect, Protocol::Mysql, &tables, &options);
        let (mut rng, mut transaction, mut ids) = (Rng::seed_from_u64(9), Transaction::default(), Vec::new());
        for _ in 0..1000 {
            transaction.clear();
            workload.next(&mut rng, &mut transaction);
            ids.extend(transaction.get(0).1.iter().filter_map(|param| match param {
                Param::Int(id) => Some(*id),
                Param::Text { .. } => None,
            }));
        }
        assert_eq!((ids.iter().min(), ids.iter().max()), (Some(&1), Some(&largest)));
        let count = ids.iter().filter(|id| **id > 100).count();
        assert!(beyond.contains(&count), "{count} of 1000, {factor} times");
    }
}

#[test]
fn new_keys_are_never_handed_out_twice() {
    let (tables, options) =
        (Tables { connections: 3, ..Tables::default() }, Options { bulk_rows: 10, ..Options::default() });
    let workload = workload(Name::BulkInsert, Protocol::Mysql, &tables, &options);
    let (mut rng, mut transaction, mut keys) = (Rng::seed_from_u64(9), Transaction::default(), Vec::new());
    for _ in 0..50 {
        transaction.clear();
        workload.next(&mut rng, &mut transaction);
        keys.extend(transaction.get(0).1.iter().step_by(2).copied());
    }
    let all: std::collections::BTreeSet<String> = keys.iter().map(|key| format!("{key:?}")).collect();
    assert_eq!((keys.len(), all.len()), (500, 500));
}

#[test]
fn pgbenchs_scripts() {
    insta::assert_snapshot!(script(Name::PgbenchTpcbLike, Protocol::Postgresql, &Options::default()), @r"
    BEGIN <- []
    UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2 <- [2012, 81431]
    SELECT abalance FROM pgbench_accounts WHERE aid = $1 <- [81431]
    UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2 <- [2012, 10]
    UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2 <- [2012, 1]
    INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP) <- [10, 1, 81431, 2012]
    END <- []
    ");
    insta::assert_snapshot!(script(Name::PgbenchSimpleUpdate, Protocol::Mysql, &Options::default()), @r"
    BEGIN <- []
    UPDATE pgbench_accounts SET abalance = abalance + ? WHERE aid = ? <- [2012, 81431]
    SELECT abalance FROM pgbench_accounts WHERE aid = ? <- [81431]
    INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (?, ?, ?, ?, CURRENT_TIMESTAMP) <- [10, 1, 81431, 2012]
    COMMIT <- []
    ");
    insta::assert_snapshot!(script(Name::PgbenchSelectOnly, Protocol::Postgresql, &Options::default()), @"SELECT abalance FROM pgbench_accounts WHERE aid = $1 <- [81431]");
}

/// pgbench: `random(1, 100000 * :scale)`, `random(1, 1 * :scale)`, `random(1, 10 * :scale)`, `random(-5000, 5000)`.
#[test]
fn pgbenchs_values_reach_both_ends_of_their_ranges() {
    let tables = Tables { scale: 3, ..Tables::default() };
    let workload = workload(Name::PgbenchTpcbLike, Protocol::Postgresql, &tables, &Options::default());
    let (mut rng, mut transaction) = (Rng::seed_from_u64(7), Transaction::default());
    let mut seen = [(i64::MAX, i64::MIN); 4];
    for _ in 0..100_000 {
        transaction.clear();
        workload.next(&mut rng, &mut transaction);
        let values: Vec<i64> =
            transaction.get(5).1.iter().map(|param| if let Param::Int(value) = param { *value } else { 0 }).collect();
        seen.iter_mut().zip(&values).for_each(|(seen, value)| *seen = (seen.0.min(*value), seen.1.max(*value)));
        let [teller, branch, account, delta] = values[..] else { panic!("{values:?}") };
        assert_eq!(transaction.get(1).1, [Param::Int(delta), Param::Int(account)]);
        assert_eq!(transaction.get(2).1, [Param::Int(account)]);
        assert_eq!(transaction.get(3).1, [Param::Int(delta), Param::Int(teller)]);
        assert_eq!(transaction.get(4).1, [Param::Int(delta), Param::Int(branch)]);
    }
    let [teller, branch, account, delta] = seen;
    assert_eq!((teller, branch, delta), ((1, 30), (1, 3), (-5000, 5000)));
    assert!((1..50).contains(&account.0) && (299_950..=300_000).contains(&account.1), "{account:?}");
}

proptest! {
    /// Whatever the options: as many values as placeholders, keys of existing rows in the first place.
    #[test]
    fn values_fit_their_statements(
        name in prop::sample::select(Name::ALL.to_vec()), postgresql: bool, seed: u64, tables in 1u32..5, table_size in 1u64..1 << 40,
        connections in 1u32..9, skip_trx: bool, auto_inc: bool, range_size in 1u64..1000, points in 1u64..30,
    ) {
        let protocol = if postgresql { Protocol::Postgresql } else { Protocol::Mysql };
        let tables = Tables { tables, table_size, connections, ..Tables::default() };
        let options = Options {
            skip_trx, auto_inc, range_size, random_points: points, number_of_ranges: points, bulk_rows: points, ..Options::default()
        };
        let workload = workload(name, protocol, &tables, &options);
        let (mut rng, mut transaction) = (Rng::seed_from_u64(seed), Transaction::default());
        workload.next(&mut rng, &mut transaction);
        prop_assert!(!transaction.is_empty());
        for step in 0..transaction.len() {
            let (statement, params) = transaction.get(step);
            let spec = &workload.statements()[statement];
            prop_assert_eq!(params.len(), spec.params);
            prop_assert_eq!(spec.kind == Kind::Read, spec.returns_rows);
            if let (Some(Param::Int(key)), false) = (params.first(), spec.class.contains("insert") || name.is_pgbench()) {
                let limit = table_size + u64::from(connections);
                prop_assert!(u64::try_from(*key).is_ok_and(|key| key <= limit), "{}", line(&*workload, &transaction, step));
            }
        }
    }
}

/// A setting changes its own field of the options and no other field; its default is within its limits; each setting has its own name.
#[test]
fn settings_are_the_fields_of_the_options() {
    let defaults = Options::default();
    let mut names = std::collections::BTreeSet::new();
    for setting in SETTINGS {
        assert!(names.insert(setting.name) && !setting.of.is_empty(), "{setting:?}");
        assert!(!setting.in_experiments || setting.of.iter().all(|name| name.in_experiments()), "{setting:?}");
        let mut options = defaults.clone();
        match setting.slot(&mut options) {
            Slot::Flag(flag) => *flag = !*flag,
            Slot::Count { value, limits } => {
                assert!(limits.contains(value), "{setting:?}");
                *value += 1;
            }
        }
        let changed =
            format!("{options:?}").split(", ").zip(format!("{defaults:?}").split(", ")).filter(|(a, b)| a != b).count();
        assert_eq!(changed, 1, "{setting:?}");
        match setting.slot(&mut options) {
            Slot::Flag(flag) => *flag = !*flag,
            Slot::Count { value, .. } => *value -= 1,
        }
        assert_eq!(options, defaults);
    }
}

#[test]
fn a_count_beyond_its_limits_is_refused_by_its_flag() {
    for (options, said) in [
        (Options { range_size: 0, ..Options::default() }, "range-size is 0: it must be from 1 to 4611686018427387904"),
        (Options { sum_ranges: 100_001, ..Options::default() }, "sum-ranges is 100001: it must be from 0 to 100000"),
        (Options { random_points: 65_536, ..Options::default() }, "random-points is 65536: it must be from 1 to 65535"),
    ] {
        let built = build(Name::OltpReadOnly, Protocol::Mysql, &Tables::default(), &options, &Distribution::Uniform);
        assert_eq!(built.err().unwrap().to_string(), said);
    }
}
