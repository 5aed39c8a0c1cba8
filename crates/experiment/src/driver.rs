// SPDX-License-Identifier: Apache-2.0
//! The meaning of the arguments of sysbench and pgbench.

use crate::model::{Driver, DriverProgram};
use units::Span;

/// Options that set the length of a run, or that belong to its log.
const SYSBENCH_LENGTH: [&str; 2] = ["--time", "--events"];
const PGBENCH_LENGTH: [&str; 7] =
    ["-t", "--transactions", "-T", "--time", "--log-prefix", "--aggregate-interval", "--sampling-rate"];

impl Driver {
    /// sysbench's script or test: the first argument that is no option. `None` for other programs.
    pub fn script(&self) -> Option<&str> {
        let word = self.arguments.iter().find(|word| !word.starts_with("--"));
        word.filter(|_| self.program == DriverProgram::Sysbench).map(String::as_str)
    }

    /// The rate in transactions a second that pgbench's arguments ask for.
    pub fn rate(&self) -> Option<f64> {
        let mut words = self.arguments.iter();
        words.find_map(|word| word.strip_prefix("--rate=").or_else(|| word.strip_prefix("-R"))?.parse().ok())
    }

    /// The same program with this length, whatever length its own arguments ask for, and without a log: a separate run before the measured one.
    #[must_use]
    pub fn for_warmup(&self, length: Span) -> Self {
        let seconds = length.0.as_secs();
        let mut arguments = Vec::new();
        let mut words = self.arguments.iter();
        while let Some(word) = words.next() {
            let name = word.split('=').next().unwrap_or_default();
            let is_short =
                |option: &&&str| !option.starts_with("--") && word.starts_with(**option) && !word.starts_with("--");
            match self.program {
                DriverProgram::Sysbench if SYSBENCH_LENGTH.contains(&name) => {}
                DriverProgram::Pgbench if PGBENCH_LENGTH.contains(&name) => {
                    if !word.contains('=') {
                        words.next();
                    }
                }
                DriverProgram::Pgbench if PGBENCH_LENGTH.iter().any(|option| is_short(&option)) => {}
                DriverProgram::Pgbench if word == "-l" || word == "--log" => {}
                _ => arguments.push(word.clone()),
            }
        }
        arguments.push(format!("--time={seconds}"));
        if self.program == DriverProgram::Sysbench {
            arguments.push("--events=0".into());
        }
        Self { program: self.program, arguments }
    }

    /// Whether this is pgbench, and it writes a log of each transaction.
    pub fn logs(&self) -> bool {
        let is_log = |word: &String| word == "-l" || word == "--log";
        self.program == DriverProgram::Pgbench && self.arguments.iter().any(is_log)
    }

    /// The files of pgbench's custom scripts (`-f`, `--file`), without their weights.
    pub fn files(&self) -> Vec<&str> {
        let mut files = Vec::new();
        let mut words = self.arguments.iter().filter(|_| self.program == DriverProgram::Pgbench);
        while let Some(word) = words.next() {
            let beside =
                word.strip_prefix("--file=").or_else(|| word.strip_prefix("-f").filter(|rest| !rest.is_empty()));
            let file = if word == "-f" || word == "--file" { words.next().map(String::as_str) } else { beside };
            files.extend(file.map(|file| match file.rsplit_once('@') {
                Some((name, weight)) if weight.bytes().all(|b| b.is_ascii_digit()) => name,
                _ => file,
            }));
        }
        files
    }
}
