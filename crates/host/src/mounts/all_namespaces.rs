// SPDX-License-Identifier: Apache-2.0
use super::{MountEntry, mounts, parse};
use crate::Error;
use crate::mounted_at::MountedAt;
use crate::process::{Census, pids};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The mounts of one mount namespace, as one process sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceMounts {
    /// The inode of `/proc/PID/ns/mnt`.
    pub namespace: u64,
    /// A process in it: `nsenter -t PID -m` enters it.
    pub pid: u32,
    /// It is the caller's own namespace.
    pub is_own: bool,
    /// The mounts, oldest first; each target is a path as that process sees it.
    pub mounts: Vec<MountEntry>,
}

/// The mounts of every mount namespace that has a process at which we may look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Everywhere {
    /// The caller's own namespace comes first. A namespace is listed once more for each process with a root of its own (chroot(2)) that sees mounts
    /// which the processes before it do not see. Each mount is listed once.
    pub namespaces: Vec<NamespaceMounts>,
    /// How many processes we were not allowed to look at.
    pub unseen: usize,
}

/// See [`Everywhere::namespaces`].
pub fn mounts_everywhere() -> Result<Vec<NamespaceMounts>, Error> {
    Ok(Everywhere::look()?.namespaces)
}

/// The place of the first mount for which `is_it` holds, in our mount namespace or in any other that can be seen.
pub fn mounted_anywhere(is_it: &dyn Fn(&MountEntry) -> bool) -> Option<MountedAt> {
    // our own namespace first: it needs no look at the processes
    let own = || mounts().unwrap_or_default().into_iter().find(is_it).map(|it| (it, None));
    let other = || {
        mounts_everywhere().unwrap_or_default().into_iter().find_map(|namespace| {
            let elsewhere = (!namespace.is_own).then_some(namespace.pid);
            namespace.mounts.into_iter().find(is_it).map(|it| (it, elsewhere))
        })
    };
    own().or_else(other).map(|(mount, elsewhere)| MountedAt { target: mount.target, elsewhere })
}

impl Everywhere {
    /// Asks one process of each namespace and root; the file systems are not asked. A namespace without a process is not found, for example one that
    /// is only held open, or bound to a path.
    pub fn look() -> Result<Self, Error> {
        Self::seen_by(pids())
    }

    /// The same through the processes of a census that was taken before; their mounts are read now.
    pub fn of(census: &Census) -> Result<Self, Error> {
        Self::seen_by(census.pids())
    }

    fn seen_by(pids: impl Iterator<Item = u32>) -> Result<Self, Error> {
        let own = namespace_of("self").unwrap_or_default();
        let is_own = true;
        let namespaces = vec![NamespaceMounts { namespace: own, pid: std::process::id(), is_own, mounts: mounts()? }];
        let mut found = Self { namespaces, unseen: 0 };
        for (namespace, mut views) in views(pids, &mut found.unseen) {
            // a process whose root is the namespace's root sees all mounts of the namespace
            views.sort_by_key(|(root, _)| root.as_path() != Path::new("/"));
            let is_own = namespace == own;
            let ours = found.namespaces[0].mounts.iter().filter(|_| is_own);
            let mut known: BTreeSet<u64> = ours.map(|entry| entry.id).collect();
            for (_, pids) in views {
                // each process may have ended meanwhile, and then shows no mounts
                let seen = pids.into_iter().map(|pid| (pid, mounts_of(pid))).find(|(_, mounts)| !mounts.is_empty());
                let Some((pid, mounts)) = seen else { continue };
                let mounts: Vec<MountEntry> = mounts.into_iter().filter(|entry| known.insert(entry.id)).collect();
                if !mounts.is_empty() {
                    found.namespaces.push(NamespaceMounts { namespace, pid, is_own, mounts });
                }
            }
        }
        Ok(found)
    }
}

/// The processes that share a namespace and a root.
type Views = Vec<(PathBuf, Vec<u32>)>;

fn views(pids: impl Iterator<Item = u32>, unseen: &mut usize) -> BTreeMap<u64, Views> {
    let mut found: BTreeMap<u64, Views> = BTreeMap::new();
    for pid in pids {
        match view(pid) {
            Ok((namespace, root)) => {
                let views = found.entry(namespace).or_default();
                match views.iter_mut().find(|(known, _)| *known == root) {
                    Some((_, pids)) => pids.push(pid),
                    None => views.push((root, vec![pid])),
                }
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => *unseen += 1,
            Err(_) => {}
        }
    }
    found
}

fn mounts_of(pid: u32) -> Vec<MountEntry> {
    fs::read(format!("/proc/{pid}/mountinfo")).map(|text| parse(&text)).unwrap_or_default()
}

/// The mount namespace of a live process, and its root as its own namespace names it.
fn view(pid: u32) -> std::io::Result<(u64, PathBuf)> {
    let namespace = namespace_of(&pid.to_string())?;
    let root = fs::read_link(format!("/proc/{pid}/root"))?;
    Ok((namespace, root))
}

/// The number in `mnt:[4026531832]`.
fn namespace_of(process: &str) -> std::io::Result<u64> {
    let link = fs::read_link(format!("/proc/{process}/ns/mnt"))?;
    let number = link.to_str().and_then(|text| text.strip_prefix("mnt:[")?.strip_suffix(']')?.parse().ok());
    number.ok_or_else(|| ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that has left our mount namespace is found, with the mounts that it has made there.
    #[test]
    #[allow(clippy::disallowed_methods)] // a process for the test
    fn a_mount_in_another_namespace_is_seen() {
        let mount = "mount -t tmpfs seen-elsewhere /mnt && echo ready && read line";
        let spawned = std::process::Command::new("unshare")
            .args(["--mount", "--map-root-user", "sh", "-c", mount])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn();
        let mut child = spawned.expect("unshare is there");
        let mut said = [0; 5];
        let ready = std::io::Read::read_exact(child.stdout.as_mut().expect("piped"), &mut said).is_ok();
        let everywhere = mounts_everywhere().expect("reads");
        drop(child.stdin.take());
        let _ = child.wait();
        assert!(everywhere[0].is_own && everywhere.iter().filter(|it| it.is_own).count() == 1);
        if !ready {
            testkit::skip!("an ordinary user cannot mount here");
        }
        let is_it = |mount: &MountEntry| mount.source == "seen-elsewhere";
        let found: Vec<_> = everywhere.iter().filter(|it| it.mounts.iter().any(is_it)).collect();
        assert!(found.len() == 1 && !found[0].is_own && found[0].pid == child.id(), "{found:?}");
    }
}
