// SPDX-License-Identifier: Apache-2.0
//! `--apply`: the server is asked for its limits again, because the looks of a plan may take hours, and a limit that somebody else set in that time must not
//! be lost. Then the statements that restore the old limits are on the disk before the first statement is run. At the end the server is asked for its limits
//! once more, and the answer is compared with the plan.

use super::looks::{Looked, lost};
use crate::commands::connection::server_failure;
use crate::exit::{Exit, Failure, Outcome};
use connections::{Account, Change, Plan, ServerReading};
use host::clock::unix_seconds;
use host::files::private_dir;
use host::places::Places;
use load::Protocol;
use load::reversible::{Applied, NotBegun, Reversible};
use observe::Reopening;
use observe::server::ServerKind;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The result of `--apply`.
#[derive(Debug, Serialize)]
pub(super) struct Done {
    /// `None`: there was nothing to change.
    pub(super) restore_file: Option<String>,
    pub(super) how_to_restore: String,
    /// Whether connections that were open before are left out of the count.
    pub(super) counts_only_new: bool,
}

/// # Errors
/// 3: nothing was changed. 4: all changes are undone. 5: some changes are not undone.
pub(super) fn apply(looked: &Looked, plan: &Plan, file: Option<&Path>) -> Result<Done, Failure> {
    let protocol = looked.target.protocol;
    let counts_only_new = protocol == Protocol::Mysql;
    if plan.changes.is_empty() {
        return Ok(Done { restore_file: None, how_to_restore: String::new(), counts_only_new });
    }
    let file = restore_file(file)?;
    unchanged(&plan.changes, &stored(looked)?, protocol)?;
    let how_to_restore = how_to_restore(protocol, &file);
    let head = format!("these statements restore the limits of accounts of {}\n{how_to_restore}", looked.of);
    let changes: Vec<Reversible> = plan.changes.iter().map(reversible).collect();
    let ended = load::reversible::apply(&looked.target, &changes, &file, &head, &host::interrupt::requested);
    let ended = ended.map_err(not_begun)?;
    let told = stored(looked);
    let trouble = Trouble { file: &file, how_to_restore: &how_to_restore };
    match ended {
        Applied::All => check(&plan.changes, told, |change| change.wanted)
            .map_err(|why| trouble.not_restored("the statements were run, and the limits are not as planned", &why))?,
        Applied::Undone { done, why } => {
            let all = plan.changes.len();
            return Err(match check(&plan.changes, told, |change| change.former) {
                Ok(()) => restored(why, &undone(done, all)),
                Err(still) => trouble.not_restored(&stopped(done, all), &still),
            });
        }
        Applied::NotUndone { done, why, undo_failed } => {
            let why = why.map_or_else(|| "asked to stop".to_owned(), |why| host::chain(&why));
            let what = format!("{}, then: {why}; to undo them failed", stopped(done, plan.changes.len()));
            return Err(trouble.not_restored(&what, &host::chain(&undo_failed)));
        }
    }
    Ok(Done { restore_file: Some(file.display().to_string()), how_to_restore, counts_only_new })
}

/// Fails where an account has another limit than the one that the plan would restore.
fn unchanged(changes: &[Change], now: &ServerReading, protocol: Protocol) -> Outcome {
    for change in changes {
        let found = limit_of(now, &change.account);
        if found == Some(change.former) {
            continue;
        }
        let is_now = match (found, &now.accounts) {
            (Some(limit), _) => format!("and is {} now", in_words(limit, protocol)),
            (None, Some(_)) => "and the account is gone".to_owned(),
            (None, None) => "and the server does not show it any more".to_owned(),
        };
        let (account, was) = (super::in_line(&change.account.to_string()), in_words(change.former, protocol));
        let message = format!(
            "the limit of {account} changed meanwhile: it was {was} when the looks began, {is_now}; nothing was applied"
        );
        return Err(
            Failure::message(Exit::Missing, message).hint("plan again: the new plan begins with the limits of now")
        );
    }
    Ok(())
}

fn limit_of(seen: &ServerReading, account: &Account) -> Option<i64> {
    seen.accounts.iter().flatten().find(|it| it.account == *account).map(|it| it.limit)
}

/// A limit as the server stores it.
fn in_words(limit: i64, protocol: Protocol) -> String {
    match (protocol, limit) {
        (Protocol::Mysql, 0) | (Protocol::Postgresql, -1) => "none".to_owned(),
        (_, limit) => limit.to_string(),
    }
}

fn reversible(change: &Change) -> Reversible {
    Reversible { statement: change.statement.clone(), undo: change.restore.clone() }
}

