// SPDX-License-Identifier: Apache-2.0
//! Asks processes in Valgrind for snapshots, over the pipes of `vgdb`, a program of Valgrind.

use crate::Error;
use host::interrupt;
use host::process::{Identity, descendants, end_with_caller};
use host::tool;
use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;
use sandbox::Sandbox;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// How long a process may take to write a snapshot: 0.1 to 0.3 s were measured, on a busy machine more.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// A snapshot of a server has some 10 KiB to 4 MiB; whatever a process writes, no more is read.
const MOST_BYTES: u64 = 256 << 20;

/// The process `first` and all processes below it that run in Valgrind.
pub(crate) fn processes(first: u32) -> Vec<u32> {
    let Some(first) = Identity::of(first) else { return Vec::new() };
    let is_in_valgrind = |pid: &u32| {
        let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        program.components().any(|part| part.as_os_str() == "valgrind")
    };
    descendants(&[first]).into_iter().map(|it| it.pid).filter(is_in_valgrind).collect()
}

pub(crate) fn program() -> Result<PathBuf, Error> {
    tool::find("vgdb").ok_or(Error::NoTool { program: "vgdb", package: "valgrind" })
}

/// The snapshot of one process, as Massif writes it. The server's user writes its file into the sandbox; the file is removed after it was read.
pub(crate) fn snapshot(program: &Path, sandbox: &Sandbox, pid: u32) -> Result<String, Error> {
    let folder = sandbox.valgrind_folder();
    let file = folder.join(format!("mark.{pid}"));
    let failed = |why: String| Error::Snapshot { pid, why };
    let mut command = tool::command(program);
    command
        .arg(format!("--vgdb-prefix={}/vgdb", folder.display()))
        .arg(format!("--pid={pid}"))
        .args(["detailed_snapshot".as_ref(), file.as_os_str()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    // the user whom the kernel lets look into the server
    if let Some((uid, gid)) = sandbox.manifest.user.identity() {
        command.uid(uid).gid(gid);
    }
    // while it waits for its server, it would outlive this program
    end_with_caller(&mut command, Signal::KILL);
    let mut child = command.spawn().map_err(|error| failed(format!("start {}: {error}", program.display())))?;
    let (deadline, server) = (Instant::now() + PATIENCE, Identity::of(pid));
    let stop = |child: &mut Child, why: String| {
        let _ = child.kill();
        let _ = child.wait();
        Err(failed(why))
    };
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if !server.is_some_and(|server| server.is_alive()) => {
                return stop(&mut child, "it has ended before it answered".into());
            }
            Ok(None) if Instant::now() > deadline || interrupt::impatient() => {
                return stop(&mut child, format!("it has not answered for {} s", PATIENCE.as_secs()));
            }
            Ok(None) => std::thread::sleep(LOOK_EVERY),
            Err(error) => return Err(failed(error.to_string())),
        }
    };
    let mut said = String::new();
    let _ = child.stderr.take().map(|stderr| stderr.take(4096).read_to_string(&mut said));
    if !status.success() {
        return Err(failed(said.trim().replace('\n', "; ")));
    }
    let text = read(&file, 0).map_err(|source| Error::Read { path: file.clone(), source });
    let _ = host::files::remove_file(&file);
    text
}

/// Reads a file from this byte on. The server's user can put anything into its folder: so no link is followed, and reading never waits.
pub(crate) fn read(path: &Path, from: u64) -> std::io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("it is no file"));
    }
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
