// SPDX-License-Identifier: Apache-2.0
//! A slow directory, and what somebody else has made of it.

use super::WRINGER;
use super::standing::{PATIENCE, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use testkit::{Lab, wait_until};

/// Until a watchdog has tried again: its longest pause is half a minute.
pub(crate) const NEXT_TRY: Duration = Duration::from_secs(90);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    ForeignMountAbove,
    BindMountElsewhere,
    RenamedParent,
    PrivateNamespace,
    SlaveNamespace,
    Container,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    Idle,
    Open,
    Writing,
}

impl Doing {
    fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Open => "open",
            Self::Writing => "writing",
        }
    }
}

pub(crate) struct Scene {
    pub(crate) lab: Lab,
    place: Place,
    doing: Doing,
    visitor: Option<Child>,
    pub(crate) supervisor: u64,
    pub(crate) run: String,
}

pub(crate) fn shell(script: &str) {
    assert!(Command::new("sh").args(["-ec", script]).status().unwrap().success(), "{script}");
}

impl Scene {
    pub(crate) fn new(place: Place, doing: Doing, lasts: &str) -> Self {
        let lab = Lab::new(WRINGER).impatient();
        let home = lab.home().display().to_string();
        shell(&format!(
            "mkdir -p {home}/parent/data {home}/told {home}/elsewhere {home}/root; echo file > {home}/parent/data/file"
        ));
        fs::write(lab.home().join("told/visitor.sh"), include_str!("visitor.sh")).unwrap();
        if place == Place::SlaveNamespace {
            shell(&format!("mount --bind {home}/parent {home}/parent; mount --make-shared {home}/parent"));
        }
        let data = format!("{home}/parent/data");
        let said =
            json(&lab.run(["disk", "delay", &data, "--write", "5ms", "--for", lasts, "-o", "json"]).expect_code(0));
        let (supervisor, run) = (said["pid"].as_u64().unwrap(), said["run"].as_str().unwrap().to_owned());
        let mut scene = Self { lab, place, doing, visitor: None, supervisor, run };
        if place == Place::BindMountElsewhere {
            shell(&format!("mount --bind {data} {home}/elsewhere"));
        }
        scene.visit(&home);
        match place {
            Place::ForeignMountAbove => shell(&format!("mount -t tmpfs theirs {data}; echo theirs > {data}/precious")),
            Place::RenamedParent => fs::rename(scene.home("parent"), scene.home("renamed")).unwrap(),
            _ => {}
        }
        assert!(scene.is_mounted(), "{place:?}: the time ran out while the scene was set up");
        scene
    }

    fn visit(&mut self, home: &str) {
        let (data, word) = (format!("{home}/parent/data"), self.doing.word());
        let told = format!("{home}/told");
        let script = format!("exec sh {told}/visitor.sh");
        let (program, script) = match self.place {
            Place::ForeignMountAbove | Place::RenamedParent => ("sh", format!("{script} {data} {word} {told}")),
            Place::BindMountElsewhere => ("sh", format!("{script} {home}/elsewhere {word} {told}")),
            Place::PrivateNamespace => {
                ("unshare -m --propagation private sh", format!("{script} {data} {word} {told}"))
            }
            Place::SlaveNamespace => ("unshare -m --propagation slave sh", format!("{script} {data} {word} {told}")),
            Place::Container => (
                "unshare -m -p -f --kill-child --propagation private sh",
                format!(
                    "mount --bind / {home}/root; mount --bind {data} {home}/root/mnt; mount --bind {told} {home}/root/media; \
                     mount -t proc proc {home}/root/proc; cd {home}/root; pivot_root . srv; cd /; umount -l /srv; exec sh /media/visitor.sh /mnt {word} /media"
                ),
            ),
        };
        let words: Vec<&str> = program.split(' ').chain(["-ec", &script]).collect();
        let visitor = Command::new(words[0]).args(&words[1..]).current_dir("/").stdin(Stdio::null()).spawn().unwrap();
        self.visitor = Some(visitor);
        assert!(wait_until(PATIENCE, || self.home("told/ready").exists()), "{:?}: nobody came", self.place);
    }

    pub(crate) fn home(&self, path: &str) -> PathBuf {
        self.lab.home().join(path)
    }

    /// Where the slow directory is by now.
    pub(crate) fn data(&self) -> PathBuf {
        self.home(if self.place == Place::RenamedParent { "renamed/data" } else { "parent/data" })
    }

