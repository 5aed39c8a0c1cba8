// SPDX-License-Identifier: Apache-2.0
//! Who saw the slow statements of an arm: the clients, the server's slow log, and a watch of the server's threads. Three clocks that share no code.

use crate::commands::chart::time;
use evidence::{Arm, Evidence, LOGGED, PLANTED, SLOW_STATEMENT, STALL_VICTIM, STALLS_WATCHED, Span};
use serde::Serialize;

/// Shorter waits are not compared: a watch does not see all of them.
const LEAST_US: u64 = 50_000;
/// Two of them agree if their times differ by no more than this part, or by one such wait.
const APART: f64 = 0.1;

/// Statements of all turns of an arm, those that the run sent beside the load included.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Views {
    /// Only statements and waits of this length or longer count.
    pub(super) least_us: u64,
    pub(super) clients: View,
    /// `None`: the server had no slow log.
    pub(super) log: Option<View>,
    /// The waits of statements, as the watch saw them.
    pub(super) watch: View,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct View {
    pub(super) statements: u64,
    pub(super) longest_us: u64,
    pub(super) sum_us: u64,
}

/// `None`: no turn was watched to its end.
pub(super) fn of(evidence: &Evidence, turns: &[&Arm]) -> Option<Views> {
    let resolutions = turns.iter().filter_map(|arm| resolution_us(evidence, &arm.name));
    let least_us = resolutions.max()?.max(LEAST_US);
    let seen = |kinds: &[&str]| {
        let spans = turns.iter().flat_map(|arm| measured(evidence, &arm.name, kinds));
        spans.filter(|span| span.length_us() >= least_us).fold(View::default(), View::and)
    };
    let has_log = evidence.conditions.server.variables.get("slow_query_log");
    let has_log = has_log.is_some_and(|it| it.eq_ignore_ascii_case("on"));
    Some(Views {
        least_us,
        clients: seen(&[SLOW_STATEMENT, PLANTED]),
        log: has_log.then(|| seen(&[LOGGED])),
        watch: seen(&[STALL_VICTIM]),
    })
}

fn resolution_us(evidence: &Evidence, arm: &str) -> Option<u64> {
    let is_its = |it: &&evidence::Snapshot| it.source == STALLS_WATCHED && it.arm.as_deref() == Some(arm);
    let said: serde_json::Value = serde_json::from_str(&evidence.snapshots.iter().find(is_its)?.content).ok()?;
    said["resolution_us"].as_u64()
}

/// The spans of these kinds that reach into the measured phase.
fn measured<'a>(evidence: &'a Evidence, arm: &'a str, kinds: &'a [&'a str]) -> impl Iterator<Item = &'a Span> {
    let of_arm = move |it: &&Span| it.entity == arm;
    let phase = evidence.spans.iter().filter(of_arm).find(|it| it.kind == "load.measured");
    let within = move |it: &&Span| phase.is_some_and(|phase| it.from_us < phase.to_us && it.to_us > phase.from_us);
    let is_one = move |it: &&Span| kinds.contains(&it.kind.as_str());
    evidence.spans.iter().filter(of_arm).filter(is_one).filter(within)
}

impl View {
    fn and(self, span: &Span) -> Self {
        let us = span.length_us();
        Self {
            statements: self.statements + 1,
            longest_us: self.longest_us.max(us),
            sum_us: self.sum_us.saturating_add(us),
        }
    }

    /// `4 of up to 555 ms, 2.22 s`.
    pub(super) fn words(self) -> String {
        let of = |us: u64| time(us as f64);
        match self.statements {
            0 => "none".to_owned(),
            count => format!("{count} of up to {}, {} in all", of(self.longest_us), of(self.sum_us)),
        }
    }

    fn is_like(self, clients: Self, least_us: u64) -> bool {
        let apart_us = self.sum_us.abs_diff(clients.sum_us) as f64;
        apart_us <= (clients.sum_us as f64 * APART).max(least_us as f64)
    }
}

impl Views {
    /// Whether log and watch have the same time as the clients.
    pub(super) fn agree(&self) -> bool {
        self.log.iter().chain([&self.watch]).all(|view| view.is_like(self.clients, self.least_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evidence::{Format, Snapshot};

    fn span(kind: &str, from_us: u64, length_us: u64) -> Span {
        let (kind, entity) = (kind.to_owned(), "a".to_owned());
        Span { from_us, to_us: from_us + length_us, kind, entity, ..Span::default() }
    }

    /// The measured phase is from 1 to 3 s. The watch saw stalls of 80 ms and more.
    fn views(spans: &[Span]) -> Views {
        let arm = Arm::begun("a", 0);
        let watched = Snapshot {
            at_us: 0,
            arm: Some("a".to_owned()),
            source: STALLS_WATCHED.to_owned(),
            entity: String::new(),
            format: Format::Json,
            content: r#"{ "resolution_us": 80000 }"#.to_owned(),
        };
        let spans = spans.iter().cloned().chain([span("load.measured", 1_000_000, 2_000_000)]).collect();
        let mut evidence = Evidence { snapshots: vec![watched], spans, ..Evidence::default() };
        evidence.conditions.server.variables.insert("slow_query_log".to_owned(), "ON".to_owned());
        of(&evidence, &[&arm]).unwrap()
    }

    #[test]
    fn clients_log_and_watch_are_compared_within_the_measured_phase() {
        let seen = views(&[
            span(SLOW_STATEMENT, 1_500_000, 500_000),
            span(SLOW_STATEMENT, 1_500_000, 79_000),
            span(PLANTED, 1_490_000, 510_000),
            span(LOGGED, 1_505_000, 505_000),
            span(LOGGED, 1_505_000, 500_000),
            span(LOGGED, 100_000, 700_000),
            span(STALL_VICTIM, 1_510_000, 490_000),
        ]);
        assert_eq!(
            (seen.least_us, seen.clients),
            (80_000, View { statements: 2, longest_us: 510_000, sum_us: 1_010_000 })
        );
        assert_eq!(seen.log, Some(View { statements: 2, longest_us: 505_000, sum_us: 1_005_000 }), "not the warm-up's");
        assert!(!seen.agree(), "the watch saw half of it: {seen:?}");
        assert_eq!(seen.clients.words(), "2 of up to 510.0 ms, 1.01 s in all");
    }

    #[test]
    fn one_wait_that_is_just_too_short_for_one_of_them_is_no_difference() {
        let seen = views(&[span(SLOW_STATEMENT, 1_500_000, 80_000), span(LOGGED, 1_500_000, 80_100)]);
        assert!(seen.agree() && seen.watch == View::default(), "{seen:?}");
        assert_eq!(seen.watch.words(), "none");
        assert!(views(&[]).agree());
        assert!(!views(&[span(STALL_VICTIM, 1_500_000, 300_000)]).agree(), "a stall that no client had");
    }

    #[test]
    fn an_arm_that_was_not_watched_has_no_views() {
        assert_eq!(of(&Evidence::default(), &[&Arm::begun("a", 0)]), None);
    }
}
