// SPDX-License-Identifier: Apache-2.0
//! The page of many cells in a real browser: on a laptop and a phone, light and dark; 60 cells, one, and none; names that are not what they seem.
//!
//! With `WRINGER_SCREENSHOTS=FOLDER` each page is also saved as a picture, to look at.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // helpers of tests

mod browser;

use browser::Browser;
use report::{SweepCell, SweepFigure, SweepSetting, SweepVerdict, SweepView, write_sweep_html};
use serde_json::Value;

const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\u{202e}\"'&amp;";

/// Twelve settings of two keys, five blocks; the last setting is killed for want of RAM.
fn sixty() -> SweepView {
    let keys = ["squeeze.server_ram", "load.threads"].map(str::to_owned).to_vec();
    let all = ["256M", "512M", "1G", "2G"].iter().flat_map(|ram| ["1", "8", "64"].map(|threads| [*ram, threads]));
    let values: Vec<[&str; 2]> = all.collect();
    let settings = values.iter().map(|values| SweepSetting {
        values: values.map(str::to_owned).to_vec(),
        done: 5,
        outcomes: if *values == ["256M", "64"] { "out_of_memory 5x".into() } else { String::new() },
    });
    let names = ["throughput", "p50", "p95", "p99", "p99.9", "reads a query"];
    let cell = |number: usize| {
        let (setting, block) = (number % 12, number / 12);
        let rate = 300.0 * (setting as f64 + 1.0) * (1.0 + 0.02 * block as f64);
        let figure = |name: &&str| SweepFigure {
            arm: "baseline".into(),
            name: (*name).into(),
            unit: match *name {
                "throughput" => "transactions/s",
                "reads a query" => "reads",
                _ => "us",
            }
            .into(),
            value: if *name == "throughput" { rate } else { 1e6 / rate },
        };
        let is_killed = values[setting] == ["256M", "64"];
        SweepCell {
            id: format!("{setting:012x}-{}", block + 1),
            setting,
            block: u32::try_from(block + 1).unwrap(),
            state: if is_killed { "out_of_memory".into() } else { "measured".into() },
            attempts: 1 + number % 2,
            elapsed_us: Some(41_000_000),
            link: Some(format!("cells/{setting:012x}-{}/1/report.html", block + 1)),
            told: if number.is_multiple_of(7) {
                vec!["other programs used 48.2 % of the CPU time".into()]
            } else {
                Vec::new()
            },
            figures: if is_killed { Vec::new() } else { names.iter().map(figure).collect() },
        }
    };
    let verdict = |b: usize| SweepVerdict {
        a: 0,
        b,
        arm: "baseline".into(),
        figure: "throughput".into(),
        ratio: Some(b as f64 + 1.0),
        low: Some(b as f64 + 0.9),
        high: Some(b as f64 + 1.1),
        verdict: "higher".into(),
        is_shown: true,
        detectable_ratio: Some(1.04),
    };
    SweepView {
        version: "0".into(),
        name: "smaller".into(),
        description: "How small a machine?".into(),
        sentences: vec![
            "server_ram=2G threads=64 has the most transactions: 3600 tps; every other setting is shown to have fewer."
                .into(),
            "60 of 60 cells are done.".into(),
        ],
        warnings: vec!["3 cells ran while the host was busy with other work, both times.".into()],
        keys,
        settings: settings.collect(),
        cells: (0..60).map(cell).collect(),
        verdicts: (1..12).map(verdict).collect(),
        planned: 60,
    }
}

fn check(name: &str, view: &SweepView, figures: u64, links: u64) -> Option<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    write_sweep_html(view, &mut std::fs::File::create(&path).unwrap()).unwrap();
    let size = path.metadata().unwrap().len();
    assert!(size < 4 << 20, "{name}: {size} bytes");
    let mut browser = Browser::start(folder.path())?;
    for (size, place) in [((1440, 900), "laptop"), ((390, 844), "phone")] {
        for scheme in ["light", "dark"] {
            let page = browser.open(&path, size, scheme);
            browser.save_screenshot(&format!("{name}-{place}-{scheme}"));
            assert_eq!(page.problems, Vec::<String>::new(), "{name}, {place}, {scheme}");
            assert_eq!(page.requests, 1, "{name}: the page itself and nothing else is fetched");
            let wide = browser.evaluate("document.documentElement.scrollWidth");
            assert_eq!(wide, Value::from(size.0), "{name}, {place}: the page scrolls sideways");
            let drawn = browser.evaluate("document.querySelectorAll('figure:not([hidden]) .plot svg').length");
            assert_eq!(drawn, Value::from(figures), "{name}, {place}");
            let led = browser.evaluate("document.querySelectorAll('.plot svg a[href$=\"report.html\"]').length");
            assert_eq!(led, Value::from(links), "{name}, {place}: points lead to their runs");
            let ground = browser.evaluate("getComputedStyle(document.body).backgroundColor").to_string();
            assert_eq!(ground.contains("251"), page.scheme == "light", "{ground} in {}", page.scheme);
            let cut = "[...document.querySelectorAll('svg text')].filter(t => { const box = t.getBoundingClientRect(), \
                       svg = t.closest('svg').getBoundingClientRect(); return box.width > 0 && (box.left < svg.left - 1 || box.right > svg.right + 1); })\
                       .map(t => t.textContent).join(' | ')";
            assert_eq!(browser.evaluate(cut), Value::from(""), "{name}, {place}: words are cut");
        }
    }
    Some(())
}

