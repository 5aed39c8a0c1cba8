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

/// The kernel removes the `bdi` entry of a mount without a block device a moment after the unmount. So the entry of an earlier test's mount
/// may go while the next test runs. Whether a mount has gone is told by the mount's own line.
fn goes_later(line: &str) -> bool {
    line.starts_with("bdi 0:")
}

#[cfg(test)]
mod tests {
    use super::*;

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
