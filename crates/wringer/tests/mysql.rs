// SPDX-License-Identifier: Apache-2.0
//! MySQL, which most machines' own suite lacks: fetched from another one with the C library it needs, and a sandbox like any other.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use testkit::{Lab, own_uid, shared_cache};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

fn json(lab: &Lab, args: &[&str]) -> Value {
    serde_json::from_str(&lab.run(args).expect_code(0).stdout).unwrap()
}

/// Files with `.so` in their names that the process has mapped.
fn libraries(pid: u64) -> Vec<String> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let paths = maps.lines().filter_map(|line| line.find('/').map(|start| line[start..].to_owned()));
    let mut paths: Vec<String> = paths.filter(|path| path.contains(".so")).collect();
    paths.dedup();
    paths
}

#[test]
fn from_the_first_command_to_the_last() {
    let lab = Lab::new(WRINGER);
    lab.run(["sandbox", "deploy", "mysql@9", "--name", "my", "-c", "innodb-buffer-pool-size=24M"]).expect_code(0);
    lab.run(["sandbox", "start", "my", "--for", "10m"]).expect_code(0);
    let sandbox = &json(&lab, &["sandbox", "status", "my", "-o", "json"])["sandboxes"][0];
    let pid = sandbox["pid"].as_u64().unwrap_or_else(|| panic!("{sandbox:#}"));

    let tree = shared_cache(own_uid()).join("servers").canonicalize().unwrap();
    let own_c_library = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap().starts_with("ld-linux");
    if own_c_library {
        let strangers: Vec<String> =
            libraries(pid).into_iter().filter(|path| !Path::new(path).starts_with(&tree)).collect();
        assert!(strangers.is_empty(), "made for another C library: {strangers:?}");
    }

    let asked = "SELECT @@innodb_buffer_pool_size, @@performance_schema, @@bind_address, @@log_bin, @@innodb_flush_method, \
                 (SELECT group_concat(DISTINCT user ORDER BY user) FROM mysql.user), current_user()";
    let rows = &json(&lab, &["sandbox", "use", "my", asked, "-o", "json"])["rows"][0];
    let users = "mysql.infoschema,mysql.session,mysql.sys,wringer";
    let expected = ["25165824", "1", "127.0.0.1", "0", "O_DIRECT", users, "wringer@localhost"];
    assert_eq!(rows, &Value::from(expected.to_vec()));
    // the socket of the X protocol, which is somewhere else, and a port that nobody has asked for
    let plugin = "SELECT plugin_status FROM information_schema.plugins WHERE plugin_name = 'mysqlx'";
    assert_eq!(json(&lab, &["sandbox", "use", "my", plugin, "-o", "json"])["rows"][0][0], "DISABLED");

    let dsn = lab.run(["sandbox", "export", "my", "dsn"]).expect_code(0).stdout;
    let dsn = format!("--dsn={}", dsn.trim());
    lab.run(["fill", &dsn, "--table-size=2000"]).expect_code(0);
    let load = ["load", "oltp_read_write", &dsn, "--table-size=2000", "--threads=2", "--events=50", "-o", "json"];
    let loaded = json(&lab, &load);
    assert!(loaded["load"]["measured"]["transactions"].as_u64().unwrap() >= 50, "{loaded:#}");

    let log = lab.run(["sandbox", "log", "my"]).expect_code(0).stdout;
    assert!(log.contains("ready for connections"), "{log}");
    lab.run(["sandbox", "delete", "my"]).expect_code(3).expect_said(&["running", "--force"]);
    lab.run(["sandbox", "stop", "my"]).expect_code(0);
    assert!(!standing::is_alive(pid));
    let kept = lab.run(["sandbox", "delete", "my"]).expect_code(0).stderr;
    assert!(!kept.contains("left where it is"), "{kept}");
}

/// The lists of the machine's own suites are there; then nothing answers any more.
#[test]
fn a_suite_that_does_not_answer_is_a_refusal() {
    let lab = Lab::new(WRINGER);
    lab.run(["sandbox", "fetch", "mysql"]).expect_code(0);
    let shared = shared_cache(own_uid());
    let own = lab.home().join("cache");
    fs::create_dir(&own).unwrap();
    let copied = Command::new("cp").arg("-a").arg(shared.join("apt")).arg(&own).status().unwrap();
    assert!(copied.success());
    fs::write(own.join("apt/updated"), "").unwrap();
    // a port of the machine that nothing listens on, and none of the machine's own settings
    let proxies = ["http", "https"].map(|kind| format!("Acquire::{kind}::Proxy \"http://127.0.0.1:9/\";\n")).concat();
    let settings =
        "Dir::Etc::parts \"/dev/null\";\nDir::Etc::main \"/dev/null\";\nAcquire::Retries::Delay \"false\";\n";
    let settings = lab.write("apt.conf", &(settings.to_owned() + &proxies));
    let mut fetch = lab.command(["sandbox", "fetch", "mysql"]);
    let refused = testkit::Ran::of(fetch.env("WRINGER_CACHE", &own).env("APT_CONFIG", settings));
    let refused = refused.expect_code(3).expect_said(&["no mysql on this machine", "sid", "127.0.0.1", "hint:"]);
    assert!(!refused.stderr.contains("panicked"), "{}", refused.stderr);
    let left: Vec<_> = fs::read_dir(own.join("servers")).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, [".lock"]);
}
