// SPDX-License-Identifier: Apache-2.0
//! The buffers that one backend of PostgreSQL may hold. Workers have no temporary tables, but are counted like backends.

use super::buffer::{Buffer, Size, Times, When};
use capability::Flavour::{self, Postgresql};

const PG: &[Flavour] = &[Postgresql];
const MANUAL: &str = "PostgreSQL manual, Resource Consumption";
const ONE: Times = Times::Fixed(1);

pub(crate) const ROWS: &[Buffer] = &[
    Buffer::new("stack", PG, When::Always, Size::Of("max_stack_depth"), ONE, MANUAL),
    Buffer::new("temporary tables", PG, When::Always, Size::Of("temp_buffers"), ONE, MANUAL),
    Buffer::new(
        "sorts and hashes",
        PG,
        When::Query,
        Size::Work,
        Times::Operations,
        "one for each sort or hash of a plan, in each process that runs it; measured on 15.18",
    ),
    Buffer::new("index or VACUUM", PG, When::Maintenance, Size::Of("maintenance_work_mem"), ONE, MANUAL),
];
