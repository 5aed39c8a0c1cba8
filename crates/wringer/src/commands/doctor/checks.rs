// SPDX-License-Identifier: Apache-2.0
//! The single checks of `doctor`. Each reports what it found, and the remedy.

use super::check::{Check, State, has_package_client};
use super::memory;
use capability::{Capability, any_words};
use evidence::RamMechanism;
use host::places::Places;
use sandbox::{Flavour, Request};
use squeeze::device::Timing;
use std::fs;
use std::path::Path;
use units::Bytes;

pub fn all(places: &Places) -> Vec<Check> {
    let mut all = vec![
        root(),
        fuse(),
        dm_delay(),
        super::mappings::check(places),
        loop_devices(),
        namespaces(),
        preload(places),
        huge_pages(),
        memory::thp(),
        ram_mechanism(),
        memory_cgroup(),
        cpu_cgroup(),
        cpuset_cgroup(),
        server("mariadb", Flavour::Mariadb, places),
        server("mysql", Flavour::Mysql, places),
        server("postgresql", Flavour::Postgresql, places),
        memory::pooler(places),
        memory::mallocs(places),
        disk_space(places),
        free_memory(),
        swap(),
    ];
    all.extend(memory::readers(&observe::memory::readable()));
    all
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn root() -> Check {
    if is_root() {
        return Check::good("root", "running as root");
    }
    Check::missing("root", "running as an ordinary user", "run the one command that needs it with sudo")
}

/// Opens `/dev/fuse` and closes it again; mounts nothing.
pub fn fuse() -> Check {
    match host::files::open_existing(Path::new("/dev/fuse")) {
        Ok(_) => Check::good("fuse", "/dev/fuse opens"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Check::missing(
            "fuse",
            "there is no /dev/fuse",
            "modprobe fuse; in a container, pass it in: --device /dev/fuse",
        ),
        Err(error) => Check::missing(
            "fuse",
            format!("/dev/fuse: {error}"),
            "as root: chmod 0666 /dev/fuse (udev's usual mode), or run as root",
        ),
    }
}

/// Loads nothing. Only root may ask device-mapper itself.
fn dm_delay() -> Check {
    let load = "as root: modprobe dm-delay (in the package of the kernel's extra modules, where there is one)";
    if !host::mapper::is_loaded() {
        return Check::missing("dm-delay", "device-mapper is not in this kernel, or its module is not loaded", load);
    }
    if !is_root() {
        return Check::caution("dm-delay", "device-mapper is there; what it can do, only root may ask", "run as root");
    }
    match Timing::here() {
        Ok(Some(timing)) => {
            let found = format!("{}, ticks of {} ms", timing.mechanism(), timing.tick_us as f64 / 1000.0);
            if timing.is_burning() {
                let remedy = "a kernel from 6.16 on; or the FUSE layer; or count with one processor less below 50 ms";
                return Check::caution(
                    "dm-delay",
                    format!("{found}; keeps a processor busy while a request waits"),
                    remedy,
                );
            }
            Check::good("dm-delay", found)
        }
        Ok(None) => Check::missing("dm-delay", "device-mapper's delay target is not loaded", load),
        Err(error) => Check::missing("dm-delay", host::chain(&error), load),
    }
}

/// Checks the requirements of `wringer disk delay IMAGE`, and whether such a disk survives the death of its process.
fn loop_devices() -> Check {
    if let Some((found, remedy)) = squeeze::loop_disk::missing() {
        return Check::missing("loop", found, remedy);
    }
    if slowfs::disk::protocol().is_some_and(|protocol| protocol < slowfs::disk::RESEND_SINCE) {
        let found = "loop devices; a slow disk whose process is killed fails with I/O errors";
        return Check::caution("loop", found, "a kernel from 6.9 on sends its requests to another process");
    }
    Check::good("loop", "loop devices; a slow disk survives its process")
}

pub fn namespaces() -> Check {
    let forbidding = [
        ("/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"),
        ("/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
        (
            "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    ];
    for (path, value, remedy) in forbidding {
        if !is_root() && fs::read_to_string(path).is_ok_and(|found| found.trim() == value) {
            return Check::missing("namespaces", format!("{path} is {value}"), format!("as root: {remedy}"));
        }
    }
    super::mounting::private()
}

/// The library is inside this program. The dynamic linker must be able to load it from its folder.
pub fn preload(places: &Places) -> Check {
    let folder = squeeze::preloaded::library_folder(places);
    let existing = folder.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    // ld.so(8): both characters end a library's name.
    if folder.to_string_lossy().contains([' ', ':']) {
        let found = format!("the dynamic linker cannot be told of {}: it has a space or a colon", folder.display());
        return Check::missing("preload", found, "set WRINGER_CACHE to another folder");
    }
    let forbids = |statistics: rustix::fs::StatVfs| statistics.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC);
    if rustix::fs::statvfs(existing).is_ok_and(forbids) {
        return Check::missing(
            "preload",
            format!("nothing can be executed from {} (mounted noexec)", folder.display()),
            "set WRINGER_CACHE to a folder on another file system",
        );
    }
    Check::good("preload", format!("a library for dynamic programs is in this one; it goes to {}", folder.display()))
}

fn huge_pages() -> Check {
    let Some(size) = meminfo("Hugepagesize") else {
        return Check::missing("huge-pages", "this kernel has no huge pages", "a kernel with CONFIG_HUGETLBFS");
    };
    if !Path::new("/proc/sys/vm/nr_overcommit_hugepages").exists() {
        return Check::missing("huge-pages", "there is no vm.nr_overcommit_hugepages", "a host, not a container");
    }
    let pages = squeeze::Meminfo::now().unwrap_or_default();
    let (total, unclaimed) = (pages.huge_total_pages, pages.huge_unclaimed_pages());
    let pool = format!("a pool of {total}, {unclaimed} unclaimed (`wringer hugepages advise` for a server)");
    Check::good("huge-pages", format!("pages of {}; {pool}", Bytes(size)))
}

/// The mechanism that `wringer ram hide` uses by default.
fn ram_mechanism() -> Check {
    match squeeze::ram::automatic() {
        Ok(RamMechanism::Balloon) => Check::caution(
            "ram-mechanism",
            "balloon process: it touches memory of its own, and needs no root",
            "as root on a host with huge pages: a holder, which swap cannot reach",
        ),
        Ok(mechanism) => Check::good("ram-mechanism", mechanism.in_results()),
        Err(error) => Check::missing("ram-mechanism", format!("not known: {error}"), "mount /proc"),
    }
}

fn memory_cgroup() -> Check {
    controller("memory-cgroup", "memory")
}

/// The requirement of `wringer squeeze --cpus`.
fn cpu_cgroup() -> Check {
    controller("cpu-cgroup", "cpu")
}

/// The requirement of `wringer squeeze --cpuset`, unless that sets the command's CPU affinity.
fn cpuset_cgroup() -> Check {
    let check = controller("cpuset-cgroup", "cpuset");
    if check.state == State::Good {
        return check;
    }
    let instead = "--cpuset sets the command's CPU affinity instead, which the command may change";
    Check::caution("cpuset-cgroup", check.found, instead)
}

fn controller(id: &'static str, name: &str) -> Check {
    let Some(found) = squeeze::cgroup::mounted(name) else {
        let remedy = "mount -t cgroup2 none /sys/fs/cgroup (as root), on a kernel that has it";
        return Check::missing(id, format!("no {name} controller is mounted"), remedy);
    };
    let shown = format!("{found} at {}", found.root.display());
    match squeeze::cgroup::writable(name) {
        // the cgroup is then below a delegated one, if the user may not make a cgroup below the root cgroup
        Ok(usable) => Check::good(id, format!("{usable} at {}", usable.root.display())),
        Err(squeeze::Error::Refused { hint, .. }) => Check::missing(id, format!("{shown}, not for you"), hint),
        Err(error) => Check::missing(id, format!("{shown}: {error}"), "run as root"),
    }
}

/// The server that a deploy would use: installed, already fetched, or available from the distribution's package client.
fn server(id: &'static str, flavour: Flavour, places: &Places) -> Check {
    if let Some(found) = sandbox::present(&Request::any(flavour), places) {
        return Check::good(id, found.describe());
    }
    let package = any_words(Capability::ServerPackage, flavour).join(" or ");
    if has_package_client() {
        let remedy = format!("wringer sandbox fetch {id} (also done by itself at the first deploy)");
        let suites = any_words(Capability::OtherSuite, flavour);
        let of = suites.first().map(|suite| format!(" (of {suite} if this machine's own suite lacks it)"));
        let of = of.unwrap_or_default();
        let found = format!("not here yet; can be fetched as {package}{of}, without installing it");
        return Check::caution(id, found, remedy);
    }
    Check::missing(id, "not on this machine, and there is no apt-get to fetch it", format!("install {package}"))
}

fn disk_space(places: &Places) -> Check {
    const COMFORTABLE: u64 = 4 * Bytes::GIB;
    let existing = places.sandboxes.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    let Ok(statistics) = rustix::fs::statvfs(existing) else {
        return Check::caution("disk-space", format!("{}: unknown", existing.display()), "check it with df");
    };
    let free = Bytes(statistics.f_bavail * statistics.f_frsize);
    let found = format!("{free} free for sandboxes at {}", places.sandboxes.display());
    if free.0 < 512 * Bytes::MIB {
        return Check::missing(
            "disk-space",
            found,
            "free at least 512 MiB, or set WRINGER_HOME to a larger file system",
        );
    }
    if free.0 < COMFORTABLE {
        return Check::caution("disk-space", found, "enough for small tables only");
    }
    Check::good("disk-space", found)
}

fn free_memory() -> Check {
    let (total, available) = (meminfo("MemTotal").unwrap_or(0), meminfo("MemAvailable").unwrap_or(0));
    let found = format!("{} available of {}", Bytes(available), Bytes(total));
    if available < Bytes::GIB {
        return Check::caution("memory", found, "less than 1 GiB: use a small buffer pool");
    }
    Check::good("memory", found)
}

fn swap() -> Check {
    match meminfo("SwapTotal").unwrap_or(0) {
        0 => Check::good("swap", "none"),
        bytes => Check::caution(
            "swap",
            format!("{} of swap", Bytes(bytes)),
            "hidden RAM would push programs into it: `swapoff -a` before hiding RAM, or expect swapping in the result",
        ),
    }
}

/// A field of /proc/meminfo, in bytes.
pub fn meminfo(field: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    host::meminfo::bytes(&text, field)
}
