// SPDX-License-Identifier: Apache-2.0
//! The same figures, from a recording. An arm is recognised by its settings and by its measured values, not by its name.

use crate::summary::ArmSummary;
use capability::{Adapt, Progress, Refiller, Version};
use evidence::{Arm, Evidence};
use modes::Mode;

/// A run's figures.
pub(super) struct Seen<'a> {
    pub(super) evidence: &'a Evidence,
    /// In the order of the recording's arms.
    pub(super) arms: &'a [ArmSummary],
}

/// The figure, and the values from which it is computed. `None`: the run has not measured it.
pub(super) type FigureOf = fn(&Seen<'_>) -> Option<(f64, String)>;

const PAGE_BYTES: f64 = 4096.0;
/// Of a page table, for one page.
pub(super) const ENTRY_BYTES: f64 = 8.0;
const HUGE_PAGES: &str = "server.huge_pages";

impl Seen<'_> {
    fn got(&self, arm: &str, what: &str) -> Option<f64> {
        let is_it = |it: &&evidence::Measured| it.what == what && it.arm.as_deref() == Some(arm);
        self.evidence.measured.iter().find(is_it)?.got.map(|got| got.value)
    }

    /// The first quantity divided by the second, from the first arm that has both.
    fn ratio(&self, above: &str, below: &str) -> Option<(f64, String)> {
        self.ratio_where(above, below, &|_| true)
    }

    fn ratio_where(&self, above: &str, below: &str, is_wanted: &dyn Fn(&Arm) -> bool) -> Option<(f64, String)> {
        let of = |arm: &Arm| {
            let (over, under) = (self.got(&arm.name, above)?, self.got(&arm.name, below)?);
            let from = format!("arm “{}”: {above} = {over:.0}, {below} = {under:.0}", arm.name);
            divided(over, under).map(|ratio| (ratio, from))
        };
        self.evidence.arms.iter().filter(|arm| is_wanted(arm)).find_map(of)
    }

    /// Arms in which the setting's text fits.
    fn with(&self, key: &str, is_wanted: impl Fn(&str) -> bool) -> Vec<(&Arm, &ArmSummary)> {
        let all = self.evidence.arms.iter().zip(self.arms);
        all.filter(|(arm, _)| is_wanted(arm.settings.get(key).map_or("", String::as_str))).collect()
    }
}

fn divided(over: f64, under: f64) -> Option<f64> {
    (under > 0.0).then(|| over / under)
}

/// Whether the page cache has kept the file that was scanned. `None`: between the two, or not measured.
fn keeps_file(seen: &Seen<'_>, arm: &Arm) -> Option<bool> {
    match seen.got(&arm.name, "probe.scan.warm.cached")? {
        share if share > 0.9 => Some(true),
        share if share < 0.5 => Some(false),
        _ => None,
    }
}

fn scans(seen: &Seen<'_>, kept: bool) -> Option<(f64, String)> {
    seen.ratio_where("probe.scan.warm", "probe.scan.cold", &|arm| keeps_file(seen, arm) == Some(kept))
}

fn cached_reads(seen: &Seen<'_>, kept: bool) -> Option<(f64, String)> {
    seen.ratio_where("probe.read.cached.cold", "probe.read.cached.warm", &|arm| keeps_file(seen, arm) == Some(kept))
}

pub(super) fn scan_warm_over_cold(seen: &Seen<'_>) -> Option<(f64, String)> {
    scans(seen, true)
}

pub(super) fn scan_warm_over_cold_without_ram(seen: &Seen<'_>) -> Option<(f64, String)> {
    scans(seen, false)
}

pub(super) fn cached_cold_over_warm(seen: &Seen<'_>) -> Option<(f64, String)> {
    cached_reads(seen, true)
}

pub(super) fn cached_cold_over_warm_without_ram(seen: &Seen<'_>) -> Option<(f64, String)> {
    cached_reads(seen, false)
}

