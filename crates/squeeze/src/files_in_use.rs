// SPDX-License-Identifier: Apache-2.0
//! Refuses a directory or a file that somebody uses, and names the user.

use crate::Error;
use host::in_use::{InUse, User};
use std::path::Path;

/// A process that has files open below a directory would bypass a mount over it; by whatever path it has them open.
///
/// # Errors
/// [`Error::Refused`]: somebody uses it, or may, whom we cannot see.
pub(crate) fn refuse_open_files(directory: &Path) -> Result<(), Error> {
    let hint = "stop the server that uses it; storage is never swapped under a live server";
    refuse_users(directory, &host::in_use::below(directory)?, &|_| true, hint)
}

/// The same for a layer that one command alone will see: whose working directory is below goes on as before, and who reads or writes
/// files there would not see, nor be seen by, what the layer keeps in its cache. Our own files are the command's input and output.
///
/// # Errors
/// [`Error::Refused`]: somebody has files open, or may have, whom we cannot see.
pub(crate) fn refuse_open_by_others(directory: &Path) -> Result<(), Error> {
    let own = std::process::id();
    let is_meant = |user: &User| !user.only_stands() && user.process().is_none_or(|process| process.pid != own);
    let hint = "end it first, or squeeze a copy: nobody else may use what one command sees slowed";
    refuse_users(directory, &host::in_use::below(directory)?, &is_meant, hint)
}

/// `path`: a directory or a file. `hint`: what to do about a process; what else uses it has a command that ends that.
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
