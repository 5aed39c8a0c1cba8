// SPDX-License-Identifier: Apache-2.0
//! `wringer squeeze` by a preloaded library, with real programs.
//!
//! Times are only ever asserted from the side that a busy machine cannot reach: a delay is a least.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;

use serde_json::Value;
use standing::*;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use testkit::{Lab, Ran, Snapshot, alone, is_root};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// Squeezes `script` on a slow disk at `home/data`.
fn squeezed<'a>(disk: &'a str, options: &[&'a str], script: &'a str) -> Vec<&'a str> {
    let start = ["squeeze", "--disk", disk, "--summary", "summary.json"];
    start.iter().chain(options).copied().chain(["--", "sh", "-c", script]).collect()
}

fn data(lab: &Lab, bytes: usize) -> PathBuf {
    let folder = lab.home().join("data");
    // made by the lab's own user
    lab.run(["squeeze", "--cpuset", "0", "-q", "--", "mkdir", "data"]).expect_code(0);
    std::fs::write(folder.join("file"), vec![7; bytes]).unwrap();
    std::fs::File::open(folder.join("file")).unwrap().sync_all().unwrap();
    std::fs::set_permissions(folder.join("file"), std::fs::Permissions::from_mode(0o644)).unwrap();
    folder
}

fn disk(lab: &Lab, bytes: usize, words: &str) -> String {
    format!("{}={words}", data(lab, bytes).display())
}

fn summary(lab: &Lab) -> Value {
    serde_json::from_str(&std::fs::read_to_string(lab.home().join("summary.json")).unwrap()).unwrap()
}

const PRELOAD: [&str; 2] = ["--disk-mechanism", "preload"];

#[test]
fn a_command_and_what_it_starts_are_slow_for_everybody_who_asks() {
    let _alone = alone();
    for lab in [Lab::new(WRINGER), Lab::as_ordinary_user(WRINGER)] {
        let before = Snapshot::take();
        let disk = disk(&lab, 4096, "read=150ms,write=100ms,sync=200ms");
        let script = "cd data; dd if=file of=/dev/null bs=4k iflag=direct 2>&1 | grep -c copied; \
                      dd if=/dev/zero of=new bs=4k count=2 conv=fsync 2>/dev/null; cat new >/dev/null; \
                      dd if=/dev/zero of=../beside bs=4k count=2 conv=fsync 2>/dev/null; exit 7";
        let ran = lab.run(squeezed(&disk, &PRELOAD, script)).expect_code(7);
        assert_eq!(ran.stdout, "1\n");
        ran.expect_said(&["preload layer", "1 read, median", "1 sync, median", "2 buffered writes"]);
        expect_as_before(&before);
        let said = summary(&lab);
        assert!(said["elapsed_us"].as_u64().unwrap() >= 350_000, "{said:#}");
        let disk = &said["disks"][0];
        assert_eq!(disk["mechanism"], "preload layer");
        assert_eq!((&disk["reads"]["count"], &disk["syncs"]["count"]), (&1.into(), &1.into()), "{disk:#}");
        assert!(disk["reads"]["got_p50_us"].as_f64().unwrap() >= 149_000.0, "{disk:#}");
        assert!(disk["syncs"]["got_p50_us"].as_f64().unwrap() >= 199_000.0, "{disk:#}");
        assert!(disk["in_programs"]["processes"].as_u64().unwrap() >= 4, "{disk:#}");
        assert_eq!(status(&lab)["runs"], serde_json::json!([]));
    }
}

#[test]
fn a_probe_looks_through_the_library_too() {
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    let disk = disk(&lab, 2 << 20, "read=50ms");
    lab.run(squeezed(&disk, &PRELOAD, "cat data/file >/dev/null")).expect_code(0);
    let measured = summary(&lab)["disks"][0]["measured"][0].take();
    assert_eq!((&measured["looks"]["number"], &measured["mechanism"]), (&3.into(), &"preload layer".into()));
    assert!(measured["got"]["value"].as_f64().unwrap() >= 49_000.0, "{measured:#}");
}

