// SPDX-License-Identifier: Apache-2.0
//! `wringer squeeze` with real programs: what they get, what is said of it, and a host that is as before.
//!
//! Times are only ever asserted from the side that a busy machine cannot reach: a delay is a least, a quota is a most.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;
mod terminal;

use rustix::process::Signal;
use serde_json::Value;
use standing::*;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use testkit::{Lab, Ran, Snapshot, alone, is_root, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

fn sh<'a>(options: &[&'a str], script: &'a str) -> Vec<&'a str> {
    ["squeeze"].iter().chain(options).copied().chain(["--", "sh", "-c", script]).collect()
}

/// The summary that `--summary` has written.
fn summary(lab: &Lab) -> Value {
    let text = std::fs::read_to_string(lab.home().join("summary.json")).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn data(lab: &Lab, name: &str) -> PathBuf {
    let folder = lab.home().join(name);
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("file"), "content\n").unwrap();
    folder
}

/// A mounted controller, where a cgroup can be made.
fn may_make_a_cgroup(controller: &str) -> bool {
    squeeze::cgroup::writable(controller).is_ok()
}

macro_rules! needs_root_and {
    ($($controller:literal),*) => {
        if !is_root() {
            testkit::skip!("needs root");
        }
        $(if !may_make_a_cgroup($controller) {
            testkit::skip!("no right to make a cgroup of the controller {}", $controller);
        })*
    };
}

#[test]
fn input_output_folder_environment_and_exit_code_are_the_commands() {
    let _alone = alone();
    for lab in [Lab::new(WRINGER), Lab::as_ordinary_user(WRINGER)] {
        let script = "cat; pwd; echo $FROM_OUTSIDE; echo said >&2; env | grep -c -e _READY_FD -e _LIFELINE_FD; exit 7";
        let mut command = lab.command(sh(&["--cpuset", "0", "--summary", "summary.json"], script));
        command.env("FROM_OUTSIDE", "yes").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"from stdin\n").unwrap();
        let output = child.wait_with_output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let home = lab.home().canonicalize().unwrap();
        assert_eq!(out, format!("from stdin\n{}\nyes\n0\n", home.display()), "{err}");
        assert_eq!(output.status.code(), Some(7), "{err}");
        assert!(err.starts_with("said\n") && err.contains("sh ended with exit code 7"), "{err}");
        assert_eq!((&summary(&lab)["exit_code"], &summary(&lab)["schema"]), (&7.into(), &1.into()));
        assert_eq!(status(&lab)["runs"], serde_json::json!([]));
    }
}

