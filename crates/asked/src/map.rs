// SPDX-License-Identifier: Apache-2.0
//! The shared memory, as the asking program uses it.

use crate::Error;
use crate::shared::{
    ARENAS_OF_JEMALLOC, MAGIC, NO_FUNCTION, OF_GLIBC, OF_JEMALLOC, OF_TCMALLOC, PROFILE_OF_JEMALLOC,
    PROFILE_OF_TCMALLOC, Shared, TOLD, VARIABLE,
};
use capability::MallocKind;
use host::inherited::{Memory, Shareable};
use rustix::fd::OwnedFd;
use rustix::thread::futex;
use std::ffi::OsString;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

/// The longest wait for an answer before a look whether the process still runs.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The memory that one server shares with this program.
#[derive(Debug)]
pub struct Map {
    memory: Memory<Shared>,
}

/// Why a server does not say how many bytes it has asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Silence {
    #[error("{0} has no function that tells it")]
    Untold(&'static str),
    #[error("the library in the server has no thread: it is not loaded, or the process was forked")]
    Nobody,
    #[error("the server has not answered within {}s", .0.as_secs())]
    Late(Duration),
    #[error("the malloc in the server has no function {0}")]
    NoFunction(&'static str),
    #[error("{0} says that it cannot tell: it was built without statistics")]
    Refused(&'static str),
    #[error("{0} has written no profile")]
    NoProfile(&'static str),
    #[error("the process has ended before it answered")]
    Ended,
}

// SAFETY: all its fields are atomic numbers.
unsafe impl Shareable for Shared {}

impl Map {
    /// Makes anonymous memory. Nothing is asked yet.
    ///
    /// # Errors
    /// No memory.
    pub fn create() -> Result<Self, Error> {
        let memory = Memory::<Shared>::create("wringer-asked").map_err(|source| Error::Map { source })?;
        memory.magic.store(MAGIC, Release);
        Ok(Self { memory })
    }

    /// The descriptor, which the server inherits under this number.
    pub fn descriptor(&self) -> Arc<OwnedFd> {
        self.memory.descriptor().clone()
    }

    /// The number of the process that answers, as the process itself sees it; `None`: no process has loaded the library yet.
    pub fn process(&self) -> Option<u32> {
        Some(self.memory.pid.load(Acquire)).filter(|pid| *pid > 0)
    }

    /// The bytes that the server has asked this malloc for and not given back. One caller at a time.
    ///
    /// # Errors
    /// Nobody answers, or this malloc has nothing to say.
    pub fn ask(&self, kind: MallocKind, patience: Duration) -> Result<u64, Silence> {
        let (by, function) = match kind {
            MallocKind::Glibc => (OF_GLIBC, "mallinfo2"),
            MallocKind::Jemalloc => (OF_JEMALLOC, "mallctl"),
            MallocKind::Tcmalloc => (OF_TCMALLOC, "MallocExtension_GetNumericProperty"),
            // `mi_process_info` tells committed memory; only builds for debugging count the bytes that are asked for
            MallocKind::Mimalloc => return Err(Silence::Untold("mimalloc")),
        };
        match self.answer(by, patience)? {
            TOLD => Ok(self.memory.bytes.load(Acquire)),
            NO_FUNCTION => Err(Silence::NoFunction(function)),
            _ => Err(Silence::Refused(kind.name())),
        }
    }

    /// The number of arenas that this malloc has in use. One caller at a time.
    ///
    /// # Errors
    /// As [`Self::ask`]. glibc does not tell the number of its arenas: `observe` counts them from outside. The other mallocs have none.
    pub fn arenas(&self, kind: MallocKind, patience: Duration) -> Result<u64, Silence> {
        if kind != MallocKind::Jemalloc {
            return Err(Silence::Untold(kind.name()));
        }
        match self.answer(ARENAS_OF_JEMALLOC, patience)? {
            TOLD => Ok(self.memory.bytes.load(Acquire)),
            NO_FUNCTION => Err(Silence::NoFunction("mallctl")),
            _ => Err(Silence::Refused(kind.name())),
        }
    }

    /// Lets this malloc write a profile of the heap into the file that the process's environment names. Returns when the file is whole. One caller at a
    /// time. `is_alive`: whether the process still runs; the wait ends when it does not.
    ///
    /// # Errors
    /// Nobody answers, or this malloc has no profiler, or none that is on.
    pub fn profile(&self, kind: MallocKind, patience: Duration, is_alive: &dyn Fn() -> bool) -> Result<(), Silence> {
        let (by, function) = match kind {
            MallocKind::Jemalloc => (PROFILE_OF_JEMALLOC, "mallctl"),
            MallocKind::Tcmalloc => (PROFILE_OF_TCMALLOC, "HeapProfilerDump"),
            MallocKind::Glibc | MallocKind::Mimalloc => return Err(Silence::NoProfile(kind.name())),
        };
        match self.answer_of_one_alive(by, patience, is_alive)? {
            TOLD => Ok(()),
            NO_FUNCTION => Err(Silence::NoFunction(function)),
            _ => Err(Silence::NoProfile(kind.name())),
        }
    }

    fn answer(&self, by: u32, patience: Duration) -> Result<u32, Silence> {
        self.answer_of_one_alive(by, patience, &|| true)
    }

    /// The outcome of a question.
    fn answer_of_one_alive(&self, by: u32, patience: Duration, is_alive: &dyn Fn() -> bool) -> Result<u32, Silence> {
        let (shared, deadline) = (&*self.memory, Instant::now() + patience);
        self.process().ok_or(Silence::Nobody)?;
        shared.by.store(by, Relaxed);
        let question = shared.question.fetch_add(1, Release).wrapping_add(1);
        // not private to this process
        let _ = futex::wake(&shared.question, futex::Flags::empty(), 1);
        loop {
            let answered = shared.answered.load(Acquire);
            if answered == question {
                break;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Silence::Late(patience));
            }
            if !is_alive() {
                return Err(Silence::Ended);
            }
            let left = left.min(LOOK_EVERY);
            let left = futex::Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
            let _ = futex::wait(&shared.answered, futex::Flags::empty(), answered, Some(&left));
        }
        Ok(shared.outcome.load(Acquire))
    }
}

/// The environment variables of a server that answers: they name the library, and the descriptor of the map that the server inherits.
pub fn environment(library: &Path, map: &Map) -> Vec<(OsString, OsString)> {
    let number = map.descriptor().as_raw_fd().to_string();
    vec![("LD_PRELOAD".into(), library.into()), (VARIABLE.into(), number.into())]
}
