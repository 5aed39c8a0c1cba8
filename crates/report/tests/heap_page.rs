// SPDX-License-Identifier: Apache-2.0
//! The page of heap profiles in a real browser: on a laptop and a phone, light and dark, without an error, a fetch, or sideways scrolling.
//!
//! With `WRINGER_SCREENSHOTS=FOLDER` each page is also saved as a picture, to look at.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // helpers of tests

mod browser;

use browser::Browser;
use heap::{Holdings, NoSymbols, Outline, flame};
use report::{HeapPage, HeapProfile, HeapTimes, write_heap_html};
use serde_json::Value;
use std::path::Path;

const LAPTOP: (u32, u32) = (1440, 900);
const PHONE: (u32, u32) = (390, 844);

/// As `wringer heap report` makes it, of a file in `fixtures/heap`.
fn profile(name: &str, change: impl Fn(String) -> String) -> HeapProfile {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/heap").join(name);
    let mut bytes = Vec::new();
    let file = std::fs::read(path).unwrap();
    std::io::Read::read_to_end(&mut heap::plain(file.as_slice()).unwrap(), &mut bytes).unwrap();
    let text = change(String::from_utf8(bytes).unwrap());
    let outline = Outline::read(text.as_bytes()).unwrap();
    let places: Vec<usize> = outline.with_trees().collect();
    let at = |it: &heap::Snapshot| if outline.time_unit.is_some() { it.time } else { it.number };
    let (mut held, mut flames) = (Vec::new(), Vec::new());
    heap::each_tree(text.as_bytes(), &outline, &places, &mut NoSymbols, &mut |_, tree| {
        let holdings = Holdings::of(&tree);
        flames = flame::flames(&tree, holdings.total_bytes / 1000);
        held.push(HeapTimes { at: at(&tree.snapshot), holdings });
    })
    .unwrap();
    HeapProfile {
        name: format!("/tmp/{name}"),
        format: outline.format.name(),
        command: outline.command.as_ref().map(|it| String::from_utf8_lossy(it).into_owned()),
        time_unit: outline.time_unit,
        totals: outline.snapshots.iter().map(|it| (at(it), it.heap_bytes)).collect(),
        growth: heap::growth(&held[0].holdings, &held[held.len() - 1].holdings),
        held,
        flames,
        flames_of: "the end".to_owned(),
        notes: vec!["25 of 30 addresses have no name.".to_owned()],
    }
}

/// Rows with a growth of nothing.
const UNCHANGED: &str =
    "[...document.querySelectorAll('td[data-label=Growth]')].filter(it => /^0 /.test(it.textContent)).length";
const NASTY: &str = "</script><script>document.title='broken out'</script><img src=x onerror=alert(1)>";

