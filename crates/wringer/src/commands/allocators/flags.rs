// SPDX-License-Identifier: Apache-2.0
//! Problems of the text that is made of the file and the flags. Its lines are not those of the user's file: a problem of a key that a flag sets is told
//! with the flag, and the others with the file alone.

use crate::exit::{Exit, Failure};
use experiment::Problem;
use std::collections::BTreeMap;
use std::path::Path;

/// The keys that flags set.
const FLAGS: [(&str, &str); 4] =
    [("server.malloc", "--malloc"), ("server.thp", "--thp"), ("squeeze.cpuset", "--cpus"), ("load.cpuset", "--cpus")];

/// `values`: of the setting that has the problems, by their keys; none, if the problems are of all settings.
pub(super) fn refused(exit: Exit, file: &Path, problems: &[Problem], values: &BTreeMap<String, String>) -> Failure {
    let told: Vec<String> = problems.iter().map(|problem| told(file, problem, values)).collect();
    Failure::message(exit, told.join("\n")).hint("`wringer doc allocators` lists the flags; nothing was changed")
}

fn told(file: &Path, problem: &Problem, values: &BTreeMap<String, String>) -> String {
    let message = &problem.message;
    let of_flag = FLAGS.iter().find_map(|(key, flag)| Some((key, flag, message.strip_prefix(key)?)));
    let told = match of_flag {
        None => format!("{}: {message}", file.display()),
        Some((key, flag, rest)) => {
            let value = values.get(*key).map(|text| text.trim_matches('"')).unwrap_or_default();
            let name = value.split_once('=').map_or(value, |(name, _)| name);
            let rest = rest.trim_start_matches([':', ' ']);
            // a path that stands for itself is told once
            let name = if rest.starts_with(name) { String::new() } else { format!(" {name}:") };
            format!("{flag}{name} {rest}")
        }
    };
    let told = problem.suggestion.as_ref().map_or_else(|| told.clone(), |suggestion| format!("{told} ({suggestion})"));
    FLAGS.iter().fold(told, |told, (key, flag)| told.replace(key, flag))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(message: &str, malloc: &str) -> String {
        let problem = Problem { line: 149, column: 20, message: message.into(), suggestion: None };
        let values = BTreeMap::from([("server.malloc".to_owned(), format!("\"{malloc}\""))]);
        refused(Exit::Missing, Path::new("exp.toml"), &[problem], &values).error.to_string()
    }

    #[test]
    fn a_flag_is_blamed_for_what_it_sets() {
        let missing = "server.malloc: /bad.so: No such file";
        assert_eq!(said(missing, "W=/bad.so"), "--malloc W: /bad.so: No such file");
        assert_eq!(said(missing, "/bad.so"), "--malloc /bad.so: No such file");
        assert_eq!(said("no room for the tables", "glibc"), "exp.toml: no room for the tables");
        let problem = Problem {
            line: 9,
            column: 1,
            message: "server.thp: no".into(),
            suggestion: Some("server.thp = \"never\"".into()),
        };
        let all = refused(Exit::Usage, Path::new("exp.toml"), &[problem], &BTreeMap::new());
        assert_eq!(all.error.to_string(), "--thp no (--thp = \"never\")");
    }
}
