// SPDX-License-Identifier: Apache-2.0
//! A journal is an order to change the host. Nobody acts on one that somebody else can have written, root least of all.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use host::process::Identity;
use journal::{Begun, Journal, Kind, Role, RunId, Step};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use testkit::{Ran, copy_program, is_root};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");
/// Whom nothing on this machine is named after, with a group of the same number.
const STRANGER: u32 = 12_345;

/// A home of the stranger's in which a run was cut off: it would write `before` into `value` again, and end a process.
struct Cut {
    folder: tempfile::TempDir,
    program: PathBuf,
    value: PathBuf,
    victim: Child,
    id: RunId,
}

impl Drop for Cut {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

/// Who owns the value and the process, and to whom the home is given.
fn cut(owner: u32, home_of: u32) -> Cut {
    let folder = tempfile::Builder::new().prefix("wringer-whose-").tempdir_in("/tmp").unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let (program, value) = (folder.path().join("wringer"), folder.path().join("value"));
    copy_program(Path::new(WRINGER), &program);
    fs::write(&value, "after").unwrap();
    chown(&value, Some(owner), Some(owner)).unwrap();
    let victim = Command::new("sleep").arg("600").uid(owner).gid(owner).spawn().unwrap();

    let id = RunId::new(host::clock::unix_seconds(), 7);
    let run = folder.path().join("wh/journal").join(id.as_str());
    fs::create_dir_all(&run).unwrap();
    fs::write(run.join("owner.lock"), "").unwrap();
    fs::write(run.join("token"), "").unwrap();
    let begun = Begun {
        run: id.clone(),
        build: "test".into(),
        uid: home_of,
        controller: Identity { pid: 1, start_time: 1 },
        namespaces: None,
        boot_id: None,
        kind: Kind::Run,
        command: vec!["wringer".into()],
        resources: vec![],
        started: host::clock::unix_seconds(),
    };
    let mut journal = Journal::create(&run.join("journal"), begun).unwrap();
    let step = Step::Process { role: Role::Server, program: "sleep".into(), stop_signal: 15, grace_ms: 100 };
    let (step, _) = journal.intent(step).unwrap();
    journal.pid(step, Identity::of(victim.id()).unwrap()).unwrap();
    journal.done(step, None).unwrap();
    let change = Step::Value { path: value.clone(), before: "before".into(), after: "after".into() };
    let (step, _) = journal.intent(change).unwrap();
    journal.done(step, Some("after".into())).unwrap();
    give(&folder.path().join("wh"), home_of);
    Cut { folder, program, value, victim, id }
}

/// The folder with all that is in it.
fn give(path: &Path, uid: u32) {
    chown(path, Some(uid), Some(uid)).unwrap();
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        give(&entry.path(), uid);
    }
}

impl Cut {
    fn home(&self) -> PathBuf {
        self.folder.path().join("wh")
    }

    fn run_folder(&self) -> PathBuf {
        self.home().join("journal").join(self.id.as_str())
    }

    /// `through` stands before the program.
    fn run(&self, through: &[String], args: &[&str]) -> Ran {
        let words: Vec<String> = through.iter().cloned().chain([self.program.display().to_string()]).collect();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(args).env("WRINGER_HOME", self.home()).env_remove("XDG_STATE_HOME");
        Ran::of(command.current_dir("/"))
    }

    fn as_root(&self, args: &[&str]) -> Ran {
        self.run(&[], args)
    }

    fn as_stranger(&self, args: &[&str]) -> Ran {
        self.run(&stranger(), args)
    }

    #[track_caller]
    fn expect_untouched(&mut self) {
        assert_eq!(fs::read_to_string(&self.value).unwrap(), "after", "the value was written");
        assert!(self.victim.try_wait().unwrap().is_none(), "the process was ended");
        assert!(self.run_folder().join("journal").exists(), "the journal was removed");
    }

    /// By its owner.
    #[track_caller]
    fn expect_undo(&self) {
        let undone = self.as_stranger(&["undo"]);
        assert!(undone.has_undone(&self.home()), "{undone:?}");
    }

    #[track_caller]
    fn expect_undone(&mut self) {
        assert_eq!(fs::read_to_string(&self.value).unwrap(), "before");
        assert!(testkit::wait_until(std::time::Duration::from_secs(10), || self.victim.try_wait().unwrap().is_some()));
        assert!(!self.run_folder().exists());
    }
}

fn stranger() -> Vec<String> {
    let ids = [format!("--reuid={STRANGER}"), format!("--regid={STRANGER}")];
    ["setpriv".to_owned()].into_iter().chain(ids).chain(["--clear-groups".to_owned()]).collect()
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn root_does_not_obey_a_stranger_s_journal() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let mut cut = cut(0, STRANGER);
    let command = format!("sudo -u '#{STRANGER}' WRINGER_HOME={} wringer undo", cut.home().display());
    let own = format!("{} belongs to uid {STRANGER}, and not to root or to you", cut.home().display());
    let id = cut.id.as_str().to_owned();
    for args in [vec!["undo"], vec!["undo", &id], vec!["undo", "--dry-run"], vec!["status"], vec!["ram", "release"]] {
        cut.as_root(&args).expect_code(3).expect_said(&[&own, &command]);
        cut.expect_untouched();
    }
    // nor does it begin a run there
    let data = cut.folder.path().join("data");
    fs::create_dir(&data).unwrap();
    cut.as_root(&["disk", "delay", data.to_str().unwrap(), "--sync", "1ms"]).expect_code(3).expect_said(&[&command]);
    cut.as_root(&["sandbox", "delete", "x"]).expect_code(3).expect_said(&["WRINGER_HOME"]);
    cut.expect_untouched();
}

