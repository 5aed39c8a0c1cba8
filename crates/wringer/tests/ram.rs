// SPDX-License-Identifier: Apache-2.0
//! Hiding the host's RAM with the real program: it is gone, it is measured, and it comes back whatever dies.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;

use rustix::process::Signal;
use standing::*;
use std::path::Path;
use testkit::{Lab, Snapshot, alone, is_root, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");
const POOL: &str = "/proc/sys/vm/nr_hugepages";
/// Small enough for a small machine, large against what it does by itself.
const HIDE: &str = "512M";
const HIDE_PAGES: u64 = 256;

fn hide(lab: &Lab) -> serde_json::Value {
    json(&lab.run(["ram", "hide", HIDE, "--yes", "-o", "json"]).expect_code(0))
}

/// What was taken is what was asked; what is available is other programs' doing, too.
fn is_exact(said: &serde_json::Value) -> bool {
    let mut hidden = said["measured"].as_array().unwrap().iter().filter(|it| it["what"] == "ram.hidden");
    hidden.next().is_some_and(|it| it["within_tolerance"] == true) && hidden.next().is_none()
}

#[test]
fn hidden_measured_and_given_back() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let available = meminfo("MemAvailable") * 1024;
    let said = hide(&lab);
    assert_eq!(said["hidden_bytes"], 512 * MIB);
    assert_eq!(
        (said["mechanism"].as_str(), said["traits"]["mem_total_shrinks"].as_bool()),
        (Some("huge-page holder"), Some(false))
    );
    assert_eq!((meminfo("HugePages_Rsvd"), &status(&lab)["hidden_bytes"]), (HIDE_PAGES, &(512 * MIB).into()));
    let fell = available.saturating_sub(meminfo("MemAvailable") * 1024);
    assert!(fell > 100 * MIB, "MemAvailable fell by {fell} bytes only");
    let measured = said["measured"].as_array().unwrap();
    assert_eq!(measured.len(), 2);
    assert!(is_exact(&said), "{said:#}");
    assert_eq!(
        std::fs::read_to_string("/proc/sys/vm/nr_overcommit_hugepages").unwrap().trim(),
        "0",
        "the cap is back at once"
    );
    let holder = process_of(&lab, "holder");
    let score = std::fs::read_to_string(format!("/proc/{holder}/oom_score_adj")).unwrap();
    assert_eq!(score.trim(), "1000", "the kernel takes the holder before a database");
    lab.run(["ram", "hide", HIDE, "--yes"]).expect_code(3).expect_said(&["held by run", "ram release"]);
    let shown = lab.run(["ram", "status"]).expect_code(0).stdout;
    assert!(shown.contains("live") && shown.contains("reserved in huge pages 512 MiB"), "{shown}");

    lab.run(["ram", "release"]).expect_code(0);
    expect_as_before(&before);
    assert_eq!(meminfo("HugePages_Total"), 0);
    lab.run(["ram", "release"]).expect_code(0).expect_said(&["no RAM is hidden"]);
}

/// What another home hides is there for everybody on the host: a look from this one says so, and where.
fn assert_told_of(lab: &Lab, run: &str, home: &Path) {
    for command in ["status", "ram status"] {
        let words = command.split(' ').collect::<Vec<_>>();
        let said = lab.run(&words).expect_code(0).stdout;
        assert!(said.contains("by this WRINGER_HOME") && said.contains(run), "{said}");
        assert!(said.contains(&format!("`WRINGER_HOME={} wringer {command}`", home.display())), "{said}");
        let said = json(&lab.run(words.iter().chain(&["-o", "json"])).expect_code(0));
        assert_eq!(said["hidden_bytes"], 0, "{said:#}");
        let other = said["hidden_by_others"].as_array().unwrap().iter().find(|it| it["run"] == run).unwrap();
        assert_eq!(other["hidden_bytes"], HIDE_PAGES * (2 << 20), "{said:#}");
        assert_eq!(other["home"].as_str().map(Path::new), Some(home), "{said:#}");
    }
    let said = lab.run(["ram", "release"]).expect_code(0).stderr;
    assert!(said.contains(run), "{said}");
}

