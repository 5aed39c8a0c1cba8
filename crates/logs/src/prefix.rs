// SPDX-License-Identifier: Apache-2.0
//! The prefix of a line that PostgreSQL writes to stderr (`log_line_prefix`): its time, its process, and the severity that follows. The server's user
//! chooses the prefix, so time and process are looked for in it.

use crate::clock::{Moment, Told, clock_length};

pub(crate) const SEVERITIES: [&str; 14] = [
    "LOG",
    "DETAIL",
    "ERROR",
    "FATAL",
    "PANIC",
    "WARNING",
    "NOTICE",
    "INFO",
    "HINT",
    "STATEMENT",
    "CONTEXT",
    "QUERY",
    "LOCATION",
    "DEBUG",
];

/// (prefix, severity, text).
pub(crate) fn stderr_line(line: &str) -> Option<(&str, &'static str, &str)> {
    let mut from = 0;
    // the severity may follow the prefix without a space
    while let Some(found) = line[from..].find(":  ") {
        let end = from + found;
        let severity = SEVERITIES.iter().find(|severity| line[..end].ends_with(*severity));
        if let Some(severity) = severity {
            return Some((&line[..end - severity.len()], severity, &line[end + 3..]));
        }
        from = end + 3;
    }
    None
}

pub(crate) fn is_stderr(line: &str) -> bool {
    stderr_line(line).is_some_and(|(prefix, _, _)| time_in(prefix).is_some() || epoch_in(prefix).is_some())
}

/// The time and the session of a prefix.
pub(crate) fn time_and_session(prefix: &str) -> (Option<Told>, Option<String>) {
    let time = time_in(prefix);
    if let (None, Some((told, (before, behind)))) = (&time, epoch_in(prefix)) {
        // the number of seconds looks like a session
        let rest = format!("{before} {behind}");
        return (Some(told), session_in(&rest, behind).map(str::to_owned));
    }
    let behind = time.as_ref().map_or("", |(_, end)| &prefix[*end..]);
    let session = session_in(prefix, behind).map(str::to_owned);
    (time.map(|(told, _)| told), session)
}

/// `2026-11-21 22:51:56.629`, anywhere in the prefix (%m, %t), and where it ends.
fn time_in(prefix: &str) -> Option<(Told, usize)> {
    const DAY: usize = "2026-11-21 ".len();
    let starts = prefix.char_indices().filter(|(_, c)| c.is_ascii_digit()).map(|(at, _)| at);
    starts.take(64).find_map(|at| {
        let told = Told::of_iso(&prefix[at..])?;
        Some((told, at + DAY + clock_length(prefix.get(at + DAY..)?)))
    })
}

/// `1795902968.704`, anywhere in the prefix (%n), and what is before and behind it. Ten digits: seconds of the years 2001 to 2286.
fn epoch_in(prefix: &str) -> Option<(Told, (&str, &str))> {
    const LENGTH: usize = "1795902968.704".len();
    const POINT: usize = LENGTH - ".704".len();
    let is_of_number = |c: char| c.is_ascii_alphanumeric() || c == '.';
    prefix.match_indices('.').take(64).find_map(|(point, _)| {
        let from = point.checked_sub(POINT)?;
        let (before, number, behind) =
            (prefix.get(..from)?, prefix.get(from..from + LENGTH)?, prefix.get(from + LENGTH..)?);
        let stands_alone = !before.ends_with(is_of_number) && !behind.starts_with(is_of_number);
        let is_number = number.bytes().enumerate().all(|(at, byte)| at == POINT || byte.is_ascii_digit());
        let is_of_today = stands_alone && is_number && !number.starts_with('0');
        Some((Told::of_epoch(number).filter(|_| is_of_today)?, (before, behind)))
    })
}

/// The process (%p), or the session (%c, `6a01.b2c3`). `behind`: the part of the prefix behind the time.
fn session_in<'a>(prefix: &'a str, behind: &'a str) -> Option<&'a str> {
    // `1234`, or with the number of the line `1234-5` or `1234:5`
    let begin = |word: &'a str| word.split(['-', ':']).next().filter(|word| is_number(word));
    let mut in_brackets = prefix.split('[').skip(1).filter_map(|rest| Some(rest.split_once(']')?.0));
    // what follows it in brackets of its own is something else: `[%p-%l] [%e]`
    let is_time = |word: &str| Moment::of_iso(word).is_some();
    let first = in_brackets.find(|word| begin(word).is_some() && !is_time(word));
    first
        .filter(|word| is_number(word))
        .or_else(|| named(prefix))
        .or_else(|| prefix.split(|c: char| !c.is_ascii_hexdigit() && c != '.').find(|word| is_session(word)))
        .or_else(|| alone(behind.split('[').next()?))
        .or_else(|| first.and_then(begin))
        .or_else(|| alone(behind))
}

