// SPDX-License-Identifier: Apache-2.0
//! The body of `wringer internal slowdisk`: holds the FUSE descriptors and the delay, and makes sure that a worker serves.
//!
//! | event | what happens |
//! | --- | --- |
//! | the worker dies, or answers no ping for [`PATIENCE`], counted in checks by a running keeper | with FUSE 7.40 the keeper forks another worker, with the delay in force; before 7.40 it ends, and I/O fails |
//! | SIGUSR1 | all delays become 0; a stopped worker continues |
//! | end of file on the lifeline | all delays become 0; the keeper ends when the loop device has closed the file |
//! | SIGTERM | the same |
//! | nobody has the file open any more | worker and keeper end |
//! | SIGINT, SIGHUP | nothing: the terminal sends them to the controller too, and the controller decides |
//!
//! The keeper has one thread, because it forks.

use super::device::{RESEND_SINCE, clone_device, open_device, shake_hands};
use super::events::{Events, drain, ended};
use super::image::Backing;
use super::in_force::InForce;
use super::worker::{self, Heritage, MODEL, NEUTRALISE, NEUTRALISED, PING, PONG, WAY};
use crate::Error;
use crate::backing::Open;
use crate::control::{ACCEPT_PAUSE, Kept, Request, keeper_answer};
use crate::inode::Inode;
use crate::way::Way;
use crate::way::client::Looker;
use diskmodel::Model;
use evidence::DelayMode;
use host::files::open_without_links;
use host::looks::{Looks, Silence, looks_in};
use host::namespace;
use host::process::{Forked, Order, fork, report_ready};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd as _, OwnedFd};
use rustix::fs::OFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// A worker that answers no ping for this long hangs. Counted in checks: a worker that was frozen together with the keeper did not hang.
const PATIENCE: Duration = Duration::from_secs(3);
/// The pause between two pings, and between two checks.
const PING_PAUSE: Duration = Duration::from_secs(1);
/// How long the first worker may need until it answers, on a busy host. The keeper does not wait for a worker that has ended.
const FIRST_PATIENCE: Duration = Duration::from_secs(20);
/// The pause between two checks for the first answer.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The time within which a client of the keeper's socket must send its request.
const CLIENT_PATIENCE: Duration = Duration::from_secs(1);
/// The pauses between two attempts to fork a worker, the shortest and the longest, and how long it is tried.
const FORK_PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];
const FORK_PATIENCE: Duration = Duration::from_secs(60);
/// When this many workers have died within [`GIVE_UP_WITHIN`], the keeper starts no other.
const GIVE_UP_AFTER: usize = 20;
const GIVE_UP_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Options {
    /// A regular file, or a block device: the canonical path, in which no link is followed.
    pub image: PathBuf,
    /// The folder of the run; both sockets are made there.
    pub folder: PathBuf,
    /// The name of the file, which the loop device shows as its backing file: `wringer-<run id>`.
    pub name: String,
    pub threads: usize,
}

impl Options {
    pub const THREADS: usize = 16;
}

impl Order for Options {
    const ROLE: &'static str = "slowdisk";
    type Ready = Ready;
}

/// The keeper's message when it serves.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ready {
    pub pid: u32,
    /// The keeper's descriptor of the file system's root: `/proc/PID/fd/NUMBER/NAME` is the file.
    pub root: i32,
    pub name: String,
    /// The FUSE protocol agreed on with this kernel.
    pub protocol: (u32, u32),
    /// Whether the death of a worker is no I/O error.
    pub resends: bool,
}

struct Keeper {
    devices: Vec<OwnedFd>,
    backing: Arc<Backing>,
    /// The control socket of the workers; each worker inherits it.
    listener: UnixListener,
    /// The root of the file system. Closed when a loop device has opened the file, or when the disk must end.
    root: Option<OwnedFd>,
    in_force: InForce,
    /// `None`: not measured yet.
    way: Option<Way>,
    resends: bool,
    worker: Worker,
    watch: Watch,
    /// The times at which workers were replaced, newest last.
    replaced: Vec<Instant>,
    restarts: u32,
}

struct Worker {
    process: Forked,
    line: OwnedFd,
    /// Whether the last ping is still unanswered.
    pinged: bool,
    next_ping: Instant,
}

/// Counts the checks in which a worker was silent.
struct Watch {
    began: Instant,
    looks: Looks,
    next: Instant,
    silence: Silence,
}

impl Watch {
    fn new(now: Instant) -> Self {
        let silence = Silence::of(looks_in(PATIENCE, PING_PAUSE));
        Self { began: now, looks: Looks::new(PING_PAUSE, Duration::ZERO), next: now + PING_PAUSE, silence }
    }

