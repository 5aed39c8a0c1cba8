// SPDX-License-Identifier: Apache-2.0
//! The page of a comparison of mallocs in a real browser: on a laptop and a phone, light and dark; whole, with nothing measured yet, with names that
//! are not what they seem.
//!
//! With `WRINGER_SCREENSHOTS=FOLDER` each page is also saved as a picture, to look at.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // helpers of tests

mod browser;

use allocators::{Cell, Load, Longest, Marked, comparisons, recommend};
use browser::Browser;
use evidence::Footprint;
use report::{AllocatorsPage, write_allocators_html};
use serde_json::Value;
use std::path::Path;

const HOSTILE: &str = "</title><script>alert(1)</script><img src=x onerror=alert(1)>\u{202e}\"'&amp;";
const MIB: u64 = 1 << 20;
const LADDER: [u32; 3] = [8, 64, 1024];

fn load(workload: &str, threads: u32, rate: f64) -> Load {
    Load {
        arm: format!("{workload} x{threads}"),
        workload: workload.into(),
        threads,
        transactions_per_s: Some(rate),
        p50_us: 500_000.0 / rate,
        p99_us: 5e6 / rate,
        max_us: 5e7 / rate,
        max_over_time: [40_000, 0, 9000]
            .into_iter()
            .zip([0.0, 1.0, 2.0])
            .map(|(max_us, at_s)| Longest { at_s, max_us })
            .collect(),
        cpu_user_us_per_query: Some(20.0),
        cpu_system_us_per_query: Some(11.0),
        minor_faults: Some(12_345),
        major_faults: Some(0),
        ..Load::default()
    }
}

fn marked(arm: &str, mark: &str, mib: u64) -> Marked {
    let footprint = Footprint {
        mark: mark.into(),
        processes: 1,
        rss_bytes: Some(mib * MIB),
        asked_bytes: Some(90 * MIB),
        ..Footprint::default()
    };
    Marked { arm: arm.into(), footprint }
}

/// `kept`: MiB after the rest.
fn cell(malloc: &str, thp: &str, block: u32, kept: u64) -> Cell {
    let rate = |threads: u32| 1000.0 + f64::from(threads) + f64::from(block) * 3.0;
    let of = |workload: &'static str| LADDER.map(|threads| load(workload, threads, rate(threads)));
    let loads = [of("oltp_read_only"), of("oltp_point_select")].concat();
    let mut footprint = vec![marked("warm-up", "after", 100)];
    footprint.extend(loads.iter().flat_map(|load| [marked(&load.arm, "before", 104), marked(&load.arm, "after", 110)]));
    footprint.extend([marked("burst", "before", 110), marked("burst", "after", 600 + u64::from(block))]);
    footprint.push(marked("burst", "idle", 110 + kept + u64::from(block)));
    Cell {
        malloc: malloc.into(),
        serving: Some(format!("{malloc} 1.0")),
        as_asked: true,
        thp: Some(thp.into()),
        block,
        state: "done".into(),
        loads,
        footprint,
        retained_bytes: i64::try_from((kept + u64::from(block)) * MIB).ok(),
        ..Cell::default()
    }
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for block in 1..=3 {
        for thp in ["always", "never"] {
            cells.extend(
                [("glibc", 480), ("jemalloc-background", 12), ("tcmalloc", 500)]
                    .map(|(malloc, kept)| cell(malloc, thp, block, kept)),
            );
        }
    }
    cells[0].disturbed = true;
    let last = cells.last_mut().unwrap();
    (last.state, last.why) = ("out_of_memory".into(), Some("killed by signal 9".into()));
    cells
}

fn write(path: &Path, name: &str, cells: &[Cell]) {
    let base = cells.first().map_or("glibc", |cell| cell.malloc.as_str());
    let compared = comparisons(cells, base);
    let recommendation = recommend(cells, &compared, base, 2);
    let page = AllocatorsPage {
        version: "0",
        name,
        base,
        cells,
        comparisons: &compared,
        recommendation: &recommendation,
        set_by: &["[Service]".to_owned(), "Environment=\"MALLOC_CONF=background_thread:true\"".to_owned()],
        planned: 18,
    };
    write_allocators_html(&page, &mut std::fs::File::create(path).unwrap()).unwrap();
}

