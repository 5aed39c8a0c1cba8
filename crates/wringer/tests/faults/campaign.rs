// SPDX-License-Identifier: Apache-2.0
//! What every case has in common: a home, a cut, and a host that is as it was.

use super::WRINGER;
use super::standing::{PATIENCE, settles, status};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::{Alone, Lab, Snapshot, alone, takes_every_case, wait_until};

/// The place of a campaign, alone on this machine.
pub(crate) struct Bench {
    pub(crate) lab: Lab,
    pub(crate) before: Snapshot,
    overcommit_before: String,
    _alone: Alone,
}

const OVERCOMMIT: &str = "/proc/sys/vm/nr_overcommit_hugepages";

/// About `sample` of `first..=last`, the last one included. In the whole campaign all of them, or some three hundred of thousands:
/// what makes so many are the reads of a probe, one like the other.
pub(crate) fn points(first: usize, last: usize, sample: usize) -> Vec<usize> {
    let sample = if takes_every_case() { 300 } else { sample };
    let step = ((last + 1 - first) / sample).max(1);
    let mut points: Vec<usize> = (first..=last).step_by(step).collect();
    points.extend((points.last() != Some(&last)).then_some(last));
    points
}

/// Points by chance, and by a seed that makes the same ones again: `WRINGER_FAULTS_SEED`.
pub(crate) struct Sample {
    seed: u64,
    state: u64,
}

impl Sample {
    pub(crate) fn new() -> Self {
        let seed = testkit::campaign_seed();
        Self { seed, state: seed }
    }

    /// One call of these, each with its name, and the numbers of its first and last among those of that name: any name, then any number.
    /// In the whole campaign those of every name, of each at most some ten.
    pub(crate) fn of_calls(&mut self, calls: &[(String, usize, usize)]) -> Vec<(String, usize)> {
        const EACH: usize = 10;
        if takes_every_case() {
            let numbers = |first: usize, last: usize| (first..=last).step_by(((last + 1 - first) / EACH).max(1));
            return calls
                .iter()
                .flat_map(|(name, first, last)| numbers(*first, *last).map(|at| (name.clone(), at)))
                .collect();
        }
        let (name, first, last) = &calls[self.below(calls.len())];
        vec![(name.clone(), first + self.below(last + 1 - first))]
    }

    fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % count as u64).unwrap()
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl std::fmt::Display for Sample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WRINGER_FAULTS_SEED={}", self.seed)
    }
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::of(alone(), Lab::new(WRINGER))
    }

    /// Of a case in which somebody uses what is to be removed, and does not stop.
    pub(crate) fn impatient() -> Self {
        Self::of(alone(), Lab::new(WRINGER).impatient())
    }

    fn of(alone: Alone, lab: Lab) -> Self {
        let data = lab.home().join("data");
        fs::create_dir(&data).unwrap();
        fs::write(data.join("file"), vec![7; 64 << 10]).unwrap();
        let overcommit_before = fs::read_to_string(OVERCOMMIT).unwrap();
        Self { lab, before: Snapshot::take(), overcommit_before, _alone: alone }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.lab.home().join("data")
    }

    /// A disk of 2 MiB, all of it there.
    pub(crate) fn image(&self) -> PathBuf {
        let image = self.lab.home().join("image");
        if !image.exists() {
            fs::write(&image, vec![7; 2 << 20]).unwrap();
        }
        image
    }

    /// The order that `ram hide 64M` would give its supervisor, to end at once or to last.
    pub(crate) fn ram_order(&self, lasts_s: u64) -> String {
        let plan = self.lab.run(["ram", "hide", "64M", "--deadline", "2s", "--dry-run", "-o", "json"]).expect_code(0);
        let plan = super::standing::json(&plan)["plan"].take();
        order(lasts_s, &serde_json::json!({ "ram": plan }))
    }

    /// As [`Bench::ram_order`], for a disk.
    pub(crate) fn disk_order(&self, lasts_s: u64) -> String {
        let data = self.data();
        let plan = self
            .lab
            .run(["disk", "delay", data.to_str().unwrap(), "--read", "1ms", "--dry-run", "-o", "json"])
            .expect_code(0);
        let model = super::standing::json(&plan)["model"].take();
        order(lasts_s, &serde_json::json!({ "directory": { "directory": data, "model": model } }))
    }

    /// As [`Bench::ram_order`], for an image.
    pub(crate) fn image_order(&self, lasts_s: u64) -> String {
        let image = self.image();
        let arguments = ["disk", "delay", image.to_str().unwrap(), "--write", "1ms", "--dry-run", "-o", "json"];
        let model = super::standing::json(&self.lab.run(arguments).expect_code(0))["model"].take();
        let image = serde_json::json!({ "path": image, "is_device": false, "bytes": 2 << 20, "block_bytes": 512 });
        order(lasts_s, &serde_json::json!({ "image": { "image": image, "model": model } }))
    }

    /// Nobody but the watchdog gives the host back.
    pub(crate) fn given_back_by_itself(&self) -> Result<(), String> {
        wait_until(PATIENCE, || self.before.is_equal(&Snapshot::take()));
        self.is_as_before("without an undo")
    }

    /// `wringer undo` puts the host back, and a second one finds nothing to do.
    pub(crate) fn undone(&self) -> Result<(), String> {
        let undone = self.lab.run(["undo"]);
        if undone.code != Some(0) {
            return Err(format!("undo: {undone:?}"));
        }
        self.stop_what_stands()?;
        settles(&self.before);
        self.is_as_before("after undo")?;
        let again = self.lab.run(["undo"]);
        if again.code != Some(0) || !again.stdout.contains("nothing to undo") {
            return Err(format!("a second undo: {again:?}"));
        }
        if fs::read(self.data().join("file")).ok() != Some(vec![7; 64 << 10]) {
            return Err("the data is damaged".into());
        }
        Ok(())
    }

    /// A standing server is nothing that a general undo ends.
    fn stop_what_stands(&self) -> Result<(), String> {
        for run in status(&self.lab)["runs"].as_array().unwrap() {
            let undone = self.lab.run(["undo", run["run"].as_str().unwrap()]);
            if undone.code != Some(0) {
                return Err(format!("undo of a standing server: {undone:?}"));
            }
        }
        Ok(())
    }

    pub(crate) fn is_as_before(&self, when: &str) -> Result<(), String> {
        let (gone, new) = self.before.differences(&Snapshot::take());
        if gone.is_empty() && new.is_empty() {
            return Ok(());
        }
        Err(format!("{when}: gone {gone:#?}, new {new:#?}"))
    }

    fn is_of_this_home(&self, pid: &str) -> bool {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(&*self.lab.home().to_string_lossy())
    }

    /// SIGKILL for every process of this home that was not there before.
    pub(crate) fn kill_what_is_left(&self) {
        for line in Snapshot::take().lines_not_in(&self.before) {
            let pid = line.strip_prefix("process ").and_then(|rest| rest.split(' ').next());
            if let Some(pid) = pid.filter(|pid| self.is_of_this_home(pid)) {
                // it may have ended since
                let _ = kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::KILL);
            }
        }
    }

    /// The ids of the runs whose journals are in this home now.
    pub(crate) fn runs(&self) -> Vec<String> {
        let entries = fs::read_dir(self.lab.home().join("journal")).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("w-")).collect()
    }

    /// By hand, after a program that was broken on purpose; without any code of the program under test. Only what is of this
    /// home and of these `runs`: on a shared machine others may have begun meanwhile.
    pub(crate) fn clean_by_hand(&self, runs: &[String]) {
        fs::write(OVERCOMMIT, &self.overcommit_before).unwrap();
        self.kill_what_is_left();
        let new = || Snapshot::take().lines_not_in(&self.before);
        for line in new() {
            let mut words = line.split(' ');
            if let (Some("mount"), _, Some(target)) = (words.next(), words.next(), words.next())
                && Path::new(target).starts_with(self.lab.home())
            {
                drop(Command::new("umount").arg("-l").arg(target).status());
            }
        }
        let cgroup_is_gone = || {
            let left = new().into_iter().filter_map(|line| Some(PathBuf::from(line.strip_prefix("cgroup ")?)));
            let is_ours = |name: &str| runs.iter().any(|run| name.starts_with(&format!("wringer-{run}-")));
            let left = left.filter(|folder| is_ours(&folder.file_name().unwrap().to_string_lossy()));
            left.map(|folder| fs::remove_dir(folder).is_ok()).filter(|gone| !gone).count() == 0
        };
        assert!(wait_until(PATIENCE, cgroup_is_gone));
        for run in self.runs() {
            let _ = fs::remove_dir_all(self.lab.home().join("journal").join(run));
        }
        wait_until(PATIENCE, || self.before.is_equal(&Snapshot::take()));
        self.before.expect_unchanged();
    }
}

/// Whether this log, which is emptied, tells that a crash point was reached.
pub(crate) fn take_crash(log: &Path) -> bool {
    let text = fs::read_to_string(log).unwrap_or_default();
    let _ = fs::remove_file(log);
    text.contains("crash point")
}

fn order(lasts_s: u64, squeeze: &serde_json::Value) -> String {
    let lasts = serde_json::json!({ "secs": lasts_s, "nanos": 0 });
    let order = serde_json::json!({ "command": ["wringer"], "lasts": lasts, "strict": false, "squeeze": squeeze });
    serde_json::json!({ "role": "supervise", "order": { "squeeze": order } }).to_string()
}
