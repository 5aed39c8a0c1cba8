// SPDX-License-Identifier: Apache-2.0
//! The process of a preload layer: `wringer internal preload`. It does the same as the FUSE layer's process, except the I/O itself:
//! it sets the model, answers on the control socket, removes all delays at SIGUSR1 and at the end of its lifeline, and ends at
//! SIGTERM. It also renews the lease of the library: ten seconds after this process was killed, nothing is delayed any more.

use crate::shared::Counted;
use crate::shared_model::Bank;
use crate::{Error, Map};
use diskmodel::Model;
use evidence::{Delay, DelayMode, LatencyHistogram};
use host::process::{Order, report_ready};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Mode;
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use slowfs::control::{self, Controlled};
use slowfs::stats::{InPrograms, Latency, OfClass, Stats};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Ten renewals within the lease.
const RENEW_EVERY: Duration = Duration::from_secs(1);

struct Keeper {
    map: Map,
    /// The model last set. Without a delay once all delays were removed: a client that held a model until then must not bring one back.
    model: Mutex<Model>,
}

/// The order to the keeper, from the process that starts it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Options {
    /// The number of the descriptor of the memory, as it was inherited.
    pub map: RawFd,
    /// The control socket.
    pub control: PathBuf,
}

impl Order for Options {
    const ROLE: &'static str = "preload";
    type Ready = ();
}

/// Keeps `map` until SIGTERM, and answers on the socket `control`. At the start the model has no delay.
///
/// # Errors
/// The socket or a thread cannot be made.
pub fn run(map: Map, control: &Path) -> Result<(), Error> {
    let mut signals = Signals::new([SIGTERM, SIGUSR1, SIGINT, SIGHUP]).map_err(keep("catch signals"))?;
    let listener =
        listen(control).map_err(|source| Error::Socket { operation: "listen at", path: control.to_owned(), source })?;
    let none = Model::none(DelayMode::Add);
    map.renew_lease();
    map.set(&none)?;
    let keeper = Arc::new(Keeper { map, model: Mutex::new(none) });
    let (controlled, renewing, watching) = (keeper.clone(), keeper.clone(), keeper.clone());
    spawn("control", move || control::serve(&listener, &controlled))?;
    spawn("lease", move || {
        loop {
            renewing.map.renew_lease();
            std::thread::sleep(RENEW_EVERY);
        }
    })?;
    if let Some(lifeline) = host::process::lifeline() {
        spawn("lifeline", move || {
            // A signal interrupts poll(2); it is not the end of the lifeline.
            while poll(&mut [PollFd::new(&lifeline, PollFlags::IN)], None).is_err() {}
            watching.neutralise();
        })?;
    }
    report_ready::<Options>(&());
    for signal in signals.forever() {
        if [SIGUSR1, SIGTERM].contains(&signal) {
            keeper.neutralise();
        }
        if signal == SIGTERM {
            break;
        }
    }
    Ok(())
}

impl Keeper {
    fn neutralise(&self) {
        // At once; and again, for a client that set a model at the same moment.
        self.map.neutralise();
        let mut current = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        *current = Model::none(current.delay().mode);
        self.map.neutralise();
    }
}

impl Controlled for Keeper {
    fn delay(&self) -> Delay {
        self.model().delay()
    }

    fn model(&self) -> Model {
        self.model.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, model: Model) -> Result<(), String> {
        let mut current = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        self.map.set(&model).map_err(|error| error.to_string())?;
        *current = model;
        Ok(())
    }

    fn stats(&self) -> Stats {
        let shared = self.map.shared();
        Stats {
            unseen_reads: shared.unseen_reads.load(Relaxed),
            errors: shared.errors.load(Relaxed),
            overshoot_ns: shared.lead.all().to_vec(),
            waited: shared.bank(shared.in_force.load(Relaxed)).map(Bank::waited).unwrap_or_default(),
            in_programs: Some(InPrograms {
                processes: shared.attached.load(Relaxed).into(),
                cached_reads: shared.cached_reads.load(Relaxed),
                buffered_writes: shared.buffered_writes.load(Relaxed),
                lapsed: shared.lapsed.load(Relaxed),
            }),
            ..Stats::of(self.delay(), shared.classes.each_ref().map(so_far))
        }
    }
}

fn so_far(counted: &Counted) -> OfClass {
    let [own, asked, got] = [&counted.own, &counted.asked, &counted.got].map(|from| {
        let mut histogram = LatencyHistogram::new();
        from.recorded().for_each(|(ns, count)| histogram.record_n(ns, count));
        histogram
    });
    OfClass {
        operations: counted.operations.load(Relaxed),
        bytes: counted.bytes.load(Relaxed),
        delayed: counted.delayed.load(Relaxed),
        latency: Latency { own, asked, got },
    }
}

fn listen(socket: &Path) -> io::Result<UnixListener> {
    let before = rustix::process::umask(Mode::from_raw_mode(0o177));
    let listener = UnixListener::bind(socket);
    rustix::process::umask(before);
    listener
}

fn spawn(name: &'static str, body: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    std::thread::Builder::new().name(name.into()).spawn(body).map(drop).map_err(keep("start a thread"))
}

fn keep(operation: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Keep { operation, source }
}
