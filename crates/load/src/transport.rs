// SPDX-License-Identifier: Apache-2.0
//! A socket to a server, plain or with TLS, and the login over it. Blocking by default.

#[cfg(test)]
mod tests;
mod tls;

use crate::Error;
use crate::protocol::{Broken, Event, Login, Rows, Session};
use crate::target::{Endpoint, Target};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use units::Span;

/// How long a TCP connect may take, and how long a login may wait for each answer.
pub(crate) const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// How long the server may leave our bytes unread before the connection counts as lost.
const SEND_LIMIT: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };
/// The most bytes of one read. The reply to a point select has some 150 bytes, to a range of 100 rows some 13 KiB.
pub(crate) const READ_BYTES: usize = 64 * 1024;

pub(crate) struct Transport {
    socket: OwnedFd,
    tls: Option<Box<Encrypted>>,
}

impl Transport {
    fn connect(endpoint: &Endpoint, limit: Duration) -> Result<Self, Error> {
        let failed = |source| Error::Connect { endpoint: endpoint.clone(), source };
        let socket = match endpoint {
            Endpoint::Socket(path) => OwnedFd::from(UnixStream::connect(path).map_err(failed)?),
            Endpoint::Tcp(host, port) => OwnedFd::from(connect_tcp(endpoint, host, *port, limit)?),
        };
        Ok(Self { socket, tls: None })
    }

