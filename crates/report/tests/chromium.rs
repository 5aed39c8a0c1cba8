// SPDX-License-Identifier: Apache-2.0
//! The report in a real browser: on a laptop and a phone, light and dark, without an error, without a fetch, without sideways scrolling.
//!
//! With `WRINGER_SCREENSHOTS=FOLDER` each page is also saved as a picture, to look at.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // helpers of tests

mod browser;
mod common;

use browser::{Browser, Page};
use common::{Sample, cut_off, empty, hostile, sample, with_memory};
use serde_json::Value;
use std::path::{Path, PathBuf};

const LAPTOP: (u32, u32) = (1440, 900);
const PHONE: (u32, u32) = (390, 844);

fn written(folder: &Path, sample: &Sample) -> PathBuf {
    let path = folder.join("report.html");
    report::write_html(&sample.context(), &mut std::fs::File::create(&path).unwrap()).unwrap();
    path
}

/// Opens the page everywhere, and hands each to `check`.
fn everywhere(name: &str, sample: &Sample, check: impl Fn(&Page, &mut Browser)) -> Option<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), sample);
    let mut browser = Browser::start(folder.path())?;
    for (size, place) in [(LAPTOP, "laptop"), (PHONE, "phone")] {
        for scheme in ["light", "dark"] {
            let page = browser.open(&path, size, scheme);
            browser.save_screenshot(&format!("{name}-{place}-{scheme}"));
            assert_eq!(page.problems, Vec::<String>::new(), "{name}, {place}, {scheme}");
            assert_eq!(page.requests, 1, "{name}: the page itself and nothing else is fetched");
            let wide = browser.evaluate("document.documentElement.scrollWidth");
            assert_eq!(wide, Value::from(size.0), "{name}, {place}: the page scrolls sideways");
            check(&page, &mut browser);
        }
    }
    Some(())
}

/// What sticks out to the right of the window, where nothing scrolls on purpose.
const STICKING_OUT: &str = "[...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1 \
                            && !e.closest('thead') && !e.closest('svg')).map(e => e.tagName + '.' + e.className).join(' ')";

/// Words that are cut: in a box that hides what does not fit, or in a chart beyond its edge. What is there to be scrolled (`pre`) is not.
const CUT: &str = "[...document.querySelectorAll('header *, main *')].filter(e => !e.closest('svg, pre') && e.textContent.trim() \
                   && getComputedStyle(e).overflowX !== 'visible' && getComputedStyle(e).fontSize !== '0px' && e.clientWidth > 1 \
                   && e.scrollWidth > e.clientWidth + 1).concat([...document.querySelectorAll('svg text')].filter(t => { \
                   const box = t.getBoundingClientRect(), svg = t.closest('svg').getBoundingClientRect(); \
                   return box.width > 0 && (box.left < svg.left - 1 || box.right > svg.right + 1); })) \
                   .map(e => e.tagName + '.' + e.className + ': ' + e.textContent.slice(0, 40)).join(' | ')";

#[test]
fn a_run_of_three_arms() {
    let done = everywhere("run", &sample(), |page, browser| {
        let charts = browser
            .evaluate("[...document.querySelectorAll('figure')].filter(f => f.querySelector('.plot svg')).length");
        assert_eq!(charts, browser.evaluate("document.querySelectorAll('figure').length"));
        assert_eq!(
            charts,
            Value::from(9),
            "histogram, percentiles, throughput, response, two of memory, reads, CPU, pressure"
        );
        let names = browser.evaluate("[...document.querySelectorAll('.mode-name')].map(t => t.textContent).join()");
        assert_eq!(names, Value::from("51.6 µs,149 µs,0 reads,1 read,2 reads,0 reads,1 read,2 reads"));
        assert_eq!(browser.evaluate(STICKING_OUT), Value::from(""), "{page:?}");
        assert_eq!(browser.evaluate(CUT), Value::from(""), "{page:?}");
        let ground = browser.evaluate("getComputedStyle(document.body).backgroundColor").to_string();
        assert_eq!(ground.contains("251"), page.scheme == "light", "{ground} in {}", page.scheme);
    });
    if done.is_none() {
        testkit::skip!("no chromium");
    }
}

#[test]
fn a_run_with_inventories_of_memory() {
    let done = everywhere("memory", &with_memory(), |page, browser| {
        let layers = browser.evaluate(
            "[...document.querySelectorAll('figure[data-chart=memory-ledger] path.layer')].filter(p => p.getBBox().height > 0).length",
        );
        assert!(layers.as_u64().unwrap() >= 6, "{layers} layers");
        let colours = browser.evaluate(
            "new Set([...document.querySelectorAll('figure[data-chart=memory-ledger] path.layer')].map(p => getComputedStyle(p).fill)).size",
        );
        assert_eq!(colours, layers, "each layer has a colour of its own");
        let tables = browser.evaluate("document.querySelectorAll('#ledger figure').length");
        assert_eq!(tables, Value::from(4), "layers, VSZ and RSS, page tables, available memory; no swap was used");
        assert_eq!(browser.evaluate(STICKING_OUT), Value::from(""), "{page:?}");
        assert_eq!(browser.evaluate(CUT), Value::from(""), "{page:?}");
        let moved = "const own = document.querySelector('figure[data-chart=memory-ledger] .plot svg'), frame = own.getBoundingClientRect(); \
                     own.dispatchEvent(new PointerEvent('pointermove', {clientX: frame.left + frame.width * 0.8, clientY: frame.top + 50})); \
                     document.querySelector('figure[data-chart=memory-ledger] .tip').innerText";
        let told = browser.evaluate(moved).as_str().unwrap().to_owned();
        assert!(told.contains("total") && told.contains("data cache") && told.contains("MiB"), "{told}");
    });
    if done.is_none() {
        testkit::skip!("no chromium");
    }
}

