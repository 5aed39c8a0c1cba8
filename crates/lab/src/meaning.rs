// SPDX-License-Identifier: Apache-2.0
//! What an error of a station means for the host. This crate's own errors say it themselves: [`crate::Error`]. What would help, the program says:
//! nothing here knows its commands.

use host::places::Places;
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

/// The kind of another crate's error that is classified by itself, whatever caused it.
pub(crate) fn of_station(error: &(dyn std::error::Error + 'static)) -> Option<Kind> {
    if let Some(error) = error.downcast_ref::<run::Error>() {
        return of_run(error);
    }
    if let Some(error) = error.downcast_ref::<sandbox::Error>() {
        return match error {
            sandbox::Error::Run(error) => of_run(error),
            sandbox::Error::Host(host::Error::Untrusted { .. } | host::Error::MountBelow { .. }) => Some(Kind::Missing),
            sandbox::Error::Interrupted => Some(Kind::Interrupted),
            error if error.is_usage() => Some(Kind::Usage),
            error if error.is_missing() => Some(Kind::Missing),
            _ => Some(Kind::Failed),
        };
    }
    if let Some(error) = error.downcast_ref::<attach::Error>() {
        return match error {
            attach::Error::Sandbox(error) => of_station(error),
            attach::Error::Connect(error) => of_station(error),
            error if error.is_usage() => Some(Kind::Usage),
            _ => Some(Kind::Missing),
        };
    }
    if let Some(recording::Error::NotARecording { .. }) = error.downcast_ref::<recording::Error>() {
        return Some(Kind::Missing);
    }
    if let Some(probe::Error::Unfit { .. }) = error.downcast_ref::<probe::Error>() {
        return Some(Kind::Missing);
    }
    if let Some(load::Error::Full { .. } | load::Error::Statements { .. }) = error.downcast_ref::<load::Error>() {
        return Some(Kind::Failed);
    }
    match error.downcast_ref::<squeeze::Error>()? {
        squeeze::Error::Run(error) => of_run(error),
        squeeze::Error::Host(host::Error::Untrusted { .. }) | squeeze::Error::Refused { .. } => Some(Kind::Missing),
        squeeze::Error::Host(host::Error::Interrupted) => Some(Kind::Interrupted),
        squeeze::Error::OutOfTolerance { .. } => Some(Kind::Failed),
        _ => None,
    }
}

fn of_run(error: &run::Error) -> Option<Kind> {
    match error {
        error if error.untrusted().is_some() => Some(Kind::Missing),
        run::Error::Hot { .. } | run::Error::Unknown { .. } | run::Error::Busy { journal: Some(_), .. } => {
            Some(Kind::Missing)
        }
        // a disk may become full in the middle of the work; a folder that cannot be written is noticed before anything begins
        error if not_kept(error).is_some_and(|why| why.kind() == io::ErrorKind::StorageFull) => Some(Kind::Failed),
        error if not_kept(error).is_some() => Some(Kind::Missing),
        run::Error::Refused { hint: Some(_), .. } => Some(Kind::Missing),
        error if error.is_not_restored() => Some(Kind::NotRestored),
        error if error.is_in_the_way() => Some(Kind::Missing),
        error if error.is_interrupted() => Some(Kind::Interrupted),
        _ => None,
    }
}

/// Why a journal cannot be kept in its folder. `None`: that is not what went wrong.
pub fn not_kept(error: &run::Error) -> Option<&io::Error> {
    let (run::Error::Journal(
        journal::Error::File { path, source, .. } | journal::Error::Host(host::Error::Path { path, source, .. }),
    )
    | run::Error::Host(host::Error::Path { path, source, .. })) = error
    else {
        return None;
    };
    (takes_no_files(source) && is_own(path)).then_some(source)
}

fn takes_no_files(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem, StorageFull};
    [NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem, StorageFull].contains(&error.kind())
}

fn is_own(path: &Path) -> bool {
    let journal = Places::from_environment().journal;
    path.starts_with(&journal) || journal.starts_with(path)
}
