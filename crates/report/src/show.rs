// SPDX-License-Identifier: Apache-2.0
//! Figures as people read them: three significant digits, a unit, a comma between thousands.

use evidence::{Data, DataHow};
use evidence::{Driven, Quantity, Time, Times, Unit};
use explain::busy::Busy;

/// What is shown where there is no value.
pub(crate) const NOTHING: &str = "–";

pub(crate) fn micros(us: f64) -> String {
    let (value, unit) = match us.abs() {
        a if !a.is_finite() => return NOTHING.to_owned(),
        0.0 => return "0".to_owned(),
        a if a < 1.0 => (us * 1e3, "ns"),
        a if a < 999.5 => (us, "µs"),
        a if a < 999_500.0 => (us / 1e3, "ms"),
        a if a < 120e6 => (us / 1e6, "s"),
        a if a < 7200e6 => (us / 60e6, "min"),
        _ => (us / 3600e6, "h"),
    };
    format!("{} {unit}", digits(value))
}

pub(crate) fn percentile(times: Option<&Times<'_>>, percentile: f64) -> String {
    or_nothing(times, |times| time(times.percentile(percentile)))
}

pub(crate) fn longest(times: Option<&Times<'_>>) -> String {
    or_nothing(times, |times| time(times.max()))
}

fn time(time: Time) -> String {
    format!("{}{}", if time.is_at_least() { "≥ " } else { "" }, micros(time.us()))
}

pub(crate) fn bytes(bytes: f64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if !bytes.is_finite() {
        return NOTHING.to_owned();
    }
    let mut value = bytes;
    let mut unit = 0;
    while value.abs() >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let number = if unit == 0 { format!("{value:.0}") } else { digits(value) };
    format!("{number} {}", UNITS[unit])
}

/// Whole numbers with commas; below 100 with the digits that matter.
pub(crate) fn number(value: f64) -> String {
    if !value.is_finite() {
        return NOTHING.to_owned();
    }
    if value == value.round() || value.abs() >= 100.0 { commas(&format!("{value:.0}")) } else { digits(value) }
}

/// Whose figures an arm has, and what is kept of the output of the program that was its load.
pub(crate) fn driven(driven: &Driven) -> String {
    let whose = match &driven.understood {
        Some(program) => format!("the load's figures are {program}'s own"),
        None => format!("the load was another program ({}), whose output has no figures that are known", driven.driver),
    };
    let kept = driven.outputs.iter().map(|output| format!("{} ({})", output.name, bytes(output.text.len() as f64)));
    let cpu = micros((driven.client_user_us + driven.client_system_us) as f64);
    let kept = kept.collect::<Vec<_>>().join(", ");
    format!(
        "{whose}; exit code {}, {} long, {cpu} of CPU; kept: {kept}",
        driven.exit_code,
        micros(driven.elapsed_us as f64)
    )
}

/// A ratio of two figures. An interval from few repeats can reach to a number of many digits that says nothing more than "very large".
pub fn ratio(ratio: f64) -> String {
    const LARGEST: f64 = 1000.0;
    const SMALLEST: f64 = 0.001;
    match ratio {
        ratio if ratio > LARGEST => format!("> {LARGEST:.0}"),
        ratio if ratio > 0.0 && ratio < SMALLEST => format!("< {SMALLEST}"),
        ratio => format!("{ratio:.3}"),
    }
}

pub(crate) fn count(value: u64) -> String {
    commas(&value.to_string())
}

/// 0.4023 is "40.2 %".
pub(crate) fn percent(share: f64) -> String {
    let value = share * 100.0;
    match value.abs() {
        a if !a.is_finite() => NOTHING.to_owned(),
        a if a > 0.0 && a < 0.095 => format!("{value:.2} %"),
        _ => format!("{value:.1} %"),
    }
}

/// As [`percent`], with a sign.
pub(crate) fn difference(share: f64) -> String {
    let sign = if share > 0.0 { "+" } else { "" };
    format!("{sign}{}", percent(share))
}

pub(crate) fn quantity(quantity: Quantity) -> String {
    match quantity.unit {
        Unit::Bytes => short(&bytes(quantity.value)),
        Unit::Microseconds => short(&micros(quantity.value)),
        Unit::Count => number(quantity.value),
        Unit::PerSecond => format!("{} /s", number(quantity.value)),
        Unit::Ratio => percent(quantity.value),
    }
}

/// "10.0 ms" becomes "10 ms": an asked value is a round number.
fn short(shown: &str) -> String {
    match shown.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => shown.to_owned(),
    }
}

/// Seconds into the run: `1:05.3`.
pub(crate) fn moment(at_us: u64) -> String {
    let tenths = at_us / 100_000;
    format!("{}:{:02}.{}", tenths / 600, tenths / 10 % 60, tenths % 10)
}

/// RFC 3339 in UTC, as people write it: `2026-11-20 20:15 UTC`. Any other text stays as it is.
pub(crate) fn date(rfc3339: &str) -> String {
    match (rfc3339.get(..10), rfc3339.get(10..11), rfc3339.get(11..16), rfc3339.ends_with('Z')) {
        (Some(day), Some("T"), Some(time), true) => format!("{day} {time} UTC"),
        _ => rfc3339.to_owned(),
    }
}

