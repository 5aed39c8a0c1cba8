// SPDX-License-Identifier: Apache-2.0
//! The manual inside the program: the pages of `docs/` at build time.

use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
      # list the pages, by what they help with\n  \
      wringer doc\n  \
      # every key of an experiment file\n  \
      wringer doc experiment | less\n  \
      # from your own dump to an answer\n  \
      wringer doc recipes/smaller-machine")]
pub struct Args {
    /// The page, as the list names it; without it, the list
    page: Option<String>,
}

macro_rules! pages {
    ($($name:literal),* $(,)?) => {
        [$(Page { name: $name, text: include_str!(concat!("../../../../docs/", $name, ".md")) }),*]
    };
}

struct Page {
    /// The name of the page's file in `docs/`, without `.md`.
    name: &'static str,
    text: &'static str,
}

const INDEX: &str = include_str!("../../../../docs/README.md");

static PAGES: [Page; PAGE_COUNT] = pages![
    "recipes/smaller-machine",
    "recipes/from-sysbench",
    "recipes/in-ci",
    "experiment",
    "matrix",
    "allocators",
    "report",
    "findings",
    "articles",
    "compare",
    "glossary",
    "sandbox",
    "fill",
    "fills",
    "load",
    "workloads",
    "replay",
    "observe",
    "memory",
    "connections",
    "heap",
    "profile",
    "hugepages",
    "modes",
    "stalls",
    "stalls-advise",
    "stalls-explain",
    "stalls-inject",
    "stalls-reproduce",
    "stalls-watch",
    "probe",
    "squeeze",
    "disk",
    "ram",
    "preload",
    "slowfs",
    "measuring",
    "recording",
    "undo",
    "refusals",
    "faults",
    "architecture",
    "testing",
    "release",
];
const PAGE_COUNT: usize = 44;

/// # Errors
/// Exit code 2: there is no such page.
pub fn main(args: &Args) -> Outcome {
    let Some(asked) = &args.page else {
        terminal::data(INDEX.trim_end());
        terminal::data("\nThe pages, for `wringer doc PAGE`:\n");
        PAGES.iter().for_each(|page| terminal::data(format_args!("  {:<24} {}", page.name, page.title())));
        return Ok(());
    };
    let page = find(asked).ok_or_else(|| unknown(asked))?;
    terminal::data(page.text.trim_end());
    Ok(())
}

/// Finds a page by `experiment`, by `docs/experiment.md`, or, in a folder, by the last part of its name.
fn find(asked: &str) -> Option<&'static Page> {
    let name = asked.trim_start_matches("docs/").trim_end_matches(".md");
    PAGES.iter().find(|page| page.name == name || page.name.rsplit('/').next() == Some(name))
}

fn unknown(asked: &str) -> Failure {
    let names = || PAGES.iter().map(|page| page.name);
    let within = names().filter(|name| name.contains(asked) || asked.contains(name)).collect::<Vec<_>>();
    let hint = match within.as_slice() {
        [] => "`wringer doc` lists the pages".to_owned(),
        some => format!("did you mean {}? `wringer doc` lists the pages", some.join(", ")),
    };
    Failure::message(Exit::Usage, format_args!("the manual has no page '{asked}'")).hint(hint)
}

impl Page {
    /// The first heading of the page.
    fn title(&self) -> &'static str {
        let heading = self.text.lines().find_map(|line| line.strip_prefix("# "));
        heading.unwrap_or(self.name).trim_matches('`')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn files(folder: &Path, prefix: &str, into: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.path().is_dir() {
                files(&entry.path(), &format!("{prefix}{name}/"), into);
            } else if let Some(name) = name.strip_suffix(".md") {
                into.push(format!("{prefix}{name}"));
            }
        }
    }

    #[test]
    fn every_page_of_the_folder_is_in_the_program_and_in_the_index() {
        let mut there = Vec::new();
        files(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs")), "", &mut there);
        there.retain(|name| name != "README");
        there.sort_unstable();
        let mut ours: Vec<String> = PAGES.iter().map(|page| page.name.to_owned()).collect();
        ours.sort_unstable();
        assert_eq!(there, ours);
        let unlinked: Vec<_> = ours.iter().filter(|name| !INDEX.contains(&format!("({name}.md"))).collect();
        assert!(unlinked.is_empty(), "not in docs/README.md: {unlinked:?}");
        assert!(PAGES.iter().all(|page| page.text.starts_with("# ")));
    }

    #[test]
    fn a_page_is_found_by_its_name_its_file_and_its_last_name() {
        let found = |asked: &str| find(asked).map(|page| page.name);
        assert_eq!(found("experiment"), Some("experiment"));
        assert_eq!(found("docs/recipes/in-ci.md"), Some("recipes/in-ci"));
        assert_eq!(found("in-ci"), Some("recipes/in-ci"));
        assert!(unknown("experiments").hints[0].starts_with("did you mean experiment?"));
    }
}
