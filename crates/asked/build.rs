// SPDX-License-Identifier: Apache-2.0
//! Builds the library that is preloaded, from this crate's own `src/lib.rs` with the cfg `wringer_library`, and leaves it in
//! `OUT_DIR`. The program carries its bytes: so each `wringer` has the library that fits it, also when `wringer` is one static file.
//!
//! A library with Rust's standard library inside would bring a second allocator, and need the C library that it was linked
//! with. This library is `no_std`, needs no other library, and finds the functions that it calls in the C library of the program that loads it.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(wringer_library)");
    println!("cargo::rerun-if-changed=src");
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"));
    let library = PathBuf::from(variable("OUT_DIR")).join("libwringer_asked.so");
    #[allow(clippy::disallowed_methods)] // at build time, on the machine that builds
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.args(["--crate-type", "cdylib", "--crate-name", "wringer_asked", "--edition", "2024"]);
    rustc.args(["--cfg", "wringer_library", "--target", &variable("TARGET"), "-o"]).arg(&library).arg("src/lib.rs");
    let options = [
        "opt-level=3",
        "panic=abort",
        "codegen-units=1",
        "strip=symbols",
        "relocation-model=pic",
        // without it, the target of a static program cannot make a library
        "target-feature=-crt-static",
        "link-arg=-nostdlib",
        "link-arg=-Wl,-z,nodelete",
        "link-arg=-Wl,-soname,libwringer_asked.so",
    ];
    for option in options {
        rustc.args(["-C", option]);
    }
    if let Ok(linker) = std::env::var("RUSTC_LINKER") {
        rustc.args(["-C", &format!("linker={linker}")]);
    }
    let status = rustc.status().unwrap_or_else(|error| panic!("start {rustc:?}: {error}"));
    assert!(status.success(), "{rustc:?} ended with {status}");
}
