// SPDX-License-Identifier: Apache-2.0
//! The slow layer as a process: the body of `wringer internal slowfs`.
//!
//! In: a directory, a delay, a control socket. The process mounts itself over the directory, writes to the descriptor named by
//! `WRINGER_READY_FD` that it serves, and serves until it is unmounted or told to end.
//!
//! | event | what happens |
//! | --- | --- |
//! | SIGUSR1 | all delays become 0; waiting replies leave at once |
//! | end of file on the descriptor named by `WRINGER_LIFELINE_FD` | the same, and the process goes on serving: its end would be an I/O error for the server |
//! | SIGTERM | the same, and the process unmounts itself as soon as nobody uses the files, in any mount namespace, however late that is |
//! | the kernel closes the connection: no mount is left, in any mount namespace, and no file is open | the process ends |
//! | SIGINT, SIGHUP | nothing: the terminal sends them to the controller too, and the controller decides |

use crate::Error;
use crate::control;
use crate::engine::Engine;
use crate::layer::{Layer, Settings, outside};
use crate::way::Way;
use crate::way::client::Looker;
use evidence::{Delay, DelayMode};
use fuser::{Config, Session, SessionACL};
use host::change::Served;
use host::files::open_without_links;
use host::mounts::{MARK_FILE, Mark, OwnMount};
use host::namespace::{self, FUSE_TYPE, Reach};
use host::process::{Order, lifeline, report_ready};
use rustix::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags, fstat, open};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use std::io::{self, Read as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The pause between two tries to unmount: the first, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Options {
    /// The directory that is slowed, by its canonical path, in which no link is followed; the layer is mounted over it.
    pub directory: PathBuf,
    /// Mount in a new mount namespace. Otherwise in the present one, and the caller has journaled the mount.
    pub private: bool,
    /// With `private`: the process of another layer, whose namespace this layer joins, so that one command sees both.
    pub beside: Option<u32>,
    /// The control socket.
    pub control: PathBuf,
    /// The run's id. The source of the mount is `wringer-<run id>`.
    pub run_id: String,
    /// How many threads take requests from the kernel, at least 1. On two processors more than [`Options::THREADS`] requests at once gain nothing.
    pub threads: usize,
    /// The model in force from the first request on.
    pub delay: Delay,
    /// Let the kernel keep written pages until they are synced, as it does above a disk. Off for a user's own directory.
    pub writeback_cache: bool,
    /// Let aligned requests bypass the page cache below.
    pub direct: bool,
    /// Read-ahead of the mount. `None`: the kernel's default, 128 KiB.
    pub read_ahead_kib: Option<u32>,
    /// End when every other process that was seen in the namespace has ended.
    pub leave_when_alone: bool,
}

impl Options {
    pub const THREADS: usize = 16;

    /// Without a delay yet, and in a mount namespace of its own.
    pub fn over(directory: &Path, control: &Path, run_id: &str) -> Self {
        Self {
            directory: directory.to_owned(),
            private: true,
            beside: None,
            control: control.to_owned(),
            run_id: run_id.to_owned(),
            threads: Self::THREADS,
            delay: Delay { read_us: 0, write_us: 0, sync_us: 0, mode: DelayMode::Add, varies: false },
            writeback_cache: true,
            direct: true,
            read_ahead_kib: None,
            leave_when_alone: false,
        }
    }
}

impl Order for Options {
    const ROLE: &'static str = "slowfs";
    type Ready = ();
}

/// Serves until the kernel closes the connection. Must be called before the process starts a thread.
///
/// # Errors
/// No `/dev/fuse`, no right to mount, a directory that cannot be opened, or a link in its path.
pub fn run(options: &Options) -> Result<(), Error> {
    let directory = &options.directory;
    let root = open_without_links(directory).map_err(|source| directory_error(options, source))?;
    let mut signals = Signals::new([SIGTERM, SIGUSR1, SIGINT, SIGHUP]).map_err(serve_error("catch signals"))?;
    let nice = rustix::process::getpriority_process(None).unwrap_or(0);
    namespace::protect_self();
    let private = match (options.private, options.beside) {
        (true, Some(layer)) => Some(namespace::join_private(layer)),
        (true, None) => Some(namespace::enter_private()),
        (false, _) => None,
    };
    let private = private.transpose().map_err(|source| Error::Namespace { source })?;
    let reach = private.as_ref().map_or(Reach::HostJournaledByCaller, Reach::Private);
    let target = same_place(&root, options)?;
    let looker = Looker::start(directory, nice, &[root.as_raw_fd(), target.as_raw_fd()]);
    let listener = listen(&options.control)?;
    let source = format!("wringer-{}", options.run_id);
    let device = mount(reach, (target, directory), &source)?;
    let ours = OwnMount::just_mounted(&source, FUSE_TYPE, directory);
    let engine = Arc::new(Engine::new(options.delay, options.threads));

    let way_looker = looker.as_ref().map_or(0, Looker::pid);
    let served = start(options, root, device, &engine, (listener, way_looker), signals.handle());
    if let Err(error) = served {
        let _ = namespace::unmount_fuse(&ours, Served::No);
        return Err(error);
    }
    if let Some(mark) = &ours.mark {
        namespace::tune_own_mount(mark, options.read_ahead_kib);
        if !options.private {
            write_down(mark, &options.control)?;
        }
    }
    engine.calibrate();
    engine.know_way(looker.map_or_else(Way::not_measured, Looker::look));
    if options.leave_when_alone {
        spawn("company", leave_when_alone)?;
    }
    report_ready::<Options>(&());
    serve_signals(&mut signals, &engine, &ours)
}

/// Starts every thread of the layer.
fn start(
    options: &Options,
    root: OwnedFd,
    device: OwnedFd,
    engine: &Arc<Engine>,
    (listener, way_looker): (UnixListener, u32),
    ended: signal_hook::iterator::Handle,
) -> Result<(), Error> {
    let Options { writeback_cache, direct, threads, .. } = *options;
    let (stale, old_pages) = outside::stale();
    let layer = Layer::new(root, engine.clone(), Settings { writeback_cache, direct, threads }, stale, way_looker)
        .map_err(|errno| directory_error(options, errno.into()))?;
    let mut config = Config::default();
    config.n_threads = Some(options.threads.max(1));
    config.clone_fd = true;
    let session =
        Session::from_fd(layer, device, SessionACL::All, config).map_err(serve_error("shake hands with the kernel"))?;
    let kernel = session.notifier();
    spawn("old pages", move || outside::drop_pages(&old_pages, &kernel))?;
    spawn("session", move || {
        // The session has ended, for whatever reason: the process has nothing left to do.
        let _ = session.run();
        ended.close();
    })?;
    let timer = engine.clone();
    spawn("timer", move || timer.serve_queue())?;
    let controlled = engine.clone();
    spawn("control", move || control::serve(&listener, &controlled))?;
    if let Some(lifeline) = lifeline() {
        let engine = engine.clone();
        spawn("lifeline", move || {
            wait_for_end(lifeline);
            engine.neutralise();
        })?;
    }
    Ok(())
}

fn spawn(name: &'static str, body: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    std::thread::Builder::new().name(name.into()).spawn(body).map(drop).map_err(serve_error("start a thread"))
}

/// Runs the session; returns when it has ended.
fn serve_signals(signals: &mut Signals, engine: &Engine, ours: &OwnMount) -> Result<(), Error> {
    let mut leaves = false;
    for signal in signals.forever() {
        match signal {
            SIGUSR1 => engine.neutralise(),
            SIGTERM => {
                engine.neutralise();
                if !leaves {
                    let ours = ours.clone();
                    spawn("leave", move || leave(&ours))?;
                }
                leaves = true;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Unmounts as soon as nobody uses the mount. Meanwhile the kernel writes dirty pages through the layer, and the layer's other
/// threads serve these writes. The session ends with its last mount, which may be another one.
fn leave(ours: &OwnMount) {
    let [mut pause, longest] = PAUSES;
    while !namespace::unmount_fuse(ours, Served::Yes).unwrap_or(false) {
        std::thread::sleep(pause);
        pause = (pause * 2).min(longest);
    }
}

/// The undo of the run recognises the mount by this source, wherever the mount is then.
fn write_down(mark: &Mark, control: &Path) -> Result<(), Error> {
    let text = serde_json::to_vec(mark).map_err(|source| Error::Answer { source })?;
    host::files::write_atomic(&control.with_file_name(MARK_FILE), &text, 0o600).map_err(|source| Error::Mark { source })
}

/// Opens the directory once more, in the mount namespace of now: a mount can only be made in the namespace in which its place was opened. It must be the
/// directory whose files are served.
fn same_place(root: &OwnedFd, options: &Options) -> Result<OwnedFd, Error> {
    let failed = |source| directory_error(options, source);
    let identity =
        |place: &OwnedFd| fstat(place).map(|it| (it.st_dev, it.st_ino)).map_err(|errno| failed(errno.into()));
    let target = open_without_links(&options.directory).map_err(failed)?;
    if identity(&target)? == identity(root)? {
        return Ok(target);
    }
    Err(failed(io::Error::other("another directory is there by now")))
}

fn mount(reach: Reach<'_>, (target, directory): (OwnedFd, &Path), source: &str) -> Result<OwnedFd, Error> {
    let device = open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| Error::Device { source: errno.into() })?;
    namespace::mount_fuse(reach, device.as_fd(), (target.as_fd(), directory), source)
        .map_err(|source| Error::Mount { path: directory.to_owned(), source })?;
    Ok(device)
}

/// The kernel has already applied the caller's umask to each request, so this process must have none. Its socket is made before that.
pub(crate) fn listen(socket: &Path) -> Result<UnixListener, Error> {
    rustix::process::umask(Mode::from_raw_mode(0o177));
    let listener = UnixListener::bind(socket);
    rustix::process::umask(Mode::empty());
    listener.map_err(|source| Error::Socket { operation: "listen at", path: socket.to_owned(), source })
}

fn wait_for_end(lifeline: OwnedFd) {
    let mut lifeline = std::fs::File::from(lifeline);
    let mut byte = [0];
    loop {
        match lifeline.read(&mut byte) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Checks once a second which other processes are in this mount namespace.
fn leave_when_alone() {
    let mut had_company = false;
    loop {
        let alone = !has_company();
        if alone && had_company {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM);
            return;
        }
        had_company |= !alone;
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn has_company() -> bool {
    let own = std::fs::read_link("/proc/self/ns/mnt").ok();
    let me = std::process::id().to_string();
    let Ok(processes) = std::fs::read_dir("/proc") else { return true };
    own.is_some()
        && processes.flatten().any(|process| {
            let name = process.file_name();
            name.to_string_lossy().starts_with(|first: char| first.is_ascii_digit())
                && name.to_string_lossy() != me
                && std::fs::read_link(process.path().join("ns/mnt")).ok() == own
        })
}

fn directory_error(options: &Options, source: io::Error) -> Error {
    Error::Directory { path: options.directory.clone(), source }
}

fn serve_error(operation: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Serve { operation, source }
}
