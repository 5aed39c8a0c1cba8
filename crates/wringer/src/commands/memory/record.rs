// SPDX-License-Identifier: Apache-2.0
//! `wringer memory record`: `wringer observe` with inventories of the server's memory.

use crate::commands::connection::Connection;
use crate::commands::observe::{self, Pace, To, check_inventories, seconds};
use crate::exit::Outcome;
use host::places::Places;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Leaves recording.sqlite (raw), result.json and report.html in the folder that it prints, as `wringer observe --memory` does. Beside the inventories, host, \
    process and the server's counters are read every second. Taking an inventory holds the server for milliseconds, sends it questions, and takes CPU time; where the server's \
    part or the CPU time is more than 1 % of the interval, the interval becomes longer, and the recording says so. Of many processes each inventory reads those with the most memory of their own, and \
    the others in turn; the first inventory may hold the server as long as `memory account` may.\n\n\
    Examples:\n  \
      wringer memory record --sandbox shop --time 10m --to out\n  \
      # record until Ctrl-C\n  \
      sudo wringer memory record --pid \"$(pidof mariadbd)\" --interval 1m --to out\n  \
      # show where the memory was after 5 minutes\n  \
      wringer memory account --from out --at 5m\n  \
      # show what changed in the first 10 minutes\n  \
      wringer memory account --from out --since first --at 10m\n\n\
    Exit codes: 0 done, also by Ctrl-C or SIGTERM; 2 usage; 3 no such process, no connection, or the folder is in the way; 4 the server's process \
    ended meanwhile, or the recording could not be written: what was seen until then is in it."
)]
pub(super) struct Args {
    /// The server's process [default: the one that listens at the socket, or the sandbox's]
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// Time from one inventory to the next, 100ms at least
    #[arg(long, default_value = "10s", value_parser = seconds, value_name = "TIME")]
    interval: Duration,
    #[command(flatten)]
    to: To,
    #[command(flatten)]
    connection: Connection,
}

/// The time between two readings of host and counters, the same as the default of `wringer observe`.
const INTERVAL: Duration = Duration::from_secs(1);

pub(super) fn main(args: &Args) -> Outcome {
    check_inventories(args.interval)?;
    let places = Places::from_environment();
    let pace = Pace { interval: INTERVAL, memory: Some(args.interval), stalls: None, time: args.to.time() };
    let attach = || {
        let (attached, unasked) = args.connection.attach_or_process(args.pid, &places)?;
        let refused = unasked.map(|it| format!("{}: {}", it.what, it.why));
        Ok((attached, refused.into_iter().collect()))
    };
    observe::record(attach, pace, &places, &args.to)
}
