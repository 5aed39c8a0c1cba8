// SPDX-License-Identifier: Apache-2.0
//! The result of a watch as OpenMetrics text, for Prometheus and similar programs.

use ::stalls::watch::Watched;
use ::stalls::{Account, Cause, OfCause};
use std::fmt::Write as _;

/// The text ends with `# EOF`, without a line end after it.
pub(super) fn text(watched: &Watched) -> String {
    let mut out = String::new();
    let (account, cost) = (&watched.account, &watched.cost);
    family(&mut out, "wringer_stalls", "Stalls that were seen, by cause");
    for (cause, of) in of_each(account) {
        let _ = writeln!(out, "wringer_stalls{{cause=\"{}\"}} {}", cause.name(), of.stalls);
    }
    family(&mut out, "wringer_stalls_victims", "Statements that waited in them, by cause");
    for (cause, of) in of_each(account) {
        let _ = writeln!(out, "wringer_stalls_victims{{cause=\"{}\"}} {}", cause.name(), of.victims);
    }
    family(&mut out, "wringer_stalls_lost_query_seconds", "Time that statements lost in stalls, by cause");
    for (cause, of) in of_each(account) {
        let lost = of.lost_query_us as f64 / 1e6;
        let _ = writeln!(out, "wringer_stalls_lost_query_seconds{{cause=\"{}\"}} {lost}", cause.name());
    }
    family(&mut out, "wringer_stalls_unread", "1 for each thing that could not be read, so that stalls may be missing");
    for missing in &watched.missing {
        let _ = writeln!(out, "wringer_stalls_unread{{what=\"{}\"}} 1", escaped(&missing.what));
    }
    let longest = account.longest_us().unwrap_or(0);
    let seconds = |us: u64| us as f64 / 1e6;
    let one: [(&str, &str, Option<f64>); 8] = [
        ("wringer_stalls_longest_seconds", "The longest stall", Some(seconds(longest))),
        (
            "wringer_stalls_unexplained_query_seconds",
            "Time lost in stalls of unknown cause",
            Some(seconds(account.unexplained_query_us)),
        ),
        ("wringer_stalls_watched_seconds", "How long was watched", Some(seconds(cost.elapsed_us))),
        ("wringer_stalls_resolution_seconds", "Shorter stalls may not be seen", Some(seconds(watched.resolution_us))),
        ("wringer_stalls_watch_cpu_seconds", "CPU time that watching took", Some(seconds(cost.cpu_us))),
        ("wringer_stalls_watch_statements", "Statements that were sent to the server", Some(cost.statements as f64)),
        (
            "wringer_stalls_wait_free",
            "By how much Innodb_buffer_pool_wait_free rose",
            account.wait_free.map(|it| it as f64),
        ),
        (
            "wringer_stalls_wait_free_by_stalls",
            "By how much the counter must have risen, by the stalls that were found under backoff",
            account.wait_free_by_stalls.map(|it| it as f64),
        ),
    ];
    for (name, help, value) in one.into_iter().filter_map(|(name, help, value)| Some((name, help, value?))) {
        family(&mut out, name, help);
        let _ = writeln!(out, "{name} {value}");
    }
    out.push_str("# EOF");
    out
}

/// Each cause that a stall can have: a server without stalls has zeros, a server that was not read has no row.
fn of_each(account: &Account) -> impl Iterator<Item = (Cause, OfCause)> + '_ {
    let is_cause = |cause: &Cause| *cause != Cause::OwnWork;
    Cause::ALL
        .into_iter()
        .filter(is_cause)
        .map(|cause| (cause, account.by_cause.get(&cause).copied().unwrap_or_default()))
}

/// As the value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Begins a metric. All are gauges of this watch alone.
fn family(out: &mut String, name: &str, help: &str) {
    let _ = writeln!(out, "# TYPE {name} gauge");
    if let Some(unit) = name.rsplit('_').next().filter(|unit| *unit == "seconds") {
        let _ = writeln!(out, "# UNIT {name} {unit}");
    }
    let _ = writeln!(out, "# HELP {name} {help}.");
}
