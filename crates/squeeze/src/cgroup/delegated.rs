// SPDX-License-Identifier: Apache-2.0
//! v2 cgroups that belong to an ordinary user: the user's own cgroup, or one above it, is delegated to the user (kernel,
//! admin-guide/cgroup-v2.rst, "Delegation").
//!
//! A cgroup with processes cannot enable controllers for children ("No Internal Process Constraint"), so the caller's own cgroup is of no use while
//! the caller is in it. No process is moved: a cgroup above is used if it is delegated and has no processes; else the error says how to get one.
//! systemd manages all cgroups that are not marked as delegated, and would disable a controller again: below a unit only a marked cgroup is used.

use super::{Controller, lists};
use crate::Error;
use run::CgroupVersion::V2;
use rustix::fs::{Access, access};
use std::fs;
use std::path::{Path, PathBuf};

/// How an ordinary user gets a cgroup with systemd. The command moves from the scope's own cgroup to one below it.
const ADVICE: &str = "run as root, or below a delegated cgroup; with systemd: systemd-run --user --scope -p Delegate=yes sh -c \
    'd=/sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup); mkdir $d/own; echo $$ >$d/own/cgroup.procs; exec wringer ...'";

/// # Errors
/// [`Error::Refused`]: no cgroup is delegated, or it cannot be used, with the reason.
pub(super) fn find(root: &Path, name: &str) -> Result<Controller, Error> {
    let refused = |what: String| Err(Error::Refused { what, hint: ADVICE.into() });
    let Some(own) = own(root) else {
        return refused(format!("{} is not writable for this user", root.display()));
    };
    let mut why = format!("{} is not writable for this user", root.display());
    for folder in candidates(root, &own) {
        match usable(folder, name) {
            Ok(()) => return Ok(Controller { root: folder.to_owned(), version: V2 }),
            Err(Objection::NotOurs) => break,
            Err(Objection::Other(objection)) => why = format!("{}: {objection}", folder.display()),
        }
    }
    refused(why)
}

/// The cgroup of this process: the line `0::/path` (cgroups(7)). `None`: it is outside of the mounted tree.
fn own(root: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    (!path.starts_with("..")).then(|| root.join(path))
}

/// The cgroups from the caller's own upwards, without the root. A unit of systemd ends the list.
fn candidates<'a>(root: &'a Path, own: &'a Path) -> Vec<&'a Path> {
    let mut found: Vec<&Path> = own.ancestors().take_while(|folder| *folder != root).collect();
    if let Some(unit) = found.iter().position(|folder| is_of_systemd(folder)) {
        found.truncate(unit + 1);
    }
    found
}

enum Objection {
    /// This user may not use the cgroup, so no cgroup above it can be used either.
    NotOurs,
    Other(String),
}

fn usable(folder: &Path, name: &str) -> Result<(), Objection> {
    let control = folder.join("cgroup.subtree_control");
    // The rights to make a cgroup, to enable the controller, and to move a process from here into it.
    let needed = [folder, &control, &folder.join("cgroup.procs")].map(|path| access(path, Access::WRITE_OK));
    if needed.iter().any(Result::is_err) {
        return Err(Objection::NotOurs);
    }
    let other = |text: String| Err(Objection::Other(text));
    if is_of_systemd(folder) && !is_marked(folder) {
        return other("it is a unit of systemd that is not delegated".into());
    }
    if !lists(&folder.join("cgroup.controllers"), name) {
        return other(format!("it is delegated to this user without the controller {name}"));
    }
    if lists(&control, name) {
        return Ok(());
    }
    match fs::read_to_string(folder.join("cgroup.procs")) {
        Ok(processes) if processes.trim().is_empty() => Ok(()),
        _ => other(
            "it is delegated to this user, and has processes of its own, so that it can hand no controller down".into(),
        ),
    }
}

fn is_of_systemd(folder: &Path) -> bool {
    folder.extension().is_some_and(|kind| ["scope", "service", "slice"].iter().any(|it| kind == *it))
}

/// systemd marks the cgroups that it has delegated (since 251 where a user can read the mark).
fn is_marked(folder: &Path) -> bool {
    let mut value = [0; 8];
    let length = rustix::fs::getxattr(folder, "user.delegate", &mut value[..]);
    length.is_ok_and(|length| value.get(..length) == Some(b"1".as_slice()))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    #[test]
    fn what_systemd_manages_by_itself_is_no_candidate() {
        let root = Path::new("/sys/fs/cgroup");
        let of = |own: &str| {
            let own = root.join(own);
            let found = candidates(root, &own).into_iter().map(|it| it.strip_prefix(root).unwrap_or(it).to_owned());
            found.map(|it| it.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(of("user/leaf"), ["user/leaf", "user"]);
        assert_eq!(of("user.slice/a.service/app.slice/run.scope/own/x").len(), 3);
        assert_eq!(of("user.slice/session-2.scope"), ["user.slice/session-2.scope"]);
        assert!(of("").is_empty(), "the first of all is no candidate");
    }

    /// Plain files take the place of the kernel's.
    #[test]
    fn a_delegated_cgroup_is_used_when_it_is_empty() {
        let there = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| fs::write(there.path().join(name), text).expect("writes");
        write("cgroup.procs", "");
        write("cgroup.subtree_control", "");
        write("cgroup.controllers", "cpu memory\n");
        let of = |name| match usable(there.path(), name) {
            Ok(()) => "usable".to_owned(),
            Err(Objection::NotOurs) => "not ours".to_owned(),
            Err(Objection::Other(why)) => why,
        };
        assert_eq!(of("memory"), "usable");
        assert!(of("cpuset").contains("without the controller cpuset"));
        write("cgroup.procs", "17\n");
        assert!(of("memory").contains("has processes of its own"), "{}", of("memory"));
        write("cgroup.subtree_control", "memory\n");
        assert_eq!((of("memory").as_str(), of("cpu").contains("of its own")), ("usable", true));
        fs::remove_file(there.path().join("cgroup.procs")).expect("removes");
        assert_eq!(of("memory"), "not ours");
    }
}
