// SPDX-License-Identifier: Apache-2.0
//! Starts a sandbox's server below a run, waits until it answers a query, and stops it.

use crate::deploy::ports_below;
use crate::manifest::Manifest;
use crate::port::{self, Reserved, is_free};
use crate::start_options::{Preload, StartOptions};
use crate::wrap::{Got, VALGRIND_FOLDER, Wrapping, joined};
use crate::{Error, HugePages, Sandbox, ServerOption, Thp, init};
use capability::{Capability, stop_signal, words};
use host::files;
use load::admin::Connection;
use load::{Busy, Target};
use run::{Child, ChildSpec, Role, Run};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A server that answers. [`RunningServer::stop`] ends it, or the end of its run.
#[derive(Debug)]
pub struct RunningServer {
    pub pid: u32,
    pub socket: PathBuf,
    pub port: u16,
    /// The version that the server itself reports: `10.11.19-MariaDB-0+deb12u1`.
    pub version: String,
    pub target: Target,
    /// The part of the wrapping that is in force.
    pub got: Vec<Got>,
    /// pgBouncer in front of the server: its process, and its port.
    pub pooler: Option<(u32, u16)>,
    /// The target for connections through that pgBouncer.
    pub pooled: Option<Target>,
    child: Child,
    pooler_child: Option<Child>,
    log: Log,
}

/// A server's error log, from the place where this start began to write.
#[derive(Debug, Clone)]
struct Log {
    path: PathBuf,
    start_bytes: u64,
}

/// The pause between two checks whether a starting server answers.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(40);
/// How often a start takes another port, because a program that is not Wringer's has taken the one before.
const PORT_TRIES: u32 = 3;
/// How long to wait until the launcher of a server that has ended reports its exit status.
const LAUNCHER_TELLS: Duration = Duration::from_secs(5);
/// The number of lines of a server's log in an error.
const LOG_LINES: usize = 20;
/// The most lines when there is an error among them.
const LOG_LINES_OF_TROUBLE: usize = 80;
/// The words by which MariaDB and PostgreSQL mark errors.
const TROUBLE: [&str; 4] = ["[ERROR]", "FATAL:", "PANIC:", "was terminated by signal"];
/// At most this many bytes of the log are read.
const LOG_BYTES: u64 = 16 << 10;

