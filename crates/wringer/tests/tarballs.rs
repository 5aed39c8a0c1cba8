// SPDX-License-Identifier: Apache-2.0
//! Servers from archives: real ones, in the layouts and under the names of their makers; damaged, foreign and interrupted ones.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod own_cache;

use own_cache::*;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use testkit::{Lab, Ran, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// A tarball of a real tree, under a name that says something else, and packed below a folder as makers do.
fn tarball(lab: &Lab) -> (PathBuf, PathBuf) {
    let program = run(lab, &["sandbox", "fetch", "postgresql@18"]).expect_code(0).stdout;
    let tree = Path::new(program.trim()).ancestors().nth(2).unwrap().to_owned();
    let archive = lab.home().join("mysql-5.5.0-linux.tar.gz");
    pack(&tree, &archive);
    (tree, archive)
}

fn pack(tree: &Path, archive: &Path) {
    let mut command = Command::new("tar");
    command.args(["--use-compress-program=gzip -1", "--transform=s,^tree,top/pgsql,", "-cf"]).arg(archive);
    command.arg("-C").arg(tree.parent().unwrap()).arg("tree");
    // 1: a test beside this one has made a link to a file of the tree, or taken one away, which changes its time and not its content
    let code = command.status().unwrap().code();
    assert!(matches!(code, Some(0 | 1)), "tar: {code:?}");
}

fn sha256(path: &Path) -> String {
    let output = Command::new("sha256sum").arg(path).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split_whitespace().next().unwrap().to_owned()
}

#[test]
fn a_tarball_is_what_the_server_in_it_says() {
    need_maven!();
    let lab = Lab::new(WRINGER);
    let (_, archive) = tarball(&lab);
    let name = archive.to_str().unwrap();
    let own = lab.home().join("own-cache");
    let own_run = |args: &[&str]| Ran::of(lab.command(args).env("WRINGER_CACHE", &own));

    let wrong = "0".repeat(64);
    own_run(&["sandbox", "unpack", name, "--sha256", &wrong]).expect_code(3).expect_said(&["SHA-256", &wrong]);
    own_run(&["sandbox", "unpack", name, "--sha256", "12"]).expect_code(2).expect_said(&["64 hexadecimal digits"]);
    let other = own_run(&["sandbox", "unpack", name, "--flavour", "mysql"]);
    other.expect_code(3).expect_said(&["postgresql 18", "not mysql"]);
    assert!(entries(&own).iter().all(|name| name == ".lock"), "{:?}", entries(&own));

    let sum = sha256(&archive);
    own_run(&["sandbox", "unpack", name, "--sha256", &sum.to_uppercase()]).expect_code(0);
    let [_, entry] = &entries(&own)[..] else { panic!("{:?}", entries(&own)) };
    assert!(entry.starts_with("postgresql-18.") && entry.ends_with(&sum[..12]), "{entry}");
    let record = fs::read_to_string(own.join("servers").join(entry).join("fetched.json")).unwrap();
    assert!(record.contains(&sum) && record.contains("mysql-5.5.0-linux.tar.gz"), "{record}");

    own_run(&["sandbox", "deploy", name, "--name", "u", "--start"])
        .expect_code(0)
        .expect_said(&["archive mysql-5.5.0"]);
    let said = own_run(&["sandbox", "use", "u", "SHOW server_version"]).expect_code(0).stdout;
    assert!(said.contains("18."), "{said}");
    own_run(&["sandbox", "delete", "u", "--force"]).expect_code(0);
    assert_eq!(entries(&own).len(), 2, "the second time it was known");
}

#[test]
fn a_tarball_that_is_cut_short_or_for_another_machine_leaves_nothing() {
    need_maven!();
    let lab = Lab::new(WRINGER);
    let (tree, archive) = tarball(&lab);
    let own = lab.home().join("own-cache");
    let refused = |name: &Path, words: &[&str]| {
        let ran = Ran::of(lab.command(["sandbox", "unpack", name.to_str().unwrap()]).env("WRINGER_CACHE", &own));
        ran.expect_code(3).expect_said(words);
        assert!(entries(&own).iter().all(|name| name == ".lock"), "{:?}", entries(&own));
    };
    let bytes = fs::read(&archive).unwrap();
    refused(&lab.write("text.tar.gz", "not packed at all"), &["no tar file"]);
    let half = lab.home().join("half.tar.gz");
    fs::write(&half, &bytes[..bytes.len() / 2]).unwrap();
    refused(&half, &["damaged"]);
    refused(&lab.home().join("no.tar.gz"), &["no.tar.gz"]);
    refused(lab.home(), &["it is no file"]);

    // e_machine in the header of the program (elf(5)): s390x
    let foreign = lab.home().join("foreign/tree");
    fs::create_dir_all(foreign.join("bin")).unwrap();
    let mut program = fs::read(tree.join("bin/postgres")).unwrap();
    program[18..20].copy_from_slice(&22_u16.to_le_bytes());
    fs::write(foreign.join("bin/postgres"), program).unwrap();
    fs::set_permissions(foreign.join("bin/postgres"), fs::Permissions::from_mode(0o755)).unwrap();
    let archive = lab.home().join("foreign.tar.gz");
    pack(&foreign, &archive);
    refused(&archive, &["s390x", std::env::consts::ARCH]);

    fs::remove_file(foreign.join("bin/postgres")).unwrap();
    fs::write(foreign.join("bin/readme"), "").unwrap();
    pack(&foreign, &archive);
    refused(&archive, &["it holds no server"]);
}

/// A fetched server in the layout of its maker's tarball, packed under the maker's name.
struct Maker {
    /// `mysql-9.7.4-linux-glibc2.28-x86_64`
    top: String,
    folder: PathBuf,
}

impl Maker {
    fn new(lab: &Lab, top: String) -> Self {
        let folder = lab.home().join("makers").join(&top);
        fs::create_dir_all(folder.join("bin")).unwrap();
        Self { top, folder }
    }

    fn take(&self, from: &Path, to: &str) {
        let to = self.folder.join(to);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success(), "{}", from.display());
    }

    fn pack(&self, program: &str, ending: &str) -> PathBuf {
        let archive = self.folder.with_file_name(format!("{}.{ending}", self.top));
        let mut command = Command::new("tar");
        command.arg(format!("--use-compress-program={program}")).arg("-cf").arg(&archive);
        command.arg("-C").arg(self.folder.parent().unwrap()).arg(&self.top);
        assert!(command.status().unwrap().success());
        archive
    }
}