    /// The run's own mount, in our namespace.
    pub(crate) fn is_mounted(&self) -> bool {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        table.lines().any(|line| line.contains(&format!(" {} ", self.data().display())) && line.contains(&self.run))
    }

    /// Whether somebody is in the way of taking ours away.
    pub(crate) fn must_stay(&self) -> bool {
        match self.place {
            Place::RenamedParent | Place::SlaveNamespace => self.doing != Doing::Idle,
            _ => true,
        }
    }

    pub(crate) fn runs(&self) -> usize {
        super::standing::status(&self.lab)["runs"].as_array().unwrap().len()
    }

    /// What the watchdog has written of this run.
    pub(crate) fn watchdog_said(&self) -> String {
        fs::read_to_string(self.home("journal/watchdog.log")).unwrap_or_default()
    }

    fn count(&self) -> u64 {
        fs::read_to_string(self.home("told/count")).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }

    /// After the release: whoever was there goes on, and nothing of theirs is lost.
    pub(crate) fn expect_no_harm(&mut self) {
        let (place, doing) = (self.place, self.doing);
        let before = self.count();
        let goes_on = wait_until(PATIENCE, || self.count() > before + 3);
        let errors = fs::read_to_string(self.home("told/errors")).unwrap_or_default();
        assert_eq!(errors, "", "{place:?} {doing:?}");
        assert!(goes_on, "{place:?} {doing:?}: it stands still");
        if place == Place::ForeignMountAbove {
            let precious = fs::read_to_string(self.data().join("precious")).unwrap_or_default();
            assert_eq!(precious, "theirs\n", "{doing:?}: somebody's data is lost");
        }
    }

    /// Everybody lets go, without an error to the last.
    pub(crate) fn leave(&mut self) {
        fs::write(self.home("told/stop"), "").unwrap();
        let status = self.visitor.take().unwrap().wait().unwrap();
        let errors = fs::read_to_string(self.home("told/errors")).unwrap_or_default();
        assert!(status.success() && errors.is_empty(), "{:?} {:?}: {status}, {errors}", self.place, self.doing);
        match self.place {
            Place::ForeignMountAbove => unmount(&self.data()),
            Place::BindMountElsewhere => unmount(&self.home("elsewhere")),
            _ => {}
        }
    }

    /// When everything is back: what was written is below, and no mount is left.
    pub(crate) fn expect_everything_back(&self) {
        assert!(!self.is_mounted());
        let held = fs::read_to_string(self.data().join("held")).unwrap_or_default();
        let expected = if self.doing == Doing::Idle { 0 } else { self.count() };
        assert_eq!(held.lines().count() as u64, expected, "{:?} {:?}: writes were lost", self.place, self.doing);
        let layers = Command::new("pgrep").args(["-f", "internal slowfs$"]).output().unwrap();
        let layers = String::from_utf8_lossy(&layers.stdout).into_owned();
        let is_ours =
            |pid: &&str| fs::read_to_string(format!("/proc/{pid}/environ")).is_ok_and(|it| it.contains(&self.run));
        assert_eq!(layers.lines().find(is_ours), None, "a layer is left");
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if let Some(mut visitor) = self.visitor.take() {
            let _ = visitor.kill();
            let _ = visitor.wait();
        }
        for path in ["elsewhere", "parent/data", "renamed/data"].map(|path| self.home(path)) {
            while is_foreign_or_bound(&path) && Command::new("umount").arg(&path).status().is_ok_and(|it| it.success())
            {
            }
        }
        if self.place == Place::SlaveNamespace {
            let _ = self.lab.run(["undo"]);
            let _ = Command::new("umount").arg(self.home("parent")).status();
        }
    }
}

/// A watchdog that looks who uses the mount holds it for a moment.
fn unmount(path: &Path) {
    let unmounted = || Command::new("umount").arg(path).status().is_ok_and(|it| it.success());
    assert!(wait_until(PATIENCE, unmounted), "{} is busy", path.display());
}

/// What this test has mounted there.
fn is_foreign_or_bound(path: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut newest_first = table.lines().rev();
    let last = newest_first.find(|line| line.contains(&format!(" {} ", path.display())));
    last.is_some_and(|line| line.contains(" theirs ") || path.ends_with("elsewhere"))
}
