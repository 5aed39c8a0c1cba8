// SPDX-License-Identifier: Apache-2.0
//! Builds a library that is preloaded, from the `src/lib.rs` of the crate whose build script calls this, with the cfg `wringer_library`, and leaves it
//! in `OUT_DIR`. The program carries its bytes: so each `wringer` has the library that fits it, also when `wringer` is one static file.
//!
//! A library with Rust's standard library inside would bring a second allocator, and need the C library that it was linked
//! with. This library is `no_std`, needs no other library, and finds the functions that it calls in the C library of the program that loads it.
//!
//! The build scripts of the crates `preload` and `asked` include this file.

use std::path::PathBuf;
use std::process::Command;

/// `name` is the library's name without `lib` and `.so`. `others`: source files of other crates of which the library is made, too.
pub(crate) fn build(name: &str, others: &[&str]) {
    println!("cargo::rustc-check-cfg=cfg(wringer_library)");
    for source in ["src"].iter().chain(others) {
        println!("cargo::rerun-if-changed={source}");
    }
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"));
    let library = PathBuf::from(variable("OUT_DIR")).join(format!("lib{name}.so"));
    #[allow(clippy::disallowed_methods)] // at build time, on the machine that builds
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.args(["--crate-type", "cdylib", "--crate-name", name, "--edition", "2024"]);
    rustc.args(["--cfg", "wringer_library", "--target", &variable("TARGET"), "-o"]).arg(&library).arg("src/lib.rs");
    let so_name = format!("link-arg=-Wl,-soname,lib{name}.so");
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
        &so_name,
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
