// SPDX-License-Identifier: Apache-2.0
use super::{GOOD, check, driven, driven_on_postgresql};
use crate::Experiment;

#[test]
fn an_arm_asserts_what_the_file_does_unless_it_says_otherwise() {
    let text = GOOD.replacen("name = \"sample\"", "name = \"sample\"\nassert = [\"p99 < 20ms\", \"errors=0\"]", 1);
    let text = text.replace("name = \"10 ms\"", "name = \"10 ms\"\nassert = \"p99<200ms\"");
    let experiment = Experiment::parse(&format!("{text}[[arm]]\nname = \"none\"\nassert = []\n")).unwrap();
    let of = |arm: usize| experiment.arms[arm].assertions.iter().map(|it| it.assertion.to_string()).collect::<Vec<_>>();
    assert_eq!((of(0), of(1), of(2)), (vec!["p99 < 20ms".into(), "errors=0".into()], vec!["p99<200ms".into()], vec![]));
    assert_eq!((experiment.arms[0].assertions[1].place.0, experiment.arms[1].assertions[0].place.0), (3, 23));
    assert!(!experiment.arms[1].overrides.contains_key("assert"));
}

#[test]
fn what_is_no_assertion_is_refused_with_its_line() {
    let with = |list: &str| format!("name = \"sample\"\nassert = {list}");
    let bad = |list: &str, message: &str, hint: &str| check("name = \"sample\"", &with(list), 3, message, hint);
    bad("[\"p99<20\"]", "\"p99<20\" is no assertion: ", "FIGURE RELATION VALUE");
    bad("[\"speed>3\"]", "'speed' is none of the figures", "queries/s>1000");
    bad("[\"memory.exlpained>0.9\"]", "there are memory.explained, ", "memory.explained>=0.9");
    bad("[3]", "assert has a whole number in it", "errors=0");
    bad("5", "assert is a whole number, not a list", "assert = [");
    check(
        "name = \"10 ms\"",
        "name = \"10 ms\"\nassert = [\n\"errors=0\",\n\"p99\"]",
        24,
        "\"p99\" is no assertion",
        "p99<20ms",
    );
    check("name = \"10 ms\"", "name = \"10 ms\"\nasert = []", 22, "unknown key \"asert\" in [[arm]]", "\"assert\"");
    let closed = |assertion: &str| bad(&format!("[\"{assertion}\"]"), "without a rate nothing is", "load.rate");
    ["late=0", "skipped=0", "backlog<3"].iter().for_each(|assertion| closed(assertion));
    let driven = |load: &str, assertion: &str| {
        let text = driven(load).replacen("schema = 1\n", &format!("schema = 1\nassert = [\"{assertion}\"]\n"), 1);
        Experiment::parse(&text).map(drop).map_err(|problems| problems[0].to_string())
    };
    let sysbench = "driver = \"sysbench\"\narguments = [\"oltp_read_only\"]";
    assert_eq!(driven(sysbench, "p99<20ms"), Ok(()));
    assert!(driven(sysbench, "late=0").unwrap_err().contains("sysbench does not say how many were late"));
    assert!(driven(sysbench, "commit p99<1ms").unwrap_err().contains("does not tell the statements apart"));
    let pgbench = "driver = \"pgbench\"\narguments = [\"-f\", \"a.sql\"]";
    for (assertion, said) in [("p99<1ms", "only in its log"), ("queries/s>1", "does not count queries/s")] {
        let text = driven_on_postgresql(pgbench).replacen(
            "schema = 1\n",
            &format!("schema = 1\nassert = [\"{assertion}\"]\n"),
            1,
        );
        let problems = Experiment::parse(&text).unwrap_err();
        assert!(problems[0].line == 2 && problems[0].message.contains(said), "{problems:?}");
    }
}
