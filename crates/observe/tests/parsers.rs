// SPDX-License-Identifier: Apache-2.0
//! The kernel's formats, from captures (`fixtures/proc/README.md` names the command that took them).

use observe::{Kind, parse};
use std::collections::BTreeMap;
use std::path::Path;

type Values = BTreeMap<String, (Kind, f64)>;

fn fixture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/proc/linux-6.18");
    std::fs::read_to_string(folder.join(name)).expect("the fixture is there")
}

fn collect(parse: impl FnOnce(&mut dyn FnMut(&str, Kind, f64))) -> Values {
    let mut values = Values::new();
    parse(&mut |name, kind, value| {
        assert!(values.insert(name.to_owned(), (kind, value)).is_none(), "{name} came twice");
    });
    values
}

/// The number behind a name in the capture, found by another way than the parser's.
fn number(text: &str, name: &str) -> f64 {
    let at = text.find(name).expect("the name is there") + name.len();
    let digits: String =
        text[at..].chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

#[test]
fn meminfo() {
    let text = fixture("meminfo");
    let values = collect(|each| parse::key_values(&text, each));
    assert_eq!(values["MemTotal"], (Kind::BytesNow, number(&text, "MemTotal:") * 1024.0));
    assert_eq!(values["MemAvailable"], (Kind::BytesNow, number(&text, "MemAvailable:") * 1024.0));
    assert_eq!(values["HugePages_Total"].0, Kind::CountNow);
    assert_eq!(values.len(), text.lines().count());
}

#[test]
fn vmstat() {
    let text = fixture("vmstat");
    let values = collect(|each| parse::vmstat(&text, each));
    assert_eq!(values["nr_free_pages"], (Kind::CountNow, number(&text, "nr_free_pages ")));
    assert_eq!(values["pgmajfault"], (Kind::CountTotal, number(&text, "pgmajfault ")));
    assert_eq!(values["nr_dirtied"].0, Kind::CountTotal);
    assert_eq!(values.len(), text.lines().count());
}

#[test]
fn pressure() {
    let text = "some avg10=1.50 avg60=0.20 avg300=0.00 total=123456\nfull avg10=0.10 avg60=0.00 avg300=0.00 total=99\n";
    let values = collect(|each| parse::pressure(text, each));
    assert_eq!(values["some.avg10"], (Kind::PercentNow, 1.5));
    assert_eq!(values["some.total"], (Kind::MicrosTotal, 123_456.0));
    assert_eq!(values["full.total"], (Kind::MicrosTotal, 99.0));
    let captured = fixture("pressure/memory");
    assert_eq!(collect(|each| parse::pressure(&captured, each)).len(), 8);
}

#[test]
fn diskstats() {
    let mut values = BTreeMap::new();
    let text = " 254 0 vda 10 1 16 5 20 2 80 7 3 9 12 1 0 8 2 4 6\n 7 0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
    parse::diskstats(text, |device, name, kind, value| {
        values.insert(format!("{device} {name}"), (kind, value));
    });
    assert_eq!(values["vda reads"], (Kind::CountTotal, 10.0));
    assert_eq!(values["vda read_bytes"], (Kind::BytesTotal, 16.0 * 512.0));
    assert_eq!(values["vda write_time"], (Kind::MicrosTotal, 7000.0));
    assert_eq!(values["vda in_flight"], (Kind::CountNow, 3.0));
    assert_eq!(values["vda flush_time"], (Kind::MicrosTotal, 6000.0));
    assert_eq!(values.len(), 17, "a device that did nothing is left out");

    let mut devices = std::collections::BTreeSet::new();
    parse::diskstats(&fixture("diskstats"), |device, _, _, _| {
        devices.insert(device.to_owned());
    });
    assert!(devices.contains("vda") && !devices.contains("loop0"), "{devices:?}");
}

#[test]
fn stat_and_loadavg() {
    let text = fixture("stat");
    let values = collect(|each| parse::stat(&text, 10_000.0, each));
    assert_eq!(values["user"], (Kind::MicrosTotal, number(&text, "cpu  ") * 10_000.0));
    assert_eq!(values["ctxt"], (Kind::CountTotal, number(&text, "ctxt ")));
    assert_eq!(values["procs_running"].0, Kind::CountNow);
    assert_eq!(collect(|each| parse::loadavg("1.05 0.70 0.30 2/300 4711", each))["load5"], (Kind::CountNow, 0.7));
}

#[test]
fn a_process_whose_name_holds_a_bracket() {
    let text = "4711 (a b) c) S 1 4711 4711 0 -1 4194560 100 200 3 4 50 60 7 8 20 0 9 0 123 8192000 500 18446744073709551615 \
                0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0 11 0 0";
    let values = collect(|each| parse::process_stat(text, 10_000.0, 4096.0, each));
    let expected = [
        ("minflt", 100.0),
        ("cminflt", 200.0),
        ("majflt", 3.0),
        ("cmajflt", 4.0),
        ("utime", 500_000.0),
        ("stime", 600_000.0),
        ("cutime", 70_000.0),
        ("cstime", 80_000.0),
        ("num_threads", 9.0),
        ("vsize", 8_192_000.0),
        ("rss", 500.0 * 4096.0),
        ("delayacct_blkio", 110_000.0),
    ];
    expected.iter().for_each(|(name, value)| assert_eq!(values[*name].1, *value, "{name}"));
    let captured = fixture("process_stat");
    assert_eq!(collect(|each| parse::process_stat(&captured, 10_000.0, 4096.0, each))["num_threads"].1, 1.0);
}

#[test]
fn the_tiers_of_memory_agree() {
    let (status, rollup) = (fixture("process_status"), fixture("process_smaps_rollup"));
    let status = collect(|each| parse::process_status(&status, each));
    let rollup = collect(|each| parse::key_values(&rollup, each));
    let statm = collect(|each| parse::process_statm(&fixture("process_statm"), 4096.0, each));
    assert_eq!(status["VmRSS"].1, statm["resident"].1);
    assert!((rollup["Rss"].1 - status["VmRSS"].1).abs() <= 1024.0 * 1024.0);
    assert!(rollup["Pss"].1 <= rollup["Rss"].1);
    assert_eq!(status["voluntary_ctxt_switches"].0, Kind::CountTotal);
    let io = fixture("process_io");
    assert_eq!(collect(|each| parse::process_io(&io, each))["read_bytes"].0, Kind::BytesTotal);
}

#[test]
fn rubbish_is_left_out() {
    for text in ["", "x", "a: b\nc", "1 (x", ":::\n\0"] {
        let mut count = 0;
        parse::key_values(text, |_, _, _| count += 1);
        parse::vmstat(text, |_, _, _| count += 1);
        parse::pressure(text, |_, _, _| count += 1);
        parse::process_stat(text, 1.0, 1.0, |_, _, _| count += 1);
        parse::diskstats(text, |_, _, _, _| count += 1);
        assert_eq!(count, 0, "{text:?}");
    }
}
