// SPDX-License-Identifier: Apache-2.0
//! Anonymous memory that this process shares with the processes that inherit its descriptor.

use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fmt;
use std::io;
use std::ops::Deref;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

/// The lowest number of the descriptor. Programs put their own files at low numbers: `exec 5<file` in a shell.
const LOWEST_DESCRIPTOR: i32 = 400;

/// A type that can lie in memory that several processes write to.
///
/// # Safety
/// Every field is atomic, or a structure or list of such fields; and every bit pattern is a valid value.
pub unsafe trait Shareable {}

/// A value in shared memory. New memory is zeroed.
pub struct Memory<T: Shareable> {
    descriptor: Arc<OwnedFd>,
    value: NonNull<T>,
}

// SAFETY: it points to atomics only.
unsafe impl<T: Shareable> Send for Memory<T> {}
// SAFETY: as above.
unsafe impl<T: Shareable> Sync for Memory<T> {}

impl<T: Shareable> Memory<T> {
    /// Makes new memory. `name` is shown in `/proc/PID/maps`.
    ///
    /// # Errors
    /// No memory, or no descriptor.
    pub fn create(name: &str) -> io::Result<Self> {
        Self::mapped(sealed(name, size_of::<T>())?)
    }

    /// Maps memory that another process has made. `None`: the descriptor has another size, so it is not this memory.
    ///
    /// # Errors
    /// The descriptor cannot be looked at or mapped.
    pub fn of(descriptor: OwnedFd) -> io::Result<Option<Self>> {
        let size = u64::try_from(fstat(&descriptor)?.st_size).ok();
        if size == Some(size_of::<T>() as u64) { Self::mapped(descriptor).map(Some) } else { Ok(None) }
    }

    fn mapped(descriptor: OwnedFd) -> io::Result<Self> {
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping where the kernel wants it; its size is the type's.
        let mapped = unsafe { mmap(null_mut(), size_of::<T>(), flags, MapFlags::SHARED, &descriptor, 0)? };
        let value = NonNull::new(mapped.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { descriptor: Arc::new(descriptor), value })
    }

    /// Other processes inherit the memory under the number of this descriptor.
    pub fn descriptor(&self) -> &Arc<OwnedFd> {
        &self.descriptor
    }
}

impl<T: Shareable> fmt::Debug for Memory<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Memory").field("descriptor", &self.descriptor).finish_non_exhaustive()
    }
}

impl<T: Shareable> Deref for Memory<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: mapped for as long as this lives; every bit pattern is valid.
        unsafe { self.value.as_ref() }
    }
}

impl<T: Shareable> Drop for Memory<T> {
    fn drop(&mut self) {
        // SAFETY: mapped by us with this size, and nothing borrows from it any more.
        let _ = unsafe { munmap(self.value.as_ptr().cast(), size_of::<T>()) };
    }
}

/// Memory whose size is sealed, so that no process can shorten it while another one uses it.
fn sealed(name: &str, size_bytes: usize) -> rustix::io::Result<OwnedFd> {
    let descriptor = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&descriptor, size_bytes as u64)?;
    fcntl_add_seals(&descriptor, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    let high = rustix::io::fcntl_dupfd_cloexec(&descriptor, LOWEST_DESCRIPTOR);
    Ok(high.unwrap_or(descriptor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

    struct Small(AtomicU32);
    struct Large(AtomicU64);
    // SAFETY: an atomic.
    unsafe impl Shareable for Small {}
    // SAFETY: an atomic.
    unsafe impl Shareable for Large {}

    #[test]
    fn two_mappings_of_a_descriptor_are_the_same_memory_of_a_fixed_size() {
        let made = Memory::<Small>::create("wringer-test").expect("memory");
        let again = || made.descriptor().try_clone().expect("a descriptor");
        assert!(made.descriptor().as_raw_fd() >= LOWEST_DESCRIPTOR);
        let seen = Memory::<Small>::of(again()).expect("mapped").expect("of this size");
        made.0.store(7, SeqCst);
        assert_eq!(seen.0.load(SeqCst), 7);
        assert!(ftruncate(made.descriptor(), 0).is_err(), "the size is sealed");
        let large = Memory::<Large>::create("wringer-test").expect("memory");
        large.0.store(u64::MAX, SeqCst);
        let other = large.descriptor().try_clone().expect("a descriptor");
        assert!(Memory::<Small>::of(other).expect("looked at").is_none(), "another size");
    }
}
