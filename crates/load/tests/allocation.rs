// SPDX-License-Identifier: Apache-2.0
//! A workload that is warm does not allocate: whatever an allocator does would be part of the latency that is measured.
#![allow(clippy::unwrap_used)]

use load::Protocol;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use workload::distribution::{Kind, Options as Keys};
use workload::rand_core::SeedableRng as _;
use workload::{Name, Options, Rng, Tables, Transaction, build};

struct Counting;

thread_local! {
    /// Of this thread alone: the test harness's threads allocate when they like.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_warm_workload_does_not_allocate() {
    for kind in [Kind::Uniform, Kind::Gaussian, Kind::Special, Kind::Pareto, Kind::Zipfian] {
        let distribution = Keys { kind, ..Keys::default() }.check().unwrap();
        for name in Name::ALL {
            let tables = Tables { tables: 3, ..Tables::default() };
            let workload = build(name, Protocol::Mysql, &tables, &Options::default(), &distribution).unwrap();
            let (mut rng, mut transaction) = (Rng::seed_from_u64(1), Transaction::default());
            workload.next(&mut rng, &mut transaction);
            let before = ALLOCATIONS.get();
            for _ in 0..1000 {
                transaction.clear();
                workload.next(&mut rng, &mut transaction);
            }
            assert_eq!(ALLOCATIONS.get() - before, 0, "{name}, {distribution}");
        }
    }
    let before = ALLOCATIONS.get();
    drop(Box::new(1));
    assert_eq!(ALLOCATIONS.get() - before, 1, "the counter counts");
}
