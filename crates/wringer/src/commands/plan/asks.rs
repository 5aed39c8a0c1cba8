// SPDX-License-Identifier: Apache-2.0
//! Asks the server's own program and the disk about an experiment, before anything is started. Nothing is changed, and the disk is
//! only read. Questions that cannot be asked yet are named.

use crate::commands::disk::flags;
use capability::{Capability, any_words};
use evidence::DiskMechanism;
use experiment::{Arm, Experiment, HostFacts, Plan, Problem, ServerStart, disk_mechanism};
use host::places::Places;
use lab::{server_options, server_request};
use sandbox::Installation;
use squeeze::directory::{check_reach, probe_file};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Adds the options with which the server would not start: [`Plan::blockers`].
pub fn options(experiment: &Experiment, places: &Places, plan: &mut Plan) {
    let names: BTreeSet<&str> =
        experiment.arms.iter().flat_map(|arm| arm.server_options.keys().map(String::as_str)).collect();
    let is_wrapped = experiment.arms.iter().any(|arm| arm.start.malloc.is_some() || arm.start.thp.is_some());
    if names.is_empty() && !is_wrapped {
        return;
    }
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    let flavour = experiment.server.flavour;
    let present = server_request(&experiment.server).ok().and_then(|request| sandbox::present(&request, places));
    one_data_directory(experiment, present.as_ref(), plan);
    let Some(installation) = present else {
        wrappings(experiment, None, places, plan);
        if names.is_empty() {
            return;
        }
        let version = experiment.server.version.as_deref().map_or_else(String::new, |version| format!(" {version}"));
        let how = if any_words(Capability::ServerPackage, flavour).is_empty() {
            "`wringer sandbox unpack TARBALL` brings it".to_owned()
        } else {
            format!("`wringer sandbox fetch {flavour}{version}` brings it")
        };
        plan.not_asked
            .push(format!("whether {flavour}{version} takes {names}: this server is not on this machine yet; {how}"));
        return;
    };
    wrappings(experiment, Some(&installation), places, plan);
    if names.is_empty() {
        return;
    }
    if !installation.can_be_asked() {
        let (program, version) = (installation.program.display(), &installation.version);
        plan.not_asked.push(format!(
            "whether the server takes {names}: {program} {version} is too old to be asked without a start"
        ));
        return;
    }
    for (index, arm) in experiment.arms.iter().enumerate() {
        let asked_before = experiment.arms[..index].iter().any(|earlier| earlier.server_options == arm.server_options);
        if !asked_before {
            options_of(experiment, (index, arm), &installation, plan);
        }
    }
    plan.blockers.sort();
    plan.blockers.dedup();
}

/// Adds options that are decided when the data directory is made, and in which an arm differs from the first one: all arms have one directory.
fn one_data_directory(experiment: &Experiment, installation: Option<&Installation>, plan: &mut Plan) {
    let Some((first, others)) = experiment.arms.split_first() else { return };
    for key in sandbox::init_keys(experiment.server.flavour, installation.map(|it| &it.version)) {
        let of = |arm: &Arm| arm.server_options.get(key).cloned();
        for (index, arm) in (1..).zip(others).filter(|(_, arm)| of(arm) != of(first)) {
            let (line, column) = place_of(experiment, if of(arm).is_some() { index } else { 0 }, key);
            plan.blockers.push(Problem {
                line,
                column,
                message: format!(
                    "arm \"{}\" has another {key} than arm \"{}\": it is decided when the data directory is made, and all arms have one directory",
                    arm.name, first.name
                ),
                suggestion: Some(format!(
                    "write it once, below [server.options]; or vary \"server.options.{key}\" in a [matrix], where each cell has a directory of its own"
                )),
            });
        }
    }
}