#[test]
fn a_second_home_is_refused_with_the_run_that_holds_the_ram() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, other, before) = (alone(), Lab::new(WRINGER), Lab::new(WRINGER), Snapshot::take());
    let run = hide(&lab)["run"].as_str().unwrap().to_owned();
    let home = format!("WRINGER_HOME={}", lab.home().display());
    other.run(["ram", "hide", "64M", "--yes"]).expect_code(3).expect_said(&["held by run", &run, &home]);
    assert_eq!(status(&other)["runs"].as_array().unwrap().len(), 0);
    assert_told_of(&other, &run, lab.home());
    assert_eq!(meminfo("HugePages_Rsvd"), HIDE_PAGES, "the first is untouched");
    lab.run(["ram", "release"]).expect_code(0);
    other.run(["ram", "hide", "64M", "--yes"]).expect_code(0);
    other.run(["ram", "release"]).expect_code(0);
    expect_as_before(&before);
}

#[test]
fn it_ends_by_itself_when_its_time_is_over() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    lab.run(["ram", "hide", HIDE, "--yes", "--for", "1s"]).expect_code(0);
    expect_as_before_by_itself(&before);
    assert_eq!(status(&lab)["runs"].as_array().unwrap().len(), 0);
}

#[test]
fn nothing_is_hidden_from_a_host_that_is_small_already() {
    let lab = Lab::new(WRINGER);
    let ran = lab.run(["ram", "leave", "512T", "-o", "json"]).expect_code(0);
    assert_eq!(json(&ran)["hidden_bytes"], 0);
    lab.run(["ram", "leave", "512T"]).expect_code(0);
    assert_eq!(status(&lab)["runs"].as_array().unwrap().len(), 0);
}

#[test]
fn a_dry_run_shows_each_change_with_its_undo_and_changes_nothing() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let ran = lab.run(["ram", "hide", HIDE, "--dry-run"]).expect_code(0);
    assert!(
        ran.stdout.contains("nr_overcommit_hugepages: 0 -> 256") && ran.stdout.matches("undo:").count() == 2,
        "{}",
        ran.stdout
    );
    let value = json(&lab.run(["ram", "hide", HIDE, "--dry-run", "-o", "json"]).expect_code(0));
    assert_eq!(value["changes"].as_array().unwrap().len(), 2);
    expect_as_before(&before);
    assert_eq!(status(&lab)["runs"].as_array().unwrap().len(), 0);
}

#[test]
fn refusals_say_what_to_do() {
    let ordinary = Lab::as_ordinary_user(WRINGER);
    let holder = ["ram", "hide", HIDE, "--yes", "--mechanism", "holder"];
    ordinary.run(holder).expect_code(3).expect_said(&["needs root", "sudo", "--mechanism balloon"]);
    ordinary.run(["ram", "hide", "lots"]).expect_code(2);
    ordinary.run(["ram", "hide", HIDE, "--for", "0"]).expect_code(2).expect_said(&["one second is the least"]);
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    lab.run(["ram", "hide", "512T", "--yes"]).expect_code(3).expect_said(&["below the floor", "can be hidden"]);
    lab.run(["ram", "leave", "100M", "--yes"]).expect_code(3).expect_said(&["below the floor", "cgroup"]);
    let database = fake_database(&lab, lab.home());
    lab.run(["ram", "hide", HIDE]).expect_code(3).expect_said(&["did not start", "mariadbd", "--yes"]);
    drop(database);
    expect_as_before(&before);
}

#[test]
fn a_dead_supervisor_gives_it_back() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let supervisor = hide(&lab)["pid"].as_u64().unwrap();
    signal(supervisor, Signal::KILL);
    assert!(wait_until(PATIENCE, || meminfo("HugePages_Total") == 0), "the watchdog gives the RAM back");
    expect_as_before_by_itself(&before);
    lab.run(["undo"]).expect_code(0);
}

