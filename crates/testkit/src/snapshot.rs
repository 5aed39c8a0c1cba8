// SPDX-License-Identifier: Apache-2.0
//! The state of the host as an independent script sees it, to compare it before and after.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The output of `tests/host-snapshot`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot(String);

impl Snapshot {
    /// Runs `tests/host-snapshot`: it shares no code with the program.
    pub fn take() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/host-snapshot");
        let output = Command::new(&script).output().expect("run tests/host-snapshot");
        assert!(output.status.success(), "tests/host-snapshot: {}", String::from_utf8_lossy(&output.stderr));
        Self(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The lines that belong to this home: of mounts and loop devices below it, and of processes that were given it. For a test beside which others
    /// change the host.
    pub fn lines_of(&self, home: &Path) -> Vec<String> {
        let home = home.to_string_lossy();
        let is_own = |line: &&str| line.contains(&*home) || is_process_of(line, &home);
        self.0.lines().filter(is_own).map(str::to_owned).collect()
    }

    /// The lines that `self` has and `other` has not.
    pub fn lines_not_in(&self, other: &Self) -> Vec<String> {
        self.0.lines().filter(|line| !other.0.lines().any(|found| found == *line)).map(str::to_owned).collect()
    }

    /// The lines that are gone, except those that disappear by themselves, and the new lines.
    pub fn differences(&self, after: &Self) -> (Vec<String>, Vec<String>) {
        let (mut gone, new) = (self.lines_not_in(after), after.lines_not_in(self));
        gone.retain(|line| !goes_later(line));
        (gone, new)
    }

    /// Whether there are no differences.
    pub fn is_equal(&self, after: &Self) -> bool {
        let (gone, new) = self.differences(after);
        gone.is_empty() && new.is_empty()
    }

    /// Fails the test with the lines that differ.
    #[track_caller]
    pub fn expect_equal(&self, after: &Self) {
        let (gone, new) = self.differences(after);
        assert!(gone.is_empty() && new.is_empty(), "the host is not as before\ngone: {gone:#?}\nnew: {new:#?}");
    }

    /// Fails the test when the host is not as it was. Waits until new `bdi` entries are gone: the entries of the test's own mounts, and the entries
    /// that other programs make meanwhile when they try whether they may mount.
    #[track_caller]
    pub fn expect_unchanged(&self) {
        let waits = |after: &Self| {
            let (gone, new) = self.differences(after);
            gone.is_empty() && !new.is_empty() && new.iter().all(|line| goes_later(line))
        };
        let mut after = Self::take();
        crate::wait_until(Duration::from_secs(30), || {
            let is_over = !waits(&after);
            if !is_over {
                after = Self::take();
            }
            is_over
        });
        self.expect_equal(&after);
    }
}

/// Whether the process of this line has the home in its environment. One that has ended meanwhile is nobody's.
fn is_process_of(line: &str, home: &str) -> bool {
    let pid = line.strip_prefix("process ").and_then(|rest| rest.split(' ').next());
    let environment = pid.and_then(|pid| std::fs::read(format!("/proc/{pid}/environ")).ok());
    environment.is_some_and(|bytes| String::from_utf8_lossy(&bytes).contains(home))
}

/// The kernel removes the `bdi` entry of a mount without a block device a moment after the unmount. So the entry of an earlier test's mount
/// may go while the next test runs. Whether a mount has gone is told by the mount's own line.
fn goes_later(line: &str) -> bool {
    line.starts_with("bdi 0:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_and_processes_of_a_home_are_known() {
        let mut child =
            Command::new("sleep").arg("600").env("WRINGER_HOME", "/tmp/home-1").spawn().expect("start sleep");
        let (own, mount) = (format!("process {} sleep 600", child.id()), "mount fuse.wringer on /tmp/home-1/data");
        let taken = Snapshot(format!("{own}\nprocess 1 init\n{mount}\nmount fuse.wringer on /tmp/home-2/data"));
        let seen = |home: &str| taken.lines_of(Path::new(home));
        // the environment is there when the program has begun
        let is_seen = crate::wait_until(Duration::from_secs(30), || seen("/tmp/home-1") == [&own, mount]);
        child.kill().expect("kill sleep");
        child.wait().expect("reap sleep");
        assert!(is_seen);
        assert_eq!(seen("/tmp/home-1"), [mount], "the process has ended");
        assert!(seen("/tmp/home-3").is_empty());
    }

    #[test]
    fn only_the_entry_of_a_mount_that_was_over_may_go() {
        let taken = |lines: &[&str]| Snapshot(lines.join("\n"));
        let before = taken(&["bdi 0:39", "mount a"]);
        before.expect_equal(&taken(&["mount a"]));
        assert!(before.is_equal(&taken(&["mount a"])));
        for after in [taken(&["bdi 0:39"]), taken(&["bdi 0:39", "mount a", "bdi 0:40"])] {
            assert!(std::panic::catch_unwind(|| before.expect_equal(&after)).is_err(), "{after:?}");
            assert!(!before.is_equal(&after), "{after:?}");
        }
    }
}