    /// Sends all of `bytes`. On a non-blocking socket this waits only when the server does not read a full buffer.
    #[inline]
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.tls {
            None => send_all(&self.socket, bytes),
            Some(tls) => tls.send(&self.socket, bytes),
        }
    }

    /// Reads the available bytes, up to the buffer's size. `WouldBlock`: none now. `UnexpectedEof`: the server closed the connection.
    #[inline]
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => receive_plain(&self.socket, buffer),
            Some(tls) => tls.receive(&self.socket, buffer),
        }
    }

    #[inline]
    pub(crate) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// The process that listens at the other end of a Unix socket (unix(7), SO_PEERCRED). `None`: TCP, or a process that is not visible from here.
    pub(crate) fn peer_process(&self) -> Option<u32> {
        let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut length = libc::socklen_t::try_from(size_of::<libc::ucred>()).ok()?;
        let (socket, option) = (self.socket.as_raw_fd(), libc::SO_PEERCRED);
        // SAFETY: the kernel writes at most `length` bytes into `peer`, which is as long.
        let result =
            unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, option, (&raw mut peer).cast(), &raw mut length) };
        u32::try_from(peer.pid).ok().filter(|pid| result == 0 && *pid > 0)
    }

    pub(crate) fn set_blocking(&self, blocking: bool) -> io::Result<()> {
        rustix::io::ioctl_fionbio(&self.socket, !blocking)?;
        Ok(())
    }

    /// Whether the server has closed its end; bytes that it sent before may still be there.
    pub(crate) fn is_closed(&self) -> bool {
        let mut socket = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut socket, Some(&at_once)).is_ok_and(|count| count > 0)
    }

    /// Ends sending and reading.
    pub(crate) fn shut(&self) {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }

    /// A blocking read that takes longer fails with `WouldBlock`. `None`: no limit.
    pub(crate) fn set_read_limit(&self, limit: Option<Duration>) -> io::Result<()> {
        let timeout = rustix::net::sockopt::Timeout::Recv;
        rustix::net::sockopt::set_socket_timeout(&self.socket, timeout, limit)?;
        Ok(())
    }

    fn start_tls(&mut self, target: &Target) -> Result<(), Error> {
        let refused = |reason: String| Error::Tls { endpoint: target.endpoint.clone(), reason };
        let mut tls = Encrypted { connection: tls::client(target).map_err(refused)?, rest: Vec::new() };
        while tls.connection.is_handshaking() {
            tls.flush(&self.socket).map_err(|error| refused(error.to_string()))?;
            if tls.connection.is_handshaking() {
                tls.read(&self.socket).map_err(|error| refused(patience_over(error, &self.socket).to_string()))?;
            }
        }
        tls.flush(&self.socket).map_err(|error| refused(error.to_string()))?;
        self.tls = Some(Box::new(tls));
        Ok(())
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A connection with its protocol state, its unprocessed received bytes, and its bytes to send.
pub(crate) struct Link {
    pub(crate) transport: Transport,
    pub(crate) session: Session,
    pub(crate) outbox: Vec<u8>,
    inbox: Vec<u8>,
    endpoint: Endpoint,
}

impl Link {
    /// Connects and logs in.
    pub(crate) fn open(target: &Target) -> Result<Self, Error> {
        Self::open_within(target, CONNECT_LIMIT)
    }

    /// The same; waits at most this long for each answer of the server.
    pub(crate) fn open_within(target: &Target, limit: Duration) -> Result<Self, Error> {
        Self::open_telling(target, limit, &mut |_| {})
    }

    /// The same; `connected` is told [`Transport::peer_process`] before the login.
    pub(crate) fn open_telling(
        target: &Target,
        limit: Duration,
        connected: &mut dyn FnMut(Option<u32>),
    ) -> Result<Self, Error> {
        let transport = Transport::connect(&target.endpoint, limit)?;
        connected(transport.peer_process());
        let lost = |source| Error::Lost { during: "logging in", source };
        transport.set_read_limit(Some(limit)).map_err(lost)?;
        let mut outbox = Vec::with_capacity(512);
        let session = Session::new(target.protocol, Login::new(target), &mut outbox);
        let endpoint = target.endpoint.clone();
        let mut link = Self { transport, session, outbox, inbox: Vec::new(), endpoint };
        link.log_in(target)?;
        link.transport.set_read_limit(None).map_err(lost)?;
        Ok(link)
    }

    fn log_in(&mut self, target: &Target) -> Result<(), Error> {
        loop {
            match self.exchange(&mut crate::protocol::Discard, "logging in")? {
                Event::StartTls => {
                    // Bytes that came in clear text would be taken for encrypted ones (CVE-2021-23222).
                    if !self.inbox.is_empty() {
                        return Err(Error::BeforeTls { endpoint: self.endpoint.clone(), bytes: self.inbox.len() });
                    }
                    // MySQL's request for TLS is sent in clear text.
                    self.flush().map_err(|source| Error::Lost { during: "logging in", source })?;
                    self.transport.start_tls(target)?;
                    self.session.secured(&mut self.outbox).map_err(|broken| explain(broken, &target.endpoint))?;
                }
                Event::LoggedIn => return Ok(()),
                _ => {}
            }
        }
    }

    /// Sends the outbox.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if !self.outbox.is_empty() {
            self.transport.send(&self.outbox)?;
            self.outbox.clear();
        }
        Ok(())
    }

    /// Sends the outbox, then reads until an event is complete. For a blocking transport.
    pub(crate) fn exchange(&mut self, rows: &mut impl Rows, during: &'static str) -> Result<Event, Error> {
        let lost = |source| Error::Lost { during, source };
        self.flush().map_err(lost)?;
        let mut scratch = vec![0; READ_BYTES];
        loop {
            if let Some(event) = self.take_event(rows).map_err(|broken| explain(broken, &self.endpoint))? {
                return Ok(event);
            }
            self.flush().map_err(lost)?;
            let count = self
                .transport
                .receive(&mut scratch)
                .map_err(|error| lost(patience_over(error, &self.transport.socket)))?;
            self.inbox.extend_from_slice(&scratch[..count]);
        }
    }

    /// Processes the bytes that were kept from earlier reads.
    fn take_event(&mut self, rows: &mut impl Rows) -> Result<Option<Event>, Broken> {
        if self.inbox.is_empty() {
            return Ok(None);
        }
        let fed = self.session.feed(&self.inbox, rows, &mut self.outbox)?;
        self.inbox.drain(..fed.consumed);
        Ok(fed.event)
    }

    /// Processes `fresh` bytes after those kept from earlier reads; keeps an incomplete message.
    #[inline]
    pub(crate) fn feed(&mut self, fresh: &[u8], rows: &mut impl Rows) -> Result<Option<Event>, Broken> {
        if self.inbox.is_empty() {
            let fed = self.session.feed(fresh, rows, &mut self.outbox)?;
            self.inbox.extend_from_slice(&fresh[fed.consumed..]);
            Ok(fed.event)
        } else {
            self.inbox.extend_from_slice(fresh);
            self.take_event(rows)
        }
    }
}

