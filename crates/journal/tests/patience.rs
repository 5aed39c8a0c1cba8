// SPDX-License-Identifier: Apache-2.0
//! Alone in its process, which has no descriptors left.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use journal::{Reading, read};
use std::fs;

/// As long as no descriptor is to be had, nothing is known of the journal: it is not damaged.
#[test]
fn a_journal_that_cannot_be_opened_for_a_moment_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let mut bytes = fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/journal/v2.journal")).unwrap();
    bytes.resize(64 << 10, 0);
    fs::write(&path, &bytes).unwrap();
    let taken = || {
        let mut files = Vec::new();
        while let Ok(file) = fs::File::open("/dev/null") {
            files.push(file);
        }
        files
    };
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let few = rustix::process::Rlimit { current: Some(64), ..limit };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, few).unwrap();
    let files = taken();
    let free = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        drop(files);
    });
    let waited = read(&path);
    free.join().unwrap();
    let files = taken();
    let never = read(&path);
    drop(files);
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    assert!(matches!(waited, Reading::Whole(_)), "{waited:?}");
    assert!(matches!(&never, Reading::Unreadable(why) if why.contains("Too many open files")), "{never:?}");
}