#[test]
fn its_owner_undoes_it() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let mut theirs = cut(STRANGER, STRANGER);
    theirs.expect_undo();
    theirs.expect_undone();
    let mut roots = cut(0, 0);
    roots
        .as_stranger(&["undo"])
        .expect_code(3)
        .expect_said(&["belongs to root, and not to you", "`sudo WRINGER_HOME="]);
    mode(&roots.home().join("journal"), 0o700);
    roots.as_stranger(&["undo"]).expect_code(3).expect_said(&["belongs to root, and not to you"]);
    roots.expect_untouched();
    // by its name: of all it would also tell what is cut off below other homes
    roots.as_root(&["undo", roots.id.as_str()]).expect_code(0);
    roots.expect_undone();
}

/// One run among root's own that is somebody else's, as a folder and as a file: it is told, and everything else is undone.
#[test]
fn a_stranger_s_run_among_root_s_own_is_left_and_told() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    for what in ["", "journal"] {
        let mut cut = cut(0, 0);
        chown(cut.run_folder().join(what), Some(STRANGER), None).unwrap();
        let id = cut.id.as_str().to_owned();
        let status = cut.as_root(&["status"]).expect_code(0).stdout;
        assert!(status.contains(&format!("{id}: hot")) && status.contains("belongs to uid 12345"), "{status}");
        cut.as_root(&["undo"]).expect_code(5).expect_said(&[&id, "belongs to uid 12345"]);
        cut.expect_untouched();
        chown(cut.run_folder().join(what), Some(0), None).unwrap();
        cut.as_root(&["undo", &id]).expect_code(0);
        cut.expect_undone();
    }
}

#[test]
fn a_link_in_the_place_of_a_journal_is_not_followed() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let mut cut = cut(0, 0);
    let (journal, moved) = (cut.run_folder().join("journal"), cut.folder.path().join("moved"));
    fs::rename(&journal, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &journal).unwrap();
    let ran = cut.as_root(&["undo"]);
    assert_ne!(ran.code, Some(0), "{ran:?}");
    assert_eq!(fs::read_to_string(&cut.value).unwrap(), "after");
    assert!(cut.victim.try_wait().unwrap().is_none());
}

/// `umask 002`: a home that the user's own group can write locks nobody out; one that another group can does.
#[test]
fn a_home_that_a_private_group_can_write_is_one_s_own() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let mut cut = cut(STRANGER, STRANGER);
    mode(&cut.home(), 0o775);
    cut.as_stranger(&["status"]).expect_code(0);
    chown(cut.home(), None, Some(STRANGER + 1)).unwrap();
    let shown = cut.home().display().to_string();
    for args in [["status"], ["undo"]] {
        let refused = cut.as_stranger(&args).expect_code(3);
        refused.expect_said(&[&format!("{shown} can be written by the group 12346"), &format!("chmod go-w {shown}")]);
    }
    mode(&cut.home(), 0o777);
    cut.as_stranger(&["undo"]).expect_code(3).expect_said(&["can be written by everybody"]);
    cut.expect_untouched();
    mode(&cut.home(), 0o755);
    cut.expect_undo();
    cut.expect_undone();
}

/// In there root's `/` shows as the overflow uid's, as does every stranger's home.
#[test]
fn a_user_namespace_locks_nobody_out_of_their_own_journals() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (cut, roots) = (cut(STRANGER, STRANGER), self::cut(0, 0));
    let inside = |map: &str| -> Vec<String> {
        stranger().into_iter().chain(["unshare".into(), "--user".into(), map.into()]).collect()
    };
    let tried = Command::new("setpriv").args(&inside("--map-root-user")[1..]).arg("true").output().unwrap();
    if !tried.status.success() {
        testkit::skip!("no user namespace for an ordinary user: {}", String::from_utf8_lossy(&tried.stderr));
    }
    for map in ["--map-current-user", "--map-root-user"] {
        let status = cut.run(&inside(map), &["status"]).expect_code(0).stdout;
        assert!(status.contains(cut.id.as_str()), "{map}: {status}");
        let said = "belongs to a user whom this user namespace does not know";
        roots.run(&inside(map), &["undo"]).expect_code(3).expect_said(&[said]);
    }
    // the first namespace maps everybody: there that number is the user `nobody`
    give(&cut.home(), 65_534);
    cut.as_root(&["undo"]).expect_code(3).expect_said(&["(uid 65534), and not to root or to you"]);
}
