// SPDX-License-Identifier: Apache-2.0
//! heaptrack: its library in the server writes each allocation into a file, with addresses. When the server has ended, a program of heaptrack finds the
//! functions' names for these addresses. The heap at each mark is then read from the resulting file, by the time of the mark.

use crate::mark::{Mark, ProcessMark, Taken, millis};
use crate::snapshots::Stitched;
use crate::{Error, asking};
use flate2::Compression;
use flate2::write::GzEncoder;
use host::files::NewFile;
use host::{interrupt, tool};
use rustix::fs::{Mode, OFlags};
use sandbox::{Sandbox, StartOptions};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

/// heaptrack notes the time every 10 ms (1.4, src/track/libheaptrack.cpp). There is a pause before each mark and one after it, so that allocations before
/// and after the mark have other times than the mark.
const PAUSE_BEFORE: Duration = Duration::from_millis(30);
/// Longer, because everything that is allocated until heaptrack notes the time again counts as allocated before the mark; on a busy host the thread that
/// notes it waits for its CPU.
const PAUSE_AFTER: Duration = Duration::from_millis(250);
/// The name of the file in the sandbox; heaptrack writes the process's number in place of `$$`.
const RAW: &str = "heaptrack.$$.raw";
const NAME: &str = "heaptrack.gz";

pub(crate) struct Heaptrack {
    interpreter: PathBuf,
    /// The folder into which the server writes.
    folder: PathBuf,
    threshold: f64,
    /// The time of each mark, by heaptrack's clock.
    times_ms: Vec<u64>,
}

impl Heaptrack {
    /// Adds to `start` the variables that load the library into the server. Call this before the server's start.
    pub(crate) fn prepare(
        library: &Path,
        interpreter: PathBuf,
        sandbox: &Sandbox,
        threshold: f64,
        start: &mut StartOptions,
    ) -> Result<Self, Error> {
        let folder = sandbox.make_profiles_folder().map_err(|source| Error::Library(source.into()))?;
        let pair = |name: &str, value: &Path| (name.to_owned(), value.display().to_string());
        let raw = folder.join(RAW);
        start.wrapping.environment.extend([pair("LD_PRELOAD", library), pair("DUMP_HEAPTRACK_OUTPUT", &raw)]);
        Ok(Self { interpreter, folder, threshold, times_ms: Vec::new() })
    }

    fn raw(&self, pid: u32) -> PathBuf {
        self.folder.join(RAW.replace("$$", &pid.to_string()))
    }

    pub(crate) fn take(&mut self, pid: u32) -> Result<Taken, Error> {
        let (began, raw) = (Instant::now(), self.raw(pid));
        std::thread::sleep(PAUSE_BEFORE);
        // heaptrack's clock begins when heaptrack makes the file
        let made = std::fs::metadata(&raw).and_then(|it| it.created());
        let made = made.map_err(|source| Error::Read { path: raw, source })?;
        let time = SystemTime::now().duration_since(made).unwrap_or_default();
        std::thread::sleep(PAUSE_AFTER);
        self.times_ms.push(millis(time));
        Ok(Taken::later(began.elapsed()))
    }

    /// Call this when the server has ended. Makes the file for the user, and writes the heap's size and processes into the marks.
    pub(crate) fn end(
        &self,
        sandbox: &Sandbox,
        pid: u32,
        marks: &mut [Mark],
        into: &Path,
    ) -> Result<(PathBuf, Stitched), Error> {
        let path = into.join(NAME);
        self.interpret(sandbox, pid, &path)?;
        let unreadable = |source: std::io::Error| Error::Read { path: path.clone(), source };
        let open = || File::open(&path).and_then(heap::plain);
        let trees = heap::at_times(open().map_err(unreadable)?, &self.times_ms)
            .map_err(|error| unreadable(std::io::Error::other(error)))?;
        let header = asking::header("heaptrack", sandbox);
        let mut stitched = Stitched::default();
        for (mark, mut tree) in marks.iter_mut().zip(trees) {
            let heap_bytes = tree.snapshot.heap_bytes;
            mark.heap_bytes = Some(heap_bytes);
            mark.processes = vec![ProcessMark { pid, role: "server".to_owned(), heap_bytes }];
            tree.snapshot.time = mark.at_ms;
            let text = heap::massif::text(&header, &tree, self.threshold);
            stitched.push(&text).ok_or_else(|| Error::NoSnapshot { pid, why: "it has no snapshot".into() })?;
        }
        sandbox.empty_profiles_folder().map_err(|source| Error::Library(source.into()))?;
        Ok((path, stitched))
    }

    /// Writes the server's file to `path`, with names instead of addresses, and compressed.
    fn interpret(&self, sandbox: &Sandbox, pid: u32, path: &Path) -> Result<(), Error> {
        let raw = self.raw(pid);
        let unreadable = |source: std::io::Error| Error::Read { path: raw.clone(), source };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&raw, flags, Mode::empty()).map_err(|errno| unreadable(errno.into()))?;
        let failed = |why: String| Error::Interpret { program: self.interpreter.clone(), why };
        let mut command = tool::command(&self.interpreter);
        command.stdin(File::from(opened)).stdout(Stdio::piped()).stderr(Stdio::null());
        // the server's user can write anything into this file: so the program that reads it has no other rights than that user
        if let Some((uid, gid)) = sandbox.manifest.user.identity() {
            command.uid(uid).gid(gid);
        }
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let mut output = child.stdout.take().ok_or_else(|| failed("it has no output".into()))?;
        let copied = NewFile::create(path, 0o644).and_then(|file| {
            let (mut written, mut buffer) = (GzEncoder::new(file, Compression::fast()), vec![0; 256 << 10]);
            loop {
                let read = output.read(&mut buffer)?;
                if read == 0 {
                    return written.finish();
                }
                if interrupt::impatient() {
                    return Err(std::io::ErrorKind::Interrupted.into());
                }
                written.write_all(buffer.get(..read).unwrap_or_default())?;
            }
        });
        if copied.is_err() {
            let _ = child.kill();
        }
        let status = child.wait().map_err(|error| failed(error.to_string()))?;
        let file = copied.map_err(|error| failed(error.to_string()))?;
        if !status.success() {
            return Err(failed(status.to_string()));
        }
        file.keep().map_err(|error| failed(host::chain(&error)))
    }
}
