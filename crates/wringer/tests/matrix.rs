// SPDX-License-Identifier: Apache-2.0
//! `wringer matrix` on real servers: each cell once, whatever kills it; what is told before anything runs.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use testkit::{Lab, Ran, Snapshot, begin_cache, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// A home with a cache of its own: the kept fill in it is this test's. Fetched servers are linked from the shared one.
struct Home {
    lab: Lab,
    cache: PathBuf,
}

impl Home {
    fn new() -> Self {
        let lab = Lab::new(WRINGER);
        let cache = lab.home().join("cache");
        begin_cache(&cache, &["servers"]);
        Self { lab, cache }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.lab.command(args);
        command.env("WRINGER_CACHE", &self.cache).env_remove("WRINGER_FILLS_LIMIT");
        command
    }

    fn wringer(&self, args: &[&str]) -> Ran {
        Ran::of(&mut self.command(args))
    }

    /// A file of small cells, with this matrix.
    fn file(&self, load: &str, matrix: &str) -> String {
        let text = format!(
            "schema = 1\nname = \"cells\"\n[server]\nflavour = \"mariadb\"\n[server.options]\n\
             innodb_buffer_pool_size = \"16M\"\n[fill]\nrows = 500\n[load]\n{load}\n{matrix}"
        );
        self.lab.write("cells.toml", &text).into_os_string().into_string().unwrap()
    }

    /// Nobody waits for a quiet host here: this one is busy with tests.
    fn run(&self, file: &str) -> Ran {
        Ran::of(&mut self.sweep(file))
    }

    /// The same, left running; its errors go to `killed.err` in the home.
    fn start_sweep(&self, file: &str) -> Child {
        let errors = File::create(self.lab.home().join("killed.err")).unwrap();
        self.sweep(file).stdout(Stdio::null()).stderr(errors).spawn().unwrap()
    }

    fn sweep(&self, file: &str) -> Command {
        self.command(&["matrix", "run", file, "--to", "out", "--wait", "0s", "--in-turn"])
    }

