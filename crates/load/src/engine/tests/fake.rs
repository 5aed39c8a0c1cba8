// SPDX-License-Identifier: Apache-2.0
//! A small PostgreSQL server that answers by a script: how long each statement takes, and how it ends.
#![allow(clippy::disallowed_methods)] // test code cleans up after itself

use crate::target::{Endpoint, Protocol, Target, Tls};
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How one execution ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Answer {
    Row,
    /// A row, sent when this many connections have been made. Without this wait, a load might end before a broken connection is made again.
    RowAfter(usize),
    Error(&'static [u8; 5]),
    HangUp,
    /// Hangs up when this many connections have been made, and accepts no login after that.
    CloseAfter(usize),
    /// An error that ends the connection.
    Fatal(&'static [u8; 5]),
    /// A row; then, without a request, an error that ends the connection.
    LastRow(&'static [u8; 5]),
    /// Sends nothing more on this connection.
    Silence,
    /// Wants data of the client (COPY ... FROM STDIN), and sends nothing more.
    WantsData,
}

/// The clock of a server whose time is scripted, and the time that each execution takes.
pub(super) struct ScriptedTime {
    pub(super) clock: Arc<AtomicU64>,
    pub(super) service_ns: fn(u64) -> u64,
    /// Nothing is answered between these two times.
    pub(super) stall: Mutex<(u64, u64)>,
}

type Script = dyn Fn(u64) -> Answer + Send + Sync;

pub(super) struct Fake {
    folder: tempfile::TempDir,
    shared: Arc<Shared>,
}

struct Shared {
    script: Box<Script>,
    service: Duration,
    time: Option<Arc<ScriptedTime>>,
    executions: AtomicU64,
    down: AtomicBool,
    /// Every login is refused.
    closed: AtomicBool,
    /// The values bound on each connection, in order.
    bound: Mutex<Vec<Vec<i32>>>,
    transcript: Mutex<Vec<String>>,
    open: Mutex<Vec<UnixStream>>,
}

impl Fake {
    pub(super) fn new(service: Duration, script: impl Fn(u64) -> Answer + Send + Sync + 'static) -> Self {
        Self::with(service, script, None)
    }

    /// Answers at once, and moves the clock by the time that the answer would have taken.
    pub(super) fn scripted(time: Arc<ScriptedTime>) -> Self {
        Self::with(Duration::ZERO, |_| Answer::Row, Some(time))
    }

    fn with(
        service: Duration,
        script: impl Fn(u64) -> Answer + Send + Sync + 'static,
        time: Option<Arc<ScriptedTime>>,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let shared = Arc::new(Shared {
            script: Box::new(script),
            service,
            time,
            executions: AtomicU64::new(0),
            down: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            bound: Mutex::default(),
            transcript: Mutex::default(),
            open: Mutex::default(),
        });
        let fake = Self { folder, shared };
        let listener = UnixListener::bind(fake.path()).unwrap();
        let shared = fake.shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if shared.down.load(Ordering::SeqCst) {
                    return;
                }
                let connection = {
                    let mut bound = shared.bound.lock().unwrap();
                    bound.push(Vec::new());
                    bound.len() - 1
                };
                shared.open.lock().unwrap().push(stream.try_clone().unwrap());
                let shared = shared.clone();
                thread::spawn(move || serve(stream, &shared, connection));
            }
        });
        fake
    }

    pub(super) fn target(&self) -> Target {
        Target {
            protocol: Protocol::Postgresql,
            endpoint: Endpoint::Socket(self.path()),
            user: "me".into(),
            password: crate::Password::default(),
            database: None,
            tls: Tls::Disable,
            tls_ca: None,
        }
    }

    pub(super) fn executions(&self) -> u64 {
        self.shared.executions.load(Ordering::SeqCst)
    }

    pub(super) fn bound(&self) -> Vec<Vec<i32>> {
        self.shared.bound.lock().unwrap().clone()
    }

    pub(super) fn transcript(&self) -> Vec<String> {
        self.shared.transcript.lock().unwrap().clone()
    }

    /// Acts like a killed server: every connection breaks, and nothing listens any more.
    pub(super) fn kill(&self) {
        self.shared.down.store(true, Ordering::SeqCst);
        std::fs::remove_file(self.path()).unwrap();
        for stream in self.shared.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("socket")
    }
}