/// The path of the restore file, which must be absolute and new: a file that exists may be the only way back from an earlier plan.
fn restore_file(wanted: Option<&Path>) -> Result<PathBuf, Failure> {
    let refused = |error: anyhow::Error| Failure { exit: Exit::Missing, ..Failure::from(error) };
    let file = match wanted {
        Some(file) => std::path::absolute(file).map_err(|error| refused(error.into()))?,
        None => {
            let folder = Places::from_environment().recordings.with_file_name("connections");
            private_dir(&folder, 0o700).map_err(|error| refused(error.into()))?;
            folder.join(format!("restore-{}-{}.sql", unix_seconds(), std::process::id()))
        }
    };
    if file.symlink_metadata().is_ok() {
        let message = format!("{} is there already, and may be needed to restore an earlier plan", file.display());
        return Err(Failure::message(Exit::Missing, message).hint("name another file with --restore-file"));
    }
    Ok(file)
}

fn how_to_restore(protocol: Protocol, file: &Path) -> String {
    match protocol {
        Protocol::Mysql => format!("as an administrator: mysql < {}", file.display()),
        Protocol::Postgresql => format!("as a superuser: psql -f {}", file.display()),
    }
}

fn not_begun(error: NotBegun) -> Failure {
    match error {
        NotBegun::Connect(error) => Failure { exit: Exit::Missing, ..server_failure(error) },
        NotBegun::File(_) => {
            Failure::new(Exit::Missing, error).hint("nothing was changed; name another place with --restore-file")
        }
    }
}

fn stopped(done: usize, all: usize) -> String {
    format!("{done} of {all} statements had been run")
}

fn undone(done: usize, all: usize) -> String {
    match done {
        0 => "nothing was changed".to_owned(),
        done => format!("{}, and are undone: the limits are as they were", stopped(done, all)),
    }
}

fn restored(why: Option<load::Error>, what: &str) -> Failure {
    match why {
        None => Failure::message(Exit::Interrupted, format!("asked to stop; {what}")),
        Some(error) => {
            let failure = Failure { exit: Exit::Failed, ..server_failure(error) };
            failure.hint(what)
        }
    }
}

struct Trouble<'a> {
    file: &'a Path,
    how_to_restore: &'a str,
}

impl Trouble<'_> {
    fn not_restored(&self, what: &str, why: &str) -> Failure {
        let message = format!("{what}: {why}; the file {} restores them", self.file.display());
        Failure::message(Exit::NotRestored, message).hint(self.how_to_restore)
    }
}

/// The limits that the server has stored now.
fn stored(looked: &Looked) -> Result<ServerReading, Failure> {
    let kind = ServerKind { flavour: looked.seen.flavour, version: looked.seen.version.clone() };
    observe::connections::begin(&mut Reopening::new(looked.target.clone()), &kind).map_err(lost)
}

fn check(
    changes: &[Change],
    stored: Result<ServerReading, Failure>,
    wanted: impl Fn(&Change) -> i64,
) -> Result<(), String> {
    let seen = stored.map_err(|failure| format!("{:#}", failure.error))?;
    for change in changes {
        let found = limit_of(&seen, &change.account);
        let wanted = wanted(change);
        if found != Some(wanted) {
            let found = found.map_or_else(|| "is gone".to_owned(), |found| format!("has {found}"));
            return Err(format!("{} {found}, and not {wanted}", super::in_line(&change.account.to_string())));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use connections::AccountSeen;

    #[test]
    fn a_limit_that_somebody_changed_meanwhile_is_not_written_over() {
        let mut asked = |_: &str| -> Result<Vec<Vec<Option<String>>>, String> { Ok(Vec::new()) };
        let kind = ServerKind::of(Protocol::Postgresql, "15.18");
        let mut now = observe::connections::begin(&mut asked, &kind).expect("it answers");
        let account = Account::role("app");
        let change = Change {
            account: account.clone(),
            statement: String::new(),
            restore: String::new(),
            former: -1,
            wanted: 9,
        };
        let mut told = |accounts: Option<Vec<(Account, i64)>>| {
            let seen = |(account, limit)| AccountSeen { account, limit, ..AccountSeen::default() };
            now.accounts = accounts.map(|accounts| accounts.into_iter().map(seen).collect());
            unchanged(std::slice::from_ref(&change), &now, Protocol::Postgresql).err()
        };
        assert!(told(Some(vec![(account.clone(), -1)])).is_none());
        let failure = told(Some(vec![(Account::role("other"), -1), (account, 12)])).expect("another limit");
        assert_eq!(
            (failure.exit, failure.error.to_string().as_str()),
            (
                Exit::Missing,
                "the limit of app changed meanwhile: it was none when the looks began, and is 12 now; nothing was applied"
            )
        );
        assert!(failure.hints[0].starts_with("plan again"));
        let gone = told(Some(Vec::new())).expect("no account");
        assert!(gone.error.to_string().contains("the account is gone"));
        assert!(told(None).is_some_and(|failure| failure.error.to_string().contains("does not show it any more")));
    }
}
