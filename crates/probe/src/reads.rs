// SPDX-License-Identifier: Apache-2.0
//! The reads that tell what a read of a file costs: random reads past the page cache and through it, when nothing of the file is cached and after it was
//! scanned. By this process, or by a process of its own, which a memory cgroup can limit: the kernel charges a page of the cache to the process that
//! first reads it.

use crate::Error;
use crate::evict::evict;
use crate::random::{self, Operation};
use crate::scan::{self, Scan};
use crate::target::Target;
use host::process::{self, report_not_ready, report_ready};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// The size of one read: the same as ioping's, and a page of the host.
const BLOCK_BYTES: usize = 4096;
/// The size of one read of a scan: the same as that of `cat` of coreutils.
const SCAN_BLOCK_BYTES: usize = 128 << 10;

/// The file, and what is read of it; the order that a process of its own gets.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    /// Its name may be any bytes.
    pub file: OsString,
    /// Random reads of each series.
    pub reads: u64,
    pub seed: u64,
}

impl process::Order for Order {
    const ROLE: &'static str = "reads";
    /// It is ready when all is read.
    type Ready = ReadResults;
}

/// One series of random reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Past the page cache (`O_DIRECT`).
    pub is_direct: bool,
    /// After the scans.
    pub is_warm: bool,
    pub count: u64,
    pub elapsed_us: u64,
    pub mean_us: f64,
    pub median_us: f64,
}

/// What was seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReadResults {
    pub size_bytes: u64,
    /// In the order in which they were made.
    pub series: Vec<Series>,
    /// Two rounds, the first one cold.
    pub scan: Scan,
}

/// Makes the reads. The file's pages are not in the page cache when this returns. `None`: `stop` has ended it.
///
/// # Errors
/// The file cannot be read, or is smaller than a block.
pub fn read(order: &Order, stop: &dyn Fn() -> bool) -> Result<Option<ReadResults>, Error> {
    let path = Path::new(&order.file);
    let cached = Target::open(path)?;
    let direct = Target::open(path)?;
    direct.go_direct()?;
    // reads past the page cache leave nothing in it for the next series
    evict(&cached.file, path)?;
    let mut series = Vec::new();
    for (target, is_direct) in [(&direct, true), (&cached, false)] {
        series.push(one_series(target, order.reads, order.seed, (is_direct, false))?);
        if stop() {
            return Ok(None);
        }
    }
    let options = scan::Options { rounds: 2, block_bytes: SCAN_BLOCK_BYTES, evict: true };
    let scan = scan::scan(&cached.file, path, &options, &mut |_| {})?;
    // other blocks than the cold series read
    let seed = order.seed.wrapping_add(1);
    for (target, is_direct) in [(&cached, false), (&direct, true)] {
        if stop() {
            return Ok(None);
        }
        series.push(one_series(target, order.reads, seed, (is_direct, true))?);
    }
    evict(&cached.file, path)?;
    Ok(Some(ReadResults { size_bytes: cached.size_bytes, series, scan }))
}

fn one_series(target: &Target, reads: u64, seed: u64, (is_direct, is_warm): (bool, bool)) -> Result<Series, Error> {
    let options = random::Options {
        operation: Operation::Read,
        block_bytes: BLOCK_BYTES,
        threads: 1,
        count: Some(reads),
        time: None,
        working_set_bytes: None,
        interval: Duration::ZERO,
        seed,
    };
    let measured = random::measure(target, &options)?;
    Ok(Series {
        is_direct,
        is_warm,
        count: measured.histogram.count(),
        elapsed_us: u64::try_from(measured.elapsed.as_micros()).unwrap_or(u64::MAX),
        mean_us: measured.histogram.mean_ns() / 1e3,
        median_us: measured.histogram.percentile_ns(50.0) as f64 / 1e3,
    })
}

/// The body of `wringer internal reads`: makes the reads, reports what was seen, and ends.
///
/// # Errors
/// Those of [`read`]; the report is the reason then.
pub fn serve(order: &Order) -> Result<(), Error> {
    if let Some(seen) = read(order, &|| false).inspect_err(|error| report_not_ready(&host::chain(error)))? {
        report_ready::<Order>(&seen);
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn each_series_is_there_once_and_a_stop_ends_them() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let file = folder.path().join("data");
        std::fs::write(&file, vec![7; 1 << 20]).unwrap();
        let order = Order { file: file.into(), reads: 16, seed: 3 };
        let seen = read(&order, &|| false).unwrap().unwrap();
        let made: Vec<(bool, bool, u64)> =
            seen.series.iter().map(|series| (series.is_direct, series.is_warm, series.count)).collect();
        assert_eq!(made, [(true, false, 16), (false, false, 16), (false, true, 16), (true, true, 16)]);
        assert_eq!((seen.size_bytes, seen.scan.rounds.len()), (1 << 20, 2));
        assert_eq!(read(&order, &|| true).unwrap(), None);
        let small = Order { file: folder.path().join("none").into(), ..order };
        assert!(read(&small, &|| false).is_err());
    }
}
