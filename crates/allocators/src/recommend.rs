// SPDX-License-Identifier: Apache-2.0
//! Which malloc to take, by a rule that can be read:
//!
//! 1. A malloc is out when one of its cells died, when another malloc served in all of its cells, or when a verdict shows it worse than the first
//!    malloc: lower throughput, a higher p99, more CPU a query, more memory at the peak or at the end of the rest. A cell that ran without something
//!    that was asked for does not count: some servers turn transparent huge pages off for themselves, and that is no property of the malloc.
//! 2. Each of the other mallocs is a candidate when a verdict shows it better in one of these figures, the peak excepted.
//! 3. The candidate with the least memory at the end of the rest is taken. Without a candidate, the first malloc is kept; but where no verdict was
//!    possible for one of the others, as where no cell of it or of the first malloc counts, or where a cell of the first malloc died, nothing is
//!    recommended.
//!
//! A difference that no verdict shows does not count, neither for a malloc nor against it.

use crate::cell::{Cell, MALLOC};
use crate::compare::{Comparison, IDLE_RSS, PEAK_RSS, idle_rss};
use crate::start;
use capability::MallocKind;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use verdict::{FEWEST_REPEATS, NoVerdict, Verdict};

/// The first malloc is kept.
pub(crate) const KEEP: &str = "keep";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recommendation {
    /// `keep`, or the malloc to take. `None`: no verdict was possible; `because` has the reason.
    pub take: Option<String>,
    /// Sentences: in which figures this malloc is better, or why no other malloc is taken.
    pub because: Vec<String>,
    /// Memory at the end of the rest, minus that of the first malloc, in bytes. Above 0: the price of this malloc; below 0: what it saves. `None`:
    /// not seen, or `keep`.
    pub price_bytes: Option<i64>,
    /// On how many CPUs the cells ran: `up to 2 CPUs`.
    pub scope: String,
    /// Sentences: what a reader must know of the cells.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// `cpus`: the largest number of CPUs that a server had.
pub fn recommend(cells: &[Cell], comparisons: &[Comparison], base: &str, cpus: u32) -> Recommendation {
    let scope = format!("up to {cpus} CPU{}", if cpus == 1 { "" } else { "s" });
    let mut others: Vec<&str> = Vec::new();
    for cell in cells.iter().filter(|cell| cell.malloc != base) {
        if !others.contains(&cell.malloc.as_str()) {
            others.push(&cell.malloc);
        }
    }
    let (mut because, mut candidates, mut is_open) = (Vec::new(), BTreeMap::new(), others.is_empty());
    because.extend(is_open.then(|| format!("no verdict: no cell of a malloc beside {base} has a result")));
    if !is_open && !cells.iter().any(|cell| cell.malloc == base && cell.counts()) {
        is_open = true;
        because.push(format!("no verdict: no cell of {base} counts: {}", why_none(cells, base)));
    }
    if let Some(died) = died(cells, base) {
        is_open = true;
        because.push(format!("{base} is not kept: {died}"));
    }
    for malloc in others {
        let own = || cells.iter().filter(|cell| cell.malloc == malloc);
        if let Some(died) = died(cells, malloc) {
            because.push(format!("{malloc} is out: {died}"));
            continue;
        }
        let (all, not_asked) = (own().count(), own().filter(|cell| !cell.as_asked).count());
        if not_asked == all {
            let is_other = |cell: &Cell| cell.not_in_force.iter().any(|what| what == MALLOC);
            if own().all(is_other) {
                because.push(format!("{malloc} is out: another malloc served in each of its cells"));
            } else {
                is_open = true;
                because.push(format!("{malloc}: no verdict: no cell of it counts: {}", why_none(cells, malloc)));
            }
            continue;
        }
        if not_asked > 0 {
            because.push(format!(
                "{malloc}: {not_asked} of its {all} cells ran without something that was asked for{}, and do not count",
                lacking(own()).map_or_else(String::new, |what| format!(" ({what})"))
            ));
        }
        let shown = || comparisons.iter().filter(|it| it.malloc == malloc).filter_map(|it| Some((it, is_better(it)?)));
        let words = |wanted: bool| -> Vec<String> {
            shown().filter(|(_, is_better)| *is_better == wanted).map(|(it, _)| said(it)).collect()
        };
        let (worse, better) = (words(false), words(true));
        if !worse.is_empty() {
            because.push(format!("{malloc} is out: {}", worse.join("; ")));
        } else if let Some(why) = no_verdict(malloc, comparisons) {
            is_open = true;
            because.push(format!("{malloc}: no verdict: {why}"));
        } else if better.is_empty() {
            because.push(format!("{malloc}: no difference is shown"));
        } else {
            candidates.insert(malloc, (idle_in_common(cells, malloc, base), better));
        }
    }
    let own = |idle: Option<(f64, f64)>| idle.map_or(f64::INFINITY, |(own, _)| own);
    let best = candidates.iter().min_by(|one, other| own(one.1.0).total_cmp(&own(other.1.0)));
    let of_cells = [disturbed(cells), inferred(cells), doubtful(cells)];
    let notes = of_cells.into_iter().flatten().chain(by_chance(comparisons)).collect();
    match best {
        None if is_open => Recommendation { take: None, because, price_bytes: None, scope, notes },
        None => {
            because.extend(start::is_a_change(base, cells));
            Recommendation { take: Some(KEEP.into()), because, price_bytes: None, scope, notes }
        }
        Some((malloc, (idle, better))) => {
            #[allow(clippy::cast_possible_truncation)] // bytes of RAM
            let price_bytes = idle.map(|(own, base)| (own - base) as i64);
            because.insert(0, format!("{malloc}: {}", better.join("; ")));
            Recommendation { take: Some((*malloc).to_owned()), because, price_bytes, scope, notes }
        }
    }
}

/// A cell of this malloc in which the server died, in words.
fn died(cells: &[Cell], malloc: &str) -> Option<String> {
    let died = cells.iter().find(|cell| cell.malloc == malloc && cell.state != "done")?;
    Some(format!("its cell in block {} ended as {}", died.block, died.state))
}

/// How often a table of as many equal mallocs shows a difference.
fn by_chance(comparisons: &[Comparison]) -> Option<String> {
    let pairs: BTreeSet<_> = comparisons.iter().map(|it| (&it.malloc, &it.thp, &it.cpus)).collect();
    let share = 1.0 - 0.95_f64.powi(i32::try_from(pairs.len()).ok()?);
    (pairs.len() > 1).then(|| {
        let (pairs, percent) = (pairs.len(), share * 100.0);
        format!("{pairs} pairs were judged: if all mallocs were equal, up to {percent:.0} % of such tables would show a difference by chance")
    })
}

/// Why no cell of this malloc counts.
fn why_none(cells: &[Cell], malloc: &str) -> String {
    let own = || cells.iter().filter(|cell| cell.malloc == malloc);
    match own().next() {
        None => "none was run".to_owned(),
        Some(_) if own().all(|cell| cell.state != "done") => "none ran to its end".to_owned(),
        Some(_) => format!(
            "what was asked for was not in force{}",
            lacking(own()).map_or_else(String::new, |what| format!(" ({what})"))
        ),
    }
}

/// What was not in force in some of these cells. `None`: it is not known.
fn lacking<'a>(cells: impl Iterator<Item = &'a Cell>) -> Option<String> {
    let what: BTreeSet<&str> = cells.flat_map(|cell| &cell.not_in_force).map(String::as_str).collect();
    let what: Vec<&str> = what.into_iter().collect();
    (!what.is_empty()).then(|| what.join(", "))
}