pub(super) fn direct_cold_over_warm(seen: &Seen<'_>) -> Option<(f64, String)> {
    seen.ratio("probe.read.direct.cold", "probe.read.direct.warm")
}

/// The throughput of the first arm without squeezed RAM over that of the slowest arm with it. Arms with a probe do not count: it has emptied the page
/// cache before their load.
pub(super) fn load_over_squeezed(seen: &Seen<'_>) -> Option<(f64, String)> {
    let is_squeezed =
        |arm: &Arm| arm.settings.keys().any(|key| key.starts_with("squeeze.ram") || key == "squeeze.server_ram");
    let is_probed = |arm: &Arm| arm.settings.get("load.probe").is_some_and(|asked| asked != "none");
    let all = || seen.evidence.arms.iter().zip(seen.arms).filter(|(arm, _)| !is_probed(arm));
    let (_, free) = all().find(|(arm, _)| !is_squeezed(arm))?;
    let rate = |summary: &ArmSummary| summary.queries_per_second;
    let squeezed =
        all().filter(|(arm, _)| is_squeezed(arm)).filter_map(|(_, summary)| Some((rate(summary)?, &summary.name)));
    let (slowest, name) = squeezed.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let fast = rate(free)?;
    let from = format!("arm “{}”: {fast:.0} queries/s, arm “{name}”: {slowest:.0}", free.name);
    divided(fast, slowest).map(|ratio| (ratio, from))
}

/// The arm with the longest constant delay, and its humps of no, one and two reads.
fn humps<'a>(seen: &'a Seen<'_>) -> Option<(&'a ArmSummary, f64, [Option<&'a Mode>; 3])> {
    let delay = |arm: &ArmSummary| arm.delay.filter(|delay| !delay.varies).map_or(0, |delay| delay.read_us);
    let arm = seen.arms.iter().filter(|arm| delay(arm) > 0).max_by_key(|arm| delay(arm))?;
    let modes = &arm.modes.as_ref()?.modes;
    let of = |reads: f64| modes.iter().find(|mode| mode.reads.is_some_and(|it| (it - reads).abs() < 0.01));
    Some((arm, delay(arm) as f64, [of(0.0), of(1.0), of(2.0)]))
}

pub(super) fn distance_of_humps(seen: &Seen<'_>) -> Option<(f64, String)> {
    let (arm, delay, [none, one, _]) = humps(seen)?;
    let (none, one) = (none?.center_us, one?.center_us);
    let from = format!("arm “{}”: humps at {none:.0} and {one:.0} us, the delay is {delay:.0} us", arm.name);
    divided(one - none, delay).map(|ratio| (ratio, from))
}

pub(super) fn reads_of_second_hump(seen: &Seen<'_>) -> Option<(f64, String)> {
    let (arm, _, [none, one, two]) = humps(seen)?;
    let (none, one, two) = (none?.center_us, one?.center_us, two?.center_us);
    let from = format!("arm “{}”: humps at {none:.0}, {one:.0} and {two:.0} us", arm.name);
    divided(two - none, one - none).map(|ratio| (ratio, from))
}

pub(super) fn pool_share(seen: &Seen<'_>) -> Option<(f64, String)> {
    let pool = seen.evidence.conditions.server.variables.get("innodb_buffer_pool_size")?.parse::<f64>().ok()?;
    let arms = seen.evidence.arms.iter().map(|arm| arm.name.as_str());
    let (arm, rss) = arms.filter_map(|arm| Some((arm, seen.got(arm, "load.rss")?))).next()?;
    let from = format!("arm “{arm}”: load.rss = {rss:.0}, the pool has {pool:.0}");
    divided(rss, pool).map(|ratio| (ratio, from))
}

/// MariaDB 10.11.19 and later reserve 8 TiB of addresses for a pool that may grow: the inverse ratio would be nearly 0.
pub(super) fn vsz_over_rss(seen: &Seen<'_>) -> Option<(f64, String)> {
    seen.ratio("load.vsz", "load.rss")
}

