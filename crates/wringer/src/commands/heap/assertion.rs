// SPDX-License-Identifier: Apache-2.0
//! Assertions on a profile: `growth<1M`, `Log_event::read_log_event<4M`.

use super::grown::in_line;
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;
use heap::{AskedBelow, Growth, Holdings, Tree, base_name};
use serde::Serialize;
use std::str::FromStr;
use units::Bytes;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assertion {
    text: String,
    /// `None`: no function.
    function: Option<String>,
    limit: Bytes,
}

impl FromStr for Assertion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (what, limit) = text.rsplit_once('<').ok_or("write it as growth<1M, or FUNCTION<4M")?;
        let limit = limit.trim().parse().map_err(|error: units::ParseError| error.to_string())?;
        let what = what.trim();
        if what.is_empty() {
            return Err("a function is missing ahead of `<`, or the word growth".to_owned());
        }
        Ok(Self { text: text.to_owned(), function: (what != "growth").then(|| what.to_owned()), limit })
    }
}

/// Whether an assertion holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Verdict {
    pub(super) assertion: String,
    /// `None`: it cannot be told; `notes` has the reason.
    pub(super) holds: Option<bool>,
    /// The measured bytes: for `growth`, the largest growth of all functions; for a function, the bytes that it holds at the end. `None`: there is one
    /// moment, which tells no growth.
    pub(super) bytes: Option<i128>,
    /// The bounds of these bytes, whichever function holds what the profiler hides below its threshold. Of a sample, in 95 of 100 cases.
    pub(super) at_least_bytes: Option<i128>,
    pub(super) at_most_bytes: Option<i128>,
    pub(super) function: Option<String>,
    /// The function that is charged with most of what the asserted one asked for. `None`: the asserted function holds memory itself, or is on no path.
    pub(super) charged_to: Option<String>,
    pub(super) notes: Vec<&'static str>,
}

/// What the profile does not tell.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known {
    /// Growth would be counted from a moment to itself.
    pub(super) is_one_moment: bool,
    /// Some of what the heap held at the first moment is behind a damage of the file.
    pub(super) is_start_lost: bool,
    /// The end, or some of what the heap held at the last moment, is behind a damage of the file.
    pub(super) is_end_lost: bool,
}

const DAMAGED: &str = "the file is damaged, and what the heap held behind the damage is not known";
const ONE_MOMENT: &str = "there is one moment, and growth needs two";
const HIDDEN: &str = "the profiler hides too many bytes below its threshold";
const SAMPLED: &str = "the sizes are estimates, and the limit is within their errors";
const NO_FUNCTION: &str = "no function that holds memory has this name at either moment";
const BELOW: &str = "it holds nothing itself: what it asked for is charged to the functions that allocated it";

/// Measured, at least, at most; `None`: not known.
type Bounds = (i128, Option<i128>, Option<i128>);

impl Assertion {
    /// What functions hold that the asserted one called, at this moment.
    pub(super) fn asked_below(&self, tree: &Tree) -> Option<AskedBelow> {
        let name = self.function.as_ref()?;
        tree.asked_below(&|function| is_named(name, function))
    }

