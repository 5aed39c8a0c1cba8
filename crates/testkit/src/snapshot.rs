// SPDX-License-Identifier: Apache-2.0
//! The host as an independent script sees it, for "before equals after".

use std::path::Path;
use std::process::Command;

/// What `tests/host-snapshot` printed.
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

    /// Fails the test with the lines that differ.
    #[track_caller]
    pub fn expect_equal(&self, after: &Self) {
        let only_in = |one: &Self, other: &Self| -> Vec<String> {
            one.0.lines().filter(|line| !other.0.lines().any(|found| found == *line)).map(str::to_owned).collect()
        };
        let (gone, new) = (only_in(self, after), only_in(after, self));
        assert!(gone.is_empty() && new.is_empty(), "the host is not as before\ngone: {gone:#?}\nnew: {new:#?}");
    }
}
