// SPDX-License-Identifier: Apache-2.0
//! The results of a profile, as text and JSON.

use crate::commands::heap::grown;
use crate::exit::{Exit, Failure};
use explain::leak::{LeafPerRepetition, Leak, NO_LEAF, Verdict};
use heap::{Growth, Held, Holdings};
use host::files;
use profile::{Ended, Mark, Pace, Symbols, With};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use units::{Bytes, Span};

/// The content of `-o json`, and of `result.json` in the folder.
#[derive(Debug, Serialize)]
pub(super) struct Shown {
    pub(super) schema: u32,
    pub(super) sandbox: String,
    pub(super) server: String,
    pub(super) with: &'static str,
    pub(super) pages_as_heap: bool,
    pub(super) symbols: Option<Symbols>,
    /// `None`: the server was not started without Valgrind.
    pub(super) slow_down: Option<SlowDown>,
    pub(super) marks: Vec<Mark>,
    /// Growth is counted from this mark, which is the first, to the mark `to`, which is the last one before the statements' connection was closed.
    pub(super) from: usize,
    pub(super) to: usize,
    /// The growth of functions; the function that grew most is first.
    pub(super) growth: Vec<Growth>,
    /// The functions that held the heap at the mark `to`, the largest first.
    pub(super) functions: Vec<Held>,
    /// Bytes at the mark `to` that the profiler hides below its threshold.
    pub(super) hidden_bytes: u64,
    /// `None`: nothing was repeated, or too few inventories could be read.
    pub(super) leak: Option<Repeated>,
    pub(super) profile: PathBuf,
    pub(super) ended: Ended,
}

#[derive(Debug, Serialize)]
pub(super) struct SlowDown {
    native: Pace,
    profiled: Pace,
    /// The time of a query under the profiler, divided by its time without a profiler.
    times: f64,
    expected_low: f64,
    expected_high: f64,
}