/// Lines of the longest response times that are not one piece for each load.
const ACROSS: &str = "[...document.querySelectorAll('svg[aria-label$=\"second by second\"] path.line')]\
    .filter(it => it.getAttribute('d').match(/M[^M]+L[^M]+/g).length != 3).length";

/// `charts`, `lines` and `points` are what must be drawn. `None`: there is no browser.
fn check(name: &str, shown: &str, cells: &[Cell], charts: u64, lines: u64, points: u64) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    write(&path, shown, cells);
    let bytes = path.metadata().unwrap().len();
    assert!(bytes < 400 << 10, "{name}: {bytes} bytes");
    let mut browser = Browser::start(folder.path())?;
    let mut headline = String::new();
    for (size, place) in [((1440, 900), "laptop"), ((390, 844), "phone")] {
        for scheme in ["light", "dark"] {
            let page = browser.open(&path, size, scheme);
            browser.save_screenshot(&format!("allocators-{name}-{place}-{scheme}"));
            assert_eq!(page.problems, Vec::<String>::new(), "{name}, {place}, {scheme}");
            assert_eq!(page.requests, 1, "{name}: the page itself and nothing else is fetched");
            let wide = browser.evaluate("document.documentElement.scrollWidth");
            assert_eq!(wide, Value::from(size.0), "{name}, {place}: the page scrolls sideways");
            let ground = browser.evaluate("getComputedStyle(document.body).backgroundColor").to_string();
            assert_eq!(ground.contains("251"), page.scheme == "light", "{ground} in {}", page.scheme);
            for (what, wanted) in [(".plot svg", charts), (".plot path.line", lines), (".plot circle", points)] {
                let drawn = browser.evaluate(&format!("document.querySelectorAll('{what}').length"));
                assert_eq!(drawn, Value::from(wanted), "{name}, {place}: {what}");
            }
            assert_eq!(browser.evaluate(ACROSS), Value::from(0), "{name}, {place}: lines from one load to the next");
            let cut = "[...document.querySelectorAll('.plot svg text')].filter(t => { const box = t.getBoundingClientRect(), \
                       svg = t.closest('svg').getBoundingClientRect(); return box.width > 0 && (box.left < svg.left - 1 \
                       || box.right > svg.right + 1 || box.bottom > svg.bottom + 1); }).map(t => t.textContent).join(' | ')";
            assert_eq!(browser.evaluate(cut), Value::from(""), "{name}, {place}: words are cut");
            headline = browser.evaluate("document.querySelector('h1').textContent").as_str().unwrap().to_owned();
        }
    }
    Some(headline)
}

#[test]
fn three_mallocs_and_nothing_measured_yet() {
    let cells = cells();
    // for each of two settings of huge pages: two workloads with two figures each and two seconds of three, and two charts of memory; the cell that died is in none
    let (ladder, marks) = (2 * (2 + 2) * LADDER.len() as u64, 2 * cells[0].footprint.len() as u64);
    let Some(headline) = check("whole", "mallocs", &cells, 16, 48, (18 - 1) * (ladder + marks)) else {
        testkit::skip!("no chromium")
    };
    assert_eq!(headline, "Take jemalloc-background in place of glibc");
    assert_eq!(check("none", "mallocs", &[], 0, 0, 0).unwrap(), "Nothing was measured yet");
}

#[test]
fn names_that_are_not_what_they_seem() {
    let mut cells = cells();
    cells.truncate(6);
    for cell in &mut cells {
        (cell.malloc, cell.serving, cell.thp) = (HOSTILE.into(), Some(HOSTILE.into()), Some(HOSTILE.into()));
        cell.loads.iter_mut().for_each(|load| load.workload.insert_str(0, HOSTILE));
        cell.footprint.iter_mut().for_each(|it| it.arm.insert_str(0, HOSTILE));
    }
    cells[5].why = Some(HOSTILE.into());
    let Some(headline) = check("hostile", HOSTILE, &cells, 8, 8, 6 * (4 * 6 + 2 * 16)) else {
        testkit::skip!("no chromium")
    };
    assert_eq!(headline, "No verdict: nothing can be recommended yet", "there is one malloc");
}
