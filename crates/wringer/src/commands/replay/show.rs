// SPDX-License-Identifier: Apache-2.0
//! The result of a replay, for people and as JSON.

use super::{Args, Log};
use crate::commands::command_line;
use evidence::{Clock, Latencies, Times, Verdict};
use load::replay::{Pace, Plan, Replayed};
use load::summary;
use logs::Skip;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use units::counted;

/// The most lines that are listed as not understood; the JSON output has more.
const TROUBLES_SHOWN: usize = 5;

/// The counts of the log, and the statements that are not sent, with reasons. With `classes`, also the classes of the statements that are sent.
pub(super) fn plan(log: &Log<'_>, plan: &Plan, classes: bool) -> String {
    let recorded = &log.recorded;
    let mut out = String::new();
    let seconds = recorded.length_us() as f64 / 1e6;
    let _ = writeln!(
        out,
        "log          {}: {}, {} in {}, {seconds:.3} s",
        log.path.display(),
        log.format.name(),
        counted(recorded.statements(), "statement"),
        counted(recorded.sessions.len() as u64, "session"),
    );
    if recorded.resolution_us > 1 && recorded.statements() > 0 {
        let _ = writeln!(out, "             its clock knows seconds: what happened in one is spread evenly over it");
    }
    let not_read = recorded.skipped.not_understood_count();
    if not_read > 0 {
        let _ = writeln!(out, "not read     {}", counted(not_read, "line or entry"));
        for (line, what) in recorded.skipped.lines.iter().take(TROUBLES_SHOWN) {
            let _ = writeln!(out, "             line {line}: {what}");
        }
    }
    for (reason, count) in &plan.skipped {
        let line = plan.first_skipped.get(reason).copied().unwrap_or_default();
        let _ = writeln!(out, "not sent     {count:<10} {reason} (first on line {line})");
    }
    let _ = writeln!(
        out,
        "to be sent   {} in {}, of {}; {} at once at most",
        counted(plan.statements(), "statement"),
        counted(plan.sessions() as u64, "session"),
        counted(plan.counts.len() as u64, "class"),
        plan.most_at_once()
    );
    if classes {
        let mut counts: Vec<_> = plan.counts.iter().collect();
        counts.sort_by(|one, other| other.1.cmp(one.1).then(one.0.cmp(other.0)));
        for (class, count) in counts {
            let _ = writeln!(out, "{count:>12} {class}");
        }
    }
    out.trim_end().to_owned()
}

pub(super) fn result(plan: &Plan, replayed: &Replayed, args: &Args) -> String {
    let phase = &replayed.measured;
    let mut out = String::new();
    let seconds = phase.elapsed_us as f64 / 1e6;
    let pace = match args.speed.0 {
        Pace::Max => "each as soon as the one before it was done".to_owned(),
        Pace::Times(times) => match pace_got(plan, replayed, times) {
            None => format!("{times} times as fast as recorded was asked for, and not all statements were sent"),
            Some(got) if is_behind(replayed, times, got) => {
                format!("{times} times as fast as recorded was asked for, {got:.2} times was got")
            }
            Some(_) => format!("{times} times as fast as recorded"),
        },
    };
    let _ = writeln!(out, "measured     {seconds:.3} s, {pace}, {} connections at once at most", replayed.connections);
    let rate = phase.transactions as f64 / seconds.max(1e-6);
    let _ = writeln!(
        out,
        "statements   {:<10} {rate:.1}/s (read {}, write {}, other {})",
        phase.transactions, phase.reads, phase.writes, phase.others
    );
    let errors: Vec<String> = phase.errors.iter().map(|(code, count)| format!("{count} of {code}")).collect();
    let _ = writeln!(out, "errors       {}", if errors.is_empty() { "0".to_owned() } else { errors.join(", ") });
    if args.speed.0 != Pace::Max {
        let _ = writeln!(out, "pace         {} started more than 1 ms after their moment", phase.late);
    }
    for (count, why) in [
        (replayed.without_database, "the server refused their database (USE), and they were not to run in another one"),
        (phase.skipped.saturating_sub(replayed.without_database), "no connection, or interrupted"),
    ] {
        if count > 0 {
            let _ = writeln!(out, "not sent     {count} of {}: {why}", plan.statements());
        }
    }
    let percentiles: Vec<String> = args.percentile.iter().map(|percentile| format!("p{percentile}")).collect();
    let cells = |words: &[String]| words.iter().map(|word| format!(" {word:>9}")).collect::<String>();
    let head = [vec!["count".to_owned(), "avg".to_owned()], percentiles, vec!["max".to_owned()]].concat();
    let _ = writeln!(out, "milliseconds{}", cells(&head));
    let row = |times: &Times<'_>| {
        let mut words = vec![times.count().to_string(), times.mean().ms_text()];
        words.extend(args.percentile.iter().map(|percentile| times.percentile(*percentile).ms_text()));
        words.push(times.max().ms_text());
        cells(&words)
    };
    let _ = writeln!(out, "response    {}", row(&phase.times(Clock::Response)));
    let _ = writeln!(out, "service     {}", row(&phase.times(Clock::Service)));
    let _ = writeln!(out, "connecting  {}", row(&Times::known(&replayed.connect)));
    if let Some(words) = summary::unended(phase) {
        let _ = writeln!(out, "{words}");
    }
    let mut classes: Vec<(&String, &Latencies)> = phase.statements.iter().collect();
    let total = |latencies: &Latencies| latencies.service.mean_ns() * latencies.service.count() as f64;
    classes.sort_by(|one, other| total(other.1).total_cmp(&total(one.1)));
    let _ = writeln!(out, "service, by class of statements");
    for (class, latencies) in classes.iter().take(args.top) {
        let _ = writeln!(out, "            {}  {class}", row(&Times::known(&latencies.service)));
    }
    if classes.len() > args.top {
        let _ = writeln!(out, "             and {} more classes: --top", classes.len() - args.top);
    }
    let each = |us: u64| us as f64 / phase.transactions.max(1) as f64;
    let (user, system) = (each(phase.client_user_us), each(phase.client_system_us));
    let _ = writeln!(out, "client CPU   {user:.1} us user and {system:.1} us system a statement");
    out.trim_end().to_owned()
}