/// Version and tree of a fetched server.
fn fetched(lab: &Lab, server: &str) -> (String, PathBuf) {
    let ran = run(lab, &["sandbox", "fetch", server]).expect_code(0);
    let program = PathBuf::from(ran.stdout.trim());
    let tree = program.ancestors().find(|folder| folder.ends_with("tree")).unwrap().to_owned();
    let entry = tree.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
    (entry.rsplit_once('-').unwrap().1.to_owned(), tree)
}

/// A MySQL that says it was made by Percona, as that one's does: `Ver 8.0.36-28 for Linux on x86_64 (Percona Server (GPL), ...)`.
fn call_it_percona(program: &Path) {
    let mut bytes = fs::read(program).unwrap();
    let at = bytes.windows(9).position(|bytes| bytes == b"(Debian)\0").unwrap();
    bytes[at..at + 8].copy_from_slice(b"Percona!");
    fs::write(program, bytes).unwrap();
}

/// What MySQL's and Percona's tarballs share. The C library comes along, because that of the package is newer than this machine's.
fn mysql_layout(maker: &Maker, tree: &Path) {
    for program in ["usr/sbin/mysqld", "usr/bin/mysql"] {
        maker.take(&tree.join(program), "bin/");
    }
    for folder in ["share/english", "share/charsets"] {
        maker.take(&tree.join("usr/share/mysql").join(Path::new(folder).file_name().unwrap()), folder);
    }
    maker.take(&tree.join("usr/lib/x86_64-linux-gnu"), "lib");
    for needless in ["gconv", "engines-3", "krb5"] {
        fs::remove_dir_all(maker.folder.join("lib").join(needless)).unwrap();
    }
    fs::create_dir(maker.folder.join("lib/private")).unwrap();
    symlink("../libssl.so.3", maker.folder.join("lib/private/libssl.so.3")).unwrap();
}

