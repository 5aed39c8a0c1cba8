// SPDX-License-Identifier: Apache-2.0
//! What `doctor` says works must be what the other commands do, as root and as an ordinary user.
#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used)]

use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use testkit::{Lab, is_root};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");
const FLAVOURS: [&str; 3] = ["mariadb", "mysql", "postgresql"];

fn doctor(lab: &Lab) -> Value {
    serde_json::from_str(&lab.run(["doctor", "-o", "json"]).expect_code(0).stdout).unwrap()
}

/// The feature or check of this id.
fn one<'a>(said: &'a Value, list: &str, id: &str) -> &'a Value {
    let items = said[list].as_array().unwrap();
    items.iter().find(|it| it["id"] == id).unwrap_or_else(|| panic!("no {id} in {said:#}"))
}

/// `ram hide` takes a balloon where there is no root, and so hiding RAM works.
#[test]
fn an_ordinary_user_hides_ram_by_a_balloon() {
    let lab = Lab::as_ordinary_user(WRINGER);
    let said = doctor(&lab);
    assert_eq!(one(&said, "checks", "root")["state"], "missing");
    assert_eq!(one(&said, "features", "hide-ram")["works"], true);
    let found = one(&said, "checks", "ram-mechanism")["found"].as_str().unwrap();
    assert!(found.contains("balloon") && found.contains("no root"), "{found}");
    let plan = lab.run(["ram", "hide", "64M", "--dry-run"]).expect_code(0).stdout;
    assert!(plan.contains("balloon"), "{plan}");
    lab.run(["doctor", "--need", "hide-ram"]).expect_code(0);
    lab.run(["doctor", "--need", "slow-folder"]).expect_code(3).expect_said(&["slow-folder"]);
}

#[test]
fn root_is_told_the_mechanism_that_ram_hide_takes() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let lab = Lab::new(WRINGER);
    let said = doctor(&lab);
    assert_eq!(one(&said, "checks", "root")["state"], "good");
    let found = one(&said, "checks", "ram-mechanism")["found"].as_str().unwrap();
    let plan = lab.run(["ram", "hide", "64M", "--dry-run", "-o", "json"]).expect_code(0).stdout;
    let plan: Value = serde_json::from_str(&plan).unwrap();
    let taken = plan["plan"]["mechanism"].as_str().unwrap();
    assert!(found.contains(taken), "doctor: {found}, plan: {taken}");
}

/// What `wringer memory`, `hugepages`, `server.malloc`, `server.thp` and `server.pgbouncer` need each has a check.
#[test]
fn doctor_knows_what_the_commands_of_memory_need() {
    let ordinary = Lab::as_ordinary_user(WRINGER);
    let said = doctor(&ordinary);
    for id in ["huge-pages", "thp", "pgbouncer", "mallocs", "mappings", "pagemap", "process-memory", "kernel-log"] {
        assert!(!one(&said, "checks", id)["found"].as_str().unwrap().is_empty(), "{id}");
    }
    let mappings = one(&said, "checks", "mappings");
    assert_eq!(mappings["state"], "caution", "{mappings:#}");
    assert!(mappings["remedy"].as_str().unwrap().contains("root"), "{mappings:#}");
    ordinary.run(["doctor", "--need", "memory"]).expect_code(0);
    ordinary.run(["doctor", "--need", "hugepages"]).expect_code(3).expect_said(&["hugepages"]);
    if is_root() {
        let said = doctor(&Lab::new(WRINGER));
        // a page of another user's process: what the doctor says of it is what the kernel does
        let counts = std::fs::File::open("/proc/kpagecount").is_ok();
        assert!(counts || one(&said, "checks", "pagemap")["state"] == "caution", "{said:#}");
        let log = std::fs::File::open("/dev/kmsg").is_ok();
        assert_eq!(one(&said, "checks", "kernel-log")["state"] == "good", log, "{said:#}");
    }
}

/// Doctor and plan look for a server in one way, so that they name one program.
#[test]
fn doctor_and_plan_name_the_same_server() {
    for lab in [Lab::new(WRINGER), Lab::as_ordinary_user(WRINGER)] {
        let said = doctor(&lab);
        let servers = lab.run(["sandbox", "available", "-o", "json"]);
        let servers: Value = serde_json::from_str(&servers.stdout).unwrap();
        for flavour in FLAVOURS {
            let here = |row: &&Value| row["flavour"] == flavour && row["from"] != "offered";
            let check = one(&said, "checks", flavour);
            let place =
                servers["servers"].as_array().unwrap().iter().find(here).map(|row| row["place"].as_str().unwrap());
            match place {
                Some(place) => assert!(check["found"].as_str().unwrap().contains(place), "{check:#}, not {place}"),
                None => assert_ne!(check["state"], "good", "{check:#}"),
            }
        }
    }
}

/// Oracle's server has the name of MariaDB's older one, and is another: it comes first in the search path here.
#[test]
fn a_server_of_another_maker_is_not_mariadb() {
    let lab = Lab::new(WRINGER);
    let folder = lab.home().join("oracle/bin");
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["mariadbd", "mysqld"] {
        let program = folder.join(name);
        std::fs::write(
            &program,
            "#!/bin/sh\necho 'mysqld  Ver 8.0.36 for Linux on x86_64 (MySQL Community Server - GPL)'\n",
        )
        .unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = lab.command(["doctor", "-o", "json"]);
    command.env("PATH", format!("{}:{}", folder.display(), std::env::var("PATH").unwrap()));
    let said: Value = serde_json::from_str(&testkit::Ran::of(&mut command).expect_code(0).stdout).unwrap();
    let found = one(&said, "checks", "mariadb")["found"].as_str().unwrap();
    assert!(!found.contains("oracle"), "{found}");
}

/// The same work is others' in one look and the doctor's own in the other one: each is the other's control, however busy this host is.
#[test]
fn doctor_sees_a_program_that_burns_cpu() {
    let lab = Lab::new(WRINGER);
    // of the CPU time that the hypervisor leaves: what it takes differs between the two looks
    let share = |said: &Value| {
        let check = one(said, "checks", "quiet");
        let found = check["found"].as_str().unwrap();
        let percent = |after: &str| {
            let (_, rest) = found.split_once(after).unwrap_or_else(|| panic!("no '{after}' in {found}"));
            rest.split(' ').next().unwrap().parse::<f64>().unwrap()
        };
        let left = 100.0 - percent("the hypervisor takes ");
        println!("{found}");
        (percent("other programs use ") * 100.0 / left, check["state"].as_str().unwrap().to_owned())
    };
    let cpus = std::thread::available_parallelism().unwrap().get();
    let burn = || Killed(std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap());
    let burning: Vec<Killed> = (0..cpus).map(|_| burn()).collect();
    let (busy, state) = share(&doctor(&lab));
    drop(burning);
    // children of the doctor's, for it takes the shell's place; they end with it
    let script =
        format!("for cpu in $(seq {cpus}); do (while kill -0 $$; do :; done) >/dev/null 2>&1 & done; exec \"$@\"");
    let mut looks = std::process::Command::new("sh");
    looks.args(["-c", &script, "sh", WRINGER, "doctor", "-o", "json"]).current_dir(lab.home());
    for (name, value) in lab.command(["doctor"]).get_envs() {
        looks.env(name, value.unwrap_or_default());
    }
    let (without, _) = share(&serde_json::from_str(&testkit::Ran::of(&mut looks).expect_code(0).stdout).unwrap());
    assert_eq!(state, "caution");
    assert!(busy > 30.0 && busy > without, "{busy} % beside {cpus} that burn, {without} % where they are its own");
}

struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
