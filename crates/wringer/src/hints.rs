// SPDX-License-Identifier: Apache-2.0
//! What would help against an error. Only the program knows its commands, so the stations' errors say what happened, and this file says what to do.

use host::files::{Distrust, user_name};
use host::places::Places;
use std::env;
use std::io;
use std::path::Path;

/// What helps where a file or folder is no recording.
pub const RECORDING: &str = "name a recording.sqlite, or the folder that `wringer run` printed";

/// The most frequent reason why a witness measures something else than was asked for.
pub const BUSY: &str = "other work on this machine disturbs what is measured: try again when there is less of it";

/// Where the processes of a run can be seen.
const ELSEWHERE: &str = "nothing was changed; run this where its processes can be seen: outside of this namespace or container, \
    and as the user who started it, or as root";

const UNDO: &str = "`wringer undo` puts the host back; `wringer status` shows what is changed";

/// Sentences that say what would help against an error that is classified by itself.
pub fn of(error: &(dyn std::error::Error + 'static)) -> Vec<String> {
    match error.downcast_ref::<lab::Error>() {
        Some(error) => of_lab(error),
        None => of_station(error).into_iter().collect(),
    }
}

fn of_lab(error: &lab::Error) -> Vec<String> {
    use lab::Error as Of;
    let hint = match error {
        Of::Watchdog { .. } => "what was measured until then is in the recording, which says so",
        Of::Conflicts { repairs, .. } => return repairs.clone(),
        Of::ServerEnded { end, .. } => return end.hint().into_iter().collect(),
        Of::NotLoaded => "its user must be able to read Wringer's cache: `wringer doctor` says where the library goes",
        Of::Driver { .. } => {
            "its whole output is in the recording: wringer report FOLDER -o json | jq '.arms[].driven'"
        }
        Of::FillCommand { .. } => {
            "it is given the server by its words ({dsn}, {socket}, ...) and its environment (WRINGER_DSN): `wringer doc experiment`"
        }
        Of::KeptAccount { .. } => {
            "`wringer run FILE --fresh-fill` fills anew and keeps that; `wringer purge` throws all kept fills away"
        }
        Of::HugePages { .. } => {
            "memory in one piece is found soonest after a boot; a smaller pool of the server needs less of it"
        }
        Of::Room { remedy, .. } => return vec![format!("fewer connections; or raise the limit: {remedy}")],
        Of::Databases { names } => {
            return vec![format!("below [fill]: database = \"{}\"", names.first().map_or("", String::as_str))];
        }
        Of::Words { hint, .. } | Of::File { hint, .. } => hint,
        other => return other.station().and_then(of_station).into_iter().collect(),
    };
    vec![hint.to_owned()]
}

fn of_station(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    if let Some(error) = error.downcast_ref::<run::Error>() {
        return of_run(error);
    }
    if let Some(error) = error.downcast_ref::<sandbox::Error>() {
        return match error {
            sandbox::Error::Run(error) => of_run(error),
            sandbox::Error::Host(host::Error::Untrusted { path, why }) => Some(of_untrusted(path, *why)),
            sandbox::Error::Host(host::Error::MountBelow { path }) => {
                Some(format!("`umount {}`, then the same again", quoted(&path.display().to_string())))
            }
            sandbox::Error::Interrupted => None,
            error if error.is_missing() && !error.is_usage() => error.hint().or_else(|| of_own_folder(error)),
            error => error.hint(),
        };
    }
    if let Some(error) = error.downcast_ref::<attach::Error>() {
        return match error {
            attach::Error::Sandbox(error) => of_station(error),
            attach::Error::Connect(error) => of_station(error),
            error => error.hint(),
        };
    }
    if let Some(recording::Error::NotARecording { .. }) = error.downcast_ref::<recording::Error>() {
        return Some(RECORDING.to_owned());
    }
    if let Some(probe::Error::Unfit { hint, .. }) = error.downcast_ref::<probe::Error>() {
        return Some(hint.clone());
    }
    let setting = match error.downcast_ref::<load::Error>() {
        Some(load::Error::Full { .. }) => Some("max_connections"),
        Some(load::Error::Statements { .. }) => Some("max_prepared_stmt_count"),
        _ => None,
    };
    if let Some(setting) = setting {
        return Some(format!("in the experiment file, below [server.options]: {setting} = N"));
    }
    match error.downcast_ref::<squeeze::Error>()? {
        squeeze::Error::Run(error) => of_run(error),
        squeeze::Error::Host(host::Error::Untrusted { path, why }) => Some(of_untrusted(path, *why)),
        squeeze::Error::OutOfTolerance { .. } => Some(BUSY.to_owned()),
        squeeze::Error::Refused { hint, .. } => Some(hint.clone()),
        _ => None,
    }
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
fn of_untrusted(path: &Path, why: Distrust) -> String {
    let own = if is_cache(path, &Places::from_environment()) { "WRINGER_CACHE" } else { "WRINGER_HOME" };
    untrusted(path, why, own)
}

/// `variable` names the folder in which the path is, or that is below it. Nothing that an undo finds is in a cache.
fn untrusted(path: &Path, why: Distrust, variable: &str) -> String {
    let home = env::var("WRINGER_HOME").ok().filter(|home| !home.is_empty());
    let home = home.map(|home| format!("WRINGER_HOME={} ", quoted(&home))).unwrap_or_default();
    let shown = quoted(&path.display().to_string());
    let own = format!("set {variable} to a folder of your own");
    match why {
        Distrust::Owner(_) if variable == "WRINGER_CACHE" => own,
        Distrust::Owner(0) => format!("its owner undoes what stands there: `sudo {home}wringer undo`; or {own}"),
        Distrust::Owner(uid) => {
            let user = user_name(uid).unwrap_or_else(|| format!("'#{uid}'"));
            format!("its owner undoes what stands there: `sudo -u {user} {home}wringer undo`; or {own}")
        }
        Distrust::UnknownOwner => format!("go on outside of this user namespace; or {own}"),
        Distrust::Everybody | Distrust::Group(_) => {
            format!("`chmod go-w {shown}`, if nobody else is to write there; or {own}")
        }
    }
}

/// Whether the path concerns the cache alone: it is in the cache, or above the cache and not above the journals.
fn is_cache(path: &Path, places: &Places) -> bool {
    let is_above = |folder: &Path| {
        let there = folder.ancestors().find_map(|folder| folder.canonicalize().ok());
        folder.starts_with(path) || there.is_some_and(|there| there.starts_with(path))
    };
    let is_in =
        path.starts_with(&places.cache) || places.cache.canonicalize().is_ok_and(|cache| path.starts_with(cache));
    is_in || is_above(&places.cache) && !is_above(&places.journal)
}

/// The path quoted for a shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

fn of_run(error: &run::Error) -> Option<String> {
    if let Some((path, why)) = error.untrusted() {
        return Some(of_untrusted(path, why));
    }
    match error {
        run::Error::Hot { .. } => Some(UNDO.to_owned()),
        run::Error::Unknown { .. } => Some(ELSEWHERE.to_owned()),
        run::Error::Busy { journal: Some(journal), .. } => {
            let home = journal.parent().unwrap_or(journal).display();
            Some(format!("`WRINGER_HOME={home} wringer status` shows that run"))
        }
        error if lab::not_kept(error).is_some() => {
            Some("set WRINGER_HOME to a folder that can be made and has room: journals are kept there".to_owned())
        }
        run::Error::Refused { hint: Some(hint), .. } => Some(hint.clone()),
        error if error.is_not_restored() => Some(UNDO.to_owned()),
        error if error.is_in_the_way() => Some("`wringer status` shows who holds what".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_that_is_not_safe_is_no_matter_of_an_undo() {
        let places = Places { cache: "/home/alice/cache".into(), ..Places::below(Path::new("/var/lib/wringer")) };
        let is_cache = |path: &str| is_cache(Path::new(path), &places);
        assert!(["/home/alice", "/home/alice/cache", "/home/alice/cache/servers"].map(is_cache).iter().all(|it| *it));
        assert!(!["/", "/var/lib", "/var/lib/wringer/journal", "/home/bob"].map(is_cache).iter().any(|it| *it));
        let path = Path::new("/home/alice");
        let hint = |why| untrusted(path, why, "WRINGER_CACHE");
        assert_eq!(hint(Distrust::Owner(12_345)), "set WRINGER_CACHE to a folder of your own");
        let hint = hint(Distrust::Everybody);
        assert!(hint.starts_with("`chmod go-w /home/alice`") && hint.contains("WRINGER_CACHE"), "{hint}");
        let hint = untrusted(path, Distrust::Owner(12_345), "WRINGER_HOME");
        assert!(hint.contains("wringer undo`; or set WRINGER_HOME"), "{hint}");
    }
}
