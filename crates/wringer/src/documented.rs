// SPDX-License-Identifier: Apache-2.0
//! Tests that the program's own parser accepts every command line that the manual, the README or a `--help` shows.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use clap::CommandFactory as _;
use std::path::{Path, PathBuf};

/// A command line, and the place where it is shown.
struct Shown {
    place: String,
    line: String,
}

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    for folder in ["docs", "docs/recipes"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            pages.push(entry.unwrap().path());
        }
    }
    pages.retain(|it| it.extension().is_some_and(|it| it == "md"));
    pages.sort();
    pages
}

/// The rest of the line after a prompt, `sudo` and white space, if the rest is a call of the program.
fn call(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("$ ").unwrap_or(line);
    let line = line.strip_prefix("sudo ").unwrap_or(line);
    (line.starts_with("wringer ") && !line.contains('─')).then_some(line)
}

/// The calls in the code blocks of a text; lines that continue a call are joined to it.
fn calls(place: &str, text: &str, every_line: bool) -> Vec<Shown> {
    let mut found = Vec::new();
    let mut fenced = false;
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        if line.starts_with("```") {
            fenced = !fenced;
        }
        if !(fenced || every_line || line.starts_with("    ")) {
            continue;
        }
        if let Some(line) = call(line) {
            let mut whole = line.to_owned();
            while let Some(begin) = whole.trim_end().strip_suffix('\\') {
                let Some((_, next)) = lines.next() else { break };
                whole = format!("{} {}", begin.trim_end(), next.trim());
            }
            found.push(Shown { place: format!("{place}:{}", at + 1), line: whole });
        }
    }
    found
}

/// The words of a call as a shell reads them: up to a pipe, a redirection, a comment, or an explanation after two or more spaces.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None, '|' | '>' | ';' | '&' | '#' | '<') => break,
            (None, ' ') if letters.peek() == Some(&' ') => break,
            (None, ' ') => words.push(String::new()),
            _ => words.last_mut().unwrap().push(letter),
        }
    }
    words.retain(|it| !it.is_empty());
    words.into_iter().map(filled_in).collect()
}

/// Replaces a word that the shell or the reader would replace: the number of a process, a checksum.
fn filled_in(word: String) -> String {
    match word.as_str() {
        "SUM" => "0".repeat(64),
        it if it.starts_with("$(") => "4711".to_owned(),
        _ => word,
    }
}

/// Whether the line is a synopsis, such as `wringer modes FILE... [--delay TIME]` or `wringer matrix plan|run`. Nobody types a synopsis: only the
/// command and the flags that it names must exist. Quoted text, and text after a pipe or after two spaces, is not looked at.
fn is_synopsis(line: &str) -> bool {
    let unquoted: String = line.split(['\'', '"']).step_by(2).collect();
    let typed = unquoted.split(" | ").next().unwrap_or_default().split("  ").next().unwrap_or_default();
    typed.contains("...") || typed.contains(" [") || typed.contains('|')
}

/// The first wrong name of a command or a flag.
fn wrong_names(root: &clap::Command, line: &str) -> Option<String> {
    let mut command = root;
    let mut rest = line.split_whitespace().skip(1).peekable();
    while let Some(word) = rest.peek() {
        match command.find_subcommand(word) {
            Some(next) => command = next,
            None if command.has_subcommands()
                && word.chars().all(|it| it.is_ascii_lowercase() || it == '-')
                && !word.starts_with('-') =>
            {
                return Some(format!("{} has no command {word}", command.get_name()));
            }
            None => break,
        }
        rest.next();
    }
    for word in rest.take_while(|it| *it != "--") {
        let word = word.trim_matches(|it: char| !it.is_ascii_alphanumeric() && it != '-');
        if let Some(flag) = word
            .strip_prefix("--")
            .and_then(|it| it.split(['=', '|', ']', ',']).next())
            .filter(|it| !it.is_empty() && !it.ends_with('-'))
        {
            let is_there = |it: &clap::Arg| {
                it.get_long_and_visible_aliases().is_some_and(|names| names.contains(&flag))
                    || it.get_all_aliases().is_some_and(|names| names.contains(&flag))
            };
            if !command.get_arguments().chain(root.get_arguments()).any(is_there) && flag != "help" {
                return Some(format!("{} has no flag --{flag}", command.get_name()));
            }
        }
    }
    None
}

fn wrong(shown: &Shown) -> Option<String> {
    let problem = if is_synopsis(&shown.line) {
        wrong_names(&super::Cli::command(), &shown.line)
    } else {
        super::Cli::command()
            .try_get_matches_from(words(&shown.line))
            .err()
            .filter(clap::Error::use_stderr)
            .map(|it| it.to_string())
    };
    problem.map(|it| format!("{}: {}\n    {}", shown.place, shown.line, it.lines().next().unwrap_or_default()))
}

