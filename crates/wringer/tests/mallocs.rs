// SPDX-License-Identifier: Apache-2.0
//! Who serves malloc in a server: each malloc on each kind of server under its right name, and no wrong name where a library is mapped
//! and serves nothing.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use testkit::{Lab, Ran, skip};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// The name that is asked for, and the one that serves then.
const EACH: [(&str, &str); 7] = [
    ("glibc", "glibc 2."),
    ("glibc-arenas2", "glibc 2."),
    ("glibc-trim", "glibc 2."),
    ("jemalloc", "jemalloc "),
    ("jemalloc-background", "jemalloc "),
    ("tcmalloc", "tcmalloc "),
    ("mimalloc", "mimalloc "),
];

fn deployed(server: &[&str]) -> Lab {
    let lab = Lab::new(WRINGER);
    let words = ["sandbox", "deploy"].iter().chain(server).chain(&["--name", "w"]);
    lab.run(words).expect_code(0);
    lab
}

fn start(lab: &Lab, words: &[&str]) -> Ran {
    lab.run(["sandbox", "start", "w"].iter().chain(words))
}

fn stop(lab: &Lab) {
    lab.run(["sandbox", "stop", "w"]).expect_code(0);
}

/// The line about malloc.
fn line(ran: &Ran) -> &str {
    let lines = ran.stderr.lines().map(str::trim);
    lines
        .into_iter()
        .find(|line| line.starts_with("malloc "))
        .unwrap_or_else(|| panic!("no line of malloc: {}", ran.stderr))
}

/// `None`: this machine has no package client, or no archive that answers; the test says that it was skipped.
fn library(lab: &Lab, malloc: &str) -> Option<PathBuf> {
    let ran = start(lab, &["--malloc", malloc]);
    if ran.code == Some(3) {
        return None;
    }
    let ran = ran.expect_code(0);
    let path = line(&ran).split_once('(').unwrap().1.split_once(')').unwrap().0.to_owned();
    stop(lab);
    Some(path.into())
}

