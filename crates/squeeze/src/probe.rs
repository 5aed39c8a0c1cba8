// SPDX-License-Identifier: Apache-2.0
//! Direct reads, one at a time or many at once, by a process of its own in the server's mount namespace: the witness of a slow disk.
//!
//! The process opens its file once and answers over a socket in the run's folder: a line with a number of reads and how many of them
//! are under way at once, and back one line with what they took. It shares nothing with the layer but the kernel.

use crate::Error;
use evidence::{LatencyHistogram, Measured};
use host::interrupt;
use run::{Child, ChildSpec, Role, Run};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;
/// Fewer blocks would be read again and again out of the device's own cache.
const LEAST_BLOCKS: u64 = 256;
/// On a disk that is slow by itself this many reads must do, after [`ENOUGH`].
const LEAST_READS: u32 = 50;
const ENOUGH: Duration = Duration::from_secs(2);

/// What a number of reads took.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Reads {
    pub histogram: LatencyHistogram,
    pub elapsed_us: u64,
}

impl Reads {
    pub(crate) fn per_second(&self) -> f64 {
        self.histogram.count() as f64 * 1e6 / self.elapsed_us.max(1) as f64
    }

    pub(crate) fn quantile_us(&self, p: f64) -> f64 {
        self.histogram.percentile_ns(p * 100.0) as f64 / 1000.0
    }
}

/// The first look that is within its tolerance, or the last of `looks`.
pub(crate) fn tried<T>(
    looks: u32,
    mut look: impl FnMut() -> Result<(Measured, T), Error>,
) -> Result<(Measured, T), Error> {
    let mut last = look()?;
    for _ in 1..looks {
        if last.0.within_tolerance == Some(true) {
            break;
        }
        last = look()?;
    }
    Ok(last)
}

/// A probe process that has its file open.
#[derive(Debug)]
pub(crate) struct Probe {
    file: PathBuf,
    child: Child,
    stream: BufReader<UnixStream>,
}

impl Probe {
    /// `seeing` says how a process comes to see the delay; `layer` is the pid of what delays.
    pub(crate) fn start(run: &mut Run, layer: u32, seeing: ChildSpec, file: &Path) -> Result<Self, Error> {
        let socket = run.folder().join(format!("probe-{layer}.sock"));
        let args: [OsString; 4] = ["--file".into(), file.into(), "--socket".into(), socket.clone().into()];
        let internal = ChildSpec::internal("probe", args);
        let spec = ChildSpec { launcher: true, program: internal.program, args: internal.args, ..seeing };
        let child = run.spawn(Role::Launcher, spec)?;
        let stream = connect(&socket, &child).map_err(|source| failed(file, source))?;
        Ok(Self { file: file.to_owned(), child, stream: BufReader::new(stream) })
    }

    /// Ends the process before the end of its run.
    pub(crate) fn end(self, run: &mut Run) -> Result<(), Error> {
        Ok(run.undo_step(self.child.step)?)
    }

    pub(crate) fn read(&mut self, reads: u32) -> Result<LatencyHistogram, Error> {
        Ok(self.read_at(reads, 1)?.histogram)
    }

    pub(crate) fn read_at(&mut self, reads: u32, depth: u32) -> Result<Reads, Error> {
        let exchange = |stream: &mut BufReader<UnixStream>| -> io::Result<String> {
            writeln!(stream.get_mut(), "{reads} {depth}")?;
            let mut line = String::new();
            stream.read_line(&mut line)?;
            Ok(line)
        };
        let answer = exchange(&mut self.stream).map_err(|source| failed(&self.file, source))?;
        serde_json::from_str(&answer).map_err(|_| Error::ProbeAnswer { answer: answer.trim().to_owned() })
    }
}

/// The probe listens as soon as it has its file open; until then there is no socket.
fn connect(socket: &Path, child: &Child) -> io::Result<UnixStream> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return Ok(stream),
            Err(error) if !child.is_alive() || Instant::now() > deadline => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// The body of `wringer internal probe`: serves one client, then ends.
