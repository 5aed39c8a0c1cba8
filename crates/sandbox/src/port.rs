// SPDX-License-Identifier: Apache-2.0
//! Ports on 127.0.0.1: chosen once by trying, remembered in the manifest, tried again before each start.

use crate::Error;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

/// Below the range that Linux gives to outgoing connections (`net.ipv4.ip_local_port_range`, 32768 by default), so that none
/// of those takes the port between two starts.
const RANGE: std::ops::Range<u16> = 21_000..31_000;

/// A free port that no other sandbox remembers. `folder` spreads the sandboxes over the range, also those of other users and
/// homes, whose manifests are not seen here.
pub(crate) fn choose(folder: &Path, taken: &BTreeSet<u16>) -> Result<u16, Error> {
    let width = RANGE.end - RANGE.start;
    let start = u16::try_from(hash(folder) % u64::from(width)).unwrap_or(0);
    (0..width)
        .map(|step| RANGE.start + (start + step) % width)
        .find(|port| !taken.contains(port) && is_free(*port))
        .ok_or(Error::NoPort { from: RANGE.start, to: RANGE.end - 1 })
}

/// FNV-1a, 64 bits.
fn hash(folder: &Path) -> u64 {
    let bytes = folder.as_os_str().as_encoded_bytes();
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

pub(crate) fn require_free(port: u16) -> Result<(), Error> {
    if is_free(port) { Ok(()) } else { Err(Error::PortInUse { port }) }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_or_remembered_is_not_chosen() {
        let first = choose(Path::new("/home/pears"), &BTreeSet::new()).expect("a port");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, first)).expect("binds");
        assert!(matches!(require_free(first), Err(Error::PortInUse { port }) if port == first));
        let second = choose(Path::new("/home/pears"), &BTreeSet::new()).expect("another port");
        assert_ne!(first, second);
        let third = choose(Path::new("/home/pears"), &BTreeSet::from([second])).expect("another port");
        assert!(third != first && third != second);
        drop(listener);
    }
}
