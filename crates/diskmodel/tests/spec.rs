// SPDX-License-Identifier: Apache-2.0
//! The words of flags and experiment files, and the profiles.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

use diskmodel::{
    Class, Counts, DiskRequest, LimitSpec, Model, OperationSpec, ProfileSpec, Stalls, closed_loop, profiles,
};
use evidence::DelayMode;

fn model(profile: &str) -> Model {
    let asked = DiskRequest { profile: Some(profile.parse().unwrap()), ..DiskRequest::default() };
    asked.model(&mut |_| unreachable!()).unwrap()
}

#[test]
fn every_profile_can_be_read_and_every_figure_says_where_it_is_from() {
    let names: Vec<&str> = profiles().iter().map(|profile| profile.name.as_str()).collect();
    assert_eq!(names, ["gp2", "gp3", "hdd-7200", "io2", "nvme", "pd-balanced", "pd-standard", "sata-ssd", "standard"]);
    for profile in profiles() {
        let model = model(&profile.name);
        assert_eq!(model.mode, DelayMode::Total);
        assert!(model.read.takes.quantile(0.5) > 0.0 && model.write.takes.quantile(0.5) > 0.0, "{}", profile.name);
        for figure in &profile.figures {
            assert!(figure.source.len() > 15, "{} {}: {}", profile.name, figure.of, figure.source);
            assert!(!figure.says().is_empty(), "{} {}", profile.name, figure.of);
            let known = ["read", "write", "sync", "sequential"];
            if known.contains(&figure.of.as_str()) {
                assert!(figure.says().parse::<OperationSpec>().is_ok(), "{} {}", profile.name, figure.says());
            }
        }
        let read: Model = serde_json::from_str(&serde_json::to_string(&model).unwrap()).unwrap();
        assert_eq!((read.to_string(), &read.limits), (model.to_string(), &model.limits));
        assert!((read.read.takes.quantile(0.99) / model.read.takes.quantile(0.99) - 1.0).abs() < 1e-9);
    }
}

/// The figures that the sources state, against what the model does.
#[test]
fn the_profiles_do_what_their_sources_say() {
    let mean_and_deviation = |name: &str| {
        let takes = model(name).read.takes;
        let times: Vec<f64> = (0..100_000).map(|i| takes.quantile((f64::from(i) + 0.5) / 100_000.0)).collect();
        let mean = times.iter().sum::<f64>() / 1e5;
        (mean, (times.iter().map(|us| (us - mean).powi(2)).sum::<f64>() / 1e5).sqrt())
    };
    // ioping's average and mdev in the article
    for (name, mean, deviation) in [("gp3", 618.5, 239.6), ("standard", 11_800.0, 14_900.0)] {
        let got = mean_and_deviation(name);
        assert!((got.0 / mean - 1.0).abs() < 0.03 && (got.1 / deviation - 1.0).abs() < 0.05, "{name}: {got:?}");
    }
    // average seek and half a revolution
    assert!((mean_and_deviation("hdd-7200").0 - (7_400.0 + 8_330.0 / 2.0)).abs() < 150.0);
    let io2 = mean_and_deviation("io2");
    assert!(io2.0 < 500.0, "average under 0.5 ms: {io2:?}");
    let per_second = |name: &str, class| closed_loop(&model(name), class, 32, 20_000, 4096, 0.0).per_second;
    for (name, class, iops) in [
        ("gp2:100G,credits=0", Class::Read, 300.0),
        ("gp2:100G", Class::Read, 3000.0),
        ("gp2:10G,credits=0", Class::Write, 100.0),
        ("gp2:2048G", Class::Read, 6144.0),
        ("gp2:16384G", Class::Read, 16_000.0),
        ("gp3", Class::Write, 3000.0),
        ("gp3:iops=6000", Class::Read, 6000.0),
        // 12 000 at 200/s, while the credits of a minute last, and 8000 at 100/s
        ("standard", Class::Read, 142.9),
        ("pd-standard:500G", Class::Read, 375.0),
        ("pd-standard:500G", Class::Write, 750.0),
        ("pd-balanced:100G", Class::Read, 600.0),
        ("hdd-7200", Class::Read, 86.5),
        ("nvme", Class::Write, 30_500.0),
    ] {
        let got = per_second(name, class);
        assert!((got / iops - 1.0).abs() < 0.08, "{name} {class:?}: {got} of {iops}");
    }
    let megabytes = closed_loop(&model("gp3"), Class::Read, 32, 2_000, 1 << 20, 0.0).per_second;
    assert!((megabytes / 125.0 - 1.0).abs() < 0.05, "125 MiB/s: {megabytes}");
}

