// SPDX-License-Identifier: Apache-2.0
//! One run of its own, with a stand-in for a server on its slow directory.

use super::WRINGER;
use super::orders::Member;
use super::server;
use super::standing::freezer::{Means, Still};
use super::standing::{PATIENCE, is_alive, json, process_of};
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};
use testkit::{Lab, Ran, wait_until};

/// How long they stand still, beside the program's limits.
pub(crate) struct Pace {
    limits: String,
    pub(crate) lease: Duration,
    pub(crate) short: Duration,
    pub(crate) long: Duration,
    /// Between two that go on.
    pub(crate) gap: Duration,
}

impl Pace {
    pub(crate) fn asked() -> Self {
        let full = std::env::var("WRINGER_STANDSTILL").is_ok_and(|word| word == "full");
        if full { Self::of("{}".into(), 60_000, 10) } else { Self::scaled() }
    }

    /// A tenth of what the program has: its looks as well. The lease is longer: what a busy machine adds to the shorter standstill is to stay within it.
    pub(crate) fn scaled() -> Self {
        Self::of(r#"{"lease_ms":9000,"layer_deadline_ms":3000,"look_ms":100}"#.into(), 9000, 1)
    }

    fn of(limits: String, lease_ms: u64, tenths: u64) -> Self {
        let tenth = |ms: u64| Duration::from_millis(ms * tenths);
        let lease = Duration::from_millis(lease_ms);
        // six looks of a watchdog, more than those after a jump
        Self { limits, lease, short: tenth(3600), long: tenth(12_000), gap: tenth(600) }
    }
}

pub(crate) struct Case {
    lab: Lab,
    /// In which they go on.
    order: Vec<Member>,
    means: Means,
    server: Child,
    pids: [u64; 4],
    run: PathBuf,
    still: Vec<Option<Still>>,
    /// Its supervisor was silent beyond its lease, while its watchdog ran.
    ended: bool,
    froze: Instant,
    /// From before it stood still until its supervisor went on.
    silent: Duration,
    acknowledged: u64,
}

const SYNC_US: u64 = 20_000;

impl Case {
    pub(crate) fn start(
        number: usize,
        order: Vec<Member>,
        means: Means,
        pace: &Pace,
        environment: &[(&str, &str)],
    ) -> Self {
        let lab = Lab::new(WRINGER);
        let data = lab.home().join("data");
        fs::create_dir(&data).unwrap();
        let asked = ["disk", "delay", data.to_str().unwrap(), "--sync", "20ms", "-o", "json"];
        let mut command = lab.command(asked);
        command.env("WRINGER_WATCHDOG", &pace.limits).envs(environment.iter().copied());
        let said = json(&Ran::of(&mut command).expect_code(0));
        let run = lab.home().join("journal").join(said["run"].as_str().unwrap());
        let server = server::start(lab.home());
        let layer = process_of(&lab, "slow layer");
        let watchdog = process_of(&lab, "watchdog");
        let pids = [layer, watchdog, said["pid"].as_u64().unwrap(), u64::from(server.id())];
        assert!(wait_until(PATIENCE, || server::acknowledged(lab.home()) > 2), "case {number}: the server works");
        let (froze, silent) = (Instant::now(), Duration::ZERO);
        Self { lab, order, means, server, pids, run, still: Vec::new(), ended: false, froze, silent, acknowledged: 0 }
    }

    pub(crate) fn name(&self) -> String {
        format!("{:?} by {:?}", self.order, self.means)
    }

    fn pid(&self, member: Member) -> u64 {
        self.pids[Member::ALL.iter().position(|it| *it == member).unwrap()]
    }

    /// The last to go on is the first to stand still.
    pub(crate) fn freeze(&mut self) {
        self.froze = Instant::now();
        let mut still: Vec<Option<Still>> =
            self.order.iter().rev().map(|member| Some(Still::make(self.pid(*member), self.means))).collect();
        still.reverse();
        self.still = still;
        self.acknowledged = server::acknowledged(self.lab.home());
    }

    pub(crate) fn thaw(&mut self, turn: usize) {
        if let Some(still) = self.still.get_mut(turn) {
            still.take();
        }
        if self.order.get(turn) == Some(&Member::Supervisor) {
            self.silent = self.froze.elapsed();
        }
    }

    fn is_watched(&self) -> bool {
        self.order.contains(&Member::Supervisor) && !self.order.contains(&Member::Watchdog)
    }

    /// Its watchdog runs and has to end it: its supervisor is silent beyond its lease.
    fn is_to_end(&self, stood: Duration, pace: &Pace) -> bool {
        stood > pace.lease && self.is_watched()
    }