/// As in a container: a /dev without fuse.
#[test]
fn without_dev_fuse_it_is_taken_by_itself_and_that_is_said() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    let disk = disk(&lab, 4096, "read=150ms");
    let without = |arguments: Vec<&str>| {
        let command = lab.command(arguments);
        let script = "mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && mknod -m 444 /dev/urandom c 1 9 && exec \"$@\"";
        let mut wrapped = Command::new("unshare");
        wrapped.args(["--mount", "sh", "-c", script, "sh"]).arg(command.get_program()).args(command.get_args());
        wrapped.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(lab.home());
        Ran::of(&mut wrapped)
    };
    let script = "dd if=data/file of=/dev/null iflag=direct bs=4k 2>/dev/null";
    let ran = without(squeezed(&disk, &[], script)).expect_code(0);
    ran.expect_said(&["there is no /dev/fuse", "preloaded library", "mmap", "docs/preload.md", "preload layer"]);
    assert_eq!(summary(&lab)["disks"][0]["reads"]["count"], 1);
    without(squeezed(&disk, &["--disk-mechanism", "fuse"], script))
        .expect_code(3)
        .expect_said(&["there is no /dev/fuse"]);
}

#[test]
fn what_cannot_be_slowed_is_refused_before_anything_is_changed() {
    let _alone = alone();
    let lab = Lab::as_ordinary_user(WRINGER);
    let disk = disk(&lab, 4096, "read=1ms");
    let squeeze = |more: &[&str]| {
        let start = ["squeeze", "--disk", &disk, "--no-probe", "--disk-mechanism", "preload"];
        lab.run(start.iter().chain(more).copied())
    };
    // its headers say what the kernel goes by: a program without an interpreter
    let mut program = std::fs::read("/bin/true").unwrap();
    let headers = usize::try_from(u64::from_le_bytes(program[32..40].try_into().unwrap())).unwrap();
    for at in (headers..).step_by(56).take(u16::from_le_bytes([program[56], program[57]]).into()) {
        if program[at..at + 4] == 3u32.to_le_bytes() {
            program[at..at + 4].copy_from_slice(&[0; 4]);
        }
    }
    let path = lab.home().join("static");
    std::fs::write(&path, program).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    squeeze(&["--", "./static"]).expect_code(3).expect_said(&["is a static program", "FUSE layer"]);
    std::fs::copy("/bin/true", &path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4755)).unwrap();
    if is_root() {
        squeeze(&["--", "./static"]).expect_code(3).expect_said(&["with other rights"]);
    }
    lab.run(["squeeze", "--disk", "/dev/shm=read=1ms", "--disk-mechanism", "preload", "--", "true"])
        .expect_code(3)
        .expect_said(&["the host's own"]);
    lab.run(["squeeze", "--disk-mechanism", "preload", "--", "true"]).expect_code(2);
    squeeze(&["--disk-mechanism", "loop", "--", "true"]).expect_code(2);
    let said = squeeze(&["--dry-run", "--", "true"]).expect_code(0).stdout;
    assert!(said.contains("LD_PRELOAD") && said.contains("the library goes with the command"), "{said}");
    assert_eq!(status(&lab)["runs"], serde_json::json!([]));
}

/// Somebody else's library stays behind ours; and a place that the dynamic linker cannot be told is refused.
#[test]
fn beside_another_preloaded_library_and_from_an_odd_place() {
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    let disk = disk(&lab, 4096, "read=1ms");
    let squeeze = |cache: &str, script: &str| {
        let options = ["--disk-mechanism", "preload", "--no-probe"];
        let mut command = lab.command(squeezed(&disk, &options, script));
        command.env("LD_PRELOAD", "/no/such/library.so").env("WRINGER_CACHE", lab.home().join(cache));
        Ran::of(&mut command)
    };
    let ran = squeeze("cache", "echo $LD_PRELOAD").expect_code(0);
    assert!(ran.stdout.contains("/cache/preload/libwringer_preload-"), "{ran:?}");
    assert!(ran.stdout.ends_with(".so:/no/such/library.so\n"), "{ran:?}");
    ran.expect_said(&["the library was in"]);
    squeeze("odd place", "true").expect_code(3).expect_said(&["odd place", "WRINGER_CACHE"]);
}
