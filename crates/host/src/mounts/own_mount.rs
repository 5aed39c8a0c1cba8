// SPDX-License-Identifier: Apache-2.0
use super::statmount::old_id;
use super::{Everywhere, MountEntry, mounts};
use crate::Error;
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, open, statx};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::Path;

/// The mount that a run has made. It must be told apart from other mounts of the same file system: others may have bound it elsewhere, and a
/// namespace that was made later has copies of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnMount {
    /// `wringer-<run id>`.
    pub source: String,
    pub fstype: String,
    /// `None`: no mark was recorded. Then the oldest mount is the run's.
    pub mark: Option<Mark>,
}

/// Identifies a mount, even after its path has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The device number of the file system, as mountinfo writes it: `0:55`. The kernel gives it to another file system when this one has ended.
    pub device: String,
    /// The number of the mount, as mountinfo writes it. The kernel gives it to another mount when this one is gone.
    pub id: u64,
    /// A number that is never given again; from Linux 6.8 on.
    pub unique: Option<u64>,
}

/// The file in a run's folder that has the [`Mark`] of the run's mount, as JSON.
pub const MARK_FILE: &str = "mount";

impl Mark {
    /// Reads the mark from a run's folder. `None`: no mark was written, for example because the layer was interrupted before.
    pub fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(folder.join(MARK_FILE)).ok()?).ok()
    }

    /// The mark of the topmost mount at `target`. The file system is not asked.
    ///
    /// # Errors
    /// The target cannot be opened.
    pub fn of(target: &Path) -> Result<Self, Error> {
        let failed = |errno: rustix::io::Errno| Error::path("look at the mount of", target, errno);
        let file = open(target, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let found =
            statx(file.as_fd(), "", flags, StatxFlags::from_bits_retain(STATX_MNT_ID_UNIQUE)).map_err(failed)?;
        let unique = found.stx_mask & STATX_MNT_ID_UNIQUE != 0;
        Ok(Self {
            device: format!("{}:{}", found.stx_dev_major, found.stx_dev_minor),
            id: mount_id(&format!("self/fdinfo/{}", file.as_raw_fd())).unwrap_or(0),
            unique: unique.then_some(found.stx_mnt_id),
        })
    }
}

/// The flag from linux/stat.h, since Linux 6.8.
const STATX_MNT_ID_UNIQUE: u32 = 0x4000;

/// The mount through which a descriptor was opened. `fdinfo` is a path below `/proc`.
pub(super) fn mount_id(fdinfo: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{fdinfo}")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok())
}

impl OwnMount {
    /// To be called right after the mount was made. There is no mark when something was mounted on it since.
    pub fn just_mounted(source: &str, fstype: &str, target: &Path) -> Self {
        let ours = Self { source: source.to_owned(), fstype: fstype.to_owned(), mark: None };
        let mounts = mounts().unwrap_or_default();
        let mark = Mark::of(target).ok();
        let mark = mark.filter(|mark| mounts.iter().any(|entry| entry.id == mark.id && ours.is_of(entry)));
        Self { mark, ..ours }
    }

    pub fn is_of(&self, entry: &MountEntry) -> bool {
        let named = entry.source == self.source && entry.fstype == self.fstype;
        named && self.mark.as_ref().is_none_or(|mark| mark.device == entry.device)
    }

    /// The run's mount, among the mounts of our namespace.
    pub(crate) fn among<'a>(&self, mounts: &'a [MountEntry]) -> Option<&'a MountEntry> {
        let id = match &self.mark {
            // an older kernel does not know the unique number; `None`: the mount is gone
            Some(mark) => Some(mark.unique.map_or(Some(mark.id), |unique| old_id(unique).unwrap_or(Some(mark.id)))?),
            None => None,
        };
        mounts.iter().find(|entry| self.is_of(entry) && id.is_none_or(|id| id == entry.id))
    }
}

/// Where the run's mount is, and what prevents its unmounting.
#[derive(Debug, Default)]
pub(crate) struct Look {
    pub(crate) ours: Option<MountEntry>,
    /// The obstacles, in words.
    pub(crate) obstacles: Vec<String>,
    /// The number of each mount of the file system that can be seen: a process that has a file open through one of them uses the file system.
    pub(crate) ids: Vec<u64>,
    /// The device number, as mountinfo writes it.
    pub(crate) device: Option<String>,
}

impl Look {
    /// Whether neither the mount nor an obstacle is left, as far as can be seen.
    pub(crate) fn is_empty(&self) -> bool {
        self.ours.is_none() && self.obstacles.is_empty()
    }