#[test]
fn a_dead_holder_ends_the_squeeze() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let supervisor = hide(&lab)["pid"].as_u64().unwrap();
    signal(process_of(&lab, "holder"), Signal::KILL);
    assert!(wait_until(PATIENCE, || !is_alive(supervisor)), "nothing is left to supervise");
    expect_as_before_by_itself(&before);
    assert_eq!(status(&lab)["runs"].as_array().unwrap().len(), 0);
}

#[test]
fn with_supervisor_and_watchdog_dead_the_ram_is_back_and_undo_does_the_rest() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let supervisor = hide(&lab)["pid"].as_u64().unwrap();
    kill_together(&[supervisor, process_of(&lab, "watchdog")]);
    assert!(wait_until(PATIENCE, || meminfo("HugePages_Total") == 0), "the holder's lifeline has ended");
    assert!(wait_until(PATIENCE, || status(&lab)["runs"][0]["condition"] == "over"), "{:#}", status(&lab));
    let dry = lab.run(["undo", "--dry-run"]).expect_code(0);
    assert!(dry.stdout.contains("undo holder"), "{}", dry.stdout);
    assert_eq!(status(&lab)["runs"].as_array().unwrap().len(), 1, "a dry run changes nothing");

    let undone = json(&lab.run(["undo", "-o", "json"]).expect_code(0));
    assert_eq!(undone["ended"].as_array().unwrap().len(), 1);
    expect_as_before(&before);
    let again = lab.run(["undo"]).expect_code(0);
    assert!(again.stdout.contains("nothing to undo"), "{}", again.stdout);
}

/// Without root: a process of one's own, which is gone with everything else.
#[test]
fn a_balloon_needs_no_root_and_is_killed_first() {
    let _alone = alone();
    let lab = Lab::as_ordinary_user(WRINGER);
    let said = json(&lab.run(["ram", "hide", HIDE, "--yes", "-o", "json"]).expect_code(0));
    assert_eq!((said["mechanism"].as_str(), &said["hidden_bytes"]), (Some("balloon process"), &(512 * MIB).into()));
    assert!(is_exact(&said), "{said:#}");
    let balloon = process_of(&lab, "holder");
    assert_eq!(status(&lab)["hidden_bytes"], 512 * MIB);
    let own = |file: &str| std::fs::read_to_string(format!("/proc/{balloon}/{file}")).unwrap();
    assert_eq!(own("oom_score_adj").trim(), "1000", "the kernel takes the balloon before a database");
    let of_process = own("status");
    let resident = of_process.lines().find(|line| line.starts_with("RssShmem")).unwrap();
    assert!(resident.contains("524288 kB"), "{resident}");
    lab.run(["ram", "release"]).expect_code(0);
    assert!(!is_alive(balloon));
    assert_eq!(status(&lab)["runs"].as_array().unwrap().len(), 0);
}

/// A container's own limit is what a balloon leaves of: 512 MiB in a cgroup, and nothing is taken from the host beyond it.
#[test]
fn a_balloon_in_a_container_leaves_of_its_limit() {
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    let Some(group) = cgroup(512 * MIB) else { testkit::skip!("no right to make a cgroup") };
    let inside = |args: &[&str]| {
        let enter = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", group.display());
        let mut command = lab.command(args);
        let (program, home) = (command.get_program().to_owned(), lab.home().to_owned());
        let args: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        command = std::process::Command::new("sh");
        command.args(["-c", &enter, "sh"]).arg(program).args(args).env("WRINGER_HOME", home);
        testkit::Ran::of(&mut command)
    };
    let leave = ["ram", "leave", "128M", "--mechanism", "balloon", "--yes", "-o", "json"];
    let said = json(&inside(&leave).expect_code(0));
    let hidden = said["hidden_bytes"].as_u64().unwrap();
    assert!((300 * MIB..384 * MIB).contains(&hidden), "{hidden} of a limit of 512 MiB");
    inside(&["ram", "leave", "32M", "--mechanism", "balloon", "--yes"]).expect_code(3);
    lab.run(["ram", "release"]).expect_code(0);
    let refused = inside(&["ram", "leave", "32M", "--mechanism", "balloon", "--yes"]);
    refused.expect_code(3).expect_said(&["below the floor of 64 MiB"]);
    assert!(wait_until(PATIENCE, || std::fs::remove_dir(&group).is_ok()), "the cgroup stays busy");
}