    /// `below`: of the end, as `after`.
    pub(super) fn judge(&self, grown: &[Growth], below: Option<AskedBelow>, after: &Holdings, known: Known) -> Verdict {
        let is_charged = self.of_name(grown).any(|it| it.after_bytes > Some(0));
        let below = below.filter(|it| !is_charged && it.bytes > 0);
        let asked_below = below.as_ref().map_or(0, |it| it.bytes.into());
        let (limit, bounds) = (i128::from(self.limit.0), self.bounds(grown, after, asked_below, known));
        let is_sampled = after.sampled_every_bytes.is_some() || grown.iter().any(|it| it.is_sampled);
        let holds = bounds.and_then(|(_, at_least, at_most)| match () {
            () if at_least.is_some_and(|it| it >= limit) => Some(false),
            () if at_most.is_some_and(|it| it < limit) => Some(true),
            () => None,
        });
        let hides = match &below {
            _ if known.is_end_lost || known.is_start_lost => DAMAGED,
            Some(_) => BELOW,
            None if is_sampled => SAMPLED,
            None => HIDDEN,
        };
        let mut notes = Vec::new();
        notes.extend(bounds.is_none().then_some(ONE_MOMENT));
        let is_unknown = self.function.is_some() && below.is_none() && self.of_name(grown).next().is_none();
        notes.extend(is_unknown.then_some(NO_FUNCTION));
        notes.extend((bounds.is_some() && holds.is_none()).then_some(hides));
        let function = match &self.function {
            None if bounds.is_none() => None,
            None => grown.first().map(|most| most.function.clone()),
            name => name.clone(),
        };
        Verdict {
            assertion: self.text.clone(),
            holds,
            bytes: bounds.map(|(bytes, _, _)| bytes),
            at_least_bytes: bounds.and_then(|(_, at_least, _)| at_least),
            at_most_bytes: bounds.and_then(|(_, _, at_most)| at_most),
            function,
            charged_to: below.and_then(|it| it.charged_to),
            notes,
        }
    }

    /// `None`: one moment tells no growth.
    fn bounds(&self, grown: &[Growth], after: &Holdings, asked_below: i128, known: Known) -> Option<Bounds> {
        let at_most = |bytes: i128| (!known.is_end_lost).then_some(bytes);
        if let Some(name) = &self.function {
            let held = after.bounds(&|function| is_named(name, function));
            return Some((held.bytes, Some(held.at_least_bytes), at_most(held.at_most_bytes + asked_below)));
        }
        let (bytes, at_least, most) = of_growth(grown, after.most_unnamed_bytes(grown.len()));
        let start_known = |_: &i128| !known.is_start_lost;
        (!known.is_one_moment).then_some((bytes, Some(at_least).filter(start_known), at_most(most).filter(start_known)))
    }

    fn of_name<'a>(&self, grown: &'a [Growth]) -> impl Iterator<Item = &'a Growth> {
        grown.iter().filter(|it| self.function.as_ref().is_some_and(|name| is_named(name, &it.function)))
    }
}

/// The largest growth of all functions. A function of which the profiler shows nothing may have grown by all that is hidden at the end, or that a sample
/// may have missed: `unnamed`.
fn of_growth(grown: &[Growth], unnamed: i128) -> (i128, i128, i128) {
    let bytes = grown.first().and_then(|most| most.growth_bytes).unwrap_or(0);
    let at_least = grown.iter().map(|it| it.low_bytes).max().unwrap_or(0);
    let at_most = grown.iter().map(|it| it.high_bytes).max().unwrap_or(unnamed);
    (bytes, at_least, at_most.max(unnamed))
}

/// Either name may lack the arguments.
fn is_named(asked: &str, function: &str) -> bool {
    asked == function || asked == base_name(function) || base_name(asked) == function
}