    fn state(&self) -> Value {
        let text = fs::read(self.lab.home().join("out/sweep.json")).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// How often each cell counts, and how often it was begun.
    fn attempts(&self) -> BTreeMap<String, (usize, usize)> {
        let state = self.state();
        let cells = state["cells"].as_array().cloned().unwrap_or_default();
        let of = |cell: &Value| {
            let attempts = cell["attempts"].as_array().unwrap();
            let counts = attempts.iter().filter(|attempt| attempt["end"] == "counts").count();
            (cell["id"].as_str().unwrap().to_owned(), (counts, attempts.len()))
        };
        cells.iter().map(of).collect()
    }

    fn done(&self) -> usize {
        self.state()["cells"].as_array().into_iter().flatten().filter(|cell| cell["state"] == "done").count()
    }

    /// Runs that did not end, and sandboxes that are there.
    fn left(&self) -> Vec<String> {
        let status = self.wringer(&["status", "-o", "json"]).expect_code(0).stdout;
        let status: Value = serde_json::from_str(&status).unwrap();
        let runs = status["runs"].as_array().cloned().unwrap_or_default();
        let sandboxes = fs::read_dir(self.lab.home().join("sandboxes")).into_iter().flatten().flatten();
        let names = sandboxes.map(|entry| entry.file_name().to_string_lossy().into_owned());
        runs.iter().map(|run| run["run"].to_string()).chain(names.filter(|name| !name.starts_with('.'))).collect()
    }
}

const POINT_SELECT: &str = "workload = \"oltp_point_select\"\ntime = \"300ms\"";
const TWO: &str = "[matrix]\nblocks = 2\n[matrix.cross]\n\"load.threads\" = [1, 2]\n";

#[test]
fn each_cell_is_done_once_whatever_kills_it_and_a_changed_file_runs_only_what_changed() {
    let home = Home::new();
    let file = home.file(POINT_SELECT, TWO);
    let mut killed = 0;
    // soon after the beginning, while a server is made, while it is loaded; later ones meet other cells, other moments
    for delay_ms in [5, 400, 1200, 2200, 3100] {
        let before = home.attempts();
        let begun = |home: &Home| home.attempts().values().map(|(_, begun)| begun).sum::<usize>();
        let begun_before = begun(&home);
        let mut child = home.start_sweep(&file);
        // it waits in turn for all cells of another test's sweep, each of them twice on a busy host
        let has_begun =
            wait_until(Duration::from_secs(600), || begun(&home) > begun_before || child.try_wait().unwrap().is_some());
        assert!(has_begun, "{}", home.lab.said("killed"));
        std::thread::sleep(Duration::from_millis(delay_ms));
        let _ = child.kill();
        killed += usize::from(child.wait().unwrap().code().is_none());
        for (cell, (counts, times)) in home.attempts() {
            let (counted, begun) = before.get(&cell).copied().unwrap_or_default();
            assert!(counts <= 1 && counts >= counted, "{cell}: done once, and then for ever");
            assert!(counted == 0 || times == begun, "{cell} was done, and was begun again");
        }
    }
    assert!(killed >= 2, "{killed} of 5 were killed while they ran");
    let ran = home.run(&file).expect_code(0);
    assert!(home.attempts().values().all(|(counts, _)| *counts == 1), "{:?}", home.attempts());
    assert_eq!(home.done(), 4);
    assert_eq!(home.left(), Vec::<String>::new(), "{}", ran.stderr);
    let state = home.state();
    for cell in state["cells"].as_array().unwrap() {
        let recording = home.lab.home().join("out").join(cell["recording"].as_str().unwrap());
        assert!(recording.exists() && recording.with_file_name("report.html").exists(), "{cell}");
        assert_eq!(
            (cell["outcomes"]["baseline"].as_str(), &cell["figures"][0]["name"]),
            (Some("measured"), &"throughput".into())
        );
        assert!(cell["elapsed_us"].as_u64().unwrap() > 300_000 && cell["node"].is_string(), "{cell}");
    }
    let attempts = || state["cells"].as_array().unwrap().iter().flat_map(|cell| cell["attempts"].as_array().unwrap());
    let elapsed_us = |attempt: &Value| attempt["elapsed_us"].as_u64().unwrap();
    assert!(
        attempts().any(|it| it["end"] == "interrupted" && elapsed_us(it) > 0),
        "a killed attempt took time: {state}"
    );
    assert!(state["spent_us"].as_u64().unwrap() >= attempts().map(elapsed_us).sum(), "{state}");
    assert!(attempts().filter(|attempt| attempt["cloned"] == true).count() >= 3, "one fill serves all: {state}");
    assert_eq!(state["settings"][0]["done"], 2);
    assert_eq!(state["comparisons"][0]["figures"][0]["no_verdict"], "too_few_repeats");

    // nothing is left to do; then there is one more value, and one goes
    let text = home.run(&file).expect_code(0).stdout;
    assert!(text.contains("4 of 4 cells are done") && text.contains("load.threads"), "{text}");
    let file = home.file(POINT_SELECT, &TWO.replace("[1, 2]", "[2, 3]"));
    let plan = home.wringer(&["matrix", "plan", &file, "--to", "out", "-o", "json"]).expect_code(0).stdout;
    let plan: Value = serde_json::from_str(&plan).unwrap();
    assert_eq!((plan["cells"].as_u64(), plan["done"].as_u64()), (Some(4), Some(2)));
    let before = home.attempts();
    home.run(&file).expect_code(0);
    let after = home.attempts();
    assert!(before.iter().all(|(cell, attempts)| after[cell] == *attempts), "{before:?} {after:?}");
    assert_eq!((after.len(), home.done()), (6, 6), "the two that the file lost are kept");
    let page = fs::read_to_string(home.lab.home().join("out/report.html")).unwrap();
    assert!(page.contains("cells/") && page.contains("/report.html"), "points lead to their runs");
    let compare = |a: &str, b: &str| home.wringer(&["compare", "--sweep", "out", "--a", a, "--b", b, "-o", "json"]);
    let compared: Value = serde_json::from_str(&compare("threads=2", "load.threads=3").expect_code(0).stdout).unwrap();
    assert_eq!(compared["verdict"], "compared", "{compared}");
    assert_eq!(compared["figures"][0]["no_verdict"], "too_few_repeats", "{compared}");
    compare("thread=2", "threads=3").expect_code(2).expect_said(&["does not vary thread", "load.threads"]);
    compare("threads=9", "threads=3").expect_code(2).expect_said(&["no setting has threads=9"]);
    let status = home.wringer(&["matrix", "status", "out"]).expect_code(0).stdout;
    assert!(status.contains("4 of 4 cells are done") && status.contains("2 more are of settings"), "{status}");
}

/// A server that was built again is another one, also where its version and its place are the same.
#[test]
fn another_build_of_the_server_runs_all_cells_again_and_the_one_before_none() {
    let home = Home::new();
    let file = home.file(POINT_SELECT, &TWO.replace("blocks = 2", "blocks = 1"));
    home.run(&file).expect_code(0);
    let (first, done) = (home.attempts(), home.done());
    assert_eq!((first.len(), done), (2, 2));
    let server_of = |cell: &Value| {
        let result =
            home.lab.home().join("out").join(cell["recording"].as_str().unwrap()).with_file_name("result.json");
        serde_json::from_slice::<Value>(&fs::read(result).unwrap()).unwrap()["conditions"]["server"].clone()
    };
    let server = server_of(&home.state()["cells"][0]);
    let (program, build) = (PathBuf::from(server["binary"].as_str().unwrap()), server["build"].as_str().unwrap());
    if !program.starts_with(&home.cache) {
        testkit::skip!("MariaDB is installed on this machine: its program stays as it is");
    }
    // the same program with another build ID: what its linker would have written for another source
    let id = build.strip_prefix("build ID ").unwrap();
    let id: Vec<u8> = (0..id.len() / 2).map(|at| u8::from_str_radix(&id[2 * at..2 * at + 2], 16).unwrap()).collect();
    let mut bytes = fs::read(&program).unwrap();
    let at = bytes.windows(id.len()).position(|window| window == id).unwrap();
    bytes[at] ^= 1;
    let original = home.cache.join("original");
    fs::copy(&program, &original).unwrap();
    let replace = |bytes: &[u8]| {
        fs::remove_file(&program).unwrap();
        fs::write(&program, bytes).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    };
    replace(&bytes);
    let plan = home.wringer(&["matrix", "plan", &file, "--to", "out"]).expect_code(0).stdout;
    assert!(
        plan.contains("beside 2 of settings that the file no longer has, or whose files or server changed"),
        "{plan}"
    );
    home.run(&file).expect_code(0);
    let second = home.attempts();
    assert!(first.iter().all(|(cell, attempts)| second[cell] == *attempts), "{first:?} {second:?}");
    assert_eq!((second.len(), home.done()), (4, 4));
    let state = home.state();
    let cells = state["cells"].as_array().unwrap();
    let of = |dropped: bool| cells.iter().find(|cell| (cell["dropped"] == true) == dropped).unwrap();
    assert_eq!(server_of(of(true)), server);
    let other = server_of(of(false));
    assert_eq!((&other["version"], &other["binary"]), (&server["version"], &server["binary"]));
    assert_ne!(other["build"], server["build"]);
    let sides = [of(true), of(false)].map(|cell| format!("out/{}", cell["recording"].as_str().unwrap()));
    let told = home.wringer(&["compare", &sides[0], &sides[1], "--across", "arm", "-o", "json"]).expect_code(0).stdout;
    let told: Value = serde_json::from_str(&told).unwrap();
    assert!(told["not_comparable"].to_string().contains("server.build is not the same: build ID"), "{told}");
    // the one before is back, and with it its results
    replace(&fs::read(&original).unwrap());
    home.run(&file).expect_code(0);
    assert_eq!(home.attempts(), second);
}

/// Needs a program with failpoints: `WRINGER_WITH_FAILPOINTS`.
#[test]
fn a_kill_at_each_write_of_the_state_loses_nothing() {
    let Some(program) = std::env::var_os("WRINGER_WITH_FAILPOINTS") else {
        testkit::skip!("WRINGER_WITH_FAILPOINTS names no program");
    };
    let home = Home::new();
    let file = home.file(POINT_SELECT, "[matrix]\nblocks = 1\n[matrix.cross]\n\"load.threads\" = [1, 2]\n");
    let mut kills = 0;
    // before and after: the first state, a cell that begins, a cell that ended; the last two also of a call that goes on
    for at in [1, 2, 3, 4, 5, 6] {
        let done = home.done();
        let mut command = Command::new(&program);
        command.args(["matrix", "run", &file, "--to", "out", "--wait", "0s", "--in-turn"]);
        let like = home.command(&["status"]);
        like.get_envs().for_each(|(key, value)| {
            value.map(|value| command.env(key, value));
        });
        command.env("WRINGER_CRASH_AT_STATE", at.to_string()).current_dir(home.lab.home()).stdin(Stdio::null());
        let ran = Ran::of(&mut command);
        kills += usize::from(ran.code.is_none());
        assert!(home.done() >= done, "{}", ran.stderr);
        assert!(home.attempts().values().all(|(counts, _)| *counts <= 1), "{:?}", home.attempts());
    }
    assert_eq!(kills, 6, "each of them was reached");
    home.run(&file).expect_code(0);
    assert!(home.attempts().values().all(|(counts, _)| *counts == 1), "{:?}", home.attempts());
    assert_eq!((home.done(), home.left()), (2, Vec::new()));
}

/// The command and its watchdog are killed together while a server with less RAM runs on a slow disk: only the next call is left to give the host back.
#[test]
fn what_a_killed_cell_has_squeezed_is_given_back_before_the_next_one() {
    if !testkit::is_root() {
        testkit::skip!("needs root");
    }
    let home = Home::new();
    let squeeze = "[squeeze]\nserver_ram = \"400M\"\ndisk = { read = \"1ms\" }\n";
    let load = POINT_SELECT.replace("300ms", "2s");
    let file = home.file(&load, &format!("{squeeze}{}", TWO.replace("blocks = 2", "blocks = 1")));
    let mut child = home.start_sweep(&file);
    let status =
        || -> Value { serde_json::from_str(&home.wringer(&["status", "-o", "json"]).expect_code(0).stdout).unwrap() };
    // processes of the steps that begin with this word; a server is one step each time that it starts
    let processes = |status: &Value, word: &str| -> Vec<u64> {
        let steps = status["runs"][0]["steps"].as_array().cloned().unwrap_or_default();
        let own = steps.iter().filter(|step| step["change"].as_str().is_some_and(|change| change.starts_with(word)));
        own.flat_map(|step| step["processes"].as_array().cloned().unwrap_or_default())
            .filter_map(|it| it.as_u64())
            .collect()
    };
    let server_in_a_cgroup = |status: &Value| {
        let groups = |pid: u64| fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        processes(status, "server").into_iter().any(|pid| groups(pid).contains("/wringer-"))
    };
    let mut seen = Value::Null;
    // its limits are set before it starts, and the slow layer is below it
    let is_squeezed = wait_until(Duration::from_secs(600), || {
        seen = status();
        server_in_a_cgroup(&seen) || child.try_wait().unwrap().is_some()
    });
    assert!(is_squeezed && child.try_wait().unwrap().is_none(), "{seen:#} {}", home.lab.said("killed"));
    let watchdog = processes(&seen, "watchdog")[0];
    let watchdog = rustix::process::Pid::from_raw(i32::try_from(watchdog).unwrap()).unwrap();
    rustix::process::kill_process(watchdog, rustix::process::Signal::KILL).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let run = seen["runs"][0]["run"].as_str().unwrap().to_owned();
    let cgroups = || -> Vec<PathBuf> {
        let (mut all, mut next) = (vec![PathBuf::from("/sys/fs/cgroup")], 0);
        while let Some(folder) = all.get(next) {
            let below = fs::read_dir(folder).into_iter().flatten().flatten();
            let folders = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            let folders: Vec<PathBuf> = folders.map(|entry| entry.path()).collect();
            all.extend(folders);
            next += 1;
        }
        all.into_iter().filter(|folder| folder.to_string_lossy().contains(&run)).collect()
    };
    assert!(!cgroups().is_empty(), "the limit is still there, and nobody who would take it away");
    let ran = home.run(&file).expect_code(0);
    assert!(ran.stderr.contains(&format!("run {run} is undone")), "{}", ran.stderr);
    assert_eq!(Snapshot::take().lines_of(home.lab.home()), Vec::<String>::new());
    assert_eq!((cgroups(), home.left()), (Vec::new(), Vec::new()));
    assert!(home.done() == 2 && home.attempts().values().all(|(counts, _)| *counts == 1), "{:?}", home.attempts());
    let state = home.state();
    let attempts = state["cells"].as_array().unwrap().iter().flat_map(|cell| cell["attempts"].as_array().unwrap());
    let cut: Vec<&Value> = attempts.filter(|attempt| attempt["end"] == "interrupted").collect();
    assert_eq!(cut.len(), 1, "{cut:?}");
    assert!(cut[0]["why"].to_string().contains(&run), "{cut:?}");
}

#[test]
fn what_a_setting_came_to_is_its_result_and_what_the_tool_could_not_do_is_not() {
    let home = Home::new();
    // one load program fails; one server does not start with its option; one is measured
    let load = "driver = \"command\"";
    let file = home.file(
        load,
        "[matrix]\nblocks = 1\n[matrix.pair]\n\"load.command\" = [[\"true\"], [\"false\"], [\"true\"]]\n\
         \"server.options.innodb_log_group_home_dir\" = [\"./\", \"./\", \"/nowhere\"]\n",
    );
    let ran = home.run(&file).expect_code(4);
    assert!(ran.stderr.contains("1 cell could not be run") && ran.stderr.contains("exit code 1"), "{}", ran.stderr);
    let state = home.state();
    let of = |command: &str, folder: &str| {
        let is_it = |cell: &&Value| {
            let settings = &cell["settings"];
            settings["load.command"] == command && settings["server.options.innodb_log_group_home_dir"] == folder
        };
        state["cells"].as_array().unwrap().iter().find(is_it).unwrap().clone()
    };
    assert_eq!(of("[true]", "./")["state"], "done");
    assert_eq!(of("[false]", "./")["state"], "failed");
    let cannot_start = of("[true]", "/nowhere");
    assert_eq!(
        (&cannot_start["state"], &cannot_start["outcomes"]["all arms"]),
        (&"done".into(), &"cannot_start".into())
    );
    assert!(cannot_start["told"][0].as_str().unwrap().len() > 20, "{cannot_start}");
    assert_eq!(home.left(), Vec::<String>::new());
    let status = home.wringer(&["matrix", "status", "out"]).expect_code(0).stdout;
    assert!(status.contains("2 of 3 cells are done, 1 failed") && status.contains("cannot_start 1x"), "{status}");
    // a verdict on the cells that survived would be none
    let sides = ["--a", "command=[true]", "innodb_log_group_home_dir=./", "--b", "innodb_log_group_home_dir=/nowhere"];
    let compare = [&["compare", "--sweep", "out", "--fail-if", "throughput<0.9x"], &sides[..]].concat();
    let text = home.wringer(&compare).expect_code(3).stdout;
    assert!(text.contains("block 1") && text.contains(": all arms ended with cannot_start"), "{text}");
    let of_one = [&compare[..], &["--arm", "baseline"]].concat();
    let text = home.wringer(&of_one).expect_code(3).stdout;
    assert!(text.contains(": all arms ended with cannot_start"), "{text}");
}

/// What is decided when the data directory is made is a setting like others: each cell's directory is made with it.
#[test]
fn a_cell_has_a_data_directory_that_is_made_with_its_settings() {
    let home = Home::new();
    let matrix = "[matrix]\nblocks = 1\n[matrix.cross]\n\"server.options.innodb-page-size\" = [\"8k\", \"7k\"]\n";
    home.run(&home.file(POINT_SELECT, matrix)).expect_code(0);
    let state = home.state();
    let of = |size: &str| {
        let is_it = |cell: &&Value| cell["settings"]["server.options.innodb_page_size"] == size;
        state["cells"].as_array().unwrap().iter().find(is_it).unwrap().clone()
    };
    assert_eq!((&of("8k")["state"], &of("8k")["outcomes"]["baseline"]), (&"done".into(), &"measured".into()));
    let none = of("7k");
    assert_eq!((&none["state"], &none["outcomes"]["all arms"]), (&"done".into(), &"cannot_start".into()));
    let told = none["told"][0].as_str().unwrap();
    assert!(told.contains("no data directory can be made with innodb_page_size=7k"), "{told}");
    assert_eq!(home.left(), Vec::<String>::new());
}

#[test]
fn a_folder_that_takes_no_results_is_in_the_way() {
    let home = Home::new();
    let file = home.file(POINT_SELECT, "[matrix]\nblocks = 1\n[matrix.cross]\n\"load.threads\" = [1]\n");
    let one = home.lab.write("one.toml", &testkit::small_experiment("1s", "")).into_os_string().into_string().unwrap();
    home.lab.write("taken", "mine");
    for folder in ["taken", "taken/below", "/proc/x"] {
        for command in [vec!["matrix", "run", &file], vec!["run", &one]] {
            let ran = home.wringer(&[&command[..], &["--to", folder]].concat()).expect_code(3);
            ran.expect_said(&[&format!("no results can be written into {folder}: "), "that you may write with --to"]);
        }
    }
    assert_eq!((home.attempts(), home.left()), (BTreeMap::new(), Vec::new()));
}

#[test]
fn notes_beside_a_sweep_do_not_stop_it_and_files_without_one_do() {
    let home = Home::new();
    let file = home.file(POINT_SELECT, "[matrix]\nblocks = 1\n[matrix.cross]\n\"load.threads\" = [1]\n");
    let out = home.lab.home().join("out");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("notes.txt"), "mine").unwrap();
    home.run(&file).expect_code(3).expect_said(&["holds other files, and no sweep"]);
    fs::remove_file(out.join("notes.txt")).unwrap();
    home.run(&file).expect_code(0);
    for name in ["notes.txt", ".report.html.4711.new", ".sweep.json.4711.new"] {
        fs::write(out.join(name), "mine").unwrap();
    }
    let text = home.run(&file).expect_code(0).stdout;
    assert!(text.contains("1 of 1 cells are done"), "{text}");
    let left: Vec<bool> = ["notes.txt", ".report.html.4711.new"].iter().map(|name| out.join(name).exists()).collect();
    assert_eq!(left, [true, false], "what a killed process had begun to write is removed, and nothing else");
}