/// Article 1's way: held by nobody, so that a page which somebody uses at the release is theirs until they let go.
#[test]
fn a_pool_is_given_back_also_while_its_pages_are_used() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let hide = ["ram", "hide", "64M", "--mechanism", "pool", "--yes", "-o", "json"];
    let ran = lab.run(hide).expect_code(0).expect_said(&["free for anyone"]);
    let said = json(&ran);
    assert_eq!((said["mechanism"].as_str(), &said["hidden_bytes"]), (Some("huge-page pool"), &(64 * MIB).into()));
    let given: u64 = said["nodes"].as_array().unwrap().iter().map(|node| node["pages"].as_u64().unwrap()).sum();
    assert_eq!((given, meminfo("HugePages_Free"), &said["traits"]["safe_from_others"]), (32, 32, &false.into()));
    let used = huge_pages(2, true);
    let shown = lab.run(["ram", "status"]).expect_code(0).stdout;
    assert!(shown.contains("pool: 32 huge pages, 2 of them in use"), "{shown}");
    lab.run(["ram", "release"]).expect_code(0).expect_said(&["still used by other programs: 2 huge pages;"]);
    assert_eq!((meminfo("HugePages_Total"), meminfo("HugePages_Surp")), (2, 2));
    drop(used);
    expect_as_before(&before);
}

/// Somebody's pages beyond the pool, in use: neither mechanism counts them as its own, and they are beyond the pool afterwards.
#[test]
fn what_others_hold_beyond_the_pool_is_not_hidden_and_not_in_the_way() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    std::fs::write(POOL, "20").unwrap();
    let used = huge_pages(20, true);
    std::fs::write(POOL, "0").unwrap();
    let pages = || ["Total", "Free", "Rsvd", "Surp"].map(|count| meminfo(&format!("HugePages_{count}")));
    assert_eq!(pages(), [20, 0, 0, 20]);
    let told =
        ["nr_overcommit_hugepages: 0 -> 40 (others hold 20 surplus", "nr_hugepages: 0 -> 40 (40 MiB beside the 20"];
    for ((mechanism, hidden), told) in [("holder", [40, 20, 20, 40]), ("pool", [40, 20, 0, 0])].into_iter().zip(told) {
        let hide = ["ram", "hide", "40M", "--mechanism", mechanism];
        let shown = lab.run(hide.iter().chain(&["--dry-run"])).expect_code(0).stdout;
        assert!(shown.contains(told), "'{told}' is not in: {shown}");
        let said = json(&lab.run(hide.iter().chain(&["--yes", "--strict", "-o", "json"])).expect_code(0));
        assert_eq!((&said["hidden_bytes"], pages()), (&(40 * MIB).into(), hidden), "{mechanism}");
        assert!(is_exact(&said), "{said:#}");
        assert_eq!(status(&lab)["hidden_bytes"], 40 * MIB, "{mechanism}");
        lab.run(["ram", "release"]).expect_code(0);
        assert!(wait_until(PATIENCE, || pages() == [20, 0, 0, 20]), "{mechanism}: {:?}", pages());
        assert_eq!(std::fs::read_to_string(POOL).unwrap().trim(), "0", "{mechanism}");
    }
    drop(used);
    expect_as_before(&before);
}

