// SPDX-License-Identifier: Apache-2.0
//! A number of a distribution that a command line takes, an experiment and a workload's file take, too, and the other way round. And what
//! is taken when nothing is said, is said.
#![allow(clippy::unwrap_used)]

use testkit::Lab;
use workload::file::WorkloadFile;

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// (kind, flag and key of an experiment, key of a workload's file, values)
const NUMBERS: [(&str, &str, &str, [&str; 6]); 5] = [
    ("special", "rand_spec_iter", "iterations", ["0", "1", "12", "1000", "1001", "-1"]),
    ("special", "rand_spec_pct", "range_percent", ["0", "0.5", "99", "100", "100.5", "-1"]),
    ("special", "rand_spec_res", "special_percent", ["0", "0.5", "99", "100", "100.5", "-1"]),
    ("pareto", "rand_pareto_h", "h", ["0", "0.0005", "0.001", "0.999", "0.9995", "1"]),
    ("zipfian", "rand_zipfian_exp", "exponent", ["-0.1", "0", "10", "50", "100", "100.5"]),
];

fn experiment(kind: &str, number: &str) -> String {
    format!(
        "schema = 1\nname = \"limits\"\n[server]\nflavour = \"mariadb\"\n[fill]\nrows = 100\n[load]\n\
         workload = \"oltp_point_select\"\ntime = \"1s\"\ndistribution = \"{kind}\"\n{number}\n"
    )
}

fn workload(kind: &str, number: &str) -> String {
    format!(
        "schema = 1\n[parameters]\nid = {{ type = \"{kind}\", min = 1, max = 100, {number} }}\n\
         [[transaction]]\nstatements = [\"SELECT c FROM sbtest1 WHERE id = :id\"]\n"
    )
}

#[test]
fn the_numbers_of_distributions_have_the_same_limits_everywhere() {
    let lab = Lab::new(WRINGER);
    for (kind, flag, key, values) in NUMBERS {
        for value in values {
            let (rand_type, number) = (format!("--rand-type={kind}"), format!("--{flag}={value}"));
            let ran = lab.run(["load", "oltp_point_select", &rand_type, &number, "--dry-run=1"]);
            let by_flag = ran.code == Some(0);
            assert!(by_flag || ran.code == Some(2), "{number}: {}", ran.stderr);
            let in_experiment = experiment::Experiment::parse(&experiment(kind, &format!("{flag} = {value}")));
            assert_eq!(in_experiment.is_ok(), by_flag, "{flag} = {value} in an experiment: {in_experiment:?}");
            let in_workload = WorkloadFile::parse(&workload(kind, &format!("{key} = {value}")));
            assert_eq!(in_workload.is_ok(), by_flag, "{key} = {value} in a workload's file: {in_workload:?}");
        }
    }
}