#[test]
fn sixty_cells_one_and_none() {
    let mut one = sixty();
    one.settings.truncate(1);
    one.cells.truncate(1);
    one.verdicts.clear();
    let none = SweepView { cells: Vec::new(), verdicts: Vec::new(), sentences: Vec::new(), ..sixty() };
    let done = check("sixty", &sixty(), 2, 55)
        .and_then(|()| check("one", &one, 1, 1))
        .and_then(|()| check("none", &none, 0, 0));
    if done.is_none() {
        testkit::skip!("no chromium");
    }
}

#[test]
fn names_that_are_not_what_they_seem() {
    let mut view = sixty();
    (view.name, view.description) = (HOSTILE.into(), HOSTILE.into());
    view.keys[0] = format!("load.{HOSTILE}");
    view.settings.iter_mut().for_each(|setting| setting.values[0] = HOSTILE.into());
    view.cells.iter_mut().for_each(|cell| cell.told = vec![HOSTILE.into()]);
    view.sentences = vec![HOSTILE.into()];
    // one key is left that varies
    if check("hostile", &view, 1, 55).is_none() {
        testkit::skip!("no chromium");
    }
}

#[test]
fn a_choice_draws_another_figure() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    write_sweep_html(&sixty(), &mut std::fs::File::create(&path).unwrap()).unwrap();
    let Some(mut browser) = Browser::start(folder.path()) else { testkit::skip!("no chromium") };
    browser.open(&path, (1440, 900), "light");
    let chosen = "const own = document.querySelector('#curves select'); own.value = '3'; own.dispatchEvent(new Event('change')); \
                  document.querySelector('#curves .what').textContent + document.querySelector('#curves .plot title').textContent";
    let told = browser.evaluate(chosen).as_str().unwrap().to_owned();
    assert!(told.starts_with("p99") && told.contains("ms") && told.contains("block 1"), "{told}");
    let lines = browser.evaluate("document.querySelectorAll('#curves figure:first-of-type .plot path.line').length");
    assert_eq!(lines, Value::from(3), "over the first key, a line for each value of the second");
}

#[test]
fn minutes_among_times_stand_between_seconds_and_hours() {
    let mut view = sixty();
    let times = ["1h", "2m", "90s", "1min"];
    view.settings.iter_mut().enumerate().for_each(|(n, setting)| setting.values[0] = times[n % 4].into());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    write_sweep_html(&view, &mut std::fs::File::create(&path).unwrap()).unwrap();
    let Some(mut browser) = Browser::start(folder.path()) else { testkit::skip!("no chromium") };
    browser.open(&path, (1440, 900), "light");
    assert_eq!(browser.evaluate("valuesOf(0).join()"), Value::from("1min,90s,2m,1h"));
    assert_eq!(browser.evaluate("number('2m') === 2 * 2 ** 20"), Value::from(true), "a size where no time is");
}

#[test]
fn a_key_that_follows_another_makes_no_line_of_its_own() {
    let mut view = sixty();
    view.keys.push("server.options.innodb_buffer_pool_size".into());
    for setting in &mut view.settings {
        setting.values.push(format!("pool of {}", setting.values[0]));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    write_sweep_html(&view, &mut std::fs::File::create(&path).unwrap()).unwrap();
    let Some(mut browser) = Browser::start(folder.path()) else { testkit::skip!("no chromium") };
    browser.open(&path, (1440, 900), "light");
    let lines = "document.querySelectorAll('#curves figure:first-of-type .plot path.line').length";
    let over = |key: u32| {
        format!(
            "{{ const own = document.querySelectorAll('#curves select')[1]; own.value = '{key}'; own.dispatchEvent(new Event('change')); }} {lines}"
        )
    };
    // over RAM and over the pool that follows it: a line for each number of threads; over threads: one for each size of RAM
    for (key, wanted) in [(0, 3), (2, 3), (1, 4)] {
        assert_eq!(browser.evaluate(&over(key)), Value::from(wanted), "over key {key}");
    }
}
