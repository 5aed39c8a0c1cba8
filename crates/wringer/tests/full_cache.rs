// SPDX-License-Identifier: Apache-2.0
//! A fetch whose cache is on a disk that is full: it says which variable names another one, and leaves nothing that fills the disk.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::fs;
use std::process::{Command, Stdio};
use testkit::{Lab, Ran, own_uid, shared_cache};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// Package lists fit on the disk where other tests have read them already, and what the client makes of them does not; else the lists do not.
#[test]
fn a_fetch_onto_a_full_disk_names_the_variable_and_leaves_nothing() {
    if !testkit::is_root() {
        testkit::skip!("needs root");
    }
    if host::tool::find("apt-get").is_none() {
        testkit::skip!("needs apt-get");
    }
    let lab = Lab::new(WRINGER);
    let (small, shared) = (lab.home().join("small"), shared_cache(own_uid()).join("apt"));
    fs::create_dir(&small).unwrap();
    let fetch = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, "sh", WRINGER, "sandbox", "fetch", "mariadb", "10.11"]);
        command.env("WRINGER_HOME", lab.home()).env("WRINGER_CACHE", &small).current_dir(lab.home());
        Ran::of(command.stdin(Stdio::null())).expect_code(3).expect_said(&["set WRINGER_CACHE to a folder"])
    };

    // temporary files, what was downloaded in part, and the folder of a new entry
    let onto_full = format!(
        "mount -t tmpfs -o size=\"$(($(du -sk {1}/state 2>/dev/null | cut -f 1) + 6144))k\" none {0} || exit 99
        mkdir {0}/apt; cp -a {1}/state {1}/updated {0}/apt/ 2>/dev/null
        \"$@\"; code=$?
        find {0} -name '*.bin*' -o -path '*/partial/*' -o -name '.new-*'; exit $code",
        small.display(),
        shared.display()
    );
    let ran = fetch(&onto_full).expect_said(&["is full"]);
    assert_eq!(ran.stdout, "", "{}", ran.stderr);

    let read_only = format!("mount -t tmpfs -o ro none {} || exit 99; \"$@\"", small.display());
    let _ = fetch(&read_only).expect_said(&["Read-only file system"]);
}