/// How many times as fast as recorded the replay was, up to the end of its last statement. `None`: it ended before it had sent all statements.
fn pace_got(plan: &Plan, replayed: &Replayed, asked: f64) -> Option<f64> {
    let of_all = match (plan.length_us(), replayed.measured.elapsed_us) {
        (0, _) | (_, 0) => asked,
        (recorded_us, elapsed_us) => recorded_us as f64 / elapsed_us as f64,
    };
    (replayed.measured.skipped <= replayed.without_database).then_some(of_all)
}

/// The last statement itself takes time: a replay of which no statement was late has got its pace.
fn is_behind(replayed: &Replayed, asked: f64, got: f64) -> bool {
    replayed.measured.late > 0 && got < 0.95 * asked
}

fn reasons(skips: &BTreeMap<&'static str, Skip>) -> Vec<Value> {
    let reason = |(reason, skip): (&&str, &Skip)| json!({ "reason": reason, "count": skip.count, "first_line": skip.first_line });
    skips.iter().map(reason).collect()
}

pub(super) fn json(
    log: &Log<'_>,
    plan: &Plan,
    args: &Args,
    replayed: Option<&Replayed>,
    verdicts: &[Verdict],
) -> Value {
    let recorded = &log.recorded;
    let troubles: Vec<Value> =
        recorded.skipped.lines.iter().map(|(line, what)| json!({ "line": line, "what": what })).collect();
    let not_sent: Vec<Value> = plan
        .skipped
        .iter()
        .map(
            |(reason, count)| json!({ "reason": reason, "count": count, "first_line": plan.first_skipped.get(reason) }),
        )
        .collect();
    let percentiles = |times: &Times<'_>| {
        let at = |p: &f64| {
            let time = times.percentile(*p);
            let mut at = json!({ "percentile": p, "latency_us": time.us() });
            if time.is_at_least() {
                at["at_least"] = json!(true);
            }
            at
        };
        args.percentile.iter().map(at).collect::<Vec<Value>>()
    };
    let times = match args.speed.0 {
        Pace::Max => Value::Null,
        Pace::Times(times) => json!(times),
    };
    let mut document = json!({
        "schema": 1,
        "tool": format!("wringer {}", env!("CARGO_PKG_VERSION")),
        "command": command_line(),
        "log": {
            "path": log.path,
            "format": log.format,
            "sessions": recorded.sessions.len(),
            "statements": recorded.statements(),
            "length_us": recorded.length_us(),
            "resolution_us": recorded.resolution_us,
            "not_read": { "count": recorded.skipped.not_understood_count(), "lines": troubles, "reasons": reasons(&recorded.skipped.not_understood) },
            "no_statement": reasons(&recorded.skipped.no_statement),
        },
        "writes": args.writes,
        "speed_times": times,
        "not_sent": not_sent,
        "to_send": { "statements": plan.statements(), "sessions": plan.sessions(), "most_at_once": plan.most_at_once(), "classes": plan.counts },
    });
    if let Some(replayed) = replayed {
        document["response"] = json!(percentiles(&replayed.measured.times(Clock::Response)));
        document["service"] = json!(percentiles(&replayed.measured.times(Clock::Service)));
        if let Pace::Times(times) = args.speed.0 {
            document["speed_times_got"] = json!(pace_got(plan, replayed, times));
        }
        document["replay"] = json!({ "connections": replayed.connections, "connect": replayed.connect, "without_database": replayed.without_database, "measured": replayed.measured });
    }
    if !verdicts.is_empty() {
        document["assertions"] = verdicts.iter().map(Verdict::json).collect();
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;
    use evidence::{LatencyHistogram, Phase};
    use std::time::Instant;

    const LOG: &str = "261121 22:49:33\t     3 Query\tSELECT 1\n261121 22:49:37\t     3 Query\tSELECT 2\n";

    #[test]
    fn the_pace_that_was_got_is_told_beside_the_one_that_was_asked_for() {
        let (_, recorded) = logs::read(LOG.as_bytes()).unwrap().unwrap();
        let plan = load::replay::plan(&recorded, load::Protocol::Mysql, false, None);
        let replayed = |elapsed_us: u64, late: u64| Replayed {
            started: Instant::now(),
            connections: 1,
            connect: LatencyHistogram::new(),
            without_database: 0,
            measured: Phase { elapsed_us, late, ..Phase::default() },
        };
        let half = plan.length_us() / 2;
        for (elapsed_us, late, got, behind) in
            [(half, 0, 2.0, false), (half, 9, 2.0, false), (half * 2, 0, 1.0, false), (half * 2, 1, 1.0, true)]
        {
            let replayed = replayed(elapsed_us, late);
            let pace = pace_got(&plan, &replayed, 2.0).unwrap();
            assert!((pace - got).abs() < 0.01, "{pace} for {got}");
            assert_eq!(is_behind(&replayed, 2.0, pace), behind, "{elapsed_us} us, {late} late");
        }
        assert_eq!(pace_got(&Plan::default(), &replayed(5, 1), 2.0), Some(2.0), "nothing to send");
        let mut interrupted = replayed(half / 10, 0);
        interrupted.measured.skipped = 1;
        assert_eq!(pace_got(&plan, &interrupted, 2.0), None, "the end of the log was not reached");
    }
}
