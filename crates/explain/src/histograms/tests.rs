// SPDX-License-Identifier: Apache-2.0
use super::{Error, read, read_in};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use evidence::LatencyHistogram;
use serde_json::json;

fn two_humps() -> LatencyHistogram {
    let mut histogram = LatencyHistogram::new();
    for step in 0..1000u64 {
        histogram.record(200_000 + step * 50);
        histogram.record(10_200_000 + step * 300);
    }
    histogram
}

fn total(bins: &[modes::Bin]) -> u64 {
    bins.iter().map(|bin| bin.count).sum()
}

#[test]
fn our_own_histograms_are_found_anywhere_with_the_delay_beside_them() {
    let document = json!({"arms": [{"delay": {"read_us": 10_000}, "load": {"service": two_humps()}}, {"delay": null}]});
    let found = read(&document.to_string()).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].name.as_str(), found[0].delay_us), ("arms[0].load.service", Some(10_000.0)));
    assert_eq!(total(&found[0].bins), 2000);
    let alone = read(&serde_json::to_string(&two_humps()).unwrap()).unwrap();
    assert_eq!(alone[0].name, "histogram");
}

#[test]
fn sysbench_output_is_read_among_its_other_lines() {
    let text = "SQL statistics:\n    queries: 3\n\nLatency histogram (values are in milliseconds)\n       value  ------------- \
                distribution ------------- count\n       0.116 |*                                        2\n      10.090 |\
                **********                               30\n \nGeneral statistics:\n    total time: 5.0s\n";
    let found = read(text).unwrap();
    assert_eq!(found[0].name, "sysbench histogram");
    assert_eq!(found[0].bins.iter().map(|bin| bin.count).collect::<Vec<_>>(), [2, 30]);
    assert!((found[0].bins[1].mid_us() - 10_090.0).abs() < 2.0);
    assert!(
        (found[0].bins[1].high_us / found[0].bins[1].low_us - 1.0182).abs() < 0.0002,
        "one step of 1024 over eight decades"
    );
}

#[test]
fn fio_bins_are_read_with_their_width() {
    let bins = json!({"50432": 10, "10158080": 5});
    let document =
        json!({"fio version": "fio-3.33", "jobs": [{"read": {"clat_ns": {"bins": bins}}, "write": {"clat_ns": {}}}]});
    let found = read(&document.to_string()).unwrap();
    assert_eq!((found.len(), found[0].name.as_str()), (1, "jobs[0].read.clat_ns"));
    // 32768..65536 is cut into 64 bins of 512 ns
    let small = found[0].bins.iter().find(|bin| bin.count == 10).unwrap();
    assert!((small.width_us() - 0.512).abs() < 1e-9);
}

#[test]
fn hdr_logs_are_added_up_by_tag() {
    let data = STANDARD.encode(two_humps().to_hdr());
    let text = format!(
        "#[StartTime: 0]\n\"StartTimestamp\",\"Interval_Length\"\n0.1,1.0,10.5,{data}\n1.1,1.0,10.5,{data}\nTag=B,2.1,1.0,10.5,{data}\n"
    );
    let found = read(&text).unwrap();
    assert_eq!(found.iter().map(|named| total(&named.bins)).collect::<Vec<_>>(), [4000, 2000]);
}

#[test]
fn what_leaves_the_unit_open_can_be_told_it() {
    let median = |text: &str, unit_us| {
        let found = read_in(text, unit_us).unwrap();
        found[0].bins[found[0].bins.len() / 4].mid_us()
    };
    let log = format!("0.1,1.0,10.5,{}\n", STANDARD.encode(two_humps().to_hdr()));
    let (ns, us) = (median(&log, None), median(&log, Some(1.0)));
    assert!((us / ns - 1000.0).abs() < 0.5, "{ns} {us}");
    assert!((median("1.5,3\n", Some(1000.0)) - 1500.0).abs() < 1.0);
    let ours = serde_json::to_string(&two_humps()).unwrap();
    assert_eq!(median(&ours, Some(1000.0)), median(&ours, None), "ours says its unit itself");
}

