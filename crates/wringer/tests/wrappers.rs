// SPDX-License-Identifier: Apache-2.0
//! What a server is started in or with: asked, got, and looked up in the process by this test as well.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::path::PathBuf;
use testkit::Lab;

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

fn deployed(server: &str) -> Lab {
    let lab = Lab::new(WRINGER);
    lab.run(["sandbox", "deploy", server, "--name", "w"]).expect_code(0);
    lab
}

/// `None`: it does not run.
fn pid(lab: &Lab) -> Option<u64> {
    let status = lab.run(["sandbox", "status", "w", "-o", "json"]).expect_code(0).stdout;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    status["sandboxes"][0]["pid"].as_u64()
}

fn of_server(lab: &Lab, file: &str) -> String {
    std::fs::read_to_string(format!("/proc/{}/{file}", pid(lab).unwrap())).unwrap()
}

/// The C library's own malloc with checks: every machine with glibc has it.
fn a_malloc() -> PathBuf {
    let names = ["x86_64-linux-gnu", "aarch64-linux-gnu", ""];
    let files = names.map(|name| PathBuf::from("/lib").join(name).join("libc_malloc_debug.so.0"));
    files.into_iter().find(|path| path.is_file()).expect("glibc's libc_malloc_debug.so.0")
}

#[test]
fn a_malloc_and_no_transparent_huge_pages() {
    let (lab, library) = (deployed("postgresql"), a_malloc());
    let library = library.to_str().unwrap();
    let start = ["sandbox", "start", "w", "--malloc", library, "--thp", "never", "--huge-pages", "off"];
    let said = ["got libc_malloc_debug.so.0 (", "asked never, got never", "THP_enabled 0", "asked off, got off"];
    let started = lab.run(start).expect_code(0).expect_said(&said);
    assert!(!started.stderr.contains("NOT AS ASKED"), "{}", started.stderr);
    assert!(of_server(&lab, "maps").contains("libc_malloc_debug"));
    assert!(of_server(&lab, "status").contains("THP_enabled:\t0"));
    lab.run(["sandbox", "restart", "w"]).expect_code(0);
    assert!(!of_server(&lab, "maps").contains("libc_malloc_debug"));
    assert!(of_server(&lab, "status").contains("THP_enabled:\t1"));
    lab.run(["sandbox", "stop", "w"]).expect_code(0);
    // a supervisor's server, too
    let timed = start.into_iter().chain(["--for", "10m"]);
    lab.run(timed).expect_code(0).expect_said(&said);
    lab.run(["sandbox", "delete", "w", "--force"]).expect_code(0);
}

/// The folder in which it was started can be deleted and unmounted while it stands.
#[test]
fn a_standing_server_keeps_no_folder_busy() {
    let (lab, folder) = (deployed("postgresql"), tempfile::tempdir().unwrap());
    let started = lab.command(["sandbox", "start", "w"]).current_dir(folder.path()).output().unwrap();
    assert!(started.status.success(), "{started:?}");
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let inside = processes.filter(|it| std::fs::read_link(it.path().join("cwd")).is_ok_and(|cwd| cwd == folder.path()));
    assert_eq!(inside.map(|it| it.path()).collect::<Vec<_>>(), Vec::<PathBuf>::new());
    lab.run(["sandbox", "delete", "w", "--force"]).expect_code(0);
}

/// Neither the host's setting nor its pool is touched, and nothing goes on without what was asked.
#[test]
fn what_this_host_does_not_have_is_refused() {
    let lab = deployed("postgresql");
    let start = |words: &[&str]| lab.run(["sandbox", "start", "w"].iter().chain(words));
    start(&["--malloc", "quickmalloc"]).expect_code(2).expect_said(&["jemalloc"]);
    start(&["--malloc", "/no/such/library.so"]).expect_code(3).expect_said(&["/no/such/library.so"]);
    let host = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let other = if host.contains("[always]") { "madvise" } else { "always" };
    start(&["--thp", other]).expect_code(3).expect_said(&["the host's setting is", "changes it, for every program"]);
    assert_eq!(std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default(), host);
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
    if host::meminfo::number(&meminfo, "HugePages_Total") == Some(0) {
        start(&["--huge-pages", "on"]).expect_code(4).expect_said(&["huge pages"]);
    }
    assert_eq!(pid(&lab), None);
}

#[test]
fn a_heap_profile_stays_with_the_sandbox() {
    if host::tool::find("valgrind").is_none() {
        testkit::skip!("needs valgrind");
    }
    let lab = deployed("postgresql");
    let started = lab.run(["sandbox", "start", "w", "--valgrind", "massif"]).expect_code(0);
    started.expect_said(&["asked massif, got", "/exe)", "/valgrind"]);
    let server = pid(&lab).unwrap();
    lab.run(["sandbox", "start", "w"]).expect_code(3).expect_said(&["running already"]);
    lab.run(["sandbox", "use", "w", "SELECT 1"]).expect_code(0);
    lab.run(["sandbox", "stop", "w"]).expect_code(0);
    let profile = lab.home().join(format!("sandboxes/w/valgrind/massif.{server}.out"));
    let text = std::fs::read_to_string(&profile).unwrap();
    assert!(text.contains("mem_heap_B="), "{text}");
    let deleted = lab.run(["sandbox", "delete", "w"]).expect_code(0);
    assert!(!deleted.stderr.contains("left where it is"), "{}", deleted.stderr);
}
