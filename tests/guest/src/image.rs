// SPDX-License-Identifier: Apache-2.0
//! The guest's first root: busybox, the kernel's modules, the program, and the cases.

use crate::cpio::Archive;
use crate::parts::{Parts, here, is_loader};
use std::fs;
use std::path::Path;

const FOLDERS: [&str; 15] = [
    "bin",
    "cases",
    "data",
    "dev",
    "etc",
    "modules",
    "proc",
    "run",
    "servers",
    "sys",
    "tmp",
    "usr",
    "usr/lib",
    OWN_LIBRARIES,
    "var",
];

/// The program's own libraries: the loader searches here where `/lib`, which is on the disk of servers, has none.
const OWN_LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// Programs of the tests that are in the guest beside the program.
pub(crate) const BESIDE: [&str; 3] = ["squeeze-test-server-ram", "squeeze-test-dmsetup", "sandbox-test-commits"];

/// The archive for one boot. `cases` are names of scripts below `cases/`, without the ending.
pub fn initramfs(parts: &Parts, cases: &[&str]) -> Vec<u8> {
    let mut archive = Archive::default();
    for folder in FOLDERS {
        archive.folder(folder);
    }
    // with a static program, only the servers need a loader, and it is on their disk
    if parts.libraries.is_empty() {
        archive.link("lib64", "servers/lib64")
    } else {
        archive.folder("lib64")
    };
    let mut add = |name: &str, permissions: u32, path: &Path| {
        archive.file(name, permissions, &read(path));
    };
    add("init", 0o755, &here("init.sh"));
    add("lib.sh", 0o644, &here("lib.sh"));
    add("bin/host-snapshot", 0o755, &here("../host-snapshot"));
    add("bin/busybox", 0o755, &parts.kernel.join("busybox"));
    add("bin/wringer", 0o755, &parts.wringer);
    for beside in BESIDE {
        add(&format!("bin/{beside}"), 0o755, &parts.wringer.with_file_name(beside));
    }
    for library in &parts.libraries {
        let folder = if is_loader(library) { "lib64" } else { OWN_LIBRARIES };
        add(&format!("{folder}/{}", file_name(library)), 0o755, library);
    }
    for module in fs::read_dir(parts.kernel.join("modules")).expect("list the modules").flatten() {
        add(&format!("modules/{}", module.file_name().display()), 0o644, &module.path());
    }
    for case in cases {
        add(&format!("cases/{case}.sh"), 0o644, &here(&format!("cases/{case}.sh")));
    }
    archive.file("cases.list", 0o644, (cases.join("\n") + "\n").as_bytes());
    archive.file("etc/passwd", 0o644, b"root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n");
    archive.file("etc/group", 0o644, b"root:x:0:\nnogroup:x:65534:\n");
    archive.link("bin/sh", "busybox");
    // for the real servers, if their disk is there
    archive.link("lib", "servers/lib");
    archive.finish()
}

fn file_name(path: &Path) -> String {
    path.file_name().expect("a file has a name").to_string_lossy().into_owned()
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
}