/// Why no figure of this malloc has a verdict. `None`: one has.
fn no_verdict(malloc: &str, comparisons: &[Comparison]) -> Option<String> {
    let own = || comparisons.iter().filter(|it| it.malloc == malloc);
    if own().any(|it| it.compared.verdict.is_some()) {
        return None;
    }
    let too_few = own().any(|it| it.compared.no_verdict == Some(NoVerdict::TooFewRepeats));
    let of_what = if too_few { "" } else { " that have the same figure" };
    Some(format!("it needs {FEWEST_REPEATS} repeats of both mallocs{of_what}"))
}

fn disturbed(cells: &[Cell]) -> Option<String> {
    let disturbed = cells.iter().filter(|cell| cell.disturbed).count();
    let told = || format!("{disturbed} of {} cells ran while the host was busy with other work", cells.len());
    (disturbed > 0).then(told)
}

fn inferred(cells: &[Cell]) -> Option<String> {
    let is_inferred = |cell: &&Cell| cell.serving_by.as_ref().is_some_and(|by| by.starts_with(MallocKind::INFERRED));
    let inferred = cells.iter().filter(is_inferred).count();
    let told = || {
        let all = cells.len();
        format!("in {inferred} of {all} cells it is inferred which malloc served, and not read in the server")
    };
    (inferred > 0).then(told)
}

