// SPDX-License-Identifier: Apache-2.0
//! The witness of a slow disk: direct reads, one at a time or many at once, by its own process in the server's mount namespace.
//!
//! The process opens its file once and answers over a socket in the run's folder. A request is a line with the number of reads and
//! the depth; the answer is a line with their times. It shares nothing with the layer but the kernel.

use crate::Error;
use evidence::LatencyHistogram;
use host::{interrupt, process};
use run::{Child, ChildSpec, Role, Run};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;
/// A smaller file would be read again and again from the device's own cache.
const LEAST_BLOCKS: u64 = 256;
/// The pause between two checks for a hanging read or a stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The time that a probe's process needs in addition to its reads.
const SLACK: Duration = Duration::from_secs(10);

/// A number of reads, `depth` of them at once. After `time` no further read begins, if there are at least `least`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Task {
    pub reads: u32,
    pub depth: u32,
    pub least: u32,
    pub time: Duration,
    /// The deadline of each read: a later read is given up, and the task with it.
    pub deadline: Duration,
}

impl Task {
    /// At most `reads` reads, as many as finish within `time`.
    pub(crate) fn short(reads: u32, depth: u32, time: Duration) -> Self {
        Self { reads, depth, least: depth, time, deadline: Duration::from_secs(20) }
    }

    /// The longest time that this task can take.
    fn longest(&self) -> Duration {
        self.time + self.deadline * self.least.div_ceil(self.depth.max(1)).max(1) + SLACK
    }
}

/// The times of a number of reads.
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

/// A probe process with its open file.
#[derive(Debug)]
pub(crate) struct Probe {
    file: PathBuf,
    child: Child,
    stream: BufReader<UnixStream>,
}

impl Probe {
    /// `seeing` is how a process gets to see the delay; `layer` is the pid of the delaying process.
    pub(crate) fn start(run: &mut Run, layer: u32, seeing: ChildSpec, file: &Path) -> Result<Self, Error> {
        let socket = run.folder().join(format!("probe-{layer}.sock"));
        let order = Order { file: file.into(), socket: socket.clone() };
        let ChildSpec { program, args, order, .. } = ChildSpec::internal(&order)?;
        let spec = ChildSpec { launcher: true, program, args, order, ..seeing };
        let child = run.spawn(Role::Launcher, spec)?;
        let stream = connect(&socket, &child).map_err(|source| failed(file, source))?;
        Ok(Self { file: file.to_owned(), child, stream: BufReader::new(stream) })
    }

    /// Ends the process before the end of its run.
    pub(crate) fn end(self, run: &mut Run) -> Result<(), Error> {
        Ok(run.undo_step(self.child.step)?)
    }

    pub(crate) fn read(&mut self, task: Task) -> Result<Reads, Error> {
        let exchange = |stream: &mut BufReader<UnixStream>| -> io::Result<String> {
            stream.get_ref().set_read_timeout(Some(task.longest()))?;
            writeln!(stream.get_mut(), "{}", serde_json::json!(task))?;
            let mut line = String::new();
            stream.read_line(&mut line)?;
            Ok(line)
        };
        let answer = exchange(&mut self.stream).map_err(|source| failed(&self.file, source))?;
        serde_json::from_str(&answer).map_err(|_| Error::ProbeAnswer { answer: answer.trim().to_owned() })
    }
}

/// The probe listens when its file is open; before that there is no socket.
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

/// The order that a probe's process gets.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    /// Opened once, before any delay is changed. Its name may be any bytes.
    file: OsString,
    /// The socket at which the process takes requests.
    socket: PathBuf,
}

impl process::Order for Order {
    const ROLE: &'static str = "probe";
    /// It is ready when its socket is there.
    type Ready = ();
}

/// The body of `wringer internal probe`: serves one client, then ends.
///
/// # Errors
/// The file cannot be opened or read; the socket cannot be made.
pub fn serve(order: &Order) -> Result<(), Error> {
    let (file, socket) = (Path::new(&order.file), order.socket.as_path());
    let opened = open(file)?;
    let listener = UnixListener::bind(socket).map_err(|source| failed(socket, source))?;
    let (stream, _) = listener.accept().map_err(|source| failed(socket, source))?;
    let mut requests = BufReader::new(stream);
    let mut line = String::new();
    while requests.read_line(&mut line).is_ok_and(|length| length > 0) {
        let task = serde_json::from_str(&line).map_err(|_| Error::ProbeAnswer { answer: line.trim().to_owned() });
        let answer = match task.and_then(|task| read(&opened, file, task)) {
            Ok(reads) => serde_json::json!(reads).to_string(),
            Err(error) => format!("error: {}", host::chain(&error)),
        };
        line.clear();
        if writeln!(requests.get_mut(), "{answer}").is_err() {
            break;
        }
    }
    Ok(())
}