/// By the filled file a script tells whose the exit code is; so a code of the command must not come with an empty one.
#[test]
fn a_summary_that_cannot_be_written_is_a_failure_that_says_the_commands_exit_code() {
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    for (options, code) in [(&["--cpuset", "0"][..], 7), (&["--cpuset", "0"], 0), (&["--cpuset", "0", "--quiet"], 7)] {
        let ran = lab.run(sh(&[options, &["--summary", "/dev/full"]].concat(), &format!("exit {code}"))).expect_code(4);
        let told = format!("/dev/full was not written; the command ended with exit code {code}");
        assert!(ran.stderr.contains(&told) && ran.stderr.contains("No space left"), "{}", ran.stderr);
        assert_eq!(ran.stderr.contains("squeeze: sh ended with exit code"), options.len() == 2, "{}", ran.stderr);
    }
    for (output, code) in [("json", 4), ("text", 7)] {
        let mut command = lab.command(sh(&["--cpuset", "0", "-o", output], "exit 7"));
        command.stderr(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
        assert_eq!(command.status().unwrap().code(), Some(code), "-o {output}: standard error is full");
    }
    assert_eq!(status(&lab)["runs"], serde_json::json!([]));
}

#[test]
fn a_command_that_a_signal_kills_returns_128_and_its_number() {
    let _alone = alone();
    let lab = Lab::new(WRINGER);
    lab.run(sh(&["--cpuset", "0", "-q"], "kill -9 $$")).expect_code(137);
    assert_eq!(lab.run(sh(&["--cpuset", "0", "-q"], "exit 0")).expect_code(0).stderr, "", "-q says nothing");
}

#[test]
fn what_outgrows_its_ram_is_killed_and_that_is_told() {
    needs_root_and!("memory");
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let greedy = "exec dd if=/dev/zero of=/dev/null bs=300M count=1";
    let ran = lab.run(sh(&["--ram", "64M", "--swap", "off", "--summary", "summary.json"], greedy)).expect_code(137);
    ran.expect_said(&["asked 64 MiB, got 64 MiB (memory cgroup v", "the kernel killed 1 process of it"]);
    expect_as_before(&before);
    let said = summary(&lab);
    assert_eq!((&said["ram"]["asked_bytes"], &said["ram"]["got_bytes"]), (&(64 * MIB).into(), &(64 * MIB).into()));
    assert_eq!((said["ram"]["oom_kills"].as_u64(), said["swap"]["got_bytes"].as_u64()), (Some(1), Some(0)));
    let peak = said["ram"]["peak_bytes"].as_u64().unwrap();
    assert!((60 * MIB..=65 * MIB).contains(&peak), "{peak}");

    let modest = "exec dd if=/dev/zero of=/dev/null bs=8M count=1";
    lab.run(sh(&["--ram", "64M", "--summary", "summary.json"], modest)).expect_code(0);
    assert_eq!(summary(&lab)["ram"]["oom_kills"], 0);
    expect_as_before(&before);
}

/// A tenth of a CPU, so that the quota is used up on the busiest machine.
#[test]
fn a_quota_is_a_most() {
    needs_root_and!("cpu");
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let burn = "timeout 3 sh -c 'while :; do :; done'";
    let ran = lab.run(sh(&["--cpus", "0.1", "--summary", "summary.json"], burn)).expect_code(124);
    ran.expect_said(&["asked 0.1, got 0.1 (cpu cgroup v", "throttled in"]);
    expect_as_before(&before);
    let said = summary(&lab)["cpus"].take();
    assert_eq!((&said["asked"], &said["got"]), (&0.1.into(), &0.1.into()));
    assert!(said["used"].as_f64().unwrap() < 0.2, "{said:#}");
    assert!(said["throttled_periods"].as_u64().unwrap() > 5, "{said:#}");
}

#[test]
fn on_one_cpu_by_a_cgroup_or_by_affinity() {
    let _alone = alone();
    for lab in [Lab::new(WRINGER), Lab::as_ordinary_user(WRINGER)] {
        // the sleep: it is there still when the program looks at it
        let script = "grep Cpus_allowed_list: /proc/self/status; sleep 1";
        let ran = lab.run(sh(&["--cpuset", "0", "--summary", "summary.json"], script)).expect_code(0);
        assert_eq!(ran.stdout, "Cpus_allowed_list:\t0\n");
        let said = summary(&lab)["cpuset"].take();
        assert_eq!((&said["asked"], &said["got"]), (&"0".into(), &"0".into()));
        let mechanism = said["mechanism"].as_str().unwrap();
        assert!(mechanism.starts_with("cpuset cgroup v") || mechanism == "CPU affinity", "{said:#}");
    }
    let lab = Lab::as_ordinary_user(WRINGER);
    let ran = lab.run(sh(&["--cpuset", "0"], "sleep 1")).expect_code(0);
    assert!(is_root() || may_make_a_cgroup("cpuset") || ran.stderr.contains("CPU affinity"), "{}", ran.stderr);
}

#[test]
fn two_slow_directories_that_only_the_command_sees() {
    needs_root_and!();
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let (one, two) = (data(&lab, "one"), data(&lab, "two"));
    let (first, second) = (format!("{}=read=150ms", one.display()), format!("{}=sync=200ms", two.display()));
    let options = ["--disk", &first, "--disk", &second, "--summary", "summary.json"];
    // past the page cache: on a busy machine the layer may take a single read of `cat` for read-ahead
    let script = "dd if=one/file bs=4k iflag=direct 2>/dev/null; cat two/file; \
                  dd if=/dev/zero of=two/new bs=4k count=1 conv=fsync 2>/dev/null; \
                  grep -c fuse.wringer /proc/self/mountinfo; cd one; dd if=file bs=4k iflag=direct 2>/dev/null";
    let ran = lab.run(sh(&options, script)).expect_code(0);
    assert_eq!(ran.stdout, "content\ncontent\n2\ncontent\n");
    ran.expect_said(&["read 150 ms", "sync 200 ms", "1 sync"]);
    expect_as_before(&before);
    assert_eq!(std::fs::read(two.join("new")).unwrap(), vec![0; 4096], "what was written is there");
    let said = summary(&lab);
    assert!(said["elapsed_us"].as_u64().unwrap() >= 500_000, "{said:#}");
    let (one, two) = (&said["disks"][0], &said["disks"][1]);
    assert!(one["reads"]["count"].as_u64().unwrap() >= 1, "{one:#}");
    assert!(one["reads"]["got_p50_us"].as_f64().unwrap() >= 149_000.0, "{one:#}");
    assert!(two["syncs"]["got_p50_us"].as_f64().unwrap() >= 199_000.0, "{two:#}");
    assert_eq!((&one["syncs"]["count"], &one["writes"]["count"]), (&0.into(), &0.into()));
}

#[test]
fn a_probe_looks_before_the_command_starts() {
    needs_root_and!();
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let folder = data(&lab, "data");
    std::fs::write(folder.join("large"), vec![7; 2 << 20]).unwrap();
    let disk = format!("{}=read=50ms", folder.display());
    lab.run(sh(&["--disk", &disk, "--summary", "summary.json"], "cat data/file")).expect_code(0);
    let measured = summary(&lab)["disks"][0]["measured"][0].take();
    assert!(measured["got"]["value"].as_f64().unwrap() >= 49_000.0, "{measured:#}");
    // a look that is held up ends with fewer readings
    let readings = measured["looks"]["readings"].as_u64().unwrap();
    assert!(measured["looks"]["number"] == 3 && (3..=48).contains(&readings), "{measured:#}");
    // the probe's reads are not the command's
    assert!(summary(&lab)["disks"][0]["reads"]["count"].as_u64().unwrap() < 10);
    expect_as_before(&before);
}

/// A command in the background, and a file that tells that it runs.
fn started(lab: &Lab, options: &[&str], script: &str) -> Child {
    let script = format!("{script}; : >ready; while :; do sleep 0.1; done");
    let child = lab.start("squeezed", sh(options, &script));
    let ready = lab.home().join("ready");
    assert!(wait_until(PATIENCE, || ready.exists()), "{}", lab.said("squeezed"));
    child
}

#[test]
fn signals_are_the_commands() {
    let _alone = alone();
    let lab = Lab::new(WRINGER);
    let script = "trap 'echo usr1' USR1; trap 'echo term; exit 9' TERM";
    let mut child = started(&lab, &["--cpuset", "0"], script);
    signal(child.id().into(), Signal::USR1);
    assert!(wait_until(PATIENCE, || lab.said("squeezed").contains("usr1")));
    signal(child.id().into(), Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(9));
    assert!(lab.said("squeezed").contains("term"), "{}", lab.said("squeezed"));
    assert_eq!(status(&lab)["runs"], serde_json::json!([]));
}

#[test]
fn what_it_has_left_running_is_ended() {
    let _alone = alone();
    let lab = Lab::new(WRINGER);
    let script = "sh -c 'echo $$ >pid; exec sleep 1000 >/dev/null 2>&1' & until [ -s pid ]; do sleep 0.1; done";
    let ran =
        lab.run(sh(&["--cpuset", "0"], script)).expect_code(0).expect_said(&["1 process that it had left running"]);
    let pid: u64 = std::fs::read_to_string(lab.home().join("pid")).unwrap().trim().parse().unwrap();
    assert!(!is_alive(pid), "{}", ran.stderr);
}

#[test]
fn when_wringer_is_killed_the_command_ends_and_everything_is_back() {
    needs_root_and!("memory", "cpu");
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let disk = format!("{}=read=1ms", data(&lab, "data").display());
    let options = ["--ram", "64M", "--cpus", "0.5", "--cpuset", "0", "--disk", &disk];
    let mut child = started(&lab, &options, "cd data; echo $$ >../pid; cd ..");
    let said = status(&lab);
    let steps = serde_json::json!(said["runs"][0]["steps"]).to_string();
    assert!(steps.contains("cgroup") && steps.contains("slow layer") && steps.contains("server "), "{said:#}");
    child.kill().unwrap();
    child.wait().unwrap();
    expect_as_before_by_itself(&before);
    let pid: u64 = std::fs::read_to_string(lab.home().join("pid")).unwrap().trim().parse().unwrap();
    assert!(!is_alive(pid));
    let undone = lab.run(["undo"]).expect_code(0);
    assert!(undone.stdout.contains("nothing to undo"), "{undone:?}");
}

#[test]
fn a_dead_layer_ends_the_command() {
    needs_root_and!();
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let disk = format!("{}=read=1ms", data(&lab, "data").display());
    let mut child = started(&lab, &["--disk", &disk], "true");
    signal(process_of(&lab, "slow layer"), Signal::KILL);
    assert_eq!(child.wait().unwrap().code(), Some(4), "{}", lab.said("squeezed"));
    assert!(lab.said("squeezed").contains("the slow layer over"), "{}", lab.said("squeezed"));
    expect_as_before(&before);
}

#[test]
fn the_commands_arguments_are_nobodys_business() {
    let _alone = alone();
    let lab = Lab::new(WRINGER);
    let mut child = started(&lab, &["--cpuset", "0"], "true secret-password");
    let said = status(&lab);
    assert!(said["runs"][0]["command"].to_string().contains("sh"), "{said:#}");
    assert!(!said.to_string().contains("secret-password"), "{said:#}");
    signal(child.id().into(), Signal::TERM);
    child.wait().unwrap();
}

/// Who has less is the whole host: what it has available falls, and comes back when the command ends.
#[test]
fn the_hosts_ram_is_hidden_for_as_long_as_the_command_runs() {
    needs_root_and!();
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let options = ["--hide-ram", "64M", "--yes", "--summary", "summary.json"];
    let ran = lab.run(sh(&options, "cat /proc/meminfo")).expect_code(0);
    let ran = ran.expect_said(&["asked to hide 64 MiB, hid 64 MiB of the whole host (", "everything is given back"]);
    expect_as_before(&before);
    let said = summary(&lab)["host_ram"].take();
    assert_eq!((&said["asked_hide_bytes"], &said["hidden_bytes"]), (&(64 * MIB).into(), &(64 * MIB).into()));
    assert_eq!((&said["traits"]["whole_host"], &said["measured"][0]["within_tolerance"]), (&true.into(), &true.into()));
    if said["mechanism"] == "huge-page holder" {
        let reserved = |text: &str| host::meminfo::bytes(text, "Hugetlb").unwrap_or_default();
        let now = std::fs::read_to_string("/proc/meminfo").unwrap();
        assert_eq!(reserved(&ran.stdout), reserved(&now) + 64 * MIB, "{}", ran.stdout);
    }

    let ran = lab.run(sh(&["--leave-ram", "900T", "--yes"], "exit 3")).expect_code(3);
    ran.expect_said(&["asked to leave 900 TiB, nothing to hide"]);
    let changes = lab.run(sh(&["--hide-ram", "64M", "--dry-run"], "exit 9")).expect_code(0).stdout;
    assert!(changes.contains("64 MiB") && changes.matches("undo: ").count() >= 2, "{changes}");
    for (options, words) in [
        (vec!["--hide-ram", "900T", "--yes"], vec!["below the floor"]),
        (
            vec!["--hide-ram", "64M", "--yes", "--ram-mechanism", "holder", "--leave-ram", "1G"],
            vec!["cannot be used with"],
        ),
        (vec!["--cpuset", "0", "--yes"], vec!["--hide-ram"]),
    ] {
        let ran = lab.run(sh(&options, "true"));
        assert!(matches!(ran.code, Some(2 | 3)), "{ran:?}");
        ran.expect_said(&words);
    }
    expect_as_before(&before);
}

#[test]
fn a_dead_holder_ends_the_command() {
    needs_root_and!();
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let mut child = started(&lab, &["--hide-ram", "64M", "--yes"], "true");
    signal(process_of(&lab, "holder"), Signal::KILL);
    assert_eq!(child.wait().unwrap().code(), Some(4), "{}", lab.said("squeezed"));
    assert!(lab.said("squeezed").contains("its RAM is back"), "{}", lab.said("squeezed"));
    expect_as_before(&before);
}

#[test]
fn a_dry_run_says_each_change_with_its_undo_and_runs_nothing() {
    let _alone = alone();
    needs_root_and!("memory", "cpu", "cpuset");
    let lab = Lab::new(WRINGER);
    let disk = format!("{}=gp3", data(&lab, "data").display());
    let options = ["--ram", "64M", "--cpus", "0.5", "--cpuset", "0", "--disk", &disk, "--dry-run"];
    let said = lab.run(sh(&options, ": >ran")).expect_code(0).stdout;
    let (undos, changes) =
        (said.matches("\n    undo: ").count(), said.lines().filter(|line| !line.starts_with(' ')).count());
    assert!(undos == changes && undos >= 5, "{said}");
    assert!(said.contains("wringer-<run>-command") && said.contains("slow layer"), "{said}");
    assert!(!lab.home().join("ran").exists());
    let options: Vec<&str> = options.into_iter().chain(["-o", "json"]).collect();
    let plan = json(&lab.run(sh(&options, "true")).expect_code(0));
    assert_eq!(plan["changes"].as_array().unwrap().len(), changes);
}

fn refused(ran: Ran, code: i32, words: &[&str]) {
    ran.expect_code(code).expect_said(words);
}

#[test]
fn refusals_say_what_to_do_and_change_nothing() {
    let _alone = alone();
    let lab = Lab::new(WRINGER);
    let folder = data(&lab, "data");
    let shown = folder.display().to_string();
    let squeeze = |options: &[&str]| lab.run(["squeeze"].iter().chain(options).chain(["--", "true"].iter()));
    refused(squeeze(&[]), 2, &["nothing is to be squeezed", "--ram"]);
    refused(squeeze(&["--cpus", "none"]), 2, &["write a number of CPUs"]);
    refused(squeeze(&["--disk", &format!("{shown}=gp9")]), 2, &["gp9", "gp3"]);
    refused(squeeze(&["--cpus", "8000"]), 3, &["is the most"]);
    refused(squeeze(&["--cpuset", "8000"]), 3, &["no CPU 8000"]);
    refused(squeeze(&["--ram", "512T"]), 3, &["--ram 512 TiB limits nothing: the host has", "write less"]);
    refused(squeeze(&["--ram", "1K"]), 3, &["less than a program needs to start"]);
    refused(lab.run(["squeeze", "--cpuset", "0", "no-such-program"]), 3, &["no-such-program in PATH"]);
    refused(
        lab.run(["squeeze", "--cpuset", "0", "--summary", "/no/such/folder/file", "true"]),
        3,
        &["/no/such/folder"],
    );
    if is_root() {
        refused(squeeze(&["--disk", "/no/such/folder=gp3"]), 3, &["there is no directory"]);
        refused(squeeze(&["--disk", "/proc=gp3"]), 3, &["the host's own"]);
        let (over, under) = (format!("{shown}=gp3"), format!("{}=gp3", lab.home().join("data/below").display()));
        std::fs::create_dir(folder.join("below")).unwrap();
        refused(squeeze(&["--no-probe", "--disk", &over, "--disk", &under]), 2, &["overlap"]);
        let file = std::fs::File::open(folder.join("file")).unwrap();
        let reader = Killed(Command::new("sleep").arg("600").stdin(file).spawn().unwrap());
        refused(squeeze(&["--disk", &over]), 3, &["in use by process", &reader.0.id().to_string()]);
    }
    assert_eq!(status(&lab)["runs"], serde_json::json!([]));
}

#[test]
fn an_ordinary_user_is_told_what_needs_root() {
    let _alone = alone();
    if is_root() && Lab::as_ordinary_user(WRINGER).run(["doctor", "--need", "server-ram"]).code == Some(0) {
        testkit::skip!("the other tests ran as an ordinary user who may make cgroups");
    }
    let lab = Lab::as_ordinary_user(WRINGER);
    for options in [["--ram", "64M"], ["--cpus", "0.5"]] {
        refused(lab.run(sh(&options, "true")), 3, &["run as root"]);
    }
    assert_eq!(status(&lab)["runs"], serde_json::json!([]));
}

/// The command, as root of a test gives an ordinary user `/dev/fuse`: in a mount namespace of its own, nobody else is let in.
fn with_fuse(lab: &Lab, command: &Command) -> Command {
    let device = lab.home().join("fuse");
    let script = "if [ -c \"$DEVICE\" ]; then mount --bind \"$DEVICE\" /dev/fuse || exit; fi; exec \"$@\"";
    if !device.exists() {
        Command::new("mknod")
            .arg("--mode=666")
            .arg(&device)
            .args(["c", "10", "229"])
            .stderr(Stdio::null())
            .status()
            .unwrap();
    }
    let mut wrapped = if is_root() { Command::new("unshare") } else { Command::new("sh") };
    if is_root() {
        wrapped.args(["--mount", "sh"]);
    }
    wrapped.args(["-c", script, "sh"]).arg(command.get_program()).args(command.get_args());
    wrapped.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?)))).env("DEVICE", &device);
    wrapped.current_dir(lab.home()).stdin(Stdio::null());
    wrapped
}