#[test]
fn a_profile_takes_what_it_says_it_takes() {
    let refused = |text: &str| text.parse::<ProfileSpec>().unwrap_err();
    for (text, words) in [
        ("gp4", "gp2, gp3, hdd-7200"),
        ("gp3:100G", "iops="),
        ("gp3:iops=100", "from 3000 to 80000"),
        ("gp3:bandwidth=9000M", "from 125 MiB to"),
        ("gp2:huge", "gp2:100G"),
        ("gp2:credits=6000000", "from 0 to 5400000"),
        ("gp2:speed=1", "credits="),
        ("hdd-7200:depth=2", "nothing behind it"),
    ] {
        let error = refused(text);
        assert!(error.to_string().contains(words), "{text}: {error}");
    }
    let full = model("gp2:100G");
    assert_eq!((full.limits[0].credits, full.limits[0].capacity), (5_400_000.0, 5_400_000.0));
    assert_eq!(model("gp2:100G,credits=0").limits[0].credits, 0.0);
    assert_eq!(model("gp2:100G").limits[1].rate_per_second, f64::from(128 << 20));
    assert_eq!(model("gp2:500G").limits[1].rate_per_second, f64::from(250 << 20));
    assert_eq!(model("gp2:2T").limits[0].burst_per_second, None, "its base is above the burst");
}

#[test]
fn words_lie_over_the_profile() {
    let asked = DiskRequest {
        profile: Some("gp3".parse().unwrap()),
        read: Some("5ms".parse().unwrap()),
        iops: Some(LimitSpec::parse("500", Counts::Operations).unwrap()),
        depth: Some(4),
        ..DiskRequest::default()
    };
    let model = asked.model(&mut |_| unreachable!()).unwrap();
    assert_eq!(model.read.takes.quantile(0.5), 5_000.0);
    assert!(model.write.takes.quantile(0.5) < 600.0);
    let rates: Vec<f64> = model.limits.iter().map(|limit| limit.rate_per_second).collect();
    assert_eq!(rates, [f64::from(125 << 20), 500.0]);
    assert_eq!((model.depth, model.mode), (Some(4), DelayMode::Total));
    assert_eq!(DiskRequest::default().mode(), DelayMode::Add);
    assert!(DiskRequest::default().is_none() && !asked.is_none());
}

#[test]
fn wrong_words_are_refused_with_what_to_write() {
    for (text, words) in [
        ("10", "unit"),
        ("soon", "write a time (10ms)"),
        ("11s", "10 s is the most"),
        ("gamma:1ms,2ms", "lognormal:p50=TIME"),
        ("normal:10ms", "normal:10ms,2ms"),
        ("normal:1ms,1ms", "lognormal"),
        ("lognormal:p50=1ms", "lognormal:p50=1ms,p99=10ms"),
        ("lognormal:p50=9ms,p99=1ms", "larger"),
        ("quantiles:p50=2ms,p10=1ms", "ascending"),
        ("quantiles:p101=2ms", "no quantile"),
        ("quantiles:p50=1ms,p50=2ms", "p50 is not above p50"),
        ("tail:1ms", "tail:0.2ms,1/1000:80ms"),
        ("tail:1ms,1/1:80ms", "not rare"),
        ("tail:9ms,1/1000:1ms", "longer"),
        ("histogram:", "histogram:FILE"),
        ("1ms +4us", "+4us/KiB"),
    ] {
        let error = text.parse::<OperationSpec>().unwrap_err();
        assert!(error.to_string().contains(words), "{text}: {error}");
    }
    for (text, counts, words) in [
        ("fast", Counts::Operations, "write 3000"),
        ("0", Counts::Operations, "lets nothing through"),
        ("300,burst=3000", Counts::Operations, "capacity"),
        ("300,burst=100,capacity=5", Counts::Operations, "not above"),
        ("300,burst=3000,capacity=5,credits=6", Counts::Operations, "more credits"),
        ("125M,unit=1M", Counts::Bytes, "write 125M"),
    ] {
        let error = LimitSpec::parse(text, counts).unwrap_err();
        assert!(error.to_string().contains(words), "{text}: {error}");
    }
    for text in ["", "every=60s", "every=1s,lasting=2s,factor=5", "every=60s,lasting=2s,factor=0.5"] {
        assert!(text.parse::<Stalls>().is_err(), "{text}");
    }
}

#[test]
fn a_model_says_what_it_is() {
    let plain = Model::from(evidence::Delay {
        read_us: 10_000,
        write_us: 0,
        sync_us: 500,
        mode: DelayMode::Add,
        varies: false,
    });
    assert_eq!(plain.to_string(), "read 10 ms, write 0, sync 500 us added");
    assert!(plain.is_constant() && !plain.delay().varies);
    let gp2 = model("gp2:100G,credits=0");
    let said = gp2.to_string();
    assert!(said.contains("gp2:100G,credits=0: read (p50 550 us"), "{said}");
    assert!(said.contains("300 IOPS, 3000 with credits (starts with 0 of 5400000); 128 MiB/s"), "{said}");
    assert!(gp2.delay().varies);
    assert_eq!(gp2.delay().read_us, 550);
}
