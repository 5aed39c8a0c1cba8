// SPDX-License-Identifier: Apache-2.0
//! Sorts the marks on the host by run, and finds the runs for which no journal answers. It reads nothing itself.

use super::host_marks::{HostMarks, PREFIX, run_of_folder};
use super::{Condition, Lost, Thing, Trace};
use host::process::{Identity, Marked};
use journal::RunId;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Facts about runs that are not among their marks on the host.
pub(super) struct Known<'a> {
    /// Runs for which a journal of these places answers.
    pub(super) answered: &'a BTreeSet<RunId>,
    /// The folder of journals of these places, without links.
    pub(super) journal: &'a Path,
    /// The state of a run whose folder may be below another folder of journals.
    pub(super) below: &'a dyn Fn(&Path, &RunId) -> Below,
}

/// The state of a run, as its own folder shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Below {
    /// The folder of journals is gone, with the folder above it.
    Nothing,
    /// The folder above the journals is there, the run's folder is not.
    Lost,
    Live,
    /// Its server goes on running.
    Left,
    Hot,
}

/// What was found of one run.
#[derive(Debug, Default)]
struct Found {
    traces: Vec<Trace>,
    /// The process that holds the owner lock, and the folder of journals in which the lock is, or was.
    holder: Option<(Identity, PathBuf)>,
    /// Folders of journals in which the run's folder is, or was.
    journals: BTreeSet<PathBuf>,
    /// Processes that only have the run's id in their environment. That is no proof: a program passes its environment on.
    named: Vec<Trace>,
}

/// The runs for which no journal of these places answers, oldest first; `uid` is the caller's uid.
pub(super) fn lost_runs(seen: &HostMarks, known: &Known<'_>, uid: u32) -> Vec<Lost> {
    let mut runs = group(seen, uid);
    runs.retain(|id, found| !known.answered.contains(id) && !found.traces.is_empty());
    runs.into_iter().filter_map(|(id, found)| judge(id, found, known, uid)).collect()
}

fn group(seen: &HostMarks, uid: u32) -> BTreeMap<RunId, Found> {
    let mut runs: BTreeMap<RunId, Found> = BTreeMap::new();
    let is_own = |owner: Option<u32>| owner == Some(uid);
    for mount in &seen.mounts {
        let Some(id) = run_of_name(&mount.source) else { continue };
        let thing = Thing::Mount {
            target: mount.target.clone(),
            source: mount.source.clone(),
            fstype: mount.fstype.clone(),
            namespace_of: mount.namespace_of,
        };
        add(&mut runs, id, thing, mount.owner, is_own(mount.owner));
    }
    for cgroup in &seen.cgroups {
        let name = cgroup.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(id) = run_of_name(name) else { continue };
        let thing = Thing::Cgroup { path: cgroup.path.clone(), version: cgroup.version };
        add(&mut runs, id, thing, Some(cgroup.uid), is_own(Some(cgroup.uid)));
    }
    for (path, file) in &seen.loops {
        // the file is in a file system that is mounted nowhere, so that its path is a name alone
        let name = file.to_str().and_then(|file| file.strip_prefix('/')).filter(|name| !name.contains('/'));
        let Some((id, name)) = name.and_then(|name| Some((run_of_name(name)?, name))) else { continue };
        // only root attaches loop devices
        add(&mut runs, id, Thing::LoopDevice { path: path.clone(), name: name.to_owned() }, Some(0), is_own(Some(0)));
    }
    for mapping in &seen.mappings {
        let Some(id) = mapping.uuid.strip_prefix("WRINGER-").and_then(leading_run) else { continue };
        let thing = Thing::Mapping { name: mapping.name.clone(), uuid: mapping.uuid.clone() };
        add(&mut runs, id, thing, Some(0), is_own(Some(0)));
    }
    for written in &seen.written {
        let (thing, owner) = (Thing::Change(Box::new(written.clone())), Some(written.uid));
        add(&mut runs, written.run.clone(), thing, owner, is_own(owner));
        runs_journal(&mut runs, &written.run, &written.journal);
    }
    for process in &seen.processes {
        add_process(&mut runs, process, uid);
    }
    for (id, journal) in &seen.journals {
        runs_journal(&mut runs, id, journal);
    }
    for found in runs.values_mut().filter(|found| !found.traces.is_empty()) {
        let is_ours = has_ours(&found.traces);
        let named = found.named.drain(..).map(|trace| Trace { is_ours: trace.is_ours && is_ours, ..trace });
        found.traces.extend(named);
    }
    runs
}

