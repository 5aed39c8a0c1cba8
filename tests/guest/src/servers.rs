// SPDX-License-Identifier: Apache-2.0
//! Real database servers for a guest. One disk has the programs, as Wringer has fetched and unpacked them, and their libraries. Another disk has a
//! sandbox of each server, deployed on this machine, because the deployment would take a minute on an emulated processor. Both disks are kept in the
//! tests' cache, and made anew when the servers or the program have changed.

use crate::disk::Disk;
use crate::parts::{Parts, is_loader, libraries_of};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

#[derive(Debug)]
pub struct Servers {
    folder: PathBuf,
}

/// The place in the guest of the disk with the programs, which is Wringer's cache there. `init.sh` mounts it.
const PROGRAMS: &str = "/servers";
/// Wringer's home in the guest; the disk of sandboxes must be mounted at its folder `sandboxes`.
const HOME: &str = "/data/home";

/// Options for small servers, because the machine is small and slow.
const OPTIONS: [(&str, &[&str]); 2] = [
    (
        "mariadb",
        &[
            "performance_schema=OFF",
            "innodb_buffer_pool_size=16M",
            "innodb_log_file_size=4M",
            "aria_pagecache_buffer_size=1M",
            "max_connections=10",
        ],
    ),
    (
        "postgresql",
        &[
            "wal_segment_size=1",
            "max_wal_size=16MB",
            "min_wal_size=2MB",
            "shared_buffers=16MB",
            "max_connections=10",
            "autovacuum=off",
            "jit=off",
            // beside another server that never waits, a login takes a minute on an emulated processor, and PostgreSQL's own limit is one
            "authentication_timeout=600",
            // the guest has no database of time zones
            "timezone=GMT",
            "log_timezone=GMT",
        ],
    ),
];

/// Parts of an unpacked server that the guest does not need: files with these words in their path.
const LEFT_OUT: [&str; 9] = [
    "/usr/bin/",
    "/usr/share/locale/",
    "/usr/share/doc/",
    "/usr/share/man/",
    "/share/postgresql/15/man/",
    "/bitcode/",
    "/llvmjit",
    "/share/mysql/fill_help_tables",
    "/share/mysql/mysql_sys_schema",
];

/// The disks with servers, which are made once for all tests.
pub fn servers(parts: &Parts) -> &'static Servers {
    static SERVERS: OnceLock<Servers> = OnceLock::new();
    SERVERS.get_or_init(|| Servers::make(parts))
}

impl Servers {
    /// A copy of the disk with the sandboxes `mariadb` and `postgresql`, for one guest.
    pub fn sandboxes(&self, folder: &Path, name: &str) -> Disk {
        Disk::copy(&self.folder.join("sandboxes.raw"), folder, name)
    }

    /// The disk with the programs: no guest writes to it.
    pub fn programs(&self) -> Disk {
        Disk::read_only(&self.folder.join("programs.raw"))
    }

    fn make(parts: &Parts) -> Self {
        let cache = testkit::shared_cache(testkit::own_uid());
        let folder = cache.join("guest/servers");
        fs::create_dir_all(&folder).expect("make the cache");
        let lock = File::create(folder.join(".lock")).expect("make a lock");
        lock.lock().expect("lock the cache");
        for (flavour, _) in OPTIONS {
            wringer(parts, &folder, &["sandbox", "fetch", flavour]);
        }
        let key = key(parts, &cache);
        if fs::read_to_string(folder.join("key")).is_ok_and(|made| made == key) {
            return Self { folder };
        }
        // the deployment runs processes of Wringer on this machine, and other tests may be comparing the host before and after
        let _alone = testkit::alone();
        let _ = fs::remove_file(folder.join("key"));
        let stage = tempfile::Builder::new().prefix(".new-").tempdir_in(&folder).expect("make a folder");
        make_programs(parts, &cache, &folder, stage.path());
        make_sandboxes(parts, &cache, &folder, stage.path());
        fs::write(folder.join("key"), key).expect("write the key");
        Self { folder }
    }
}

/// The disks are made anew when this text changes: it is computed from this file, the servers and the program.
fn key(parts: &Parts, cache: &Path) -> String {
    let mut key = include_str!("servers.rs").to_owned();
    for tree in trees(cache) {
        key += &fs::read_to_string(tree.with_file_name("fetched.json")).expect("read what was fetched");
    }
    let program = fs::metadata(&parts.wringer).expect("look at the program");
    key + &format!("{} {:?}\n", program.len(), program.modified().expect("a time"))
}

