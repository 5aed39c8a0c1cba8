// SPDX-License-Identifier: Apache-2.0
//! Who serves malloc in a process, and whether a library can serve it in a server. Reads files and processes; changes nothing, starts nothing.
//!
//! A library that is mapped need not serve: a preloaded library without a malloc is mapped, and so is a linked malloc that stands behind another
//! one in the linker's order. The dynamic linker takes the first definition in its order (ld.so(8); glibc, elf/dl-lookup.c) and writes its address into
//! a slot of the program. [`serving`] reads that slot.
//!
//! - `elf`: what the file of a program or a library says of itself.
//! - `symbols`: the symbols of a file for the dynamic linker.
//! - `process`: mappings, memory and program of a process.
//! - `serving`: who serves, read ([`serving()`]) or inferred ([`inferred`]).
//! - `shape`: what the heap looks like, and whether that fits.
//! - `loadable`: whether a library can be loaded into a program.
//!
//! Not here: which mallocs there are (`capability`), where their libraries come from (`sandbox`), what they hold (`observe`).

mod elf;
mod loadable;
mod process;
mod serving;
mod shape;
mod symbols;

pub use elf::{Elf, open_plain};
pub use loadable::{Unfit, fit};
pub use serving::{How, Serving, inferred, serving, serving_with};
pub use shape::{Shape, shape};
pub use symbols::{DynamicSymbol, Parsed, dynamic_symbols};