/// Adds a malloc that is not on this machine, and transparent huge pages that the host does not give. `installation`: `None` while the server is not here;
/// then the file of a malloc is looked at without it, and again when it is here.
fn wrappings(experiment: &Experiment, installation: Option<&Installation>, places: &Places, plan: &mut Plan) {
    for (index, arm) in experiment.arms.iter().enumerate() {
        let (malloc, thp) = (arm.start.malloc.clone(), arm.start.thp);
        let alone = [
            ("server.malloc", ServerStart { malloc, ..ServerStart::default() }),
            ("server.thp", ServerStart { thp, ..ServerStart::default() }),
        ];
        for (key, start) in alone {
            let looked = match installation {
                Some(installation) => {
                    lab::wrapping_at_hand(&start, installation, places).map(|(_, is_fetched)| is_fetched)
                }
                None => lab::check_without_server(&start).map(|()| false),
            };
            match looked {
                Ok(false) => {}
                Ok(true) => {
                    let name = start.malloc.as_ref().map_or("", experiment::Malloc::name);
                    let told = format!("whether the server runs with {name}: the run fetches its library first");
                    if !plan.not_asked.contains(&told) {
                        plan.not_asked.push(told);
                    }
                }
                Err(error) => plan.blockers.push(in_file(experiment, (index, key), &error)),
            }
        }
    }
    plan.blockers.sort();
    plan.blockers.dedup();
}

/// The sandbox's words for its flags, in those of the file.
fn in_file(experiment: &Experiment, (arm, key): (usize, &str), error: &sandbox::Error) -> Problem {
    let (line, column) = experiment.place(arm, key);
    let words = |text: String| text.replace("--malloc", "server.malloc").replace("--thp", "server.thp");
    Problem { line, column, message: words(error.to_string()), suggestion: error.hint().map(words) }
}

fn options_of(experiment: &Experiment, (index, arm): (usize, &Arm), installation: &Installation, plan: &mut Plan) {
    let Ok(options) = server_options(arm) else { return };
    match installation.refuses(&options) {
        Ok(refused) => plan.blockers.extend(refused.iter().map(|refused| {
            let (line, column) = place_of(experiment, index, refused.option.key());
            Problem {
                line,
                column,
                message: format!(
                    "{} {} would not start with {}: {}",
                    installation.flavour, installation.version, refused.option, refused.why
                ),
                suggestion: Some(match refused.is_by_init {
                    true => "correct the option, or take it away".into(),
                    false => {
                        format!("{} was asked; correct the option, or take it away", installation.program.display())
                    }
                }),
            }
        })),
        Err(error) => plan.not_asked.push(format!(
            "whether the server takes the options of arm \"{}\": {}",
            arm.name,
            host::chain(&error)
        )),
    }
}

/// The place of a server's option in the file, where `-` may stand for the program's `_`.
fn place_of(experiment: &Experiment, arm: usize, key: &str) -> (usize, usize) {
    let place = |key: &str| experiment.place(arm, &format!("server.options.{key}"));
    match place(key) {
        (1, 1) => place(&key.replace('_', "-")),
        found => found,
    }
}

/// Adds the disks that this host's disk cannot imitate: [`Plan::doubts`]. Reads for a second or two.
pub fn disks(experiment: &Experiment, facts: &HostFacts, places: &Places, plan: &mut Plan) {
    if disk_mechanism(experiment, facts) != Some(DiskMechanism::Fuse) {
        return;
    }
    let mut asked: BTreeSet<String> = BTreeSet::new();
    for (index, arm) in experiment.arms.iter().enumerate() {
        let Some(model) = arm.squeeze.disk.as_ref().and_then(|disk| flags::model(disk).ok()) else { continue };
        let Some(profile) = model.profile.clone().filter(|profile| asked.insert(profile.clone())) else { continue };
        let Some(folder) = readable(places) else {
            let folder = places.sandboxes.display();
            plan.not_asked.push(format!(
                "whether this disk is as fast as {profile}: no file of 1 MiB is below {folder} yet; each arm measures it, and says it"
            ));
            continue;
        };
        match check_reach(&folder, &model, true) {
            Ok(()) => {}
            Err(squeeze::Error::Refused { what, hint }) => {
                let (line, column) = experiment.place(index, "squeeze.disk");
                plan.doubts.push(Problem { line, column, message: what, suggestion: Some(hint) });
            }
            Err(error) => {
                plan.not_asked.push(format!("whether this disk is as fast as {profile}: {}", host::chain(&error)))
            }
        }
    }
}

/// A folder of Wringer's with a file to read, on the same disk as the sandboxes.
fn readable(places: &Places) -> Option<PathBuf> {
    let device = |path: &Path| Some(path.ancestors().find_map(|it| it.metadata().ok())?.dev());
    let disk = device(&places.sandboxes)?;
    let folders = [&places.sandboxes, &places.cache, &places.recordings];
    let found = folders.into_iter().find(|folder| device(folder) == Some(disk) && probe_file(folder).is_some());
    found.cloned()
}
