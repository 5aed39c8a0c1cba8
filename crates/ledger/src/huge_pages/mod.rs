// SPDX-License-Identifier: Apache-2.0
//! Huge pages of the kernel's pool for a server: how many it needs, what its page tables cost without them, which memory lies in them, and which
//! limit would kill the server.
//!
//! In: [`HugeSeen`], read by `observe`. Out: [`HugeAdvice`] by [`advise`], [`HugeCheck`] by [`check`].
//!
//! The rules, as measured: PostgreSQL maps one segment, and starts with exactly as many pages as it rounds up to. MariaDB and MySQL round up each
//! allocation by itself, and use ordinary pages where there are too few huge pages. Pages are reserved when memory is mapped, and charged to a cgroup when it is touched.

mod advice;
mod check;
mod limits;
mod lines;
mod need;
mod page_tables;
mod parts;
mod readings;

pub use advice::{HugeAdvice, PagesBySize, advise};
pub use check::{HugeCheck, check};
pub use limits::LimitVerdict;
pub use lines::Lines;
pub use need::Need;
pub use page_tables::PageTables;
pub use parts::Part;
pub use readings::{HugeLimit, HugeSeen, NodePool, Pool};
