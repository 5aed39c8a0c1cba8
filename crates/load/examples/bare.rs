// SPDX-License-Identifier: Apache-2.0
//! The least that a client of a real server can do: logs in, prepares a point select, and then sends the same bytes over and over
//! and throws the answers away. No values drawn, no answer understood, no histogram; the kernel's part alone is left.
//! `WRINGER_DSN=... cargo run --release -p load --example bare -- CONNECTIONS SECONDS` prints the number of executions. The server
//! has sysbench's table (MySQL family) or pgbench's (PostgreSQL), and is reached by its socket.
//!
//! Threads and waiting are those of `wringer load`: as many threads, each in epoll over its share of the connections.

use load::protocol::{Discard, Event, Login, Session};
use load::{Endpoint, Protocol, Target};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::error::Error;
use std::io::{Read as _, Write as _, stdout};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};
use workload::Param;

type Failure = Box<dyn Error + Send + Sync>;

/// A connection, and what is sent on it.
struct Line {
    stream: UnixStream,
    request: Vec<u8>,
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [connections, seconds] = arguments.as_slice() else {
        return Err("see the head of this file".into());
    };
    let target: Target = std::env::var("WRINGER_DSN")?.parse()?;
    let mut lines = Vec::new();
    for _ in 0..connections.parse()? {
        lines.push(Line::open(&target)?);
    }
    let threads = usize::try_from(load::engine::default_workers(lines.len().try_into()?))?;
    let end = Instant::now() + Duration::from_secs_f64(seconds.parse()?);
    let executions = thread::scope(|scope| -> Result<u64, Failure> {
        let shares = lines.chunks(lines.len().div_ceil(threads));
        let workers: Vec<_> = shares.map(|share| scope.spawn(move || exchange(share, end))).collect();
        workers.into_iter().map(|worker| Ok(worker.join().map_err(|_| "a thread has died")??)).sum()
    })?;
    writeln!(stdout(), "{{\"executions\":{executions}}}")?;
    Ok(())
}

impl Line {
    fn open(target: &Target) -> Result<Self, Failure> {
        let Endpoint::Socket(socket) = &target.endpoint else {
            return Err("the server is reached by its socket".into());
        };
        let mut stream = UnixStream::connect(socket)?;
        let mut out = Vec::new();
        let mut session = Session::new(target.protocol, Login::new(target), &mut out);
        converse(&mut stream, &mut session, &mut out)?;
        let select = match target.protocol {
            Protocol::Mysql => "SELECT c FROM sbtest1 WHERE id=?",
            Protocol::Postgresql => "SELECT abalance FROM pgbench_accounts WHERE aid = $1",
        };
        session.prepare(select, &mut out);
        converse(&mut stream, &mut session, &mut out)?;
        // The first execution also tells the types of its parameters; the second is what all others look like.
        session.execute(0, &[Param::Int(1)], &[], &mut out);
        converse(&mut stream, &mut session, &mut out)?;
        session.execute(0, &[Param::Int(1)], &[], &mut out);
        Ok(Self { stream, request: out })
    }
}

/// Sends what there is to say and listens until something is complete.
fn converse(stream: &mut UnixStream, session: &mut Session, out: &mut Vec<u8>) -> Result<Event, Failure> {
    let (mut heard, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        stream.write_all(out)?;
        out.clear();
        let fed = session.feed(&heard, &mut Discard, out)?;
        heard.drain(..fed.consumed);
        match fed.event {
            Some(Event::Done(reply)) if reply.error.is_some() => return Err(session.message().into()),
            Some(event) => return Ok(event),
            None if out.is_empty() => {
                let count = stream.read(&mut chunk)?;
                heard.extend_from_slice(&chunk[..count]);
                if count == 0 {
                    return Err("the server hung up".into());
                }
            }
            None => {}
        }
    }
}

fn exchange(lines: &[Line], end: Instant) -> std::io::Result<u64> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    for (key, line) in lines.iter().enumerate() {
        epoll::add(&epoll, &line.stream, EventData::new_u64(key as u64), EventFlags::IN | EventFlags::ET)?;
        send(&line.stream, &line.request, SendFlags::NOSIGNAL)?;
    }
    let (mut executions, mut buffer) = (0, vec![0; 64 * 1024]);
    let mut events = Vec::with_capacity(256);
    while Instant::now() < end {
        events.clear();
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in &events {
            // The key was made from an index.
            #[allow(clippy::cast_possible_truncation)]
            let line = &lines[event.data.u64() as usize];
            recv(&line.stream, &mut buffer[..], RecvFlags::empty())?;
            send(&line.stream, &line.request, SendFlags::NOSIGNAL)?;
            executions += 1;
        }
    }
    Ok(executions)
}