#[test]
fn what_others_have_reserved_is_not_hidden() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, other, before) = (alone(), Lab::new(WRINGER), Lab::new(WRINGER), Snapshot::take());
    std::fs::write(POOL, "8").unwrap();
    let theirs = huge_pages(8, false);
    lab.run(["ram", "hide", "40M", "--yes"]).expect_code(0);
    let (reserved, own, others) = (meminfo("HugePages_Rsvd"), status(&lab), status(&other));
    lab.run(["ram", "release"]).expect_code(0);
    drop(theirs);
    std::fs::write(POOL, "0").unwrap();
    expect_as_before(&before);
    assert_eq!((reserved, &own["hidden_bytes"]), (28, &(40 * MIB).into()), "{own:#}");
    assert_eq!(others["hidden_by_others"][0]["hidden_bytes"], 40 * MIB, "{others:#}");
}

/// No process holds a pool: with everything dead it stays hidden, and must be seen until somebody gives it back.
#[test]
fn a_pool_whose_supervisor_and_watchdog_are_dead_is_shown_and_given_back() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    for give_back in [&["undo"][..], &["ram", "release"]] {
        let hide = ["ram", "hide", "64M", "--mechanism", "pool", "--yes", "-o", "json"];
        let supervisor = json(&lab.run(hide).expect_code(0))["pid"].as_u64().unwrap();
        assert_eq!(status(&lab)["hidden_bytes"], 64 * MIB);
        kill_together(&[supervisor, process_of(&lab, "watchdog")]);
        assert!(wait_until(PATIENCE, || status(&lab)["runs"][0]["condition"] == "hot"), "{:#}", status(&lab));
        assert_eq!((meminfo("HugePages_Total"), &status(&lab)["hidden_bytes"]), (32, &(64 * MIB).into()));
        let shown = lab.run(["ram", "status"]).expect_code(0).expect_said(&["wringer undo"]).stdout;
        assert!(shown.contains("hot") && shown.contains("hidden 64 MiB"), "{shown}");
        assert_eq!(json(&lab.run(["ram", "status", "-o", "json"]).expect_code(0))["hidden_bytes"], 64 * MIB);
        lab.run(give_back).expect_code(0);
        expect_as_before(&before);
        let shown = lab.run(["ram", "status"]).expect_code(0).stdout;
        assert!(shown.contains("no RAM is hidden"), "{shown}");
        assert_eq!((&status(&lab)["hidden_bytes"], status(&lab)["runs"].as_array().unwrap().len()), (&0.into(), 0));
    }
}

/// Somebody else wants 40 pages meanwhile: they stay, and the release does not say that all is back.
#[test]
fn a_pool_that_somebody_else_changed_is_told() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    lab.run(["ram", "hide", "64M", "--mechanism", "pool", "--yes"]).expect_code(0);
    std::fs::write(POOL, "40").unwrap();
    let released = lab.run(["ram", "release"]);
    assert_eq!(std::fs::read_to_string(POOL).unwrap().trim(), "40");
    std::fs::write(POOL, "0").unwrap();
    let released = released
        .expect_code(5)
        .expect_said(&["now '40', set by somebody else", "echo '0' > '/proc/sys/vm/nr_hugepages'"]);
    assert!(released.stdout.contains("not everything is back"), "{}", released.stdout);
    expect_as_before(&before);
}

/// Somebody's pages, reserved; gone with the value. Touched pages are in use.
fn huge_pages(pages: usize, are_touched: bool) -> impl Drop {
    struct Mapped(*mut std::ffi::c_void, usize);
    impl Drop for Mapped {
        fn drop(&mut self) {
            // SAFETY: the mapping is this value's own, and nothing refers to it any more.
            unsafe { rustix::mm::munmap(self.0, self.1) }.unwrap();
        }
    }
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    let (length, flags) = (pages * (2 << 20), MapFlags::PRIVATE | MapFlags::HUGETLB);
    // SAFETY: a new mapping at an address of the kernel's choice, written within its length.
    unsafe {
        let address = mmap_anonymous(std::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, flags).unwrap();
        (0..pages)
            .filter(|_| are_touched)
            .for_each(|page| address.cast::<u8>().add(page * (2 << 20)).write_volatile(1));
        Mapped(address, length)
    }
}

