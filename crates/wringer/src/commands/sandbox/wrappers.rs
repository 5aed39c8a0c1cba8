// SPDX-License-Identifier: Apache-2.0
//! `sandbox start --malloc --thp --valgrind --huge-pages`: wrappers around the server for this start.

use super::Watch;
use crate::exit::Failure;
use crate::terminal;
use clap::ValueEnum;
use host::places::Places;
use sandbox::{Got, Malloc, Sandbox, Wrapping};

#[derive(Debug, Clone, clap::Args)]
pub struct Wrappers {
    /// Which library serves malloc: glibc, glibc-arenas2, glibc-trim, jemalloc, jemalloc-background, tcmalloc, mimalloc, or the path of a library.
    /// A library that this machine lacks is fetched into the cache
    #[arg(long, value_name = "NAME|PATH|NAME=PATH")]
    malloc: Option<Malloc>,
    /// A variable of the server's environment; it replaces a variable of the same name from --malloc
    #[arg(long = "environment", value_name = "NAME=VALUE", value_parser = pair)]
    environment: Vec<(String, String)>,
    /// Transparent huge pages: `never` turns them off for this server. The other values are settings of the host, and are refused where the host has another
    /// setting
    #[arg(long, value_enum)]
    thp: Option<Thp>,
    /// Run the server in Valgrind, where it is many times slower: massif profiles the heap, memcheck looks for leaks and errors
    #[arg(long, value_enum, value_name = "TOOL")]
    valgrind: Option<Valgrind>,
    /// Whether the server's pool lies in huge pages of the host (PostgreSQL's huge_pages, large_pages of MariaDB and MySQL); with `on` the server does not
    /// run without them
    #[arg(long, value_enum)]
    huge_pages: Option<HugePages>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Thp {
    Always,
    Madvise,
    Never,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Valgrind {
    Massif,
    Memcheck,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum HugePages {
    On,
    Try,
    Off,
}

impl Wrappers {
    /// Checks the flags on this machine.
    ///
    /// # Errors
    /// Exit code 3: it is not available.
    pub fn asked(&self, sandbox: &Sandbox, places: &Places) -> Result<Wrapping, Failure> {
        let mut watch = Watch::default();
        let find = |malloc: &Malloc| malloc.locate(&sandbox.manifest.installation, places, &mut watch);
        let asked = Wrapping {
            malloc: self.malloc.as_ref().map(find).transpose()?,
            environment: self.environment.clone(),
            thp: self.thp.map(|thp| match thp {
                Thp::Always => sandbox::Thp::Always,
                Thp::Madvise => sandbox::Thp::Madvise,
                Thp::Never => sandbox::Thp::Never,
            }),
            valgrind: self.valgrind.map(|tool| match tool {
                Valgrind::Massif => sandbox::Valgrind::Massif,
                Valgrind::Memcheck => sandbox::Valgrind::Memcheck,
            }),
            valgrind_options: Vec::new(),
            huge_pages: self.huge_pages.map(|asked| match asked {
                HugePages::On => sandbox::HugePages::On,
                HugePages::Try => sandbox::HugePages::Try,
                HugePages::Off => sandbox::HugePages::Off,
            }),
        };
        asked.check()?;
        Ok(asked)
    }
}

fn pair(word: &str) -> Result<(String, String), String> {
    let (name, value) = word.split_once('=').ok_or("write NAME=VALUE")?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match name {
        "LD_PRELOAD" => Err("--malloc with a library's path does that".into()),
        "LD_LIBRARY_PATH" | "LC_ALL" => Err(format!("{name} is set by Wringer")),
        _ if name.starts_with("WRINGER_") => Err(format!("{name} is Wringer's own")),
        _ if !is_name => Err(format!("'{name}' is no name of a variable")),
        _ => Ok((name.to_owned(), value.to_owned())),
    }
}

/// One line for each wrapper.
pub fn lines(got: &[Got]) -> Vec<String> {
    let line = |got: &Got| {
        let verdict = if got.is_as_asked { "" } else { "NOT AS ASKED: " };
        format!("{:<11} asked {}, got {verdict}{}", got.what, got.asked, got.got)
    };
    got.iter().map(line).collect()
}

pub fn say(lines: &[String]) {
    lines.iter().for_each(|line| terminal::say(format_args!("  {line}")));
}
