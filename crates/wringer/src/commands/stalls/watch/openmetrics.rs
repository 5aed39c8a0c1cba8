// SPDX-License-Identifier: Apache-2.0
//! The result of a watch as OpenMetrics text. All are gauges of this watch alone.

use crate::commands::openmetrics::Exposition;
use ::stalls::watch::Watched;
use ::stalls::{Account, Cause, OfCause};

/// Each line names `server`.
pub(super) fn text(server: &str, watched: &Watched) -> String {
    let mut out = Exposition::new(server);
    let (account, cost) = (&watched.account, &watched.cost);
    out.family("wringer_stalls", "Stalls that were seen, by cause");
    for (cause, of) in of_each(account) {
        out.sample(&[("cause", cause.name())], of.stalls as f64);
    }
    out.family("wringer_stalls_victims", "Statements that waited in them, by cause");
    for (cause, of) in of_each(account) {
        out.sample(&[("cause", cause.name())], of.victims as f64);
    }
    out.family("wringer_stalls_lost_query_seconds", "Time that statements lost in stalls, by cause");
    for (cause, of) in of_each(account) {
        out.sample(&[("cause", cause.name())], of.lost_query_us as f64 / 1e6);
    }
    out.family("wringer_stalls_unread", "1 for each thing that could not be read, so that stalls may be missing");
    for missing in &watched.missing {
        out.sample(&[("what", &missing.what)], 1.0);
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
        out.family(name, help);
        out.sample(&[], value);
    }
    out.end()
}

/// Each cause that a stall can have: a server without stalls has zeros, a server that was not read has no row.
fn of_each(account: &Account) -> impl Iterator<Item = (Cause, OfCause)> + '_ {
    let is_cause = |cause: &Cause| *cause != Cause::OwnWork;
    Cause::ALL
        .into_iter()
        .filter(is_cause)
        .map(|cause| (cause, account.by_cause.get(&cause).copied().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_names_the_server() {
        let mut account = Account { unexplained_query_us: 2_500_000, ..Account::default() };
        account.by_cause.insert(Cause::FreeListBackoff, OfCause { stalls: 3, victims: 7, ..OfCause::default() });
        let missing = vec![::stalls::watch::Missing { what: "a \"b\"".into(), ..Default::default() }];
        let text = text("shop", &Watched { account, missing, ..Watched::default() });
        let values: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(values.iter().all(|line| line.contains("{server=\"shop\"")), "{text}");
        for line in [
            "wringer_stalls{server=\"shop\",cause=\"free_list_backoff\"} 3",
            "wringer_stalls_victims{server=\"shop\",cause=\"free_list_backoff\"} 7",
            "wringer_stalls_unread{server=\"shop\",what=\"a \\\"b\\\"\"} 1",
            "wringer_stalls_unexplained_query_seconds{server=\"shop\"} 2.5",
            "# UNIT wringer_stalls_unexplained_query_seconds seconds",
            "# TYPE wringer_stalls gauge",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
        assert!(text.ends_with("\n# EOF") && !text.contains("UNIT wringer_stalls_victims"), "{text}");
    }
}
