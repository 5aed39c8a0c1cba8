// SPDX-License-Identifier: Apache-2.0
//! The floor under any client: ping-pong of a point select's bytes over Unix sockets, with a responder that does nothing, in a
//! process of its own as a server is.
//! `cargo run --release -p load --example floor -- CONNECTIONS SECONDS` prints CPU of the client's side per exchange.
//!
//! The sizes are those of `SELECT c FROM sbtest1 WHERE id=?` as a prepared statement to MariaDB: request 26 bytes, reply 150.
#![allow(clippy::disallowed_methods)]

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

const REQUEST: [u8; 26] = [1; 26];
const REPLY: [u8; 150] = [2; 150];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [first, second] = arguments.as_slice() else { return Err("connections and seconds, please".into()) };
    if let Some(path) = first.strip_prefix("respond:") {
        return Ok(respond_all(path, second.parse()?)?);
    }
    let (connections, seconds): (usize, f64) = (first.parse()?, second.parse()?);
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("floor.sock");
    let listener = UnixListener::bind(&path)?;
    let responder = format!("respond:{}", path.display());
    let mut responder = Command::new(std::env::current_exe()?).args([&responder, first]).spawn()?;
    let accepted: Result<Vec<_>, _> = (0..connections).map(|_| listener.accept()).collect();
    let sockets: Vec<OwnedFd> = accepted?.into_iter().map(|(socket, _)| socket.into()).collect();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let before = cpu_us();
    let exchanges = exchange(&sockets, end)?;
    let (user, system) = (cpu_us().0 - before.0, cpu_us().1 - before.1);
    let per = |us: i64| us as f64 / exchanges as f64;
    writeln!(
        std::io::stdout(),
        "{{\"connections\":{connections},\"exchanges\":{exchanges},\"exchanges_per_second\":{:.0},\"user_us\":{:.3},\"system_us\":{:.3}}}",
        exchanges as f64 / seconds,
        per(user),
        per(system)
    )?;
    drop(sockets);
    responder.wait()?;
    Ok(())
}

/// The responder's process: a thread a connection, until the other side hangs up.
fn respond_all(path: &str, connections: usize) -> std::io::Result<()> {
    let sockets: Result<Vec<_>, _> = (0..connections).map(|_| UnixStream::connect(path)).collect();
    let threads: Vec<_> =
        sockets?.into_iter().map(|socket| thread::spawn(move || respond(&OwnedFd::from(socket)))).collect();
    for thread in threads {
        let _ = thread.join();
    }
    Ok(())
}

fn respond(socket: &OwnedFd) -> Option<()> {
    let mut buffer = [0; 256];
    loop {
        let (count, _) = recv(socket, &mut buffer[..], RecvFlags::empty()).ok()?;
        if count == 0 {
            return None;
        }
        send(socket, &REPLY, SendFlags::NOSIGNAL).ok()?;
    }
}

/// One thread waits for all.
fn exchange(sockets: &[OwnedFd], end: Instant) -> rustix::io::Result<u64> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    for (key, socket) in sockets.iter().enumerate() {
        epoll::add(&epoll, socket, EventData::new_u64(key as u64), EventFlags::IN | EventFlags::ET)?;
        send(socket, &REQUEST, SendFlags::NOSIGNAL)?;
    }
    let (mut exchanges, mut buffer) = (0, vec![0; 64 * 1024]);
    let mut events: Vec<Event> = Vec::with_capacity(256);
    while Instant::now() < end {
        events.clear();
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in &events {
            #[allow(clippy::cast_possible_truncation)]
            let socket = &sockets[event.data.u64() as usize];
            recv(socket, &mut buffer[..], RecvFlags::empty())?;
            send(socket, &REQUEST, SendFlags::NOSIGNAL)?;
            exchanges += 1;
        }
    }
    Ok(exchanges)
}

/// User and system time of this thread.
fn cpu_us() -> (i64, i64) {
    // SAFETY: all zeroes is a valid rusage, and the kernel fills the one that the pointer leads to.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    let us = |time: libc::timeval| time.tv_sec * 1_000_000 + time.tv_usec;
    (us(usage.ru_utime), us(usage.ru_stime))
}
