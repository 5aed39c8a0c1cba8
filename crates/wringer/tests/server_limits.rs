// SPDX-License-Identifier: Apache-2.0
//! An experiment whose arms give a real server fewer CPUs, other CPUs, less RAM and no swap: asked, got, and a host that is as before.
//!
//! A quota is only ever asserted as a most: a busy machine cannot reach it from that side.
#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used)]

mod standing;

use serde_json::Value;
use standing::{PATIENCE, is_alive, json, kill_together, process_of, signal, status};
use std::time::Duration;
use testkit::{Lab, Snapshot, alone, is_root, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// Four connections at full speed keep a server busy; without a limit the second arm would use all that there is.
const ARMS: &str = r#"
[[arm]]
name = "all"
load.threads = 4
[[arm]]
name = "half a CPU"
squeeze.cpus = 0.5
load.threads = 4
[[arm]]
name = "one CPU, small"
squeeze.cpuset = "0"
squeeze.server_ram = "256M"
squeeze.swap = "off"
load.threads = 4
load.cpuset = "1"
"#;

fn may_make_cgroups() -> bool {
    is_root() && ["cpu", "cpuset", "memory"].iter().all(|name| squeeze::cgroup::writable(name).is_ok())
}

fn result(lab: &Lab) -> Value {
    serde_json::from_str(&std::fs::read_to_string(lab.home().join("out/result.json")).unwrap()).unwrap()
}

fn measured<'a>(result: &'a Value, arm: &str, what: &str) -> Option<&'a Value> {
    result["measured"].as_array().unwrap().iter().find(|it| it["arm"] == arm && it["what"] == what)
}

#[test]
fn mariadb_gets_the_cpus_ram_and_swap_that_its_arm_says() {
    if !may_make_cgroups() {
        testkit::skip!("needs root, and cgroups of CPU time, CPUs and memory");
    }
    let two = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() >= 2);
    if !two {
        testkit::skip!("needs two CPUs, to keep server and load apart");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let file = lab.write("limits.toml", &(testkit::small_experiment("2s", "") + ARMS));
    let file = file.to_str().unwrap();
    let plan = lab.run(["plan", file]).expect_code(0).stdout;
    for words in ["the time of 0.5 CPUs", "no quota in this arm", "for the server, CPU 0", "on CPU 1,"] {
        assert!(plan.contains(words), "{words}: {plan}");
    }
    lab.run(["run", file, "--to", "out"]).expect_code(0);
    before.expect_unchanged();

    let result = result(&lab);
    let value = |arm: &str, what: &str, key: &str| {
        let found = measured(&result, arm, what).unwrap_or_else(|| panic!("{arm}: {what}: {:#}", result["measured"]));
        found[key]["value"].as_f64().unwrap_or_else(|| panic!("{what}: no {key}: {found:#}"))
    };
    let limited = "half a CPU";
    assert_eq!(value(limited, "server.cpus.limit", "got"), 0.5);
    let used = value(limited, "server.cpus.used", "got");
    assert!(used <= 0.6, "{:#}", result["measured"]);
    // who came to use its quota up was stopped for it; beside others that are busy it may not come to that
    let [periods, time] = ["periods", "time"].map(|of| value(limited, &format!("server.cpus.throttled.{of}"), "got"));
    assert!(used < 0.45 || periods >= 5.0 && time > 0.0, "{:#}", result["measured"]);
    assert!(value("all", "server.cpus.used", "got") > 0.0, "counted without a quota, too");
    assert!(measured(&result, "all", "server.cpus.throttled.periods").is_none());
    let mechanism = measured(&result, "all", "server.cpus.used").unwrap()["mechanism"].as_str().unwrap();
    assert!(mechanism.starts_with("cpu cgroup v"), "every arm is in a cgroup of CPU time: {mechanism}");
    assert_eq!(result["conditions"]["mechanisms"]["server_cpus"], mechanism);

    let small = "one CPU, small";
    assert_eq!((value(small, "server.cpuset", "got"), value(small, "load.cpuset", "got")), (1.0, 1.0));
    assert_eq!(value(small, "server.ram.limit", "got"), 256.0 * 1024.0 * 1024.0);
    assert_eq!(value(small, "server.swap", "got"), 0.0);
    let outside = |it: &&Value| it["within_tolerance"] == false;
    let outside: Vec<_> = result["measured"].as_array().unwrap().iter().filter(outside).collect();
    assert!(outside.is_empty(), "{outside:#?}");
}

