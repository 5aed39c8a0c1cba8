// SPDX-License-Identifier: Apache-2.0
//! The process that serves the requests. The keeper forks it, with the keeper's descriptors; it executes no program file, because
//! that file might be on the slow disk.

use super::device::{resend, session};
use super::image::{Backing, Image};
use crate::buffer::Pool;
use crate::control::{self, Controlled};
use crate::engine::Engine;
use crate::stats::Stats;
use crate::way::Way;
use diskmodel::Model;
use evidence::Delay;
use host::namespace;
use rustix::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::io;
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

/// From the keeper: answer this ping.
pub(super) const PING: &[u8] = b"?";
/// From the keeper: remove all delays.
pub(super) const NEUTRALISE: &[u8] = b"0";
/// From the keeper: the measured way to the layer and back follows.
pub(super) const WAY: u8 = b'w';
/// To the keeper: the answer to a ping.
pub(super) const PONG: u8 = b'.';
/// To the keeper: the model that follows is in force from now on.
pub(super) const MODEL: u8 = b'm';
/// To the keeper: [`NEUTRALISE`] is done. Models that were told before it are in force no more.
pub(super) const NEUTRALISED: u8 = b'n';
/// A model with a long histogram is one message.
pub(super) const MESSAGE_BYTES: usize = 4 << 20;

/// The descriptors and the state that the keeper gives to each worker.
pub(super) struct Heritage<'a> {
    pub devices: &'a [OwnedFd],
    pub backing: Arc<Backing>,
    pub listener: &'a UnixListener,
    /// The worker's end of the line to the keeper.
    pub line: OwnedFd,
    pub model: Model,
    /// The way to the layer, if it is measured already.
    pub way: Option<Way>,
    /// An earlier worker died: the kernel must send its unanswered requests again.
    pub is_successor: bool,
    pub keeper: u32,
}

/// Serves until the file system is gone.
pub(super) fn serve(heritage: Heritage<'_>) -> io::Result<()> {
    let engine = Arc::new(Engine::new(heritage.model, heritage.devices.len()));
    if let Some(way) = heritage.way {
        engine.know_way(way);
    }
    come_to_life(heritage.keeper, &engine)?;
    namespace::protect_self();
    if heritage.is_successor {
        // Do this before any thread takes a request: requests that are taken later are answered once, by this worker.
        resend(heritage.devices[0].as_fd())?;
    }
    let (ended, end) = mpsc::channel();
    let buffers = Arc::new(Pool::default());
    for device in heritage.devices {
        let image = Image { backing: heritage.backing.clone(), engine: engine.clone(), buffers: buffers.clone() };
        let (session, ended) = (session(device.as_fd(), image)?, ended.clone());
        spawn("session", move || drop(ended.send(session.run())))?;
    }
    let timer = engine.clone();
    spawn("timer", move || timer.serve_queue())?;
    let kept = Arc::new(KeptEngine { engine: engine.clone(), line: heritage.line, order: Mutex::new(()) });
    let (controlled, listener) = (kept.clone(), heritage.listener.try_clone()?);
    spawn("control", move || control::serve(&listener, &controlled))?;
    spawn("keeper", move || kept.listen())?;
    engine.calibrate();
    end.recv().unwrap_or(Ok(()))
}

/// Signals are handled by the keeper. When the keeper dies, the kernel wakes this process, in case it was stopped.
fn come_to_life(keeper: u32, engine: &Engine) -> io::Result<()> {
    for (signal, action) in [
        (libc::SIGTERM, libc::SIG_IGN),
        (libc::SIGUSR1, libc::SIG_IGN),
        (libc::SIGINT, libc::SIG_IGN),
        (libc::SIGHUP, libc::SIG_IGN),
        (libc::SIGPIPE, libc::SIG_IGN),
    ] {
        // SAFETY: sets the disposition of one signal; no handler of ours is given.
        if unsafe { libc::signal(signal, action) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::CONT))?;
    let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get().cast_unsigned());
    if parent != keeper {
        engine.neutralise();
    }
    Ok(())
}

/// The engine of this worker. The keeper knows what is in force, so that the next worker begins with it.
struct KeptEngine {
    engine: Arc<Engine>,
    /// The line to the keeper.
    line: OwnedFd,
    /// Held while the keeper is told and the engine is changed: the keeper hears of changes in the order in which they are made.
    order: Mutex<()>,
}

impl KeptEngine {
    fn tell(&self, message: &[u8]) -> io::Result<()> {
        rustix::io::write(&self.line, message).map(drop).map_err(Into::into)
    }

    fn tell_model(&self, model: &Model) -> io::Result<()> {
        let mut message = vec![MODEL];
        message.extend(serde_json::to_vec(model)?);
        self.tell(&message)
    }

    fn neutralise(&self) {
        // at once, also while a client sets a model; and again, if that model came later
        self.engine.neutralise();
        let _in_order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        self.engine.neutralise();
        let _ = self.tell(&[NEUTRALISED]);
    }

    /// Reads the keeper's messages, until the keeper dies.
    fn listen(&self) {
        let mut message = [0; 4096];
        loop {
            match rustix::io::read(&self.line, &mut message) {
                Err(rustix::io::Errno::INTR) => {}
                Ok(length) if length > 0 => match &message[..length] {
                    PING => drop(self.tell(&[PONG])),
                    NEUTRALISE => self.neutralise(),
                    [WAY, text @ ..] => serde_json::from_slice(text).map_or((), |way| self.engine.know_way(way)),
                    _ => {}
                },
                _ => return self.neutralise(),
            }
        }
    }
}

impl Controlled for KeptEngine {
    fn delay(&self) -> Delay {
        self.engine.delay()
    }

    fn model(&self) -> Model {
        Controlled::model(&*self.engine)
    }

    fn set(&self, model: Model) -> Result<(), String> {
        let _in_order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        self.tell_model(&model).map_err(|error| format!("the keeper cannot be told: {error}"))?;
        self.engine.set(model);
        Ok(())
    }

    fn stats(&self) -> Stats {
        self.engine.stats()
    }
}

fn spawn(name: &'static str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.into()).spawn(body).map(drop)
}

/// Lets both ends of the line take a long message.
pub(super) fn widen(line: &OwnedFd) {
    let bytes = libc::c_int::try_from(MESSAGE_BYTES).unwrap_or(libc::c_int::MAX);
    for option in [libc::SO_SNDBUFFORCE, libc::SO_RCVBUFFORCE] {
        // SAFETY: the option's value is one int.
        unsafe {
            libc::setsockopt(
                line.as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                (&raw const bytes).cast(),
                libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(4),
            );
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use evidence::DelayMode;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    #[test]
    fn what_the_keeper_does_not_know_is_not_in_force() {
        let (line, keeper) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let none = Model::none(DelayMode::Add);
        let kept = KeptEngine { engine: Arc::new(Engine::new(none.clone(), 1)), line, order: Mutex::new(()) };
        let slow = Model::from(Delay { read_us: 9, write_us: 0, sync_us: 0, mode: DelayMode::Add, varies: false });
        kept.set(slow.clone()).unwrap();
        assert_eq!(kept.model(), slow);
        kept.neutralise();
        let mut message = vec![0; 4096];
        let mut next = || {
            let length = rustix::io::read(&keeper, &mut message).unwrap();
            message[..length].to_vec()
        };
        assert_eq!((next()[0], next()), (MODEL, vec![NEUTRALISED]), "the keeper hears of both, the model first");
        drop(keeper);
        assert!(kept.set(slow).unwrap_err().contains("cannot be told"));
        assert_eq!(kept.model(), none);
    }
}
