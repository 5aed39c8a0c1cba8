// SPDX-License-Identifier: Apache-2.0
use super::busy_by;
use super::value::write;
use crate::Error;
use crate::permit::Permit;
use crate::process::{Identity, StopRequest, stop};
use rustix::io::Errno;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A cgroup stays busy for a moment after its last process has ended.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes one cgroup: a folder in a mounted hierarchy. Its name must tell to which run it belongs: `wringer-<run id>`.
///
/// # Errors
/// EEXIST when the cgroup is there already: then another program has made it.
#[allow(clippy::disallowed_methods)]
pub fn make_cgroup(_permit: &Permit, path: &Path) -> Result<(), Error> {
    fs::create_dir(path).map_err(|source| Error::path("make cgroup", path, source))
}

/// Moves a process, with its threads, into the cgroup. Memory that was charged before stays charged to the old cgroup.
pub fn attach(_permit: &Permit, path: &Path, pid: u32) -> Result<(), Error> {
    write(&path.join("cgroup.procs"), &pid.to_string())
}

/// The live processes in the cgroup itself.
pub fn members(path: &Path) -> Vec<Identity> {
    let text = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| Identity::of(line.parse().ok()?)).collect()
}

/// Removes a cgroup of ours, with the cgroups below it. Our own processes in them are killed; other processes move back to `home`, the cgroup of this
/// hierarchy from which they came, or, without a home, to the cgroup of the caller. No process moves to the first cgroup of the hierarchy, unless
/// that is its home. Returns whether there was such a cgroup.
///
/// # Errors
/// The cgroup stays busy; the error names its processes.
pub fn remove_cgroup(
    permit: &Permit,
    path: &Path,
    home: Option<&Path>,
    is_ours: &dyn Fn(&Identity) -> bool,
) -> Result<bool, Error> {
    if !path.is_dir() {
        return Ok(false);
    }
    let own = own_cgroup(path);
    let homes = homes(home, own.as_deref());
    for child in children(path) {
        remove_cgroup(permit, &child, homes.first().map(PathBuf::as_path), is_ours)?;
    }
    empty(permit, path, &homes, is_ours)?;
    remove_when_idle(path)
}