fn add(runs: &mut BTreeMap<RunId, Found>, id: RunId, thing: Thing, owner: Option<u32>, is_ours: bool) {
    runs.entry(id).or_default().traces.push(Trace { thing, is_ours, owner });
}

fn runs_journal(runs: &mut BTreeMap<RunId, Found>, id: &RunId, journal: &Path) {
    runs.entry(id.clone()).or_default().journals.insert(journal.to_owned());
}

fn add_process(runs: &mut BTreeMap<RunId, Found>, process: &Marked, uid: u32) {
    let trace = |owner: Option<u32>| Trace {
        thing: Thing::Process {
            identity: process.identity,
            role: process.role.clone(),
            command: process.command.clone(),
            has_lifeline: process.has_lifeline,
        },
        is_ours: owner == Some(uid),
        owner,
    };
    let mut proven = BTreeSet::new();
    for file in &process.files {
        let Some((id, journal)) = run_of_folder(&file.path).zip(file.path.parent().and_then(Path::parent)) else {
            continue;
        };
        let found = runs.entry(id.clone()).or_default();
        found.journals.insert(journal.to_owned());
        if file.is_locked && file.path.ends_with("owner.lock") {
            found.holder = Some((process.identity, journal.to_owned()));
        }
        if proven.insert(id) {
            // a server may run as another user than the one who started it; the latter owns the token, and the run
            found.traces.push(trace(file.owner.or(process.uid)));
        }
    }
    let named = process.run.as_deref().and_then(|run| run.parse::<RunId>().ok());
    if let Some(id) = named.filter(|id| !proven.contains(id)) {
        runs.entry(id).or_default().named.push(trace(process.uid));
    }
}

/// The run in a name such as `wringer-<run>`, or one with a further part: `wringer-<run>-memory`.
fn run_of_name(name: &str) -> Option<RunId> {
    leading_run(name.strip_prefix(PREFIX)?)
}

fn leading_run(text: &str) -> Option<RunId> {
    const LENGTH: usize = "w-20261120-201530-4f2a".len();
    let (run, rest) = (text.get(..LENGTH)?, text.get(LENGTH..)?);
    (rest.is_empty() || rest.starts_with('-')).then(|| run.parse().ok()).flatten()
}

fn has_ours(traces: &[Trace]) -> bool {
    traces.iter().any(|trace| trace.is_ours)
}

/// `None`: there is nothing to report.
fn judge(id: RunId, found: Found, known: &Known<'_>, uid: u32) -> Option<Lost> {
    let elsewhere = found.journals.iter().filter(|journal| *journal != known.journal);
    let mut journal = found.journals.iter().next().cloned();
    let mut condition = None;
    for place in elsewhere {
        condition = match (known.below)(place, &id) {
            Below::Nothing => continue,
            Below::Left => return None,
            Below::Live => Some(Condition::LiveElsewhere),
            Below::Lost | Below::Hot if found.holder.is_none() && !changes_the_host(&found.traces) => return None,
            Below::Hot | Below::Lost => Some(Condition::HotElsewhere),
        };
        journal = Some(place.clone());
    }
    let condition = match (condition, &found.holder) {
        (Some(Condition::LiveElsewhere), _) => Condition::LiveElsewhere,
        (_, Some((_, place))) if place != known.journal => Condition::LiveElsewhere,
        (condition, _) if !has_ours(&found.traces) => {
            let other = found.traces.iter().filter_map(|trace| trace.owner).find(|owner| *owner != uid);
            other.map(Condition::Foreign).or(condition)?
        }
        (Some(condition), _) => condition,
        (None, Some((controller, _))) => Condition::Held(*controller),
        (None, None) if !changes_the_host(&found.traces) => Condition::Stands,
        (None, None) => Condition::CutOff,
    };
    Some(Lost { id, condition, traces: found.traces, journal })
}