/// A file that is larger than the RAM that the small arm has; and assertions on what the run records, one of which fails.
const READ: &str = r#"
schema = 1
name = "read"
[server]
flavour = "mariadb"
[server.options]
innodb_buffer_pool_size = "16M"
[fill]
size = "256M"
rows_per_page = 4
[load]
workload = "oltp_point_select"
time = "2s"
probe = 64
idle = "1s"
slow_statements = "10s"
[observe]
memory = "500ms"
[[arm]]
name = "free"
assert = ["load.rss>16M", "errors=0", "idle.rss.end<16M", "memory.explained>0", "probe.scan.warm.cached>=0.9"]
[[arm]]
name = "small"
squeeze.server_ram = "192M"
assert = ["probe.scan.warm.cached<0.9", "stalls.count=0"]
"#;

#[test]
fn reads_before_the_load_have_the_servers_ram_and_what_is_recorded_is_asserted() {
    if !may_make_cgroups() {
        testkit::skip!("needs root, and cgroups of CPU time, CPUs and memory");
    }
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    let file = lab.write("read.toml", READ);
    let file = file.to_str().unwrap();
    lab.run(["run", file, "--to", "out"])
        .expect_code(1)
        .expect_said(&["1 of 7 assertions failed: idle.rss.end<16M in arm 'free': measured "]);
    let result = result(&lab);
    let free = result["arms"][0]["assertions"].as_array().unwrap();
    let told: Vec<(&str, bool)> =
        free.iter().map(|it| (it["assertion"].as_str().unwrap(), it["passed"].as_bool().unwrap())).collect();
    let expected = [
        ("load.rss>16M", true),
        ("errors=0", true),
        ("idle.rss.end<16M", false),
        ("memory.explained>0", true),
        ("probe.scan.warm.cached>=0.9", true),
    ];
    assert_eq!(told, expected, "in the order of the file");
    assert_eq!(free[0]["asked_bytes"], 16.0 * 1024.0 * 1024.0);
    let mechanism = |arm: &str| measured(&result, arm, "probe.scan.warm").unwrap()["mechanism"].as_str().unwrap();
    assert!(mechanism("small").ends_with("within the server's RAM") && !mechanism("free").contains("server"));
    let open = measured(&result, "free", "load.rss").unwrap()["mechanism"].as_str().unwrap();
    assert!(open.contains("its connections are open"), "{open}");
    // before anything is made
    let wrong = READ.replace("\"stalls.count=0\"", "\"stalls.cuont=0\", \"server.pss>1\"");
    let file = lab.write("wrong.toml", &wrong);
    lab.run(["run", file.to_str().unwrap()]).expect_code(2).expect_said(&["there are stalls.count, stalls.victims"]);
    let file = lab.write("wrong.toml", &wrong.replace("cuont", "count"));
    for command in ["plan", "run"] {
        lab.run([command, file.to_str().unwrap()])
            .expect_code(2)
            .expect_said(&["\"server.pss>1\" cannot be asserted", "server.huge_pages"]);
    }
}

/// A statement that wants far more RAM than its server has: the kernel kills the backend, and PostgreSQL goes on with new ones.
const GREEDY: &str = r#"
schema = 1
name = "greedy"
[server]
flavour = "postgresql"
[server.options]
shared_buffers = "32MB"
work_mem = "2GB"
max_parallel_workers_per_gather = 0
[fill]
size = "16M"
[load]
workload = "oltp_point_select"
threads = 2
time = "4s"
[squeeze]
server_ram = "160M"
swap = "off"
disk = { sync = "400ms" }
[[arm]]
name = "greedy"
load.at = [{ time = "1s", sql = "SELECT count(*) FROM (SELECT DISTINCT repeat('x', 1000) || g FROM generate_series(1, 2000000) g) t" }]
[[arm]]
name = "modest"
"#;

#[test]
fn a_backend_that_is_killed_for_want_of_ram_is_no_measurement_and_a_stop_is_not_delayed() {
    if !may_make_cgroups() {
        testkit::skip!("needs root, and cgroups of memory");
    }
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    let file = lab.write("greedy.toml", GREEDY);
    lab.run(["run", file.to_str().unwrap(), "--to", "out"])
        .expect_code(4)
        .expect_said(&["killed the server for want of RAM"]);
    let result = result(&lab);
    let outcome = |index: usize| result["arms"][index]["outcome"].as_str().unwrap().to_owned();
    assert_eq!([outcome(0), outcome(1)], ["out_of_memory", "measured"], "{:#}", result["events"]);
    // PostgreSQL's last checkpoint syncs some twenty files
    let texts = result["events"].as_array().unwrap().iter().filter_map(|event| event["text"].as_str());
    let stops: Vec<f64> = texts
        .filter_map(|text| text.strip_prefix("the server stopped cleanly in ")?.strip_suffix(" s")?.parse().ok())
        .collect();
    println!("the stops took {stops:?} s");
    assert!(stops.len() >= 2 && stops.iter().all(|seconds| *seconds < 3.0), "{stops:?}");
}

