// SPDX-License-Identifier: Apache-2.0
//! `[load]` of an arm that sends the statements of a server's log again.

use super::{driver, foreign_load, moments};
use crate::model::Load;
use crate::replayed::{Replay, Speed};
use crate::section::Section;
use crate::tree::Value;
use evidence::Arrivals;
use std::ops::RangeInclusive;

/// Keys that only belong to `replay`.
const OWN: [&str; 2] = ["speed", "writes"];
/// The same limits as of `wringer replay --speed`.
const TIMES: RangeInclusive<f64> = 0.001..=1_000_000.0;
const SPEEDS: &str = "write speed = 2 for twice as fast as recorded, 0.001 to 1000000, or speed = \"max\"";
/// Keys whose values the log contains, or that belong to another kind of load.
const OTHERS: [&str; 4] = ["driver", "arguments", "command", "time"];

/// Refuses keys of a replay in a section that names no log.
pub(super) fn refuse_without(section: &Section<'_>) {
    for key in OWN {
        if let Some(node) = section.node(key) {
            let hint = "write replay = \"slow.log\" beside it, and no workload".to_owned();
            section.wrong(Some(node), &format!("load.{key} has no meaning without load.replay"), Some(hint));
        }
    }
}

pub(super) fn read(section: Section<'_>) -> Option<Load> {
    let log = section.text("replay").map(|log| log.value);
    if log.as_ref().is_some_and(|log| log.trim().is_empty()) {
        let hint = "write replay = \"slow.log\", a server's log; wringer replay --help says which are known".to_owned();
        section.wrong(section.node("replay"), "load.replay names no file", Some(hint));
    }
    let speed = speed(&section);
    let writes = section.boolean("writes").is_some_and(|asked| asked.value);
    let load = foreign_load::load(&section);
    refuse_ours(&section);
    moments::refuse_beside(&section, "replay");
    section.finish();
    let replay = Replay { log: log?, speed: speed?, writes };
    let arrivals = match replay.speed {
        Speed::Times(times) => Arrivals::Recorded { times },
        Speed::Max => Arrivals::Closed,
    };
    Some(Load { workload: replay.name(), arrivals, replay: Some(replay), ..load })
}

/// A number, or `"max"`; a text such as `"2x"`, as on the command line, is accepted, too.
fn speed(section: &Section<'_>) -> Option<Speed> {
    let Some(node) = section.node("speed") else { return Some(Speed::Times(1.0)) };
    let Value::Text(text) = &node.value else {
        return section.number("speed", TIMES).map(|asked| Speed::Times(asked.value));
    };
    if text == "max" {
        return Some(Speed::Max);
    }
    let times = text.trim_end_matches(['x', 'X']).parse().ok().filter(|times| TIMES.contains(times));
    if times.is_none() {
        section.wrong(Some(node), &format!("load.speed cannot be \"{text}\""), Some(SPEEDS.into()));
    }
    times.map(Speed::Times)
}

