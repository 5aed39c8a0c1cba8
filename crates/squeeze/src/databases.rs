// SPDX-License-Identifier: Apache-2.0
//! Finds database servers on this host that are not Wringer's: a squeeze of the host would affect them.

use host::places::Places;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// Names as in `/proc/PID/comm`.
const PROGRAMS: [&str; 6] = ["mysqld", "mariadbd", "postgres", "postmaster", "mongod", "oracle"];

/// The dynamic loader, when it was started by its own name. The program that it runs is among its arguments (ld.so(8)).
const LOADER: &str = "ld-linux";

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Database {
    pub pid: u32,
    pub program: String,
    /// The working directory: for these servers, the data directory. `None` without the right to read it.
    pub directory: Option<PathBuf>,
}

/// One entry for each server, not for each of its processes. Servers of any run in `places` are left out.
///
/// # Errors
/// The journals cannot be listed.
pub fn unknown(places: &Places) -> Result<Vec<Database>, run::Error> {
    let ours: BTreeSet<u32> = run::find_runs(places)?.iter().flat_map(|run| &run.processes).map(|it| it.pid).collect();
    let all = all();
    let pids: BTreeSet<u32> = all.iter().map(|database| database.pid).collect();
    let is_child = |pid: u32| parent(pid).is_some_and(|parent| pids.contains(&parent));
    Ok(all.into_iter().filter(|database| !ours.contains(&database.pid) && !is_child(database.pid)).collect())
}

fn all() -> Vec<Database> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| {
        let program = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_owned();
        let program = if program.starts_with(LOADER) { loaded(pid)? } else { program };
        PROGRAMS.contains(&program.as_str()).then(|| Database {
            pid,
            program,
            directory: fs::read_link(format!("/proc/{pid}/cwd")).ok(),
        })
    })
    .collect()
}

/// The program that a dynamic loader runs: the first argument that is a path and is not the value of an option.
fn loaded(pid: u32) -> Option<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    loaded_program(&String::from_utf8_lossy(&line))
}

fn loaded_program(command_line: &str) -> Option<String> {
    let mut arguments = command_line.split('\0').skip(1);
    while let Some(argument) = arguments.next() {
        match argument {
            // These options have no value.
            "--inhibit-cache" | "--list" | "--verify" => {}
            option if option.starts_with("--") => drop(arguments.next()),
            program => return Some(program.rsplit('/').next().unwrap_or(program).to_owned()),
        }
    }
    None
}

fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_behind_a_dynamic_loader_is_seen() {
        let line =
            "/c/ld-linux-x86-64.so.2\0--inhibit-cache\0--library-path\0/c/lib:/c/mysqld\0/c/sbin/mysqld\0--port=1\0";
        assert_eq!(loaded_program(line).as_deref(), Some("mysqld"));
        assert_eq!(loaded_program("/lib/ld-linux.so.2\0--argv0\0postgres\0bin/true\0").as_deref(), Some("true"));
        assert_eq!(loaded_program("/lib/ld-linux.so.2\0").as_deref(), Some(""));
    }
}