fn serve(mut stream: UnixStream, shared: &Shared, connection: usize) -> Option<()> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut startup = vec![0; u32::from_be_bytes(length) as usize - 4];
    stream.read_exact(&mut startup).ok()?;
    let mut out = Vec::new();
    if shared.closed.load(Ordering::SeqCst) {
        fatal(b"57P03", &mut out);
        stream.write_all(&out).ok()?;
        return stream.shutdown(std::net::Shutdown::Both).ok();
    }
    message(b'R', &[0, 0, 0, 0], &mut out);
    message(b'S', b"server_version\x0015.0 fake\0", &mut out);
    message(b'Z', b"I", &mut out);
    stream.write_all(&out).ok()?;
    let mut status = b'I';
    loop {
        out.clear();
        let mut failed = false;
        loop {
            let mut header = [0; 5];
            stream.read_exact(&mut header).ok()?;
            let mut body = vec![0; u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize - 4];
            stream.read_exact(&mut body).ok()?;
            match header[0] {
                b'P' => message(b'1', &[], &mut out),
                b'D' => {
                    message(b't', &[0, 1, 0, 0, 0, 23], &mut out);
                    message(b'n', &[], &mut out);
                }
                b'B' => {
                    let value = body[body.len() - 6..body.len() - 2].try_into().unwrap();
                    shared.bound.lock().unwrap()[connection].push(i32::from_be_bytes(value));
                    message(b'2', &[], &mut out);
                }
                b'E' => {
                    let number = shared.executions.fetch_add(1, Ordering::SeqCst);
                    take_time(shared, number);
                    let answer = (shared.script)(number);
                    if let Answer::RowAfter(connections) | Answer::CloseAfter(connections) = answer {
                        await_connections(shared, connections);
                    }
                    match answer {
                        Answer::Row | Answer::RowAfter(_) => {
                            message(b'D', &[0, 1, 0, 0, 0, 1, b'x'], &mut out);
                            message(b'C', b"SELECT 1\0", &mut out);
                        }
                        Answer::Error(state) => {
                            let fields = [b"SERROR\0C", &state[..], b"\0Mscripted\0\0"].concat();
                            message(b'E', &fields, &mut out);
                            failed = true;
                        }
                        Answer::Fatal(state) => {
                            fatal(state, &mut out);
                            stream.write_all(&out).ok()?;
                            return stream.shutdown(std::net::Shutdown::Both).ok();
                        }
                        Answer::LastRow(state) => {
                            message(b'C', b"SELECT 0\0", &mut out);
                            message(b'Z', b"I", &mut out);
                            fatal(state, &mut out);
                            stream.write_all(&out).ok()?;
                            return stream.shutdown(std::net::Shutdown::Both).ok();
                        }
                        Answer::HangUp => return stream.shutdown(std::net::Shutdown::Both).ok(),
                        Answer::CloseAfter(_) => {
                            shared.closed.store(true, Ordering::SeqCst);
                            return stream.shutdown(std::net::Shutdown::Both).ok();
                        }
                        Answer::Silence => return stream.read(&mut [0]).ok().map(|_| ()),
                        Answer::WantsData => {
                            let mut asks = Vec::new();
                            message(b'G', &[0, 0, 0], &mut asks);
                            stream.write_all(&asks).ok()?;
                            return stream.read(&mut [0]).ok().map(|_| ());
                        }
                    }
                }
                b'Q' => {
                    let text = String::from_utf8_lossy(&body[..body.len() - 1]).into_owned();
                    status = b'I';
                    message(b'C', format!("{text}\0").as_bytes(), &mut out);
                    shared.transcript.lock().unwrap().push(text);
                    break;
                }
                b'S' => break,
                _ => return None,
            }
        }
        if failed {
            status = b'E';
        }
        message(b'Z', &[status], &mut out);
        stream.write_all(&out).ok()?;
    }
}

fn take_time(shared: &Shared, number: u64) {
    if let Some(time) = &shared.time {
        let ((from, until), now) = (*time.stall.lock().unwrap(), time.clock.load(Ordering::SeqCst));
        let served_from = if (from..until).contains(&now) { until } else { now };
        time.clock.store(served_from + (time.service_ns)(number), Ordering::SeqCst);
        return;
    }
    thread::sleep(shared.service);
}

fn await_connections(shared: &Shared, count: usize) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while shared.bound.lock().unwrap().len() < count && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(1));
    }
}

fn fatal(state: &[u8; 5], out: &mut Vec<u8>) {
    message(b'E', &[b"SFATAL\0VFATAL\0C", &state[..], b"\0Mthe server's words\0\0"].concat(), out);
}

fn message(tag: u8, body: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    out.extend_from_slice(&u32::try_from(body.len() + 4).unwrap().to_be_bytes());
    out.extend_from_slice(body);
}