impl Sandbox {
    /// Starts the server as a step of `run`, which should hold [`run::Resource::Sandbox`] of this name. If a port that was chosen for the user is in
    /// use, another one is taken: [`RunningServer::port`] and its `target` and `socket` tell the present one.
    ///
    /// # Errors
    /// [`Error::Running`], [`Error::PortInUse`], [`Error::Unreachable`]: nothing was started. [`Error::Died`], [`Error::NotReady`] with the end of
    /// the log: the server has been stopped again.
    pub fn start(&self, run: &mut Run, options: &StartOptions) -> Result<RunningServer, Error> {
        self.check_before_start()?;
        options.wrapping.check()?;
        self.check_readable(&options.wrapping)?;
        self.prepare_socket_folder()?;
        self.remove_stale_lock_files()?;
        let mut tries = 0;
        loop {
            let (sandbox, reserved) = self.with_port()?;
            match sandbox.start_once(run, options) {
                // a program that does not know about reservations has taken the port
                Err(Error::Died { .. }) if tries < PORT_TRIES && sandbox.may_move() && !is_free(reserved.port) => {
                    tries += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// Whether the server's user can read the library that is to serve malloc: the loader leaves out what it may not read, and only the server's log says so.
    ///
    /// # Errors
    /// [`Error::Unwrappable`], [`Error::Unreachable`]: it cannot.
    pub fn check_readable(&self, wrapping: &Wrapping) -> Result<(), Error> {
        let library = wrapping.malloc.as_ref().and_then(|malloc| malloc.library.as_deref());
        library.map_or(Ok(()), |library| self.manifest.user.check_read(library))
    }

    /// The sandbox with a port that is free, and reserved: the port in the manifest, which may have moved since `self` was read; or, if the user did
    /// not ask for that port, another one, which is written into the manifest.
    fn with_port(&self) -> Result<(Self, Reserved), Error> {
        let mut sandbox = self.clone();
        let path = self.folder.join("manifest.json");
        sandbox.manifest.port = Manifest::read(&path)?.port;
        let reserved = match port::require(sandbox.manifest.port) {
            Err(Error::PortInUse { .. }) if sandbox.may_move() => {
                let siblings = self.folder.parent().map(ports_below).unwrap_or_default();
                port::choose(&self.folder, &siblings)?
            }
            other => other?,
        };
        if reserved.port != sandbox.manifest.port {
            sandbox.manifest.port = reserved.port;
            let stored = Manifest { port: reserved.port, ..Manifest::read(&path)? };
            stored.write(&self.folder)?;
        }
        sandbox.configure_port()?;
        sandbox.prepare_member()?;
        Ok((sandbox, reserved))
    }

    /// Writes the port into `server.cnf` if the file has another one; the user's own changes stay.
    fn configure_port(&self) -> Result<(), Error> {
        let path = self.configuration();
        let text = std::fs::read_to_string(&path).map_err(|source| Error::path("read", &path, source))?;
        let wanted = init::port_line(self.manifest.port);
        let line = |line| if init::is_port_line(line) { wanted.as_str() } else { line };
        let moved = text.lines().map(line).collect::<Vec<_>>().join("\n") + "\n";
        if moved == text { Ok(()) } else { Ok(files::write_atomic(&path, moved.as_bytes(), 0o644)?) }
    }

    fn may_move(&self) -> bool {
        !self.manifest.port_asked
    }

    fn start_once(&self, run: &mut Run, options: &StartOptions) -> Result<RunningServer, Error> {
        let target = self.connection()?;
        let log = Log { path: self.log(), start_bytes: self.log().metadata().map_or(0, |log| log.len()) };
        self.make_valgrind_folder(&options.wrapping)?;
        let child = run.spawn(Role::Server, self.child_spec(options)?)?;
        let ready = self.await_ready(&child, &target, options.wrapping.ready_timeout(options.ready_timeout), &log);
        let joined = ready.and_then(|version| {
            self.join_replication()?;
            let got = self.look_at_wrapping(&options.wrapping, child.pid)?;
            Ok((version, got, self.start_pooler(run, options)?))
        });
        match joined {
            Ok((version, got, pooler)) => {
                let (socket, port) = (self.socket(), self.manifest.port);
                let told = pooler.as_ref().map(|pooler| (pooler.pid, pooler.port));
                let (pooled, pooler_child) = pooler.map(|it| (it.target, it.child)).unzip();
                Ok(RunningServer {
                    pid: child.pid,
                    socket,
                    port,
                    version,
                    target,
                    got,
                    pooler: told,
                    pooled,
                    child,
                    pooler_child,
                    log,
                })
            }
            Err(error) => {
                let error = match error {
                    Error::Died { name, log, .. } => Error::Died { name, status: end_of(run, &child), log },
                    other => other,
                };
                run.undo_step(child.step)?;
                Err(error)
            }
        }
    }

    /// # Errors
    /// [`Error::NotAsAsked`] when huge pages were asked for and the server, which runs without them, got none.
    fn look_at_wrapping(&self, wrapping: &Wrapping, pid: u32) -> Result<Vec<Got>, Error> {
        let got = wrapping.got(self, pid);
        let missing =
            |got: &&Got| got.what == "huge pages" && !got.is_as_asked && wrapping.huge_pages == Some(HugePages::On);
        match got.iter().find(missing) {
            None => Ok(got),
            Some(missing) => {
                let (asked, got) = (format!("{} {}", missing.what, missing.asked), missing.got.clone());
                Err(Error::NotAsAsked { name: self.name().into(), asked, got })
            }
        }
    }

    fn make_valgrind_folder(&self, wrapping: &Wrapping) -> Result<(), Error> {
        // the pipes of an earlier start, which was killed
        self.remove_pipes()?;
        if wrapping.valgrind.is_some() { self.make_servers_folder(VALGRIND_FOLDER) } else { Ok(()) }
    }

    /// The command that would be executed: program and arguments.
    ///
    /// # Errors
    /// An option that this flavour cannot have.
    pub fn command_line(&self, extra_options: &[ServerOption]) -> Result<(PathBuf, Vec<OsString>), Error> {
        let (program, mut arguments) = self.manifest.installation.invocation();
        arguments.extend(init::server_arguments(self).into_iter().map(OsString::from));
        for option in extra_options {
            arguments.extend(option.to_arguments(self.flavour())?.into_iter().map(OsString::from));
        }
        Ok((program, arguments))
    }

    /// Further options for a server in which a library must see all reads and writes.
    ///
    /// # Errors
    /// The table of capabilities has a word that is no option.
    pub fn options_under_a_library(&self) -> Result<Vec<ServerOption>, Error> {
        let installation = &self.manifest.installation;
        let words = words(Capability::SynchronousIo, installation.flavour, &installation.version);
        words.iter().map(|word| word.parse()).collect()
    }

    /// The first checks of [`Self::start`]: whether the server runs, the port that the user asked for, and whether the server's user can reach its
    /// files.
    ///
    /// # Errors
    /// [`Error::Running`], [`Error::PortInUse`], [`Error::Unreachable`].
    pub fn check_before_start(&self) -> Result<(), Error> {
        if let Some(pid) = self.server_process() {
            return Err(Error::Running { name: self.name().into(), pid });
        }
        if let Some(why) = self.unseen_server() {
            return Err(Error::Unknown { name: self.name().into(), why });
        }
        if !self.may_move() {
            port::require(self.manifest.port)?;
        }
        self.check_installation()
    }

    /// The checks of [`Self::check_before_start`] that can be made while the server runs: its program, its pooler, and whether the server's user can
    /// reach its files.
    ///
    /// # Errors
    /// [`Error::ProgramGone`], [`Error::Unreachable`].
    pub fn check_installation(&self) -> Result<(), Error> {
        let installation = &self.manifest.installation;
        let program = &installation.program;
        if let Some(gone) = installation.libraries.loader.iter().chain([program]).find(|path| !path.is_file()) {
            return Err(Error::ProgramGone { name: self.name().into(), program: gone.clone() });
        }
        self.manifest.user.check_reach(program)?;
        self.check_pooler()?;
        self.manifest.user.check_reach(&self.data())
    }

    fn child_spec(&self, options: &StartOptions) -> Result<ChildSpec, Error> {
        let installation = &self.manifest.installation;
        let mut extra_options = options.wrapping.options(self, &options.extra_options)?;
        extra_options.extend(options.extra_options.clone());
        // Valgrind does not know I/O that bypasses the C library: a server that does such I/O hangs in it
        if options.preload.is_some() || options.wrapping.valgrind.is_some() {
            extra_options.extend(self.options_under_a_library()?);
        }
        let (mut program, mut arguments) = self.command_line(&extra_options)?;
        if let Some((valgrind, before)) = options.wrapping.valgrind_command(self)? {
            arguments = before.into_iter().chain([program.into_os_string()]).chain(arguments).collect();
            program = valgrind;
        }
        let mut env = installation.environment();
        env.extend(options.wrapping.environment(self));
        let libraries: Vec<&Preload> = options.preload.iter().chain(&options.asking).collect();
        env.extend(libraries.iter().flat_map(|preload| preload.environment.clone()));
        env.push(("LC_ALL".into(), "C".into()));
        let mut without_env = options.wrapping.left_out();
        // the library of a slow disk keeps the caller's own list
        without_env.retain(|name| options.preload.is_none() || name != "LD_PRELOAD");
        Ok(ChildSpec {
            program,
            args: arguments,
            env: joined(env),
            without_env,
            cwd: Some(self.data()),
            stdout: Some(self.log()),
            stderr: Some(self.log()),
            identity: self.manifest.user.identity(),
            namespaces_of: options.namespaces_of,
            inherit: libraries.iter().flat_map(|preload| preload.inherit.clone()).collect(),
            cgroups: options.cgroups.clone(),
            affinity: options.affinity.clone(),
            oom_score_adj: options.oom_score_adj,
            stop_signal: stop_signal(installation.flavour, &installation.version),
            without_thp: options.wrapping.thp == Some(Thp::Never),
            grace: options.wrapping.stop_grace(options.stop_grace),
            launcher: true,
            leftovers: options.wrapping.leftovers(self),
            lifeline: !options.standing,
            ..ChildSpec::default()
        })
    }

    /// Waits until the server answers a query; returns the version that it reports.
    fn await_ready(&self, child: &Child, target: &Target, timeout: Duration, log: &Log) -> Result<String, Error> {
        let deadline = Instant::now() + timeout;
        loop {
            if child.wait(LOOK_EVERY) {
                return Err(Error::Died { name: self.name().into(), status: None, log: log.end() });
            }
            match ask(target) {
                Ok(version) => return Ok(version),
                Err(error) if is_settled(&error) => {
                    return Err(Error::Talk { name: self.name().into(), source: error });
                }
                Err(_) => {}
            }
            if host::interrupt::requested() {
                return Err(Error::Interrupted);
            }
            if Instant::now() > deadline {
                let waited_s = timeout.as_secs();
                return Err(Error::NotReady { name: self.name().into(), waited_s, log: log.end() });
            }
        }
    }
}

impl Log {
    /// The end of the log since the start: the last lines, and the lines before them from the first error on, as far as they fit an error message.
    /// The last lines of a crash report tell the least.
    fn end(&self) -> Vec<String> {
        let read = || {
            let mut log = File::open(&self.path)?;
            let length = log.metadata()?.len();
            log.seek(SeekFrom::Start(self.start_bytes.max(length.saturating_sub(LOG_BYTES))))?;
            let mut bytes = Vec::new();
            log.take(LOG_BYTES).read_to_end(&mut bytes).map(|_| bytes)
        };
        let text = String::from_utf8_lossy(&read().unwrap_or_default()).into_owned();
        end_of_log(&text).iter().map(ToString::to_string).collect()
    }
}

fn end_of_log(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let at_most = |count: usize| lines.len().saturating_sub(count);
    let is_trouble = |line: &&str| TROUBLE.iter().any(|mark| line.contains(mark));
    let trouble = lines[at_most(LOG_LINES_OF_TROUBLE)..].iter().position(is_trouble);
    let from = trouble.map_or(usize::MAX, |position| at_most(LOG_LINES_OF_TROUBLE) + position);
    lines[from.min(at_most(LOG_LINES))..].to_vec()
}

/// How a server ended that was asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Clean,
    /// It did not end in the time that it was given: its data need a recovery.
    Killed,
    /// It ended with this error while it stopped, or somebody else killed it: its data may need a recovery. 128 + n: signal n ended it.
    Failed {
        status: i32,
    },
    /// It had ended by itself before it was asked. `status`: 128 + n when signal n ended it.
    Before {
        status: Option<i32>,
    },
}

impl End {
    /// `status`: of a server that was asked to stop, as far as its launcher told it.
    fn of(was_killed: bool, status: Option<i32>) -> Self {
        match status {
            _ if was_killed => Self::Killed,
            None | Some(0) => Self::Clean,
            Some(status) => Self::Failed { status },
        }
    }
}

impl RunningServer {
    pub fn is_alive(&self) -> bool {
        self.child.is_alive()
    }

    /// Returns whether the server ended by itself within `timeout`. Its connections break a moment before the process is gone.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.child.wait(timeout)
    }

    /// The error for a server that ended by itself, with the end of its log; the server's step is undone.
    ///
    /// # Errors
    /// The server's launcher could not be ended.
    pub fn ended(self, run: &mut Run) -> Result<Error, Error> {
        let status = end_of(run, &self.child);
        self.stop_pooler(run)?;
        run.undo_step(self.child.step)?;
        Ok(Error::Ended { status, log: self.log.end() })
    }

    /// Asks the server to stop, and waits for its end; the run continues.
    ///
    /// # Errors
    /// The server could not be ended.
    pub fn stop(self, run: &mut Run) -> Result<End, Error> {
        // the watchdog may have ended it with the run
        let is_before = !self.is_alive() && run.neutralised().is_none();
        let before = is_before.then(|| End::Before { status: end_of(run, &self.child) });
        self.stop_pooler(run)?;
        let ended = run.end_process(self.child.step)?;
        Ok(before.unwrap_or_else(|| End::of(ended.was_killed, ended.status.and_then(|status| status.code()))))
    }

    /// Stops the pooler. It must end before its server, which would wait for the pooler's connections.
    fn stop_pooler(&self, run: &mut Run) -> Result<(), Error> {
        self.pooler_child.as_ref().map_or(Ok(()), |child| Ok(run.undo_step(child.step)?))
    }
}

/// How a server ended, as its launcher tells: 128 + n when signal n ended it.
fn end_of(run: &mut Run, child: &Child) -> Option<i32> {
    let deadline = Instant::now() + LAUNCHER_TELLS;
    let mut status = run.exit_status(child);
    while status.is_none() && Instant::now() < deadline {
        std::thread::sleep(LOOK_EVERY);
        status = run.exit_status(child);
    }
    status.and_then(|status| status.code())
}

pub(crate) fn ask(target: &Target) -> Result<String, load::Error> {
    // who has dropped the sandbox's database has a server all the same
    let mut connection = Connection::open_anywhere(target)?;
    connection.query("SELECT 1")?;
    Ok(connection.server_version().to_owned())
}

/// Whether waiting does not change this answer.
pub(crate) fn is_settled(error: &load::Error) -> bool {
    let is_passing = matches!(error.busy(), Some(Busy::Starting | Busy::ServerFull));
    error.code().is_some() && !is_passing || matches!(error, load::Error::Authentication(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_fails_while_it_stops_did_not_stop_cleanly() {
        let failed = |status| End::Failed { status };
        assert_eq!(
            [Some(0), None, Some(1), Some(139)].map(|it| End::of(false, it)),
            [End::Clean, End::Clean, failed(1), failed(139)]
        );
        assert_eq!(End::of(true, Some(137)), End::Killed, "by us: that is known already");
    }

    #[test]
    fn the_end_of_a_log_begins_where_the_trouble_does() {
        let log = |marked: Option<usize>| {
            let line =
                |number| if Some(number) == marked { "[ERROR] got signal 11".into() } else { format!("{number}") };
            (1..=200).map(line).collect::<Vec<_>>().join("\n")
        };
        let first_and_count = |text: &str| {
            let end = end_of_log(text);
            assert_eq!(end.last(), text.lines().last().as_ref());
            (end.first().map(ToString::to_string), end.len())
        };
        assert_eq!(first_and_count(&log(None)), (Some("181".into()), 20));
        assert_eq!(first_and_count(&log(Some(150))), (Some("[ERROR] got signal 11".into()), 51));
        assert_eq!(first_and_count(&log(Some(190))), (Some("181".into()), 20), "no fewer than without trouble");
        assert_eq!(first_and_count(&log(Some(20))), (Some("181".into()), 20), "long ago");
        assert_eq!(first_and_count("one\ntwo"), (Some("one".into()), 2));
        assert_eq!(first_and_count(""), (None, 0));
    }
}