/// Whether the traces include a change of the host. A launcher without a lifeline belongs to a server that outlives its command: the run's cgroups
/// then limit that server alone. A program that is not Wringer's changes nothing on the host.
fn changes_the_host(traces: &[Trace]) -> bool {
    let is_standing = |trace: &Trace| matches!(&trace.thing, Thing::Process { role: Some(role), has_lifeline: false, .. } if role == "launch");
    let stands = traces.iter().any(is_standing);
    traces.iter().any(|trace| match &trace.thing {
        Thing::Process { role, .. } => role.is_some() && !is_standing(trace),
        Thing::Cgroup { .. } => !stands,
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use super::super::host_marks::SeenMount;
    use super::*;
    use host::named_cgroups::NamedCgroup;
    use host::process::HeldFile;

    const RUN: &str = "w-20261120-201530-4f2a";
    const ROOT: u32 = 0;

    fn mount(owner: u32) -> HostMarks {
        let mount = SeenMount {
            target: "/data".into(),
            source: format!("wringer-{RUN}"),
            fstype: "fuse.wringer".into(),
            namespace_of: None,
            owner: Some(owner),
        };
        HostMarks { mounts: vec![mount], ..HostMarks::default() }
    }

    fn process(role: Option<&str>, has_lifeline: bool, file: &str, is_locked: bool) -> Marked {
        let path = Path::new("/home/journal").join(RUN).join(file);
        Marked {
            identity: Identity { pid: 4711, start_time: 1 },
            uid: Some(ROOT),
            command: "wringer".into(),
            role: role.map(str::to_owned),
            run: Some(RUN.into()),
            has_lifeline,
            files: vec![HeldFile { path, is_deleted: true, is_locked, owner: Some(ROOT) }],
        }
    }

    fn judged(seen: &HostMarks, journal: &str, below: Below) -> Option<Condition> {
        let known = Known { answered: &BTreeSet::new(), journal: Path::new(journal), below: &|_, _| below };
        lost_runs(seen, &known, ROOT).pop().map(|run| run.condition)
    }

    #[test]
    fn a_mount_is_its_owners() {
        assert_eq!(judged(&mount(ROOT), "/home/journal", Below::Nothing), Some(Condition::CutOff));
        assert_eq!(judged(&mount(1000), "/home/journal", Below::Nothing), Some(Condition::Foreign(1000)));
    }

    #[test]
    fn what_a_journal_answers_for_is_not_lost() {
        let answered = BTreeSet::from([RUN.parse().expect("an id")]);
        let known = Known { answered: &answered, journal: Path::new("/"), below: &|_, _| Below::Nothing };
        assert_eq!(lost_runs(&mount(ROOT), &known, ROOT), []);
    }

    #[test]
    fn a_held_owner_lock_is_a_life() {
        let seen = HostMarks { processes: vec![process(Some("supervise"), false, "owner.lock", true)], ..mount(ROOT) };
        let controller = Identity { pid: 4711, start_time: 1 };
        assert_eq!(judged(&seen, "/home/journal", Below::Nothing), Some(Condition::Held(controller)));
        for below in [Below::Nothing, Below::Lost, Below::Hot, Below::Live] {
            assert_eq!(judged(&seen, "/other/journal", below), Some(Condition::LiveElsewhere), "{below:?}");
        }
    }

    #[test]
    fn another_home_answers_for_its_own() {
        let seen = HostMarks { processes: vec![process(Some("slowfs"), true, "token", false)], ..mount(ROOT) };
        assert_eq!(judged(&seen, "/other/journal", Below::Hot), Some(Condition::HotElsewhere));
        assert_eq!(judged(&seen, "/other/journal", Below::Lost), Some(Condition::HotElsewhere));
        assert_eq!(judged(&seen, "/other/journal", Below::Left), None);
        assert_eq!(judged(&seen, "/other/journal", Below::Nothing), Some(Condition::CutOff), "the home is gone");
        let seen = HostMarks { processes: vec![process(None, false, "token", false)], ..HostMarks::default() };
        assert_eq!(judged(&seen, "/other/journal", Below::Hot), None, "a program changes nothing of the host's");
    }

    #[test]
    fn a_server_that_was_to_stand_is_not_lost() {
        let with = |role, has_lifeline| HostMarks {
            processes: vec![process(role, has_lifeline, "token", false)],
            ..HostMarks::default()
        };
        let judged = |seen: &HostMarks| judged(seen, "/home/journal", Below::Nothing);
        assert_eq!(judged(&with(Some("launch"), false)), Some(Condition::Stands));
        assert_eq!(judged(&with(Some("launch"), true)), Some(Condition::CutOff));
        assert_eq!(judged(&with(None, false)), Some(Condition::Stands), "a program of the user's");
        assert_eq!(judged(&with(Some("holder"), true)), Some(Condition::CutOff));
    }

    /// Root behind sudo starts a sandbox's server as the user who called sudo: this user sees the server and the cgroup.
    #[test]
    fn a_run_is_its_tokens_owners_whoever_its_server_is() {
        let mut server = process(None, false, "token", false);
        server.files[0].owner = Some(1000);
        let child = Marked { files: Vec::new(), ..process(None, false, "token", false) };
        let path = PathBuf::from(format!("/sys/fs/cgroup/wringer-{RUN}"));
        let cgroup = NamedCgroup { path, version: journal::CgroupVersion::V2, uid: 1000 };
        let seen = HostMarks { processes: vec![server.clone(), child], cgroups: vec![cgroup], ..HostMarks::default() };
        for below in [Below::Nothing, Below::Lost, Below::Hot] {
            assert_eq!(judged(&seen, "/other/journal", below), Some(Condition::Foreign(1000)), "{below:?}");
        }
        let seen = HostMarks { processes: vec![server], ..HostMarks::default() };
        assert_eq!(judged(&seen, "/other/journal", Below::Lost), None, "it changes nothing of the host's");
    }

    /// A program passes its environment on to all its children: the variable alone proves nothing.
    #[test]
    fn a_name_in_the_environment_is_no_proof() {
        let process = Marked { files: Vec::new(), ..process(None, false, "token", false) };
        let seen = HostMarks { processes: vec![process.clone()], ..HostMarks::default() };
        assert_eq!(judged(&seen, "/home/journal", Below::Nothing), None);
        let seen = HostMarks { processes: vec![process], ..mount(ROOT) };
        let known = Known { answered: &BTreeSet::new(), journal: Path::new("/"), below: &|_, _| Below::Nothing };
        assert_eq!(lost_runs(&seen, &known, ROOT)[0].traces.len(), 2, "ended together with the rest");
    }

    #[test]
    fn names_on_the_host() {
        let run: RunId = RUN.parse().expect("an id");
        assert_eq!(run_of_name(&format!("wringer-{RUN}")), Some(run.clone()));
        assert_eq!(run_of_name(&format!("wringer-{RUN}-memory")), Some(run));
        for name in ["wringer-tries", "wringer-test-4711", RUN, "wringer-w-20261120-201530-4f2ab", "wringer-ü"] {
            assert_eq!(run_of_name(name), None, "{name}");
        }
        let with = |file: &str| HostMarks { loops: vec![("/dev/loop0".into(), file.into())], ..HostMarks::default() };
        let judged = |seen: &HostMarks| judged(seen, "/home/journal", Below::Nothing);
        assert_eq!(judged(&with(&format!("/wringer-{RUN}"))), Some(Condition::CutOff));
        assert_eq!(judged(&with(&format!("/home/x/wringer-{RUN}"))), None, "somebody's own file");
    }
}