/// The host's RAM by a mechanism that the file names, which is not the one that this machine would take by itself.
#[test]
fn an_experiment_names_what_hides_the_hosts_ram() {
    let pool = std::path::Path::new("/proc/sys/vm/nr_hugepages");
    if !is_root() || rustix::fs::access(pool, rustix::fs::Access::WRITE_OK).is_err() {
        testkit::skip!("needs root, and a pool of huge pages");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let text = testkit::small_experiment("1s", "ram = { hide = \"64M\", mechanism = \"pool\" }");
    let file = lab.write("pool.toml", &text);
    let file = file.to_str().unwrap();
    let plan = lab.run(["plan", file]).expect_code(0).stdout;
    assert!(plan.contains("vm.nr_hugepages raised by 64 MiB"), "{plan}");
    lab.run(["run", file, "--to", "out", "--yes"]).expect_code(0);
    before.expect_unchanged();
    let result = result(&lab);
    assert_eq!(result["conditions"]["mechanisms"]["ram"], "huge-page pool");
    let traits = &result["conditions"]["traits"]["ram"];
    assert_eq!((&traits["safe_from_others"], &traits["back_by_itself"]), (&false.into(), &false.into()), "{traits}");
    let hidden = result["measured"].as_array().unwrap().iter().find(|it| it["what"] == "ram.hidden").unwrap();
    assert_eq!((&hidden["mechanism"], &hidden["within_tolerance"]), (&"huge-page pool".into(), &true.into()));
}

/// Statements of the load, as the server has counted them last.
fn executed(lab: &Lab) -> f64 {
    let is_it = |series: &evidence::Series| series.source == "server.status" && series.name == "Com_stmt_execute";
    let seen = recording::Recording::read_for(&lab.home().join("out/recording.sqlite"), is_it);
    let samples = seen.map(|seen| seen.samples).unwrap_or_default();
    samples.iter().find_map(|series| series.points.last()).map_or(0.0, |point| point.value)
}

/// At once, not when the load is over; and the recording says that it was cut short, and by what.
#[test]
fn a_holder_or_balloon_that_dies_ends_the_run() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, before) = (alone(), Snapshot::take());
    let lab = Lab::new(WRINGER);
    let text = testkit::small_experiment("10m", "ram = { hide = \"64M\", mechanism = \"balloon\" }");
    let file = lab.write("balloon.toml", &text);
    let mut run = lab.start("run", ["run", file.to_str().unwrap(), "--to", "out", "--yes"]);
    let minutes = Duration::from_secs(120);
    assert!(wait_until(minutes, || lab.said("run").contains(": measuring")), "{}", lab.said("run"));
    // until something has been measured
    let so_far = executed(&lab);
    assert!(wait_until(minutes, || executed(&lab) > so_far + 100.0), "{}", lab.said("run"));
    signal(process_of(&lab, "holder"), rustix::process::Signal::KILL);
    assert_eq!(run.wait().unwrap().code(), Some(4), "{}", lab.said("run"));
    assert!(lab.said("run").contains("its RAM is back"), "{}", lab.said("run"));
    before.expect_unchanged();
    let result = result(&lab);
    let events = result["events"].to_string();
    assert!(events.contains("ending early: the process that kept RAM hidden has ended by itself"), "{events}");
    // what was measured until then is kept, with the reason
    let arm = &result["arms"][0];
    assert!(
        arm["broke_off"].as_str().unwrap().contains("the process that kept RAM hidden has ended"),
        "{}",
        arm["broke_off"]
    );
    assert!(arm["load"]["measured"]["transactions"].as_u64().unwrap() > 0);
    assert!(arm["load"]["measured"]["transaction"]["service"]["p99_us"].is_number());
}