pub(super) fn rss_after_rest(seen: &Seen<'_>) -> Option<(f64, String)> {
    seen.ratio("idle.rss.end", "load.rss")
}

/// Whether the arm itself sets the algorithm to legacy; the file's section has backoff.
fn is_legacy(arm: &Arm) -> bool {
    arm.settings.iter().any(|(key, value)| key.ends_with("algorithm") && value == "legacy")
}

/// From the arms with backoff in which queries stalled.
pub(super) fn ticks_per_stall(seen: &Seen<'_>) -> Option<(f64, String)> {
    const TICKS: &str = "Innodb_buffer_pool_wait_free";
    let of = |arm: &Arm| {
        let ticks = arm.witnesses.iter().find(|witness| witness.counter == TICKS)?.delta();
        let slow = |span: &&evidence::Span| span.kind == evidence::SLOW_STATEMENT && span.entity == arm.name;
        let stalls = seen.evidence.spans.iter().filter(slow).count();
        let from = format!("arm “{}”: {TICKS} increased by {ticks}, {stalls} queries were slow", arm.name);
        (ticks > 0).then_some(())?;
        divided(ticks as f64, stalls as f64).map(|ratio| (ratio, from))
    };
    seen.evidence.arms.iter().filter(|arm| !is_legacy(arm)).find_map(of)
}

/// The longest query of the last turn with this pause (empty: without one) and backoff, and the name of its arm. The load must be the same as after
/// a pause: an arm with another setting of the server is not meant.
fn longest_with_backoff(seen: &Seen<'_>, pause: &str) -> Option<(String, f64)> {
    let is_meant = |arm: &Arm| !arm.settings.keys().any(|key| key.starts_with("server."));
    let arms = seen.with("load.pause", |written| written == pause).into_iter().filter(|(arm, _)| is_meant(arm));
    arms.filter_map(|(arm, summary)| Some((arm.name.clone(), summary.service?.max_us))).next_back()
}

pub(super) fn backoff_after_pause(seen: &Seen<'_>) -> Option<(f64, String)> {
    let (five, short) = longest_with_backoff(seen, "5s")?;
    let (sixty, long) = longest_with_backoff(seen, "60s")?;
    let from = format!("longest query of “{sixty}”: {long:.0} us, of “{five}”: {short:.0} us");
    divided(long, short).map(|ratio| (ratio, from))
}

/// Why a longer pause gives no longer stall: what the server does, as `capability` knows it, and how long queries stall without any pause.
pub(super) fn no_longer_stall(seen: &Seen<'_>) -> Option<String> {
    let (without, none) = longest_with_backoff(seen, "")?;
    let (sixty, long) = longest_with_backoff(seen, "60s")?;
    let measured = format!(
        "without any pause the longest query takes {none:.0} us (“{without}”), after one of 60 s {long:.0} us (“{sixty}”)"
    );
    let server = &seen.evidence.conditions.server;
    let row = || capability::free_list(server.flavour.parse().ok()?, &Version::find_in(&server.version)?);
    let adapts = |refiller: &Refiller| match refiller {
        Refiller::Manager { adapt, .. } => Some(*adapt),
        Refiller::Cleaner { .. } => None,
    };
    let adapt = row().and_then(|row| row.refillers.iter().find_map(adapts));
    Some(match adapt {
        Some(Adapt { progress: Progress::Flushed, longest_ms, .. }) => format!(
            "{measured}: in {} {} only pages that were written count as progress of the LRU manager, and this load writes none, so that an empty \
             list does not shorten its sleep: it is near its longest, {longest_ms} ms, before any pause",
            server.flavour, server.version
        ),
        _ => measured,
    })
}

