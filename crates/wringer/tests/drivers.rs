// SPDX-License-Identifier: Apache-2.0
//! Other programs as the load of an arm: the real sysbench, the real pgbench, and commands.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use testkit::{Lab, Ran, alone, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}

/// A delay of syncs alone: no probe holds it to a time, and the machine may be busy.
fn experiment(flavour: &str, fill: &str, arms: &str) -> String {
    let fuse = host::files::open_existing(Path::new("/dev/fuse")).is_ok();
    let squeeze = if fuse { "[squeeze]\ndisk = { sync = \"100us\" }\n" } else { "" };
    format!(
        "schema = 1\nname = \"driven\"\n[server]\nflavour = \"{flavour}\"\n[fill]\nrows = 2000\n{fill}\n{squeeze}{arms}"
    )
}

/// The names of what runs in the folder of the experiment's file, where drivers are started.
fn left(lab: &Lab) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|it| it.path());
    let here = processes.filter(|it| std::fs::read_link(it.join("cwd")).is_ok_and(|cwd| cwd == lab.home()));
    here.map(|it| std::fs::read_to_string(it.join("comm")).unwrap_or_default().trim().to_owned()).collect()
}

/// Runs it; nothing that it has started is left, whatever came of it.
fn run(lab: &Lab, text: &str) -> Ran {
    let file = lab.write("driven.toml", text);
    let ran = lab.run(["run", file.to_str().unwrap(), "--to", "out"]);
    assert_eq!(left(lab), Vec::<String>::new(), "{}", ran.stderr);
    ran
}

fn result(lab: &Lab) -> Value {
    serde_json::from_str(&std::fs::read_to_string(lab.home().join("out/result.json")).unwrap()).unwrap()
}

fn arm<'a>(result: &'a Value, name: &str) -> &'a Value {
    result["arms"].as_array().unwrap().iter().find(|arm| arm["name"] == name).expect("the arm")
}

fn stdout(arm: &Value) -> &str {
    arm["driven"]["outputs"][0]["text"].as_str().expect("its standard output")
}

fn counted(arm: &Value, counter: &str) -> u64 {
    let witnesses = arm["witnesses"].as_array().unwrap();
    let witness = witnesses.iter().find(|it| it["counter"].as_str().unwrap().ends_with(counter)).expect("the witness");
    witness["delta"].as_u64().unwrap()
}

/// What sysbench says of its run, held against its own text and against the server's count.
fn check_sysbench(arm: &Value) {
    let driven = &arm["driven"];
    assert!(driven["understood"].as_str().is_some_and(|it| it.starts_with("sysbench 1.")), "{driven:#}");
    assert_eq!((&driven["driver"], driven["exit_code"].as_i64()), (&"sysbench".into(), Some(0)));
    assert!(stdout(arm).contains("SQL statistics:"), "{}", stdout(arm));
    let measured = &arm["load"]["measured"];
    let count = |key: &str| measured[key].as_u64().unwrap_or_default();
    assert!(count("transactions") > 0 && count("queries") == 16 * count("transactions"), "{measured:#}");
    assert_eq!(measured["transaction"]["response"]["count"], measured["transactions"], "its histogram has every one");
    assert!(arm["load"]["seed"].is_null() && measured["late"].is_null(), "what it does not say is null");
    assert!(driven["figures"]["latency_avg_us"].as_f64().unwrap() > 0.0 && count("client_user_us") > 0);
    let words = driven["command"].to_string();
    assert!(words.contains("--config-file=") && !words.contains("password"), "{words}");
    check_slots(arm, "p95_us");
}

