// SPDX-License-Identifier: Apache-2.0
//! Example files inside the program: the experiments and workloads of `experiments/` at build time.

use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
      # list the examples\n  \
      wringer examples\n  \
      # write an example to a file of your own\n  \
      wringer examples cloud-disks > my.toml\n  \
      # try the whole flow in a minute\n  \
      wringer examples quick | wringer run -")]
pub struct Args {
    /// The file, as the list names it; without it, the list
    name: Option<String>,
}

macro_rules! examples {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../../experiments/", $name, ".toml")))),*]
    };
}

static EXAMPLES: [(&str, &str); 18] = examples![
    "quick",
    "one-read-or-two",
    "cloud-disks",
    "postgresql-small-memory",
    "matrix-threads",
    "mallocs",
    "beside-sysbench",
    "article-1-less-ram",
    "article-2-slow-disk",
    "article-3-memory",
    "article-4-annex-3",
    "article-4-annex-5",
    "article-5-huge-pages",
    "article-5-connections",
    "article-5-connections-mysql",
    "article-5-connections-postgresql",
    "workloads/shop",
    "workloads/write-then-read-all",
];

/// The text of a ready file; `None`: no ready file has that name.
pub fn text(name: &str) -> Option<&'static str> {
    EXAMPLES.iter().find(|(there, _)| *there == name).map(|(_, text)| *text)
}

/// # Errors
/// Exit code 2: there is no such file.
pub fn main(args: &Args) -> Outcome {
    let Some(asked) = &args.name else {
        for (name, text) in &EXAMPLES {
            terminal::data(format_args!("  {name:<32} {}", about(text)));
        }
        terminal::say(
            "\n`wringer examples NAME > my.toml` writes one to a file; `wringer plan my.toml` says what it would do",
        );
        return Ok(());
    };
    let wanted = asked.trim_start_matches("experiments/").trim_end_matches(".toml");
    let found = EXAMPLES.iter().find(|(name, _)| *name == wanted || name.rsplit('/').next() == Some(wanted));
    let Some((_, text)) = found else {
        let names: Vec<&str> = EXAMPLES.iter().map(|(name, _)| *name).collect();
        let failure = Failure::message(Exit::Usage, format_args!("there is no example '{asked}'"));
        return Err(failure.hint(format!("there are {}", names.join(", "))));
    };
    terminal::data(text.trim_end());
    Ok(())
}

/// The description of the file, or the first line of its comment.
fn about(text: &str) -> &str {
    let description = text.lines().find_map(|line| line.strip_prefix("description = \"")?.strip_suffix('"'));
    let comment = || text.lines().filter_map(|line| line.strip_prefix("# ")).find(|line| !line.starts_with("SPDX"));
    description.or_else(comment).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn every_file_of_the_folder_is_in_the_program_and_says_what_it_is_about() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
        let mut there = Vec::new();
        for (folder, prefix) in [(root.to_owned(), ""), (format!("{root}/workloads"), "workloads/")] {
            let names =
                fs::read_dir(folder).unwrap().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
            there.extend(names.filter_map(|name| Some(format!("{prefix}{}", name.strip_suffix(".toml")?))));
        }
        there.sort_unstable();
        let mut ours: Vec<&str> = EXAMPLES.iter().map(|(name, _)| *name).collect();
        ours.sort_unstable();
        assert_eq!(there, ours);
        assert!(EXAMPLES.iter().all(|(_, text)| about(text).len() > 20));
    }
}
