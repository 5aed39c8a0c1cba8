// SPDX-License-Identifier: Apache-2.0
//! Every input number, with its unit and its source.

use crate::settings::Settings;
use capability::{LADDER, Refiller};
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parameter {
    pub name: &'static str,
    /// A number, or a word; nothing where it is not set.
    pub value: Option<String>,
    pub unit: &'static str,
    pub source: String,
}

/// Names of the settings that the caller gave; the others have the source of their default.
pub fn parameters(settings: &Settings, given: &[String]) -> Vec<Parameter> {
    let row = settings.server;
    let versions = format!("{} {}", row.flavour, row.versions());
    let of_row = || format!("{versions}: {}", row.source);
    let mut all = Vec::new();
    let mut add = |name: &'static str, value: Option<String>, unit: &'static str, default: String| {
        let is_given = given.iter().any(|it| it == name);
        let source = if is_given { "the command line".to_owned() } else { default };
        all.push(Parameter { name, value, unit, source });
    };
    let us = |ns: u64| Some(format!("{}", ns as f64 / 1000.0));
    let assumed = |text: &str| format!("assumed: {text}");
    add("server", Some(versions.clone()), "", row.source.to_owned());
    add("evidence", Some(row.evidence.words().to_owned()), "", row.source.to_owned());
    add("algorithm", Some(settings.algorithm.name().to_owned()), "", of_row());
    add("lru-scan-depth", Some(settings.scan_depth.to_string()), "pages an instance", of_row());
    add(
        "pool",
        Some(settings.instance_pages.to_string()),
        "pages an instance",
        assumed("a pool of 128 MiB, MySQL's default, in pages of 16 KiB"),
    );
    add("instances", Some(settings.instances.to_string()), "", assumed("one"));
    add("threads", Some(settings.threads.to_string()), "", assumed("one client"));
    add("rate", settings.rate_per_second.map(|it| it.to_string()), "queries a second", assumed("as fast as they go"));
    add("time", us(settings.time_ns), "us", assumed("10 seconds"));
    add("pause", us(settings.pause_ns), "us", assumed("none"));
    add("repeat", Some(settings.repeat.to_string()), "", assumed("one load"));
    add("gap", us(settings.gap_ns), "us", "between two runs of sysbench, from the article's time stamps".to_owned());
    add("pages-per-query", Some(settings.reads_per_query.to_string()), "pages", assumed("each query reads one page"));
    add("pages-without-read", Some(settings.pages_without_read.to_string()), "pages", assumed("no compressed table"));
    add(
        "service-time",
        us(settings.service_ns),
        "us",
        "a point select of sysbench through a socket, on the article's host".to_owned(),
    );
    add("read-time", us(settings.read_ns), "us", assumed("reads from the page cache are in the service time"));
    add("write-time", us(settings.write_ns), "us", assumed("one page to an SSD"));
    add("dirty", Some(settings.dirty.to_string()), "share of pages", assumed("nobody writes"));
    add("active", Some(settings.active.to_string()), "", assumed("clients write where pages are dirty"));
    add("burst-pages", settings.burst.map(|it| it.pages.to_string()), "pages", assumed("no burst"));
    add("burst-every", settings.burst.and_then(|it| us(it.every_ns)), "us", assumed("no burst"));
    add(
        "sleep-overhead",
        us(settings.sleep_overhead_ns),
        "us",
        "Linux: timer slack of 50 us, and the wake-up; 100 to 200 us on a virtual machine at work".to_owned(),
    );
    add(
        "loop-overhead",
        us(settings.loop_overhead_ns),
        "us",
        "the overhead of a sleep, and a pass without work (5 to 16 us traced in 10.1.23)".to_owned(),
    );
    add(
        "initial-sleep",
        us(settings.initial_sleep_ms * 1_000_000),
        "us",
        "S begins at 1000 ms, buf/buf0flu.cc".to_owned(),
    );
    add(
        "initial-free",
        settings.initial_free.map(|it| it.to_string()),
        "pages an instance",
        assumed("a full pool: as many as lru-scan-depth"),
    );
    add("wake-offset", settings.start.wake_offset_ns.and_then(us), "us", "unknown: shown as a band".to_owned());
    let has_two = row.refillers.len() > 1;
    let phase = if has_two {
        "unknown: shown as a band; 7 ms at a server's start, traced in 10.1.23"
    } else {
        "there is no second refiller"
    };
    add("phase", settings.start.phase_ns.and_then(us), "us", phase.to_owned());
    add("clock", settings.clock.or(clock(row.refillers)).map(|it| format!("{it:?}")), "", of_row());
    add("seed", Some(settings.seed.to_string()), "", assumed("1"));
    let costs = settings.costs;
    add("yield", us(costs.yield_ns), "us", assumed("two calls of the scheduler"));
    add("batch-first", us(costs.batch_first_ns), "us", assumed("a thread that begins its work"));
    add(
        "batch-page",
        us(costs.batch_page_ns),
        "us",
        "on the article's host; 3 to 7 us traced in 10.1.23 on a virtual machine".to_owned(),
    );
    add("look", us(costs.look_ns), "us", assumed("one page of the LRU list"));
    add("take", us(costs.take_ns), "us", assumed("one clean page taken away"));
    add("doublewrite", Some(costs.is_doublewrite.to_string()), "", "innodb_doublewrite, on by default".to_owned());
    add(
        "ladder-longest",
        Some(LADDER.longest_us.to_string()),
        "us",
        "buf_LRU_get_free_block, buf/buf0lru.cc, XtraDB 5.6.36-82.0; traced in 10.1.23".to_owned(),
    );
    add(
        "ladder-modulus",
        Some(LADDER.modulus.to_string()),
        "tries",
        "the same: a shift of 32 bits, seen in the program of 10.1.23".to_owned(),
    );
    all
}

fn clock(refillers: &[Refiller]) -> Option<capability::Clock> {
    refillers.iter().find_map(|it| match it {
        Refiller::Manager { adapt, .. } => Some(adapt.clock),
        Refiller::Cleaner { .. } => None,
    })
}
