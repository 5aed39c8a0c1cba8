// SPDX-License-Identifier: Apache-2.0
//! `wringer internal slowfs`: the slow layer over one directory.

use crate::exit::{Exit, Failure, Outcome};
use evidence::{Delay, DelayMode};
use slowfs::Error;
use slowfs::process::{Options, run};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The directory to slow down; it is mounted over
    #[arg(long)]
    directory: PathBuf,
    /// In a mount namespace of its own, so that only processes that enter it see the delay
    #[arg(long, conflicts_with = "public")]
    private: bool,
    /// In the mount namespace of this process, another layer
    #[arg(long, value_name = "PID", requires = "private")]
    beside: Option<u32>,
    /// In the host's own mount namespace; the caller has journaled the mount
    #[arg(long)]
    public: bool,
    /// The socket to be controlled by
    #[arg(long)]
    control: PathBuf,
    /// The run that this layer belongs to
    #[arg(long, env = "WRINGER_RUN", default_value = "none")]
    run: String,
    #[arg(long, default_value_t = Options::THREADS)]
    threads: usize,
    #[arg(long, default_value_t = 0)]
    read_us: u64,
    #[arg(long, default_value_t = 0)]
    write_us: u64,
    #[arg(long, default_value_t = 0)]
    sync_us: u64,
    /// The reply leaves at the asked time, instead of the asked time after the work is done
    #[arg(long)]
    total: bool,
    /// Every write reaches the directory at once
    #[arg(long)]
    no_writeback_cache: bool,
    /// Aligned requests too go through the page cache of the directory
    #[arg(long)]
    buffered: bool,
    /// Of the mount, in KiB; the kernel's default is 128
    #[arg(long)]
    read_ahead_kib: Option<u32>,
    /// Leave when every other process in the namespace is gone
    #[arg(long)]
    leave_when_alone: bool,
}

pub fn main(args: Args) -> Outcome {
    if !args.private && !args.public {
        return Err(Failure::message(Exit::Usage, "say --private or --public"));
    }
    let mode = if args.total { DelayMode::Total } else { DelayMode::Add };
    let options = Options {
        directory: args.directory,
        private: args.private,
        beside: args.beside,
        control: args.control,
        run_id: args.run,
        threads: args.threads,
        delay: Delay { read_us: args.read_us, write_us: args.write_us, sync_us: args.sync_us, mode, varies: false },
        writeback_cache: !args.no_writeback_cache,
        direct: !args.buffered,
        read_ahead_kib: args.read_ahead_kib,
        leave_when_alone: args.leave_when_alone,
    };
    run(&options).map_err(|error| match error {
        Error::Device { .. } | Error::Namespace { .. } | Error::Mount { .. } | Error::Directory { .. } => {
            Failure::new(Exit::Missing, error).hint("`wringer doctor` says what this machine lacks")
        }
        error => Failure::new(Exit::Failed, error),
    })
}