#[test]
fn an_ordinary_user_slows_directories_of_his_own() {
    let (_alone, lab) = (alone(), Lab::as_ordinary_user(WRINGER));
    let run = |arguments: &[&str]| Ran::of(&mut with_fuse(&lab, &lab.command(arguments)));
    if run(&["doctor", "--need", "slow-disk"]).code != Some(0) {
        testkit::skip!("an ordinary user cannot mount here");
    }
    run(&sh(&["--cpuset", "0", "-q"], "mkdir one two; echo 1 >one/file; echo 2 >two/file")).expect_code(0);
    let disk = |name: &str| format!("{}=read=200ms", lab.home().join(name).display());
    let (one, two) = (disk("one"), disk("two"));
    let options = ["--disk", &one, "--disk", &two, "--summary", "summary.json"];
    // past the page cache, as above
    let script = "id -u; for name in one two; do dd if=$name/file bs=4k iflag=direct 2>/dev/null; done; \
                  echo new >two/new; grep -c fuse.wringer /proc/self/mountinfo";
    let ran = run(&sh(&options, script)).expect_code(0);
    let user = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(lab.home()).unwrap());
    assert_eq!(ran.stdout, format!("{user}\n1\n2\n2\n"), "{}", ran.stderr);
    assert_eq!(std::fs::read_to_string(lab.home().join("two/new")).unwrap(), "new\n");
    for disk in summary(&lab)["disks"].as_array().unwrap() {
        assert!(disk["reads"]["got_p50_us"].as_f64().unwrap() >= 199_000.0, "{disk:#}");
    }
    assert_eq!(status(&lab)["runs"], serde_json::json!([]));
}

