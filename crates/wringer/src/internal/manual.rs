// SPDX-License-Identifier: Apache-2.0
//! The files that a package adds to the program: a man page for each command, and completions for the shells.
//!
//! The files are made from the commands themselves, so that they agree with `--help`. `packaging/dist.sh` calls this command.

use crate::Cli;
use crate::exit::Outcome;
use clap::{Command, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;
use std::path::PathBuf;

/// A shell, and the name of the file in which it looks for a command's completions.
const SHELLS: [(Shell, &str); 3] =
    [(Shell::Bash, "wringer.bash"), (Shell::Zsh, "_wringer"), (Shell::Fish, "wringer.fish")];

#[derive(Debug, clap::Args)]
pub struct Args {
    /// An existing folder
    folder: PathBuf,
}

pub fn main(args: Args) -> Outcome {
    for (name, text) in files()? {
        host::files::write_atomic(&args.folder.join(name), &text, 0o644)?;
    }
    Ok(())
}

/// File name and content.
fn files() -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    pages(&visible(Cli::command()), "", &mut files)?;
    for (shell, name) in SHELLS {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut visible(Cli::command()), "wringer", &mut text);
        files.push((name.to_owned(), text));
    }
    Ok(files)
}

/// The command without those that Wringer starts for itself.
fn visible(command: Command) -> Command {
    let shown: Vec<Command> = command.get_subcommands().filter(|inner| !inner.is_hide_set()).cloned().collect();
    let shown: Vec<Command> = shown.into_iter().map(visible).collect();
    // clap cannot remove a subcommand: so the command is built again with the visible ones.
    let mut bare = Command::new(leaked(command.get_name())).disable_help_subcommand(true);
    bare = bare.version(env!("CARGO_PKG_VERSION")).args(command.get_arguments().cloned());
    bare = bare.groups(command.get_groups().cloned()).subcommands(shown);
    if let Some(about) = command.get_about() {
        bare = bare.about(about.clone());
    }
    if let Some(about) = command.get_long_about() {
        bare = bare.long_about(about.clone());
    }
    if let Some(help) = command.get_after_help() {
        bare = bare.after_help(help.clone());
    }
    bare.subcommand_required(command.is_subcommand_required_set())
}

/// clap wants names with a static lifetime; this program ends when the files are written.
fn leaked(name: &str) -> &'static str {
    Box::leak(name.to_owned().into_boxed_str())
}

/// The name of a command's man page: `wringer.1`, `wringer-load.1`, `wringer-sandbox-deploy.1`.
fn pages(command: &Command, above: &str, files: &mut Vec<(String, Vec<u8>)>) -> std::io::Result<()> {
    let name = if above.is_empty() { command.get_name().to_owned() } else { format!("{above}-{}", command.get_name()) };
    let named = command.clone().name(leaked(&name)).display_name(name.clone()).bin_name(name.replace('-', " "));
    let mut text = Vec::new();
    Man::new(named)
        .source(format!("Wringer {}", env!("CARGO_PKG_VERSION")))
        .manual("Wringer".to_owned())
        .render(&mut text)?;
    files.push((format!("{name}.1"), text));
    command.get_subcommands().try_for_each(|inner| pages(inner, &name, files))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str) -> String {
        let found = files().unwrap().into_iter().find(|(file, _)| file == name);
        String::from_utf8(found.unwrap_or_else(|| panic!("no {name}")).1).unwrap()
    }

    #[test]
    fn every_command_has_a_page_and_what_is_hidden_has_none() {
        let names: Vec<String> = files().unwrap().into_iter().map(|(name, _)| name).collect();
        for command in Cli::command().get_subcommands() {
            let page = format!("wringer-{}.1", command.get_name());
            assert_eq!(names.contains(&page), !command.is_hide_set(), "{page}");
        }
        for page in ["wringer.1", "wringer-sandbox-deploy.1", "wringer-ram-hide.1"] {
            assert!(names.iter().any(|name| name == page), "{page} is not among {names:?}");
        }
    }

    #[test]
    fn a_page_says_what_help_says() {
        let page = text("wringer-load.1");
        for words in ["Drive a server with an OLTP load", "wringer load", "\\-\\-assert", "SYNOPSIS", "Examples:"] {
            assert!(page.contains(words), "{words} is not in\n{page}");
        }
        assert!(text("wringer.1").contains("Exit codes:"));
    }

    #[test]
    fn shells_complete_commands_and_flags_but_nothing_hidden() {
        for (_, name) in SHELLS {
            let completions = text(name);
            for word in ["modes", "sandbox", "deploy", "warmup-time"] {
                assert!(completions.contains(word), "{word} is not in {name}");
            }
            assert!(!completions.contains("supervise"), "{name} completes what is not for people");
        }
    }
}