#[test]
fn tables_carry_their_unit_in_the_heading() {
    for (text, us) in [
        ("value_ms,count\n1.5,3\n", 1500.0),
        ("latency us\tcount\n1500\t3\n", 1500.0),
        ("1500 3\n", 1500.0),
        ("value_\u{b5}s,count\n1500,3\n", 1500.0),
        ("MySQL's response time (us),count\n1500,3\n", 1500.0),
        ("latency_msec,count\n1.5,3\n", 1500.0),
        ("made by hand, in s\n# latency_ms,count\n1.5,3\n", 1500.0),
        ("nanoseconds count\n1500000 3\n", 1500.0),
        ("sec;count\n0.0015;3\n", 1500.0),
    ] {
        let found = read(text).unwrap();
        assert!((found[0].bins[0].mid_us() - us).abs() < 1.0, "{text}");
    }
}

/// A missing line, bin or tail would change the histogram.
#[test]
fn what_cannot_be_read_is_told_with_its_place() {
    let told = |text: &str| match read(text) {
        Err(Error::Broken { at, why }) => format!("{at}: {why}"),
        other => panic!("{text}: {other:?}"),
    };
    assert!(told("value_ms,count\n1.5,3\n2,99999999999999999999999\n").starts_with("line 3: 999"));
    assert!(told("us count\n1.5 -3\n").starts_with("line 2: -3 is no count"));
    assert!(told("us count\n-1.5 3\n").contains("-1.5 is no latency"));
    assert!(told("us count\n1e300 3\n").contains("1e300 is no latency"));
    for half in ["x,7", "2,abc", "2,", "2"] {
        let why = format!("line 3: `{half}` is no value and count");
        assert_eq!(told(&format!("value_ms,count\n1,5\n{half}\n3,7\n")), why);
        let is_last = half != "x,7";
        assert_eq!(read(&format!("value_ms,count\n1,5\n{half}\n")).is_err(), is_last, "{half}");
    }
    assert_eq!(read("value_ms,count\n1,5\n# a remark\n# 2\nblock 2\n\n3,7\ntotal,12\n").unwrap()[0].bins.len(), 2);
    assert!(told("1,18446744073709551615\n2,1\n").contains("more than 2^64"));
    let cut_off = told("remark\n{\"jobs\":[{\"read\":{\"clat_ns\":{\"bins\":{\"1000\":5");
    assert!(cut_off.starts_with("line 2, column ") && cut_off.ends_with(": EOF while parsing an object"), "{cut_off}");
    for wrong in [json!({"abc": 3}), json!({"1000": -1})] {
        let document = json!({"jobs": [{"read": {"clat_ns": {"bins": wrong}}}]}).to_string();
        assert!(told(&document).starts_with("jobs[0].read.clat_ns.bins: "), "{document}");
    }
}

#[test]
fn bins_come_ascending_and_remarks_above_a_document_are_no_matter() {
    let document = json!({"jobs": [{"read": {"clat_ns": {"bins": {"900": 1, "10000": 2, "2000": 3}}}}]});
    let found = read(&format!("note: both iodepth >= 1 and a synchronous engine\n{document}\nbye\n")).unwrap();
    assert_eq!(found[0].bins.iter().map(|bin| bin.count).collect::<Vec<_>>(), [1, 3, 2]);
}

#[test]
fn what_holds_no_histogram_is_refused_and_what_is_broken_is_located() {
    for text in ["", "hello\nworld\n", "{}", "[1, 2]"] {
        assert_eq!(read(text), Err(Error::None), "{text}");
    }
    let broken = json!({"a": {"unit": "ns", "encoding": "HDR V2 deflate, base64", "overflow": 0, "data": "AAAA"}});
    assert!(matches!(read(&broken.to_string()), Err(Error::Broken { at, .. }) if at == "a"));
}
