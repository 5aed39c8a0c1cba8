// SPDX-License-Identifier: Apache-2.0
//! The host's transparent huge pages, set for a server and put back: at the end, after a kill, and not over somebody else's value.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

#[path = "host_thp/killed_comparison.rs"]
mod killed_comparison;

use std::time::Duration;
use testkit::{Lab, alone, is_root, skip, small_experiment, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");
const PATH: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
/// A server starts within it, also on a busy machine.
const LONG: Duration = Duration::from_secs(120);

fn now() -> String {
    let text = std::fs::read_to_string(PATH).unwrap_or_default();
    text.split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or_else(String::new, |(word, _)| word.to_owned())
}

/// A file whose server asks for what the host has not, and what that is.
fn asks_for_another(lab: &Lab, time: &str) -> (String, &'static str) {
    let other = if now() == "always" { "madvise" } else { "always" };
    let flavour = "flavour = \"mariadb\"\n";
    let text = small_experiment(time, "").replace(flavour, &format!("{flavour}thp = \"{other}\"\n"));
    (lab.write("thp.toml", &text).to_str().unwrap().to_owned(), other)
}

#[test]
fn a_run_sets_them_and_puts_them_back() {
    if !is_root() {
        skip!("needs root: the setting is the host's");
    }
    let _alone = alone();
    let (lab, before) = (Lab::new(WRINGER), now());
    let (file, other) = asks_for_another(&lab, "1s");
    let ran = lab.run(["run", &file, "--to", "out", "--yes"]).expect_code(0);
    assert_eq!(now(), before, "{}", ran.stderr);
    let result = std::fs::read_to_string(lab.home().parent().unwrap().join("out/result.json"))
        .or_else(|_| std::fs::read_to_string("out/result.json"))
        .unwrap_or_default();
    let told = format!("transparent huge pages of the host: {other}, before {before}");
    assert!(ran.stderr.contains(&told) || result.contains(&told), "{}\n{result}", ran.stderr);
    lab.run(["status"]).expect_code(0);
}

#[test]
fn who_is_killed_leaves_the_host_as_it_was() {
    if !is_root() {
        skip!("needs root: the setting is the host's");
    }
    let _alone = alone();
    let (lab, before) = (Lab::new(WRINGER), now());
    let (file, other) = asks_for_another(&lab, "10m");
    let mut run = lab.start("killed", ["run", &file, "--to", "out", "--yes"]);
    assert!(wait_until(LONG, || now() == other), "{}", lab.said("killed"));
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(wait_until(LONG, || now() == before), "the watchdog did not put it back: {}", now());
    lab.run(["undo"]).expect_code(0);
    assert_eq!(now(), before);
}

/// Somebody sets another value meanwhile: it stays, and is told with the command that repairs.
#[test]
fn a_value_of_somebody_elses_stays() {
    if !is_root() {
        skip!("needs root: the setting is the host's");
    }
    let _alone = alone();
    let (lab, before) = (Lab::new(WRINGER), now());
    if before == "never" {
        skip!("needs root: the host has turned transparent huge pages off");
    }
    let (file, other) = asks_for_another(&lab, "5s");
    let mut run = lab.start("changed", ["run", &file, "--to", "out", "--yes"]);
    assert!(wait_until(LONG, || now() == other), "{}", lab.said("changed"));
    std::fs::write(PATH, "never").unwrap();
    let code = run.wait().unwrap().code();
    let (found, said) = (now(), lab.said("changed"));
    std::fs::write(PATH, &before).unwrap();
    assert_eq!((code, found.as_str()), (Some(5), "never"), "{said}");
    assert!(said.contains(PATH) && said.contains(&before), "{said}");
    lab.run(["undo"]).expect_code(0);
}