    /// Whether a worker that owes an answer hangs. Call it before the next ping is sent: an answer since the last check ends the silence.
    fn hangs(&mut self, is_silent: bool, now: Instant) -> bool {
        let is_look = now >= self.next;
        if is_look {
            self.next = now + PING_PAUSE;
        }
        let counts = is_look && self.looks.counts(now.duration_since(self.began));
        if !is_silent {
            self.silence.end();
        }
        is_silent && self.silence.look(counts).is_some()
    }
}

/// Serves until the file system is gone. Must be called before the process starts a thread.
///
/// # Errors
/// No `/dev/fuse`, no right to mount, an image that cannot be opened; [`Error::Worker`] when no worker can serve any more.
pub fn run(options: &Options) -> Result<(), Error> {
    let nice = rustix::process::getpriority_process(None).unwrap_or(0);
    namespace::protect_self();
    let [term, usr1] = signals()?;
    let backing = Arc::new(open_image(options)?);
    let device = open_device()?;
    let source = &options.name;
    let root = namespace::mount_fuse_nowhere(device.as_fd(), source)
        .map_err(|source| Error::Mount { path: options.image.clone(), source })?;
    let seen = PathBuf::from(format!("/proc/self/fd/{}", root.as_raw_fd()));
    let closed = [device.as_raw_fd(), backing.inode.as_fd().as_raw_fd(), backing.open.file().as_raw_fd()];
    let looker = Looker::start(&seen, nice, &closed);
    let version = shake_hands(device.as_fd())?;
    let protocol = (version.0, version.1);
    let mut devices = vec![device];
    for _ in 1..options.threads.max(1) {
        devices.push(clone_device(devices[0].as_fd())?);
    }
    let listener = crate::process::listen(&options.folder.join(super::WORKER_SOCKET))?;
    let own = crate::process::listen(&options.folder.join(super::KEEPER_SOCKET))?;
    let model = Model::none(DelayMode::Add);
    let worker = Worker::start(&devices, &backing, &listener, Some(&root), (&model, None), false)?;
    let resends = protocol >= RESEND_SINCE;
    let root_number = root.as_raw_fd();
    let root = Some(root);
    let (replaced, restarts, in_force) = (Vec::new(), 0, InForce::new(model));
    let watch = Watch::new(Instant::now());
    let way = None;
    let mut keeper =
        Keeper { devices, backing, listener, root, in_force, way, resends, worker, watch, replaced, restarts };
    keeper.await_first_answer()?;
    keeper.know_way(looker.map_or_else(Way::not_measured, Looker::look));
    let pid = std::process::id();
    report_ready::<Options>(&Ready { pid, root: root_number, name: options.name.clone(), protocol, resends });
    keeper.keep(&term, &usr1, host::process::lifeline(), &own)
}

fn open_image(options: &Options) -> Result<Backing, Error> {
    let failed = |errno: rustix::io::Errno| Error::Image { path: options.image.clone(), source: errno.into() };
    let place =
        open_without_links(&options.image).map_err(|source| Error::Image { path: options.image.clone(), source })?;
    let inode = Inode::of(place);
    let kind = rustix::fs::FileType::from_raw_mode(inode.stat().map_err(failed)?.st_mode);
    // With this flag the kernel refuses to mount the device while the disk is served.
    let is_device = kind == rustix::fs::FileType::BlockDevice;
    let claim = if is_device { OFlags::EXCL } else { OFlags::empty() };
    let file = inode.open(OFlags::RDWR | claim).map_err(failed)?;
    let open = Open::new(file, OFlags::RDWR, true);
    Backing::new(inode, open, is_device, OsString::from(&options.name)).map_err(failed)
}

/// Two descriptors: the first is readable after SIGTERM, the second after SIGUSR1.
fn signals() -> Result<[OwnedFd; 2], Error> {
    let failed = |source| Error::Serve { operation: "catch signals", source };
    let ignored = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, ignored.clone()).map_err(failed)?;
    }
    let pipe = |signal| {
        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(signal, write)?;
        io::Result::Ok(OwnedFd::from(read))
    };
    Ok([pipe(SIGTERM).map_err(failed)?, pipe(SIGUSR1).map_err(failed)?])
}

