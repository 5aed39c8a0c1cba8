// SPDX-License-Identifier: Apache-2.0
//! Names of the functions at addresses of programs and libraries: from the symbols and debug information in the file, or in the debug file of the same
//! build id (`/usr/lib/debug/.build-id/`, where packages of debug symbols put it).
//!
//! In: mappings and addresses of a process that may have ended long ago ([`heap::Symbols`]). Out: functions, inlined functions first; and the
//! files whose functions have no names, with the reason ([`Binaries::missing`]).
//!
//! A file that was replaced since the profile would silently give wrong names: so a file whose segments do not fit the mapping counts as missing.
//! An address has a function's name only if it lies within the function's size; the nearest name before an address is not used.

mod binaries;
mod debug_file;
mod elf;

pub use binaries::{Binaries, Missing};
