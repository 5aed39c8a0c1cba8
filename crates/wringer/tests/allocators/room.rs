// SPDX-License-Identifier: Apache-2.0
//! More connections than this host lets a server have: refused before anything starts.

use super::{FILE, WRINGER};
use std::process::Command;
use testkit::{Lab, Ran};

#[test]
fn a_ladder_that_the_host_has_no_room_for_is_refused_before_anything_starts() {
    let lab = Lab::new(WRINGER);
    let file = lab.write("mallocs.toml", FILE);
    let like =
        lab.command(["allocators", file.to_str().unwrap(), "--to", "out", "--malloc", "glibc", "--threads", "512"]);
    let limited = |limit: &str| {
        let mut command = Command::new("bash");
        command.args(["-c", &format!("ulimit {limit} && exec \"$@\""), "bash"]).arg(like.get_program());
        command.args(like.get_args()).current_dir(lab.home());
        for (name, value) in like.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Ran::of(&mut command)
    };
    // 512 threads, 128 to spare, and what MySQL and MariaDB keep for tables
    let files = limited("-n 1449").expect_code(3);
    files.expect_said(&["640 connections need 1450 open files", "1449 of 1449 are free", "LimitNOFILE="]);
    let threads = limited("-u 700").expect_code(3);
    threads.expect_said(&["640 connections need 704 threads of one user", "700 of 700 are free", "LimitNPROC="]);
    for made in ["sandboxes", "out"] {
        assert!(!lab.home().join(made).exists(), "{made} was made");
    }
}
