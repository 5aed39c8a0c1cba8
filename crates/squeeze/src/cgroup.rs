// SPDX-License-Identifier: Apache-2.0
//! Cgroup controllers: finds where each is mounted, whether this user can make a cgroup there, and prepares it to limit something.

use crate::Error;
use host::change;
use run::controllers::{is_handed_down, lists};
use run::{CgroupVersion, Run, Step, StepId};
use rustix::io::Errno;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

mod delegated;

/// A mounted controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controller {
    /// The folder of the hierarchy's root cgroup. For a user who may not make a cgroup there: the folder of the cgroup that is delegated to the user.
    pub root: PathBuf,
    pub version: CgroupVersion,
}

impl fmt::Display for Controller {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.version {
            CgroupVersion::V1 => "v1",
            CgroupVersion::V2 => "v2",
        })
    }
}

/// The controller of this name: a v1 hierarchy, or a v2 tree with that controller.
pub fn mounted(name: &str) -> Option<Controller> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().find_map(|line| of_mount(line, name))
}

fn of_mount(line: &str, name: &str) -> Option<Controller> {
    let mut words = line.split(' ').skip(1);
    let (root, kind, options) = (PathBuf::from(words.next()?), words.next()?, words.next()?);
    let version = match kind {
        "cgroup" if options.split(',').any(|option| option == name) => CgroupVersion::V1,
        "cgroup2" if lists(&root.join("cgroup.controllers"), name) => CgroupVersion::V2,
        _ => return None,
    };
    Some(Controller { root, version })
}

/// Where a cgroup of this controller can be made: below the root cgroup, or below one that is delegated to this user.
///
/// # Errors
/// [`Error::Refused`]: the controller is not mounted, not writable for this user, or cannot be enabled for children.
pub fn writable(name: &str) -> Result<Controller, Error> {
    let refused = |what: String, hint: &str| Err(Error::Refused { what, hint: hint.to_owned() });
    let Some(found) = mounted(name) else {
        let hint = match name {
            "memory" => "hide RAM from the whole host instead: `wringer ram`, squeeze.ram",
            "cpu" => "--cpuset needs no controller: it sets the command's CPU affinity",
            _ => "`wringer doctor` says what this machine has",
        };
        return refused(format!("no {name} cgroup controller is mounted"), hint);
    };
    let root = found.root.display();
    match rustix::fs::access(&found.root, rustix::fs::Access::WRITE_OK) {
        Ok(()) => {}
        Err(Errno::ROFS) => {
            let hint = format!(
                "as root, on the host: mount -o remount,rw {root}; a container needs it writable from its start \
                 (--privileged, or a delegated cgroup)"
            );
            return refused(format!("{root} is mounted read-only"), &hint);
        }
        Err(_) if found.version == CgroupVersion::V2 => return delegated::find(&found.root, name),
        Err(_) if name == "cpu" => {
            return refused(
                format!("{root} is not writable for this user"),
                "run as root; or --cpuset, which needs none",
            );
        }
        Err(_) => return refused(format!("{root} is not writable for this user"), "run as root"),
    }
    if found.version == CgroupVersion::V2 && !is_handed_down(&found.root, name) && has_processes_of_its_own(&found.root)
    {
        return refused(
            format!("{root} has processes of its own, and a cgroup below it would get no {name} controller"),
            "run on the host itself, or in a container whose first cgroup is empty",
        );
    }
    Ok(found)
}

/// Only the host's root cgroup may both have processes and enable controllers for children. It alone has no type (kernel,
/// admin-guide/cgroup-v2.rst, "No Internal Process Constraint").
fn has_processes_of_its_own(root: &Path) -> bool {
    root.join("cgroup.type").exists()
        && fs::read_to_string(root.join("cgroup.procs")).is_ok_and(|processes| !processes.trim().is_empty())
}

pub(crate) fn set_value(run: &mut Run, path: &Path, value: &str) -> Result<StepId, Error> {
    let before = change::read_value(path)?;
    let step = Step::Value { path: path.to_owned(), before: before.clone(), after: value.to_owned() };
    Ok(run.step(step, |permit| change::set_value(permit, path, &before, value))?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_of_v1_may_share_its_mount() {
        let line = "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,nosuid,cpu,cpuacct 0 0";
        let root = PathBuf::from("/sys/fs/cgroup/cpu,cpuacct");
        assert_eq!(of_mount(line, "cpu"), Some(Controller { root, version: CgroupVersion::V1 }));
        assert_eq!(of_mount(line, "cpuset"), None, "a part of the name is not the name");
        assert_eq!(of_mount("tmpfs /sys/fs/cgroup tmpfs rw,cpu 0 0", "cpu"), None);
    }
}
