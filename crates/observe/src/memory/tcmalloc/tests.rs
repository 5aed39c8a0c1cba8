// SPDX-License-Identifier: Apache-2.0
//! Compares with tcmalloc's own figures: a child process runs this test program under the library, allocates and frees, and prints its properties.

use super::*;
use crate::memory::{Options, target};
use std::ffi::{CStr, c_char, c_int};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

const VARIABLE: &str = "WRINGER_TEST_TCMALLOC_CHILD";
const UNTOUCHED: usize = 64 << 20;

/// Not a test: the work of the child process.
#[test]
fn child() {
    if std::env::var_os(VARIABLE).is_none() {
        return;
    }
    let blocks: Vec<Vec<u8>> =
        (0..900).map(|nth| vec![1; [100, 100_000, 3_000_000][nth % 3 / (1 + nth % 2)]]).collect();
    let kept: Vec<Vec<u8>> = blocks.into_iter().enumerate().filter(|(nth, _)| nth % 7 == 0).map(|it| it.1).collect();
    // free, and not resident: nobody has written to it
    drop(std::hint::black_box(Vec::<u8>::with_capacity(UNTOUCHED)));
    let told = |name: &CStr| property(name).unwrap();
    let free = told(c"tcmalloc.pageheap_free_bytes");
    let used = told(c"generic.heap_size") - free - told(c"tcmalloc.pageheap_unmapped_bytes");
    println!("\ntcmalloc {used} {free}");
    std::io::stdout().flush().unwrap();
    let mut byte = [0];
    let _ = std::io::stdin().read(&mut byte);
    drop(kept);
}

/// A figure that tcmalloc tells of itself. `None`: it does not serve.
fn property(name: &CStr) -> Option<usize> {
    type Get = extern "C" fn(*const c_char, *mut usize) -> c_int;
    // SAFETY: the name ends with a zero byte.
    let get = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"MallocExtension_GetNumericProperty".as_ptr()) };
    if get.is_null() {
        return None;
    }
    // SAFETY: gperftools declares it so, in malloc_extension_c.h.
    let get = unsafe { std::mem::transmute::<*mut libc::c_void, Get>(get) };
    let mut value = 0;
    (get(name.as_ptr(), &raw mut value) != 0).then_some(value)
}

fn library(name: &str) -> Option<String> {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    folders.map(|folder| format!("{folder}/{name}")).into_iter().find(|path| Path::new(path).exists())
}

#[test]
#[allow(clippy::disallowed_methods)]
fn the_free_spans_are_what_tcmalloc_says_is_free() {
    let Some(library) = library("libtcmalloc.so.4").or_else(|| library("libtcmalloc_minimal.so.4")) else {
        testkit::skip!(
            "needs libtcmalloc.so.4 or libtcmalloc_minimal.so.4 of gperftools (package libgoogle-perftools4)"
        );
    };
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["memory::tcmalloc::tests::child", "--exact", "--nocapture", "--test-threads=1"])
        .envs([(VARIABLE, "1"), ("LD_PRELOAD", &library)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let line = lines.map_while(Result::ok).find(|line| line.starts_with("tcmalloc ")).unwrap();
    let told: Vec<u64> = line.split(' ').skip(1).map(|word| word.parse().unwrap()).collect();
    let mut reading = Reading::begin(Options { deep: true, ..Options::default() });
    let mut target = target::of(child.id(), &mut reading);
    let mappings = target.maps(&mut reading).unwrap();
    let mut at = None;
    let first = walk(&target, &mappings, &mut at, &mut reading);
    let again = walk(&target, &[], &mut at, &mut reading);
    child.stdin.take();
    child.wait().unwrap();
    let missing = reading.end().2;
    let walk = first.unwrap_or_else(|| panic!("{missing:?}"));
    assert_eq!(again, None, "more is free than is mapped: {missing:?}");
    let near = |got: u64, told: u64| got.abs_diff(told) <= told / 100;
    assert!(near(walk.used, told[0]) && near(walk.free, told[1]), "{walk:?}, tcmalloc: {told:?}");
    let resident = walk.free_resident;
    assert!(
        resident > 0 && resident + UNTOUCHED as u64 / 2 <= walk.free,
        "what nobody touched is not resident: {walk:?}"
    );
    assert!(walk.layout == HeapWalk::PAGE_HEAP && !walk.tells_use());
}