/// Opens a file to read past the page cache (open(2), `O_DIRECT`).
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

/// The number of blocks, found by seeking: `metadata` knows the length of a file, but not that of a device.
fn blocks(file: &File, path: &Path) -> Result<u64, Error> {
    let end = (&mut &*file).seek(SeekFrom::End(0)).map_err(|source| failed(path, source))?;
    Ok(end / BLOCK as u64)
}

/// The state that the readers of one task share.
struct Readers {
    file: File,
    blocks: u64,
    task: Task,
    started: Instant,
    next: AtomicU32,
    /// When each reader began its present read, in microseconds after the start; 0: it has none.
    began_us: Vec<AtomicU64>,
}

/// Reads random blocks of 4 KiB; `depth` threads each have one read in flight. A thread whose read does not return cannot be ended,
/// and is left behind.
///
/// # Errors
/// A read fails, or misses its deadline; the user stopped it.
pub(crate) fn read(file: &File, path: &Path, task: Task) -> Result<Reads, Error> {
    let io = |source| failed(path, source);
    let depth = task.depth.max(1);
    let readers = Arc::new(Readers {
        file: file.try_clone().map_err(io)?,
        blocks: blocks(file, path)?,
        task,
        started: Instant::now(),
        next: AtomicU32::new(0),
        began_us: (0..depth).map(|_| AtomicU64::new(0)).collect(),
    });
    let (sent, received) = mpsc::channel();
    for number in 0..depth {
        let (readers, sent) = (readers.clone(), sent.clone());
        let body = move || drop(sent.send(readers.read_some(number as usize)));
        std::thread::Builder::new().name("reader".into()).spawn(body).map_err(io)?;
    }
    drop(sent);
    let mut histogram = LatencyHistogram::new();
    loop {
        match received.recv_timeout(LOOK_EVERY) {
            Ok(one) => histogram.merge(&one.map_err(io)?),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if interrupt::requested() => {
                return Err(host::Error::Interrupted.into());
            }
            Err(RecvTimeoutError::Timeout) if readers.one_hangs() => {
                return Err(Error::Hangs { path: path.to_owned(), seconds: task.deadline.as_secs() });
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    if interrupt::requested() {
        return Err(host::Error::Interrupted.into());
    }
    Ok(Reads { histogram, elapsed_us: readers.now_us() })
}

impl Readers {
    fn now_us(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX).max(1)
    }

    fn one_hangs(&self) -> bool {
        let (now, deadline) = (self.now_us(), u64::try_from(self.task.deadline.as_micros()).unwrap_or(u64::MAX));
        let began = self.began_us.iter().map(|began| began.load(Ordering::Relaxed));
        began.into_iter().any(|began| began > 0 && now.saturating_sub(began) > deadline)
    }

    fn read_some(&self, number: usize) -> io::Result<LatencyHistogram> {
        let mut memory = vec![0; 2 * BLOCK];
        let aligned = memory.as_ptr().align_offset(BLOCK);
        let mut histogram = LatencyHistogram::new();
        loop {
            let read = self.next.fetch_add(1, Ordering::Relaxed);
            let enough = read >= self.task.reads || read >= self.task.least && self.started.elapsed() > self.task.time;
            if enough || interrupt::requested() {
                return Ok(histogram);
            }
            let offset = scramble(read.into()) % self.blocks * BLOCK as u64;
            self.began_us[number].store(self.now_us(), Ordering::Relaxed);
            let start = Instant::now();
            self.file.read_exact_at(&mut memory[aligned..aligned + BLOCK], offset)?;
            histogram.record(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
            self.began_us[number].store(0, Ordering::Relaxed);
        }
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): scattered, and the same in each run.
fn scramble(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn failed(path: &Path, source: io::Error) -> Error {
    Error::Probe { path: path.to_owned(), source }
}