/// A copy that nobody else can write, under another name.
fn copy(lab: &Lab, of: &Path, name: &str) -> String {
    let path = lab.home().join(name);
    std::fs::copy(of, &path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    path.display().to_string()
}

fn of_machine(name: &str) -> PathBuf {
    let folders = ["/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/lib"];
    let files = folders.map(|folder| Path::new(folder).join(name));
    files.into_iter().find(|path| path.is_file()).unwrap_or_else(|| panic!("{name} is on every machine with glibc"))
}

/// Of names that differ in the environment alone, `settings` says whether all are started.
fn each_is_named_right(server: &[&str], settings: bool) {
    let lab = deployed(server);
    for (asked, serving) in EACH.into_iter().filter(|(asked, _)| settings || !asked.contains('-')) {
        let ran = start(&lab, &["--malloc", asked]);
        if ran.code == Some(3) && ran.stderr.contains("this machine has no") {
            skip!("needs a package client and an archive that answers");
        }
        let ran = ran.expect_code(0);
        let said = line(&ran);
        assert!(said.starts_with(&format!("malloc      asked {asked}")), "{said}");
        assert!(said.contains(&format!("got {serving}")), "{asked}: {said}");
        assert!(said.contains("the address that") && !said.contains("DOUBT"), "{asked}: {said}");
        stop(&lab);
    }
    lab.run(["sandbox", "delete", "w"]).expect_code(0);
}

#[test]
fn each_on_mariadb() {
    each_is_named_right(&["mariadb"], false);
}

#[test]
fn each_on_postgresql() {
    each_is_named_right(&["postgresql"], true);
}

/// Debian's is linked with tcmalloc: glibc, too, must come ahead of it.
#[test]
fn each_on_mysql() {
    each_is_named_right(&["mysql"], false);
}

/// Its program is linked with jemalloc, which no preloaded library can replace: jemalloc is named, and all others are refused.
#[test]
fn each_on_xtradb() {
    if host::tool::find("mvn").is_none() {
        skip!("needs mvn");
    }
    let lab = deployed(&["xtradb", "5.6"]);
    let ran = start(&lab, &["--malloc", "jemalloc"]).expect_code(0);
    let said = line(&ran);
    assert!(said.contains("asked jemalloc, got jemalloc (") && said.contains("has it in itself"), "{said}");
    assert!(said.contains("the server says bundled jemalloc") && !said.contains("DOUBT"), "{said}");
    stop(&lab);
    for (asked, _) in EACH.into_iter().filter(|(asked, _)| !asked.starts_with("jemalloc")) {
        start(&lab, &["--malloc", asked])
            .expect_code(3)
            .expect_said(&["is linked with jemalloc of its own", "another build"]);
    }
    // its jemalloc 3 does not know these settings
    let refused = start(&lab, &["--malloc", "jemalloc-background"]).expect_code(3);
    refused.expect_said(&["MALLOC_CONF=background_thread", "without its settings"]);
}

#[test]
fn no_wrong_name_for_a_library_that_is_mapped_and_serves_nothing() {
    let lab = deployed(&["mariadb"]);
    let (Some(jemalloc), Some(mimalloc)) = (library(&lab, "jemalloc"), library(&lab, "mimalloc")) else {
        skip!("needs a package client and an archive that answers");
    };

    // without a malloc
    let without = copy(&lab, &of_machine("libm.so.6"), "libjemalloc.so.2");
    let ran = start(&lab, &["--malloc", &without]).expect_code(0);
    let said = line(&ran);
    assert!(said.contains("NOT AS ASKED: glibc 2.") && said.contains("the server says system"), "{said}");
    stop(&lab);

    // by another name
    let renamed = copy(&lab, &jemalloc, "libmine.so");
    let ran = start(&lab, &["--malloc", &format!("mine={renamed}")]).expect_code(0);
    let said = line(&ran);
    assert!(said.contains(&format!("asked mine ({renamed}), got jemalloc (")), "{said}");
    stop(&lab);

    // mapped behind the serving one: the server's own word is then of the wrong one
    let both = format!("{}:{}", mimalloc.display(), jemalloc.display());
    let mut command = lab.command(["sandbox", "start", "w"]);
    Ran::of(command.env("LD_PRELOAD", &both)).expect_code(0);
    let status = lab.run(["sandbox", "status", "w", "-o", "json"]).expect_code(0).stdout;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let pid = u32::try_from(status["sandboxes"][0]["pid"].as_u64().unwrap()).unwrap();
    let serving = malloc::serving(pid);
    assert_eq!((serving.name.as_str(), &serving.idle[..]), ("mimalloc", &["jemalloc".to_owned()][..]), "{serving:?}");
    let inferred = malloc::inferred(pid);
    assert_eq!((inferred.name.as_str(), inferred.how), ("mimalloc", malloc::How::Inferred), "{inferred:?}");
    stop(&lab);

    lab.run(["sandbox", "delete", "w"]).expect_code(0);
}

#[test]
fn a_static_program_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("held.c"), folder.path().join("held"));
    std::fs::write(&source, "#include <stdlib.h>\n#include <unistd.h>\nint main(void) { void *volatile p = malloc(9); write(1, p, 1); pause(); free(p); }\n")
        .unwrap();
    let built = Command::new("cc").arg("-static").arg("-o").args([&program, &source]).output();
    if !built.is_ok_and(|output| output.status.success()) {
        skip!("needs cc and a static C library");
    }
    let mut child = Command::new(&program)
        .env("LD_PRELOAD", of_machine("libc_malloc_debug.so.0"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // from then on it is loaded whole
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let serving = malloc::serving(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(
        (serving.name.as_str(), serving.kind, serving.how),
        ("unknown", None, malloc::How::Unknown),
        "{serving:?}"
    );
    assert!(serving.evidence.contains("static"), "{serving:?}");
}

/// Exit code 3, and nothing is started.
#[test]
fn a_library_that_does_not_fit_is_refused() {
    let lab = deployed(&["postgresql"]);
    let good = std::fs::read(of_machine("libc_malloc_debug.so.0")).unwrap();
    let written = |name: &str, bytes: &[u8]| {
        let path = lab.write(name, "");
        std::fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let mut foreign = good.clone();
    // e_machine: aarch64, or x86_64 there
    foreign[18] = if good[18] == 62 { 183 } else { 62 };
    let mut newer = good.clone();
    let version = b"\0GLIBC_2.2.5\0";
    let places: Vec<usize> = (0..good.len() - version.len()).filter(|at| good[*at..].starts_with(version)).collect();
    assert!(!places.is_empty() || good[18] != 62, "this library has symbols of GLIBC_2.2.5");
    places.iter().for_each(|at| newer[*at..*at + version.len()].copy_from_slice(b"\0GLIBC_9.9.9\0"));
    let refused = |path: &str, words: &[&str]| {
        start(&lab, &["--malloc", path]).expect_code(3).expect_said(words);
        let status = lab.run(["sandbox", "status", "w", "-o", "json"]).expect_code(0).stdout;
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        assert_eq!(status["sandboxes"][0]["pid"].as_u64(), None, "{path} was started");
    };
    refused(&written("foreign.so", &foreign), &["is for", "and the server is for", "a build for this machine"]);
    refused(&written("text.so", b"no library"), &["is no library"]);
    if !places.is_empty() {
        refused(&written("newer.so", &newer), &["needs GLIBC_9.9.9 of libc.so.6", "C library"]);
    }
    let open = written("open.so", &good);
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o666)).unwrap();
    refused(&open, &["can be written by everybody", "only you can write"]);
    refused(&written("a b.so", &good), &["splits its list"]);
    // the server runs as another user than root, and the loader would leave it out
    if testkit::is_root() {
        let closed = written("closed.so", &good);
        std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o600)).unwrap();
        refused(&closed, &["as whom the server would run, cannot read", "chmod a+r"]);
    }
    start(&lab, &["--malloc", "mine=x.so"]).expect_code(2).expect_said(&["no path of a library"]);
    start(&lab, &["--environment", "LD_PRELOAD=/x.so"]).expect_code(2).expect_said(&["--malloc"]);
}