#[test]
fn a_budget_ends_it_and_run_takes_the_same_file() {
    let home = Home::new();
    let file = home.file(POINT_SELECT, &format!("{TWO}[matrix.budget]\ntime = \"100ms\"\n"));
    let ran = home.run(&file).expect_code(0);
    assert!(
        ran.stderr.contains("the budget of time is used up (100 ms)") && ran.stderr.contains("of 4 cells are done"),
        "{}",
        ran.stderr
    );
    // on a host that is busy with other tests its first attempt may not count
    assert_eq!(home.attempts().values().map(|(_, begun)| begun).sum::<usize>(), 1);
    let text = home.wringer(&["plan", &file]).expect_code(0).stdout;
    assert!(text.contains("2 settings x 2 blocks = 4 cells") && text.contains("load.threads"), "{text}");
    for flag in ["--force", "--keep", "--fresh-fill", "--no-kept-fill"] {
        let ran = home.wringer(&["run", &file, flag]).expect_code(2);
        assert!(ran.stderr.contains(&format!("{flag} is for one run")), "{}", ran.stderr);
    }
    let one = home.file(POINT_SELECT, "");
    home.wringer(&["run", &one, "--in-turn"]).expect_code(2).expect_said(&["--in-turn is for a file with [matrix]"]);
}

