// SPDX-License-Identifier: Apache-2.0
//! A mount is what the kernel says it is, not a path: what others mount above, below and beside a slow directory, and in other mount namespaces,
//! is theirs. No release takes it away, and none gives anybody an I/O error.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

#[path = "../standing/mod.rs"]
mod standing;

mod matrix;
mod race;
mod scene;
mod single;

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");
