// SPDX-License-Identifier: Apache-2.0
use super::WorkloadFile;
use crate::Code;
use crate::rand_core::SeedableRng as _;
use crate::{Kind, Param, Rng, Transaction, Workload};
use capability::Protocol;
use std::collections::BTreeMap;

const SHOP: &str = r#"
schema = 1
name = "shop"
retry = ["40001", "1213"]

[parameters]
customer = { type = "zipfian", min = 1, max = "table_size", exponent = 0.9 }
item = { type = "uniform", min = -5, max = 5, per = "statement" }
low = { type = "uniform", min = 1, max = 100 }
high = { type = "copy", of = "low", plus = 9 }
order = { type = "sequence", start = "table_size + 1" }
state = "it's"
note = { type = "string", min_length = 3, max_length = 5, characters = "äb" }

[[transaction]]
name = "browse"
weight = 3
think = "2ms"
statements = ["SELECT ':low', a::int FROM t WHERE id = :customer AND k BETWEEN :low AND :high -- :low"]

[[transaction]]
name = "buy"
statements = [
  { name = "look", sql = "SELECT :item, :item, :low", repeat = 2, think = { type = "uniform", min = "1us", max = "3us" } },
  { mysql = "INSERT IGNORE INTO o VALUES (:order, :state, :note)", postgresql = "INSERT INTO o VALUES (:order, :state, :note) ON CONFLICT DO NOTHING" },
]
"#;

fn parse(text: &str) -> WorkloadFile {
    WorkloadFile::parse(text).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

fn built(text: &str, protocol: Protocol) -> Box<dyn Workload> {
    parse(text).build(protocol, 1000).unwrap()
}

/// Classes and values of one transaction.
fn drawn(workload: &dyn Workload, rng: &mut Rng) -> (Vec<String>, Vec<Vec<String>>, Transaction) {
    let mut transaction = Transaction::default();
    workload.next(rng, &mut transaction);
    let steps = 0..transaction.len();
    let classes = steps.clone().map(|step| workload.statements()[transaction.get(step).0].class.clone()).collect();
    let texts = transaction.texts();
    let value = |param: &Param| match *param {
        Param::Int(number) => number.to_string(),
        Param::Text { start, end } => String::from_utf8(texts[start as usize..end as usize].to_vec()).unwrap(),
    };
    let values = steps.map(|step| transaction.get(step).1.iter().map(value).collect()).collect();
    (classes, values, transaction.clone())
}

#[test]
fn one_placeholder_syntax_for_both_families() {
    let sql = |protocol| built(SHOP, protocol).statements().iter().map(|it| it.sql.clone()).collect::<Vec<_>>();
    let mysql = sql(Protocol::Mysql);
    assert_eq!(mysql[0], "SELECT ':low', a::int FROM t WHERE id = ? AND k BETWEEN ? AND ? -- :low");
    assert_eq!(mysql[1..3], ["BEGIN", "COMMIT"]);
    assert_eq!(mysql[4], "INSERT IGNORE INTO o VALUES (?, ?, ?)");
    let postgresql = sql(Protocol::Postgresql);
    assert_eq!(postgresql[0], "SELECT ':low', a::int FROM t WHERE id = $1 AND k BETWEEN $2 AND $3 -- :low");
    assert_eq!(postgresql[4], "INSERT INTO o VALUES ($1, $2, $3) ON CONFLICT DO NOTHING");
    let kinds: Vec<Kind> = built(SHOP, Protocol::Mysql).statements().iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [Kind::Read, Kind::Other, Kind::Other, Kind::Read, Kind::Write]);
}

