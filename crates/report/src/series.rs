// SPDX-License-Identifier: Apache-2.0
//! The series that the charts show.

mod thinned;

use evidence::{Arm, Evidence, Point, Series};

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

/// The sources of a line.
struct Wanted {
    label: &'static str,
    from: &'static [Source],
    /// The growth of a counter in a second is multiplied by this.
    factor: f64,
    /// Whether the line is the sum of all series that its sources have; else it is the first one.
    is_sum: bool,
}

const fn wanted(label: &'static str, factor: f64, from: &'static [Source]) -> Wanted {
    Wanted { label, from, factor, is_sum: false }
}

const fn sum(label: &'static str, factor: f64, from: &'static [Source]) -> Wanted {
    Wanted { label, from, factor, is_sum: true }
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
// a process that ends takes its time out of `utime`, and its parent has it in `cutime`
const CPU: &[Wanted] = &[
    sum("server, user", 1e-6, &[("process.stat", "server", "utime"), ("process.stat", "server", "cutime")]),
    sum("server, system", 1e-6, &[("process.stat", "server", "stime"), ("process.stat", "server", "cstime")]),
    wanted("host, user", 1e-6, &[("stat", "", "user")]),
    wanted("host, system", 1e-6, &[("stat", "", "system")]),
    sum("observer", 1e-6, &[OBSERVER]),
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
    if wanted.is_sum {
        let parts: Vec<&Series> = wanted.from.iter().flat_map(|from| find(evidence, from)).collect();
        let sum = summed(&parts).filter(|sum| !jumps(sum))?;
        return drawn(wanted.label, &sum, wanted.factor);
    }
    let mut sources = wanted.from.iter();
    sources.find_map(|from| {
        let series = find(evidence, from).find(|series| !series.points.is_empty() && !jumps(series))?;
        drawn(wanted.label, series, wanted.factor)
    })
}

/// `None`: there is nothing to draw.
fn drawn(label: &str, series: &Series, factor: f64) -> Option<Line> {
    let points = thinned::shown(series, factor);
    let anything = points.iter().any(|(_, value)| value.is_some());
    anything.then(|| Line { label: label.to_owned(), points })
}

/// The sum, at the times of the part that was read most often. `None`: nothing was read.
fn summed(parts: &[&Series]) -> Option<Series> {
    let most = *parts.iter().rev().max_by_key(|part| part.points.len()).filter(|part| !part.points.is_empty())?;
    let mut sum = most.clone();
    for part in parts.iter().filter(|part| !std::ptr::eq(**part, most)) {
        sum.points.iter_mut().for_each(|point| point.value += value_at(&part.points, point.at_us));
    }
    Some(sum)
}

/// The value of a counter between two readings, so that its growth is spread over the time in which it grew. Where it began anew, the later value
/// counts; before the first reading and after the last one, it has not grown.
fn value_at(points: &[Point], at_us: u64) -> f64 {
    let after = points.partition_point(|point| point.at_us < at_us);
    let (Some(later), earlier) = (points.get(after), after.checked_sub(1).map(|before| points[before])) else {
        return points.last().map_or(0.0, |last| last.value);
    };
    match earlier {
        Some(earlier) if earlier.value <= later.value => {
            let share = (at_us - earlier.at_us) as f64 / (later.at_us - earlier.at_us).max(1) as f64;
            earlier.value + (later.value - earlier.value) * share
        }
        _ => later.value,
    }
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
    drawn(&format!("disk {}", busiest.entity), busiest, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn series(cumulative: bool, values: impl IntoIterator<Item = (u64, f64)>) -> Series {
        let points = values.into_iter().map(|(s, value)| Point { at_us: s * 1_000_000, value }).collect();
        Series { source: "s".into(), entity: String::new(), name: "n".into(), unit: "count".into(), cumulative, points }
    }

    #[test]
    fn several_counters_in_one_have_no_rate() {
        assert!(jumps(&series(true, (0..100).map(|s| (s, if s % 2 == 0 { s as f64 } else { 1e6 })))));
        assert!(!jumps(&series(true, (0..100).map(|s| (s, (s % 50) as f64)))));
    }

    #[test]
    fn a_sum_is_of_all_parts_at_any_time() {
        let host = series(true, [(0, 0.0), (2, 2.0), (4, 4.0)]);
        let server = series(true, [(0, 0.0), (1, 3.0), (2, 6.0), (3, 9.0), (4, 12.0)]);
        let values = |parts: &[&Series]| {
            let sum = summed(parts).map(|sum| sum.points.iter().map(|point| point.value).collect::<Vec<_>>());
            sum.unwrap_or_default()
        };
        assert_eq!(values(&[&host, &server]), [0.0, 4.0, 8.0, 12.0, 16.0]);
        // a part that begins anew, and one that ends early
        let anew = series(true, [(0, 90.0), (2, 0.0), (3, 1.0)]);
        assert_eq!(values(&[&server, &anew]), [90.0, 3.0, 6.0, 10.0, 13.0]);
        assert!(summed(&[&series(true, [])]).is_none());
    }

    /// What a backend used is in `cutime` of its parent when it has ended.
    #[test]
    fn the_time_of_processes_that_ended_stays_in_the_chart() {
        let of = |name: &str, values: [f64; 4]| Series {
            source: "process.stat".into(),
            entity: "server".into(),
            name: name.into(),
            ..series(true, (0..4).zip(values))
        };
        let samples = vec![of("utime", [0.0, 1e6, 0.0, 1e6]), of("cutime", [0.0, 0.0, 2e6, 2e6])];
        let evidence = Evidence { samples, ..Evidence::default() };
        let line = line(&evidence, &CPU[0]).unwrap();
        assert_eq!(line.points, [(1.0, Some(1.0)), (2.0, Some(1.0)), (3.0, Some(1.0))]);
    }
}