fn refused(lab: &Lab, matrix: &str, code: i32, words: &[&str]) {
    let text = testkit::small_experiment("1s", "") + matrix;
    let file = lab.write("wrong.toml", &text);
    for command in [["matrix", "plan"], ["matrix", "run"]] {
        let ran = lab.run(command.iter().map(AsRef::<Path>::as_ref).chain([file.as_path()])).expect_code(code);
        words.iter().for_each(|word| assert!(ran.stderr.contains(word), "{word:?} is not in {}", ran.stderr));
    }
    assert!(!lab.home().join("recordings").exists(), "nothing is made");
}

#[test]
fn a_wrong_file_is_refused_before_anything_is_made() {
    let lab = Lab::new(WRINGER);
    refused(&lab, "[matrix.cross]\n\"load.treads\" = [1]\n", 2, &["wrong.toml:16:1", "did you mean \"threads\"?"]);
    let circle = "[matrix.cross]\n\"load.seed\" = [1]\n[matrix.follow]\n\"load.threads\" = \"2x events\"\n\"load.events\" = \"2x threads\"\n";
    refused(&lab, circle, 2, &["circle", "load.threads follows load.events"]);
    let many: Vec<String> = (1..300).map(|number| number.to_string()).collect();
    let many = many.join(",");
    refused(
        &lab,
        &format!("[matrix.cross]\n\"load.seed\" = [{many}]\n\"load.threads\" = [{many}]\n"),
        2,
        &["too many cells: 89401 settings"],
    );
    refused(&lab, "", 2, &["no section [matrix]"]);
    let ran = lab.run(["matrix", "run", "nowhere.toml"]).expect_code(3);
    assert!(ran.stderr.contains("nowhere.toml"), "{}", ran.stderr);
    lab.run(["matrix", "status", "nowhere"]).expect_code(3);
    let ran = lab.run(["matrix", "run", "wrong.toml", "--wait", "5m"]).expect_code(2);
    assert!(ran.stderr.contains("at most"), "{}", ran.stderr);
}

#[test]
fn without_a_cgroup_a_matrix_over_the_servers_ram_is_refused_and_the_pool_offered() {
    let lab = Lab::as_ordinary_user(WRINGER);
    let text = testkit::small_experiment("1s", "");
    let file = lab.write("ram.toml", &format!("{text}[matrix.cross]\n\"squeeze.server_ram\" = [\"256M\", \"512M\"]\n"));
    let ran = lab.run([Path::new("matrix"), "run".as_ref(), &file]);
    if !ran.stderr.contains("would be left out here") && ran.code == Some(0) {
        testkit::skip!("an ordinary user can make a memory cgroup here");
    }
    let ran = ran.expect_code(3);
    assert!(
        ran.stderr.contains("squeeze.server_ram") && ran.stderr.contains("innodb_buffer_pool_size\" = ["),
        "{}",
        ran.stderr
    );
}