#[test]
fn values_come_as_the_file_says() {
    let (workload, mut rng) = (built(SHOP, Protocol::Postgresql), Rng::seed_from_u64(3));
    let (mut seen, mut orders, mut items) = (BTreeMap::new(), Vec::new(), (i64::MAX, i64::MIN));
    for _ in 0..4000 {
        let (classes, values, transaction) = drawn(&*workload, &mut rng);
        *seen.entry(classes[0].clone()).or_insert(0) += 1;
        if classes == ["browse"] {
            let number = |at: usize| values[0][at].parse::<i64>().unwrap();
            assert!((1..=1000).contains(&number(0)) && number(2) == number(1) + 9, "{values:?}");
            assert_eq!(transaction.think_ns(), 2_000_000);
            continue;
        }
        assert_eq!(classes, ["begin", "look", "look", "buy.2", "commit"]);
        assert_eq!((transaction.think_ns(), transaction.pause_ns(0), transaction.pause_ns(3)), (0, 0, 0));
        assert!((1000..=3000).contains(&transaction.pause_ns(1)), "{}", transaction.pause_ns(1));
        assert!(
            values[1][0] == values[1][1] && values[1][2] == values[2][2],
            "one draw a statement, one a transaction: {values:?}"
        );
        for statement in &values[1..3] {
            let item = statement[0].parse().unwrap();
            items = (items.0.min(item), items.1.max(item));
        }
        orders.push(values[3][0].parse::<i64>().unwrap());
        let length = values[3][2].chars().count();
        assert!(
            values[3][1] == "it's" && (3..=5).contains(&length) && values[3][2].chars().all(|c| "äb".contains(c)),
            "{values:?}"
        );
    }
    assert!(orders.iter().copied().eq(1001..1001 + orders.len() as i64));
    assert_eq!(items, (-5, 5));
    assert!((2850..3150).contains(&seen["browse"]) && seen["browse"] + seen["begin"] == 4000, "{seen:?}");
}

#[test]
fn a_value_for_each_statement_differs_within_a_transaction() {
    let (workload, mut rng) = (built(SHOP, Protocol::Mysql), Rng::seed_from_u64(3));
    let bought =
        std::iter::repeat_with(|| drawn(&*workload, &mut rng)).filter(|(classes, ..)| classes.len() > 1).take(200);
    let differ = bought.filter(|(_, values, _)| values[1][0] != values[2][0]).count();
    assert!((160..200).contains(&differ), "{differ} of 200, and 10 in 11 are expected");
}

#[test]
fn exponential_thoughts_have_their_mean() {
    let text =
        "schema = 1\nthink = { type = \"exponential\", mean = \"10ms\" }\n[[transaction]]\nstatements = [\"SELECT 1\"]";
    let (workload, mut rng) = (built(text, Protocol::Mysql), Rng::seed_from_u64(1));
    let draws: Vec<f64> = (0..20_000).map(|_| drawn(&*workload, &mut rng).2.think_ns() as f64 / 1e6).collect();
    let mean = draws.iter().sum::<f64>() / draws.len() as f64;
    assert!((9.7..10.3).contains(&mean), "{mean}");
    let beyond = draws.iter().filter(|ms| **ms > 10.0 * 3f64.ln()).count() as f64 / draws.len() as f64;
    assert!((0.32..0.345).contains(&beyond), "a third is beyond ln 3 times the mean: {beyond}");
}

#[test]
fn errors_to_retry_are_the_files() {
    let (chosen, usual) = (
        built(SHOP, Protocol::Mysql),
        built("schema = 1\n[[transaction]]\nstatements = [\"SELECT 1\"]", Protocol::Mysql),
    );
    for (code, by_file, by_default) in
        [(Code::Number(1213), true, true), (Code::Number(1205), false, true), (Code::State(*b"40001"), true, true)]
    {
        assert_eq!((chosen.retries(code), usual.retries(code)), (by_file, by_default), "{code}");
    }
}

#[test]
fn what_is_drawn_is_said() {
    assert_eq!(
        parse(SHOP).describe(),
        "customer zipfian (exp 0.9) from 1 to table_size; high low +9; item uniform from -5 to 5; low uniform from 1 to 100; \
         note 3 to 5 characters; order sequence from table_size +1; state constant"
    );
}

