// SPDX-License-Identifier: Apache-2.0
//! The experiment of an annex: the ready file, or, for `--quick` and another server, a shortened form of the same text.

use crate::commands::{examples, experiment_file};
use crate::exit::Failure;
use clap::ValueEnum;
use experiment::{Arm, Experiment};
use sandbox::Request;
use std::fmt::Write as _;
use std::path::Path;
use units::Span;

/// An arm whose pause and load take longer together is left out of a quick run.
const QUICK: Span = Span::secs(8);
/// Pages that are kept free, in the file and in a quick run of annex 3.
const WHOLE_DEPTH: &str = "innodb_lru_scan_depth = 512";
const QUICK_DEPTH: &str = "innodb_lru_scan_depth = 128";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Annex {
    /// Loads of 2 s after pauses of 0, 5 and 60 s
    #[value(name = "annex-3")]
    Three,
    /// A light load, and a query that empties the free list beside it
    #[value(name = "annex-5")]
    Five,
}

impl Annex {
    pub(super) fn example(self) -> &'static str {
        match self {
            Self::Three => "article-4-annex-3",
            Self::Five => "article-4-annex-5",
        }
    }
}

/// The text of the experiment, and the experiment that was read from it.
///
/// # Errors
/// Exit code 2: the experiment makes no sense with the other server.
pub(super) fn read(annex: Annex, server: Option<&Request>, quick: bool) -> Result<(String, Experiment), Failure> {
    let name = annex.example();
    let whole = examples::text(name).unwrap_or_default();
    let mut text = server.map_or_else(|| whole.to_owned(), |server| with_server(whole, server));
    let mut experiment = parse(name, &text)?;
    if quick {
        let kept: Vec<String> =
            experiment.arms.iter().filter(|arm| is_quick(arm)).map(|arm| arm.name.clone()).collect();
        text = quickened(annex, &text, &kept);
        experiment = parse(name, &text)?;
    }
    Ok((text, experiment))
}

fn parse(name: &str, text: &str) -> Result<Experiment, Failure> {
    Experiment::parse(text).map_err(|problems| experiment_file::refused(Path::new(name), text, &problems))
}

fn is_quick(arm: &Arm) -> bool {
    let is_short = arm.load.time.is_some_and(|time| arm.load.pause.0 + time.0 <= QUICK.0);
    is_short && !arm.name.contains("scan depth")
}

fn with_server(text: &str, server: &Request) -> String {
    let lines = text.lines().filter_map(|line| match line {
        line if line.starts_with("flavour = ") => Some(format!("flavour = \"{}\"", server.flavour)),
        line if line.starts_with("version = ") => {
            server.version.as_ref().map(|version| format!("version = \"{version}\""))
        }
        line => Some(line.to_owned()),
    });
    lines.fold(String::new(), |mut all, line| {
        let _ = writeln!(all, "{line}");
        all
    })
}

/// The arms of these names, once, on half of the table. Of annex 3 with a shorter list of free pages, too: its one client empties that also on a busy machine,
/// where it sends some 500 queries a second. In annex 5 the clients send at times of their own, and the longer list is to stand the load without the
/// emptying query.
fn quickened(annex: Annex, text: &str, kept: &[String]) -> String {
    let mut blocks = text.split("[[arm]]\n");
    let head = blocks.next().unwrap_or_default();
    let depth = if annex == Annex::Three { QUICK_DEPTH } else { WHOLE_DEPTH };
    let head = head.replace(WHOLE_DEPTH, depth);
    let head = head.replace("repeat = 2", "repeat = 1").replace("size = \"8x pool\"", "size = \"4x pool\"");
    let is_kept = |block: &&str| kept.iter().any(|name| block.starts_with(&format!("name = \"{name}\"\n")));
    blocks.filter(is_kept).fold(head, |all, block| format!("{all}[[arm]]\n{block}"))
}

#[cfg(test)]
mod tests {
    use super::{Annex, read};

    #[test]
    fn a_quick_run_has_both_algorithms_and_takes_seconds() {
        for (annex, depth, arms) in [
            (
                Annex::Three,
                128,
                &["backoff, no pause", "backoff, pause 5 s", "legacy, no pause", "legacy, pause 5 s"][..],
            ),
            (Annex::Five, 512, &["backoff, alone", "backoff, emptied once", "legacy, alone", "legacy, emptied once"]),
        ] {
            let (text, quick) = read(annex, None, true).unwrap();
            assert_eq!(quick.arms.iter().map(|arm| arm.name.as_str()).collect::<Vec<_>>(), arms);
            assert_eq!(quick.repeat, 1);
            let depths: Vec<&str> = text.lines().filter(|line| line.contains("innodb_lru_scan_depth")).collect();
            assert_eq!(depths, [format!("innodb_lru_scan_depth = {depth}")]);
            let (text, whole) = read(annex, None, false).unwrap();
            assert!(text.contains("\ninnodb_lru_scan_depth = 512\n"), "{text}");
            assert!(whole.arms.len() > arms.len());
        }
    }

    #[test]
    fn another_server_stands_in_the_text_that_is_run() {
        let server = "percona@8.0".parse().unwrap();
        let (text, experiment) = read(Annex::Three, Some(&server), false).unwrap();
        assert_eq!(experiment.server.flavour, experiment::Flavour::Percona);
        assert_eq!(experiment.server.version.as_deref(), Some("8.0"));
        assert!(text.contains("flavour = \"percona\"\nversion = \"8.0\"\n"), "{text}");
    }
}