/// Readings each 100 s: the cursor stands between two of them, and the line is drawn there.
#[test]
fn the_chart_of_statements_says_what_it_counts_and_answers_between_rare_readings() {
    let mut evidence = sample().evidence;
    evidence.elapsed_us = 4_000_000_000;
    evidence.arms = vec![evidence::Arm { ended_us: evidence.elapsed_us, ..evidence::Arm::observed(0) }];
    let counter = |name: &str, late_us: u64| evidence::Series {
        source: if name == "Questions" { "server.status".into() } else { "server.pg_stat_database".into() },
        entity: String::new(),
        name: name.into(),
        unit: "count".into(),
        cumulative: true,
        points: (0..40)
            .map(|n| evidence::Point { at_us: n * 100_000_000 + late_us, value: (n * 5_000) as f64 })
            .collect(),
    };
    evidence.samples = vec![counter("Questions", 0), counter("xact_commit", 40_000_000)];
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), &Sample::of(evidence));
    let Some(mut browser) = Browser::start(folder.path()) else { testkit::skip!("no chromium") };
    browser.open(&path, LAPTOP, "light");
    let title = "document.querySelector('figure[data-chart=statements] .plot svg').textContent";
    let title = browser.evaluate(title).as_str().unwrap().to_owned();
    assert!(title.contains("statements or transactions a second") && !title.contains("reads"), "{title}");
    let moved = "const own = document.querySelector('figure[data-chart=statements] .plot svg'), frame = own.getBoundingClientRect(); \
                 own.dispatchEvent(new PointerEvent('pointermove', {clientX: frame.left + frame.width * 0.6, clientY: frame.top + 50})); \
                 document.querySelector('figure[data-chart=statements] .tip').innerText";
    let told = browser.evaluate(moved).as_str().unwrap().to_owned();
    assert!(told.matches("50").count() >= 2 && !told.contains('–'), "{told}");
}

#[test]
fn charts_answer_to_mouse_keys_and_buttons() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), &sample());
    let Some(mut browser) = Browser::start(folder.path()) else { testkit::skip!("no chromium") };
    browser.open(&path, LAPTOP, "light");
    let key = "const svg = document.querySelector('figure[data-chart=curve] .plot svg'); svg.focus(); \
               for (let n = 0; n < 5; n++) svg.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'})); \
               document.querySelector('figure[data-chart=curve] .tip').innerText";
    let told = browser.evaluate(key).as_str().unwrap().to_owned();
    assert!(told.contains("of the queries took at most") && told.contains("10 ms"), "{told}");
    let tall = "[...[...document.querySelectorAll('figure[data-chart=histograms] .plot svg')].pop().querySelectorAll('rect.f2')] \
                .filter(bar => +bar.getAttribute('height') > 20).length";
    let tall_on_log = browser.evaluate(tall).as_u64().unwrap();
    browser.evaluate("document.querySelectorAll('.controls button')[1].click()");
    let tall_on_linear = browser.evaluate(tall).as_u64().unwrap();
    assert!(
        (1..tall_on_log).contains(&tall_on_linear),
        "small bars are small on a linear axis: {tall_on_log}, {tall_on_linear}"
    );
    let moved = "const plot = document.querySelector('figure[data-chart=memory] .plot svg'), box = plot.getBoundingClientRect(); \
                 plot.dispatchEvent(new PointerEvent('pointermove', {clientX: box.left + box.width / 2, clientY: box.top + 50})); \
                 [...document.querySelectorAll('#host .cursor')].filter(c => c.getAttribute('visibility') === 'visible').length";
    assert_eq!(browser.evaluate(moved), Value::from(5), "the charts of the host share their cursor");
}

#[test]
fn harmful_words_stay_words() {
    let done = everywhere("hostile", &hostile(), |_, browser| {
        assert_ne!(browser.evaluate("document.title"), Value::from("broken out"));
        assert_eq!(browser.evaluate("document.querySelectorAll('main img, main b b').length"), Value::from(0));
        assert_eq!(browser.evaluate("document.scripts.length"), Value::from(1));
    });
    if done.is_none() {
        testkit::skip!("no chromium");
    }
}

#[test]
fn runs_that_broke_off() {
    let done = everywhere("cut-off", &cut_off(), |_, browser| {
        let charts = browser.evaluate("document.querySelectorAll('figure[data-chart=histograms] .plot svg').length");
        assert_eq!(charts, Value::from(1), "of three arms one has latencies");
    });
    let empty = everywhere("empty", &empty(), |_, browser| {
        assert_eq!(browser.evaluate("document.querySelectorAll('figure').length"), Value::from(0));
    });
    if done.and(empty).is_none() {
        testkit::skip!("no chromium");
    }
}
