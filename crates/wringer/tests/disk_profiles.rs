// SPDX-License-Identifier: Apache-2.0
//! Disks that vary, and disks by name, with the real program and a real mount.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;

use evidence::LatencyHistogram;
use serde_json::Value;
use standing::*;
use std::path::PathBuf;
use testkit::{Lab, Snapshot, alone, is_root};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// A directory with one file, written to the disk.
fn data(lab: &Lab) -> PathBuf {
    let folder = lab.home().join("data");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("file"), vec![7; 16 << 20]).unwrap();
    std::fs::File::open(folder.join("file")).unwrap().sync_all().unwrap();
    folder
}

fn expect_printed(ran: &testkit::Ran, words: &[&str]) {
    words.iter().for_each(|word| assert!(ran.stdout.contains(word), "'{word}' is not in stdout:\n{}", ran.stdout));
}

fn of<'v>(said: &'v Value, what: &str) -> &'v Value {
    said["measured"].as_array().unwrap().iter().find(|it| it["what"] == what).unwrap()
}

fn got(said: &Value, what: &str) -> f64 {
    of(said, what)["got"]["value"].as_f64().unwrap()
}

fn predicted(said: &Value, what: &str) -> f64 {
    of(said, what)["predicted"]["value"].as_f64().unwrap()
}

#[test]
fn profiles_are_listed_and_explained_with_their_sources() {
    let lab = Lab::new(WRINGER);
    let all = lab.run(["disk", "profiles"]).expect_code(0);
    expect_printed(&all, &["hdd-7200", "gp3", "3000 IOPS", "pd-balanced"]);
    let gp2 = ["5400000", "https://docs.aws.amazon.com/", "assumed", "gp2 takes a size", "300 IOPS, 3000 with credits"];
    expect_printed(&lab.run(["disk", "profiles", "gp2:100G"]).expect_code(0), &gp2);
    let said = json(&lab.run(["disk", "profiles", "gp2:10G,credits=0", "-o", "json"]).expect_code(0));
    let profile = &said["profiles"][0];
    assert_eq!((&profile["name"], &profile["size_bytes"]), (&"gp2".into(), &(10u64 << 30).into()));
    assert!((profile["by_the_model"]["read"][1]["per_second"].as_f64().unwrap() - 100.0).abs() < 5.0, "{profile:#}");
    assert!(profile["figures"].as_array().unwrap().iter().all(|figure| figure["source"].as_str().unwrap().len() > 15));
    lab.run(["disk", "profiles", "gp5"]).expect_code(2).expect_said(&["no disk profile \"gp5\"", "gp2, gp3"]);
}

#[test]
fn wrong_words_are_refused_before_anything_else() {
    let lab = Lab::new(WRINGER);
    for (flag, words, said) in [
        ("--read", "gamma:1ms", "lognormal:p50=TIME,p99=TIME"),
        ("--read", "tail:1ms,1/1:2ms", "is not rare"),
        ("--profile", "gp3:100G", "do not depend on a size"),
        ("--iops", "300,burst=3000", "capacity="),
        ("--bandwidth", "fast", "write 125M"),
        ("--depth", "0", "1..=4096"),
        ("--stalls", "often", "every=60s"),
        ("--read", "histogram:/nowhere.json", "No such file"),
    ] {
        lab.run(["disk", "delay", "/tmp", flag, words]).expect_code(2).expect_said(&[said]);
    }
    lab.run(["disk", "delay", "/tmp", "--seed", "7"])
        .expect_code(2)
        .expect_said(&["nothing says how slow the disk is to be", "--profile"]);
}

#[test]
fn a_disk_by_name_is_held_to_its_model_and_changes_live() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let folder = data(&lab);
    let path = folder.to_str().unwrap();
    let delay = |words: &[&str]| {
        let args = ["disk", "delay", path, "-o", "json"].into_iter().chain(words.iter().copied());
        json(&lab.run(args).expect_code(0))
    };
    let planned = lab.run(["disk", "delay", path, "--profile", "gp3", "--dry-run"]).expect_code(0);
    expect_printed(&planned, &["gp3: read (p50 550 us", "3000 IOPS", "in total"]);

    // what is predicted is the model's; that nobody is faster is all that a busy machine lets a test say of what was got, and that it is
    // not more than twice as slow, the program itself (exit code 0)
    let said = delay(&["--profile", "hdd-7200"]);
    assert!((predicted(&said, "disk.read.iops.depth32") / 86.5 - 1.0).abs() < 0.15, "{said:#}");
    assert!(got(&said, "disk.read.iops.depth32") < 86.5 * 1.15, "{said:#}");

    // Little: 32 readers at 200 a second wait 160 ms each, and evenly
    let answered = || -> LatencyHistogram {
        let mut shown = json(&lab.run(["disk", "status", "-o", "json"]).expect_code(0));
        serde_json::from_value(shown["directories"][0]["stats"]["read_latency"]["got"].take()).unwrap()
    };
    let earlier = answered();
    let said = delay(&["--iops", "200"]);
    let median = got(&said, "disk.read.median.depth32");
    assert!(median > 0.95 * 160_000.0 && got(&said, "disk.read.iops.depth32") < 210.0, "{said:#}");
    // nearly all of those that waited: each time that the machine stands still, all 32 wait longer once
    let reads = answered().since(&earlier);
    let longer_than = |us: f64| {
        let longer = reads.buckets().filter(|it| it.low_ns as f64 > us * 1000.0);
        longer.map(|it| it.count).sum::<u64>()
    };
    assert!(longer_than(1.5 * median) * 4 < longer_than(0.5 * median), "no slices: {reads:?}: {said:#}");
    let status = json(&lab.run(["disk", "status", "-o", "json"]).expect_code(0));
    assert_eq!(status["directories"][0]["model"]["limits"][0]["rate_per_second"], 200.0, "{status:#}");

    // one head: a second reader waits for the first
    let said = delay(&["--read", "5ms", "--depth", "1", "--mode", "total"]);
    assert!(got(&said, "disk.read.iops.depth32") < 200.0 * 1.05, "{said:#}");

    lab.run(["disk", "release", path]).expect_code(0);
    expect_as_before(&before);
}