/// Slots of a second, where the arm was measured, with what the program tells of them and nothing else.
fn check_slots(arm: &Value, told: &str) {
    let measured = &arm["load"]["measured"];
    let slots = measured["timeline"].as_array().unwrap();
    let number = |value: &Value, key: &str| value[key].as_u64().unwrap_or_default();
    assert!(!slots.is_empty(), "{measured:#}");
    let sum: u64 = slots.iter().map(|slot| number(slot, "transactions")).sum();
    let all = number(measured, "transactions");
    // they print a rate for the time since their last line, and the end of that time rounded: sysbench to a second, pgbench to a tenth; of a log it is exact
    let rounded_by = match told {
        "p95_us" => 0.5,
        "mean_us" => 0.05,
        _ => 0.0,
    };
    let rates: Vec<f64> = slots
        .iter()
        .map(|slot| number(slot, "transactions") as f64 * 1e6 / number(slot, "length_us") as f64)
        .chain([0.0])
        .collect();
    let by_rounding = rates.windows(2).map(|pair| (pair[0] - pair[1]).abs()).sum::<f64>() * rounded_by;
    println!("{sum} of {all} in slots, and {by_rounding:.0} by rounding");
    assert!(sum > 0 && sum as f64 <= all as f64 * 1.1 + by_rounding, "{sum} of {all}: {slots:#?}");
    let (from, to) = (number(measured, "started_us"), number(arm, "ended_us"));
    assert!(from >= number(arm, "started_us"), "{arm:#}");
    for slot in slots {
        // in a second in which nothing ended, it tells nothing
        let tells = number(slot, told) > 0 || number(slot, "transactions") == 0;
        assert!(tells && (from..=to).contains(&number(slot, "at_us")), "{slot:#}");
        assert!(told == "p99_us" || slot["p99_us"].is_null(), "nothing is made up: {slot:#}");
    }
}

#[test]
fn sysbench_and_commands_run_beside_our_load() {
    if !on_path("sysbench") {
        testkit::skip!("needs sysbench");
    }
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    let script = "function thread_init() con = sysbench.sql.driver():connect() end\n\
                  function event() con:query(\"SELECT c FROM sbtest1 WHERE id = 7\") end\n";
    lab.write("mine.lua", script);
    let shell = "echo \\\"$MYSQL_USER $MYSQL_PWD\\\" {dsn} {tables}x{table_size}; grep Cpus_allowed_list /proc/self/status; \
                 test -S $MYSQL_UNIX_PORT && echo has a socket; stat -c 'mode %a' $MYSQL_HOME $MYSQL_HOME/my.cnf; (sleep 300 &)";
    let arms = format!(
        "[[arm]]\nname = \"ours\"\nload = {{ workload = \"oltp_read_only\", threads = 2, time = \"1s\" }}\n\
         assert = [\"point_select service max<1ns\", \"errors=0\"]\n\
         [[arm]]\nname = \"sysbench\"\nassert = [\"max<1h\", \"transactions/s>0\"]\n\
         load = {{ driver = \"sysbench\", arguments = [\"oltp_read_only\"], threads = 2, time = \"4s\", warmup = \"1s\" }}\n\
         [[arm]]\nname = \"script\"\nload = {{ driver = \"sysbench\", arguments = [\"./mine.lua\", \"--events=50\"] }}\n\
         [[arm]]\nname = \"command\"\nload = {{ driver = \"command\", command = [\"sh\", \"-c\", \"{shell}\"], cpuset = \"0\" }}\n\
         [[arm]]\nname = \"fails\"\nload = {{ driver = \"command\", command = [\"sh\", \"-c\", \"echo working; echo no such table >&2; exit 3\"] }}\n"
    );
    let ran = run(&lab, &experiment("mariadb", "", &arms)).expect_code(4);
    ran.expect_said(&["arm 'fails' with exit code 3", "no such table"]);
    let result = result(&lab);

    let ours = arm(&result, "ours");
    assert!(ours["driven"].is_null() && ours["load"]["driver"] == "mysql", "{ours:#}");
    let failed = &ours["assertions"][0];
    assert_eq!((&failed["passed"], &failed["asked_us"]), (&false.into(), &0.001.into()), "{failed:#}");
    let sysbench = arm(&result, "sysbench");
    check_sysbench(sysbench);
    assert!(sysbench["assertions"].as_array().unwrap().iter().all(|it| it["passed"] == true), "{sysbench:#}");
    let warmup = &sysbench["load"]["warmup"];
    let elapsed_us = |phase: &Value| phase["elapsed_us"].as_u64().unwrap();
    let (warm_us, measured_us) = (elapsed_us(warmup), elapsed_us(&sysbench["load"]["measured"]));
    println!("the warm-up took {warm_us} us, the load {measured_us} us");
    assert!(warmup["transactions"].as_u64().unwrap() > 0 && warm_us < measured_us, "{measured_us} us, and {warmup:#}");
    let names: Vec<_> = sysbench["driven"]["outputs"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["sysbench.stdout", "sysbench.stderr", "sysbench.warmup.stdout", "sysbench.warmup.stderr"]);
    let queries = sysbench["load"]["measured"]["queries"].as_u64().unwrap();
    let questions = counted(sysbench, "Questions");
    assert!((queries..queries + queries / 5 + 500).contains(&questions), "the server counted {questions} of {queries}");

    let script = arm(&result, "script");
    assert_eq!(script["load"]["measured"]["transactions"], 50, "{script:#}");
    assert!(counted(script, "Questions") >= 50);

    let command = arm(&result, "command");
    assert!(command["load"].is_null() && command["driven"]["understood"].is_null(), "nothing is made up: {command:#}");
    let said = stdout(command);
    for expected in [" ***", "1x2000", "@127.0.0.1:", "Cpus_allowed_list:\t0\n", "has a socket", "mode 700\nmode 600"] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let fails = &arm(&result, "fails")["driven"];
    assert_eq!((fails["exit_code"].as_i64(), &fails["outputs"][1]["text"]), (Some(3), &"no such table".into()));
    let page = std::fs::read_to_string(lab.home().join("out/report.html")).unwrap();
    assert!(page.contains("sysbench.stdout") && page.contains("SQL statistics:"), "the report has what it printed");
    assert!(
        page.contains("failed: ") && page.contains("point_select service max&lt;1ns in “ours” (measured "),
        "and what was asserted"
    );
}

