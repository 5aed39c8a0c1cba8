// SPDX-License-Identifier: Apache-2.0
//! The memory and disk space that several servers need together, checked before the first of them starts.

use crate::space::require_space;
use crate::{Error, Flavour, Sandbox, ServerOption};
use units::Bytes;

/// The memory of a server at rest, without its pool: MySQL 9.7 with its performance schema takes the most, 400 MiB; the others take less.
const BESIDE_POOL_BYTES: u64 = 128 << 20;
const BESIDE_POOL_OF_MYSQL_BYTES: u64 = 400 << 20;
/// The bytes that the first start of one server writes: log files, undo, temporary tablespaces.
const DISK_BYTES: u64 = 64 << 20;

/// Makes the checks of [`Sandbox::check_before_start`] for each server; if there are several, also checks memory and disk for all of them. The pool
/// of a single server may be larger than RAM on purpose.
///
/// # Errors
/// The errors of [`Sandbox::check_before_start`]; [`Error::MemoryFull`], [`Error::DiskFull`]. Nothing was started.
pub fn check_before_start_of(sandboxes: &[Sandbox], extra_options: &[ServerOption]) -> Result<(), Error> {
    sandboxes.iter().try_for_each(Sandbox::check_before_start)?;
    let [first, _, ..] = sandboxes else { return Ok(()) };
    let count = sandboxes.len();
    require_space("starting these servers", &first.folder, DISK_BYTES * count as u64)?;
    let need_bytes = sandboxes.iter().map(|sandbox| memory_bytes(sandbox, extra_options)).sum();
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    match host::meminfo::bytes(&meminfo, "MemAvailable") {
        Some(available_bytes) if available_bytes < need_bytes => {
            Err(Error::MemoryFull { count, need_bytes, available_bytes })
        }
        _ => Ok(()),
    }
}

fn memory_bytes(sandbox: &Sandbox, extra_options: &[ServerOption]) -> u64 {
    let beside = match sandbox.flavour() {
        Flavour::Mysql | Flavour::Percona => BESIDE_POOL_OF_MYSQL_BYTES,
        Flavour::Mariadb | Flavour::Postgresql => BESIDE_POOL_BYTES,
    };
    pool_bytes(sandbox, extra_options) + beside
}

/// The size of the pool for this start.
pub(crate) fn pool_bytes(sandbox: &Sandbox, extra_options: &[ServerOption]) -> u64 {
    let flavour = sandbox.flavour();
    let options = extra_options.iter().rev().chain(sandbox.manifest.options.iter().rev());
    let asked = options.filter(|option| option.key() == flavour.pool_variable()).find_map(ServerOption::value);
    // PostgreSQL writes 256MB where the others write 256M
    let size = asked.and_then(|value| value.trim_end_matches(['B', 'b']).parse::<Bytes>().ok());
    size.map_or(flavour.pool_default_bytes(), |size| size.0)
}