    /// `others_too`: other mounts of the file system are obstacles, too, because the file system is still served. Without that check their users
    /// would see another file system than we at the same path: they would not share locks and caches with us any more.
    pub(crate) fn take(ours: &OwnMount, others_too: bool) -> Result<Self, Error> {
        let everywhere = Everywhere::look()?;
        let own = &everywhere.namespaces[0].mounts;
        let found = ours.among(own);
        let device = ours.mark.as_ref().map(|mark| mark.device.clone());
        let mut look = Self { ours: found.cloned(), device, ..Self::default() };
        look.obstacles = found.map(|found| above(own, found)).unwrap_or_default();
        let groups = found.map(|found| peers(&everywhere, found)).unwrap_or_default();
        for namespace in &everywhere.namespaces {
            if others_too {
                look.obstacles.extend(overlays(ours, &namespace.mounts));
            }
            for entry in namespace.mounts.iter().filter(|entry| ours.is_of(entry)) {
                look.ids.push(entry.id);
                look.device.get_or_insert_with(|| entry.device.clone());
                let is_it = namespace.is_own && found.is_some_and(|found| found.id == entry.id);
                let goes_along = found.is_some_and(|found| follows(&namespace.mounts, entry, own, found, &groups));
                if is_it || goes_along || !others_too {
                    continue;
                }
                let at = entry.target.display();
                look.obstacles.push(if namespace.is_own {
                    format!("it is mounted at {at}, too (a bind mount)")
                } else {
                    let (name, pid) = (command(namespace.pid), namespace.pid);
                    format!("{name} (process {pid}) has it in a mount namespace of its own, at {at}")
                });
            }
        }
        Ok(look)
    }
}

/// The overlays that were made of the run's mount since: each keeps a mount of it that no table shows.
fn overlays(ours: &OwnMount, mounts: &[MountEntry]) -> Vec<String> {
    let Some(first) = mounts.iter().position(|entry| ours.is_of(entry)) else { return Vec::new() };
    let targets: Vec<&Path> = mounts.iter().filter(|entry| ours.is_of(entry)).map(|it| it.target.as_path()).collect();
    let is_made_of_it = |entry: &&MountEntry| {
        entry.overlay_folders().iter().any(|folder| targets.iter().any(|target| folder.starts_with(target)))
    };
    let later = mounts[first..].iter().filter(is_made_of_it);
    later.map(|entry| format!("the overlay at {} is made of it", entry.target.display())).collect()
}

/// The name that the kernel has for a process.
pub(crate) fn command(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

/// Whether a path walk to the run's mount ends at that mount, with nothing mounted on it.
pub(crate) fn is_on_top(ours: &OwnMount, id: u64, target: &Path) -> bool {
    let Ok(mounts) = mounts() else { return false };
    let found = ours.among(&mounts).filter(|found| found.id == id && found.target == target);
    found.is_some_and(|found| above(&mounts, found).is_empty())
}

/// The mounts that are on the run's mount, or hide it.
fn above(mounts: &[MountEntry], ours: &MountEntry) -> Vec<String> {
    let is_upon = |entry: &&MountEntry| entry.parent == ours.id && entry.id != ours.id;
    let named = |entry: &MountEntry| format!("{} ({})", entry.source, entry.fstype);
    let upon: Vec<String> = mounts
        .iter()
        .filter(is_upon)
        .map(|entry| match entry.target == ours.target {
            true => format!("{} is mounted above it", named(entry)),
            false => format!("{} is mounted below it, at {}", named(entry), entry.target.display()),
        })
        .collect();
    if !upon.is_empty() {
        return upon;
    }
    match arrival(mounts, &ours.target) {
        Some(entry) if entry.id != ours.id => {
            vec![format!("{} is mounted above it, at {}", named(entry), entry.target.display())]
        }
        _ => Vec::new(),
    }
}

/// The mount at which a path walk from our root to `target` ends. Each mount that the walk crosses lies on the one before it.
fn arrival<'a>(mounts: &'a [MountEntry], target: &Path) -> Option<&'a MountEntry> {
    let root = mounts.iter().find(|entry| {
        entry.target == Path::new("/") && mounts.iter().all(|it| it.id != entry.parent || it.id == entry.id)
    })?;
    let mut at = root;
    loop {
        let next = mounts
            .iter()
            .filter(|entry| entry.parent == at.id && entry.id != at.id)
            // a path walk does not cross a mount on the root that it starts from
            .filter(|entry| target.starts_with(&entry.target) && entry.target.as_os_str() != OsStr::new("/"))
            .min_by_key(|entry| entry.target.as_os_str().len());
        match next {
            Some(next) => at = next,
            None => return Some(at),
        }
    }
}

