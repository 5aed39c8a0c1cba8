// SPDX-License-Identifier: Apache-2.0
//! Boots the guest for one case and prints what stands behind the word FIGURE on its console. For measurements; tests are in `tests/`.
#![allow(clippy::expect_used, clippy::print_stdout)]

use guest::{Disk, Machine, initramfs, parts};
use std::process::ExitCode;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(600);

fn main() -> ExitCode {
    let case = std::env::args().nth(1).unwrap_or_else(|| "dm_figures".to_owned());
    let parts = match parts() {
        Ok(parts) => parts,
        Err(why) => {
            println!("no guest: {why}");
            return ExitCode::from(3);
        }
    };
    let folder = tempfile::tempdir().expect("make a folder for the guest");
    let disk = Disk::make(parts, folder.path(), "data", 256);
    let initramfs = initramfs(parts, &[&case]);
    let (disks, folder) = ([&disk], folder.path());
    let machine =
        Machine { parts, initramfs: &initramfs, disks: &disks, memory_mib: 1024, words: "", folder, name: "figures" };
    let mut running = machine.boot();
    let mut good = false;
    running.follow(LIMIT, |line| {
        if let Some(kernel) = line.strip_prefix("GUEST is up: ") {
            println!("{kernel}");
        }
        if let Some(figure) = line.strip_prefix("FIGURE ") {
            println!("{figure}");
        }
        good |= line.starts_with(&format!("CASE {case} ok"));
        line == "GUEST ends"
    });
    if !good {
        println!("{}", running.last_words());
    }
    ExitCode::from(u8::from(!good))
}
