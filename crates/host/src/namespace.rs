// SPDX-License-Identifier: Apache-2.0
//! A process's changes to itself: its own mount namespace, a FUSE mount in it, and its own protection from the kernel's memory pressure.
//!
//! Nothing here asks for a permit, because nothing here outlives the process or is seen by another one: a mount in a private
//! namespace is gone with the last process inside. The one exception is [`Reach::HostJournaledByCaller`], where the process that
//! started this one has already written the mount's intent to its journal.

use crate::Error;
use crate::change::{Served, try_unmount};
use crate::mounts::{Mark, OwnMount};
use rustix::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::path::Path;

/// The type of our FUSE mounts, as mountinfo(5) shows it.
pub const FUSE_TYPE: &str = "fuse.wringer";

/// Proof that this process left the host's own mount namespace.
#[derive(Debug)]
pub struct PrivateNamespace {
    /// A user namespace was made too, because this process is not root.
    pub with_user: bool,
}

/// Which processes see a mount.
#[derive(Debug, Clone, Copy)]
pub enum Reach<'a> {
    Private(&'a PrivateNamespace),
    /// All processes. The run that started this process holds the mount in its journal.
    HostJournaledByCaller,
}

/// Leaves the host's mount namespace, and the user namespace too when not root. The uid and gid stay what they are: each is
/// mapped to itself. Must be called before the process starts a thread.
///
/// # Errors
/// The kernel or its settings forbid it (`kernel.unprivileged_userns_clone`, `user.max_user_namespaces`, AppArmor), or the
/// process has threads (EINVAL).
pub fn enter_private() -> Result<PrivateNamespace, Error> {
    let with_user = !rustix::process::geteuid().is_root();
    let flags = libc::CLONE_NEWNS | if with_user { libc::CLONE_NEWUSER } else { 0 };
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    // SAFETY: takes no pointer; the kernel itself refuses CLONE_NEWUSER for a process with threads.
    if unsafe { libc::unshare(flags) } != 0 {
        return Err(last_error(if with_user { "unshare user and mount namespace" } else { "unshare mount namespace" }));
    }
    if with_user {
        write_own("/proc/self/setgroups", "deny")?;
        write_own("/proc/self/uid_map", &format!("{uid} {uid} 1"))?;
        write_own("/proc/self/gid_map", &format!("{gid} {gid} 1"))?;
    }
    follow_the_host()?;
    Ok(PrivateNamespace { with_user })
}

/// Enters the mount namespace of a slow layer. If the layer has another user namespace, enters that first, because it gives the right to enter the
/// mount namespace (setns(2)). The working directory becomes the root of the namespace. Must be called before the process starts a thread.
///
/// # Errors
/// The process is gone, or we may not enter its namespaces.
pub fn join_private(pid: u32) -> Result<PrivateNamespace, Error> {
    let namespace = |name: &str| format!("/proc/{pid}/ns/{name}");
    let open = |path: &String| File::open(path).map_err(|source| Error::path("open", path, source));
    let (user, mount) = (namespace("user"), namespace("mnt"));
    let (user_file, mount_file) = (open(&user)?, open(&mount)?);
    let with_user = std::fs::read_link(&user).ok() != std::fs::read_link("/proc/self/ns/user").ok();
    if with_user {
        move_into_link_name_space(user_file.as_fd(), Some(LinkNameSpaceType::User))
            .map_err(|errno| Error::path("enter", &user, errno))?;
    }
    move_into_link_name_space(mount_file.as_fd(), Some(LinkNameSpaceType::Mount))
        .map_err(|errno| Error::path("enter", &mount, errno))?;
    Ok(PrivateNamespace { with_user })
}

/// Mounts the file system that `device`, an open `/dev/fuse`, serves over `target`, an open directory (`O_PATH` is enough) of this mount namespace. `path`
/// is its name in errors: nobody looks for it again, so whoever renames a part of it meanwhile does not move the mount. The kernel checks permissions by mode and
/// owner (`default_permissions`); every user of the namespace may pass (`allow_other`). Where programs may not be started below `target`, they may not be there, either.
///
/// # Errors
/// mount(2): EPERM without the right, EINVAL when `device` was opened in another user namespace, ENOTDIR.
pub fn mount_fuse(
    reach: Reach<'_>,
    device: BorrowedFd<'_>,
    (target, path): (BorrowedFd<'_>, &Path),
    source: &str,
) -> Result<(), Error> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let options = format!(
        "fd={},rootmode=40000,user_id={uid},group_id={gid},default_permissions,allow_other",
        device.as_raw_fd()
    );
    let mut flags = libc::MS_NOSUID | libc::MS_NODEV;
    if let Reach::Private(_) = reach {
        flags |= libc::MS_NOATIME;
    }
    let below = rustix::fs::fstatvfs(target).map_err(|errno| Error::path("statvfs", path, errno))?;
    if below.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC) {
        flags |= libc::MS_NOEXEC;
    }
    let text =
        |text: String| CString::new(text).map_err(|_| Error::path("mount fuse", path, io::ErrorKind::InvalidInput));
    let (source, options) = (text(source.to_owned())?, text(options)?);
    let place = text(format!("/proc/self/fd/{}", target.as_raw_fd()))?;
    // SAFETY: four zero-terminated strings that live until the call returns.
    let result = unsafe {
        libc::mount(source.as_ptr(), place.as_ptr(), c"fuse.wringer".as_ptr(), flags, options.as_ptr().cast())
    };
    if result == 0 { Ok(()) } else { Err(Error::path("mount fuse", path, io::Error::last_os_error())) }
}

