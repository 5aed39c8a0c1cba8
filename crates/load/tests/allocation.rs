// SPDX-License-Identifier: Apache-2.0
//! A workload that is warm does not allocate: whatever an allocator does would be part of the latency that is measured.
#![allow(clippy::unwrap_used)]

use load::Protocol;
use testkit::{Counting, allocations};
use workload::distribution::{Kind, Options as Keys};
use workload::rand_core::SeedableRng as _;
use workload::{Name, Options, Rng, Tables, Transaction, build};

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
            let before = allocations();
            for _ in 0..1000 {
                transaction.clear();
                workload.next(&mut rng, &mut transaction);
            }
            assert_eq!(allocations() - before, 0, "{name}, {distribution}");
        }
    }
    let before = allocations();
    drop(Box::new(1));
    assert_eq!(allocations() - before, 1, "the counter counts");
}
