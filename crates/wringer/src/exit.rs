// SPDX-License-Identifier: Apache-2.0
//! How a command ends. The codes are a promise to scripts; `wringer --help` lists them.

use host::files::{Distrust, user_name};
use host::places::Places;
use std::env;
use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Done = 0,
    /// Ran, and an assertion failed.
    Finding = 1,
    Usage = 2,
    /// Something required is missing or in the way; nothing was changed.
    Missing = 3,
    /// Failed; everything that was changed is undone.
    Failed = 4,
    /// Failed, and the host is not restored, or a value was changed by someone else.
    NotRestored = 5,
    /// Interrupted; everything undone.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// An error on its way to the user: the exit code, the chain of causes, and what would help.
#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    pub error: anyhow::Error,
    pub hints: Vec<String>,
}

impl Failure {
    pub fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self { exit, error: error.into(), hints: Vec::new() }
    }

    pub fn message(exit: Exit, message: impl fmt::Display) -> Self {
        Self::new(exit, anyhow::anyhow!("{message}"))
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

/// The stations' own errors say what they mean for the host; what is not classified has failed, with everything undone.
impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        let (exit, hint) = error.chain().find_map(classify).unwrap_or((Exit::Failed, None));
        Self { exit, error, hints: hint.into_iter().collect() }
    }
}

/// The exit code and the hint of an error that stands for one.
fn classify(error: &(dyn std::error::Error + 'static)) -> Option<(Exit, Option<String>)> {
    if let Some(error) = error.downcast_ref::<run::Error>() {
        return of_run(error);
    }
    if let Some(error) = error.downcast_ref::<sandbox::Error>() {
        return match error {
            sandbox::Error::Run(error) => of_run(error),
            sandbox::Error::Host(host::Error::Untrusted { path, why }) => Some(of_untrusted(path, *why)),
            sandbox::Error::Host(host::Error::MountBelow { path }) => {
                let hint = format!("`umount {}`, then the same again", quoted(&path.display().to_string()));
                Some((Exit::Missing, Some(hint)))
            }
            sandbox::Error::Interrupted => Some((Exit::Interrupted, None)),
            error if error.is_usage() => Some((Exit::Usage, error.hint())),
            error if error.is_missing() => Some((Exit::Missing, error.hint().or_else(|| of_own_folder(error)))),
            error => Some((Exit::Failed, error.hint())),
        };
    }
    if let Some(probe::Error::Unfit { hint, .. }) = error.downcast_ref::<probe::Error>() {
        return Some((Exit::Missing, Some(hint.clone())));
    }
    let setting = match error.downcast_ref::<load::Error>() {
        Some(load::Error::Full { .. }) => Some("max_connections"),
        Some(load::Error::Statements { .. }) => Some("max_prepared_stmt_count"),
        _ => None,
    };
    if let Some(setting) = setting {
        return Some((Exit::Failed, Some(format!("in the experiment file, below [server.options]: {setting} = N"))));
    }
    match error.downcast_ref::<squeeze::Error>()? {
        squeeze::Error::Run(error) => of_run(error),
        squeeze::Error::Host(host::Error::Untrusted { path, why }) => Some(of_untrusted(path, *why)),
        squeeze::Error::Host(host::Error::Interrupted) => Some((Exit::Interrupted, None)),
        squeeze::Error::OutOfTolerance { .. } => Some((Exit::Failed, Some(BUSY.to_owned()))),
        squeeze::Error::Refused { hint, .. } => Some((Exit::Missing, Some(hint.clone()))),
        _ => None,
    }
}

fn takes_no_files(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem, StorageFull};
    [NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem, StorageFull].contains(&error.kind())
}

fn is_own(path: &Path) -> bool {
    let journal = Places::from_environment().journal;
    path.starts_with(&journal) || journal.starts_with(path)
}

