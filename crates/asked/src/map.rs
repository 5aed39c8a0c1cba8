// SPDX-License-Identifier: Apache-2.0
//! The shared memory, as the asking program uses it.

use crate::Error;
use crate::shared::{
    MAGIC, NO_FUNCTION, OF_GLIBC, OF_JEMALLOC, OF_TCMALLOC, PROFILE_OF_JEMALLOC, PROFILE_OF_TCMALLOC, Shared, TOLD,
    VARIABLE,
};
use capability::MallocKind;
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::thread::futex;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

/// The memory that one server shares with this program.
#[derive(Debug)]
pub struct Map {
    descriptor: Arc<OwnedFd>,
    shared: NonNull<Shared>,
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
}

// SAFETY: it points to atomics only.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// Makes anonymous memory. Nothing is asked yet.
    ///
    /// # Errors
    /// No memory.
    pub fn create() -> Result<Self, Error> {
        let made = memory().and_then(|descriptor| {
            let flags = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a new mapping where the kernel wants it; its size is the type's, and sealed.
            let mapped = unsafe { mmap(null_mut(), size_of::<Shared>(), flags, MapFlags::SHARED, &descriptor, 0)? };
            Ok((descriptor, mapped))
        });
        let (descriptor, mapped) = made.map_err(|errno| Error::Map { source: errno.into() })?;
        let lacks = || Error::Map { source: io::ErrorKind::OutOfMemory.into() };
        let shared = NonNull::new(mapped.cast()).ok_or_else(lacks)?;
        let map = Self { descriptor: Arc::new(descriptor), shared };
        map.shared().magic.store(MAGIC, Release);
        Ok(map)
    }

    /// The descriptor, which the server inherits under this number.
    pub fn descriptor(&self) -> Arc<OwnedFd> {
        self.descriptor.clone()
    }

    fn shared(&self) -> &Shared {
        // SAFETY: mapped for as long as this lives; every bit pattern is valid.
        unsafe { self.shared.as_ref() }
    }

    /// The number of the process that answers, as the process itself sees it; `None`: no process has loaded the library yet.
    pub fn process(&self) -> Option<u32> {
        Some(self.shared().pid.load(Acquire)).filter(|pid| *pid > 0)
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
            TOLD => Ok(self.shared().bytes.load(Acquire)),
            NO_FUNCTION => Err(Silence::NoFunction(function)),
            _ => Err(Silence::Refused(kind.name())),
        }
    }

    /// Lets this malloc write a profile of the heap, to where the process's environment says. Returns when the file is whole. One caller at a time.
    ///
    /// # Errors
    /// Nobody answers, or this malloc has no profiler, or none that is on.
    pub fn profile(&self, kind: MallocKind, patience: Duration) -> Result<(), Silence> {
        let (by, function) = match kind {
            MallocKind::Jemalloc => (PROFILE_OF_JEMALLOC, "mallctl"),
            MallocKind::Tcmalloc => (PROFILE_OF_TCMALLOC, "HeapProfilerDump"),
            MallocKind::Glibc | MallocKind::Mimalloc => return Err(Silence::NoProfile(kind.name())),
        };
        match self.answer(by, patience)? {
            TOLD => Ok(()),
            NO_FUNCTION => Err(Silence::NoFunction(function)),
            _ => Err(Silence::NoProfile(kind.name())),
        }
    }

    /// The outcome of a question.
    fn answer(&self, by: u32, patience: Duration) -> Result<u32, Silence> {
        let (shared, deadline) = (self.shared(), Instant::now() + patience);
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
            let left = futex::Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
            let _ = futex::wait(&shared.answered, futex::Flags::empty(), answered, Some(&left));
        }
        Ok(shared.outcome.load(Acquire))
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: mapped by us with this size, and nothing borrows from it any more.
        let _ = unsafe { munmap(self.shared.as_ptr().cast(), size_of::<Shared>()) };
    }
}

/// The size of the memory is sealed, so that no process can shorten it under the others.
fn memory() -> rustix::io::Result<OwnedFd> {
    let descriptor = memfd_create("wringer-asked", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&descriptor, size_of::<Shared>() as u64)?;
    fcntl_add_seals(&descriptor, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    // Programs put their own files at low numbers: `exec 5<file` in a shell.
    let high = rustix::io::fcntl_dupfd_cloexec(&descriptor, 400);
    Ok(high.unwrap_or(descriptor))
}

/// The environment variables of a server that answers: they name the library, and the descriptor of the map that the server inherits.
pub fn environment(library: &Path, map: &Map) -> Vec<(OsString, OsString)> {
    let number = map.descriptor.as_raw_fd().to_string();
    vec![("LD_PRELOAD".into(), library.into()), (VARIABLE.into(), number.into())]
}