/// The longest query of each algorithm, over all turns of the arms with a pause of a minute.
pub(super) fn backoff_over_legacy(seen: &Seen<'_>) -> Option<(f64, String)> {
    let longest = |is_wanted: fn(&Arm) -> bool| {
        let arms = seen.with("load.pause", |written| written == "60s").into_iter().filter(|(arm, _)| is_wanted(arm));
        let each = arms.filter_map(|(arm, summary)| Some((summary.service?.max_us, arm.name.clone())));
        each.max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let (backoff, of_backoff) = longest(|arm| !is_legacy(arm))?;
    let (legacy, of_legacy) = longest(is_legacy)?;
    let from = format!("longest query of “{of_backoff}”: {backoff:.0} us, of “{of_legacy}”: {legacy:.0} us");
    divided(backoff, legacy).map(|ratio| (ratio, from))
}

/// Whether the server's memory was in huge pages in this arm.
fn is_huge(arm: &Arm) -> bool {
    arm.settings.get(HUGE_PAGES).is_some_and(|word| ["true", "on", "try"].contains(&word.as_str()))
}

/// The bytes of page tables of a page of 4 KiB that a connection has touched: of each arm with pages of 4 KiB and the arm that differs from it by huge
/// pages alone. What a connection has also with huge pages (the program, libraries, its own memory) is taken off. Of several such pairs, the one that is
/// farthest from the law.
pub(super) fn page_table_entry(seen: &Seen<'_>) -> Option<(f64, String)> {
    let arms = || seen.evidence.arms.iter();
    let pairs = arms().filter(|arm| !is_huge(arm)).filter_map(|small| {
        let huge = arms().find(|other| is_huge(other) && differ_by_huge_pages(small, other))?;
        entry_of(seen, &small.name, &huge.name)
    });
    pairs.max_by(|a, b| (a.0 - ENTRY_BYTES).abs().total_cmp(&(b.0 - ENTRY_BYTES).abs()))
}

fn differ_by_huge_pages(one: &Arm, other: &Arm) -> bool {
    let others = |arm: &Arm| {
        let settings = arm.settings.iter().filter(|(key, _)| *key != HUGE_PAGES);
        settings.map(|(key, value)| (key.clone(), value.clone())).collect::<Vec<_>>()
    };
    others(one) == others(other)
}

fn entry_of(seen: &Seen<'_>, small: &str, huge: &str) -> Option<(f64, String)> {
    let both = |what: &str| Some((seen.got(small, what)?, seen.got(huge, what)?));
    let (tables, mapped) = (both("connection.page_tables")?, both("connection.shared_mapped")?);
    let from = format!(
        "arms “{small}” and “{huge}”: connection.page_tables = {:.0} and {:.0}, connection.shared_mapped = {:.0} and {:.0}",
        tables.0, tables.1, mapped.0, mapped.1
    );
    divided(tables.0 - tables.1, mapped.0 - mapped.1).map(|ratio| (ratio * PAGE_BYTES, from))
}

/// The most page tables of the server, over the arms with or without huge pages, and the name of the arm.
fn most_page_tables(seen: &Seen<'_>, huge: bool) -> Option<(f64, String)> {
    let arms = seen.evidence.arms.iter().filter(|arm| is_huge(arm) == huge);
    let each = arms.filter_map(|arm| Some((seen.got(&arm.name, "server.page_tables")?, arm.name.clone())));
    each.max_by(|a, b| a.0.total_cmp(&b.0))
}

pub(super) fn page_tables_over_huge(seen: &Seen<'_>) -> Option<(f64, String)> {
    let (small, of_small) = most_page_tables(seen, false)?;
    let (huge, of_huge) = most_page_tables(seen, true)?;
    let from = format!("server.page_tables: {small:.0} bytes in “{of_small}”, {huge:.0} in “{of_huge}”");
    divided(small, huge).map(|ratio| (ratio, from))
}

/// From the first arm in huge pages.
pub(super) fn huge_over_buffers(seen: &Seen<'_>) -> Option<(f64, String)> {
    let buffers = seen.evidence.conditions.server.variables.get("shared_buffers")?;
    let buffers = buffers.parse::<units::Bytes>().ok()?.0 as f64;
    let mut arms = seen.evidence.arms.iter().filter(|arm| is_huge(arm)).map(|arm| arm.name.as_str());
    let (huge, arm) = arms.find_map(|arm| Some((seen.got(arm, "server.huge_pages")?, arm)))?;
    let from = format!("arm “{arm}”: server.huge_pages = {huge:.0}, shared_buffers = {buffers:.0}");
    divided(huge, buffers).map(|ratio| (ratio, from))
}

pub(super) fn page_tables_by_connections(seen: &Seen<'_>) -> Option<(f64, String)> {
    let small = seen.evidence.arms.iter().filter(|arm| !is_huge(arm));
    let mut each: Vec<(f64, &str)> =
        small.filter_map(|arm| Some((seen.got(&arm.name, "server.page_tables")?, arm.name.as_str()))).collect();
    each.sort_by(|a, b| a.0.total_cmp(&b.0));
    let [(few, of_few), .., (many, of_many)] = each.as_slice() else { return None };
    let from = format!("server.page_tables: {many:.0} bytes in “{of_many}”, {few:.0} in “{of_few}”");
    divided(*many, *few).map(|ratio| (ratio, from))
}

/// The accounts of the clients beside the arm's load.
fn accounts<'a>(seen: &'a Seen<'_>, arm: &Arm) -> Vec<&'a str> {
    let of_arm = seen.evidence.measured.iter().filter(|it| it.arm.as_deref() == Some(arm.name.as_str()));
    of_arm.filter_map(|it| it.what.strip_prefix("beside.")?.strip_suffix(".refused")).collect()
}

/// The application's account, and the arm in which it is alone beside the load.
fn application<'a>(seen: &'a Seen<'_>) -> Option<(&'a Arm, &'a str)> {
    let alone = |arm: &'a Arm| match accounts(seen, arm).as_slice() {
        [account] => Some((arm, *account)),
        _ => None,
    };
    seen.evidence.arms.iter().find_map(alone)
}