/// Runs an experiment, and reads its result.
fn ran(lab: &Lab, file: &Path) -> serde_json::Value {
    lab.run(["run", file.to_str().unwrap(), "--to", "out"]).expect_code(0);
    let told = lab.run(["report", "out", "-o", "json"]).expect_code(0).stdout;
    serde_json::from_str(&told).unwrap()
}

/// What the server's memory came to at a mark of an arm.
fn footprint(told: &serde_json::Value, arm: &str, mark: &str) -> serde_json::Value {
    let snapshots = told["snapshots"].as_array().unwrap();
    let is_it =
        |it: &&serde_json::Value| it["source"] == "memory.footprint" && it["arm"] == arm && it["entity"] == mark;
    let found = snapshots.iter().find(is_it).unwrap_or_else(|| panic!("{arm} {mark}: {snapshots:#?}"));
    match &found["content"] {
        serde_json::Value::String(text) => serde_json::from_str(text).unwrap(),
        other => other.clone(),
    }
}

/// A load of PostgreSQL that is to stay leaves its processes, until the next such load; the one after it, which is not, adds none, and closes none. What
/// one of them holds moves the bytes asked for by that.
#[test]
fn the_processes_of_a_load_that_stays_are_there_at_the_marks() {
    let lab = Lab::new(WRINGER);
    let text = "schema = 1\nname = \"staying\"\n[server]\nflavour = \"postgresql\"\nmalloc = \"glibc\"\n\
                [server.options]\nautovacuum = false\n[fill]\nrows = 2000\n[load]\nworkload = \"oltp_point_select\"\ntime = \"2s\"\n\
                [[arm]]\nname = \"twelve\"\nload = { threads = 12, stay = true }\n[[arm]]\nname = \"five\"\nload = { threads = 5, stay = true }\n\
                [[arm]]\nname = \"closed\"\nload = { threads = 3, idle = \"2s\", at = [{ time = \"1s\", sql = \"DO $$ BEGIN PERFORM set_config('a.b', repeat('x', 67108864), false); END $$\", connection = \"own\", stay = true }] }\n";
    let told = ran(&lab, &lab.write("staying.toml", text));
    let processes = |arm: &str, mark: &str| footprint(&told, arm, mark)["processes"].as_u64().unwrap();
    let five = processes("five", "after");
    assert_eq!(processes("twelve", "after"), five + 12 - 5, "those of the load before are closed");
    assert_eq!(processes("five", "before"), five + 12 - 5, "until this load begins");
    assert_eq!(processes("closed", "idle"), five + 1, "and the one of the statement beside the load");
    let idle = footprint(&told, "closed", "idle");
    let got = |what: &str| {
        let mut rows = told["measured"].as_array().unwrap().iter();
        let row = rows.find(|row| row["what"] == what && row["arm"] == "closed").unwrap_or_else(|| panic!("no {what}"));
        assert!(row["witness"].as_str().unwrap().contains(&format!("{} processes", five + 1)), "{row}");
        row["got"]["value"].as_f64().unwrap()
    };
    let (rss, pss) = (got("idle.rss.end"), idle["pss_bytes"].as_f64().unwrap());
    assert!((rss / pss - 1.0).abs() < 0.1, "{rss} of all processes, and a moment later {pss}");
    assert_eq!(got("idle.vsz.end"), idle["vsz_bytes"].as_f64().unwrap());
    let before = footprint(&told, "closed", "before");
    let asked = |it: &serde_json::Value| it["asked_bytes"].as_f64().unwrap_or_else(|| panic!("{it:#}"));
    let moved = (asked(&idle) - asked(&before)) / f64::from(64 << 20);
    assert!((moved - 1.0).abs() < 0.02, "{moved} of 64 MiB; {before:#} {idle:#}");
    assert!(idle["asked_by"].as_str().unwrap().contains(&format!("the heaps of {} processes", five + 1)), "{idle:#}");
    assert!(
        asked(&before) < before["rss_bytes"].as_f64().unwrap(),
        "what the postmaster holds counts once: {before:#}"
    );
}

