// SPDX-License-Identifier: Apache-2.0
//! Sequential reads of a whole file through the page cache, as `cat` reads it. The first round starts cold; each later round finds
//! what the page cache has kept.

use crate::cpu::Cpu;
use crate::evict::{evict, why_left};
use crate::residency::{Residency, residency};
use crate::{Error, Round, Verdict};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Instant;

#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub rounds: u32,
    /// Bytes of one read call; `cat` of coreutils uses 128 KiB.
    pub block_bytes: usize,
    /// Make the file cold before the first round.
    pub evict: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scan {
    pub rounds: Vec<Round>,
    /// Why the file did not become cold, if that was tried.
    pub not_evicted: Option<String>,
    pub verdict: Verdict,
    /// The user ended it before the last round.
    pub interrupted: bool,
}

/// Reads the file several times. `progress` gets the bytes read so far, over all rounds.
///
/// # Errors
/// The file cannot be read, or the kernel does not tell what is cached.
pub fn scan(file: &File, path: &Path, options: &Options, progress: &mut dyn FnMut(u64)) -> Result<Scan, Error> {
    let mut not_evicted = None;
    if options.evict {
        let left = evict(file, path)?;
        not_evicted = (left.cached_pages > 0).then(|| describe(&left));
    }
    let mut rounds = Vec::new();
    let mut buffer = vec![0; options.block_bytes.max(1)];
    for number in 0..options.rounds {
        let done: u64 = rounds.iter().map(|round: &Round| round.bytes).sum();
        let Some(round) = one_round(file, path, &mut buffer, &mut |bytes| progress(done + bytes))? else { break };
        rounds.push(round);
        if host::interrupt::requested() && number + 1 < options.rounds {
            break;
        }
    }
    let interrupted = rounds.len() < options.rounds as usize;
    Ok(Scan { verdict: Verdict::of(&rounds), rounds, not_evicted, interrupted })
}

fn describe(left: &Residency) -> String {
    format!("{} of {} pages stay in the page cache: {}", left.cached_pages, left.pages, why_left(left))
}

/// `None`: the user interrupted it.
fn one_round(
    file: &File,
    path: &Path,
    buffer: &mut [u8],
    progress: &mut dyn FnMut(u64),
) -> Result<Option<Round>, Error> {
    const TELL_EVERY: u64 = 64 << 20;
    let cached_before = residency(file, path)?.share();
    let (started, cpu) = (Instant::now(), Cpu::of_this_thread());
    let (mut bytes, mut told) = (0_u64, 0);
    loop {
        let read = file.read_at(buffer, bytes).map_err(Error::file("read", path))? as u64;
        bytes += read;
        if read == 0 {
            break;
        }
        if bytes >= told + TELL_EVERY {
            told = bytes;
            progress(bytes);
            if host::interrupt::requested() {
                return Ok(None);
            }
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let cpu = Cpu::of_this_thread() - cpu;
    progress(bytes);
    Ok(Some(Round {
        bytes,
        seconds,
        bytes_per_second: bytes as f64 / seconds.max(1e-9),
        cpu_seconds: (cpu.user + cpu.system).as_secs_f64(),
        cached_before,
        cached_after: residency(file, path)?.share(),
    }))
}
