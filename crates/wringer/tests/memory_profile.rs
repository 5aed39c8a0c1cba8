// SPDX-License-Identifier: Apache-2.0
//! `wringer memory profile`: real servers under Valgrind's Massif, and with other profilers.
#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used)]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;
use testkit::{Lab, Ran, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

fn lacks_valgrind() -> bool {
    host::tool::find("valgrind").is_none() || host::tool::find("vgdb").is_none()
}

fn deployed(server: &[&str]) -> Lab {
    let lab = Lab::new(WRINGER);
    lab.run(["sandbox", "deploy"].iter().chain(server).chain(&["--name", "w"])).expect_code(0);
    lab
}

fn profiled(lab: &Lab, words: &[&str]) -> Ran {
    lab.run(["memory", "profile", "w", "--to", "out"].iter().chain(words))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Processes whose program `is_it`, and whose files are below this folder.
fn running(home: &Path, is_it: impl Fn(&Path) -> bool) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|it| it.file_name().to_str()?.parse().ok());
    let is_ours = |pid: &u32| {
        let exe = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        is_it(&exe) && String::from_utf8_lossy(&line).contains(&*home.to_string_lossy())
    };
    pids.filter(is_ours).collect()
}

fn in_valgrind(home: &Path) -> Vec<u32> {
    running(home, |exe| exe.to_string_lossy().contains("valgrind"))
}

fn vgdb(home: &Path) -> Vec<u32> {
    running(home, |exe| exe.ends_with("vgdb"))
}

fn pipes(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|it| it.path()).filter(|it| it.file_name().unwrap().to_string_lossy().starts_with("vgdb-")).collect()
}

/// Massif's command for a snapshot ends at a blank: it is told before anything is started.
#[test]
fn a_home_with_a_blank_in_its_path_is_refused() {
    if lacks_valgrind() {
        testkit::skip!("needs valgrind");
    }
    let lab = Lab::new(WRINGER);
    let (file, home) = (lab.write("small.toml", &testkit::small_experiment("1s", "")), lab.home().join("a b"));
    let mut command = lab.command(["memory", "profile", file.to_str().unwrap()]);
    let said = ["/a b/sandboxes/profile-", "splits this path at ' '", "WRINGER_HOME"];
    Ran::of(command.env("WRINGER_HOME", &home)).expect_code(3).expect_said(&said);
    assert!(!home.exists(), "something was made");
}

/// The function that malloc'ed for a join buffer has a name, and the sandbox may go.
#[test]
fn mariadb_has_named_functions_and_files_that_outlive_it() {
    if lacks_valgrind() {
        testkit::skip!("needs valgrind");
    }
    let lab = deployed(&["mariadb"]);
    let sql = "SELECT LENGTH(REPEAT('x', 9000000)), (SELECT BENCHMARK(1000, MD5('x')))";
    let told = json(&profiled(&lab, &["--sql", sql, "-o", "json"]).expect_code(0).stdout);
    let marks = told["marks"].as_array().unwrap();
    assert_eq!(marks.len(), 4, "start, connected, after, end: {told:#}");
    assert!(marks.iter().all(|it| it["heap_bytes"].as_u64().unwrap() > 10 << 20), "{marks:#?}");
    let slow = &told["slow_down"];
    println!("slowed down: {slow}");
    let ratio = |name: &str| slow["profiled"][name].as_f64().unwrap() / slow["native"][name].as_f64().unwrap();
    assert!((slow["times"].as_f64().unwrap() / ratio("query_us") - 1.0).abs() < 0.01, "{slow:#}");
    // on a busy machine half a second of small queries may be as slow without the profiler; a start is then slower by far with it
    assert!(ratio("query_us") > 1.0 || ratio("start_ms") > 2.0, "{slow:#}");
    let symbols = &told["symbols"];
    let (named, all) = (symbols["named"].as_f64().unwrap(), symbols["functions"].as_f64().unwrap());
    assert!(all > 10_000.0 && named / all > 0.2 && named <= all, "{symbols:#}");
    assert!(pipes(&lab.home().join("sandboxes/w/valgrind")).is_empty());
    lab.run(["sandbox", "delete", "w"]).expect_code(0);
    let profile = lab.home().join("out/heap.massif");
    let shown = json(&lab.run(["heap", "show", profile.to_str().unwrap(), "-o", "json"]).expect_code(0).stdout);
    assert_eq!(shown["snapshots"].as_array().unwrap().len(), 4);
    let functions: Vec<&str> =
        shown["functions"].as_array().unwrap().iter().filter_map(|it| it["function"].as_str()).collect();
    assert!(functions.iter().any(|it| it.contains("key_cache") || it.contains("pagecache")), "{functions:?}");
    let of_massif = told["ended"]["files"][0].as_str().unwrap();
    lab.run(["heap", "show", of_massif]).expect_code(0);
}