    /// Its watchdog may end it: on a busy machine a shorter standstill became nearly as long as the lease, with the sign of life that was due when it began.
    fn may_end(&self, pace: &Pace) -> bool {
        self.is_watched() && self.silent + pace.lease / 6 > pace.lease
    }

    /// While it stands still: whoever has to notice that has noticed it.
    pub(crate) fn is_noticed(&self, stood: Duration, pace: &Pace) -> bool {
        !self.is_to_end(stood, pace) || self.reason().is_some()
    }

    /// The layer is dead, or will be when it goes on: the freezer of version 1 keeps it until then.
    #[cfg(feature = "failpoints")]
    pub(crate) fn layer_is_killed(&self) -> bool {
        let pid = self.pid(Member::Layer);
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let pending = status.lines().find_map(|line| line.strip_prefix("SigPnd:")).unwrap_or_default();
        let sigkill = 1_u64 << (libc::SIGKILL - 1);
        !is_alive(pid) || u64::from_str_radix(pending.trim(), 16).is_ok_and(|pending| pending & sigkill != 0)
    }

    /// After all of them have gone on.
    pub(crate) fn look(&mut self, stood: Duration, pace: &Pace) -> Result<(), String> {
        self.ended |= self.is_to_end(stood, pace);
        let home = self.lab.home().to_owned();
        // those that were asked for while it stood still are done by now
        let enough = self.acknowledged + 10;
        wait_until(PATIENCE, || server::acknowledged(&home) > enough || server::error(&home).is_some());
        if let Some(error) = server::error(&home) {
            return Err(format!("the server got an error: {error}"));
        }
        if server::acknowledged(&home) <= enough || self.server.try_wait().unwrap().is_some() {
            return Err("the server does not go on".into());
        }
        if !is_alive(self.pid(Member::Layer)) {
            return Err("the layer is gone".into());
        }
        let may_end = !self.ended && self.may_end(pace);
        println!("{}: silent {:?} of {:?}, may end: {may_end}", self.name(), self.silent, pace.lease);
        let as_told = || {
            let ended = self.ended || may_end && self.reason().is_some();
            ended == self.reason().is_some() && ended == (self.sync_us() == 0)
        };
        if !wait_until(PATIENCE, as_told) {
            return Err(format!("ended: {}, reason: {:?}, sync: {} us", self.ended, self.reason(), self.sync_us()));
        }
        self.ended |= may_end && self.reason().is_some();
        let others =
            [Member::Watchdog, Member::Supervisor].into_iter().find(|it| !self.ended && !is_alive(self.pid(*it)));
        others.map_or(Ok(()), |member| Err(format!("the {member:?} is gone")))
    }

    /// Why its watchdog ended it.
    fn reason(&self) -> Option<String> {
        let log = fs::read_to_string(self.lab.home().join("journal/watchdog.log")).unwrap_or_default();
        log.lines().find(|line| line.contains("no sign of life")).map(str::to_owned)
    }

    /// As the layer itself says.
    fn sync_us(&self) -> u64 {
        let mut stream = UnixStream::connect(self.run.join("slowfs.sock")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"{\"do\":\"get\"}\n").unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let sync_us = answer["delay"]["sync_us"].as_u64().unwrap();
        assert!(sync_us == 0 || sync_us == SYNC_US, "{line}");
        sync_us
    }

    /// The server ends in order; then its run is given back, and what it wrote is there.
    pub(crate) fn end(&mut self) -> Result<(), String> {
        fs::write(self.lab.home().join("stop"), "").unwrap();
        let ended = self.server.wait().unwrap();
        if !ended.success() {
            return Err(format!("{}: the server: {ended}", self.name()));
        }
        self.lab.try_undo_own().map_err(|why| format!("{}: {why}", self.name()))?;
        if server::acknowledged(self.lab.home()) == 0 || !server::is_all_there(self.lab.home()) {
            return Err(format!("{}: what was acknowledged is not there", self.name()));
        }
        Ok(())
    }

    /// After all others have been undone as well.
    pub(crate) fn expect_nothing_left(&mut self) -> Result<(), String> {
        let undone = self.lab.run(["undo"]);
        let is_nothing = undone.code == Some(0) && undone.stdout == "nothing to undo\n";
        if is_nothing { Ok(()) } else { Err(format!("{}: a second undo: {undone:?}", self.name())) }
    }

    /// Of a case that has shown what it was to show.
    pub(crate) fn give_up(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Drop for Case {
    /// Before the home is undone: whoever still stands still could not end.
    fn drop(&mut self) {
        self.still.clear();
        self.give_up();
    }
}