/// `u::rwx,u:12345:---,g::r-x,m::r-x,o::r-x` as the kernel takes it (linux/posix_acl_xattr.h).
fn access_list() -> Vec<u8> {
    let entries: [(u16, u16, u32); 5] =
        [(0x01, 7, u32::MAX), (0x02, 0, 12_345), (0x04, 5, u32::MAX), (0x10, 5, u32::MAX), (0x20, 5, u32::MAX)];
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, may, id) in entries {
        bytes.extend([&tag.to_le_bytes()[..], &may.to_le_bytes(), &id.to_le_bytes()].concat());
    }
    bytes
}

#[test]
fn an_ordinary_users_layer_does_not_drop_access_lists_in_silence() {
    let (_alone, lab) = (alone(), Lab::as_ordinary_user(WRINGER));
    let run = |arguments: &[&str]| Ran::of(&mut with_fuse(&lab, &lab.command(arguments)));
    if run(&["doctor", "--need", "slow-disk"]).code != Some(0) {
        testkit::skip!("an ordinary user cannot mount here");
    }
    run(&sh(&["--cpuset", "0", "-q"], "mkdir -p listed/below plain; echo 1 >listed/below/file; echo 1 >plain/file"))
        .expect_code(0);
    let file = lab.home().join("listed/below/file");
    match rustix::fs::setxattr(&file, "system.posix_acl_access", &access_list(), rustix::fs::XattrFlags::empty()) {
        Err(rustix::io::Errno::OPNOTSUPP) => testkit::skip!("no POSIX access lists below {}", lab.home().display()),
        other => other.unwrap(),
    }
    let disk = |name: &str| format!("{}=read=0", lab.home().join(name).display());
    let (listed, plain) = (disk("listed"), disk("plain"));
    let squeezed = |options: &[&str]| run(&sh(&[&["-q", "--no-probe"], options].concat(), "echo ran"));
    for options in [&["--disk", &listed][..], &["--disk", &plain, "--disk", &listed], &["--dry-run", "--disk", &listed]]
    {
        let words = ["below/file has a POSIX access list", "run it as root", "setfacl -R -b"];
        let ran = squeezed(options).expect_code(3).expect_said(&words);
        assert_eq!(ran.stdout, "", "{ran:?}");
    }
    assert_eq!(squeezed(&["--disk", &plain]).expect_code(0).stdout, "ran\n");
    let preloaded = squeezed(&["--disk", &listed, "--disk-mechanism", "preload"]);
    assert!(!preloaded.stderr.contains("access list"), "{preloaded:?}");
    // root's layer keeps them
    if is_root() {
        let ran = Lab::new(WRINGER).run(sh(&["-q", "--no-probe", "--disk", &listed], "echo ran"));
        assert_eq!(ran.expect_code(0).stdout, "ran\n");
    }
    assert_eq!(status(&lab)["runs"], serde_json::json!([]));
}
