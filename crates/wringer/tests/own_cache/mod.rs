// SPDX-License-Identifier: Apache-2.0
//! A cache beside the one that all tests share, with every server that can be fetched.
#![allow(dead_code, unreachable_pub, unused_macros, unused_imports)] // each test program uses a part

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Once;
use testkit::{Lab, Ran, begin_cache, own_uid, shared_cache};

/// A cache beside the one that all tests share: those take the newest server that is there, and know which one that is. What that one
/// has is not fetched again.
pub fn cache() -> PathBuf {
    static ONCE: Once = Once::new();
    let own = shared_cache(own_uid()).join("catalogue");
    ONCE.call_once(|| begin_cache(&own, &["apt", "apt-sid", "servers"]));
    own
}

pub fn run(lab: &Lab, args: &[&str]) -> Ran {
    Ran::of(lab.command(args).env("WRINGER_CACHE", cache()))
}

pub fn missing_client() -> Option<&'static str> {
    ["mvn", "java"].into_iter().find(|program| host::tool::find(program).is_none())
}

macro_rules! need_maven {
    () => {
        if let Some(program) = missing_client() {
            testkit::skip!("needs {program}");
        }
    };
}

/// The names in a cache, hidden ones too.
pub fn entries(cache: &Path) -> Vec<String> {
    let entries = fs::read_dir(cache.join("servers")).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

pub(crate) use need_maven;