#[test]
fn pgbench_sysbench_and_a_command_that_is_cut_run_on_postgresql() {
    let beside = Path::new("/usr/lib/postgresql").exists();
    if !on_path("pgbench") && !beside {
        testkit::skip!("needs pgbench");
    }
    if !on_path("sysbench") {
        testkit::skip!("needs sysbench");
    }
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    let arms = "[[arm]]\nname = \"pgbench\"\nload = { driver = \"pgbench\", arguments = [\"-S\"], threads = 2, time = \"2s\" }\n\
         [[arm]]\nname = \"with its log\"\nload = { driver = \"pgbench\", arguments = [\"-S\", \"-l\", \"-R\", \"100\", \"-t\", \"200\"], warmup = \"1s\" }\n\
         [[arm]]\nname = \"sysbench\"\nassert = [\"errors=0\", \"p50<1ns\"]\n\
         load = { driver = \"sysbench\", arguments = [\"oltp_read_only\"], time = \"2s\" }\n\
         [[arm]]\nname = \"cut\"\nload = { driver = \"command\", command = [\"sleep\", \"300\"], time = \"1s\" }\n";
    let ours = "[[arm]]\nname = \"ours\"\nload = { workload = \"pgbench_tpcb_like\", events = 30, preheat = 50 }\n\
         assert = [\"errors=0\", \"update_account max<1h\"]\n";
    let fill = "pgbench = 1\nsecondary_indexes = 2\nk_distribution = \"zipfian\"";
    let text = experiment("postgresql", fill, &format!("{ours}{arms}"));
    run(&lab, &text).expect_code(1).expect_said(&["1 of 4 assertions failed: p50<1ns in arm 'sysbench': measured"]);
    let result = result(&lab);
    let ours = &arm(&result, "ours")["load"]["measured"];
    assert_eq!(
        (&ours["transactions"], &ours["statements"]["update_branch"]["service"]["count"]),
        (&30.into(), &30.into())
    );
    let events = result["events"].to_string();
    assert!(events.contains("k is zipfian") && events.contains("scale 1: 1 branches"), "{events}");
    let pgbench = arm(&result, "pgbench");
    assert!(pgbench["driven"]["understood"].as_str().is_some_and(|it| it.starts_with("pgbench")), "{pgbench:#}");
    let measured = &pgbench["load"]["measured"];
    assert!(measured["transactions"].as_u64().unwrap() > 0 && measured["queries"].is_null(), "{measured:#}");
    assert!(!pgbench["witnesses"].as_array().unwrap().is_empty(), "the server was asked");
    assert!(pgbench["driven"]["figures"]["latency_avg_us"].as_f64().unwrap() > 0.0);
    check_slots(pgbench, "mean_us");
    let logged = arm(&result, "with its log");
    check_slots(logged, "p99_us");
    assert!(logged["load"]["warmup"]["transactions"].as_u64().unwrap() > 0, "{logged:#}");
    let response = &logged["load"]["measured"]["transaction"]["response"];
    assert_eq!(response["count"], 200, "each of its transactions is in its log");
    check_sysbench(arm(&result, "sysbench"));
    let cut = &arm(&result, "cut")["driven"];
    assert_eq!(cut["exit_code"], 143, "ended by SIGTERM when its time was over: {cut:#}");
}