/// The exit code of all verdicts, with what would help where one cannot be told.
pub(super) fn outcome(verdicts: &[Verdict]) -> Outcome {
    for told in verdicts.iter().filter(|it| it.holds.is_some()) {
        told.notes.iter().for_each(|note| terminal::say(format_args!("note: {}: {note}", told.assertion)));
    }
    let of = |holds: Option<bool>| verdicts.iter().find(|it| it.holds == holds);
    if let Some(broken) = of(Some(false)) {
        return Err(Failure::message(Exit::Finding, format!("{} does not hold", broken.assertion)));
    }
    let Some(unknown) = of(None) else { return Ok(()) };
    let what = format!("whether {} holds cannot be told: {}", unknown.assertion, unknown.notes.join("; "));
    let below = unknown.charged_to.as_deref().map_or_else(
        || "it only passes allocations on; assert one of the functions that call it".to_owned(),
        |function| format!("assert the function that most of it is charged to, '{}', or growth", in_line(function)),
    );
    let hint = if unknown.notes.contains(&BELOW) {
        below.as_str()
    } else if unknown.notes.contains(&DAMAGED) {
        "profile again, so that the file is whole; of Massif's and heaptrack's files, --to NUMBER names a moment before the damage"
    } else if unknown.notes.contains(&ONE_MOMENT) {
        "give it two moments: several files of gperftools or jemalloc, or --from and --to; Massif gives every tenth snapshot a tree, \
         --detailed-freq=1 all of them"
    } else if unknown.notes.contains(&SAMPLED) {
        "profile with more samples: jemalloc looks at each allocation with lg_prof_sample:0, and tcmalloc with HEAPPROFILE"
    } else {
        "profile with a lower --threshold of Massif, so that it hides less"
    };
    Err(Failure::message(Exit::Missing, what).hint(hint.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grown(function: &str, before: u64, after: u64, [hidden_before, hidden_after]: [u64; 2]) -> Growth {
        let growth_bytes = i128::from(after) - i128::from(before);
        Growth {
            function: function.into(),
            path: Vec::new(),
            subsystem: None,
            growth_bytes: Some(growth_bytes),
            low_bytes: growth_bytes - i128::from(hidden_before),
            high_bytes: growth_bytes + i128::from(hidden_after),
            before_bytes: Some(before),
            after_bytes: Some(after),
            is_sampled: false,
        }
    }

    /// What these functions hold at the end.
    fn held(grown: &[Growth], hidden_bytes: u64) -> Holdings {
        let held = |it: &Growth| heap::Held {
            function: it.function.clone(),
            path: Vec::new(),
            subsystem: None,
            bytes: it.after_bytes.unwrap(),
            error_bytes: 0,
            parts: Vec::new(),
        };
        Holdings { functions: grown.iter().map(held).collect(), hidden_bytes, ..Holdings::default() }
    }

    fn judged(assertion: &str, grown: &[Growth], hidden: u64) -> Verdict {
        assertion.parse::<Assertion>().unwrap().judge(grown, None, &held(grown, hidden), Known::default())
    }

    #[test]
    fn what_is_hidden_widens_both_bounds_of_growth() {
        // f had 1 KiB, and perhaps all of the 4 KiB that were hidden before
        let all = [grown("f", 1024, 4096, [4096, 0])];
        let told = judged("growth<2K", &all, 0);
        assert_eq!((told.holds, told.at_least_bytes, told.at_most_bytes), (None, Some(-1024), Some(3072)));
        assert_eq!(told.notes, [HIDDEN]);
        assert_eq!(judged("growth<4K", &all, 0).holds, Some(true));
        let sure = [grown("f", 1024, 4096, [512, 0])];
        assert_eq!(judged("growth<2K", &sure, 0).holds, Some(false));
        // all functions shrank, and another one may have grown by what is hidden now
        let shrunk = [grown("f", 8192, 0, [0, 4096])];
        let told = judged("growth<1K", &shrunk, 4096);
        assert_eq!((told.holds, told.at_most_bytes), (None, Some(4096)));
        assert_eq!(judged("growth<8K", &shrunk, 4096).holds, Some(true));
    }

    #[test]
    fn one_moment_tells_no_growth() {
        let all = [grown("f", 4096, 4096, [0, 0])];
        let known = Known { is_one_moment: true, ..Known::default() };
        let judge = |text: &str| text.parse::<Assertion>().unwrap().judge(&all, None, &held(&all, 0), known);
        let told = judge("growth<1M");
        assert_eq!((told.holds, told.bytes, told.notes.as_slice()), (None, None, [ONE_MOMENT].as_slice()));
        assert_eq!(judge("f<1M").holds, Some(true), "what a function holds needs one moment");
    }

    /// What lies behind a damage may be any number of bytes: a limit that is broken already stays broken, and nothing else is known.
    #[test]
    fn what_is_behind_a_damage_is_not_known() {
        let all = [grown("f", 0, 4096, [0, 0])];
        let judge = |text: &str, is_start_lost: bool, is_end_lost: bool| {
            let known = Known { is_one_moment: false, is_start_lost, is_end_lost };
            text.parse::<Assertion>().unwrap().judge(&all, None, &held(&all, 0), known)
        };
        for text in ["growth<1M", "f<1M"] {
            let told = judge(text, false, true);
            assert_eq!((told.holds, told.at_least_bytes, told.at_most_bytes), (None, Some(4096), None), "{text}");
            assert_eq!(told.notes, [DAMAGED], "{text}");
        }
        assert_eq!([judge("growth<4K", false, true).holds, judge("f<4K", false, true).holds], [Some(false); 2]);
        assert_eq!(judge("g<1M", false, true).notes, [NO_FUNCTION, DAMAGED]);
        // f may have held all of it before
        let told = judge("growth<4K", true, false);
        assert_eq!((told.holds, told.bytes, told.at_least_bytes), (None, Some(4096), None));
        assert_eq!(judge("f<1M", true, false).holds, Some(true), "what it holds at the end is known");
    }

    /// A program that held nothing at first, and then 40 MiB, of which 100 blocks were seen.
    #[test]
    fn an_estimate_breaks_a_limit_only_beyond_its_error() {
        let mut after = held(&[grown("f", 0, 40 << 20, [0, 0])], 0);
        after.sampled_every_bytes = Some(1 << 19);
        after.functions[0].error_bytes = 4 << 20;
        let all = heap::growth(&Holdings::default(), &after);
        let judge = |text: &str| text.parse::<Assertion>().unwrap().judge(&all, None, &after, Known::default());
        for (limit, holds) in [("31M", Some(false)), ("39M", None), ("41M", None), ("52M", Some(true))] {
            for what in ["growth", "f"] {
                let told = judge(&format!("{what}<{limit}"));
                assert_eq!((told.holds, told.bytes), (holds, Some(40 << 20)), "{told:?}");
                assert_eq!(told.notes.as_slice(), if holds.is_none() { &[SAMPLED][..] } else { &[] });
            }
        }
        let unseen = judge("g<1M");
        assert_eq!((unseen.holds, unseen.at_most_bytes), (None, Some(2 << 20)), "{unseen:?}");
        assert_eq!(judge("g<3M").holds, Some(true));
    }

    /// Of a caller it is only known that it holds nothing of what its callees hold, or all of it.
    #[test]
    fn of_a_caller_it_cannot_be_told() {
        let all = [grown("copy_text", 0, 40 << 20, [0, 0])];
        let below = AskedBelow { bytes: 36 << 20, charged_to: Some("copy_text".into()) };
        let (after, below) = (held(&all, 0), Some(below));
        let judge =
            |text: &str| text.parse::<Assertion>().unwrap().judge(&all, below.clone(), &after, Known::default());
        let told = judge("read<1M");
        assert_eq!((told.holds, told.bytes, told.at_most_bytes), (None, Some(0), Some(36 << 20)));
        assert_eq!((told.notes.as_slice(), told.charged_to.as_deref()), ([BELOW].as_slice(), Some("copy_text")));
        assert_eq!(judge("read<37M").holds, Some(true), "not even with all that it asked for");
        let own = judge("copy_text<1M");
        assert_eq!((own.holds, own.charged_to), (Some(false), None), "what it holds itself is told");
    }

    #[test]
    fn names_with_and_without_arguments() {
        let names = ["(anonymous namespace)::grow(int)", "A::operator()(int)", "sort(int, bool (*)(int))", "palloc"];
        let all = names.map(|name| grown(name, 0, 4096, [0, 0]));
        let asked = [
            ("(anonymous namespace)::grow", 4096),
            ("(anonymous namespace)::grow(int)", 4096),
            ("A::operator()", 4096),
            ("A::operator()(int)", 4096),
            ("sort", 4096),
            ("palloc(unsigned long)", 4096),
            ("A::operator", 0),
            ("grow", 0),
        ];
        for (name, bytes) in asked {
            let told = judged(&format!("{name}<1M"), &all, 0);
            assert_eq!((told.bytes, told.holds), (Some(bytes), Some(true)), "{name}");
            let notes: &[&str] = if bytes == 0 { &[NO_FUNCTION] } else { &[] };
            assert_eq!(told.notes, notes, "{name}");
        }
        assert_eq!(judged("grow<1K", &all, 2048).notes, [NO_FUNCTION, HIDDEN]);
    }
}
