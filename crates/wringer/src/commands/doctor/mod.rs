// SPDX-License-Identifier: Apache-2.0
//! Reports what this machine can do, what is missing, and how to get it: everything at once. Changes nothing.

pub mod check;
pub mod checks;
mod mappings;
mod memory;
pub mod mounting;
mod quiet;

use crate::commands::experiment_file::Require;
use crate::commands::plan;
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;
use crate::terminal::Output;
use check::{Check, State};
use experiment::Plan;
use host::places::Places;
use serde::Serialize;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Every missing piece is named with what would supply it. Nothing is changed or installed. For two seconds it looks whether the host \
    is quiet enough to measure on.\n\
    With an experiment file it says what of that would not work here, for this user and this disk, in the words of `wringer plan`.\n\
    In scripts: `wringer doctor --need slow-disk --need sandbox-mariadb` exits with 3 when one of them would not work here.\n\n\
    Examples:\n  \
    wringer doctor\n  \
    wringer doctor experiments/one-read-or-two.toml\n  \
    wringer doctor --need slow-disk -o json"
)]
pub struct Args {
    /// Exit with 3 unless this feature works here (may be given several times)
    #[arg(long, value_name = "FEATURE")]
    need: Vec<String>,
    /// An experiment file: also say which parts of it would not work here, as `wringer plan` does
    file: Option<PathBuf>,
    #[command(flatten)]
    require: Require,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// A feature, and the checks that it needs.
#[derive(Debug, Serialize)]
struct Feature {
    id: &'static str,
    what: &'static str,
    works: bool,
    missing: Vec<&'static str>,
    /// Another feature that works when this one does not.
    instead: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct Diagnosis {
    schema: u32,
    features: Vec<Feature>,
    checks: Vec<Check>,
    /// The plan of the named file, as `wringer plan` makes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    experiment: Option<Plan>,
}

pub fn main(args: Args) -> Outcome {
    let places = Places::from_environment();
    let mut diagnosis = diagnose(&places);
    let planned = args.file.as_ref().map(|file| plan::look(file, &args.require, &places)).transpose()?;
    diagnosis.experiment = planned.as_ref().map(|(_, plan)| plan.clone());
    diagnosis.checks.push(quiet::check(&places));
    if let Some(unknown) = args.need.iter().find(|id| !diagnosis.features.iter().any(|f| f.id == id.as_str())) {
        let known: Vec<_> = diagnosis.features.iter().map(|f| f.id).collect();
        return Err(Failure::message(Exit::Usage, format!("'{unknown}' is not a feature"))
            .hint(format!("features: {}", known.join(", "))));
    }
    match args.output {
        Output::Json => terminal::json(&diagnosis),
        Output::Text => print_text(&diagnosis),
    }
    let refused: Vec<_> =
        diagnosis.features.iter().filter(|f| !f.works && args.need.iter().any(|id| id == f.id)).map(|f| f.id).collect();
    if !refused.is_empty() {
        return Err(Failure::message(Exit::Missing, format!("does not work here: {}", refused.join(", "))));
    }
    match (&args.file, &planned) {
        (Some(file), Some((experiment, plan))) => plan::refuse(file, experiment, plan),
        _ => Ok(()),
    }
}

fn diagnose(places: &Places) -> Diagnosis {
    let checks = checks::all(places);
    let feature = |id, what, needs: &[&'static str]| {
        let stands = |id: &str| checks.iter().any(|check| check.id == id && check.state != State::Missing);
        let missing: Vec<_> = needs.iter().copied().filter(|id| !stands(id)).collect();
        Feature { id, what, works: missing.is_empty(), missing, instead: None }
    };
    let mut features = vec![
        feature("sandbox-mariadb", "Deploy and load a throw-away MariaDB", &["mariadb", "disk-space"]),
        feature("sandbox-postgresql", "Deploy and load a throw-away PostgreSQL", &["postgresql", "disk-space"]),
        feature("slow-disk", "Slow the disk under a server that Wringer starts", &["fuse", "namespaces"]),
        feature("slow-program", "Slow the disk under a dynamic program, without a mount", &["preload"]),
        feature("slow-folder", "Slow any folder that nobody has open (`wringer disk delay`)", &["root", "fuse"]),
        feature(
            "slow-device",
            "Slow a block device that nobody uses (`wringer disk delay DEVICE`)",
            &["root", "dm-delay"],
        ),
        feature(
            "slow-image",
            "Slow an image file or an unused device (`wringer disk delay IMAGE`)",
            &["root", "fuse", "loop"],
        ),
        feature("hide-ram", "Hide RAM from the whole host", &["ram-mechanism"]),
        feature("server-ram", "Give one server or command, page cache included, a memory limit", &["memory-cgroup"]),
        feature("cpu-quota", "Give a command a share of the CPUs (`wringer squeeze --cpus`)", &["cpu-cgroup"]),
        feature("memory", "Say where the memory of a server is (`wringer memory`)", &["mappings"]),
        feature("hugepages", "Reserve huge pages for a server (`wringer hugepages apply`)", &["root", "huge-pages"]),
        feature("pooler", "Put a pgBouncer in front of a PostgreSQL sandbox", &["postgresql", "pgbouncer"]),
        feature("load", "Load, fill and observe any server you can connect to, and limit its connections", &[]),
    ];
    name_substitutes(&mut features);
    Diagnosis { schema: 1, features, checks, experiment: None }
}

/// What could be used instead of a feature, the nearest first. Each begins with the id of a feature, unless it works everywhere.
fn substitutes(id: &str) -> &'static [&'static str] {
    const DISK: &str = "slow-disk, for servers that Wringer starts";
    const PROGRAM: &str = "slow-program, where the program is dynamic";
    match id {
        "slow-disk" => &[PROGRAM],
        "slow-folder" => &[DISK, PROGRAM],
        "slow-device" => &["slow-image, which takes a device, too", "slow-folder", DISK, PROGRAM],
        "slow-image" => &["slow-folder", DISK, PROGRAM],
        "server-ram" => &["hide-ram, which squeezes the whole host"],
        "cpu-quota" => &["wringer squeeze --cpuset, which needs no root: whole CPUs"],
        _ => &[],
    }
}

/// Only a substitute that works here helps.
fn name_substitutes(features: &mut [Feature]) {
    let broken: Vec<&str> = features.iter().filter(|feature| !feature.works).map(|feature| feature.id).collect();
    let works = |words: &str| !broken.iter().any(|id| words.split(',').next() == Some(id));
    let instead = |id: &str| substitutes(id).iter().copied().find(|words| works(words));
    let found: Vec<_> = features.iter().map(|feature| instead(feature.id)).collect();
    features.iter_mut().zip(found).for_each(|(feature, instead)| feature.instead = instead);
}

fn print_text(diagnosis: &Diagnosis) {
    terminal::data("What works on this machine");
    for feature in &diagnosis.features {
        let mark = if feature.works { "yes" } else { "NO " };
        let because =
            if feature.works { String::new() } else { format!("  (missing: {})", feature.missing.join(", ")) };
        terminal::data(format_args!("  {mark}  {:<19} {}{because}", feature.id, feature.what));
        if let (false, Some(instead)) = (feature.works, feature.instead) {
            terminal::data(format_args!("       {:<19} instead: {instead}", ""));
        }
    }
    terminal::data("\nWhat was looked at");
    for check in &diagnosis.checks {
        let mark = match check.state {
            State::Good => "ok  ",
            State::Caution => "note",
            State::Missing => "MISS",
        };
        terminal::data(format_args!("  {mark} {:<14} {}", check.id, check.found));
        if let Some(remedy) = &check.remedy {
            terminal::data(format_args!("       {:<14} -> {remedy}", ""));
        }
    }
    if let Some(plan) = &diagnosis.experiment {
        terminal::data(format_args!("\nWhat {} meets here", plan.experiment));
        let said = plan::remarks(plan);
        match (plan.blockers.is_empty(), said.trim().is_empty()) {
            (true, true) => terminal::data("  nothing is known to stand in its way"),
            (true, false) => terminal::data(said.trim_matches('\n')),
            // The blockers are printed as the error.
            (false, _) => terminal::data(format!("{}\nit would not start:", said.trim_matches('\n')).trim_start()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instead(broken: &[&str], of: &str) -> Option<&'static str> {
        let ids = ["slow-disk", "slow-program", "slow-folder", "slow-device", "slow-image", "hide-ram", "server-ram"];
        let feature = |id| {
            let works = !broken.contains(&id);
            Feature { id, what: "", works, missing: Vec::new(), instead: None }
        };
        let mut features: Vec<Feature> = ids.map(feature).into();
        name_substitutes(&mut features);
        features.iter().find(|feature| feature.id == of).and_then(|feature| feature.instead)
    }

    #[test]
    fn what_does_not_work_here_is_no_substitute() {
        let first = |broken: &[&str], of| instead(broken, of).map(|words| words.split(',').next().unwrap_or_default());
        assert_eq!(first(&["slow-device"], "slow-device"), Some("slow-image"));
        let not_root = ["slow-device", "slow-image", "slow-folder"];
        for id in not_root {
            assert_eq!(first(&not_root, id), Some("slow-disk"), "{id}");
        }
        let in_a_container = ["slow-device", "slow-image", "slow-folder", "slow-disk"];
        for id in in_a_container {
            assert_eq!(first(&in_a_container, id), Some("slow-program"), "{id}");
        }
        assert_eq!(first(&["server-ram", "hide-ram"], "server-ram"), None);
        assert_eq!(first(&["server-ram"], "server-ram"), Some("hide-ram"));
    }
}