#[test]
fn the_tarballs_of_their_makers() {
    let lab = Lab::new(WRINGER);
    let own = lab.home().join("own-cache");
    let own_run = |args: &[&str]| Ran::of(lab.command(args).env("WRINGER_CACHE", &own));

    let (version, tree) = fetched(&lab, "mariadb@10.11");
    let mariadb = Maker::new(&lab, format!("mariadb-{version}-linux-systemd-x86_64"));
    mariadb.take(&tree.join("usr/sbin/mariadbd"), "bin/");
    mariadb.take(&tree.join("usr/share/mysql"), "share");
    symlink("mariadbd", mariadb.folder.join("bin/mysqld")).unwrap();
    let archive = mariadb.pack("gzip -1", "tar.gz");
    let name = archive.to_str().unwrap();
    let sums = archive.with_file_name("sha256sums.txt");
    fs::write(&sums, format!("{}  {}.tar.gz\n", "0".repeat(64), mariadb.top)).unwrap();
    own_run(&["sandbox", "unpack", name]).expect_code(3).expect_said(&[
        "has the SHA-256",
        "as ",
        "sha256sums.txt says",
        "download it again",
    ]);
    fs::write(&sums, format!("{}  other.tar.gz\n{}  ./{}.tar.gz\n", "0".repeat(64), sha256(&archive), mariadb.top))
        .unwrap();
    own_run(&["sandbox", "deploy", name, "--name", "m"])
        .expect_code(0)
        .expect_said(&["compare its SHA-256 with", &format!("mariadb {version} (archive mariadb-{version}-linux")]);

    let (version, tree) = fetched(&lab, "mysql@9");
    let mysql = Maker::new(&lab, format!("mysql-{version}-linux-glibc2.28-x86_64-minimal"));
    mysql_layout(&mysql, &tree);
    let archive = mysql.pack("zstd -q -1", "tar.zst");
    fs::write(archive.with_file_name(format!("{}.tar.zst.md5", mysql.top)), "<html>\n").unwrap();
    let name = archive.to_str().unwrap();
    own_run(&["sandbox", "unpack", name]).expect_code(3).expect_said(&["tar.zst.md5 beside it holds no MD5"]);
    let md5 = Command::new("md5sum").arg(&archive).output().unwrap().stdout;
    fs::write(archive.with_file_name(format!("{}.tar.zst.md5", mysql.top)), md5).unwrap();
    own_run(&["sandbox", "deploy", name, "--name", "my"])
        .expect_code(0)
        .expect_said(&["compare its MD5 with", &format!("mysql {version} (archive mysql-{version}-linux")]);

    let percona = Maker::new(&lab, format!("Percona-Server-{version}-4-Linux.x86_64.glibc2.35"));
    fs::remove_dir(percona.folder.join("bin")).unwrap();
    fs::rename(mysql.folder.join("bin"), percona.folder.join("bin")).unwrap();
    for folder in ["lib", "share"] {
        fs::rename(mysql.folder.join(folder), percona.folder.join(folder)).unwrap();
    }
    call_it_percona(&percona.folder.join("bin/mysqld"));
    let archive = percona.pack("zstd -q -1", "tar.zst");
    let unpack = ["sandbox", "unpack", archive.to_str().unwrap(), "--flavour", "percona"];
    own_run(&unpack).expect_code(0).expect_said(&[&format!("percona {version} (archive Percona-Server-{version}")]);
    let data = lab.home().join("sandboxes/my/data");
    own_run(&["sandbox", "deploy", "percona", "--from", data.to_str().unwrap(), "--name", "p", "--start"])
        .expect_code(0)
        .expect_said(&["data directory of mysql", "percona"]);
    let said = own_run(&["sandbox", "use", "p", "SELECT @@version_comment"]).expect_code(0).stdout;
    assert!(said.contains("Percona!"), "{said}");
    own_run(&["sandbox", "delete", "m", "my", "p", "--force"]).expect_code(0);
    assert_eq!(entries(&own).len(), 4, "one entry each, and the lock: {:?}", entries(&own));
}

/// Two at once unpack it once; Ctrl-C and a disk that is too small leave nothing.
#[test]
fn an_archive_that_is_unpacked_twice_at_once_broken_off_or_onto_a_full_disk() {
    let lab = Lab::new(WRINGER);
    let (_, tree) = fetched(&lab, "postgresql");
    let archive = lab.home().join("postgresql.tar.gz");
    pack(&tree, &archive);
    let unpack = ["sandbox", "unpack", archive.to_str().unwrap()];
    let own = lab.home().join("own-cache");

    // a program that decompresses slowly, so that there is a time in the middle
    let programs = lab.home().join("bin");
    fs::create_dir(&programs).unwrap();
    let slow = programs.join("gzip");
    let gzip = host::tool::find("gzip").unwrap();
    let text = format!(
        "#!/bin/sh\n{} \"$@\" | while dd bs=64k count=1 iflag=fullblock status=none; do sleep 0.02; done\n",
        gzip.display()
    );
    fs::write(&slow, text).unwrap();
    fs::set_permissions(&slow, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut command = lab.command(unpack);
    command.env("WRINGER_CACHE", &own).env("PATH", path).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let has_begun = || entries(&own).iter().any(|name| own.join("servers").join(name).join("unpacked/top").exists());
    assert!(wait_until(Duration::from_secs(60), has_begun), "{:?}", entries(&own));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(entries(&own), [".lock"]);

    let start = || {
        let mut command = lab.command(unpack);
        command.env("WRINGER_CACHE", &own).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let ended = [start(), start()].map(|child| child.wait_with_output().unwrap());
    assert!(ended.iter().all(|output| output.status.success()), "{ended:?}");
    assert_eq!(ended[0].stdout, ended[1].stdout);
    let is_unpacking = |output: &&std::process::Output| String::from_utf8_lossy(&output.stderr).contains("unpack /");
    assert_eq!(ended.iter().filter(is_unpacking).count(), 1, "{ended:?}");
    assert_eq!(entries(&own).len(), 2);

    if !testkit::is_root() {
        testkit::skip!("needs root");
    }
    let small = lab.home().join("small");
    fs::create_dir(&small).unwrap();
    let mount = format!(
        "mount -t tmpfs -o size=64m none {0} && {{ \"$@\"; code=$?; ls -A {0}/servers; exit $code; }}",
        small.display()
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &mount, "sh", WRINGER]).args(unpack);
    command.env("WRINGER_HOME", lab.home()).env("WRINGER_CACHE", &small).stdin(Stdio::null());
    let ran = Ran::of(&mut command).expect_code(3).expect_said(&["an unpacked server needs", "are free"]);
    assert_eq!(ran.stdout, ".lock\n");
}