/// The first arm in which another account is beside the application, with or without statements before the load (they set the limit).
fn beside_leak<'a>(seen: &'a Seen<'_>, application: &str, with_limit: bool) -> Option<&'a Arm> {
    let leaks = |arm: &Arm| accounts(seen, arm).iter().any(|account| *account != application);
    let limits = |arm: &Arm| arm.settings.keys().any(|key| key.starts_with("load.before"));
    seen.evidence.arms.iter().find(|arm| leaks(arm) && limits(arm) == with_limit)
}

/// Refused logins of the application.
fn refused(seen: &Seen<'_>, with_limit: bool) -> Option<(f64, String)> {
    let (_, account) = application(seen)?;
    let arm = beside_leak(seen, account, with_limit)?;
    let what = format!("beside.{account}.refused");
    Some((seen.got(&arm.name, &what)?, format!("arm “{}”: {what}", arm.name)))
}

pub(super) fn refused_beside_leak(seen: &Seen<'_>) -> Option<(f64, String)> {
    refused(seen, false)
}

pub(super) fn refused_with_limit(seen: &Seen<'_>) -> Option<(f64, String)> {
    refused(seen, true)
}

/// The application's logins beside a leak with a limit over those alone: its throughput, for it asks once over each connection.
pub(super) fn served_with_limit(seen: &Seen<'_>) -> Option<(f64, String)> {
    let (alone, account) = application(seen)?;
    let limited = beside_leak(seen, account, true)?;
    let what = format!("beside.{account}.opened");
    let (of_limited, of_alone) = (seen.got(&limited.name, &what)?, seen.got(&alone.name, &what)?);
    let from = format!("{what}: {of_limited:.0} in “{}”, {of_alone:.0} in “{}”", limited.name, alone.name);
    divided(of_limited, of_alone).map(|ratio| (ratio, from))
}
