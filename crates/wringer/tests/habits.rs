// SPDX-License-Identifier: Apache-2.0
//! What hands are used to from other tools: sysbench's verbs and output, scripts on standard input, silence, errors for programs.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;

use rustix::process::Signal;
use standing::*;
use std::io::Write as _;
use std::process::Stdio;
use testkit::{Lab, Ran, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

macro_rules! start {
    ($lab:expr, $flavour:expr) => {
        let deployed = $lab.run(["sandbox", "deploy", $flavour, "--name", $flavour, "--start"]);
        if deployed.code == Some(3) && deployed.stderr.contains("can be fetched") {
            testkit::skip!("no {} to be had: {}", $flavour, deployed.stderr);
        }
        deployed.expect_code(0);
    };
}

/// A script on standard input.
fn piped(lab: &Lab, sandbox: &str, script: &str) -> Ran {
    let mut command = lab.command(["sandbox", "use", sandbox]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

const ROUTINE: &str = "-- a script, as the client takes it\nCREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2);\nDELIMITER //\n\
    CREATE PROCEDURE p() BEGIN SELECT ';' AS semicolon; SELECT count(*) + 40 FROM t; END //\nDELIMITER ;\nCALL p();\n";
const FUNCTION: &str = "-- a script, as the client takes it\nCREATE TABLE t (a int); CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql AS $$\n\
    BEGIN\n RETURN (SELECT count(*) + 40 FROM t);\nEND $$;\nCOPY t FROM stdin;\n1\n2\n\\.\nSELECT ';' AS semicolon; SELECT f();\n";

#[test]
fn scripts_run_on_every_server() {
    for (flavour, script) in [("mariadb", ROUTINE), ("mysql", ROUTINE), ("postgresql", FUNCTION)] {
        let lab = Lab::new(WRINGER);
        start!(lab, flavour);
        let several = lab.run(["sandbox", "use", flavour, "SELECT 'one;' AS a; SELECT 'two' AS b;"]).expect_code(0);
        assert!(several.stdout.contains("one;") && several.stdout.contains("two"), "{flavour}: {}", several.stdout);
        let ran = piped(&lab, flavour, script).expect_code(0);
        assert!(ran.stdout.contains("semicolon") && ran.stdout.contains("42"), "{flavour}: {}", ran.stdout);
        let wrong = piped(&lab, flavour, "SELECT 1;\n\nSELECT nothing;\nSELECT 'never';\n").expect_code(4);
        assert!(wrong.stderr.contains("line 3") && !wrong.stdout.contains("never"), "{flavour}: {}", wrong.stderr);
        lab.run(["sandbox", "stop", flavour]).expect_code(0);
    }
}

/// Whoever knows the one word from a command finds it with each command that watches for a time.
#[test]
fn how_long_to_watch_has_two_words() {
    let lab = Lab::new(WRINGER);
    for command in [
        &["observe"][..],
        &["memory", "record"],
        &["memory", "profile", "s"],
        &["connections", "audit"],
        &["connections", "plan"],
        &["stalls", "advise"],
        &["stalls", "watch"],
        &["stalls", "inject"],
    ] {
        let refused = |word: &str| lab.run([command, &[word, "never"]].concat()).expect_code(2).stderr;
        let [one, other] = ["--for", "--time"].map(refused);
        assert!(one.contains("invalid value 'never'"), "{command:?}: {one}");
        assert_eq!(one, other, "{command:?}");
    }
}

#[test]
fn sysbenchs_verbs_and_its_output() {
    for flavour in ["mariadb", "postgresql"] {
        let lab = Lab::new(WRINGER);
        start!(lab, flavour);
        let load = |verb: &[&str]| {
            let words =
                ["load", "oltp_read_write", "--tables=2", "--table-size=300", "--sandbox", flavour, "--threads=2"];
            lab.run([&words[..], verb].concat())
        };
        load(&["prepare"]).expect_code(0);
        load(&["prepare"]).expect_code(3).expect_said(&["is there already"]);
        let said = load(&["--time=3", "--report-interval=1", "-o", "sysbench", "run"]).expect_code(0);
        // which second it is told for, is a matter of how busy this machine is
        let is_interval = |line: &&str| {
            let second = line.strip_prefix("[ ").and_then(|rest| rest.split_once("s ] thds: 2 tps: "));
            second.is_some_and(|(second, _)| second.parse::<u32>().is_ok())
        };
        let interval = said.stdout.lines().find(is_interval).unwrap_or("");
        assert!(interval.contains(" lat (ms,95%): ") && interval.contains("(r/w/o: "), "{}", said.stdout);
        assert!(!said.stderr.contains("s ] thds"), "{}", said.stderr);
        let at = |words: &str| said.stdout.find(words).unwrap_or_else(|| panic!("{words}: {}", said.stdout));
        assert!(at("Running the test with following options:") < at("Threads started!"), "{}", said.stdout);
        assert!(at("Threads started!") < at("s ] thds"), "{}", said.stdout);
        assert_eq!(said.stdout.matches("th percentile:").count(), 1, "{}", said.stdout);
        let deviations: Vec<f64> = said
            .stdout
            .lines()
            .filter(|line| line.contains("(avg/stddev):"))
            .map(|line| line.rsplit_once('/').unwrap().1.parse().unwrap())
            .collect();
        assert_eq!(deviations.len(), 2, "{}", said.stdout);
        load(&["cleanup"]).expect_code(0);
        load(&["--time=1"]).expect_code(3);
        lab.run(["sandbox", "stop", flavour]).expect_code(0);
    }
}

#[test]
fn a_server_that_was_killed_is_no_stopped_one() {
    let lab = Lab::new(WRINGER);
    start!(lab, "postgresql");
    let row =
        || json(&lab.run(["sandbox", "status", "postgresql", "-o", "json"]).expect_code(0))["sandboxes"][0].clone();
    assert_eq!(row()["has_died"], false);
    signal(row()["pid"].as_u64().unwrap(), Signal::KILL);
    assert!(wait_until(PATIENCE, || row()["has_died"] == true), "{:#}", row());
    let said = lab.run(["sandbox", "status"]).expect_code(0).stdout;
    assert!(said.contains("ended by itself, crashed or killed"), "{said}");
    let all = lab.run(["status"]).expect_code(0).stdout;
    assert!(all.contains("ended by itself"), "{all}");
    lab.run(["sandbox", "start", "postgresql"]).expect_code(0);
    lab.run(["sandbox", "stop", "postgresql"]).expect_code(0);
    assert_eq!((row()["state"].as_str(), &row()["has_died"]), (Some("stopped"), &false.into()));
}

#[test]
fn an_error_is_json_where_the_result_would_be() {
    let lab = Lab::new(WRINGER);
    let missing = lab.run(["sandbox", "use", "none", "SELECT 1", "-o", "json"]).expect_code(3);
    let error = json(&missing)["error"].clone();
    assert_eq!(
        (&error["exit_code"], error["message"].as_str().unwrap().contains("none")),
        (&3.into(), true),
        "{error:#}"
    );
    assert!(missing.stderr.starts_with("error: "), "{}", missing.stderr);
    let usage = json(&lab.run(["fill", "--no-such-flag", "--output=json"]).expect_code(2))["error"].clone();
    assert_eq!(usage["exit_code"], 2);
    assert!(usage["message"].as_str().unwrap().contains("--no-such-flag"), "{usage:#}");
    assert_eq!(lab.run(["sandbox", "use", "none", "SELECT 1"]).stdout, "");
}

#[test]
fn quiet_leaves_data_and_errors() {
    let lab = Lab::new(WRINGER);
    let loud = lab.run(["status"]).expect_code(0);
    let quiet = lab.run(["status", "--quiet"]).expect_code(0);
    // below it stand the runs of other homes, as other tests have them, which begin and end meanwhile
    let of_this_home = |said: &str| said.lines().next().map(str::to_owned);
    assert_eq!((of_this_home(&quiet.stdout), quiet.stderr.as_str()), (of_this_home(&loud.stdout), ""));
    assert!(quiet.stdout.contains("nothing is changed on this host"), "{}", quiet.stdout);
    assert!(!loud.stderr.is_empty());
    let failed = lab.run(["--quiet", "sandbox", "start", "none"]).expect_code(3);
    assert!(failed.stderr.starts_with("error: "), "{}", failed.stderr);
}

/// Nothing was begun: 3, not 4.
#[test]
fn a_home_that_cannot_be_written() {
    let lab = Lab::new(WRINGER);
    let file = lab.write("file", "not a folder");
    for place in ["/proc/none", file.to_str().unwrap()] {
        for command in [
            &["sandbox", "deploy", "mariadb"][..],
            &["squeeze", "--cpus=0.5", "--", "true"],
            &["disk", "delay", "/tmp/none", "--read=1ms"],
        ] {
            let mut without = lab.command(command);
            without
                .env_remove("WRINGER_HOME")
                .env("HOME", place)
                .env_remove("XDG_STATE_HOME")
                .env_remove("XDG_DATA_HOME");
            without.env("WRINGER_HOME", place);
            let ran = Ran::of(&mut without);
            assert_eq!(ran.code, Some(3), "{command:?} in {place}: {}", ran.stderr);
        }
    }
}
