// SPDX-License-Identifier: Apache-2.0
//! Finds the programs and scripts that the arms name as their load, before anything is fetched or made.

use crate::exit::{Exit, Failure, Outcome};
use crate::input;
use experiment::{Driver, DriverProgram, Experiment};
use lab::Program;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Tests that are part of the sysbench program.
const SYSBENCH_TESTS: [&str; 5] = ["cpu", "fileio", "memory", "mutex", "threads"];

/// The programs of the arms, by the arms' names.
///
/// # Errors
/// Exit code 3: a program or a script is missing.
pub fn find(file: &Path, experiment: &Experiment) -> Result<BTreeMap<String, Program>, Failure> {
    let folder = folder_of(file)?;
    let mut found = BTreeMap::new();
    for arm in &experiment.arms {
        if let Some(driver) = &arm.load.driver {
            let prepared = one(driver, &folder).map_err(|failure| of_arm(failure, &arm.name))?;
            found.insert(arm.name.clone(), prepared);
        }
    }
    Ok(found)
}

/// The program of `fill.command` of an experiment file.
///
/// # Errors
/// Exit code 3: the program is missing.
pub fn filler(file: &Path, experiment: &Experiment) -> Result<Option<Program>, Failure> {
    filler_in(&folder_of(file)?, experiment)
}

/// The same, where the program is named from a folder.
///
/// # Errors
/// Exit code 3: the program is missing.
pub fn filler_in(folder: &Path, experiment: &Experiment) -> Result<Option<Program>, Failure> {
    if experiment.fill.command.is_empty() {
        return Ok(None);
    }
    let driver = Driver { program: DriverProgram::Command, arguments: experiment.fill.command.clone() };
    let named = |Failure { exit, error, hints }| {
        let error = anyhow::anyhow!("fill.command: {error:#}; nothing was changed");
        Failure { exit, error, hints }
    };
    Ok(Some(one(&driver, folder).map_err(named)?))
}

fn folder_of(file: &Path) -> Result<PathBuf, Failure> {
    let folder = file.parent().unwrap_or(Path::new(""));
    Ok(std::path::absolute(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })?)
}

fn of_arm(failure: Failure, arm: &str) -> Failure {
    let Failure { exit, error, hints } = failure;
    Failure { exit, error: anyhow::anyhow!("arm '{arm}': {error:#}; nothing was changed"), hints }
}

fn one(driver: &Driver, folder: &Path) -> Result<Program, Failure> {
    let (program, named) = match driver.program {
        DriverProgram::Sysbench => {
            let program = installed("sysbench", "sysbench", None)?;
            let script = driver.script().unwrap_or_default();
            refuse_missing_script(script, &program, folder)?;
            (program, vec![script].into_iter().filter(|script| is_path(script)).collect())
        }
        DriverProgram::Pgbench => {
            let beside = newest_below(Path::new("/usr/lib/postgresql"));
            let program = installed("pgbench", "postgresql-contrib or postgresql-client", beside)?;
            (program, driver.files())
        }
        DriverProgram::Command => (command(driver, folder)?, Vec::new()),
    };
    let read = |name: &&str| {
        let path = folder.join(name);
        let text = input::read_bytes(&path).map_err(|error| {
            let error = anyhow::anyhow!("the script {} cannot be read: {}", path.display(), error.root_cause());
            Failure::new(Exit::Missing, error).hint("scripts are named from where the experiment's file is")
        })?;
        Ok::<_, Failure>(((*name).to_owned(), String::from_utf8_lossy(&text).into_owned()))
    };
    let scripts = named.iter().map(read).collect::<Result<_, _>>()?;
    Ok(Program { program, folder: folder.to_owned(), scripts })
}

fn installed(name: &str, package: &str, beside: Option<PathBuf>) -> Result<PathBuf, Failure> {
    host::tool::find(name).or(beside).ok_or_else(|| {
        Failure::message(Exit::Missing, format!("{name} is not on this machine"))
            .hint(format!("install it: the package is {package}, on Debian and its like"))
    })
}

/// The program of the highest version below `folder`, for example `/usr/lib/postgresql/15/bin/pgbench`.
fn newest_below(folder: &Path) -> Option<PathBuf> {
    let versions = std::fs::read_dir(folder).ok()?.flatten().filter_map(|entry| {
        let version: u32 = entry.file_name().to_string_lossy().parse().ok()?;
        Some((version, entry.path().join("bin/pgbench")))
    });
    versions.filter(|(_, program)| program.is_file()).max().map(|(_, program)| program)
}

/// sysbench's own scripts and tests have a bare name, other scripts a path.
fn is_path(script: &str) -> bool {
    script.contains('/') || script.ends_with(".lua")
}

fn refuse_missing_script(script: &str, program: &Path, folder: &Path) -> Outcome {
    let file = format!("{script}.lua");
    let own = program.parent().and_then(Path::parent).map(|prefix| prefix.join("share/sysbench"));
    let Some(own) = own.filter(|own| own.is_dir() && !is_path(script)) else { return Ok(()) };
    if SYSBENCH_TESTS.contains(&script) || own.join(&file).exists() || folder.join(&file).exists() {
        return Ok(());
    }
    let names = std::fs::read_dir(&own).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let names = names.filter_map(|name| Some(name.to_string_lossy().strip_suffix(".lua")?.to_owned()));
    let mut names: Vec<String> = names.filter(|name| name != "oltp_common").collect();
    names.sort();
    Err(Failure::message(Exit::Missing, format!("sysbench has no script {script}"))
        .hint(format!("its own: {}", names.join(", ")))
        .hint("a script of yours is a path, from where the experiment's file is: \"./mine.lua\""))
}

/// A name with a slash is a path relative to the experiment's folder; another name is looked up in PATH.
fn command(driver: &Driver, folder: &Path) -> Result<PathBuf, Failure> {
    let name = driver.arguments.first().map(String::as_str).unwrap_or_default();
    if !name.contains('/') {
        let missing = || Failure::message(Exit::Missing, format!("there is no program {name} in PATH"));
        return host::tool::find(name).ok_or_else(missing);
    }
    let path = folder.join(name);
    if path.is_file() && rustix::fs::access(&path, rustix::fs::Access::EXEC_OK).is_ok() {
        return Ok(path);
    }
    let message = format!("{} is no program that can be executed", path.display());
    Err(Failure::message(Exit::Missing, message).hint("programs are named from where the experiment's file is"))
}