/// Refuses keys that would have no effect.
fn refuse_ours(section: &Section<'_>) {
    for key in driver::ours().chain(OTHERS) {
        if let Some(node) = section.node(key) {
            let hint = match key {
                "workload" | "driver" => "an arm has one kind of load: where arms differ in it, each names its own",
                "rate" | "arrivals" | "time" | "events" | "threads" => {
                    "the log says how many connections there are, and when each statement is sent; load.speed changes the pace"
                }
                _ => "leave it out: the statements are those of the log",
            };
            section.wrong(Some(node), &format!("load.{key} has no meaning beside load.replay"), Some(hint.into()));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::plan::{HostFacts, plan};
    use crate::{Experiment, Replay, Speed};
    use units::Span;

    const GOOD: &str = r#"schema = 1
name = "again"
[server]
flavour = "mariadb"
[fill]
rows = 1000
[load]
replay = "logs/slow.log"
pause = "1s"
cpuset = "1"
[[arm]]
name = "as it was"
[[arm]]
name = "twice"
load = { speed = 2, writes = true, idle = "5s" }
[[arm]]
name = "max"
load.speed = "max"
assert = ["p99<20ms", "errors=0"]
"#;

    #[test]
    fn an_arm_replays_a_log_at_a_pace_of_its_own() {
        let experiment = Experiment::parse(GOOD).unwrap();
        let replays: Vec<Replay> = experiment.arms.iter().map(|arm| arm.load.replay.clone().unwrap()).collect();
        let log = "logs/slow.log".to_owned();
        assert_eq!(replays[0], Replay { log: log.clone(), speed: Speed::Times(1.0), writes: false });
        assert_eq!(replays[1], Replay { log: log.clone(), speed: Speed::Times(2.0), writes: true });
        assert_eq!((replays[2].speed, replays[2].writes), (Speed::Max, false));
        let load = &experiment.arms[1].load;
        assert_eq!(load.workload, "replay logs/slow.log");
        assert_eq!((load.pause, load.idle, load.is_of_ours()), (Span::secs(1), Span::secs(5), false));

        let facts = HostFacts { log_seconds: [(log, 60.0)].into(), ..HostFacts::default() };
        let planned = plan(&experiment, &facts);
        let of = |arm: &str| {
            let of_arm = |step: &&crate::Step| step.arm.as_deref() == Some(arm) && step.text.contains("replay");
            planned.steps.iter().find(of_arm).map(|step| (step.text.clone(), step.seconds)).unwrap()
        };
        let (text, seconds) = of("as it was");
        assert!(text.contains("as fast as recorded") && text.contains("only what provably reads"), "{text}");
        assert!((seconds - 60.0).abs() < 1e-9, "{seconds}");
        let (text, seconds) = of("twice");
        assert!(text.contains("2 times as fast") && text.contains("writes, too"), "{text}");
        assert!((seconds - 30.0).abs() < 1e-9, "{seconds}");
    }

    #[test]
    fn what_cannot_be_meant_is_told_with_its_line() {
        for (from, to, line, words) in [
            ("replay = \"logs/slow.log\"", "replay = \"\"", 8, ["load.replay names no file", "slow.log"]),
            ("pause = \"1s\"", "speed = 0", 9, ["load.speed cannot be 0", "0.001"]),
            ("pause = \"1s\"", "speed = \"fast\"", 9, ["load.speed cannot be \"fast\"", "max"]),
            ("pause = \"1s\"", "threads = 4", 9, ["load.threads has no meaning beside load.replay", "the log says"]),
            ("pause = \"1s\"", "time = \"5s\"", 9, ["load.time has no meaning beside load.replay", "the log says"]),
            (
                "pause = \"1s\"",
                "workload = \"oltp_read_only\"",
                9,
                ["load.workload has no meaning", "one kind of load"],
            ),
            ("pause = \"1s\"", "driver = \"sysbench\"", 9, ["load.driver has no meaning", "one kind of load"]),
            ("pause = \"1s\"", "range_size = 5", 9, ["load.range_size has no meaning", "those of the log"]),
            ("pause = \"1s\"", "slow_statements = \"1s\"", 9, ["load.slow_statements has no meaning", "own load"]),
            ("\"errors=0\"", "\"backlog=0\"", 19, ["a replay has no backlog", "late"]),
            ("\"errors=0\"", "\"late=0\"", 19, ["no statement has a moment", "speed"]),
        ] {
            let found = Experiment::parse(&GOOD.replacen(from, to, 1)).unwrap_err();
            let problem = found.first().unwrap();
            let hint = problem.suggestion.clone().unwrap_or_default();
            assert!(problem.line == line && problem.message.contains(words[0]), "{to}: {found:#?}");
            assert!(hint.contains(words[1]), "{to}: {hint}");
        }
        let without = GOOD.replace("replay = \"logs/slow.log\"", "workload = \"oltp_point_select\"");
        let found = Experiment::parse(&without).unwrap_err();
        assert!(found.iter().any(|it| it.message == "load.speed has no meaning without load.replay"), "{found:#?}");
    }
}