/// The start of the session and its process, both as hexadecimal numbers.
fn is_session(word: &str) -> bool {
    let is_hex = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    word.split_once('.').is_some_and(|(one, other)| one.len() >= 6 && is_hex(one) && is_hex(other))
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// `pid=1234`.
fn named(prefix: &str) -> Option<&str> {
    let mut fields = prefix.split([' ', ',', ';', '|', '(', '[']).filter_map(|field| field.split_once('='));
    let (_, value) = fields.find(|(name, _)| ["pid", "p", "process"].iter().any(|it| name.eq_ignore_ascii_case(it)))?;
    let end = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    Some(&value[..end]).filter(|word| is_number(word))
}

/// The first number that stands alone behind the time, and may be a process: `|1234|`, `UTC:1234:`. Other times, addresses with their ports
/// (`10.0.0.5(50112)`, `::1`), numbers of lines (`4-1`), of transactions (`0`) and of queries are none.
fn alone(behind: &str) -> Option<&str> {
    behind
        .split([' ', '|', ',', ';'])
        .filter(|field| Moment::of_day(field).is_none())
        .filter_map(|field| field.rsplit(')').next())
        .filter(|field| !field.contains("::"))
        .flat_map(|field| field.split(':'))
        .find(|word| is_number(word) && !word.starts_with('0') && word.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(prefix: &str) -> Option<String> {
        time_and_session(prefix).1
    }

    #[test]
    fn a_line_has_a_time_before_its_severity() {
        assert!(is_stderr("user=a 2026-11-21 22:51:56 UTC LOG:  x") && !is_stderr("LOG:  x"));
        assert_eq!(stderr_line("2026-11-21 22:51:56 UTC [1] ERROR:  a:  b").map(|it| it.2), Some("a:  b"));
    }

    #[test]
    fn a_time_may_be_a_number_of_seconds() {
        for (prefix, process) in [
            ("1795902968.704 [28490] ", Some("28490")),
            ("1795902968.704|28490|me|", Some("28490")),
            ("[1795902968.704] pid=28490 ", Some("28490")),
            ("6920e1d3.6f4a 1795902968.704 ", Some("6920e1d3.6f4a")),
            ("1795902968.704 ", None),
        ] {
            assert!(is_stderr(&format!("{prefix}LOG:  x")), "{prefix}");
            let (time, session) = time_and_session(prefix);
            let time = time.expect("a time");
            assert_eq!(
                (time.at.us, time.is_fine, session.as_deref()),
                (1_795_902_968_704_000, true, process),
                "{prefix}"
            );
        }
        for no_time in ["1795902968.7041 ", "179590296.704 ", "a1795902968.704 ", "1795902968.7é4 ", "10.0.0.5 "] {
            assert!(!is_stderr(&format!("{no_time}LOG:  x")), "{no_time}");
        }
    }

    #[test]
    fn a_time_in_brackets_is_no_process() {
        assert_eq!(session("[2026-11-21 22:51:56.123 UTC] [1234] ").as_deref(), Some("1234"));
        assert_eq!(session("[2026-11-21 22:51:56 UTC] [1234-5] ").as_deref(), Some("1234"));
    }

    #[test]
    fn a_process_in_brackets() {
        for (rest, expected) in [
            (" [123-4] ", Some("123")),
            (" [123]: [4-1] user=a ", Some("123")),
            (":10.0.0.5(50112):me@shop:[123]:", Some("123")),
            (" [123-4] 740 me@shop ", Some("123")),
            (" [123-4] [00000] ", Some("123")),
            (" [123:4] [740] ", Some("123")),
            (".123 ", None),
        ] {
            assert_eq!(session(&format!("2026-11-21 22:51:56{rest}")).as_deref(), expected, "{rest}");
            let with_zone = format!("2026-11-21 22:51:56.123 UTC{}", rest.trim_start_matches(".123"));
            assert_eq!(session(&with_zone).as_deref(), expected, "{with_zone}");
        }
    }

    #[test]
    fn a_session_between_any_other_letters() {
        for prefix in [
            "2026-11-21 22:51:56 UTC 6920e1d3.6f4a ",
            "2026-11-21 22:51:56 UTC-6920e1d3.6f4a-",
            "2026-11-21 22:51:56.123 UTC:10.0.0.5(50112):6920e1d3.6f4a:4:",
            "2026-11-21 22:51:56 UTC s=6920e1d3.6f4a/me ",
            "2026-11-21 22:51:56 UTC 6920e1d3.6f4a [4-1] ",
        ] {
            assert_eq!(session(prefix).as_deref(), Some("6920e1d3.6f4a"), "{prefix}");
        }
    }

    #[test]
    fn a_process_without_brackets() {
        for rest in [
            "|28490|me|shop|",
            ":28490:",
            " 28490 ",
            " 28490 4-1 ",
            " 28490 [4-1] ",
            " me@shop pid=28490 ",
            " l=4,PID=28490,db=5 ",
            ":10.0.0.5(50112):me@shop:28490:",
            "|::1(50112)|28490|",
            "|2001:db8::1|28490|",
            "|[local]|28490|",
            "|2026-11-21 20:00:01 UTC|28490|",
            "|0|3/4|-8204926341834592143|6020836462186423571|28490|",
        ] {
            for zone in ["UTC", "+03", "-0330"] {
                let prefix = format!("2026-11-21 22:51:56.123 {zone}{rest}");
                assert_eq!(session(&prefix).as_deref(), Some("28490"), "{prefix}");
            }
        }
        for rest in ["", " ", " me@shop ", ":10.0.0.5(50112):me@shop:", " ::1 ", " 4-1 "] {
            assert_eq!(session(&format!("2026-11-21 22:51:56.123 UTC{rest}")), None, "{rest}");
        }
    }
}