impl Worker {
    fn start(
        devices: &[OwnedFd],
        backing: &Arc<Backing>,
        listener: &UnixListener,
        root: Option<&OwnedFd>,
        (model, way): (&Model, Option<&Way>),
        is_successor: bool,
    ) -> Result<Self, Error> {
        let failed = |source| Error::Serve { operation: "start a worker", source };
        let (line, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(|errno| failed(errno.into()))?;
        [&line, &theirs].into_iter().for_each(worker::widen);
        let (keeper, own, root) = (std::process::id(), line.as_raw_fd(), root.map(|root| root.as_raw_fd()));
        let process = fork(|| {
            for number in root.into_iter().chain([own]) {
                // SAFETY: both belong to the keeper, and this forked process uses neither.
                unsafe { libc::close(number) };
            }
            let (backing, model, way) = (backing.clone(), model.clone(), way.cloned());
            let heritage = Heritage { devices, backing, listener, line: theirs, model, way, is_successor, keeper };
            let served = worker::serve(heritage);
            served.map_or_else(
                |error| {
                    note(format_args!("a worker cannot serve: {error}"));
                    1
                },
                |()| 0,
            )
        });
        let process = process.map_err(|source| Error::Worker { why: host::chain(&source) })?;
        let next_ping = Instant::now() + PING_PAUSE;
        Ok(Self { process, line, pinged: false, next_ping })
    }

    fn ping(&mut self, now: Instant) {
        if !self.pinged && now >= self.next_ping && rustix::io::write(&self.line, PING).is_ok() {
            self.pinged = true;
            self.next_ping = now + PING_PAUSE;
        }
    }
}

impl Keeper {
    fn await_first_answer(&mut self) -> Result<(), Error> {
        self.worker.next_ping = Instant::now();
        self.worker.ping(Instant::now());
        for _ in 0..looks_in(FIRST_PATIENCE, FIRST_PAUSE) {
            if !self.worker.pinged {
                return Ok(());
            }
            if self.worker.process.has_ended() {
                break;
            }
            self.hears_within(FIRST_PAUSE);
            self.listen();
        }
        if self.worker.pinged { Err(Error::Worker { why: "the first one does not serve".into() }) } else { Ok(()) }
    }

    /// Sends the way to this worker, and keeps it for each later worker.
    fn know_way(&mut self, way: Way) {
        let mut message = vec![WAY];
        message.extend(serde_json::to_vec(&way).unwrap_or_default());
        let _ = rustix::io::write(&self.worker.line, &message);
        self.way = Some(way);
    }

    fn hears_within(&self, time: Duration) {
        let mut set = [PollFd::new(&self.worker.line, PollFlags::IN)];
        let _ = poll(&mut set, Timespec::try_from(time).ok().as_ref());
    }

    fn keep(
        mut self,
        term: &OwnedFd,
        usr1: &OwnedFd,
        mut lifeline: Option<OwnedFd>,
        own: &UnixListener,
    ) -> Result<(), Error> {
        own.set_nonblocking(true).map_err(|source| Error::Serve { operation: "listen", source })?;
        loop {
            let of_worker = [self.worker.process.pidfd(), self.worker.line.as_fd()];
            let of_keeper = [term.as_fd(), usr1.as_fd(), own.as_fd()];
            let events = Events::wait(of_keeper, of_worker, lifeline.as_ref(), PING_PAUSE);
            if events.line {
                self.listen();
            }
            if events.usr1 {
                drain(usr1);
                self.neutralise();
            }
            if events.term || events.lifeline && ended(lifeline.as_ref()) {
                drain(term);
                lifeline = lifeline.filter(|_| !events.lifeline);
                self.neutralise();
                self.root = None;
            }
            if events.died && self.replace_dead()? {
                return Ok(());
            }
            if events.client {
                self.hear_client(own);
            }
            self.watch();
        }
    }

