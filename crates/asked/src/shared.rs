// SPDX-License-Identifier: Apache-2.0
//! The memory that the server and the asking program share. Everything in it is an atomic; all zeros is a valid state: nothing was asked.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// Marks a ready map; each layout has another number.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"WRASKED1");
/// The environment variable with the number of the inherited descriptor.
pub(crate) const VARIABLE: &str = "WRINGER_ASKED_MAP";

/// Which malloc's function the library calls.
pub(crate) const OF_GLIBC: u32 = 1;
pub(crate) const OF_JEMALLOC: u32 = 2;
pub(crate) const OF_TCMALLOC: u32 = 3;
/// Questions of another kind: the malloc is to write a profile of the heap into the file that it was told at the process's start.
pub(crate) const PROFILE_OF_JEMALLOC: u32 = 4;
pub(crate) const PROFILE_OF_TCMALLOC: u32 = 5;
/// The question: how many arenas there are.
pub(crate) const ARENAS_OF_JEMALLOC: u32 = 6;

/// How a question was answered.
pub(crate) const TOLD: u32 = 0;
/// No library in the server has that function.
pub(crate) const NO_FUNCTION: u32 = 1;
/// The function says that it cannot tell.
pub(crate) const REFUSED: u32 = 2;

#[repr(C)]
pub(crate) struct Shared {
    pub(crate) magic: AtomicU64,
    /// The process whose thread answers, from before its `main` on; 0: none has loaded the library.
    pub(crate) pid: AtomicU32,
    /// Rises with each question; the library's thread sleeps on it (futex(2)).
    pub(crate) question: AtomicU32,
    /// The number of the question that was answered last; the asking program sleeps on it.
    pub(crate) answered: AtomicU32,
    pub(crate) by: AtomicU32,
    pub(crate) outcome: AtomicU32,
    pub(crate) bytes: AtomicU64,
}
