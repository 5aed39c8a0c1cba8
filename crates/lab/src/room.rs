// SPDX-License-Identifier: Apache-2.0
//! Whether this host lets a server take so many connections, and the load make them: open files, threads and processes.

use crate::error::Error;
use experiment::Flavour;
use host::change::own_cgroup;
use rustix::process::{Resource, getrlimit};
use squeeze::cgroup;
use std::fs;
use std::path::Path;

/// What MySQL and MariaDB keep of their open files for other things than connections; the rest is the most that `max_connections` can be
/// (sql/mysqld.cc: 10, and two for each of the 400 tables of `TABLE_OPEN_CACHE_MIN`).
const FILES_OF_MYSQL: u64 = 10 + 2 * 400;
/// Open files of the load beside its connections.
const FILES_OF_LOAD: u64 = 128;
/// Threads of the server and of the load beside those of the connections.
const TASKS_BESIDE: u64 = 64;

/// Something of which this host has only so many.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Limit {
    what: String,
    most: u64,
    in_use: u64,
    /// How it is raised.
    remedy: String,
}

/// Looks before anything is started whether a server can have so many connections at once.
///
/// # Errors
/// [`Error::Room`]: the first limit of this host that is too low.
pub fn refuse_connections(flavour: Flavour, connections: u32) -> Result<(), Error> {
    let too_low = |(limit, needed): (Limit, u64)| {
        let Limit { what, most, in_use, remedy } = limit;
        let free = most.saturating_sub(in_use);
        (free < needed).then_some(Error::Room { connections, needed, what, free, most, remedy })
    };
    let files = open_files().map(|limit| (limit, files_needed(flavour, connections)));
    let tasks = tasks().into_iter().map(|limit| (limit, u64::from(connections) + TASKS_BESIDE));
    files.into_iter().chain(tasks).find_map(too_low).map_or(Ok(()), Err)
}

fn files_needed(flavour: Flavour, connections: u32) -> u64 {
    let beside = match flavour {
        // each connection has a process, with open files of its own
        Flavour::Postgresql => FILES_OF_LOAD,
        Flavour::Mariadb | Flavour::Mysql | Flavour::Percona => FILES_OF_MYSQL,
    };
    u64::from(connections) + beside
}

/// `None`: no limit.
fn open_files() -> Option<Limit> {
    let most = getrlimit(Resource::Nofile).maximum?;
    let remedy = "as root `ulimit -Hn N`, or LimitNOFILE= in a systemd unit".to_owned();
    Some(Limit { what: "open files of one process (RLIMIT_NOFILE, the hard limit)".into(), most, in_use: 0, remedy })
}

/// Threads and processes count alike.
fn tasks() -> Vec<Limit> {
    let in_use = fs::read_to_string("/proc/loadavg").ok().and_then(|text| tasks_of(&text)).unwrap_or(0);
    let of_kernel = ["threads-max", "pid_max"].into_iter().filter_map(|name| {
        let most = number(&Path::new("/proc/sys/kernel").join(name))?;
        let (what, remedy) =
            (format!("threads of this host (kernel.{name})"), format!("as root `sysctl kernel.{name}=N`"));
        Some(Limit { what, most, in_use, remedy })
    });
    let of_user = getrlimit(Resource::Nproc).current.map(|most| Limit {
        what: "threads of one user (RLIMIT_NPROC)".into(),
        most,
        in_use: 0,
        remedy: "`ulimit -u N`, or LimitNPROC= in a systemd unit".into(),
    });
    of_kernel.chain(of_user).chain(of_cgroups()).collect()
}

/// The running and all threads of the host are the fourth word: `2/345`.
fn tasks_of(loadavg: &str) -> Option<u64> {
    loadavg.split(' ').nth(3)?.split_once('/')?.1.parse().ok()
}

/// The limits of this process's cgroup and of those above it.
fn of_cgroups() -> Vec<Limit> {
    let Some(root) = cgroup::mounted("pids").map(|controller| controller.root) else { return Vec::new() };
    let own = own_cgroup(&root).unwrap_or_default();
    own.ancestors().take_while(|folder| folder.starts_with(&root)).filter_map(of_cgroup).collect()
}

/// `None`: it has no limit (`max`).
fn of_cgroup(folder: &Path) -> Option<Limit> {
    let most = number(&folder.join("pids.max"))?;
    Some(Limit {
        what: format!("threads of the cgroup {}", folder.display()),
        most,
        in_use: number(&folder.join("pids.current")).unwrap_or(0),
        remedy: "a higher pids.max, or TasksMax= in a systemd unit".into(),
    })
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, clippy::unwrap_used)] // tests lay out folders of their own
mod tests {
    use super::*;

    #[test]
    fn a_few_connections_have_room_and_more_than_the_host_has_threads_have_none() {
        refuse_connections(Flavour::Mariadb, 2).unwrap();
        for flavour in [Flavour::Mysql, Flavour::Postgresql] {
            let refused = refuse_connections(flavour, u32::MAX).unwrap_err();
            assert!(matches!(&refused, Error::Room { connections: u32::MAX, .. }), "{refused:?}");
            assert_eq!(refused.kind(), crate::Kind::Missing);
        }
    }

    #[test]
    fn what_the_kernel_says() {
        assert_eq!(tasks_of("0.20 0.18 0.12 1/80 11206\n"), Some(80));
        assert_eq!(files_needed(Flavour::Percona, 1000), 1810);
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("pids.max", "max\n");
        assert_eq!(of_cgroup(folder.path()), None);
        write("pids.max", "512\n");
        write("pids.current", "500\n");
        let limit = of_cgroup(folder.path()).unwrap();
        assert_eq!((limit.most, limit.in_use), (512, 500));
    }
}
