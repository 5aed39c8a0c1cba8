// SPDX-License-Identifier: Apache-2.0
//! Database servers, known by their programs.

use super::identity::Stat;
use super::proc_files::pids;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// Names of programs, as in `/proc/PID/comm`; a build may add `-debug`, or a version.
const PROGRAMS: [&str; 6] = ["mysqld", "mariadbd", "postgres", "postmaster", "mongod", "oracle"];

/// The beginnings of the names of programs that run another program: the dynamic loader, when it was started by its own name (ld.so(8)), and the
/// tools of Valgrind.
const RUNNERS: [&str; 7] = ["ld-linux", "ld-musl", "valgrind", "memcheck-", "massif-", "callgrind-", "dhat-"];

/// The options of the dynamic loader whose value is the next argument (ld.so(8)).
const WITH_VALUE: [&str; 7] = [
    "--argv0",
    "--audit",
    "--glibc-hwcaps-mask",
    "--glibc-hwcaps-prepend",
    "--inhibit-rpath",
    "--library-path",
    "--preload",
];

/// A database server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Server {
    pub pid: u32,
    pub program: String,
    /// The working directory: for these servers, the data directory. `None` without the right to read it.
    pub directory: Option<PathBuf>,
}

/// Every server on this host: one entry for each server, not for each of its processes.
pub fn servers() -> Vec<Server> {
    let named = pids().filter_map(|pid| Some((pid, server_program(pid)?)));
    let all: Vec<(u32, String)> = named.collect();
    let known: BTreeSet<u32> = all.iter().map(|(pid, _)| *pid).collect();
    let is_child = |pid: u32| Stat::read(pid).is_some_and(|stat| known.contains(&stat.parent));
    let leaders = all.into_iter().filter(|(pid, _)| !is_child(*pid));
    leaders
        .map(|(pid, program)| Server { pid, program, directory: fs::read_link(format!("/proc/{pid}/cwd")).ok() })
        .collect()
}

/// The program of this process, also where a loader or Valgrind runs it. `None`: it is no database server.
pub fn server_program(pid: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_owned();
    let program = if RUNNERS.iter().any(|runner| name.starts_with(runner)) { run_program(pid)? } else { name };
    is_server(&program).then_some(program)
}

fn is_server(program: &str) -> bool {
    let mut rests = PROGRAMS.iter().filter_map(|name| program.strip_prefix(name));
    rests.any(|rest| rest.is_empty() || rest.starts_with(['-', '.']))
}

fn run_program(pid: u32) -> Option<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    program_among(&String::from_utf8_lossy(&line))
}

/// The first argument that is a path and is not the value of an option.
fn program_among(command_line: &str) -> Option<String> {
    let mut arguments = command_line.split('\0').skip(1);
    while let Some(argument) = arguments.next() {
        match argument {
            option if WITH_VALUE.contains(&option) => drop(arguments.next()),
            option if option.starts_with('-') => {}
            program => return Some(program.rsplit('/').next().unwrap_or(program).to_owned()),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_behind_a_dynamic_loader_or_valgrind_is_seen() {
        let line =
            "/c/ld-linux-x86-64.so.2\0--inhibit-cache\0--library-path\0/c/lib:/c/mysqld\0/c/sbin/mysqld\0--port=1\0";
        assert_eq!(program_among(line).as_deref(), Some("mysqld"));
        assert_eq!(program_among("/lib/ld-linux.so.2\0--argv0\0postgres\0bin/true\0").as_deref(), Some("true"));
        assert_eq!(program_among("/lib/ld-linux.so.2\0").as_deref(), Some(""));
        let line =
            "/usr/bin/valgrind\0--tool=massif\0--massif-out-file=/tmp/mysqld\0/usr/sbin/mariadbd\0--no-defaults\0";
        assert_eq!(program_among(line).as_deref(), Some("mariadbd"));
    }

    #[test]
    fn names_of_servers_and_their_like() {
        assert!(["mysqld", "mysqld-debug", "mariadbd", "postgres"].map(is_server).iter().all(|it| *it));
        assert!(["mysqld_safe", "mysqld_exporter", "postgres_exporter", "mysql"].map(is_server).iter().all(|it| !it));
    }

    #[test]
    fn this_process_is_no_server() {
        assert_eq!(server_program(std::process::id()), None);
    }
}
