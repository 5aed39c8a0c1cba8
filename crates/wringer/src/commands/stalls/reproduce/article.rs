// SPDX-License-Identifier: Apache-2.0
//! The figures that the article printed: "Tail Latencies in Percona Server because of InnoDB Stalls on Empty Free List" (J.-F. Gagné, 30 November 2022),
//! Percona Server 8.0.29, annexes 3 and 5, each for the arm of the ready file that does the same.

use serde::Serialize;
use simulate::Range;

/// Figures of one arm. Times are in microseconds. The article's times are the longest that sysbench printed, or that were in the slow log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct Figures {
    /// The longest statement of the first load.
    pub(super) first_max_us: Option<Range>,
    /// The longest statement of each later load. If a query empties the list again and again: the longest statement at each emptying but the first.
    pub(super) later_max_us: Option<Range>,
    /// Queries a second of the later loads; if there are none, of the first load.
    pub(super) queries_per_second: Option<Range>,
    /// The number of statements of one load that stalled, without the query that emptied the list.
    pub(super) stalled: Option<Range>,
    pub(super) wait_free: Option<Range>,
}

const fn range(low: f64, high: f64) -> Option<Range> {
    Some(Range { low, high })
}

const NONE: Figures =
    Figures { first_max_us: None, later_max_us: None, queries_per_second: None, stalled: None, wait_free: None };

/// The loads of annex 3 take 2 s, so queries a second are half of the printed queries.
const PRINTED: [(&str, Figures); 8] = [
    (
        "backoff, no pause",
        Figures {
            first_max_us: range(743_050.0, 763_210.0),
            later_max_us: range(180.0, 220.0),
            queries_per_second: range(34_620.5, 35_142.0),
            stalled: range(0.0, 2.0),
            ..NONE
        },
    ),
    (
        "backoff, pause 5 s",
        Figures {
            first_max_us: range(763_210.0, 763_210.0),
            later_max_us: range(77_790.0, 77_820.0),
            queries_per_second: range(32_062.5, 33_083.5),
            stalled: range(1.0, 2.0),
            ..NONE
        },
    ),
    (
        "backoff, pause 60 s",
        Figures {
            first_max_us: range(811_030.0, 811_030.0),
            later_max_us: range(306_550.0, 326_420.0),
            queries_per_second: range(27_148.0, 27_669.5),
            stalled: range(2.0, 2.0),
            ..NONE
        },
    ),
    (
        "legacy, no pause",
        Figures {
            first_max_us: range(170.0, 170.0),
            later_max_us: range(150.0, 290.0),
            queries_per_second: range(33_820.64, 33_820.64),
            ..NONE
        },
    ),
    ("legacy, pause 60 s", Figures { later_max_us: range(160.0, 530.0), ..NONE }),
    (
        "backoff, alone",
        Figures {
            first_max_us: range(210.0, 210.0),
            queries_per_second: range(387.21, 387.21),
            stalled: range(0.0, 0.0),
            ..NONE
        },
    ),
    (
        "backoff, emptied once",
        Figures {
            first_max_us: range(554_830.0, 554_830.0),
            queries_per_second: range(362.57, 362.57),
            stalled: range(4.0, 4.0),
            wait_free: range(479.0, 479.0),
            ..NONE
        },
    ),
    (
        "backoff, emptied every two minutes",
        Figures {
            first_max_us: range(396_724.0, 405_711.0),
            later_max_us: range(326_384.0, 336_466.0),
            queries_per_second: range(399.88, 399.88),
            stalled: range(20.0, 20.0),
            ..NONE
        },
    ),
];

/// `None`: the article has no experiment like this arm.
pub(super) fn printed(arm: &str) -> Option<Figures> {
    PRINTED.iter().find(|(name, _)| *name == arm).map(|(_, figures)| *figures)
}

#[cfg(test)]
mod tests {
    use super::PRINTED;
    use crate::commands::examples;

    #[test]
    fn each_printed_arm_is_in_one_of_the_ready_files() {
        let arms: Vec<String> = ["article-4-annex-3", "article-4-annex-5"]
            .into_iter()
            .flat_map(|name| experiment::Experiment::parse(examples::text(name).unwrap()).unwrap().arms)
            .map(|arm| arm.name)
            .collect();
        for (name, _) in PRINTED {
            assert_eq!(arms.iter().filter(|arm| *arm == name).count(), 1, "{name}");
        }
    }
}