#[test]
fn postgresql_is_told_by_process_and_summed() {
    if lacks_valgrind() {
        testkit::skip!("needs valgrind");
    }
    // no root is needed
    let lab = Lab::as_ordinary_user(WRINGER);
    lab.run(["sandbox", "deploy", "postgresql", "--name", "w"]).expect_code(0);
    let sql = "CREATE TEMP TABLE t AS SELECT generate_series(1, 1000) AS n";
    let told = json(&profiled(&lab, &["--sql", sql, "--no-native", "-o", "json"]).expect_code(0).stdout);
    let after = &told["marks"][2];
    let processes = after["processes"].as_array().unwrap();
    let of = |role: &str| processes.iter().filter(|it| it["role"] == role).count();
    assert_eq!((of("postmaster"), of("client backend")), (1, 1), "{after:#}");
    let sum: u64 = processes.iter().map(|it| it["heap_bytes"].as_u64().unwrap()).sum();
    assert_eq!(after["heap_bytes"].as_u64().unwrap(), sum);
    assert_eq!(told["slow_down"], Value::Null);
    let backend = processes.iter().find(|it| it["role"] == "client backend").unwrap()["pid"].as_u64().unwrap();
    let path = lab.home().join(format!("out/heap.{backend}.massif"));
    let shown = json(&lab.run(["heap", "show", path.to_str().unwrap(), "-o", "json"]).expect_code(0).stdout);
    assert!(shown["total_bytes"].as_u64().unwrap() > 100_000, "{shown:#}");
    assert!(pipes(&lab.home().join("sandboxes/w/valgrind")).is_empty());
}

/// A function of ours, in a library of ours, loses 1 KiB a call: malloc takes 1040 bytes for that (glibc).
const LEAK: &str = "#include <stdlib.h>\n#include <string.h>\n\
    char lose_init(void *it, void *arguments, char *message) { return 0; }\n\
    __attribute__((noinline)) void *lose_a_kilobyte(void) { void *lost = malloc(1024); if (lost) memset(lost, 7, 1024); return lost; }\n\
    long long lose(void *it, void *arguments, char *is_null, char *error) { return lose_a_kilobyte() != 0; }\n";