/// A folder of ours that is full, read-only, or cannot be made: which variable names another one.
fn of_own_folder(error: &sandbox::Error) -> Option<String> {
    let (sandbox::Error::Path { path, source, .. } | sandbox::Error::Host(host::Error::Path { path, source, .. })) =
        error
    else {
        return None;
    };
    let Places { cache, sandboxes, .. } = Places::from_environment();
    let is_full = source.kind() == io::ErrorKind::StorageFull;
    let (variable, what) = if sandboxes.starts_with(path) || path.starts_with(&sandboxes) && is_full {
        ("WRINGER_HOME", "sandboxes")
    } else if path.starts_with(&cache) || cache.starts_with(path) {
        ("WRINGER_CACHE", "fetched servers")
    } else {
        return None;
    };
    Some(format!("set {variable} to a folder that can be made and has room: {what} are kept there"))
}

/// What is not the caller's is not acted upon: who may, and how; or how it becomes the caller's alone.
fn of_untrusted(path: &Path, why: Distrust) -> (Exit, Option<String>) {
    let home = env::var("WRINGER_HOME").ok().filter(|home| !home.is_empty());
    let home = home.map(|home| format!("WRINGER_HOME={} ", quoted(&home))).unwrap_or_default();
    let shown = quoted(&path.display().to_string());
    let own = "set WRINGER_HOME to a folder of your own";
    let hint = match why {
        Distrust::Owner(0) => format!("its owner undoes what stands there: `sudo {home}wringer undo`; or {own}"),
        Distrust::Owner(uid) => {
            let user = user_name(uid).unwrap_or_else(|| format!("'#{uid}'"));
            format!("its owner undoes what stands there: `sudo -u {user} {home}wringer undo`; or {own}")
        }
        Distrust::UnknownOwner => format!("go on outside of this user namespace; or {own}"),
        Distrust::Everybody | Distrust::Group(_) => {
            format!("`chmod go-w {shown}`, if nobody else is to write there; or {own}")
        }
    };
    (Exit::Missing, Some(hint))
}

/// For a shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
/// Where the processes of a run can be seen.
const ELSEWHERE: &str = "nothing was changed; run this where its processes can be seen: outside of this namespace or container, \
    and as the user who started it, or as root";

/// What most often keeps a witness from measuring what was asked.
pub const BUSY: &str = "other work on this machine disturbs what is measured: try again when there is less of it";

fn of_run(error: &run::Error) -> Option<(Exit, Option<String>)> {
    if let Some((path, why)) = error.untrusted() {
        return Some(of_untrusted(path, why));
    }
    let undo = || Some("`wringer undo` puts the host back; `wringer status` shows what is changed".to_owned());
    match error {
        run::Error::Hot { .. } => Some((Exit::Missing, undo())),
        run::Error::Unknown { .. } => Some((Exit::Missing, Some(ELSEWHERE.to_owned()))),
        run::Error::Busy { journal: Some(journal), .. } => {
            let home = journal.parent().unwrap_or(journal).display();
            Some((Exit::Missing, Some(format!("`WRINGER_HOME={home} wringer status` shows that run"))))
        }
        run::Error::Journal(
            journal::Error::File { path, source, .. } | journal::Error::Host(host::Error::Path { path, source, .. }),
        )
        | run::Error::Host(host::Error::Path { path, source, .. })
            if takes_no_files(source) && is_own(path) =>
        {
            let hint = "set WRINGER_HOME to a folder that can be made and has room: journals are kept there";
            // a disk that fills up may do so in the middle; what cannot be written at all, was not, and nothing was begun
            let exit = if source.kind() == io::ErrorKind::StorageFull { Exit::Failed } else { Exit::Missing };
            Some((exit, Some(hint.to_owned())))
        }
        run::Error::Refused { hint: Some(hint), .. } => Some((Exit::Missing, Some(hint.clone()))),
        error if error.is_not_restored() => Some((Exit::NotRestored, undo())),
        error if error.is_in_the_way() => {
            Some((Exit::Missing, Some("`wringer status` shows who holds what".to_owned())))
        }
        error if error.is_interrupted() => Some((Exit::Interrupted, None)),
        _ => None,
    }
}

pub type Outcome = Result<(), Failure>;