impl SlowDown {
    pub(super) fn of(native: Pace, profiled: Pace, with: With) -> Self {
        let (expected_low, expected_high) = with.expected_times();
        Self { native, profiled, times: profiled.times(&native), expected_low, expected_high }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Repeated {
    #[serde(flatten)]
    pub(super) leak: Leak,
    repetitions_per_block: u64,
}

impl Repeated {
    pub(super) fn of(leak: Leak, repetitions_per_block: u64) -> Self {
        Self { leak, repetitions_per_block }
    }
}

/// The functions that grew from one mark to another, and the functions that held the heap at the later one.
pub(super) struct Grown {
    pub(super) grown: Vec<Growth>,
    pub(super) after: Holdings,
}

pub(super) fn growth(profile: &Path, from: usize, to: usize) -> Result<Grown, profile::Error> {
    let mut held = profile::holdings(profile, &[from, to])?.into_iter();
    let before = held.next().unwrap_or_default();
    let after = held.next().unwrap_or_else(|| before.clone());
    Ok(Grown { grown: heap::growth(&before, &after), after })
}

/// Tells how many functions will have names, and which package has the names of the others.
pub(super) fn names(symbols: &Symbols) -> String {
    let program = symbols.program.display();
    let share = symbols.share().zip(symbols.functions);
    let mut text = match share {
        Some((share, all)) => format!("  names    {:.0} % of the {all} functions of {program} have one", 100.0 * share),
        None => format!("  names    the number of functions of {program} is not known"),
    };
    match (&symbols.debug_file, &symbols.package) {
        (Some(file), _) => {
            let _ = write!(text, "; those of {} are read, too", file.display());
        }
        (None, Some(package)) if share.is_none_or(|(share, _)| share < 0.98) => {
            let _ = write!(
                text,
                "; the others are in the package {package} (installed, or unpacked and named by --debug-files)"
            );
        }
        _ => {}
    }
    text
}

impl Shown {
    /// # Errors
    /// The file cannot be written.
    pub(super) fn keep(&self, folder: &Path) -> Result<(), Failure> {
        let text = report::pretty(self).map_err(|error| Failure::new(Exit::Failed, error))?;
        files::write_atomic(&folder.join("result.json"), text.as_bytes(), 0o644)
            .map_err(|error| Failure::new(Exit::Failed, error))
    }

    pub(super) fn text(&self, top: usize) -> String {
        let mut text = String::new();
        if let Some(repeated) = &self.leak {
            text += &leak(repeated);
        }
        let what = if self.pages_as_heap { "mappings" } else { "heap" };
        let _ = writeln!(text, "{:>6}  {:>8}  {what:>11}  at", "number", "time");
        for mark in &self.marks {
            let heap = mark.heap_bytes.map_or_else(|| "?".to_owned(), |it| Bytes(it).to_string());
            let at = Span::millis(mark.at_ms).to_string();
            let _ = writeln!(text, "{:>6}  {at:>8}  {heap:>11}  {}", mark.number, mark.name);
        }
        text += &self.processes();
        text += &self.holders(top);
        let (from, to) = (self.from, self.to);
        let _ = writeln!(text, "\nFunctions from number {from} to {to}, the one that grew most first");
        text += &grown::table(&self.growth, top);
        let _ = writeln!(text, "\nwringer heap show {}", self.profile.display());
        if let Some(first) = self.ended.files.first() {
            let more = self.ended.files.len() - 1;
            let more = if more == 0 { String::new() } else { format!(", and {more} more processes'") };
            let with = self.with;
            let _ = writeln!(text, "wringer heap show {}   (as {with} wrote it at the end{more})", first.display());
        }
        text
    }

    fn holders(&self, top: usize) -> String {
        let mut text = format!("\nFunctions that held the heap at number {}\n", self.to);
        text += &grown::holders(&self.functions, top);
        if self.hidden_bytes > 0 {
            let hidden = Bytes(self.hidden_bytes).to_string();
            let _ = writeln!(text, "{hidden:>12}  below the threshold (--threshold), without names");
        }
        text
    }

    fn processes(&self) -> String {
        let Some(last) = self.marks.get(self.to).filter(|it| it.processes.len() > 1) else { return String::new() };
        let mut text = format!(
            "\nProcesses at number {}; each has what the postmaster had allocated before it forked, too\n",
            self.to
        );
        let mut processes: Vec<_> = last.processes.iter().collect();
        processes.sort_by_key(|it| std::cmp::Reverse(it.heap_bytes));
        for process in processes {
            let heap = Bytes(process.heap_bytes).to_string();
            let _ = writeln!(text, "{:>6}  {heap:>11}  {}", process.pid, process.role);
        }
        text
    }
}

/// A function that grows to the end although the server's memory does not: its malloc may have taken the bytes from what it had kept.
fn only_in_the_profile(leak: &Leak) -> String {
    let grows = leak.functions.first().filter(|it| it.low > 0.0 && leak.verdict != Verdict::Leak);
    grows.map_or_else(String::new, |most| {
        format!(
            "  but by the profile {} grows by {:.0} B a repetition ({:.0} to {:.0}), to the end: it fills a cache,\n  \
             or it leaks and the server's malloc had free memory for it\n",
            most.function, most.bytes_per_repetition, most.low, most.high
        )
    })
}

/// That a leaf grows faster than the server.
fn more_than_the_server(leak: &Leak) -> String {
    let Some(shrinking) = leak.shrinking() else { return String::new() };
    let leaf = leak.leaf.as_deref().unwrap_or("memory");
    let server = match (leak.server_bytes_per_repetition, leak.server_low, leak.server_high) {
        (Some(bytes), Some(low), Some(high)) => {
            format!("grew by {bytes:.0} B a repetition ({low:.0} B to {high:.0} B)")
        }
        _ => "hardly changed".to_owned(),
    };
    let why = if leaf == NO_LEAF { "" } else { ": its bytes were asked for, and some of them fill no new page" };
    let bytes = |it: &LeafPerRepetition| it.bytes_per_repetition.unwrap_or(0.0).abs();
    let rest = shrinking.map_or_else(String::new, |it| {
        format!("\n  in the account, {} shrinks meanwhile by {:.0} B a repetition", it.path, bytes(it))
    });
    format!("  the server's memory {server}, less than {leaf}{why}{rest}\n")
}

fn leak(repeated: &Repeated) -> String {
    let leak = &repeated.leak;
    let size = |bytes: Option<f64>| bytes.map_or_else(|| "?".to_owned(), |bytes| format!("{bytes:.0} B"));
    let leaf = leak.leaf.as_deref().unwrap_or("memory");
    let rate = format!("{} a repetition ({} to {})", size(leak.bytes_per_repetition), size(leak.low), size(leak.high));
    #[allow(clippy::cast_possible_truncation)] // bytes of a server
    let grown = grown::signed(i128::from(leak.grown_bytes));
    let mut text = match leak.verdict {
        Verdict::Leak => format!("LEAK: {leaf} grows by {rate}, to the end"),
        Verdict::Retention => "no leak, but retention: the allocator keeps memory that is free".to_owned(),
        Verdict::WarmUp if leak.leaf.is_some() => format!("no leak: {leaf} fills up, by {rate}"),
        Verdict::WarmUp => "no leak: the memory grew at first, and then stopped growing".to_owned(),
        Verdict::None => "no leak: nothing kept growing".to_owned(),
    };
    let _ = writeln!(
        text,
        "\n  {} repetitions in blocks of {}, after a warm-up; the server grew by {grown}, of which in the warm-up {}",
        leak.repetitions,
        repeated.repetitions_per_block,
        grown::signed(i128::from(leak.warm_up_bytes))
    );
    text += &more_than_the_server(leak);
    text += &only_in_the_profile(leak);
    if let Some(function) = &leak.function {
        let bytes = size(leak.function_bytes_per_repetition);
        let _ = writeln!(text, "  by the profile: {function}, {bytes} a repetition, called by");
        leak.path.iter().skip(1).take(8).for_each(|caller| {
            let _ = writeln!(text, "    {caller}");
        });
    }
    text.push('\n');
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{Leak, more_than_the_server, only_in_the_profile};
    use serde_json::json;

    fn told(verdict: &str, low: f64) -> String {
        let function =
            json!({ "function": "lose", "path": [], "bytes_per_repetition": 1024.0, "low": low, "high": 1024.0 });
        let leak: Leak = serde_json::from_value(json!({
            "verdict": verdict, "bytes_per_repetition": null, "low": null, "high": null, "leaf": null, "function": null, "path": [],
            "function_bytes_per_repetition": null, "repetitions": 3000, "readings": 31, "grown_bytes": 0, "warm_up_bytes": 0, "leaves": [],
            "functions": [function],
        }))
        .unwrap();
        only_in_the_profile(&leak)
    }

    #[test]
    fn a_leaf_that_grows_faster_than_the_server_is_told_with_both_figures() {
        let told = |server: Option<f64>| {
            let leaf = |path: &str, course: &str, bytes: f64| json!({ "path": path, "course": course, "bytes_per_repetition": bytes, "low": bytes, "high": bytes });
            let leak: Leak = serde_json::from_value(json!({
                "verdict": "leak", "bytes_per_repetition": 32_760.0, "low": 32_760.0, "high": 32_760.0, "leaf": "sessions/idle",
                "server_bytes_per_repetition": server, "server_low": server, "server_high": server, "function": null, "path": [],
                "function_bytes_per_repetition": null, "repetitions": 600, "readings": 31, "grown_bytes": 0, "warm_up_bytes": 0,
                "leaves": [leaf("sessions/idle", "keeps_growing", 32_760.0), leaf("server/counted", "shrank", -16_075.0)], "functions": [],
            }))
            .unwrap();
            more_than_the_server(&leak)
        };
        let said = told(Some(16_685.0));
        assert!(said.contains("the server's memory grew by 16685 B a repetition"), "{said}");
        assert!(said.contains("server/counted shrinks meanwhile by 16075 B"), "{said}");
        assert!(told(None).contains("the server's memory hardly changed"));
        assert_eq!(told(Some(33_000.0)), "");
    }

    #[test]
    fn a_function_that_grows_where_the_server_does_not_is_told() {
        let said = told("warm_up", 1024.0);
        assert!(said.contains("lose grows by 1024 B a repetition (1024 to 1024)"), "{said}");
        assert_eq!(
            [told("leak", 1024.0), told("none", 0.0)],
            ["", ""],
            "the verdict has it; it does not grow all the time"
        );
    }
}
