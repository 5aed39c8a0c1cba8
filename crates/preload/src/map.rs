// SPDX-License-Identifier: Apache-2.0
//! The shared memory, as the keeper and the controller use it.

use crate::Error;
use crate::shared::{BANK_BITS, BANKS, LEASE_NS, MAGIC, MAPS, MOST_MAPS, PATH_BYTES, Shared};
use diskmodel::Model;
use host::inherited::{Memory, Shareable};
use rustix::fd::OwnedFd;
use rustix::thread::futex;
use std::ffi::OsString;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// One directory's map, open and mapped.
#[derive(Debug)]
pub struct Map {
    memory: Memory<Shared>,
}

// SAFETY: all its fields are atomic numbers, or lists of them.
unsafe impl Shareable for Shared {}

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
        let memory = Memory::<Shared>::create("wringer-preload").map_err(|source| Error::Map { source })?;
        let shared = &*memory;
        shared.directory.iter().zip(path).for_each(|(place, byte)| place.store(*byte, Relaxed));
        shared.directory_bytes.store(u32::try_from(path.len()).unwrap_or(0), Relaxed);
        shared.lead.begin();
        shared.magic.store(MAGIC, Release);
        Ok(Self { memory })
    }

    /// Opens an inherited map.
    ///
    /// # Errors
    /// The descriptor is no map.
    pub fn of(descriptor: OwnedFd) -> Result<Self, Error> {
        let number = descriptor.as_raw_fd();
        let not_a_map = || Error::NotAMap { descriptor: number };
        let memory = Memory::<Shared>::of(descriptor).map_err(|source| Error::Map { source })?.ok_or_else(not_a_map)?;
        if memory.magic.load(Acquire) == MAGIC { Ok(Self { memory }) } else { Err(not_a_map()) }
    }

    /// The descriptor, which the keeper and the programs inherit under this number.
    pub fn descriptor(&self) -> Arc<OwnedFd> {
        self.memory.descriptor().clone()
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.memory
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
        if model.limits.len() > crate::shared_model::LIMITS {
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

/// The environment that makes a program slow below these directories: each map with the process that keeps it, and the library.
/// Preloaded libraries that the environment already names stay, behind this one.
///
/// # Panics
/// With more maps than a program can have; see [`MOST_MAPS`].
pub fn environment<'a>(library: &Path, maps: impl IntoIterator<Item = (&'a Map, u32)>) -> Vec<(OsString, OsString)> {
    let named = |(map, keeper): (&Map, u32)| format!("{}:{keeper}", map.descriptor().as_raw_fd());
    let maps: Vec<String> = maps.into_iter().map(named).collect();
    assert!(maps.len() <= MOST_MAPS, "{} maps", maps.len());
    let mut libraries = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|it| !it.is_empty()) {
        libraries.push(":");
        libraries.push(others);
    }
    vec![("LD_PRELOAD".into(), libraries), (MAPS.into(), maps.join(",").into())]
}
