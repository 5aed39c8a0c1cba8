// SPDX-License-Identifier: Apache-2.0
//! An allocator that counts, for tests of how much is allocated.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator. A test program that asks [`most_bytes`] or [`allocations`] has it as its `#[global_allocator]`.
#[derive(Debug)]
pub struct Counting;

thread_local! {
    /// The counts of this thread alone, because the threads of the test harness allocate at any time: the bytes that are allocated now, the largest
    /// number of bytes so far, and the number of allocations.
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn add(bytes: isize) {
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + bytes);
        let _ = MOST.try_with(|most| most.set(most.get().max(live.get())));
    });
}

// SAFETY: every call goes to the system's allocator unchanged; counting does not allocate. A reallocation is an allocation and a release, as in the
// trait's own code.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size().cast_signed());
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        add(-layout.size().cast_signed());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// The largest number of bytes that this thread had allocated at one time during `work`, beyond those that it had before.
pub fn most_bytes<T>(work: impl FnOnce() -> T) -> (isize, T) {
    let before = LIVE.get();
    MOST.set(before);
    let value = work();
    (MOST.get() - before, value)
}

/// The number of allocations of this thread so far.
pub fn allocations() -> u64 {
    ALLOCATIONS.get()
}
