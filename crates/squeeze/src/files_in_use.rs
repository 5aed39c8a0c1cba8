// SPDX-License-Identifier: Apache-2.0
//! Refuses a directory or a file that somebody uses, and names the user.

use crate::Error;
use host::in_use::{InUse, User};
use std::path::Path;

/// Refuses a directory with open files below it, under whatever path they were opened: their processes would bypass a mount over it.
///
/// # Errors
/// [`Error::Refused`]: a process uses it, or a process that is not visible to us may use it.
pub(crate) fn refuse_open_files(directory: &Path) -> Result<(), Error> {
    refuse_users_of(directory, &host::in_use::below(directory)?, &[])
}

/// The same for a look that was made already. `own`: the processes that serve the layer.
///
/// # Errors
/// [`Error::Refused`].
pub(crate) fn refuse_users_of(directory: &Path, in_use: &InUse, own: &[u32]) -> Result<(), Error> {
    let hint = "stop the server that uses it; storage is never swapped under a live server";
    refuse_users(directory, in_use, &|user| is_other(user, own), hint)
}

/// Whether the user is none of our `own` processes.
pub(crate) fn is_other(user: &User, own: &[u32]) -> bool {
    user.process().is_none_or(|process| !own.contains(&process.pid))
}

/// The same check for a layer that only one command will see. A working directory below is allowed. A process that reads or writes
/// files there is refused: it and the layer's cache would not see each other's changes. This process's own files are the command's
/// input and output, and are allowed.
///
/// # Errors
/// [`Error::Refused`]: a process has files open, or a process that is not visible to us may have.
pub(crate) fn refuse_open_by_others(directory: &Path, in_use: &InUse, own: &[u32]) -> Result<(), Error> {
    let is_meant = |user: &User| !user.only_stands() && is_other(user, own) && is_other(user, &[std::process::id()]);
    let hint = "end it first, or squeeze a copy: nobody else may use what one command sees slowed";
    refuse_users(directory, in_use, &is_meant, hint)
}

/// `path`: a directory or a file. `hint`: what to do about a process. Where every user has a command that ends its use, as a loop device has, the
/// error names these commands instead.
pub(crate) fn refuse_users(
    path: &Path,
    in_use: &InUse,
    is_meant: &dyn Fn(&User) -> bool,
    hint: &str,
) -> Result<(), Error> {
    let (shown, unseen) = (path.display(), &in_use.unseen);
    let meant: Vec<&User> = in_use.by.iter().filter(|user| is_meant(user)).collect();
    if !meant.is_empty() {
        let users: Vec<String> = meant.iter().map(ToString::to_string).collect();
        let ends: Option<Vec<String>> = meant.iter().map(|user| user.end()).collect();
        let hint = ends.map_or_else(|| hint.to_owned(), |ends| format!("{}, then the same again", ends.join(", ")));
        let besides = if unseen.is_nothing() { String::new() } else { format!(" ({unseen})") };
        let what = format!("{shown} is in use by {}{besides}", users.join("; "));
        return Err(Error::Refused { what, hint });
    }
    if unseen.may_hide_ours() {
        let what = format!("whether {shown} is in use cannot be told from here: {unseen}");
        let hint = "run this where they can be seen: outside of this namespace or container, or as root";
        return Err(Error::Refused { what, hint: hint.to_owned() });
    }
    Ok(())
}
