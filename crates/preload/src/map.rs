// SPDX-License-Identifier: Apache-2.0
//! The shared memory, as the keeper and the controller use it.

use crate::Error;
use crate::shared::{BANK_BITS, BANKS, LEASE_NS, MAGIC, MAPS, MOST_MAPS, PATH_BYTES, Shared};
use diskmodel::Model;
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::thread::futex;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// One directory's map, open and mapped.
#[derive(Debug)]
pub struct Map {
    descriptor: Arc<OwnedFd>,
    shared: NonNull<Shared>,
}

// SAFETY: it points to atomics only.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// Makes anonymous memory for the canonical `directory`. Nothing is delayed yet.
    ///
    /// # Errors
    /// No memory; a path of more than 4096 bytes.
    pub fn create(directory: &Path) -> Result<Self, Error> {
        let path = directory.as_os_str().as_bytes();
        if path.len() >= PATH_BYTES {
            return Err(Error::PathTooLong { path: directory.to_owned() });
        }
        let descriptor = memory().map_err(|errno| Error::Map { source: errno.into() })?;
        let map = Self::mapped(descriptor).map_err(|source| Error::Map { source })?;
        let shared = map.shared();
        shared.directory.iter().zip(path).for_each(|(place, byte)| place.store(*byte, Relaxed));
        shared.directory_bytes.store(u32::try_from(path.len()).unwrap_or(0), Relaxed);
        shared.lead.begin();
        shared.magic.store(MAGIC, Release);
        Ok(map)
    }

    /// Opens an inherited map.
    ///
    /// # Errors
    /// The descriptor is no map.
    pub fn of(descriptor: OwnedFd) -> Result<Self, Error> {
        let number = descriptor.as_raw_fd();
        let not_a_map = || Error::NotAMap { descriptor: number };
        let file = fstat(&descriptor).map_err(|_| not_a_map())?;
        if u64::try_from(file.st_size).ok() != Some(size_of::<Shared>() as u64) {
            return Err(not_a_map());
        }
        let map = Self::mapped(descriptor).map_err(|source| Error::Map { source })?;
        if map.shared().magic.load(Acquire) == MAGIC { Ok(map) } else { Err(not_a_map()) }
    }

    fn mapped(descriptor: OwnedFd) -> io::Result<Self> {
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping where the kernel wants it; its size is the type's, and sealed.
        let mapped = unsafe { mmap(null_mut(), size_of::<Shared>(), flags, MapFlags::SHARED, &descriptor, 0)? };
        let shared = NonNull::new(mapped.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { descriptor: Arc::new(descriptor), shared })
    }

    /// The descriptor, which the keeper and the programs inherit under this number.
    pub fn descriptor(&self) -> Arc<OwnedFd> {
        self.descriptor.clone()
    }

    pub(crate) fn shared(&self) -> &Shared {
        // SAFETY: mapped for as long as this lives; every bit pattern is valid.
        unsafe { self.shared.as_ref() }
    }

    /// How many processes have found the map since it was made.
    pub fn attached(&self) -> u32 {
        self.shared().attached.load(Relaxed)
    }

    /// Puts a model in force; credits and queues start anew. Waiting calls look at the new model. One caller at a time.
    ///
    /// # Errors
    /// The model has more limits than fit into the memory.
    pub(crate) fn set(&self, model: &Model) -> Result<(), Error> {
        if model.limits.len() > crate::bank::LIMITS {
            return Err(Error::TooManyLimits(model.limits.len()));
        }
        let shared = self.shared();
        let changes = (shared.in_force.load(Acquire) >> BANK_BITS).wrapping_add(1) & (u32::MAX >> BANK_BITS);
        let bank = changes as usize % BANKS;
        shared.banks[bank].write(model);
        self.put_in_force((changes << BANK_BITS) | u32::try_from(bank + 1).unwrap_or(1));
        Ok(())
    }

    /// Removes all delays in one store; waiting calls return.
    pub fn neutralise(&self) {
        self.put_in_force(0);
    }

    fn put_in_force(&self, word: u32) {
        let in_force = &self.shared().in_force;
        in_force.store(word, Release);
        // the futex is shared with other processes
        let _ = futex::wake(in_force, futex::Flags::empty(), u32::MAX >> 1);
    }

    pub(crate) fn renew_lease(&self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now_ns = now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs();
        self.shared().lease_until_ns.store(now_ns + LEASE_NS, Relaxed);
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: mapped by us with this size, and nothing borrows from it any more.
        let _ = unsafe { munmap(self.shared.as_ptr().cast(), size_of::<Shared>()) };
    }
}

/// The memory has a fixed size, so that no process can take it away from the others.
fn memory() -> rustix::io::Result<OwnedFd> {
    let descriptor = memfd_create("wringer-preload", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&descriptor, size_of::<Shared>() as u64)?;
    fcntl_add_seals(&descriptor, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    // Programs put their own files at low numbers: `exec 5<file` in a shell.
    let high = rustix::io::fcntl_dupfd_cloexec(&descriptor, 400);
    Ok(high.unwrap_or(descriptor))
}

/// The environment that makes a program slow below these directories: each map with the process that keeps it, and the library.
/// Preloaded libraries that the environment already names stay, behind this one.
///
/// # Panics
/// With more maps than a program can have; see [`MOST_MAPS`].
pub fn environment<'a>(library: &Path, maps: impl IntoIterator<Item = (&'a Map, u32)>) -> Vec<(OsString, OsString)> {
    let named = |(map, keeper): (&Map, u32)| format!("{}:{keeper}", map.descriptor.as_raw_fd());
    let maps: Vec<String> = maps.into_iter().map(named).collect();
    assert!(maps.len() <= MOST_MAPS, "{} maps", maps.len());
    let mut libraries = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|it| !it.is_empty()) {
        libraries.push(":");
        libraries.push(others);
    }
    vec![("LD_PRELOAD".into(), libraries), (MAPS.into(), maps.join(",").into())]
}