///
/// # Errors
/// The file cannot be opened or read; the socket cannot be made.
pub fn serve(file: &Path, socket: &Path) -> Result<(), Error> {
    let opened = open(file)?;
    let listener = UnixListener::bind(socket).map_err(|source| failed(socket, source))?;
    let (stream, _) = listener.accept().map_err(|source| failed(socket, source))?;
    let mut requests = BufReader::new(stream);
    let mut line = String::new();
    while requests.read_line(&mut line).is_ok_and(|length| length > 0) {
        let mut numbers = line.split_whitespace().map(|number| number.parse().unwrap_or(1));
        let (reads, depth) = (numbers.next().unwrap_or(1), numbers.next().unwrap_or(1));
        let answer = match read_at(&opened, file, reads, depth) {
            Ok(reads) => serde_json::json!(reads).to_string(),
            Err(error) => format!("error: {error}"),
        };
        line.clear();
        if writeln!(requests.get_mut(), "{answer}").is_err() {
            break;
        }
    }
    Ok(())
}

/// For reading past the page cache (open(2), `O_DIRECT`).
#[allow(clippy::disallowed_methods)] // to read
pub(crate) fn open(path: &Path) -> Result<File, Error> {
    let flags = i32::try_from(OFlags::DIRECT.bits()).unwrap_or(0);
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|source| failed(path, source))?;
    let blocks = blocks(&file, path)?;
    if blocks < LEAST_BLOCKS {
        return Err(failed(path, io::Error::other("too small to be probed: 1 MiB is the least")));
    }
    Ok(file)
}

/// `metadata` knows the length of a file, but not that of a device.
fn blocks(file: &File, path: &Path) -> Result<u64, Error> {
    let end = (&mut &*file).seek(SeekFrom::End(0)).map_err(|source| failed(path, source))?;
    Ok(end / BLOCK as u64)
}

/// Reads blocks of 4 KiB at random, one after the other.
pub(crate) fn read(file: &File, path: &Path, reads: u32) -> Result<LatencyHistogram, Error> {
    Ok(read_at(file, path, reads, 1)?.histogram)
}

/// The same with so many under way at once, each by a thread of its own.
pub(crate) fn read_at(file: &File, path: &Path, reads: u32, depth: u32) -> Result<Reads, Error> {
    let blocks = blocks(file, path)?;
    let next = AtomicU32::new(0);
    let start = Instant::now();
    let alone = || vec![read_some(file, blocks, reads, &next)];
    let side_by_side = || {
        std::thread::scope(|scope| {
            let reader = || scope.spawn(|| read_some(file, blocks, reads, &next));
            let readers: Vec<_> = (0..depth.max(1)).map(|_| reader()).collect();
            readers.into_iter().filter_map(|reader| reader.join().ok()).collect()
        })
    };
    let histograms: Vec<io::Result<LatencyHistogram>> = if depth <= 1 { alone() } else { side_by_side() };
    if interrupt::requested() {
        return Err(host::Error::Interrupted.into());
    }
    let elapsed_us = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
    let mut histogram = LatencyHistogram::new();
    for one in histograms {
        histogram.merge(&one.map_err(|source| failed(path, source))?);
    }
    Ok(Reads { histogram, elapsed_us })
}

fn read_some(file: &File, blocks: u64, reads: u32, next: &AtomicU32) -> io::Result<LatencyHistogram> {
    let mut memory = vec![0; 2 * BLOCK];
    let aligned = memory.as_ptr().align_offset(BLOCK);
    let mut histogram = LatencyHistogram::new();
    let started = Instant::now();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let enough = number >= reads || number >= LEAST_READS && started.elapsed() > ENOUGH;
        if enough || interrupt::requested() {
            return Ok(histogram);
        }
        let offset = scramble(number.into()) % blocks * BLOCK as u64;
        let start = Instant::now();
        file.read_exact_at(&mut memory[aligned..aligned + BLOCK], offset)?;
        histogram.record(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): scattered, and the same each time.
fn scramble(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn failed(path: &Path, source: io::Error) -> Error {
    Error::Probe { path: path.to_owned(), source }
}