#[track_caller]
fn all_parse(shown: &[Shown], at_least: usize) {
    assert!(shown.len() >= at_least, "only {} lines were found", shown.len());
    let wrong: Vec<String> = shown.iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{} of {} lines are wrong:\n{}", wrong.len(), shown.len(), wrong.join("\n"));
}

#[test]
fn every_command_line_of_the_manual_parses() {
    let mut shown = Vec::new();
    for page in pages() {
        shown.extend(calls(
            &page.file_name().unwrap().to_string_lossy(),
            &std::fs::read_to_string(&page).unwrap(),
            false,
        ));
    }
    all_parse(&shown, 140);
}

/// A call in a sentence may be incomplete: its command and its flags must exist.
#[test]
fn every_command_named_in_a_sentence_of_the_manual_is_there() {
    let root = super::Cli::command();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for page in pages() {
        for (at, line) in std::fs::read_to_string(&page).unwrap().lines().enumerate() {
            for code in line.split('`').skip(1).step_by(2).filter(|it| it.starts_with("wringer ")) {
                count += 1;
                wrong.extend(wrong_names(&root, code).map(|it| format!("{}:{}: {code}: {it}", page.display(), at + 1)));
            }
        }
    }
    assert!(count >= 100, "only {count} were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_example_of_help_parses() {
    fn of(command: &clap::Command, name: &str, shown: &mut Vec<Shown>) {
        for help in [command.get_after_help(), command.get_after_long_help()].into_iter().flatten() {
            shown.extend(calls(&format!("{name} --help"), &help.to_string(), true));
        }
        for next in command.get_subcommands() {
            of(next, &format!("{name} {}", next.get_name()), shown);
        }
    }
    let mut shown = Vec::new();
    of(&super::Cli::command(), "wringer", &mut shown);
    all_parse(&shown, 60);
}

/// The help is wrapped at 100 columns. A longer example would be two lines there, of which a shell runs the first alone; and a paragraph with line ends of its
/// own would have some short lines.
#[test]
fn no_help_is_broken_where_it_is_wrapped() {
    const COLUMNS: usize = 100;
    fn of(command: &clap::Command, name: &str, wrong: &mut Vec<String>) {
        for help in [command.get_after_help(), command.get_after_long_help()].into_iter().flatten() {
            let help = help.to_string();
            let long = help
                .lines()
                .filter(|it| it.contains("wringer ") && it.starts_with("  ") && it.chars().count() > COLUMNS);
            wrong.extend(long.map(|it| format!("{name}: {it}")));
            let codes = help.split("\n\n").filter(|it| it.trim_start().starts_with("Exit codes") && it.contains('\n'));
            wrong.extend(codes.map(|it| format!("{name}: {it}")));
        }
        for next in command.get_subcommands() {
            of(next, &format!("{name} {}", next.get_name()), wrong);
        }
    }
    let mut wrong = Vec::new();
    of(&super::Cli::command(), "wringer", &mut wrong);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The examples stand behind the colon of the help text, up to the bracket.
#[test]
fn every_disk_named_in_help_is_there() {
    fn of(command: &clap::Command, shown: &mut Vec<String>) {
        for argument in command.get_arguments() {
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            if argument.get_long() == Some("disk") || help.contains("`wringer disk profiles`") {
                let examples = help.split_once(": ").map_or("", |(_, rest)| rest);
                let examples = examples.split(['(', ';']).next().unwrap_or_default().trim();
                shown.extend(examples.split(", ").map(str::to_owned));
            }
        }
        command.get_subcommands().for_each(|inner| of(inner, shown));
    }
    let mut shown = Vec::new();
    of(&super::Cli::command(), &mut shown);
    assert!(shown.len() >= 8, "{shown:?}");
    for disk in shown {
        let words = disk.strip_prefix("PATH=").unwrap_or(&disk);
        assert!(super::commands::squeeze::parse_disk(words).is_ok(), "{disk} does not exist");
    }
}

#[test]
fn a_wrong_line_is_found() {
    let of = |line: &str| wrong(&Shown { place: "here".to_owned(), line: line.to_owned() });
    for line in [
        "wringer top",
        "wringer status --nonsense",
        "wringer modes FILE... [--dely TIME]",
        "wringer stalls watsch [--for TIME]",
    ] {
        assert!(of(line).is_some(), "{line}");
    }
    for line in [
        "wringer status | head",
        "wringer load oltp_point_select --assert 'p99<20ms'",
        "wringer modes FILE... [--delay TIME]",
        "wringer undo   puts it back",
    ] {
        assert_eq!(of(line), None, "{line}");
    }
}