#[test]
fn a_driver_ends_with_a_run_that_is_killed() {
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    let arms = "[[arm]]\nname = \"one\"\nload = { driver = \"command\", command = [\"sleep\", \"300\"] }\n";
    let file = lab.write("driven.toml", &experiment("mariadb", "", arms));
    let mut run = lab.start("run", ["run", file.to_str().unwrap(), "--to", "out"]);
    let runs = wait_until(Duration::from_secs(120), || left(&lab).iter().any(|name| name == "sleep"));
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(runs, "{}", lab.said("run"));
    assert!(wait_until(Duration::from_secs(120), || left(&lab).is_empty()), "{:?}", left(&lab));
    lab.undo_own();
}

/// Not asserted by the programs' tests: what a workload of ours does not have is known before anything is made, with its line.
#[test]
fn an_assertion_about_a_class_that_there_is_not_is_refused() {
    let lab = Lab::new(WRINGER);
    let arms = "[[arm]]\nname = \"one\"\nload = { workload = \"oltp_point_select\" }\nassert = [\"errors=0\", \"commit p99<1s\"]\n";
    let text = experiment("mariadb", "", arms);
    let line = text.lines().position(|line| line.starts_with("assert")).unwrap() + 1;
    let file = lab.write("driven.toml", &text);
    for command in ["plan", "run"] {
        let place = format!("driven.toml:{line}:23: 'commit p99<1s'");
        let words = [place.as_str(), "no statements of the class 'commit', but point_select"];
        lab.run([command, file.to_str().unwrap()]).expect_code(2).expect_said(&words);
    }
    assert!(!lab.home().join("sandboxes").exists(), "nothing was made");
}

/// Before a server is looked for: neither `plan` nor `run` gets further.
#[test]
fn a_missing_program_or_script_is_refused() {
    let lab = Lab::new(WRINGER);
    let refused = |load: &str, expected: &[&str]| {
        let arms = format!("[[arm]]\nname = \"one\"\nload = {{ {load} }}\n");
        let file = lab.write("driven.toml", &experiment("mariadb", "", &arms));
        for command in ["plan", "run"] {
            lab.run([command, file.to_str().unwrap()]).expect_code(3).expect_said(expected);
        }
        Ran::of(lab.command(["plan", file.to_str().unwrap()]).env("PATH", "/nowhere")).expect_code(3)
    };
    let none = refused(
        "driver = \"command\", command = [\"./no-load\"]",
        &["arm 'one'", "no-load is no program", "nothing was changed"],
    );
    none.expect_said(&["no-load is no program"]);
    refused("driver = \"command\", command = [\"no-such-load\"]", &["no program no-such-load in PATH"]);
    if !on_path("sysbench") {
        testkit::skip!("needs sysbench");
    }
    let sysbench = |script: &str| format!("driver = \"sysbench\", arguments = [\"{script}\"]");
    refused(&sysbench("oltp_red_only"), &["no script oltp_red_only", "oltp_read_only"]);
    let missing = refused(&sysbench("./mine.lua"), &["mine.lua cannot be read", "from where the experiment's file is"]);
    missing.expect_said(&["sysbench is not on this machine", "the package is sysbench"]);
    assert!(!lab.home().join("sandboxes").exists(), "nothing was made");
}
