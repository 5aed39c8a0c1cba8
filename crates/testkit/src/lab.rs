// SPDX-License-Identifier: Apache-2.0
//! The program under test, with journal, sandboxes and recordings in a temporary home, and one cache of servers for all tests.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// The user that tests drop to when they run as root: `nobody`.
const ORDINARY_USER: u32 = 65_534;

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A home of its own for one test. When it is dropped, `wringer undo` runs once more. After a test that failed, its sandboxes are deleted, too,
/// because an undo does not end a standing server: so a failed test leaves nothing behind.
pub struct Lab {
    home: tempfile::TempDir,
    program: PathBuf,
    user: Option<u32>,
    is_impatient: bool,
}

/// The exit code of a command, and its output.
#[derive(Debug)]
pub struct Ran {
    /// `None`: a signal killed the command.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Lab {
    /// `program` is `env!("CARGO_BIN_EXE_wringer")`.
    pub fn new(program: &str) -> Self {
        let home = tempfile::Builder::new().prefix("wringer-test-").tempdir().expect("make a temporary home");
        // a server runs as another user than root, and must be able to pass through to its own sandbox
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o711)).expect("open the home for passing through");
        Self { home, program: program.into(), user: None, is_impatient: false }
    }

    /// Of a test in which somebody uses what is to be removed, and does not stop: each command waits for them for a second instead of five. The program
    /// must have the feature `failpoints`.
    #[must_use]
    pub fn impatient(mut self) -> Self {
        self.is_impatient = true;
        self
    }

    /// The same for an ordinary user: as root this drops to `nobody`, and copies the program to a place that this user can reach.
    pub fn as_ordinary_user(program: &str) -> Self {
        let mut lab = Self::new(program);
        if is_root() {
            let copy = lab.home.path().join("wringer");
            copy_program(program.as_ref(), &copy);
            chown(lab.home.path(), Some(ORDINARY_USER), Some(ORDINARY_USER)).expect("give the home to nobody");
            lab.program = copy;
            lab.user = Some(ORDINARY_USER);
        }
        lab
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// A command of the program that has not started yet.
    pub fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = match self.user {
            None => Command::new(&self.program),
            Some(uid) => {
                let mut setpriv = Command::new("setpriv");
                setpriv.arg(format!("--reuid={uid}")).arg(format!("--regid={uid}")).arg("--clear-groups");
                setpriv.arg(&self.program);
                setpriv
            }
        };
        command
            .args(args)
            .env("WRINGER_HOME", self.home.path())
            .env("WRINGER_CACHE", shared_cache(self.user.unwrap_or(own_uid())))
            // each test fills its own data; the tests of kept data have a cache of their own, and remove this variable
            .env("WRINGER_FILLS_LIMIT", "0");
        if self.is_impatient {
            command.env("WRINGER_BUSY_TIMEOUT", "1000");
        }
        command.env("HOME", self.home.path()).current_dir(self.home.path()).stdin(Stdio::null());
        command
    }

    pub fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Ran {
        Ran::of(&mut self.command(args))
    }

    /// Starts a command and leaves it running; its output is written to `home/NAME.out` and `home/NAME.err`.
    pub fn start<S: AsRef<OsStr>>(&self, name: &str, args: impl IntoIterator<Item = S>) -> Child {
        let file =
            |ending: &str| fs::File::create(self.home.path().join(format!("{name}.{ending}"))).expect("make a log");
        self.command(args).stdout(file("out")).stderr(file("err")).spawn().expect("start the program")
    }

    /// The output so far of a command that `start` has started.
    pub fn said(&self, name: &str) -> String {
        ["out", "err"]
            .map(|ending| fs::read_to_string(self.home.path().join(format!("{name}.{ending}"))).unwrap_or_default())
            .concat()
    }

    /// `wringer undo`, after which nothing of this home is left to undo; fails the test otherwise.
    #[track_caller]
    pub fn undo_own(&self) {
        if let Err(why) = self.try_undo_own() {
            panic!("{why}");
        }
    }

    /// The same for a caller that collects what is wrong.
    ///
    /// # Errors
    /// What the undo said, if something of this home is left.
    pub fn try_undo_own(&self) -> Result<(), String> {
        let undone = self.run(["undo"]);
        if !undone.has_undone(self.home()) {
            return Err(format!("undo: {undone:?}"));
        }
        let left = self.run(["undo", "--dry-run", "-o", "json"]);
        let words: String = left.stdout.split_whitespace().collect();
        let is_nothing = left.code == Some(0) && words.contains("\"runs\":[]");
        if is_nothing { Ok(()) } else { Err(format!("undo: {undone:?}, and then {left:?}")) }
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.home.path().join(name);
        fs::write(&path, text).expect("write a test file");
        path
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.command(["undo"]).output();
        let sandboxes = fs::read_dir(self.home().join("sandboxes")).into_iter().flatten().flatten();
        for sandbox in sandboxes.filter(|_| thread::panicking()) {
            // one command for each: the rest of an interrupted deployment is no sandbox yet, and its deletion fails
            let _ = self
                .command([OsStr::new("sandbox"), "delete".as_ref(), "--force".as_ref(), &sandbox.file_name()])
                .output();
        }
    }
}

