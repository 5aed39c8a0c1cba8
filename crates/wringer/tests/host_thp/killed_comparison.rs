// SPDX-License-Identifier: Apache-2.0
//! A comparison of mallocs that is killed in a cell, and called again: no cell is lost or done twice, and the host is as before.

use super::{LONG, WRINGER, now};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use testkit::{Lab, alone, is_root, skip, small_experiment, wait_until};

/// Another test run on this machine may measure at the same time: then this one waits its turn.
const TURN: Duration = Duration::from_secs(900);

/// Of each cell, how often it was begun and how often it counts.
fn attempts(lab: &Lab) -> BTreeMap<String, (usize, usize)> {
    let text = std::fs::read(lab.home().join("out/sweep.json")).unwrap_or_default();
    let state: Value = serde_json::from_slice(&text).unwrap_or_default();
    let of = |cell: &Value| {
        let attempts = cell["attempts"].as_array().unwrap();
        let counts = attempts.iter().filter(|it| it["end"] == "counts").count();
        (cell["id"].as_str().unwrap().to_owned(), (attempts.len(), counts))
    };
    state["cells"].as_array().into_iter().flatten().map(of).collect()
}

#[test]
fn a_comparison_that_is_killed_in_a_cell_goes_on_and_the_host_is_as_before() {
    if !is_root() {
        skip!("needs root: the setting is the host's");
    }
    let _alone = alone();
    let (lab, before) = (Lab::new(WRINGER), now());
    let other = if before == "always" { "madvise" } else { "always" };
    let file = lab.write("mallocs.toml", &small_experiment("1s", ""));
    let words = [
        ["allocators", file.to_str().unwrap(), "--to", "out"],
        ["--malloc", "glibc,glibc-trim", "--threads", "1"],
        ["--time", "200ms", "--burst", "4s"],
        ["--idle", "200ms", "--repeat", "1"],
        ["--wait", "0s", "--thp", other],
    ];
    let words = [&words.concat()[..], &["--yes", "--in-turn"]].concat();
    let mut killed = lab.start("killed", &words);
    let second_is_up = || attempts(&lab).len() == 2 && now() == other;
    let counted = || attempts(&lab).values().filter(|(_, counts)| *counts == 1).count();
    assert!(wait_until(TURN, || counted() == 1 && second_is_up()), "{}", lab.said("killed"));
    killed.kill().unwrap();
    killed.wait().unwrap();
    let at_kill = attempts(&lab);
    assert!(wait_until(LONG, || now() == before), "the watchdog did not put it back: {}", now());

    let ran = lab.run(words.iter().chain(&["-o", "json"])).expect_code(0);
    assert_eq!(now(), before, "{}", ran.stderr);
    let told: Value = serde_json::from_str(&ran.stdout).unwrap();
    let mut cells: Vec<&str> =
        told["cells"].as_array().unwrap().iter().filter_map(|it| it["malloc"].as_str()).collect();
    cells.sort_unstable();
    assert_eq!(cells, ["glibc", "glibc-trim"], "{told:#}");
    let after = attempts(&lab);
    assert!(after.len() == 2 && after.values().all(|(_, counts)| *counts == 1), "{after:?}");
    let done = at_kill.iter().find(|(_, (_, counts))| *counts == 1).unwrap();
    assert_eq!(after[done.0], *done.1, "it was done, and was begun again");
    lab.run(["undo"]).expect_code(0);
    assert_eq!(now(), before);
}