/// Hostile and unlucky files.
#[test]
fn odd_names_bytes_and_ranges_are_problems_and_no_panic() {
    let of = |parameters: &str, sql: &str| {
        problems(&format!("schema = 1\n[parameters]\n{parameters}\n[[transaction]]\nstatements = [\"{sql}\"]\n"))
    };
    assert!(of("\"\" = 5", "SELECT 1").contains("3:1: a parameter cannot be named \"\""));
    assert!(of("a = 5", "SELECT :a\\u0000").contains("5:15: a statement cannot hold a zero byte"));
    let all = format!("a = {{ type = \"uniform\", min = {}, max = {} }}", i64::MIN, i64::MAX);
    assert!(of(&all, "SELECT :a").contains("more than 2^63 numbers"));
}

/// Each problem as a user reads it.
fn problems(text: &str) -> String {
    let problems = match WorkloadFile::parse(text) {
        Err(problems) => problems,
        Ok(file) => file.build(Protocol::Mysql, 10).err().unwrap_or_default(),
    };
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_problem_has_its_place_and_what_to_do() {
    insta::assert_snapshot!(problems("name = 5"), @r#"
    1:1: schema is missing; write schema = 1 as the first line
    1:1: transaction is missing; write [[transaction]] with statements = ["SELECT ..."]
    1:8: name is a whole number, not a text; write name = "5"
    "#);
    insta::assert_snapshot!(problems(r#"
schema = 1
retry = ["deadlock"]
think = "2 parsecs"
[parameters]
low = { type = "unifrom", min = 1, max = 5 }
high = { type = "uniform", min = 9, max = 5, step = 2 }
loop = { type = "copy", of = "pool" }
text = { type = "string" }
[[transaction]]
weight = 0
wieght = 1
statements = ["SELECT :hihg", { name = "x" }]
"#), @r#"
    3:10: "deadlock" is not the code of an error; write the codes of errors, such as retry = ["40001", "1213"]; [] retries none
    4:9: think: '2 parsecs' is not a time: write a number and a unit, such as 50us, 10ms, 1.5s or 2m; for example think = "20ms"
    6:16: parameters.low.type cannot be "unifrom"; did you mean "uniform"?
    7:34: min = 9 is above max = 5; swap them
    7:46: unknown key "step" in [parameters.high]; valid here: max, min, per, type
    8:30: there is no parameter "pool"; did you mean "loop"?
    9:8: parameters.text has no clear length; write length = 20, or min_length = 8 and max_length = 20
    11:10: transaction.weight cannot be 0; it goes from 1 to 1000000
    12:1: unknown key "wieght" in [transaction]; did you mean "weight"?
    13:15: there is no parameter "hihg" for :hihg; did you mean "high"? Else write hihg = ... below [parameters]
    13:31: statements.sql is missing; write sql = "SELECT ...", or mysql = "..." and postgresql = "..."
    "#);
    let body = |statement: &str| {
        format!(
            "schema = 1\n[parameters]\nid = {{ type = \"uniform\", min = 20, max = \"table_size\" }}\n[[transaction]]\nstatements = [{statement}]\n"
        )
    };
    insta::assert_snapshot!(problems(&body("\"SELECT ? , :id\"")), @r#"
    3:1: parameter id has an empty range with tables of 10 rows; give the size of the tables, or a max of your own
    5:15: statement t1 has a placeholder of the MySQL family's own, ?; name a parameter instead: WHERE id = :id
    "#);
    insta::assert_snapshot!(problems(&body("{ postgresql = \"SELECT $1 + :id\" }")), @r#"
    3:1: parameter id has an empty range with tables of 10 rows; give the size of the tables, or a max of your own
    5:15: statement t1 has no text for the MySQL family; write mysql = "..." beside the other, or sql = "..." for both
    "#);
    insta::assert_snapshot!(problems(&body("\"SELECT 1\"")), @r#"
    3:1: no statement uses the parameter id; write :id in a statement, or leave it out
    "#);
    insta::assert_snapshot!(problems("schema = 1\n[parameters]\na = { type = \"copy\", of = \"b\" }\nb = { type = \"copy\", of = \"a\" }\n[[transaction]]\nstatements = [\"SELECT :a\"]"), @r#"
    3:1: parameter a is a copy of itself; let one of them draw its own value
    "#);
}