/// Repeats until no process is in the cgroup: a process may have started others meanwhile.
fn empty(permit: &Permit, path: &Path, homes: &[PathBuf], is_ours: &dyn Fn(&Identity) -> bool) -> Result<(), Error> {
    let deadline = Instant::now() + BUSY_TIMEOUT;
    loop {
        let (kill, keep): (Vec<_>, Vec<_>) = members(path).into_iter().partition(is_ours);
        if kill.is_empty() && keep.is_empty() {
            return Ok(());
        }
        // a process that ended in between (ESRCH) needs no move
        let stay: Vec<Identity> = keep.into_iter().filter(|it| !goes_home(permit, *it, homes)).collect();
        if let Err(refusal) = stop(permit, &kill, StopRequest::KILL) {
            // only v2 has this file. It needs no right to signal the processes, but it would also kill those that could not be moved
            if !stay.is_empty() || write(&path.join("cgroup.kill"), "1").is_err() {
                return Err(refusal);
            }
        }
        if Instant::now() >= deadline {
            return Err(busy_by(path, members(path)));
        }
        if !stay.is_empty() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn goes_home(permit: &Permit, process: Identity, homes: &[PathBuf]) -> bool {
    homes.iter().any(|home| attach(permit, home, process.pid).is_ok()) || !process.is_alive()
}

/// The cgroups that a process may move to, in this order: its home; the cgroups above its home, if the home is gone or takes no process; the caller's
/// cgroup. When the home is not known, the caller's cgroup alone.
fn homes(home: Option<&Path>, own: Option<&Path>) -> Vec<PathBuf> {
    let is_first = |folder: &Path| folder.parent().is_none_or(|parent| !parent.join("cgroup.procs").exists());
    let above = |home: &Path| home.ancestors().skip(1).take_while(|it| !is_first(it)).map(Path::to_owned).collect();
    let mut homes: Vec<PathBuf> = home.map(Path::to_owned).into_iter().collect();
    homes.extend(home.map(above).into_iter().flat_map(|above: Vec<PathBuf>| above));
    homes.extend(own.filter(|own| home.is_none() || !is_first(own)).map(Path::to_owned));
    homes
}

/// The cgroup of this process in the hierarchy to which `folder` belongs. `None`: that cgroup is outside of the part that is mounted here.
pub fn own_cgroup(folder: &Path) -> Option<PathBuf> {
    let read = |file| fs::read_to_string(file).unwrap_or_default();
    own_of(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"), folder).filter(|own| own.is_dir())
}

/// A mount shows a part of its hierarchy, from `root` down (proc_pid_mountinfo(5)). `root` and the paths of cgroups(7) both start at the first cgroup
/// of the namespace.
fn own_of(mountinfo: &str, cgroups: &str, folder: &Path) -> Option<PathBuf> {
    let parse = |line: &str| {
        let (mount, of_kind) = line.split_once(" - ")?;
        let (mount, of_kind): (Vec<&str>, Vec<&str>) = (mount.split(' ').collect(), of_kind.split(' ').collect());
        let (root, target) = (PathBuf::from(mount.get(3)?), PathBuf::from(mount.get(4)?));
        let options = of_kind.get(2)?.split(',').map(str::to_owned).collect::<Vec<_>>();
        Some((root, target, of_kind[0].to_owned(), options))
    };
    let below = mountinfo.lines().filter_map(parse).filter(|(_, target, ..)| folder.starts_with(target));
    // of several mounts on one target the last one covers the others
    let (root, target, kind, options) = below.max_by_key(|(_, target, ..)| target.components().count())?;
    let names = |controllers: &str| match kind.as_str() {
        "cgroup" => controllers.split(',').any(|name| options.iter().any(|option| option == name)),
        "cgroup2" => controllers.is_empty(),
        _ => false,
    };
    let own = cgroups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        names(controllers).then_some(Path::new(path))
    })?;
    let inside = own.strip_prefix(&root).ok()?;
    inside.components().all(|part| matches!(part, std::path::Component::Normal(_))).then(|| target.join(inside))
}

fn children(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

#[allow(clippy::disallowed_methods)]
fn remove_when_idle(path: &Path) -> Result<bool, Error> {
    let deadline = Instant::now() + BUSY_TIMEOUT;
    loop {
        match fs::remove_dir(path) {
            Ok(()) => return Ok(true),
            Err(error) if error.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => return Ok(false),
            Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(source) => return Err(Error::path("remove cgroup", path, source)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "30 20 0:26 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
        31 20 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
        32 20 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
        33 20 0:29 /docker/1 /box/pids rw master:4 - cgroup cgroup rw,pids\n";
    const OWN: &str =
        "9:name=systemd:/x\n8:pids:/docker/1/in\n4:memory:/user/7\n2:cpu,cpuacct:/\n0::/user.slice/s.scope\n";

    #[test]
    fn the_callers_own_cgroup_of_each_hierarchy() {
        let own = |folder: &str| own_of(MOUNTS, OWN, Path::new(folder)).map(|own| own.display().to_string());
        assert_eq!(own("/sys/fs/cgroup/memory/wringer-x").as_deref(), Some("/sys/fs/cgroup/memory/user/7"));
        assert_eq!(own("/sys/fs/cgroup/cpu,cpuacct").as_deref(), Some("/sys/fs/cgroup/cpu,cpuacct/"));
        assert_eq!(own("/sys/fs/cgroup/unified/x").as_deref(), Some("/sys/fs/cgroup/unified/user.slice/s.scope"));
        assert_eq!(own("/box/pids/x").as_deref(), Some("/box/pids/in"), "a mount of a part of the hierarchy");
        assert_eq!(own("/srv"), None, "no cgroup");
        let outside = OWN.replace("/docker/1/in", "/../other").replace("/user/7", "/../x");
        assert_eq!(own_of(MOUNTS, &outside, Path::new("/box/pids")), None);
        assert_eq!(own_of(MOUNTS, &outside, Path::new("/sys/fs/cgroup/memory")), None);
    }

    #[test]
    fn nobody_goes_to_the_first_cgroup_unless_it_is_his() {
        let there = tempfile::tempdir().expect("a folder");
        let all = there.path().join("all");
        let (user, session) = (all.join("user"), all.join("user/session"));
        #[allow(clippy::disallowed_methods)] // plain files take the place of the kernel's
        let make = |folder: &Path| {
            fs::create_dir_all(folder).expect("makes");
            fs::write(folder.join("cgroup.procs"), "").expect("writes");
        };
        [&all, &user, &session].into_iter().for_each(|folder| make(folder));
        assert_eq!(homes(Some(&session), Some(&user)), [session, user.clone(), user.clone()]);
        assert_eq!(homes(Some(&user), Some(&all)), [user], "not to the first one because its home may be gone");
        assert_eq!(homes(Some(&all), None), std::slice::from_ref(&all));
        assert_eq!(homes(None, Some(&all)), [all], "no home is known");
        assert_eq!(homes(None, None), Vec::<PathBuf>::new());
    }
}
