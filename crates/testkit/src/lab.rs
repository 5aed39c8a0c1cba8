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

/// A home of its own for one test. When it goes, `wringer undo` runs once more, and after a test that failed its sandboxes are deleted, for
/// a standing server is nothing that an undo ends: so a failed test leaves nothing behind.
pub struct Lab {
    home: tempfile::TempDir,
    program: PathBuf,
    user: Option<u32>,
}

/// How a command ended, and what it said.
#[derive(Debug)]
pub struct Ran {
    /// `None`: killed by a signal.
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
        Self { home, program: program.into(), user: None }
    }

    /// The same as an ordinary user; as root this drops to `nobody`, with a copy of the program that user can reach.
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
            // each test fills its own data; those of kept data have a cache of their own, and take this away
            .env("WRINGER_FILLS_LIMIT", "0");
        command.env("HOME", self.home.path()).current_dir(self.home.path()).stdin(Stdio::null());
        command
    }

    pub fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Ran {
        Ran::of(&mut self.command(args))
    }

    /// Starts a command and leaves it running; its output goes to `home/NAME.out` and `home/NAME.err`.
    pub fn start<S: AsRef<OsStr>>(&self, name: &str, args: impl IntoIterator<Item = S>) -> Child {
        let file =
            |ending: &str| fs::File::create(self.home.path().join(format!("{name}.{ending}"))).expect("make a log");
        self.command(args).stdout(file("out")).stderr(file("err")).spawn().expect("start the program")
    }

    /// What a started command has said so far.
    pub fn said(&self, name: &str) -> String {
        ["out", "err"]
            .map(|ending| fs::read_to_string(self.home.path().join(format!("{name}.{ending}"))).unwrap_or_default())
            .concat()
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
            // one by one: what is there of a deployment that was cut is none yet
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

    /// Fails the test, with everything that was said, unless the exit code is `code`.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Fails the test unless stderr has each of these.
    #[track_caller]
    pub fn expect_said(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.stderr.contains(word), "'{word}' is not in stderr:\n{}", self.stderr);
        }
        self
    }
}

/// Copies a program that is to be started; another process writes it. What we write, a child that another thread starts meanwhile has open as well until it
/// executes its program, and nobody can start what somebody writes (ETXTBSY).
pub fn copy_program(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("--preserve=mode").args([from, to]).status().expect("start cp");
    assert!(status.success(), "cp {} {}: {status}", from.display(), to.display());
}

/// Makes a folder with a program to begin PATH with, in place of the one at `real`. With a `word` in its arguments it does nothing, and waits until the wringer
/// that has started it is gone; else it is the real one.
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

/// Waits until `condition` holds, looking every 10 ms; false when `limit` has passed first.
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

/// Where fetched servers are kept for all tests of one user, so that each is fetched once.
pub fn shared_cache(uid: u32) -> PathBuf {
    env::temp_dir().join(format!("wringer-test-cache-{uid}"))
}

pub fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Tests that change the whole host, or compare it before and after, hold this, so that the others of their binary do not disturb
/// them, nor those of a second test run on the machine.
pub fn alone() -> Alone {
    static ALONE: Mutex<()> = Mutex::new(());
    let program = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let path = std::env::temp_dir().join(format!("wringer-tests-alone-{}", own_uid()));
    let machine = File::options().create(true).truncate(false).write(true).open(&path).expect("opens the lock");
    machine.lock().expect("locks");
    Alone { _program: program, _machine: machine }
}

/// See [`alone`].
pub struct Alone {
    _program: MutexGuard<'static, ()>,
    _machine: File,
}