/// The one that a server which sizes itself from `MemTotal` notices.
#[test]
fn blocks_offline_shrink_the_total_and_come_back_where_they_were() {
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    if let Some(why) = why_not_offline(&lab) {
        testkit::skip!("{why}");
    }
    let zones = || {
        let names = std::fs::read_dir("/sys/devices/system/memory").unwrap().flatten();
        let mut zones: Vec<_> = names
            .filter_map(|entry| {
                Some((entry.file_name(), std::fs::read_to_string(entry.path().join("valid_zones")).ok()?))
            })
            .collect();
        zones.sort();
        zones
    };
    let zones_before = zones();
    let total = meminfo("MemTotal");
    let dry = lab.run(["ram", "hide", "256M", "--mechanism", "offline", "--dry-run"]).expect_code(0).stdout;
    assert!(dry.contains("2 memory blocks of 128 MiB") && dry.contains("online_kernel"), "{dry}");
    let hide = ["ram", "hide", "256M", "--mechanism", "offline", "--yes", "-o", "json"];
    let said = json(&lab.run(hide).expect_code(0));
    assert_eq!((said["mechanism"].as_str(), offline_blocks()), (Some("memory blocks offline"), 2));
    assert_eq!((total - meminfo("MemTotal")) * 1024, 256 * MIB, "{said:#}");
    assert_eq!(
        (&said["traits"]["mem_total_shrinks"], &status(&lab)["hidden_bytes"]),
        (&true.into(), &(256 * MIB).into())
    );
    lab.run(["ram", "release"]).expect_code(0);
    assert!(zones() == zones_before, "a block is in another zone than before");
    expect_as_before(&before);
    let less = ["ram", "hide", "64M", "--mechanism", "offline"];
    lab.run(less).expect_code(3).expect_said(&["less than one piece of 128 MiB"]);
}

#[test]
fn what_cannot_be_had_in_time_is_given_back() {
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let hide = ["ram", "hide", HIDE, "--mechanism", "balloon", "--deadline", "0", "--yes"];
    lab.run(hide).expect_code(4).expect_said(&["could be hidden", "deadline"]);
    expect_as_before(&before);
    assert_eq!(status(&lab)["runs"].as_array().unwrap().len(), 0);
}

#[test]
fn lasting_lines_are_printed_and_nothing_is_done() {
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let lines = lab.run(["ram", "hide", "2G", "--mechanism", "balloon", "--persist"]).expect_code(0).stdout;
    for word in ["vm.nr_hugepages = 1024", "hugepagesz=1G hugepages=2", "mem=", "undo:", "nothing was changed"] {
        assert!(lines.contains(word), "'{word}' is not in\n{lines}");
    }
    expect_as_before(&before);
    assert_eq!(status(&lab)["runs"].as_array().unwrap().len(), 0);
}

/// The witness that article 1 uses: a file that fits what is left is read from RAM the second time.
#[test]
fn a_verification_reads_the_file_twice() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let file = lab.write("file", &"x".repeat(8 << 20));
    let file = file.to_str().unwrap();
    let said = json(&lab.run(["ram", "hide", HIDE, "--yes", "--verify", file, "-o", "json"]).expect_code(0));
    assert_eq!(said["verify"]["rounds"].as_array().unwrap().len(), 2, "{said:#}");
    assert!(said["verify"]["verdict"] != "does_not_fit", "8 MiB fit whatever is left: {said:#}");
    lab.run(["ram", "release"]).expect_code(0);
    lab.run(["ram", "hide", HIDE, "--verify", "/nonexistent"]).expect_code(3);
    expect_as_before(&before);
}
