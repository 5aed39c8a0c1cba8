// SPDX-License-Identifier: Apache-2.0
//! The flags that describe a disk, and the files that they name.

use crate::exit::{Exit, Failure};
use crate::input;
use clap::ValueEnum;
use diskmodel::{Bin, Counts, DiskRequest, LimitSpec, Model, OperationSpec, ProfileSpec, SpecError, Stalls};
use evidence::DelayMode;
use explain::histograms::{self, Named};
use std::path::Path;

/// A disk in words; an experiment's `squeeze.disk` has the same words.
#[derive(Debug, Clone, clap::Args)]
pub struct DiskFlags {
    /// A disk by its name, with its size or other properties behind the name: gp3, gp2:100G,credits=0 (`wringer disk profiles`)
    #[arg(long, value_name = "NAME")]
    profile: Option<ProfileSpec>,
    /// The delay of each read that is not served from the page cache: a time, or a distribution (below)
    #[arg(long, value_name = "TIME")]
    read: Option<OperationSpec>,
    /// The delay of each write
    #[arg(long, value_name = "TIME")]
    write: Option<OperationSpec>,
    /// The delay of each fsync and fdatasync
    #[arg(long, value_name = "TIME")]
    sync: Option<OperationSpec>,
    /// add: each time is added to the disk's own time, as device-mapper does; total: each time is the time of the whole operation [default: total
    /// with --profile, else add]
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// Reads and writes a second: 3000, or with burst credits 300,burst=3000,capacity=5400000,credits=0
    #[arg(long, value_name = "RATE", value_parser = iops)]
    iops: Option<LimitSpec>,
    /// Bytes a second, read and written: 125M; bursts as with --iops
    #[arg(long, value_name = "RATE", value_parser = bandwidth)]
    bandwidth: Option<LimitSpec>,
    /// How many requests the disk works on at once; the others queue. 1 is a single head
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    depth: Option<u32>,
    /// Episodes in which everything is slower: every=60s,lasting=2s,factor=50
    #[arg(long, value_name = "WORDS")]
    stalls: Option<Stalls>,
    /// The seed of the random times: the same seed gives the same times in the same order
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// The text for `after_help`.
pub const DISTRIBUTIONS_HELP: &str = "Times are in ns, us, ms, s. A distribution instead of a time:\n  \
      normal:10ms,2ms                       mean and standard deviation\n  \
      lognormal:p50=1ms,p99=10ms            median and 99th percentile\n  \
      quantiles:p50=0.5ms,p99=2ms,p99.9=9ms any percentiles, ascending\n  \
      tail:0.2ms,1/1000:80ms                one in 1000 takes 80 ms\n  \
      histogram:disk.json                   as measured: `wringer probe read PATH -o json`, fio's json+\n  \
      5ms +4us/KiB                          behind any of them: so much more for each KiB above 4 KiB";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    Add,
    Total,
}

fn iops(text: &str) -> Result<LimitSpec, SpecError> {
    LimitSpec::parse(text, Counts::Operations)
}

fn bandwidth(text: &str) -> Result<LimitSpec, SpecError> {
    LimitSpec::parse(text, Counts::Bytes)
}

impl DiskFlags {
    /// Nothing makes the disk slower: a mode or a seed alone does not.
    pub fn is_nothing(&self) -> bool {
        let times = self.read.is_none() && self.write.is_none() && self.sync.is_none() && self.stalls.is_none();
        let limits = self.iops.is_none() && self.bandwidth.is_none() && self.depth.is_none();
        self.profile.is_none() && times && limits
    }

    pub fn model(&self) -> Result<Model, Failure> {
        model(&DiskRequest {
            profile: self.profile.clone(),
            read: self.read.clone(),
            write: self.write.clone(),
            sync: self.sync.clone(),
            mode: self.mode.map(|mode| if mode == Mode::Total { DelayMode::Total } else { DelayMode::Add }),
            iops: self.iops.clone(),
            bandwidth: self.bandwidth.clone(),
            depth: self.depth,
            stalls: self.stalls,
            seed: self.seed,
        })
    }
}

/// Makes the model; reads the histograms that it names.
///
/// # Errors
/// A file has no histogram: exit code 2, as for any other wrong argument.
pub fn model(asked: &DiskRequest) -> Result<Model, Failure> {
    asked.model(&mut read_bins).map_err(|error| Failure::message(Exit::Usage, error.message).hint(error.hint))
}

pub fn read_bins(file: &str) -> Result<Vec<Bin>, String> {
    let text = input::read(Path::new(file)).map_err(|error| error.root_cause().to_string())?;
    let found = histograms::read(&text).map_err(|error| error.to_string())?;
    let chosen = choose(&found)?;
    Ok(chosen.bins.iter().map(|bin| Bin { low_us: bin.low_us, high_us: bin.high_us, count: bin.count }).collect())
}

/// The only histogram of a file; of several histograms of fio, the completion latencies of reads.
fn choose(found: &[Named]) -> Result<&Named, String> {
    let of_reads = || {
        let mut of_reads = found.iter().filter(|named| named.name.ends_with(".read.clat_ns"));
        of_reads.next().filter(|_| of_reads.next().is_none())
    };
    match found {
        [one] => Ok(one),
        several => of_reads().ok_or_else(|| {
            let names: Vec<&str> = several.iter().map(|named| named.name.as_str()).collect();
            format!("it holds {} histograms, and which is meant cannot be said: {}", names.len(), names.join(", "))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Named {
        Named { name: name.into(), bins: Vec::new(), delay_us: None }
    }

    #[test]
    fn fio_means_its_reads_and_doubt_is_an_error() {
        let fio = ["jobs[0].read.slat_ns", "jobs[0].read.clat_ns", "jobs[0].write.clat_ns"].map(named);
        assert_eq!(choose(&fio).map(|named| named.name.as_str()), Ok("jobs[0].read.clat_ns"));
        assert_eq!(choose(&fio[..1]).map(|named| named.name.as_str()), Ok("jobs[0].read.slat_ns"));
        let two = ["jobs[0].read.clat_ns", "jobs[1].read.clat_ns"].map(named);
        assert!(choose(&two).is_err_and(|why| why.contains("2 histograms") && why.contains("jobs[1]")));
    }

    #[test]
    fn a_file_that_cannot_be_read_says_why() {
        assert!(read_bins("/nowhere/histogram.json").is_err_and(|why| why.contains("No such file")));
        assert!(read_bins("/dev/zero").is_err_and(|why| why.contains("is a device")));
    }
}