impl Drop for Link {
    /// Says goodbye if possible: a server counts clients that disappear as aborted.
    fn drop(&mut self) {
        self.outbox.clear();
        self.session.quit(&mut self.outbox);
        let _ = self.flush();
    }
}

/// Converts a refusal to an [`Error`].
pub(crate) fn explain(broken: Broken, endpoint: &Endpoint) -> Error {
    match broken {
        Broken::Malformed(text) => Error::Protocol(text),
        Broken::Refused { code, message } => Error::Server { code, message },
        Broken::Method(method) => Error::Authentication(method),
        Broken::NoTls => Error::NoTls { endpoint: endpoint.clone() },
    }
}

fn connect_tcp(endpoint: &Endpoint, host: &str, port: u16, limit: Duration) -> Result<TcpStream, Error> {
    let failed = |source| Error::Connect { endpoint: endpoint.clone(), source };
    let mut last = Error::NoAddress { endpoint: endpoint.clone() };
    for address in addresses(host, port).map_err(failed)? {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(stream) => {
                stream.set_nodelay(true).map_err(failed)?;
                return Ok(stream);
            }
            Err(source) => last = failed(source),
        }
    }
    Err(last)
}

/// `localhost` is the loopback address also without a hosts file, as in a minimal container (RFC 6761, 6.3).
fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    match (host, port).to_socket_addrs() {
        Ok(found) => Ok(found.collect()),
        Err(_) if host.eq_ignore_ascii_case("localhost") => {
            Ok(vec![(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()])
        }
        Err(error) => Err(error),
    }
}

#[inline]
fn send_all(socket: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(Errno::AGAIN) => wait_writable(socket)?,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cold]
fn wait_writable(socket: &OwnedFd) -> io::Result<()> {
    match poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(&SEND_LIMIT)) {
        Ok(0) => Err(io::ErrorKind::TimedOut.into()),
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cold]
fn hung_up() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")
}

/// The error of a blocking read after its time limit ([`Transport::set_read_limit`]).
fn patience_over(error: io::Error, socket: &OwnedFd) -> io::Error {
    let limit = rustix::net::sockopt::socket_timeout(socket, rustix::net::sockopt::Timeout::Recv).ok().flatten();
    match (error.kind(), limit) {
        (io::ErrorKind::WouldBlock, Some(limit)) => {
            io::Error::new(io::ErrorKind::TimedOut, format!("it has said nothing for {}", Span(limit)))
        }
        _ => error,
    }
}

#[inline]
fn receive_plain(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match recv(socket, &mut *buffer, RecvFlags::empty()) {
            Ok((0, _)) => return Err(hung_up()),
            Ok((count, _)) => return Ok(count),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A connection of the TLS library, with bytes of the server that it has not taken yet.
struct Encrypted {
    connection: rustls::ClientConnection,
    rest: Vec<u8>,
}

impl Encrypted {
    /// Encrypts and sends in turns: the TLS library's buffer is limited.
    fn send(&mut self, socket: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let taken = self.connection.writer().write(bytes)?;
            bytes = &bytes[taken..];
            self.flush(socket)?;
        }
        Ok(())
    }

    fn flush(&mut self, socket: &OwnedFd) -> io::Result<()> {
        let mut records = Vec::new();
        while self.connection.wants_write() {
            self.connection.write_tls(&mut records)?;
        }
        send_all(socket, &records)
    }

    /// Reads one chunk from the socket, and decrypts it as far as the first records that have something to read: the TLS library takes no more before that is
    /// read ("received plaintext buffer full"). The rest of the chunk comes first at the next call.
    fn read(&mut self, socket: &OwnedFd) -> io::Result<()> {
        let mut chunk = [0; 16 * 1024];
        let rest = std::mem::take(&mut self.rest);
        let mut records = if rest.is_empty() {
            let count = receive_plain(socket, &mut chunk)?;
            &chunk[..count]
        } else {
            rest.as_slice()
        };
        let mut waiting = 0;
        while !records.is_empty() && waiting == 0 {
            self.connection.read_tls(&mut records)?;
            waiting = self.connection.process_new_packets().map_err(io::Error::other)?.plaintext_bytes_to_read();
        }
        self.rest = records.to_vec();
        Ok(())
    }

    fn receive(&mut self, socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(buffer) {
                Ok(0) => return Err(hung_up()),
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.read(socket)?,
                Err(error) => return Err(error),
            }
        }
    }
}
