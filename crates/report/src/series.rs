// SPDX-License-Identifier: Apache-2.0
//! The series that the charts show, thinned and turned into rates.

use evidence::{Arm, Evidence, Point, Series};

/// With more points than this, neighbours are joined.
const POINTS: usize = 480;
/// A gap that is longer than this many usual intervals breaks the line.
const GAP: f64 = 4.0;

/// One chart over the whole run.
#[derive(Debug, Clone)]
pub(crate) struct Panel {
    pub id: &'static str,
    pub title: &'static str,
    /// Help for readers: HTML of ours.
    pub help: &'static str,
    /// How the script shows values: `bytes`, `per_second`, `cores`, `share`.
    pub unit: &'static str,
    pub lines: Vec<Line>,
}

#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub label: String,
    /// Seconds since the start of the run, and the value; `None` breaks the line.
    pub points: Vec<(f64, Option<f64>)>,
}

/// Source, the beginning of the entity's name, name.
type Source = (&'static str, &'static str, &'static str);

/// The sources of a line. The first source that has the series is used.
struct Wanted {
    label: &'static str,
    from: &'static [Source],
    /// The growth of a counter in a second is multiplied by this.
    factor: f64,
}

const fn wanted(label: &'static str, factor: f64, from: &'static [Source]) -> Wanted {
    Wanted { label, from, factor }
}

const HOST_MEMORY: &[Wanted] = &[
    wanted("available (MemAvailable)", 1.0, &[("meminfo", "", "MemAvailable")]),
    wanted("hidden and other huge pages (Hugetlb)", 1.0, &[("meminfo", "", "Hugetlb")]),
    wanted("page cache (Cached)", 1.0, &[("meminfo", "", "Cached")]),
];
const SERVER_MEMORY: &[Wanted] = &[
    wanted("proportional (Pss)", 1.0, &[("process.smaps_rollup", "server", "Pss")]),
    wanted(
        "resident (RSS)",
        1.0,
        &[
            ("process.stat", "server", "rss"),
            ("process.status", "server", "VmRSS"),
            ("process.statm", "server", "resident"),
            ("process.smaps_rollup", "server", "Rss"),
        ],
    ),
    wanted("page tables (VmPTE)", 1.0, &[("process.page_tables", "server", "VmPTE")]),
];
const READS: &[Wanted] = &[
    wanted(
        "server, by its own count",
        1.0,
        &[
            ("server.status", "", "Innodb_buffer_pool_reads"),
            ("server.pg_stat_database", "", "blks_read"),
            ("server.status", "", "pg_stat_database.blks_read"),
        ],
    ),
    wanted("slow layer", 1.0, &[("layer", "", "reads"), ("slowfs", "", "reads")]),
];
const STATEMENTS: &[Wanted] = &[
    wanted("statements (Questions)", 1.0, &[("server.status", "", "Questions")]),
    wanted("transactions committed", 1.0, &[("server.pg_stat_database", "", "xact_commit")]),
];
const CPU: &[Wanted] = &[
    wanted("server, user", 1e-6, &[("process.stat", "server", "utime")]),
    wanted("server, system", 1e-6, &[("process.stat", "server", "stime")]),
    wanted("host, user", 1e-6, &[("stat", "", "user")]),
    wanted("host, system", 1e-6, &[("stat", "", "system")]),
    wanted("observer", 1e-6, &[("observer", "", "cpu")]),
];
const PRESSURE: &[Wanted] = &[
    wanted("I/O, some task stalled", 1e-6, &[("psi.io", "", "some.total")]),
    wanted("memory, some task stalled", 1e-6, &[("psi.memory", "", "some.total")]),
    wanted("CPU, some task stalled", 1e-6, &[("psi.cpu", "", "some.total")]),
];

/// The series that are shown in addition to the lists above.
const OBSERVER: Source = ("observer", "", "cpu");
const DISKS: Source = ("diskstats", "", "reads");

/// Whether a report shows or explains this series. A report is the same from a recording without the other series.
pub fn needs(series: &Series) -> bool {
    let lists = [HOST_MEMORY, SERVER_MEMORY, READS, STATEMENTS, CPU, PRESSURE];
    let mut shown = lists.into_iter().flatten().flat_map(|wanted| wanted.from).chain([&OBSERVER, &DISKS]);
    explain::needs(series) || shown.any(|from| is(series, from))
}

fn is(series: &Series, (source, entity, name): &Source) -> bool {
    series.source == *source && series.entity.starts_with(entity) && series.name == *name
}

/// The charts that have a value to show.
pub(crate) fn panels(evidence: &Evidence) -> Vec<Panel> {
    // a load of our own tells more than these counters
    let is_observed = evidence.arms.iter().any(Arm::is_observed);
    let statements = if is_observed { lines(evidence, STATEMENTS) } else { Vec::new() };
    let mut reads = lines(evidence, READS);
    reads.extend(busiest_disk(evidence));
    let panels = [
        Panel {
            id: "memory",
            title: "Memory of the host",
            help: "<p><b>Available</b> is what the kernel thinks could be given out without swapping. RAM that is hidden stands under huge pages: it is \
                 reserved, and nobody can use it.</p>",
            unit: "bytes",
            lines: lines(evidence, HOST_MEMORY),
        },
        Panel {
            id: "server-memory",
            title: "Memory of the server",
            help: "<p><b>Pss</b> divides shared pages among their users; <b>RSS</b> counts them fully. <b>Page tables</b> are in neither of them. Reading Pss may cost the server too much; \
                 then its line ends, and RSS goes on. A line breaks where another arm started the \
                 server anew.</p>",
            unit: "bytes",
            lines: lines(evidence, SERVER_MEMORY),
        },
        Panel {
            id: "statements",
            title: "Statements",
            help: "<p>What the server counts itself: <b>statements</b> of MySQL and MariaDB (Questions), those of this observer among them, or \
                 <b>transactions</b> committed in one database of PostgreSQL, which its backends hand in up to ten seconds late.</p>",
            unit: "per_second",
            lines: statements,
        },
        Panel {
            id: "reads",
            title: "Reads",
            help: "<p>Physical reads in a second as three see them: the server (for PostgreSQL this counts reads that the page cache answered, too), \
                 the slow layer below it, and the disk of the host that was read most, which also serves others.</p>",
            unit: "per_second",
            lines: reads,
        },
        Panel {
            id: "cpu",
            title: "CPU",
            help: "<p>1 is one CPU, fully used. The observer is Wringer's own reading of these figures.</p>",
            unit: "cores",
            lines: lines(evidence, CPU),
        },
        Panel {
            id: "pressure",
            title: "Pressure (PSI)",
            help: "<p>The share of time in which at least one task waited for the resource, as the kernel accounts it (pressure stall information).</p>",
            unit: "share",
            lines: lines(evidence, PRESSURE),
        },
    ];
    panels.into_iter().filter(|panel| !panel.lines.is_empty()).collect()
}

/// CPU of the observers over the whole run, in microseconds; `None` when the observers did not tell it.
pub(crate) fn observer_cpu_us(evidence: &Evidence) -> Option<f64> {
    let highest = |series: &Series| series.points.iter().map(|point| point.value).fold(0.0, f64::max);
    let own: Vec<f64> = find(evidence, &OBSERVER).map(highest).collect();
    (!own.is_empty()).then(|| own.iter().sum())
}

fn lines(evidence: &Evidence, wanted: &[Wanted]) -> Vec<Line> {
    wanted.iter().filter_map(|wanted| line(evidence, wanted)).collect()
}

fn line(evidence: &Evidence, wanted: &Wanted) -> Option<Line> {
    let mut sources = wanted.from.iter();
    sources.find_map(|from| {
        let series = find(evidence, from).find(|series| !series.points.is_empty() && !jumps(series))?;
        let points = shown(series, wanted.factor);
        let anything = points.iter().any(|(_, value)| value.is_some());
        anything.then(|| Line { label: wanted.label.to_owned(), points })
    })
}

/// A counter that falls again and again is several counters in one, and has no rate. It may fall when a server starts anew.
fn jumps(series: &Series) -> bool {
    let falls = series.points.windows(2).filter(|pair| pair[1].value < pair[0].value).count();
    series.cumulative && falls * 10 > series.points.len()
}

fn find<'e>(evidence: &'e Evidence, from: &'e Source) -> impl Iterator<Item = &'e Series> {
    let found = evidence.samples.iter().filter(move |series| is(series, from));
    found.inspect(|series| debug_assert!(needs(series), "{series:?} is missing in the list of what is read"))
}

/// The device that read most in this run.
fn busiest_disk(evidence: &Evidence) -> Option<Line> {
    let growth = |series: &&Series| match (series.points.first(), series.points.last()) {
        (Some(first), Some(last)) => last.value - first.value,
        _ => 0.0,
    };
    let busiest = find(evidence, &DISKS).max_by(|a, b| growth(a).total_cmp(&growth(b)))?;
    let points = shown(busiest, 1.0);
    let anything = points.iter().any(|(_, value)| value.is_some());
    anything.then(|| Line { label: format!("disk {}", busiest.entity), points })
}

/// The thinned points; rates when the series is a counter.
fn shown(series: &Series, factor: f64) -> Vec<(f64, Option<f64>)> {
    let mut points: Vec<Point> = series.points.iter().copied().filter(|point| point.value.is_finite()).collect();
    points.sort_by_key(|point| point.at_us);
    let usual = usual_interval_us(&points);
    let step = points.len().div_ceil(POINTS).max(1);
    let gap = |from: &Point, to: &Point| (to.at_us - from.at_us) as f64 > usual * GAP * step as f64;
    let mut shown: Vec<(f64, Option<f64>)> = Vec::new();
    // for a counter, the growth between the kept points is exact; for a gauge, the mean stands for the points that are left out
    let kept: Vec<Point> = if series.cumulative { every(&points, step) } else { means(&points, step) };
    for (index, point) in kept.iter().enumerate() {
        let before = index.checked_sub(1).map(|index| kept[index]);
        let broken = before.is_some_and(|before| gap(&before, point));
        if broken {
            shown.push((seconds(point.at_us), None));
        }
        if !series.cumulative {
            shown.push((seconds(point.at_us), Some(point.value * factor)));
        } else if let (Some(before), false) = (before, broken) {
            shown.push((seconds(point.at_us), rate(&before, point).map(|rate| rate * factor)));
        }
    }
    shown
}

fn every(points: &[Point], step: usize) -> Vec<Point> {
    points.iter().copied().step_by(step).collect()
}

fn means(points: &[Point], step: usize) -> Vec<Point> {
    let mean = |chunk: &[Point]| Point {
        at_us: chunk[chunk.len() / 2].at_us,
        value: chunk.iter().map(|point| point.value).sum::<f64>() / chunk.len() as f64,
    };
    points.chunks(step).map(mean).collect()
}

/// `None` when the counter fell: another server had started.
fn rate(before: &Point, after: &Point) -> Option<f64> {
    let elapsed = after.at_us.saturating_sub(before.at_us);
    (elapsed > 0 && after.value >= before.value).then(|| (after.value - before.value) * 1e6 / elapsed as f64)
}

/// The median interval between two points.
fn usual_interval_us(points: &[Point]) -> f64 {
    let mut intervals: Vec<u64> = points.windows(2).map(|pair| pair[1].at_us - pair[0].at_us).collect();
    intervals.sort_unstable();
    intervals.get(intervals.len() / 2).map_or(f64::INFINITY, |us| (*us).max(1) as f64)
}

fn seconds(at_us: u64) -> f64 {
    at_us as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(cumulative: bool, values: impl IntoIterator<Item = (u64, f64)>) -> Series {
        let points = values.into_iter().map(|(s, value)| Point { at_us: s * 1_000_000, value }).collect();
        Series { source: "s".into(), entity: String::new(), name: "n".into(), unit: "count".into(), cumulative, points }
    }

    #[test]
    fn a_counter_becomes_a_rate_and_a_restart_a_gap() {
        let counter = series(true, [(0, 5.0), (1, 25.0), (2, 3.0), (3, 13.0), (20, 14.0), (21, 15.0)]);
        let expected = [(1.0, Some(20.0)), (2.0, None), (3.0, Some(10.0)), (20.0, None), (21.0, Some(1.0))];
        assert_eq!(shown(&counter, 1.0), expected);
    }

    #[test]
    fn several_counters_in_one_have_no_rate() {
        assert!(jumps(&series(true, (0..100).map(|s| (s, if s % 2 == 0 { s as f64 } else { 1e6 })))));
        assert!(!jumps(&series(true, (0..100).map(|s| (s, (s % 50) as f64)))));
    }

    #[test]
    fn thinning_keeps_a_counters_total() {
        let counter = series(true, (0..5_000).map(|s| (s, (s * s) as f64)));
        let rates = shown(&counter, 1.0);
        assert!(rates.len() <= POINTS);
        let mut at = 0.0;
        let total: f64 = rates
            .iter()
            .map(|(t, rate)| {
                let part = rate.unwrap() * (t - at);
                at = *t;
                part
            })
            .sum();
        assert!((total - at * at).abs() < 1e-3 * total);
    }

    #[test]
    fn what_is_no_number_is_left_out() {
        let gauge = series(false, [(0, 1.0), (1, f64::NAN), (2, 3.0)]);
        assert_eq!(shown(&gauge, 1.0).iter().filter(|(_, value)| value.is_some()).count(), 2);
    }
}