/// Undone by `sandbox stop`, and by `wringer undo`; and a server that was killed leaves nothing that the next start would trip over.
#[test]
fn a_standing_server_has_less_until_it_stops() {
    if !may_make_cgroups() {
        testkit::skip!("needs root, and cgroups of CPU time, CPUs and memory");
    }
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    lab.run(["sandbox", "deploy", "mariadb", "--name", "small", "-c", "innodb_buffer_pool_size=16M"]).expect_code(0);
    let before = Snapshot::take();
    let limits = ["--ram", "256M", "--cpus", "0.5", "--cpuset", "0"];
    let start = || {
        let arguments = ["sandbox", "start", "small"].into_iter().chain(limits);
        let said = ["256 MiB, page cache included", "the time of 0.5 CPUs", "CPU 0 ("];
        lab.run(arguments).expect_code(0).expect_said(&said);
        json(&lab.run(["sandbox", "status", "small", "-o", "json"]))["sandboxes"][0]["pid"].as_u64().unwrap()
    };
    let server = start();
    let of_server = |file: &str| std::fs::read_to_string(format!("/proc/{server}/{file}")).unwrap();
    assert!(of_server("status").contains("Cpus_allowed_list:\t0\n"));
    assert!(of_server("cgroup").contains("-server"), "{}", of_server("cgroup"));
    for (refused, words) in [(["--cpus", "8000"], "is the most"), (["--ram", "512T"], "limits nothing")] {
        lab.run(["sandbox", "restart", "small"].into_iter().chain(refused)).expect_code(3).expect_said(&[words]);
        assert!(is_alive(server), "a restart that is refused has stopped the server");
    }
    let hide = ["ram", "hide", "16M", "--mechanism", "pool", "--yes", "-o", "json"];
    let supervisor = json(&lab.run(hide).expect_code(0))["pid"].as_u64().unwrap();
    let seen = status(&lab);
    let steps = seen["runs"].as_array().unwrap().last().unwrap()["steps"].as_array().unwrap();
    let watchdog = steps.iter().find(|step| step["change"].as_str().unwrap().starts_with("watchdog")).unwrap();
    kill_together(&[supervisor, watchdog["processes"][0].as_u64().unwrap()]);
    lab.run(["sandbox", "restart", "small"]).expect_code(3).expect_said(&["wringer undo"]);
    assert!(is_alive(server), "a run that was not undone has stopped the server");
    lab.run(["ram", "release"]).expect_code(0);
    let broken = lab.run(["sandbox", "restart", "small", "-c", "no_such_option=1"]).expect_code(4);
    broken.expect_said(&["the server is stopped; `wringer sandbox start small` starts it as it was deployed"]);
    assert!(!is_alive(server));
    // with swap, a server that may have 8 MiB of RAM starts slowly, and is not killed
    let has_swap = std::fs::read_to_string("/proc/swaps").unwrap().lines().count() > 1;
    for more in [&[][..], &["--for", "10m"]].iter().filter(|_| !has_swap) {
        let killed = lab.run([&["sandbox", "start", "small", "--ram", "8M"], *more].concat()).expect_code(4);
        killed.expect_said(&["the kernel killed the server of sandbox 'small'", "--ram 8 MiB, was used up", "with -c"]);
    }
    start();
    lab.run(["sandbox", "stop", "small"]).expect_code(0);
    before.expect_unchanged();

    let server = start();
    signal(server, rustix::process::Signal::KILL);
    assert!(wait_until(PATIENCE, || !is_alive(server)));
    start();
    lab.run(["undo"]).expect_code(0);
    before.expect_unchanged();

    let timed = ["sandbox", "start", "small", "--for", "10m"].into_iter().chain(limits);
    lab.run(timed).expect_code(0).expect_said(&["the time of 0.5 CPUs"]);
    lab.run(["sandbox", "stop", "small"]).expect_code(0);
    before.expect_unchanged();
    let refused = lab.run(["sandbox", "start", "small", "--cpus", "8000"]).expect_code(3);
    refused.expect_said(&["--cpus 8000", "is the most"]);
}

/// What cannot be had is refused before a server is fetched or made, in the words of the file.
#[test]
fn what_this_machine_or_user_cannot_have_is_refused_at_once() {
    let _alone = alone();
    let lab = Lab::new(WRINGER);
    let refused = |lab: &Lab, squeeze: &str, words: &[&str]| {
        let file = lab.write("refused.toml", &testkit::small_experiment("1s", squeeze));
        for command in ["plan", "run"] {
            lab.run([command, file.to_str().unwrap()]).expect_code(3).expect_said(words);
        }
        assert!(!lab.home().join("sandboxes").exists(), "something was made");
    };
    refused(&lab, "cpuset = \"8000\"", &["squeeze.cpuset 8000", "no CPU 8000"]);
    refused(&lab, "cpus = 8000", &["squeeze.cpus"]);
    let ordinary = Lab::as_ordinary_user(WRINGER);
    if !is_root() && squeeze::cgroup::writable("cpu").is_ok() {
        testkit::skip!("this ordinary user may make cgroups");
    }
    refused(
        &ordinary,
        "cpus = 0.5",
        &["refused.toml:", "squeeze.cpus needs a cpu cgroup", "squeeze.cpuset needs no right"],
    );
    refused(&ordinary, "swap = \"off\"", &["squeeze.swap needs a memory cgroup"]);
}
