// SPDX-License-Identifier: Apache-2.0
//! The same figures, from a recording. An arm is recognised by its settings and by its measured values, not by its name.

use crate::modes::Mode;
use crate::summary::ArmSummary;
use evidence::{Arm, Evidence};

/// A run's figures.
pub(super) struct Seen<'a> {
    pub(super) evidence: &'a Evidence,
    /// In the order of the recording's arms.
    pub(super) arms: &'a [ArmSummary],
}

/// The figure, and the values from which it is computed. `None`: the run has not measured it.
pub(super) type FigureOf = fn(&Seen<'_>) -> Option<(f64, String)>;

const PAGE_BYTES: f64 = 4096.0;

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

pub(super) fn scan_warm_over_cold(seen: &Seen<'_>) -> Option<(f64, String)> {
    seen.ratio_where("probe.scan.warm", "probe.scan.cold", &|arm| {
        seen.got(&arm.name, "probe.scan.warm.cached").is_some_and(|share| share > 0.9)
    })
}

pub(super) fn cached_cold_over_warm(seen: &Seen<'_>) -> Option<(f64, String)> {
    seen.ratio("probe.read.cached.cold", "probe.read.cached.warm")
}

pub(super) fn direct_cold_over_warm(seen: &Seen<'_>) -> Option<(f64, String)> {
    seen.ratio("probe.read.direct.cold", "probe.read.direct.warm")
}

/// The throughput of the first arm without squeezed RAM over that of the slowest arm with it.
pub(super) fn load_over_squeezed(seen: &Seen<'_>) -> Option<(f64, String)> {
    let is_squeezed =
        |arm: &Arm| arm.settings.keys().any(|key| key.starts_with("squeeze.ram") || key == "squeeze.server_ram");
    let all = || seen.evidence.arms.iter().zip(seen.arms);
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
    let (arm, rss) = arms.filter_map(|arm| Some((arm, seen.got(arm, "idle.rss.begin")?))).next()?;
    let from = format!("arm “{arm}”: RSS {rss:.0} bytes at the end of the load, the pool has {pool:.0}");
    divided(rss, pool).map(|ratio| (ratio, from))
}

/// MariaDB 10.11.19 and later reserve 8 TiB of addresses for a pool that may grow: the inverse ratio would be nearly 0.
pub(super) fn vsz_over_rss(seen: &Seen<'_>) -> Option<(f64, String)> {
    seen.ratio("idle.vsz.end", "idle.rss.end")
}

pub(super) fn rss_after_rest(seen: &Seen<'_>) -> Option<(f64, String)> {
    seen.ratio("idle.rss.end", "idle.rss.begin")
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

pub(super) fn backoff_after_pause(seen: &Seen<'_>) -> Option<(f64, String)> {
    let is_backoff = |arm: &Arm| !arm.settings.keys().any(|key| key.ends_with("algorithm"));
    let longest = |pause: &str| {
        let arms = seen.with("load.pause", |written| written == pause).into_iter().filter(|(arm, _)| is_backoff(arm));
        arms.filter_map(|(arm, summary)| Some((arm.name.clone(), summary.service?.max_us))).next_back()
    };
    let (five, short) = longest("5s")?;
    let (sixty, long) = longest("60s")?;
    let from = format!("longest query of “{sixty}”: {long:.0} us, of “{five}”: {short:.0} us");
    divided(long, short).map(|ratio| (ratio, from))
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
    arm.settings.get("server.huge_pages").is_some_and(|word| ["true", "on", "try"].contains(&word.as_str()))
}

pub(super) fn page_table_entry(seen: &Seen<'_>) -> Option<(f64, String)> {
    let (ratio, from) = seen.ratio_where("connection.page_tables", "connection.shared_mapped", &|arm| !is_huge(arm))?;
    Some((ratio * PAGE_BYTES, from))
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

/// Refused logins of the application. The application's account is the one that is alone beside the load in some arm. The figure is from the first
/// arm in which another account is beside it, with or without statements before the load (they set the limit).
fn refused(seen: &Seen<'_>, with_limit: bool) -> Option<(f64, String)> {
    let alone = |arm: &Arm| match accounts(seen, arm).as_slice() {
        [account] => Some(*account),
        _ => None,
    };
    let application = seen.evidence.arms.iter().find_map(alone)?;
    let leaks = |arm: &Arm| accounts(seen, arm).iter().any(|account| *account != application);
    let limits = |arm: &Arm| arm.settings.keys().any(|key| key.starts_with("load.before"));
    let arm = seen.evidence.arms.iter().find(|arm| leaks(arm) && limits(arm) == with_limit)?;
    let what = format!("beside.{application}.refused");
    Some((seen.got(&arm.name, &what)?, format!("arm “{}”: {what}", arm.name)))
}

pub(super) fn refused_beside_leak(seen: &Seen<'_>) -> Option<(f64, String)> {
    refused(seen, false)
}

pub(super) fn refused_with_limit(seen: &Seen<'_>) -> Option<(f64, String)> {
    refused(seen, true)
}