#[test]
fn layers_flames_and_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let nasty = |text: String| text.replace("main (growing.c:", &format!("{NASTY} (growing.c:"));
    // from when the ten functions hold theirs: they are no rows of the table of growth
    let mut growing = profile("heaptrack.growing.zst", |it| it);
    growing.held.drain(..growing.held.len() / 2);
    growing.growth = heap::growth(&growing.held[0].holdings, &growing.held[growing.held.len() - 1].holdings);
    let still = growing.growth.iter().filter(|it| it.growth_bytes == Some(0)).count();
    assert!(still >= 10, "{:#?}", growing.growth);
    let counted = format!("{still} functions neither grew nor shrank.");
    let profiles = vec![growing, profile("dhat.out", nasty), profile("gperftools.2.heap", |it| it)];
    let page = HeapPage { version: "0.1.0".to_owned(), profiles };
    let path = folder.path().join("heap.html");
    write_heap_html(&page, &mut std::fs::File::create(&path).unwrap()).unwrap();
    let Some(mut browser) = Browser::start(folder.path()) else { testkit::skip!("no chromium") };
    for (size, place) in [(LAPTOP, "laptop"), (PHONE, "phone")] {
        for scheme in ["light", "dark"] {
            let page = browser.open(&path, size, scheme);
            browser.save_screenshot(&format!("heap-{place}-{scheme}"));
            let at = format!("{place}, {scheme}");
            assert_eq!((page.problems.clone(), page.requests), (Vec::<String>::new(), 1), "{at}, {}", page.scheme);
            assert_eq!(browser.evaluate("document.documentElement.scrollWidth"), Value::from(size.0), "{at}: sideways");
            let layers = "document.querySelectorAll('figure[data-chart=heap-0] path.layer').length";
            assert_eq!(browser.evaluate(layers), Value::from(7), "{at}: six functions and the others");
            let charts = browser.evaluate("document.querySelectorAll('figure .plots svg').length");
            assert_eq!(charts, Value::from(5), "{at}: one moment has no chart over time");
            let cut = "[...document.querySelectorAll('svg text')].filter(t => { const box = t.getBoundingClientRect(), svg = t.closest('svg').getBoundingClientRect(); \
                       return box.width > 0 && (box.left < svg.left - 1 || box.right > svg.right + 1); }).map(t => t.textContent).join(' | ')";
            assert_eq!(browser.evaluate(cut), Value::from(""), "{at}");
            assert_ne!(browser.evaluate("document.title"), Value::from("broken out"));
            assert_eq!(browser.evaluate(UNCHANGED), Value::from(0), "{at}: rows of the table of growth");
            let told = browser.evaluate("document.querySelector('p.lead').textContent");
            assert_eq!(told, Value::from(counted.as_str()), "{at}");
            assert_eq!(
                browser.evaluate("document.querySelectorAll('img').length + document.scripts.length"),
                Value::from(1)
            );
        }
    }
}

#[test]
fn a_flame_graph_answers_to_mouse_keys_and_words() {
    let folder = tempfile::tempdir().unwrap();
    let page = HeapPage { version: "0.1.0".to_owned(), profiles: vec![profile("heaptrack.growing.zst", |it| it)] };
    let path = folder.path().join("heap.html");
    write_heap_html(&page, &mut std::fs::File::create(&path).unwrap()).unwrap();
    let Some(mut browser) = Browser::start(folder.path()) else { testkit::skip!("no chromium") };
    browser.open(&path, LAPTOP, "light");
    let count = "document.querySelectorAll('.flame g').length";
    let all = browser.evaluate(count).as_u64().unwrap();
    let width = "document.querySelector('.flame g[aria-label^=hold3] rect').getBBox().width";
    let before = browser.evaluate(width).as_f64().unwrap();
    browser.evaluate(
        "document.querySelector('.flame g[aria-label^=hold3]').dispatchEvent(new MouseEvent('click', {bubbles: true}))",
    );
    let after = browser.evaluate(width).as_f64().unwrap();
    assert!(after > 5.0 * before, "as wide as the page: {before}, {after}");
    assert!(browser.evaluate(count).as_u64().unwrap() < all);
    let told = browser.evaluate("document.querySelector('.flame-told').textContent").as_str().unwrap().to_owned();
    assert!(told.starts_with("hold3: 64.0 KiB"), "{told}");
    browser.evaluate("document.querySelector('.flame-tools button').click()");
    assert_eq!(browser.evaluate(count), Value::from(all));
    let find = "const input = document.querySelector('.flame-tools input'); input.value = 'READ_LOG'; input.dispatchEvent(new Event('input')); \
                document.querySelector('.flame-tools span').textContent + '|' + document.querySelectorAll('.flame .is-found').length";
    let found = browser.evaluate(find).as_str().unwrap().to_owned();
    assert!(found.starts_with("40.0 KiB, 5.") && found.ends_with("|1"), "{found}");
    let moved = "const plot = document.querySelector('figure[data-chart=heap-0] .plot svg'), box = plot.getBoundingClientRect(); \
                 plot.dispatchEvent(new PointerEvent('pointermove', {clientX: box.left + box.width * 0.9, clientY: box.top + 50})); \
                 document.querySelector('figure[data-chart=heap-0] .tip').innerText";
    let told = browser.evaluate(moved).as_str().unwrap().to_owned();
    assert!(told.contains("hold3") && told.contains("64.0 KiB") && told.contains("ms"), "{told}");
}
