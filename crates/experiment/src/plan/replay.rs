// SPDX-License-Identifier: Apache-2.0
//! The steps for an arm whose load is a log, and for data that a program fills.

use super::steps::List;
use crate::replayed::Replay;

impl List<'_> {
    /// `beside`: the data that are sampled during the replay.
    pub(super) fn replay(&mut self, replay: &Replay, beside: &str) {
        let log_seconds = self.host.log_seconds.get(&replay.log).copied();
        let what = if replay.writes { "writes, too" } else { "only what provably reads" };
        let length = log_seconds.map_or_else(String::new, |seconds| format!(", a log of {seconds:.1} s"));
        let text = format!("replay {}{length}, {}: {what}; {beside}", replay.log, replay.speed);
        self.add("load", replay.seconds(log_seconds.unwrap_or_default()), text);
    }

    pub(super) fn fill_by_command(&mut self) {
        let command = &self.experiment.fill.command;
        let Some(program) = command.first() else { return };
        let text = format!("run {program} to fill the server; how long it takes and how much it fills is not known");
        self.add("fill", 0.0, text).does("a process, command", "it ends with the run; its data go with the sandbox");
    }
}