    fn hear_client(&mut self, own: &UnixListener) {
        match own.accept() {
            Ok((client, _)) => drop(self.answer(client)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => std::thread::sleep(ACCEPT_PAUSE),
        }
    }

    fn neutralise(&mut self) {
        let is_ordered = rustix::io::write(&self.worker.line, NEUTRALISE).is_ok();
        self.in_force.neutralise(is_ordered);
        self.worker.process.signal(rustix::process::Signal::CONT);
    }

    /// Reads every message of the worker.
    fn listen(&mut self) {
        let mut message = vec![0; worker::MESSAGE_BYTES];
        while let Ok((length, _)) =
            rustix::net::recv(&self.worker.line, message.as_mut_slice(), rustix::net::RecvFlags::DONTWAIT)
        {
            match message[..length].split_first() {
                Some((&PONG, _)) => self.worker.pinged = false,
                Some((&NEUTRALISED, _)) => self.in_force.neutralised(),
                Some((&MODEL, text)) => {
                    if let Ok(model) = serde_json::from_slice(text) {
                        self.in_force.told(model);
                    }
                }
                _ => return,
            }
        }
    }

    /// Ends a worker that hangs; it is replaced when it has ended. Before FUSE 7.40 the watchdog decides.
    fn watch(&mut self) {
        let now = Instant::now();
        if self.watch.hangs(self.worker.pinged, now) && self.resends {
            note(format_args!("a worker answered nobody for {} s: it is replaced", PATIENCE.as_secs()));
            self.worker.pinged = false;
            self.worker.process.signal(rustix::process::Signal::KILL);
        }
        self.worker.ping(now);
    }

    /// Whether the keeper must end. The last messages of the dead worker are read first.
    fn replace_dead(&mut self) -> Result<bool, Error> {
        self.listen();
        let status = self.worker.process.reap();
        if status.is_some_and(|status| status.exit_status() == Some(0)) {
            return Ok(true);
        }
        let how = status.map_or_else(|| "in an unknown way".to_owned(), describe);
        if !self.resends {
            return Err(Error::Worker {
                why: format!("the worker ended {how}, and this kernel cannot send its requests to another one"),
            });
        }
        let now = Instant::now();
        self.replaced.retain(|at| now.duration_since(*at) < GIVE_UP_WITHIN);
        if self.replaced.len() >= GIVE_UP_AFTER {
            return Err(Error::Worker {
                why: format!("{GIVE_UP_AFTER} workers ended within {} s, the last one {how}", GIVE_UP_WITHIN.as_secs()),
            });
        }
        note(format_args!("the worker ended {how}: another one serves"));
        self.replaced.push(now);
        self.restarts += 1;
        self.in_force.worker_is_gone();
        self.worker = self.successor()?;
        Ok(false)
    }

    /// A host that cannot fork at the moment (a limit of processes, no memory) can do so a little later. Meanwhile the kernel keeps the requests: without
    /// the keeper's descriptors it would answer them with I/O errors.
    fn successor(&self) -> Result<Worker, Error> {
        let [mut pause, longest] = FORK_PAUSES;
        let end = Instant::now() + FORK_PATIENCE;
        loop {
            let in_force = (self.in_force.model(), self.way.as_ref());
            match Worker::start(&self.devices, &self.backing, &self.listener, self.root.as_ref(), in_force, true) {
                Err(error) if Instant::now() < end => {
                    note(format_args!("no other worker yet: {}", host::chain(&error)));
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(longest);
                }
                started => return started,
            }
        }
    }

    fn answer(&mut self, client: UnixStream) -> io::Result<()> {
        client.set_nonblocking(false)?;
        client.set_read_timeout(Some(CLIENT_PATIENCE))?;
        client.set_write_timeout(Some(CLIENT_PATIENCE))?;
        let mut line = String::new();
        BufReader::new(&client).read_line(&mut line)?;
        let request = serde_json::from_str(&line);
        if matches!(request, Ok(Request::Attached)) {
            self.root = None;
        }
        let kept = Kept { worker: self.worker.process.pid(), restarts: self.restarts, resends: self.resends };
        let mut answer = keeper_answer(request, self.in_force.model(), &kept);
        answer.push('\n');
        (&client).write_all(answer.as_bytes())
    }
}

/// Writes a line to the log in the run's folder.
fn note(text: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{text}");
}

fn describe(status: rustix::process::WaitIdStatus) -> String {
    match (status.terminating_signal(), status.exit_status()) {
        (Some(signal), _) => format!("by signal {signal}"),
        (None, Some(code)) => format!("with code {code}"),
        (None, None) => "in an unknown way".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a worker that never answers at these seconds; returns the second at which it counts as hanging.
    fn hangs_at(seconds: &[u64]) -> Option<u64> {
        let began = Instant::now();
        let mut watch = Watch::new(began);
        seconds.iter().copied().find(|second| watch.hangs(true, began + Duration::from_secs(*second)))
    }

    #[test]
    fn a_worker_is_silent_in_looks_and_not_by_the_clock() {
        assert_eq!(hangs_at(&[1, 2, 3, 4, 5]), Some(4));
        assert_eq!(hangs_at(&[1, 2, 38, 39, 40, 41]), None, "keeper and worker were frozen");
        assert_eq!(hangs_at(&[1, 2, 38, 39, 40, 41, 42, 43, 44]), Some(43), "and the worker did not wake");
    }

    /// Each answer comes between two checks, and the next ping is sent before the second check.
    #[test]
    fn who_answers_between_two_looks_does_not_hang() {
        let began = Instant::now();
        let mut watch = Watch::new(began);
        let mut look = |ms, is_silent| watch.hangs(is_silent, began + Duration::from_millis(ms));
        for second in 1..10 {
            assert!(!look(second * 1000, true) && !look(second * 1000 + 5, false), "at {second} s");
        }
    }

    #[test]
    fn who_answers_is_silent_no_more() {
        let began = Instant::now();
        let mut watch = Watch::new(began);
        let mut look = |second, is_silent| watch.hangs(is_silent, began + Duration::from_secs(second));
        assert!((1..=3).all(|second| !look(second, true)) && !look(4, false));
        assert!((5..=7).all(|second| !look(second, true)) && look(8, true));
    }
}