#[test]
fn a_measured_histogram_is_replayed() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let folder = data(&lab);
    let path = folder.to_str().unwrap();
    // two humps, as fio's json+ has them
    let fio = lab.home().join("fio.json");
    let bins = r#"{"jobs":[{"read":{"clat_ns":{"bins":{"5000000":700,"50000000":300}}}}]}"#;
    std::fs::write(&fio, bins).unwrap();
    let words = format!("histogram:{}", fio.display());
    let args = ["disk", "delay", path, "--read", &words, "--mode", "total", "-o", "json"];
    let said = json(&lab.run(args).expect_code(0));
    for (what, us) in [("disk.read.median", 5_000.0), ("disk.read.p99", 50_000.0)] {
        assert!((predicted(&said, what) / us - 1.0).abs() < 0.05, "{said:#}");
        assert!(got(&said, what) > 0.95 * us, "a machine is busy, never early: {said:#}");
    }
    // what was just measured can be replayed in turn
    let measured = json(&lab.run(["probe", "read", path, "--count", "100", "-o", "json"]).expect_code(0));
    let again = lab.home().join("again.json");
    std::fs::write(&again, measured.to_string()).unwrap();
    let words = format!("histogram:{}", again.display());
    let said =
        json(&lab.run(["disk", "delay", path, "--read", &words, "--mode", "total", "-o", "json"]).expect_code(0));
    let median = measured["p50_us"].as_f64().unwrap();
    // what is drawn of a hundred reads differs; what is asked for is what was measured
    let asked = of(&said, "disk.read.median")["asked"]["value"].as_f64().unwrap();
    assert!((asked / median - 1.0).abs() < 0.1, "{median} us read: {said:#}");
    lab.run(["disk", "release", path]).expect_code(0);
    expect_as_before(&before);
}

#[test]
fn a_disk_faster_than_this_host_is_refused_with_the_floor() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let folder = data(&lab);
    let path = folder.to_str().unwrap();
    let fast = ["disk", "delay", path, "--profile", "io2:iops=256000", "--read", "1us"];
    let cannot = ["this host is too slow to imitate that", "without any delay", "us for one read"];
    lab.run(fast).expect_code(3).expect_said(&cannot);
    // and so is a change to one; what was in force stays
    lab.run(["disk", "delay", path, "--read", "20ms"]).expect_code(0);
    lab.run(fast).expect_code(3).expect_said(&cannot);
    // whichever this host cannot do: so soon, or so many
    let many = ["disk", "delay", path, "--profile", "io2:iops=256000", "--read", "100us", "--bandwidth", "100G"];
    lab.run(many).expect_code(3).expect_said(&cannot);
    let status = json(&lab.run(["disk", "status", "-o", "json"]).expect_code(0));
    assert_eq!(status["directories"][0]["delay"]["read_us"], 20_000, "{status:#}");
    lab.run(["disk", "release", path]).expect_code(0);
    expect_as_before(&before);
}

/// A word on a command line has at most 128 KiB: what a command hands over to its supervisor has another way.
#[test]
fn two_long_histograms_reach_the_disk() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let _alone = alone();
    let lab = Lab::new(WRINGER);
    let data = data(&lab);
    let before = Snapshot::take();
    // as fio writes them: 64 bins for each power of two; nearly all take 17 ms, which a busy machine does not blur
    let histogram = |name: &str| {
        let middle = |power: u32, at: u64| (1 << power) + (2 * at + 1) * (1 << power) / 128;
        let count = |power: u32, at: u64| if (power, at) == (24, 0) { 1_000_000 } else { 1 };
        let of_power = |power| (0..64).map(move |at| format!("\"{}\": {}", middle(power, at), count(power, at)));
        let bins: Vec<String> = (7..33).flat_map(of_power).collect();
        let text = format!("{{\"jobs\": [{{\"read\": {{\"clat_ns\": {{\"bins\": {{{}}}}}}}}}]}}", bins.join(", "));
        format!("histogram:{}", lab.write(name, &text).display())
    };
    let (read, write) = (histogram("read.json"), histogram("write.json"));
    let delay = ["disk", "delay", data.to_str().unwrap(), "--read", &read, "--write", &write, "-o", "json"];
    let planned = json(&lab.run([&delay[..], &["--dry-run"]].concat()).expect_code(0));
    let long = planned["model"].to_string().len();
    assert!(long > 128 << 10, "the order has {long} bytes only");
    let said = json(&lab.run(delay).expect_code(0));
    assert!(said["model"] == planned["model"], "another model than was planned");
    lab.run(["disk", "release", data.to_str().unwrap()]).expect_code(0);
    expect_as_before(&before);
}