/// The folders `servers/<flavour>-<version>/tree` of Wringer's cache, for the servers that are wanted.
fn trees(cache: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(cache.join("servers")).expect("list the servers").flatten();
    let is_wanted = |name: &str| OPTIONS.iter().any(|(flavour, _)| name.starts_with(&format!("{flavour}-")));
    let mut trees: Vec<PathBuf> = entries
        .filter(|entry| is_wanted(&entry.file_name().to_string_lossy()))
        .map(|entry| entry.path().join("tree"))
        .filter(|tree| tree.is_dir())
        .collect();
    trees.sort();
    trees
}

fn make_programs(parts: &Parts, cache: &Path, folder: &Path, stage: &Path) {
    let root = stage.join("programs");
    let mut libraries = BTreeSet::new();
    for tree in trees(cache) {
        let server = tree.strip_prefix(cache).expect("it is below the cache");
        run(Command::new("mkdir").arg("-p").arg(root.join(server)));
        let record = Path::new(server).with_file_name("fetched.json");
        fs::copy(cache.join(&record), root.join(&record)).expect("copy what was fetched");
        for file in files_below(&tree) {
            let shown = file.display().to_string();
            if LEFT_OUT.iter().any(|words| shown.contains(words)) || is_other_language(&shown) {
                continue;
            }
            let to = root.join(file.strip_prefix(cache).expect("it is below the cache"));
            fs::create_dir_all(to.parent().expect("a folder")).expect("make a folder");
            run(Command::new("cp").arg("-a").arg(&file).arg(&to));
            libraries.extend(libraries_of(&file, Some(&tree)));
        }
    }
    for library in libraries {
        // the loader has a folder of its own; the loader finds all other libraries in the first folder that it searches
        let place = root.join(if is_loader(&library) { "lib64" } else { "lib/x86_64-linux-gnu" });
        fs::create_dir_all(&place).expect("make a folder");
        run(Command::new("cp").arg("-L").arg(&library).arg(place));
    }
    let disk = folder.join("programs.raw");
    Disk::filled(parts, &disk, &root, 0, &["-m", "0", "-O", "^has_journal"]);
    // the guest runs as root, which uses no programs from a folder of another user: here they are of whoever runs the tests
    for place in ["/", "/servers"] {
        let request = format!("set_inode_field {place} uid 0");
        run(Command::new(parts.mke2fs.with_file_name("debugfs")).args(["-w", "-R", &request]).arg(&disk));
    }
}

/// Whether the file has messages of the server in another language than English.
fn is_other_language(file: &str) -> bool {
    file.ends_with("/errmsg.sys") && !file.contains("/english/")
}

fn make_sandboxes(parts: &Parts, cache: &Path, folder: &Path, stage: &Path) {
    // servers run as another user, who must be able to pass through the folder
    run(Command::new("chmod").arg("711").arg(stage));
    let home = stage.join("home");
    for (flavour, options) in OPTIONS {
        let options = options.iter().flat_map(|option| ["-c", option]);
        let words = ["sandbox", "deploy", flavour, "--name", flavour, "--fetched"].into_iter();
        wringer(parts, &home, &words.chain(options).collect::<Vec<_>>());
        let sandbox = home.join("sandboxes").join(flavour);
        for name in ["manifest.json", "server.cnf"] {
            let file = sandbox.join(name);
            let text = fs::read_to_string(&file).expect("read what was deployed");
            let there = text.replace(&shown(&home), HOME).replace(&shown(cache), PROGRAMS);
            fs::write(file, there).expect("write it for the guest");
        }
    }
    Disk::filled(parts, &folder.join("sandboxes.raw"), &home.join("sandboxes"), 192, &["-m", "0"]);
}

fn shown(path: &Path) -> String {
    path.canonicalize().expect("it is there").display().to_string()
}

/// Runs the guest's program on this machine, with the servers of this machine's cache.
fn wringer(parts: &Parts, home: &Path, words: &[&str]) {
    let cache = testkit::shared_cache(testkit::own_uid());
    run(Command::new(&parts.wringer).args(words).env("WRINGER_HOME", home).env("WRINGER_CACHE", cache));
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("list a folder").flatten() {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder { folders.push(entry.path()) } else { files.push(entry.path()) }
        }
    }
    files
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("start {command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
