// SPDX-License-Identifier: Apache-2.0
//! Reusable memory that `O_DIRECT` accepts.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::sync::{Mutex, PoisonError};

/// `O_DIRECT` wants addresses aligned to the logical block of the device, 4096 bytes at most in practice.
const ALIGN: usize = 4096;
/// A request carries at most 1 MiB, mostly one page of a database. With two sizes little memory is wasted, and a free buffer fits the next request.
const SIZES: [usize; 2] = [64 * 1024, 1024 * 1024 + ALIGN];
/// Free buffers that are kept, by size: 256 small ones and 16 large ones take 32 MiB.
const KEPT: [usize; 2] = [256, 16];

/// A page-aligned buffer of at least the asked length.
#[derive(Debug)]
pub(crate) struct Buffer {
    start: std::ptr::NonNull<u8>,
    layout: Layout,
}

// SAFETY: the buffer owns its memory, and hands out slices only by `&self` and `&mut self`.
unsafe impl Send for Buffer {}

impl Buffer {
    fn allocate(size: usize) -> Self {
        let layout = Layout::from_size_align(size.max(ALIGN), ALIGN).expect("a request's size fits an address space");
        // SAFETY: the size is not 0.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = std::ptr::NonNull::new(start) else { handle_alloc_error(layout) };
        Self { start, layout }
    }

    pub(crate) fn bytes(&self, length: usize) -> &[u8] {
        assert!(length <= self.layout.size());
        // SAFETY: the memory is ours, initialised, and at least `length` bytes long.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), length) }
    }

    pub(crate) fn bytes_mut(&mut self, length: usize) -> &mut [u8] {
        assert!(length <= self.layout.size());
        // SAFETY: as above, and `&mut self` makes the slice the only one.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), length) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and dropped once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// The free buffers. A request takes one, and gives it back after its reply has left.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    free: [Mutex<Vec<Buffer>>; SIZES.len()],
}

impl Pool {
    pub(crate) fn take(&self, length: usize) -> Buffer {
        let Some(class) = SIZES.iter().position(|size| length <= *size) else { return Buffer::allocate(length) };
        let kept = self.free[class].lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.unwrap_or_else(|| Buffer::allocate(SIZES[class]))
    }

    pub(crate) fn give_back(&self, buffer: Buffer) {
        let Some(class) = SIZES.iter().position(|size| buffer.layout.size() == *size) else { return };
        let mut free = self.free[class].lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < KEPT[class] {
            free.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_come_back() {
        let pool = Pool::default();
        for length in [1, 4096, 65_536, 65_537, 1024 * 1024, 5_000_000] {
            let mut buffer = pool.take(length);
            buffer.bytes_mut(length).fill(7);
            assert_eq!(buffer.start.as_ptr().addr() % ALIGN, 0);
            pool.give_back(buffer);
        }
        assert_eq!(pool.free[0].lock().unwrap().len(), 1);
        assert_eq!(pool.free[1].lock().unwrap().len(), 1);
    }
}