/// Whether mount(2) reaches the kernel. The target is the empty path, for which the kernel fails (ENOENT) before it looks at anything else
/// (fs/namespace.c, `do_mount`); any other error comes from a filter (seccomp).
///
/// # Errors
/// The error of the filter.
pub fn ask_for_mount() -> Result<(), Error> {
    // SAFETY: four zero-terminated strings that live until the call returns.
    let result = unsafe { libc::mount(c"".as_ptr(), c"".as_ptr(), c"fuse".as_ptr(), 0, c"".as_ptr().cast()) };
    let error = io::Error::last_os_error();
    if result == 0 || error.raw_os_error() == Some(libc::ENOENT) { Ok(()) } else { Err(Error::call("mount", error)) }
}

/// Mounts the file system that `device` serves, but at no path. It can only be reached through the descriptor of its root, and ends when that
/// descriptor is closed and nobody has a file of it open.
///
/// # Errors
/// EPERM without the right; ENOSYS before Linux 5.2.
pub fn mount_fuse_nowhere(device: BorrowedFd<'_>, source: &str) -> Result<OwnedFd, Error> {
    use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
    use rustix::mount::{fsconfig_create, fsconfig_set_string, fsmount, fsopen};
    let failed = |errno: rustix::io::Errno| Error::call("mount fuse nowhere", errno);
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC).map_err(failed)?;
    for (key, value) in [
        ("source", source.to_owned()),
        ("fd", device.as_raw_fd().to_string()),
        ("rootmode", "40000".to_owned()),
        ("user_id", uid.to_string()),
        ("group_id", gid.to_string()),
    ] {
        fsconfig_set_string(&context, key, value).map_err(failed)?;
    }
    fsconfig_create(&context).map_err(failed)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes).map_err(failed)
}

/// Unmounts the mount of [`mount_fuse`], wherever it is now, when nobody uses the file system any more; the kernel first writes its dirty pages.
/// `false`: somebody still uses it.
///
/// # Errors
/// `/proc` cannot be read.
pub fn unmount_fuse(ours: &OwnMount, served: Served) -> Result<bool, Error> {
    try_unmount(ours, served)
}

/// Protects this process from memory reclaim and from the OOM killer, and gives it priority over busy processes, as far as this user may. Call it
/// before threads start: they inherit the priority and the timer slack of 1 ns.
pub fn protect_self() {
    // SAFETY: prctl with integer arguments only. With `PR_SET_IO_FLUSHER` allocations of this process do not wait for write-back that this process
    // has to do; an ordinary user may set its timer slack.
    unsafe {
        libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0);
    }
    let _ = write_own("/proc/self/oom_score_adj", "-1000");
    lock_memory();
    // a real disk answers also when the processors are busy
    let _ = rustix::process::setpriority_process(None, -10);
    raise_open_files();
}

/// Raises the priority of a thread that must run also when the processors are busy: nice -10, as far as this user may.
pub fn raise_thread_priority() {
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), -10);
}

/// Sets how far the kernel reads ahead on this process's own FUSE mount, in KiB, and lets its dirty pages take the usual share of memory (a FUSE
/// mount starts with 1 %). Both settings end with the mount. It tries its best: `false` without root.
pub fn tune_own_mount(mount: &Mark, read_ahead_kib: Option<u32>) -> bool {
    let folder = format!("/sys/class/bdi/{}", mount.device);
    let read_ahead =
        read_ahead_kib.is_none_or(|kib| write_own(&format!("{folder}/read_ahead_kb"), &kib.to_string()).is_ok());
    // strict_limit exists since Linux 6.2.
    let _ = write_own(&format!("{folder}/strict_limit"), "0");
    write_own(&format!("{folder}/max_ratio"), "100").is_ok() && read_ahead
}

/// linux/prctl.h, since Linux 5.6; the libc crate does not have it.
const PR_SET_IO_FLUSHER: libc::c_int = 57;

/// Mounts that are made here are not seen elsewhere. If the host shares its mounts, a mount that the host unmounts is unmounted here, too. Otherwise
/// a copy of another run's slow directory would keep that run's layer as long as this namespace exists.
fn follow_the_host() -> Result<(), Error> {
    use rustix::mount::MountPropagationFlags as Flags;
    rustix::mount::mount_change("/", Flags::REC | Flags::DOWNSTREAM)
        .map_err(|errno| Error::path("make mounts private", "/", errno))
}

/// Keeps all touched pages in memory. Only where RLIMIT_MEMLOCK does not apply: under a limit, MCL_FUTURE would make later allocations fail.
fn lock_memory() -> bool {
    use rustix::process::{Resource, Rlimit, setrlimit};
    if setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None }).is_err() && !passes_the_lock_limit() {
        return false;
    }
    // SAFETY: takes flags only.
    unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) == 0 }
}

/// Whether this process has CAP_IPC_LOCK in the first user namespace: the kernel checks it there (mm/mlock.c, `can_do_mlock`).
fn passes_the_lock_limit() -> bool {
    use rustix::thread::CapabilitySet;
    let capable = rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    capable && map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

#[allow(clippy::disallowed_methods)] // this process's own entries in /proc, and its own mount's in /sys
fn write_own(path: &str, value: &str) -> Result<(), Error> {
    std::fs::write(path, value).map_err(|error| Error::path("write", path, error))
}

fn last_error(operation: &str) -> Error {
    Error::call(operation, io::Error::last_os_error())
}