/// A server that has the function, which is declared as `lose`.
fn with_the_function(lab: &Lab) {
    let (source, library) = (lab.write("lose.c", LEAK), lab.home().join("lose.so"));
    let built =
        Command::new("cc").args(["-g", "-O1", "-w", "-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    assert!(built.is_ok_and(|status| status.success()), "cc is needed to build Wringer, too");
    let folder = format!("plugin_dir={}", lab.home().display());
    lab.run(["sandbox", "deploy", "mariadb", "--name", "w", "-c", &folder, "--start"]).expect_code(0);
    lab.run(["sandbox", "use", "w", "CREATE FUNCTION lose RETURNS INTEGER SONAME 'lose.so'"]).expect_code(0);
    lab.run(["sandbox", "stop", "w"]).expect_code(0);
}

#[test]
fn a_leak_is_told_with_its_leaf_its_function_and_its_bytes() {
    if lacks_valgrind() {
        testkit::skip!("needs valgrind");
    }
    let lab = Lab::new(WRINGER);
    with_the_function(&lab);
    is_told_to_leak(&lab, "massif");
}

/// The function loses 1 KiB each time; the ledger tells it with what malloc adds.
fn is_told_to_leak(lab: &Lab, with: &str) {
    // on a busy host pages of the program come and go by some 100 KiB between two blocks: a block loses more than that
    let repetitions = if with == "massif" { "400" } else { "1000" };
    let words = ["--repeat", "SELECT lose()", "--repetitions", repetitions, "--blocks", "30", "--rest", "50ms"];
    let more = ["--with", with, "--fail-on-leak", "-o", "json"];
    let told = json(&profiled(lab, &[words.as_slice(), &more].concat()).expect_code(1).stdout);
    assert_eq!(told["with"], with);
    let leak = &told["leak"];
    assert_eq!((&leak["verdict"], &leak["leaf"]), (&"leak".into(), &"unexplained".into()), "{leak:#}");
    let bytes = |name: &str| leak[name].as_f64().unwrap();
    assert!((bytes("bytes_per_repetition") - 1040.0).abs() < 104.0, "{leak:#}");
    assert!(bytes("low") <= bytes("bytes_per_repetition") && bytes("bytes_per_repetition") <= bytes("high"));
    assert_eq!(leak["function"], "lose_a_kilobyte");
    assert!((bytes("function_bytes_per_repetition") - 1024.0).abs() < 10.0, "{leak:#}");
    assert!(leak["path"][1].as_str().unwrap().starts_with("lose (lose.c"), "{leak:#}");
}

#[test]
fn an_experiment_is_profiled_in_a_sandbox_that_goes() {
    if lacks_valgrind() {
        testkit::skip!("needs valgrind");
    }
    let lab = Lab::new(WRINGER);
    let text = "schema = 1\nname = \"small\"\n[server]\nflavour = \"postgresql\"\n\
                [server.options]\nwal_segment_size = \"2MB\"\n[fill]\ntables = 1\nsize = \"1M\"\n\
                [load]\nworkload = \"oltp_point_select\"\nthreads = 1\ntime = \"1s\"\n[[arm]]\nname = \"one\"\n[[arm]]\nname = \"two\"\n";
    let file = lab.write("small.toml", text);
    let profile =
        |words: &[&str]| lab.run(["memory", "profile", file.to_str().unwrap(), "--to", "out"].iter().chain(words));
    profile(&["--arm", "three"]).expect_code(2).expect_said(&["it has one, two"]);
    let ran = profile(&["--arm", "two", "-o", "json"]).expect_code(0);
    let told = json(&ran.stdout);
    assert_eq!(told["marks"].as_array().unwrap().len(), 2, "{told:#}");
    ran.expect_said(&["arm 'two'", "oltp_point_select:", "transactions"]);
    let names = std::fs::read_dir(lab.home().join("sandboxes")).unwrap().flatten().map(|it| it.file_name());
    assert_eq!(names.filter(|name| name != ".lock").collect::<Vec<_>>(), Vec::<std::ffi::OsString>::new());
}

/// What it has taken until then is there, and nothing of Valgrind is left.
#[test]
fn a_killed_server_leaves_a_profile_and_nothing_else() {
    if lacks_valgrind() {
        testkit::skip!("needs valgrind");
    }
    let lab = deployed(&["mariadb"]);
    let mut command = begun(&lab, &["--no-native", "--every", "1s"]);
    let server = *in_valgrind(lab.home()).first().expect("it runs");
    assert!(kill("KILL", server));
    let status = command.wait().unwrap();
    assert_eq!(status.code(), Some(4), "{}", lab.said("profile"));
    assert!(lab.said("profile").contains("what was taken until then"), "{}", lab.said("profile"));
    lab.run(["heap", "show", "out/heap.massif"]).expect_code(0);
    assert_left(&lab);
}

/// The controller is killed at several moments: the watchdog ends the server, and its launcher removes what Valgrind left.
#[test]
fn a_killed_command_leaves_no_valgrind() {
    if lacks_valgrind() {
        testkit::skip!("needs valgrind");
    }
    let lab = deployed(&["mariadb"]);
    // while it starts
    let mut command = lab.start("profile", ["memory", "profile", "w", "--to", "out", "--no-native"]);
    assert!(wait_until(Duration::from_secs(120), || !in_valgrind(lab.home()).is_empty()), "{}", lab.said("profile"));
    command.kill().unwrap();
    command.wait().unwrap();
    assert_left(&lab);
    // after a snapshot, while the next one is taken: a vgdb that is stopped is one that waits for its server
    std::fs::remove_dir_all(lab.home().join("out")).unwrap();
    let mut command = begun(&lab, &["--no-native", "--every", "1s"]);
    let is_asked = || vgdb(lab.home()).first().is_some_and(|pid| kill("STOP", *pid));
    assert!(wait_until(Duration::from_secs(60), is_asked), "no vgdb: {}", lab.said("profile"));
    command.kill().unwrap();
    command.wait().unwrap();
    assert_left(&lab);
    lab.run(["heap", "show", "out/heap.massif"]).expect_code(0);
    if host::tool::find("strace").is_some() {
        is_killed_while_it_copies(&lab);
    }
    lab.run(["sandbox", "start", "w"]).expect_code(0);
    lab.run(["sandbox", "delete", "w", "--force"]).expect_code(0);
}

/// When the first file that Massif has written is about to get its name in the folder: the snapshots are there, and the sandbox keeps Massif's file.
fn is_killed_while_it_copies(lab: &Lab) {
    let out = lab.home().join("out");
    std::fs::remove_dir_all(&out).unwrap();
    let like = lab.command(["memory", "profile", "w", "--to", "out", "--no-native", "--sql", "SELECT 1"]);
    let mut traced = Command::new("strace");
    // the run's lock and the snapshots have got their names by then
    traced.args(["-o", "/dev/null", "-e", "trace=rename", "-e", "inject=rename:signal=SIGKILL:when=3"]);
    traced.arg(like.get_program()).args(like.get_args()).current_dir(lab.home());
    traced.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    assert_eq!(traced.status().unwrap().code(), None, "it was killed");
    assert_left(lab);
    let names: Vec<String> =
        std::fs::read_dir(&out).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.iter().any(|name| name.starts_with(".massif.")) && names.len() == 2, "{names:?}");
    lab.run(["heap", "show", "out/heap.massif"]).expect_code(0);
}

/// Until its first snapshot is on the disk.
fn begun(lab: &Lab, words: &[&str]) -> Child {
    let words = ["memory", "profile", "w", "--to", "out"].iter().chain(words);
    let command = lab.start("profile", words);
    let profile = lab.home().join("out/heap.massif");
    assert!(wait_until(Duration::from_secs(180), || profile.is_file()), "{}", lab.said("profile"));
    command
}

/// Whether the process was there.
fn kill(signal: &str, pid: u32) -> bool {
    Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status().unwrap().success()
}

/// Neither a process of Valgrind, nor vgdb, nor a pipe of it.
fn assert_left(lab: &Lab) {
    assert!(wait_until(Duration::from_secs(60), || vgdb(lab.home()).is_empty()), "vgdb {:?}", vgdb(lab.home()));
    let is_over = || in_valgrind(lab.home()).is_empty();
    assert!(wait_until(Duration::from_secs(180), is_over), "{:?}", in_valgrind(lab.home()));
    let folder = lab.home().join("sandboxes/w/valgrind");
    assert!(wait_until(Duration::from_secs(60), || pipes(&folder).is_empty()), "{:?}", pipes(&folder));
    lab.undo_own();
}

#[test]
fn what_cannot_be_profiled_is_told_before_anything_starts() {
    if lacks_valgrind() {
        testkit::skip!("needs valgrind");
    }
    let lab = deployed(&["postgresql"]);
    lab.run(["memory", "profile", "nobody"]).expect_code(3).expect_said(&["nobody", "sandbox list"]);
    profiled(&lab, &["--every", "10ms"]).expect_code(2).expect_said(&["1s at least"]);
    profiled(&lab, &["--debug-files", "/no/such"]).expect_code(3).expect_said(&["/no/such", "dbgsym"]);
    lab.run(["memory", "profile", "w", "--to", "sandboxes"]).expect_code(3).expect_said(&["not empty"]);
    let mut command = lab.command(["memory", "profile", "w"]);
    let without = Ran::of(command.env("PATH", "/nowhere"));
    without.expect_code(3).expect_said(&["'valgrind'", "apt-get install valgrind"]);
    assert!(in_valgrind(lab.home()).is_empty());
}

/// With `--time` the statements' connection stays open until the end of the time: the marks after the statements see what its session holds.
fn is_held_until_the_end_of_the_time(lab: &Lab, with: &str) {
    let sql = "SET @held = REPEAT('x', 4000000)";
    let words = ["--with", with, "--no-native", "--sql", sql, "--time", "4s", "--every", "1s", "-o", "json"];
    let told = json(&profiled(lab, &words).expect_code(0).stdout);
    std::fs::remove_dir_all(lab.home().join("out")).unwrap();
    let marks = told["marks"].as_array().unwrap();
    let last = marks.len() - 2;
    assert!(marks[last]["name"] == "every" && told["to"] == last, "{told:#}");
    let grown = told["growth"].as_array().unwrap().iter();
    let most = grown.filter_map(|it| it["growth_bytes"].as_i64()).max().unwrap();
    assert!(most >= 4_000_000, "{:#}", told["growth"]);
}

/// Of a profiler that is here: from a mark to the next, the function of ours grew by what it lost, and each file can be read when the sandbox has gone.
fn who_grew(lab: &Lab, with: &str) -> Value {
    with_the_function(lab);
    is_held_until_the_end_of_the_time(lab, with);
    let words = ["--with", with, "--no-native", "--sql", "SELECT BENCHMARK(5000, lose())", "-o", "json"];
    let told = json(&profiled(lab, &words).expect_code(0).stdout);
    let heap: Vec<i64> =
        told["marks"].as_array().unwrap().iter().map(|it| it["heap_bytes"].as_i64().unwrap()).collect();
    assert_eq!((told["with"].as_str(), heap.len()), (Some(with), 4), "{told:#}");
    assert!(heap[0] > 10 << 20 && heap[2] > heap[1], "{heap:?}");
    assert_eq!(told["growth"][0]["function"], "lose_a_kilobyte", "{:#}", told["growth"]);
    assert_eq!(told["growth"][0]["growth_bytes"], 5000 * 1024);
    assert_eq!(told["hidden_bytes"], 0, "an exact profile is not cut");
    assert!(told["growth"][0]["path"][1].as_str().unwrap().starts_with("lose (lose.c"), "{:#}", told["growth"]);
    let left = std::fs::read_dir(lab.home().join("sandboxes/w/profiles")).unwrap().count();
    assert_eq!(left, 0, "what the server wrote was taken away");
    lab.run(["sandbox", "delete", "w"]).expect_code(0);
    let words = ["heap", "show", "out/heap.massif", "--from", "1", "--to", "2", "-o", "json"];
    let shown = json(&lab.run(words).expect_code(0).stdout);
    assert_eq!(shown["snapshots"].as_array().unwrap().len(), 4);
    assert_eq!(shown["growth"][0]["growth_bytes"], 5000 * 1024, "{:#}", shown["growth"]);
    told
}

/// With a malloc's own profiler each mark has a file.
fn is_read(lab: &Lab, told: &Value) {
    let marks = told["marks"].as_array().unwrap();
    let files: Vec<&str> = marks.iter().map(|it| it["file"].as_str().unwrap()).collect();
    let shown = json(&lab.run(["heap", "show", "-o", "json"].iter().chain(&files)).expect_code(0).stdout);
    let bytes = |list: &Value| list.as_array().unwrap().iter().map(|it| it["heap_bytes"].clone()).collect::<Vec<_>>();
    assert_eq!(bytes(&shown["snapshots"]), bytes(&told["marks"]));
}

fn lacks(library: &str) -> bool {
    let cache = Command::new("ldconfig").arg("-p").output();
    !cache.is_ok_and(|it| String::from_utf8_lossy(&it.stdout).contains(library))
}

#[test]
fn tcmalloc_tells_who_grew() {
    if lacks("libtcmalloc.so.4") {
        testkit::skip!("needs libtcmalloc.so.4 of gperftools (package libgoogle-perftools4)");
    }
    // no root is needed
    let lab = Lab::as_ordinary_user(WRINGER);
    let told = who_grew(&lab, "tcmalloc");
    is_read(&lab, &told);
}

#[test]
fn jemalloc_tells_who_grew_where_it_is_built_with_profiling() {
    if lacks("libjemalloc.so.2") {
        testkit::skip!("needs libjemalloc.so.2 (package libjemalloc2)");
    }
    let built =
        Command::new("true").env("LD_PRELOAD", "libjemalloc.so.2").env("MALLOC_CONF", "stats_print:true").output();
    if !String::from_utf8_lossy(&built.unwrap().stderr).contains("config.prof: true") {
        testkit::skip!("this libjemalloc.so.2 is built without profiling");
    }
    let lab = Lab::new(WRINGER);
    let told = who_grew(&lab, "jemalloc");
    is_read(&lab, &told);
}

/// The first life is the server's own; in the second one it has the profiler's malloc.
#[test]
fn a_leak_is_told_by_other_profilers_too() {
    if lacks("libtcmalloc.so.4") || host::tool::find("heaptrack").is_none() {
        testkit::skip!("needs libtcmalloc.so.4 of gperftools (package libgoogle-perftools4) and heaptrack");
    }
    let lab = Lab::new(WRINGER);
    with_the_function(&lab);
    for with in ["tcmalloc", "heaptrack"] {
        is_told_to_leak(&lab, with);
        std::fs::remove_dir_all(lab.home().join("out")).unwrap();
    }
}

#[test]
fn heaptrack_tells_who_grew_also_of_a_server_that_is_killed() {
    if host::tool::find("heaptrack").is_none() {
        testkit::skip!("needs heaptrack");
    }
    let lab = Lab::new(WRINGER);
    let told = who_grew(&lab, "heaptrack");
    lab.run(["heap", "show", told["ended"]["files"][0].as_str().unwrap()]).expect_code(0);

    lab.run(["sandbox", "deploy", "mariadb", "--name", "w"]).expect_code(0);
    std::fs::remove_dir_all(lab.home().join("out")).unwrap();
    let words = ["memory", "profile", "w", "--to", "out", "--with", "heaptrack", "--no-native", "--every", "1s"];
    let mut command = lab.start("profile", words);
    assert!(wait_until(Duration::from_secs(120), || lab.said("profile").contains("every:")), "{}", lab.said("profile"));
    assert!(kill("KILL", *servers(lab.home()).first().expect("it runs")));
    assert_eq!(command.wait().unwrap().code(), Some(4), "{}", lab.said("profile"));
    assert!(lab.said("profile").contains("what was taken until then"), "{}", lab.said("profile"));
    lab.run(["heap", "show", "out/heap.massif", "--assert", "init_key_cache<1G"]).expect_code(0);
    lab.undo_own();
}

/// heaptrack's file of addresses stays in the sandbox's folder, and heaptrack's own program makes a profile of it.
#[test]
fn a_killed_command_leaves_no_server_with_heaptrack_and_a_file_that_can_be_read() {
    let interpreter = Path::new("/usr/lib/heaptrack/libexec/heaptrack_interpret");
    if host::tool::find("heaptrack").is_none() || !interpreter.exists() {
        testkit::skip!("needs heaptrack");
    }
    let lab = deployed(&["mariadb"]);
    let words = ["memory", "profile", "w", "--to", "out", "--with", "heaptrack", "--no-native", "--every", "1s"];
    let mut command = lab.start("profile", words);
    assert!(wait_until(Duration::from_secs(120), || lab.said("profile").contains("every:")), "{}", lab.said("profile"));
    command.kill().unwrap();
    command.wait().unwrap();
    assert!(wait_until(Duration::from_secs(60), || servers(lab.home()).is_empty()), "{:?}", servers(lab.home()));
    let left = std::fs::read_dir(lab.home().join("sandboxes/w/profiles")).unwrap().flatten().map(|it| it.path());
    let raw = left.into_iter().find(|path| path.extension().is_some_and(|it| it == "raw")).expect("heaptrack's file");
    let whole = Command::new(interpreter).stdin(std::fs::File::open(&raw).unwrap()).output().unwrap();
    let profile = lab.home().join("heaptrack.profile");
    std::fs::write(&profile, &whole.stdout).unwrap();
    lab.run(["heap", "show", profile.to_str().unwrap(), "--assert", "growth<10G"]).expect_code(0);
    lab.undo_own();
}

fn servers(home: &Path) -> Vec<u32> {
    running(home, |exe| exe.ends_with("mariadbd"))
}

#[test]
fn a_killed_command_leaves_no_server_with_a_profiler() {
    if lacks("libtcmalloc.so.4") {
        testkit::skip!("needs libtcmalloc.so.4 of gperftools (package libgoogle-perftools4)");
    }
    let lab = deployed(&["mariadb"]);
    let mut command = begun(&lab, &["--no-native", "--with", "tcmalloc"]);
    command.kill().unwrap();
    command.wait().unwrap();
    assert!(wait_until(Duration::from_secs(60), || servers(lab.home()).is_empty()), "{:?}", servers(lab.home()));
    lab.undo_own();
    lab.run(["heap", "show", "out/heap.massif"]).expect_code(0);
    lab.run(["sandbox", "start", "w"]).expect_code(0);
    lab.run(["sandbox", "delete", "w", "--force"]).expect_code(0);
}

/// A library of this name that cannot make profiles.
const NO_PROFILER: &str = "int mallctl(const char *name) { return 2; }\n";

#[test]
fn other_profilers_say_what_they_lack_before_anything_starts() {
    let lab = deployed(&["postgresql"]);
    profiled(&lab, &["--with", "tcmalloc"]).expect_code(3).expect_said(&["PostgreSQL forks", "--with massif"]);
    lab.run(["sandbox", "delete", "w"]).expect_code(0);
    lab.run(["sandbox", "deploy", "mariadb", "--name", "w"]).expect_code(0);
    profiled(&lab, &["--with", "heaptrack", "--pages-as-heap"]).expect_code(2).expect_said(&["sees no mappings"]);
    let mut command = lab.command(["memory", "profile", "w", "--with", "heaptrack"]);
    let without = Ran::of(command.env("PATH", "/nowhere"));
    without.expect_code(3).expect_said(&["'heaptrack'", "apt-get install heaptrack"]);
    let (source, library) = (lab.write("none.c", NO_PROFILER), lab.home().join("libjemalloc.so.2"));
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    assert!(built.is_ok_and(|status| status.success()), "cc is needed to build Wringer, too");
    let mut command = lab.command(["memory", "profile", "w", "--with", "jemalloc"]);
    let without = Ran::of(command.env("LD_LIBRARY_PATH", lab.home()));
    without.expect_code(3).expect_said(&["libjemalloc.so.2", "built without profiling", "--enable-prof"]);
    assert_eq!(servers(lab.home()), Vec::<u32>::new());
}
