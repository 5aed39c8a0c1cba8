// SPDX-License-Identifier: Apache-2.0
//! What an error of a station means for the host, and what would help. This crate's own errors say it themselves: [`crate::Error`].

use host::files::{Distrust, user_name};
use host::places::Places;
use std::env;
use std::io;
use std::path::Path;

/// What a failure means for the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The request is wrong.
    Usage,
    /// Something required is missing or in the way; nothing was changed.
    Missing,
    /// Failed; everything that was changed is undone.
    Failed,
    /// Failed, and the host is not restored, or a value was changed by someone else.
    NotRestored,
    /// The end was asked for; everything is undone.
    Interrupted,
}

/// The meaning of one error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meaning {
    pub kind: Kind,
    /// Sentences that say what would help.
    pub hints: Vec<String>,
}

/// The meaning of another crate's error that is classified by itself, whatever caused it.
pub(crate) fn of_station(error: &(dyn std::error::Error + 'static)) -> Option<Meaning> {
    classify(error).map(|(kind, hint)| Meaning { kind, hints: hint.into_iter().collect() })
}

fn classify(error: &(dyn std::error::Error + 'static)) -> Option<(Kind, Option<String>)> {
    if let Some(error) = error.downcast_ref::<run::Error>() {
        return of_run(error);
    }
    if let Some(error) = error.downcast_ref::<sandbox::Error>() {
        return match error {
            sandbox::Error::Run(error) => of_run(error),
            sandbox::Error::Host(host::Error::Untrusted { path, why }) => Some(of_untrusted(path, *why)),
            sandbox::Error::Host(host::Error::MountBelow { path }) => {
                let hint = format!("`umount {}`, then the same again", quoted(&path.display().to_string()));
                Some((Kind::Missing, Some(hint)))
            }
            sandbox::Error::Interrupted => Some((Kind::Interrupted, None)),
            error if error.is_usage() => Some((Kind::Usage, error.hint())),
            error if error.is_missing() => Some((Kind::Missing, error.hint().or_else(|| of_own_folder(error)))),
            error => Some((Kind::Failed, error.hint())),
        };
    }
    if let Some(error) = error.downcast_ref::<attach::Error>() {
        return match error {
            attach::Error::Sandbox(error) => classify(error),
            attach::Error::Connect(error) => classify(error),
            error if error.is_usage() => Some((Kind::Usage, error.hint())),
            error => Some((Kind::Missing, error.hint())),
        };
    }
    if let Some(recording::Error::NotARecording { .. }) = error.downcast_ref::<recording::Error>() {
        return Some((Kind::Missing, Some(RECORDING_HINT.to_owned())));
    }
    if let Some(probe::Error::Unfit { hint, .. }) = error.downcast_ref::<probe::Error>() {
        return Some((Kind::Missing, Some(hint.clone())));
    }
    let setting = match error.downcast_ref::<load::Error>() {
        Some(load::Error::Full { .. }) => Some("max_connections"),
        Some(load::Error::Statements { .. }) => Some("max_prepared_stmt_count"),
        _ => None,
    };
    if let Some(setting) = setting {
        return Some((Kind::Failed, Some(format!("in the experiment file, below [server.options]: {setting} = N"))));
    }
    match error.downcast_ref::<squeeze::Error>()? {
        squeeze::Error::Run(error) => of_run(error),
        squeeze::Error::Host(host::Error::Untrusted { path, why }) => Some(of_untrusted(path, *why)),
        squeeze::Error::Host(host::Error::Interrupted) => Some((Kind::Interrupted, None)),
        squeeze::Error::OutOfTolerance { .. } => Some((Kind::Failed, Some(BUSY.to_owned()))),
        squeeze::Error::Refused { hint, .. } => Some((Kind::Missing, Some(hint.clone()))),
        _ => None,
    }
}

/// What helps where a file or folder is no recording.
pub const RECORDING_HINT: &str = "name a recording.sqlite, or the folder that `wringer run` printed";

fn takes_no_files(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem, StorageFull};
    [NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem, StorageFull].contains(&error.kind())
}

fn is_own(path: &Path) -> bool {
    let journal = Places::from_environment().journal;
    path.starts_with(&journal) || journal.starts_with(path)
}

/// For a folder of Wringer that is full, read-only, or cannot be made: the variable that names another folder.
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

/// For a file or folder that others can write to: who may act on it, or how it becomes the caller's alone.
fn of_untrusted(path: &Path, why: Distrust) -> (Kind, Option<String>) {
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
    (Kind::Missing, Some(hint))
}

/// The path quoted for a shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
/// Where the processes of a run can be seen.
const ELSEWHERE: &str = "nothing was changed; run this where its processes can be seen: outside of this namespace or container, \
    and as the user who started it, or as root";

/// The most frequent reason why a witness measures something else than was asked for.
pub const BUSY: &str = "other work on this machine disturbs what is measured: try again when there is less of it";

fn of_run(error: &run::Error) -> Option<(Kind, Option<String>)> {
    if let Some((path, why)) = error.untrusted() {
        return Some(of_untrusted(path, why));
    }
    let undo = || Some("`wringer undo` puts the host back; `wringer status` shows what is changed".to_owned());
    match error {
        run::Error::Hot { .. } => Some((Kind::Missing, undo())),
        run::Error::Unknown { .. } => Some((Kind::Missing, Some(ELSEWHERE.to_owned()))),
        run::Error::Busy { journal: Some(journal), .. } => {
            let home = journal.parent().unwrap_or(journal).display();
            Some((Kind::Missing, Some(format!("`WRINGER_HOME={home} wringer status` shows that run"))))
        }
        run::Error::Journal(
            journal::Error::File { path, source, .. } | journal::Error::Host(host::Error::Path { path, source, .. }),
        )
        | run::Error::Host(host::Error::Path { path, source, .. })
            if takes_no_files(source) && is_own(path) =>
        {
            let hint = "set WRINGER_HOME to a folder that can be made and has room: journals are kept there";
            // a disk may become full in the middle of the work; a folder that cannot be written is noticed before anything begins
            let exit = if source.kind() == io::ErrorKind::StorageFull { Kind::Failed } else { Kind::Missing };
            Some((exit, Some(hint.to_owned())))
        }
        run::Error::Refused { hint: Some(hint), .. } => Some((Kind::Missing, Some(hint.clone()))),
        error if error.is_not_restored() => Some((Kind::NotRestored, undo())),
        error if error.is_in_the_way() => {
            Some((Kind::Missing, Some("`wringer status` shows who holds what".to_owned())))
        }
        error if error.is_interrupted() => Some((Kind::Interrupted, None)),
        _ => None,
    }
}
