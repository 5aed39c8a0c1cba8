// SPDX-License-Identifier: Apache-2.0
//! `wringer probe` on a real file: held to fincore, fio and ioping, and seen to leave nothing behind.
#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used)]

mod standing;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use standing::cgroup;
use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;
use testkit::{Lab, Ran, is_root, one_at_a_time, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");
const MIB: u64 = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(30);

/// A folder on a disk: the temporary folder may be RAM, which cannot be evicted.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Of pseudo-random bytes, on the disk.
fn file(folder: &Path, mib: u64) -> PathBuf {
    let path = folder.join("data");
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_le_bytes()[7]
    };
    fs::write(&path, (0..mib * MIB).map(|_| next()).collect::<Vec<u8>>()).unwrap();
    fs::File::open(&path).unwrap().sync_all().unwrap();
    path
}

fn probe(args: &[&str]) -> Ran {
    Lab::new(WRINGER).run([&["probe"], args].concat())
}

fn json(ran: Ran) -> Value {
    let ran = ran.expect_code(0);
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}\n{}", ran.stdout, ran.stderr))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn found(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

fn evict(path: &Path) {
    let file = fs::File::open(path).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

/// Pages in the page cache, as util-linux counts them.
fn fincore(path: &Path) -> u64 {
    let ran = Ran::of(Command::new("fincore").args(["-n", "-o", "PAGES"]).arg(path)).expect_code(0);
    ran.stdout.trim().parse().unwrap_or_else(|_| panic!("fincore: {}", ran.stdout))
}

#[test]
fn as_many_cached_pages_as_fincore_counts() {
    let _one = one_at_a_time();
    if !found("fincore") {
        testkit::skip!("needs fincore");
    }
    let folder = folder();
    let path = file(folder.path(), 16);
    let part = |from: u64, bytes: usize| {
        evict(&path);
        let file = fs::File::open(&path).unwrap();
        // no read-ahead, of which fincore counts only what has come from the disk already
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
        file.read_exact_at(&mut vec![0; bytes], from).unwrap();
    };
    for prepare in [&|| part(0, 0), &|| part(5 * MIB, 3 << 20), &|| part(0, 16 << 20)] as [&dyn Fn(); 3] {
        prepare();
        // the kernel may drop pages of a clean file at any moment: never more are there afterwards
        let (before, found, after) =
            (fincore(&path), json(probe(&["cache", text(&path), "-o", "json"])), fincore(&path));
        let pages = found["files"][0]["cached_pages"].as_u64().unwrap();
        assert!((after..=before).contains(&pages), "{before}, then {after}: {found:#}");
        assert_eq!(found["totals"]["cached_bytes"], found["files"][0]["cached_bytes"]);
    }
    assert!(fincore(&path) > 2048, "of 4096 pages, all of which were read last");
}

/// Others on the machine take their share: the same order of magnitude is what two probes agree on.
fn expect_alike(ours: f64, theirs: f64, what: &str) {
    assert!(ours / theirs < 10.0 && theirs / ours < 10.0, "{what}: {ours} us here, {theirs} us there");
}

#[test]
fn direct_reads_take_what_fio_says() {
    let _one = one_at_a_time();
    if !found("fio") {
        testkit::skip!("needs fio");
    }
    let folder = folder();
    let path = file(folder.path(), 64);
    let name = format!("--filename={}", text(&path));
    let fixed = ["--name=r", "--rw=randread", "--bs=4k", "--direct=1", "--ioengine=psync", "--readonly"];
    let fio = || {
        let more = [&name, "--time_based", "--runtime=1", "--output-format=json"];
        let ran = Ran::of(Command::new("fio").args(fixed).args(more)).expect_code(0);
        let said: Value = serde_json::from_str(&ran.stdout).unwrap();
        number(&said["jobs"][0]["read"]["clat_ns"]["percentile"]["50.000000"]) / 1e3
    };
    let lab = Lab::new(WRINGER);
    let probe = || json(lab.run(["probe", "read", text(&path), "--time", "300ms", "-o", "json"]));
    // in turn, and the least of each: others use the disk for some seconds, and that only adds
    let (first, one, second, two, third) = (probe(), fio(), probe(), fio(), probe());
    let (ours, theirs) = ([first, second, third], [one, two]);
    let least = |them: &[f64]| them.iter().copied().fold(f64::INFINITY, f64::min);
    let medians = ours.each_ref().map(|it| number(&it["p50_us"]));
    println!("medians: {medians:?} us here, {theirs:?} us there");
    expect_alike(least(&medians), least(&theirs), "median");
    let count: f64 = ours.iter().map(|it| number(&it["count"])).sum();
    let iops = ours.iter().map(|it| number(&it["iops"])).fold(0.0, f64::max);
    assert!(count > 100.0 && iops > 100.0, "{ours:#?}");
    // by CPU time: others that run between two reads are not in it. They are in the whole time, which shows a probe that waits.
    let of = |name: &str| ours.each_ref().map(|it| number(&it["own_cost"][name]));
    let (own, between) = (of("cpu_user_us_per_operation"), of("between_us_per_operation"));
    println!("own cost: {own:?} us of CPU, {between:?} us between two reads");
    assert!(least(&own) < 50.0 && least(&between) < 1000.0, "{own:?} us of CPU, {between:?} us between two reads");
}

#[test]
fn cached_reads_take_what_ioping_says() {
    let _one = one_at_a_time();
    if !found("ioping") {
        testkit::skip!("needs ioping");
    }
    let folder = folder();
    let path = file(folder.path(), 16);
    fs::read(&path).unwrap();
    let ran = Ran::of(Command::new("ioping").args(["-C", "-c", "5000", "-i", "0", "-B", text(&path)])).expect_code(0);
    // raw statistics (ioping(1)): count, running time, iops, speed, min, avg, max, ... in ns
    // the shortest: 5000 reads are over in some ms, and a process that is stopped once for as long spoils any average
    let theirs: f64 = ran.stdout.split_whitespace().nth(4).unwrap().parse().unwrap();
    let ours = json(probe(&["read", text(&path), "--cached", "--count", "5000", "-o", "json"]));
    assert_eq!(ours["count"], 5000);
    // the kernel may drop pages of a clean file at any moment
    assert!(number(&ours["cached_share_before"]) > 0.5, "{ours:#}");
    expect_alike(number(&ours["min_us"]), theirs / 1e3, "shortest");
}

#[test]
fn a_scan_is_cold_and_then_warm_and_changes_nothing() {
    let _one = one_at_a_time();
    let folder = folder();
    let path = file(folder.path(), 48);
    let (content, before) = (fs::read(&path).unwrap(), fs::metadata(&path).unwrap());
    let scan = json(probe(&["scan", text(&path), "-o", "json"]));
    let rounds = scan["rounds"].as_array().unwrap();
    assert_eq!((rounds.len(), &scan["not_evicted"]), (3, &Value::Null), "{scan:#}");
    let share = |round: usize, name: &str| number(&rounds[round][name]);
    assert!(share(0, "cached_before") < 0.01 && share(0, "cached_after") > 0.99, "{scan:#}");
    assert!(share(1, "cached_before") > 0.99 && share(2, "cached_before") > 0.99, "{scan:#}");
    assert!(rounds.iter().all(|round| round["bytes"] == 48 * MIB));
    // a disk may be as fast as RAM; but what was kept is never called too large
    assert!(["fits", "no_difference"].contains(&scan["verdict"].as_str().unwrap()), "{scan:#}");
    let after = fs::metadata(&path).unwrap();
    assert_eq!((before.mtime_nsec(), before.ctime_nsec()), (after.mtime_nsec(), after.ctime_nsec()));
    assert!(fs::read(&path).unwrap() == content, "the file is another");
}

#[test]
fn a_file_larger_than_the_ram_that_is_left_is_told() {
    let _one = one_at_a_time();
    let Some(group) = cgroup(24 * MIB) else { testkit::skip!("no right to make a cgroup") };
    let folder = folder();
    let path = file(folder.path(), 96);
    let enter = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", group.display());
    let ran =
        Ran::of(Command::new("sh").args(["-c", &enter, "sh", WRINGER, "probe", "scan", text(&path), "-o", "json"]));
    assert!(wait_until(PATIENCE, || fs::remove_dir(&group).is_ok()), "the cgroup stays busy");
    let scan = json(ran);
    assert!(number(&scan["rounds"][2]["cached_before"]) < 0.5, "{scan:#}");
    // where the disk itself has a cache, or is as fast as RAM, a part may still come faster; it never fits
    assert!(["does_not_fit", "fits_in_part"].contains(&scan["verdict"].as_str().unwrap()), "{scan:#}");
}

#[test]
fn the_histogram_is_read_by_others() {
    let _one = one_at_a_time();
    let folder = folder();
    let path = file(folder.path(), 16);
    let lab = Lab::new(WRINGER);
    let said = lab.run(["probe", "read", text(folder.path()), "--count", "500", "--threads", "4", "-o", "json"]);
    let value = json(said);
    assert_eq!((value["path"].as_str().unwrap(), &value["schema"]), (text(&path), &Value::from(1)));
    let saved = lab.write("disk.json", &value.to_string());
    let modes = json(lab.run(["modes", text(&saved), "-o", "json"]));
    assert_eq!(modes["histograms"][0]["count"], 500, "{modes:#}");
    let shown = probe(&["read", text(&path), "--count", "500"]).expect_code(0).stdout;
    for word in ["past the page cache", "p99.9", " |", "own cost", "a second"] {
        assert!(shown.contains(word), "'{word}' is not in\n{shown}");
    }
    let small = ["read", text(&path), "--count", "200", "--cached", "--evict", "--working-set", "1M", "-o", "json"];
    let small = json(probe(&small));
    assert_eq!((&small["working_set_bytes"], &small["count"]), (&Value::from(MIB), &Value::from(200)));
    assert!(number(&small["cached_share_before"]) < 0.01, "evicted: {small:#}");
}

/// How much of the file is cached afterwards does not tell what was read: the kernel reads ahead, by 8 MiB and more on some disks. So the rest of the file is
/// cut off while it is probed: a read there would fail.
#[test]
fn a_working_set_is_all_that_is_read() {
    let _one = one_at_a_time();
    let (folder, lab) = (folder(), Lab::new(WRINGER));
    let path = file(folder.path(), 16);
    let args = ["read", text(&path), "--cached", "--working-set", "1M", "--interval", "1ms", "--time", "60s"];
    let mut child = lab.start("probe", [&["probe"], args.as_slice()].concat());
    let reads_more = |blocks: u64| {
        let from = chars(&child, "rchar: ");
        wait_until(PATIENCE, || chars(&child, "rchar: ") > from + blocks * 4096)
    };
    assert!(wait_until(PATIENCE, || holds_file_in(&child, folder.path())) && reads_more(50), "{}", lab.said("probe"));
    fs::File::options().write(true).open(&path).unwrap().set_len(MIB).unwrap();
    assert!(reads_more(100), "{}", lab.said("probe"));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let (code, said) = (child.wait().unwrap().code(), lab.said("probe"));
    assert!(code == Some(130) && said.contains("interrupted"), "{code:?}: {said}");
}

#[test]
fn a_file_of_its_own_is_written_and_gone() {
    let _one = one_at_a_time();
    let folder = folder();
    let path = text(folder.path());
    for operation in ["--write", "--sync"] {
        let value = json(probe(&["read", path, "--create", "8M", operation, "--count", "50", "-o", "json"]));
        assert_eq!((value["count"].as_u64(), value["own_file"].as_bool()), (Some(50), Some(true)), "{value:#}");
        assert_eq!(value["operation"], operation.trim_start_matches('-'));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

/// Whether the process has a file in this folder open; it need not have a name.
fn holds_file_in(child: &Child, folder: &Path) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{}/fd", child.id())).into_iter().flatten().flatten();
    descriptors.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|link| link.starts_with(folder))
}

/// Bytes of all calls that write (`wchar: `), or that read (`rchar: `).
fn chars(child: &Child, name: &str) -> u64 {
    let io = fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap_or_default();
    io.lines().find_map(|line| line.strip_prefix(name)?.parse().ok()).unwrap_or(0)
}

fn cut(signal: Signal) -> (Option<i32>, String, tempfile::TempDir) {
    let (folder, lab) = (folder(), Lab::new(WRINGER));
    let args = ["probe", "read", text(folder.path()), "--create", "8M", "--write", "--time", "60s"];
    let mut child = lab.start("probe", args);
    assert!(wait_until(PATIENCE, || holds_file_in(&child, folder.path())), "{}", lab.said("probe"));
    // when the file is there, it is probed
    assert!(wait_until(PATIENCE, || chars(&child, "wchar: ") > 8 * MIB + (64 << 10)), "{}", lab.said("probe"));
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
    let code = child.wait().unwrap().code();
    let said = lab.said("probe");
    (code, said, folder)
}

#[test]
fn a_file_of_its_own_is_gone_however_it_ends() {
    let _one = one_at_a_time();
    let (code, said, folder) = cut(Signal::INT);
    assert_eq!((code, fs::read_dir(folder.path()).unwrap().count()), (Some(130), 0), "{said}");
    assert!(said.contains("a second") && said.contains("interrupted"), "what was measured is printed: {said}");
    let (code, said, folder) = cut(Signal::KILL);
    assert_eq!((code, fs::read_dir(folder.path()).unwrap().count()), (None, 0), "{said}");
}

#[test]
fn refusals_say_what_to_do() {
    let _one = one_at_a_time();
    let folder = folder();
    let path = file(folder.path(), 1);
    let (file, dir) = (text(&path), text(folder.path()));
    probe(&["read", file, "--write"]).expect_code(2).expect_said(&["--create"]);
    probe(&["read", file, "--create", "8M", "--write"]).expect_code(2).expect_said(&["no folder", "never written"]);
    probe(&["read", dir, "--create", "4096T"]).expect_code(3).expect_said(&["stay free", "smaller"]);
    probe(&["read", file, "--block", "1000"]).expect_code(2).expect_said(&["multiple of 512", "--cached"]);
    probe(&["read", file, "--working-set", "1K"]).expect_code(3).expect_said(&["no block", "smaller --block"]);
    probe(&["read", "/dev/null"]).expect_code(3).expect_said(&["no ordinary file"]);
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    probe(&["scan", text(&pipe)]).expect_code(3).expect_said(&["no ordinary file"]);
    probe(&["scan", dir]).expect_code(2).expect_said(&["probe cache"]);
    let empty = folder.path().join("empty");
    fs::write(&empty, "").unwrap();
    probe(&["scan", text(&empty)]).expect_code(3).expect_said(&["is empty", "with data in it"]);
    probe(&["scan", "/nonexistent"]).expect_code(3).expect_said(&["/nonexistent"]);
    probe(&["cache", "/nonexistent"]).expect_code(3).expect_said(&["/nonexistent"]);
}

#[test]
fn what_the_kernel_does_not_tell_is_said() {
    let _one = one_at_a_time();
    if !is_root() {
        testkit::skip!("needs root");
    }
    let lab = Lab::as_ordinary_user(WRINGER);
    // readable, and not theirs: mincore would call every page cached
    let theirs = lab.write("theirs", "text");
    fs::set_permissions(&theirs, fs::Permissions::from_mode(0o644)).unwrap();
    let ran = lab.run(["probe", "cache", text(&theirs)]);
    if ran.code == Some(0) {
        // a kernel whose cachestat tells everybody tells the truth
        assert!(ran.stdout.contains("4 KiB"), "{}", ran.stdout);
    } else {
        ran.expect_code(3).expect_said(&["only the owner", "as root"]);
    }
}

/// As in a container whose data lie on no volume: the pages belong to the file below, and cachestat finds none.
#[test]
fn files_on_an_overlay_file_system_are_counted() {
    let _one = one_at_a_time();
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (lab, folder) = (Lab::new(WRINGER), folder());
    ["below", "above", "work", "seen"].iter().for_each(|name| fs::create_dir(folder.path().join(name)).unwrap());
    fs::write(folder.path().join("below/data"), vec![1; 3 << 20]).unwrap();
    let overlay = "mount -t overlay none -o lowerdir=below,upperdir=above,workdir=work seen || exit 99
        \"$0\" probe cache seen -o json";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", overlay, WRINGER]).env("WRINGER_HOME", lab.home()).current_dir(folder.path());
    let ran = Ran::of(&mut command);
    if ran.code == Some(99) {
        testkit::skip!("needs a kernel with overlay file systems");
    }
    let seen = &json(ran)["totals"];
    // just written; but the kernel may drop pages at any moment
    assert!(seen["cached_bytes"].as_u64() > Some(MIB) && seen["source"] == "mincore", "{seen:#}");
}