fn doubtful(cells: &[Cell]) -> Option<String> {
    let doubtful = || cells.iter().filter(|cell| !cell.serving_doubts.is_empty());
    let first = doubtful().next()?;
    let (count, all) = (doubtful().count(), cells.len());
    let (malloc, doubts) = (&first.malloc, first.serving_doubts.join(", "));
    Some(format!("in {count} of {all} cells something contradicts which malloc served: in one of {malloc}, {doubts}"))
}

/// `None`: no difference is shown, or neither more nor less of this figure is better.
fn is_better(it: &Comparison) -> Option<bool> {
    let is_higher = match it.compared.verdict? {
        Verdict::Higher => true,
        Verdict::Lower => false,
        Verdict::NoDifferenceShown => return None,
    };
    let figure = it.figure.as_str();
    if figure.ends_with(": throughput") {
        return Some(is_higher);
    }
    if figure == PEAK_RSS {
        // a lower peak alone is no reason to change the malloc: its memory may stay as it is for ever
        return is_higher.then_some(false);
    }
    let less_is_better = figure.ends_with(": p99") || figure.ends_with(": cpu a query") || figure == IDLE_RSS;
    less_is_better.then_some(!is_higher)
}

fn said(it: &Comparison) -> String {
    let place: Vec<&str> = it.thp.as_deref().into_iter().chain(it.cpus.as_deref()).collect();
    let place = if place.is_empty() { String::new() } else { format!(" ({})", place.join(", ")) };
    let compared = &it.compared;
    match (compared.ratio, compared.low.zip(compared.high)) {
        (Some(ratio), Some((low, high))) => {
            format!("{} is {ratio:.2} times that of {} ({low:.2} to {high:.2}){place}", it.figure, it.base)
        }
        (Some(ratio), None) => format!("{} is {ratio:.2} times that of {}{place}", it.figure, it.base),
        // one of the two was 0: the difference was judged
        (None, _) => format!("{} differs from that of {}{place}", it.figure, it.base),
    }
}

