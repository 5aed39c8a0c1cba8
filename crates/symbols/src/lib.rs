// SPDX-License-Identifier: Apache-2.0
//! Names of the functions at addresses of programs and libraries: from the symbols and debug information in the file, or in the debug file of the same
//! build id (`/usr/lib/debug/.build-id/`, where packages of debug symbols put it).
//!
//! In: mappings and addresses of a process that may have ended long ago ([`heap::Symbols`]). Out: functions, those that are inlined first; and of
//! which files there are none, with the reason ([`Binaries::missing`]).
//!
//! A file that was replaced since would give wrong names without a word: a mapping that does not fit the file's segments is told as missing.
//! Symbols count with their sizes; the nearest name ahead of an address says nothing.

mod binaries;
mod debug_file;
mod elf;

pub use binaries::{Binaries, Missing};
