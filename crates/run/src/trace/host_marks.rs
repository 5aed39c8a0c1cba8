// SPDX-License-Identifier: Apache-2.0
use super::second_record::{self, SecondRecord};
use host::change::loop_device::backing_files;
use host::mapper::{self, Present};
use host::mounts::{Everywhere, NamespaceMounts};
use host::named_cgroups::{NamedCgroup, cgroups};
use host::process::{Census, Marked};
use journal::RunId;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The beginning of every name that a run gives on the host.
pub(super) const PREFIX: &str = "wringer-";

/// All marks of runs on the host, not yet sorted by run.
#[derive(Debug, Clone, Default)]
pub(super) struct HostMarks {
    pub(super) processes: Vec<Marked>,
    pub(super) mounts: Vec<SeenMount>,
    pub(super) cgroups: Vec<NamedCgroup>,
    /// Each loop device, and the file below it.
    pub(super) loops: Vec<(PathBuf, PathBuf)>,
    pub(super) mappings: Vec<Present>,
    /// The second records beside the locks.
    pub(super) written: Vec<SecondRecord>,
    /// The folder of journals of each run that has recorded it beside the locks.
    pub(super) journals: BTreeMap<RunId, PathBuf>,
}

/// A mount whose source is one of our names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SeenMount {
    pub(super) target: PathBuf,
    pub(super) source: String,
    pub(super) fstype: String,
    pub(super) namespace_of: Option<u32>,
    pub(super) owner: Option<u32>,
}

impl HostMarks {
    /// Reads all marks. Those that this user cannot read are left out.
    pub(super) fn take(journal: &Path, census: &Census) -> Self {
        let everywhere = Everywhere::of(census).unwrap_or_default().namespaces;
        let own = everywhere.first().map(|it| it.mounts.as_slice()).unwrap_or_default();
        let folders = second_record::folders(journal);
        Self {
            processes: census.marked(&is_mark),
            cgroups: cgroups(own, PREFIX),
            mounts: everywhere.iter().flat_map(ours).collect(),
            loops: backing_files(),
            mappings: mapper::present(),
            written: second_record::read_all(&folders),
            journals: second_record::journals(&folders),
        }
    }
}

/// The token of a run, or its owner lock.
fn is_mark(path: &Path) -> bool {
    let is_name = path.file_name().is_some_and(|name| name == "token" || name == "owner.lock");
    is_name && run_of_folder(path).is_some()
}

/// The run in whose folder this file is, or was.
pub(super) fn run_of_folder(file: &Path) -> Option<RunId> {
    file.parent()?.file_name()?.to_str()?.parse().ok()
}

fn ours(namespace: &NamespaceMounts) -> Vec<SeenMount> {
    let named = namespace.mounts.iter().filter(|it| it.source.starts_with(PREFIX) && it.fstype.starts_with("fuse"));
    let made_by = |user_id: Option<u32>| {
        // within a user namespace the user who made the namespace can choose any uid
        if namespace.is_own || same_users(namespace.pid) { user_id } else { uid_of(namespace.pid) }
    };
    let seen = named.map(|mount| SeenMount {
        target: mount.target.clone(),
        source: mount.source.clone(),
        fstype: mount.fstype.clone(),
        namespace_of: (namespace.pid != std::process::id()).then_some(namespace.pid),
        owner: made_by(mount.user_id()),
    });
    seen.collect()
}

fn same_users(pid: u32) -> bool {
    let users = |process: &str| fs::read_link(format!("/proc/{process}/ns/user")).ok();
    users(&pid.to_string()).is_some_and(|namespace| Some(namespace) == users("self"))
}

fn uid_of(pid: u32) -> Option<u32> {
    fs::metadata(format!("/proc/{pid}")).ok().map(|it| it.uid())
}