/// Prevents a line break between a number and its unit.
pub(crate) fn tied(sentence: &str) -> String {
    const UNITS: [&str; 12] = ["%", "ns", "µs", "us", "ms", "s", "min", "h", "B", "KiB", "MiB", "GiB"];
    let mut tied = String::with_capacity(sentence.len());
    for word in sentence.split(' ') {
        let unit = word.trim_end_matches(|c: char| c.is_ascii_punctuation() && c != '%');
        let after_number = tied.ends_with(|c: char| c.is_ascii_digit());
        if !tied.is_empty() {
            tied.push(if after_number && UNITS.contains(&unit) { '\u{a0}' } else { ' ' });
        }
        tied.push_str(word);
    }
    tied
}

/// "0 reads", "1 read", "about 3.4 reads".
pub(crate) fn reads(reads: f64) -> String {
    if (reads - reads.round()).abs() > 0.005 {
        return format!("about {reads:.1} reads");
    }
    let whole = number(reads.round());
    if whole == "1" { "1 read".to_owned() } else { format!("{whole} reads") }
}

/// "other programs 3.1 % of the CPUs, the hypervisor 0.2 %; some task waited for a CPU 12.0 % of the time, for the disk 30.0 %".
pub(crate) fn busy(busy: &Busy) -> String {
    let waited =
        [("a CPU", busy.cpu_waiting_ratio), ("the disk", busy.io_waiting_ratio), ("memory", busy.memory_waiting_ratio)];
    let waited: Vec<String> =
        waited.iter().filter_map(|(what, ratio)| Some(format!("for {what} {}", percent((*ratio)?)))).collect();
    let mut told = format!(
        "of the CPUs' time this run {}, other programs {}, the hypervisor {}",
        percent(busy.own_ratio),
        percent(busy.others_ratio),
        percent(busy.stolen_ratio)
    );
    if busy.other_runs > 0 {
        told += &format!(", other runs of Wringer's ({}) {}", busy.other_runs, percent(busy.other_runs_ratio));
    }
    if !waited.is_empty() {
        told += &format!("; somebody waited {}", waited.join(", "));
    }
    if let Some(rate) = busy.disk_others_bytes_per_second {
        told += &format!("; others moved {}/s on the disk", bytes(rate));
    }
    told
}

/// The arm in which other programs and the hypervisor used most CPU, in one line; `None`: not observed.
pub(crate) fn busiest(context: &crate::Context<'_>) -> Option<String> {
    let seen = context.arms.iter().filter_map(|view| Some((&view.arm.name, view.summary.busy?)));
    let of = |busy: &Busy| busy.others_ratio + busy.stolen_ratio;
    let (name, worst) = seen.max_by(|(_, one), (_, other)| of(one).total_cmp(&of(other)))?;
    let among = if context.arms.len() > 1 { ", the most disturbed arm" } else { "" };
    Some(format!("in \"{name}\"{among}: {}", busy(&worst)))
}

/// Whether the data are a clone of a fill that was made before; `None`: they were filled for this run.
pub(crate) fn data(data: &Data) -> Option<String> {
    let mechanism = data.mechanism.as_deref().unwrap_or_default();
    let (made, took) = (date(&data.made), micros(data.elapsed_us as f64));
    (data.how == DataHow::Cloned)
        .then(|| format!("a clone by {mechanism}, in {took}, of what was filled {made} ({})", data.key))
}

pub(crate) fn or_nothing<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| NOTHING.to_owned(), show)
}

/// Three significant digits, and no more than two decimals.
fn digits(value: f64) -> String {
    match value.abs() {
        a if a >= 999.5 => commas(&format!("{value:.0}")),
        a if a >= 99.95 => format!("{value:.0}"),
        a if a >= 9.995 => format!("{value:.1}"),
        a if a == 0.0 || a >= 0.095 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

fn commas(number: &str) -> String {
    let (sign, whole) = number.strip_prefix('-').map_or(("", number), |rest| ("-", rest));
    let mut shown = String::from(sign);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_a_unit() {
        let given = [0.0, 0.4, 62.14, 999.6, 10_312.0, 61e6, 3600e6, 1e18, f64::NAN];
        let shown = given.map(micros);
        assert_eq!(shown, ["0", "400 ns", "62.1 µs", "1.00 ms", "10.3 ms", "61.0 s", "60.0 min", "277,777,778 h", "–"]);
    }

    #[test]
    fn sizes_counts_shares() {
        assert_eq!(
            [0.0, 1023.0, 1024.0, 192e6, 2.0f64.powi(63)].map(bytes),
            ["0 B", "1023 B", "1.00 KiB", "183 MiB", "8.00 EiB"]
        );
        assert_eq!([0.0, 7.0, 0.456, 99.96, 1234567.0].map(number), ["0", "7", "0.46", "100", "1,234,567"]);
        assert_eq!([0.0, 0.0004, 0.4023, 1.0].map(percent), ["0.0 %", "0.04 %", "40.2 %", "100.0 %"]);
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn reads_in_words() {
        assert_eq!([0.0, 1.0, 2.0, 3.4].map(reads), ["0 reads", "1 read", "2 reads", "about 3.4 reads"]);
    }

    #[test]
    fn numbers_keep_their_units() {
        assert_eq!(tied("At 10 ms, 59.3 % of 5 queries."), "At 10\u{a0}ms, 59.3\u{a0}% of 5 queries.");
        assert_eq!(date("2026-11-20T20:15:30Z"), "2026-11-20 20:15 UTC");
        assert_eq!([Quantity::micros(10_000.0), Quantity::bytes(3 << 29)].map(quantity), ["10 ms", "1.5 GiB"]);
    }

    #[test]
    fn moments_of_a_run() {
        assert_eq!([0, 65_349_000, 3_600_000_000].map(moment), ["0:00.0", "1:05.3", "60:00.0"]);
    }
}