impl Ran {
    pub fn of(command: &mut Command) -> Self {
        let output = command.output().expect("run the program");
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Fails the test, with the whole output, unless the exit code is `code`.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Whether an `undo` has put back what is of this home. At the same moment a run of another test, which has another home, may be cut off: then undo
    /// tells of that run, and of nothing of this home, and ends with exit code 5.
    pub fn has_undone(&self, home: &Path) -> bool {
        let told =
            self.stderr.lines().find(|line| line.contains("the host is not restored: of another WRINGER_HOME: "));
        let only_others = told.is_some_and(|line| !line.contains(&*home.to_string_lossy()));
        self.code == Some(0) || self.code == Some(5) && only_others
    }

    /// Fails the test unless stderr has each of these words.
    #[track_caller]
    pub fn expect_said(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.stderr.contains(word), "'{word}' is not in stderr:\n{}", self.stderr);
        }
        self
    }
}

/// Copies a program that is to be started. Another process writes the copy: if this process wrote it, a child that another thread starts meanwhile
/// would have the file open for writing until it executes its own program, and a program cannot be started while somebody has it open for writing
/// (ETXTBSY).
pub fn copy_program(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("--preserve=mode").args([from, to]).status().expect("start cp");
    assert!(status.success(), "cp {} {}: {status}", from.display(), to.display());
}

/// Makes a folder for the beginning of PATH, with a program that replaces the one at `real`. If `word` is in its arguments, this program does nothing
/// but wait until the wringer that has started it has ended; else it runs the program at `real`.
pub fn waiting_program(lab: &Lab, real: &Path, word: &str) -> PathBuf {
    let folder = lab.home().join("bin");
    fs::create_dir(&folder).expect("make a folder for programs");
    let text = format!(
        "#!/bin/sh\nstarted_by() {{ cat /proc/$PPID/comm 2>/dev/null; }}\n\
         case \"$*\" in *{word}*) while [ \"$(started_by)\" = wringer ]; do sleep 0.05; done; exit 1 ;; esac\nexec {} \"$@\"\n",
        real.display()
    );
    let program = folder.join(real.file_name().expect("a program has a name"));
    fs::write(&program, text).expect("write a program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("make it a program");
    folder
}

/// Waits until `condition` holds, and checks it every 10 ms; false if `limit` passes first.
pub fn wait_until(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if condition() {
            return true;
        }
        thread::sleep(Duration::from_millis(10));
    }
    condition()
}

/// The folder of fetched servers for all tests of one user, so that each server is fetched once.
pub fn shared_cache(uid: u32) -> PathBuf {
    env::temp_dir().join(format!("wringer-test-cache-{uid}"))
}

/// Makes `own` a cache that begins with these folders of the shared one. The files of `servers` are linked, those of package lists copied.
pub fn begin_cache(own: &Path, folders: &[&str]) {
    let shared = shared_cache(own_uid());
    fs::create_dir_all(own).expect("make a cache");
    for folder in folders {
        if !shared.join(folder).exists() || own.join(folder).exists() {
            continue;
        }
        // another test may fetch into the shared cache: it is waited for
        let lock = File::open(shared.join("servers/.lock")).ok();
        lock.iter().for_each(|lock| lock.lock().expect("the lock of the shared cache"));
        let how = if *folder == "servers" { "-al" } else { "-a" };
        let copied = Command::new("cp").arg(how).arg(shared.join(folder)).arg(own).status();
        assert!(copied.is_ok_and(|status| status.success()), "cp {how} {folder}");
    }
}

pub fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A lock for tests that change the whole host, or compare it before and after: neither the other tests of their program nor the tests of a second
/// run on this machine disturb them.
pub fn alone() -> Alone {
    static ALONE: Mutex<()> = Mutex::new(());
    let program = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let path = std::env::temp_dir().join(format!("wringer-tests-alone-{}", own_uid()));
    let machine = File::options().create(true).truncate(false).write(true).open(&path).expect("opens the lock");
    machine.lock().expect("locks");
    Alone { _program: program, _machine: machine }
}

/// A lock for the tests of one program, of which two at a time would disturb each other: each of them has a server under load, or measures.
pub fn one_at_a_time() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lock that [`alone`] takes; dropping it releases the lock.
pub struct Alone {
    _program: MutexGuard<'static, ()>,
    _machine: File,
}
