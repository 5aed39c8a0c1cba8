// SPDX-License-Identifier: Apache-2.0
//! `load.idle` and `load.probe`: the observation after an arm's load, and the reads before it.

use super::load_keys::too_long;
use crate::section::Section;
use crate::tree::Value;
use units::Span;

/// A larger number of reads would take longer than any load.
const MOST_READS: u64 = 1_000_000;

/// How long the server is observed after the load; zero: not at all.
pub(super) fn idle(load: &Section<'_>) -> Span {
    let Some(asked) = load.unit::<Span>("idle", "60s") else { return Span::ZERO };
    too_long(load, "idle", asked.value);
    asked.value
}

/// The number of random reads. An arm writes `"none"` to turn the section's probe off.
pub(super) fn probe(load: &Section<'_>) -> Option<u64> {
    let node = load.node("probe")?;
    match &node.value {
        Value::Text(word) if word == "none" => None,
        Value::Integer(_) => load.integer("probe", 1..=MOST_READS).map(|asked| asked.value),
        other => {
            let message = format!("load.probe is {}, not a number of reads", other.kind());
            load.wrong(Some(node), &message, Some("write probe = 1024, or probe = \"none\"".into()));
            None
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::Experiment;
    use crate::plan::{HostFacts, plan};
    use units::Span;

    const GOOD: &str = r#"
schema = 1
name = "around"
[server]
flavour = "mariadb"
[fill]
rows = 1000
[load]
workload = "oltp_point_select"
idle = "30s"
probe = 1024
[[arm]]
name = "both"
[[arm]]
name = "neither"
load = { idle = "0", probe = "none" }
[[arm]]
name = "beside a driver"
load = { driver = "sysbench", arguments = ["oltp_read_only"], time = "5s", idle = "5s", probe = 7 }
"#;

    /// The section's own keys stay in force in an arm that names a driver, so this file does not have them in the section.
    fn file() -> String {
        GOOD.replace("workload = \"oltp_point_select\"\n", "")
            .replace("\"both\"\n", "\"both\"\nload.workload = \"oltp_point_select\"\n")
            .replace("load = { idle = \"0\"", "load = { workload = \"oltp_point_select\", idle = \"0\"")
    }

    #[test]
    fn a_rest_after_the_load_and_reads_before_it_are_of_each_arm() {
        let experiment = Experiment::parse(&file()).unwrap();
        let asked: Vec<_> = experiment.arms.iter().map(|arm| (arm.load.idle, arm.load.probe)).collect();
        assert_eq!(asked, [(Span::secs(30), Some(1024)), (Span::ZERO, None), (Span::secs(5), Some(7))]);
        let planned = plan(&experiment, &HostFacts::default());
        let of = |arm: &str, word: &str| {
            planned.steps.iter().any(|step| step.arm.as_deref() == Some(arm) && step.text.contains(word))
        };
        for (arm, is_there) in [("both", true), ("neither", false), ("beside a driver", true)] {
            assert_eq!((of(arm, "random reads"), of(arm, "after the load")), (is_there, is_there), "{arm}");
        }
        let seconds = |arm: &str| -> f64 {
            planned.steps.iter().filter(|step| step.arm.as_deref() == Some(arm)).map(|step| step.seconds).sum()
        };
        assert!(seconds("both") - seconds("neither") > 30.0);
    }

    #[test]
    fn what_cannot_be_meant_is_told_with_its_line() {
        for (from, to, line, words) in [
            ("idle = \"30s\"", "idle = \"48h\"", 9, ["load.idle cannot be", "is the most"]),
            ("probe = 1024", "probe = 0", 10, ["load.probe cannot be 0", "1 to"]),
            ("probe = 1024", "probe = true", 10, ["not a number of reads", "probe = 1024"]),
        ] {
            let found = Experiment::parse(&file().replacen(from, to, 1)).unwrap_err();
            let problem = found.first().unwrap();
            let hint = problem.suggestion.clone().unwrap_or_default();
            assert!(problem.line == line && problem.message.contains(words[0]), "{to}: {found:#?}");
            assert!(hint.contains(words[1]), "{to}: {hint}");
        }
    }
}