/// The groups of mounts to which the kernel passes on an unmount below the mount on which `ours` lies.
fn peers(everywhere: &Everywhere, ours: &MountEntry) -> Vec<u64> {
    let parent = everywhere.namespaces[0].mounts.iter().find(|entry| entry.id == ours.parent);
    let mut groups: Vec<u64> = parent.and_then(|parent| parent.shared).into_iter().collect();
    let mut known = 0;
    while known != groups.len() {
        known = groups.len();
        for entry in everywhere.namespaces.iter().flat_map(|it| &it.mounts) {
            if let (Some(follows), Some(shared)) = (entry.follows, entry.shared)
                && groups.contains(&follows)
                && !groups.contains(&shared)
            {
                groups.push(shared);
            }
        }
    }
    groups
}

/// Whether the kernel unmounts `copy`, one of `theirs`, together with `ours`: both lie at the same place of the same file system, and the kernel
/// passes the unmount on to the mount below `copy`.
fn follows(theirs: &[MountEntry], copy: &MountEntry, own: &[MountEntry], ours: &MountEntry, groups: &[u64]) -> bool {
    let parent = |mounts: &[MountEntry], of: &MountEntry| mounts.iter().find(|entry| entry.id == of.parent).cloned();
    let (Some(here), Some(there)) = (parent(own, ours), parent(theirs, copy)) else { return false };
    let place = |parent: &MountEntry, of: &MountEntry| {
        of.target.strip_prefix(&parent.target).ok().map(|rest| parent.root.join(rest))
    };
    let told = there.shared.is_some_and(|group| groups.contains(&group))
        || there.follows.is_some_and(|group| groups.contains(&group));
    // a mount on a part of the copy prevents its unmount
    let is_kept =
        theirs.iter().any(|entry| entry.parent == copy.id && entry.id != copy.id && entry.target != copy.target);
    told && !is_kept && here.device == there.device && place(&here, ours) == place(&there, copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(id: u64, parent: u64, target: &str) -> MountEntry {
        let source = format!("s{id}");
        MountEntry {
            id,
            parent,
            target: target.into(),
            root: "/".into(),
            device: format!("0:{id}"),
            source,
            ..MountEntry::default()
        }
    }

    #[test]
    fn a_path_arrives_where_the_kernel_does() {
        let table = [
            mount(2, 1, "/"),
            mount(3, 2, "/srv"),
            mount(4, 3, "/srv/data"),
            mount(5, 3, "/srv"),
            mount(6, 5, "/srv/data"),
        ];
        let at = |mounts: &[MountEntry], path: &str| arrival(mounts, Path::new(path)).map(|entry| entry.id);
        assert_eq!(at(&table[..3], "/srv/data"), Some(4));
        assert_eq!(at(&table[..4], "/srv/data"), Some(5), "the folder above it is covered");
        assert_eq!(at(&table, "/srv/data"), Some(6));
        assert_eq!(at(&table, "/srv2"), Some(2));
    }

    #[test]
    fn what_lies_on_it_or_hides_it_is_named() {
        let mut table = vec![mount(2, 1, "/"), mount(4, 2, "/srv/data")];
        let ours = table[1].clone();
        assert!(above(&table, &ours).is_empty());
        table.push(mount(5, 2, "/srv"));
        assert_eq!(above(&table, &ours), ["s5 () is mounted above it, at /srv"]);
        table.push(mount(6, 4, "/srv/data"));
        assert_eq!(above(&table, &ours), ["s6 () is mounted above it"]);
        table[3].target = "/srv/data/below".into();
        assert_eq!(above(&table, &ours), ["s6 () is mounted below it, at /srv/data/below"]);
    }

    #[test]
    fn a_copy_goes_along_where_the_kernel_passes_it_on() {
        let shared = |group, follows, of: MountEntry| MountEntry { shared: group, follows, device: "8:1".into(), ..of };
        let own = [shared(Some(1), None, mount(2, 1, "/")), mount(4, 2, "/data")];
        let copies = |parent: MountEntry, at: &str| vec![parent, mount(14, 12, at)];
        let goes = |theirs: &[MountEntry]| follows(theirs, &theirs[1], &own, &own[1], &[1]);
        assert!(goes(&copies(shared(None, Some(1), mount(12, 11, "/")), "/data")));
        assert!(!goes(&copies(shared(None, None, mount(12, 11, "/")), "/data")), "private");
        assert!(!goes(&copies(shared(Some(1), None, mount(12, 11, "/")), "/elsewhere")), "a bind mount");
        let mut kept = copies(shared(None, Some(1), mount(12, 11, "/")), "/data");
        kept.push(mount(15, 14, "/data/below"));
        assert!(!goes(&kept));
    }
}
