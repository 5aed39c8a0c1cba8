// SPDX-License-Identifier: Apache-2.0
//! Who listens at a TCP address of this host.

use crate::process;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs as _, UdpSocket};

/// The server that listens at this port of an address of this host. `None`: the address is another host's; or a proxy listens there, or a process that this
/// user may not see.
pub(crate) fn server_at(host: &str, port: u16) -> Option<u32> {
    let addresses = (host, port).to_socket_addrs().ok()?;
    let local: Vec<IpAddr> = addresses.map(|it| it.ip()).filter(|it| is_local(*it)).collect();
    let listening = ["tcp", "tcp6"].into_iter().flat_map(table_of);
    let reached = listening.filter(|it| it.port == port && local.iter().any(|address| it.is_reached_by(*address)));
    let links: Vec<String> = reached.map(|it| format!("socket:[{}]", it.inode)).collect();
    if links.is_empty() {
        return None;
    }
    let servers = host::process::servers().into_iter().map(|server| server.pid);
    servers.filter(|pid| process::is_server(*pid)).find(|pid| holds_one(*pid, &links))
}

/// Only an own address can be taken by a socket (bind(2)); nothing is sent.
fn is_local(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
}

fn holds_one(pid: u32, links: &[String]) -> bool {
    let held = host::process::links(pid).unwrap_or_default();
    held.iter().any(|(_, target)| links.iter().any(|link| target.as_os_str() == link.as_str()))
}

/// A socket that listens.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Listening {
    address: IpAddr,
    port: u16,
    inode: u64,
}

impl Listening {
    /// `::` takes connections to addresses of both kinds (ipv6(7)).
    fn is_reached_by(&self, address: IpAddr) -> bool {
        self.address.to_canonical() == address.to_canonical()
            || (self.address.is_unspecified() && (self.address.is_ipv6() || address.is_ipv4()))
    }
}

fn table_of(name: &str) -> Vec<Listening> {
    let text = fs::read_to_string(format!("/proc/self/net/{name}")).unwrap_or_default();
    text.lines().filter_map(listening).collect()
}

/// A line of /proc/net/tcp or tcp6 (proc_net(5)) with the state LISTEN.
fn listening(line: &str) -> Option<Listening> {
    const LISTEN: &str = "0A";
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let (address, port) = words.get(1)?.split_once(':')?;
    (*words.get(3)? == LISTEN).then_some(())?;
    let (port, inode) = (u16::from_str_radix(port, 16).ok()?, words.get(9)?.parse().ok()?);
    Some(Listening { address: address_of(address)?, port, inode })
}

/// Words of four bytes, each in the order of the machine.
fn address_of(text: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(text.get(at * 8..at * 8 + 8)?, 16).ok()?.to_ne_bytes());
    if text.len() == 8 {
        return Some(Ipv4Addr::from(word(0)?).into());
    }
    let words = [word(0)?, word(1)?, word(2)?, word(3)?];
    let bytes: [u8; 16] = words.concat().try_into().ok()?;
    Some(Ipv6Addr::from(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn lines_of_the_kernel() {
        let of = |line: &str| listening(line).map(|it| (it.address.to_string(), it.port, it.inode));
        let line =
            "   1: 0100007F:0CEA 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 100";
        assert_eq!(of(line), Some(("127.0.0.1".into(), 3306, 4711)));
        let line = "   0: 00000000000000000000000001000000:1538 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 9 1";
        assert_eq!(of(line), Some(("::1".into(), 5432, 9)));
        for other in [
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
            "   1: 0100007F:0CEA 0100007F:A001 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 100",
            "",
        ] {
            assert_eq!(of(other), None);
        }
    }

    #[test]
    fn addresses_that_reach_a_socket() {
        let reaches = |bound: &str, address: &str| {
            let bound = Listening { address: bound.parse().unwrap(), port: 1, inode: 1 };
            bound.is_reached_by(address.parse().unwrap())
        };
        assert!(reaches("127.0.0.1", "127.0.0.1") && reaches("0.0.0.0", "10.0.0.1") && reaches("::", "10.0.0.1"));
        assert!(reaches("::ffff:127.0.0.1", "127.0.0.1"));
        assert!(!reaches("127.0.0.1", "127.0.0.2") && !reaches("0.0.0.0", "::1"));
    }

    /// Who listens there is this test, which is no server.
    #[test]
    fn a_listener_that_is_no_server_proves_nothing() {
        let own = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = own.local_addr().unwrap().port();
        let it = table_of("tcp").into_iter().find(|it| it.port == port).unwrap();
        assert!(holds_one(std::process::id(), &[format!("socket:[{}]", it.inode)]));
        assert_eq!(server_at("127.0.0.1", port), None);
        // a documentation address (RFC 5737) is nobody's
        assert!(!is_local("192.0.2.1".parse().unwrap()) && is_local("127.0.0.9".parse().unwrap()));
    }
}