/// RSS at the end of the rest, of a malloc and of the first malloc. Of each setting that both have: the mean over the cells that count; then the mean
/// over these settings.
fn idle_in_common(cells: &[Cell], malloc: &str, base: &str) -> Option<(f64, f64)> {
    let mut settings: BTreeMap<_, [Vec<f64>; 2]> = BTreeMap::new();
    for cell in cells.iter().filter(|cell| cell.counts()) {
        let side = [malloc, base].iter().position(|name| *name == cell.malloc);
        if let (Some(side), Some(bytes)) = (side, idle_rss(cell)) {
            settings.entry((&cell.thp, &cell.cpus)).or_default()[side].push(bytes);
        }
    }
    settings.retain(|_, sides| sides.iter().all(|values| !values.is_empty()));
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let over = |side: usize| mean(&settings.values().map(|sides| mean(&sides[side])).collect::<Vec<_>>());
    (!settings.is_empty()).then(|| (over(0), over(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Load, Marked};
    use crate::compare::comparisons;
    use evidence::Footprint;

    /// Three blocks of one malloc; each block is a little faster or slower than the one before it.
    fn cells(malloc: &str, rate: f64, idle_mib: u64) -> Vec<Cell> {
        let cell = |block: u32| {
            let factor = 1.0 + f64::from(block) * 0.001;
            let load = Load {
                arm: "oltp_read_only x8".into(),
                transactions_per_s: Some(rate * factor * factor),
                p99_us: 900.0 / factor,
                cpu_user_us_per_query: Some(20.0 * factor),
                cpu_system_us_per_query: Some(5.0),
                ..Load::default()
            };
            let footprint = Footprint {
                mark: "idle".into(),
                rss_bytes: Some((idle_mib << 20) + u64::from(block) * 4096),
                ..Footprint::default()
            };
            Cell {
                malloc: malloc.into(),
                as_asked: true,
                block,
                state: "done".into(),
                loads: vec![load],
                footprint: vec![Marked { arm: crate::BURST.into(), footprint }],
                ..Cell::default()
            }
        };
        (1..=5).map(cell).collect()
    }

    fn taken(cells: &[Cell]) -> Recommendation {
        recommend(cells, &comparisons(cells, "glibc"), "glibc", 2)
    }

    #[test]
    fn the_one_that_gives_memory_back_is_taken_with_its_price() {
        let all =
            [cells("glibc", 1000.0, 500), cells("jemalloc-background", 1000.0, 200), cells("glibc-trim", 1000.0, 210)];
        let told = taken(&all.concat());
        assert_eq!(
            (told.take.as_deref(), told.price_bytes),
            (Some("jemalloc-background"), Some(-300 << 20)),
            "{told:#?}"
        );
        assert_eq!(told.scope, "up to 2 CPUs");
        assert!(told.because[0].contains("idle rss is 0.40 times that of glibc"), "{told:#?}");
    }

    #[test]
    fn one_that_is_worse_in_anything_is_out_and_equal_ones_change_nothing() {
        let slower = taken(&[cells("glibc", 1000.0, 500), cells("mimalloc", 800.0, 200)].concat());
        assert!(
            slower.take.as_deref() == Some("keep") && slower.because[0].contains("mimalloc is out: oltp_read_only x8"),
            "{slower:#?}"
        );
        let same = taken(&[cells("glibc", 1000.0, 500), cells("other", 1000.0, 500)].concat());
        assert!(same.take.as_deref() == Some("keep") && same.because == ["other: no difference is shown"], "{same:#?}");
    }

    /// Two repeats have no verdict: nothing is known, neither for the other malloc nor for the first.
    #[test]
    fn without_a_verdict_nothing_is_recommended() {
        let mut all = [cells("glibc", 1000.0, 500), cells("jemalloc", 1000.0, 200)].concat();
        all.retain(|cell| cell.block <= 2);
        let told = taken(&all);
        assert_eq!((told.take.as_deref(), told.price_bytes), (None, None));
        assert_eq!(told.because, ["jemalloc: no verdict: it needs 3 repeats of both mallocs"]);
        all.retain(|cell| cell.malloc == "glibc");
        let told = taken(&all);
        assert_eq!(told.take, None);
        assert_eq!(told.because, ["no verdict: no cell of a malloc beside glibc has a result"]);
    }

    #[test]
    fn cells_on_a_busy_host_are_told() {
        let mut all = [cells("glibc", 1000.0, 500), cells("jemalloc", 1000.0, 200)].concat();
        assert!(taken(&all).notes.is_empty());
        all[3].disturbed = true;
        assert_eq!(taken(&all).notes, ["1 of 10 cells ran while the host was busy with other work"]);
    }

    #[test]
    fn a_malloc_that_was_not_read_or_is_contradicted_is_told() {
        let mut all = [cells("glibc", 1000.0, 500), cells("jemalloc", 1000.0, 200)].concat();
        all.iter_mut().for_each(|cell| cell.serving_by = Some("the address that mariadbd calls".into()));
        assert!(taken(&all).notes.is_empty());
        all[3].serving_by = Some("inferred: the first one with a malloc that is linked".into());
        all[6].serving_doubts = vec!["the server says system".into()];
        let notes = taken(&all).notes;
        assert!(notes[0].starts_with("in 1 of 10 cells it is inferred which malloc served"), "{notes:?}");
        assert!(notes[1].ends_with("contradicts which malloc served: in one of jemalloc, the server says system"));
    }

    /// Debian's MySQL 9 has tcmalloc: to keep glibc, as its cells had it, is a change of this server.
    #[test]
    fn to_keep_one_that_had_to_be_preloaded_is_told_as_a_change() {
        let mut all = [cells("glibc", 1000.0, 500), cells("other", 1000.0, 500)].concat();
        all.iter_mut().for_each(|cell| cell.preloaded = Some(vec!["libc.so.6".into()]));
        let told = taken(&all);
        assert!(told.take.as_deref() == Some("keep") && told.because.len() == 2, "{told:#?}");
        assert!(
            told.because[1].contains("with LD_PRELOAD=libc.so.6: where yours is not, this is a change"),
            "{told:#?}"
        );
    }

    #[test]
    fn one_that_died_or_was_not_in_force_is_out() {
        let mut all = [cells("glibc", 1000.0, 500), cells("tcmalloc", 1000.0, 100)].concat();
        all[7].state = "out_of_memory".into();
        let told = taken(&all);
        assert!(
            told.take.as_deref() == Some("keep") && told.because[0].contains("ended as out_of_memory"),
            "{told:#?}"
        );
        all[7].state = "done".into();
        all[7].as_asked = false;
        all[7].not_in_force = vec![MALLOC.into()];
        let said = "1 of its 5 cells ran without something that was asked for (malloc)";
        assert!(taken(&all).because.iter().any(|it| it.contains(said)));
        assert!(comparisons(&all, "glibc").iter().all(|it| it.compared.repeats_b == 4), "it is in no verdict");
        all[5..].iter_mut().for_each(|cell| (cell.as_asked, cell.not_in_force) = (false, vec![MALLOC.into()]));
        let told = taken(&all);
        assert!(
            told.take.as_deref() == Some("keep") && told.because[0].contains("another malloc served in each"),
            "{told:#?}"
        );
    }

    /// A malloc under which the server was killed is not kept, although its other cells count.
    #[test]
    fn a_first_malloc_under_which_the_server_died_is_not_kept() {
        let mut all = [cells("glibc", 1000.0, 500), cells("jemalloc", 1000.0, 500)].concat();
        all[1].state = "out_of_memory".into();
        let told = taken(&all);
        assert_eq!(told.take, None, "{told:#?}");
        assert_eq!(told.because[0], "glibc is not kept: its cell in block 2 ended as out_of_memory");
        // one that is better is taken all the same
        let mut all = [cells("glibc", 1000.0, 500), cells("jemalloc", 1000.0, 200)].concat();
        all[1].state = "out_of_memory".into();
        assert_eq!(taken(&all).take.as_deref(), Some("jemalloc"));
    }

    /// The peak is what the OOM killer looks at.
    #[test]
    fn one_with_a_higher_peak_is_out_although_less_stays() {
        let peak = |cells: Vec<Cell>, mib: u64| -> Vec<Cell> {
            let with = |mut cell: Cell| {
                cell.footprint[0].footprint.peak_rss_bytes = Some((mib << 20) + u64::from(cell.block) * 4096);
                cell
            };
            cells.into_iter().map(with).collect()
        };
        let all = [peak(cells("glibc", 1000.0, 500), 700), peak(cells("jemalloc", 1000.0, 200), 900)].concat();
        let told = taken(&all);
        assert!(
            told.take.as_deref() == Some("keep") && told.because[0].contains("jemalloc is out: peak rss"),
            "{told:#?}"
        );
        let all = [peak(cells("glibc", 1000.0, 500), 900), peak(cells("jemalloc", 1000.0, 500), 700)].concat();
        assert_eq!(taken(&all).take.as_deref(), Some("keep"), "a lower peak alone is no reason");
    }

    #[test]
    fn several_pairs_may_show_a_difference_by_chance() {
        let all = ["glibc", "a", "b", "c"].map(|name| cells(name, 1000.0, 500)).concat();
        let said = "3 pairs were judged: if all mallocs were equal, up to 14 % of such tables would show a difference by chance";
        assert_eq!(taken(&all).notes, [said]);
    }

    /// Cells that do not count say nothing, neither for a malloc nor against it.
    #[test]
    fn where_no_cell_counts_nothing_is_recommended() {
        let mut all = [cells("glibc", 1000.0, 500), cells("tcmalloc", 1000.0, 100)].concat();
        // MariaDB turns them off for itself
        all.iter_mut().for_each(|cell| (cell.as_asked, cell.not_in_force) = (false, vec!["thp".into()]));
        let told = taken(&all);
        assert_eq!(told.take, None, "{told:#?}");
        let said = [
            "glibc counts: what was asked for was not in force (thp)",
            "no cell of it counts: what was asked for was not",
        ];
        assert!(told.because.iter().zip(said).all(|(because, said)| because.contains(said)), "{told:#?}");
        // the other one alone: of an interrupted run
        let alone = taken(&cells("tcmalloc", 1000.0, 100)[..1]);
        assert_eq!(
            (alone.take, alone.because[0].as_str()),
            (None, "no verdict: no cell of glibc counts: none was run")
        );
        all[5..].iter_mut().for_each(|cell| cell.as_asked = true);
        assert_eq!(taken(&all).take, None, "the first one has no cell that counts");
    }

    /// MariaDB 10.11 turns transparent huge pages off for itself: the cells of `always` do not count, and the cells of `never` decide.
    #[test]
    fn a_setting_that_the_server_does_not_take_says_nothing_of_a_malloc() {
        let under = |thp: &str, as_asked: bool, idle: [u64; 2]| -> Vec<Cell> {
            let mut all = [cells("glibc", 1000.0, idle[0]), cells("jemalloc", 1000.0, idle[1])].concat();
            all.iter_mut().for_each(|cell| (cell.thp, cell.as_asked) = (Some(thp.into()), as_asked));
            all
        };
        let all = [under("never", true, [500, 200]), under("always", false, [900, 900])].concat();
        let told = taken(&all);
        assert_eq!((told.take.as_deref(), told.price_bytes), (Some("jemalloc"), Some(-300 << 20)), "{told:#?}");
        assert!(told.because.iter().any(|it| it.contains("5 of its 10 cells")), "{told:#?}");
    }
}