/// A cache of 64 MiB that the server is told to have moves what it has asked for by that, whoever serves; its RSS says nothing of it.
#[test]
fn what_is_held_moves_the_bytes_asked_for() {
    let lab = Lab::new(WRINGER);
    let packages = host::tool::find("apt-get").is_some();
    let mallocs: &[&str] = if packages { &["glibc", "jemalloc", "tcmalloc"] } else { &["glibc"] };
    let mut text = testkit::small_experiment("1s", "");
    for malloc in mallocs {
        for (name, bytes) in [("plain", 0), ("held", 64 << 20)] {
            text += &format!("[[arm]]\nname = \"{malloc} {name}\"\nserver.malloc = \"{malloc}\"\n");
            text += &format!("server.live.query_cache_size = {bytes}\n");
        }
    }
    let file = lab.write("held.toml", &text);
    let told = ran(&lab, &file);
    let at = |arm: &str, mark: &str| footprint(&told, arm, mark);
    for malloc in mallocs {
        // the first load has warmed the server up
        let (plain, held) = (at(&format!("{malloc} plain"), "after"), at(&format!("{malloc} held"), "before"));
        let asked = |it: &serde_json::Value| it["asked_bytes"].as_f64().unwrap_or_else(|| panic!("{it:#}"));
        let moved = (asked(&held) - asked(&plain)) / f64::from(64 << 20);
        assert!((moved - 1.0).abs() < 0.02, "{malloc}: {moved} of 64 MiB; {plain:#} {held:#}");
        assert!(held["asked_by"].as_str().unwrap().starts_with(malloc), "{held:#}");
        assert!(held["rss_bytes"].as_u64().unwrap() >= held["pss_bytes"].as_u64().unwrap(), "{held:#}");
    }
}

/// What the caller's shell has set is not in the server; what is asked for is, over the setting's own.
#[test]
fn the_environment_is_what_was_asked_for() {
    let lab = deployed(&["postgresql"]);
    let words = ["sandbox", "start", "w", "--malloc", "glibc-trim", "--environment", "MALLOC_TRIM_THRESHOLD_=65536"];
    let ran = Ran::of(lab.command(words).env("MALLOC_ARENA_MAX", "1")).expect_code(0);
    let said = ran.expect_said(&["environment asked MALLOC_TRIM_THRESHOLD_=65536, got so"]);
    assert!(!said.stderr.contains("NOT AS ASKED"), "{}", said.stderr);
    let status = lab.run(["sandbox", "status", "w", "-o", "json"]).expect_code(0).stdout;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let environ = std::fs::read(format!("/proc/{}/environ", status["sandboxes"][0]["pid"])).unwrap();
    let environ = String::from_utf8_lossy(&environ);
    assert!(environ.contains("MALLOC_TRIM_THRESHOLD_=65536") && !environ.contains("MALLOC_ARENA_MAX"), "{environ}");
    stop(&lab);
}
