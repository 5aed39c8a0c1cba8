// SPDX-License-Identifier: Apache-2.0
//! Ports on 127.0.0.1. No program can hold a port for a server that does not run yet. So a start that finds the port in use chooses another one,
//! unless the user asked for that port: then the start is refused.
//!
//! From the choice until the server listens, the port is *reserved*: an abstract Unix socket with the port in its name (unix(7)) is bound. Like
//! ports, such names belong to the network namespace, so every home and user of this host sees them, and the kernel frees them with their process. No
//! file is left, and nobody can put a file there.

use crate::Error;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::time::{Duration, Instant};

/// The ports to choose from. They are below the range that Linux gives to outgoing connections (`net.ipv4.ip_local_port_range`, 32768 by default), so
/// that no such connection takes the port between two starts.
const RANGE: std::ops::Range<u16> = 21_000..31_000;
/// How long another process may hold a reservation because it only checks whether the port is free.
const LOOK_LIMIT: Duration = Duration::from_millis(500);

/// A free port that no other Wringer takes before this value is dropped.
#[derive(Debug)]
pub(crate) struct Reserved {
    pub(crate) port: u16,
    _name: UnixDatagram,
}

impl Reserved {
    fn take(port: u16) -> Option<Self> {
        let name = reservation(port)?;
        is_free(port).then_some(Self { port, _name: name })
    }
}

/// Reserves the port. `None`: another process has reserved it.
fn reservation(port: u16) -> Option<UnixDatagram> {
    let address = SocketAddr::from_abstract_name(format!("wringer/port/{port}")).ok()?;
    UnixDatagram::bind_addr(&address).ok()
}

/// A free port that is in no manifest of this home. `folder` distributes the sandboxes over the range, also those of other users and homes, whose
/// manifests cannot be read here.
pub(crate) fn choose(folder: &Path, taken: &BTreeSet<u16>) -> Result<Reserved, Error> {
    let width = RANGE.end - RANGE.start;
    let start = u16::try_from(hash(folder) % u64::from(width)).unwrap_or(0);
    (0..width)
        .map(|step| RANGE.start + (start + step) % width)
        .filter(|port| !taken.contains(port))
        .find_map(Reserved::take)
        .ok_or(Error::NoPort { from: RANGE.start, to: RANGE.end - 1 })
}

/// Need not be the same in each build of Wringer: the manifest keeps the port.
fn hash(folder: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    folder.hash(&mut hasher);
    hasher.finish()
}

/// # Errors
/// [`Error::PortInUse`]: a program listens there, or another server is being started with this port. [`Error::PortOfRoot`].
pub(crate) fn require(port: u16) -> Result<Reserved, Error> {
    let deadline = Instant::now() + LOOK_LIMIT;
    loop {
        match reservation(port) {
            Some(name) => {
                return match bind(port) {
                    Ok(_) => Ok(Reserved { port, _name: name }),
                    Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(Error::PortOfRoot { port }),
                    Err(_) => Err(Error::PortInUse { port }),
                };
            }
            // The port is not tested by a bind: the server for which it is reserved may be about to bind it.
            None if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(10)),
            None => return Err(Error::PortInUse { port }),
        }
    }
}

pub(crate) fn is_free(port: u16) -> bool {
    bind(port).is_ok()
}

fn bind(port: u16) -> std::io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_or_remembered_is_not_chosen() {
        let first = choose(Path::new("/home/pears"), &BTreeSet::new()).expect("a port").port;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, first)).expect("binds");
        assert!(matches!(require(first), Err(Error::PortInUse { port }) if port == first));
        let second = choose(Path::new("/home/pears"), &BTreeSet::new()).expect("another port").port;
        assert_ne!(first, second);
        let third = choose(Path::new("/home/pears"), &BTreeSet::from([second])).expect("another port").port;
        assert!(third != first && third != second);
        drop(listener);
    }

    #[test]
    fn a_reserved_port_is_nobody_elses_until_it_is_given_back() {
        let first = choose(Path::new("/home/quinces"), &BTreeSet::new()).expect("a port");
        let second = choose(Path::new("/home/quinces"), &BTreeSet::new()).expect("another port");
        assert_ne!(first.port, second.port);
        assert!(matches!(require(first.port), Err(Error::PortInUse { .. })));
        let port = first.port;
        drop(first);
        // a program that another test has just forked holds the reservation as well, until it is executed
        let is_free_again = || require(port).is_ok_and(|again| again.port == port);
        assert!(testkit::wait_until(Duration::from_secs(30), is_free_again), "it is not free again");
    }
}
