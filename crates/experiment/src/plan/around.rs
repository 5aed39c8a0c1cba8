// SPDX-License-Identifier: Apache-2.0
//! The steps of an arm before and after its load: reads of the data, variables that are set while the server runs, a rest.

use super::estimate;
use super::steps::List;
use crate::model::Arm;

impl List<'_> {
    pub(super) fn probe(&mut self, arm: &Arm) {
        let Some(reads) = arm.load.probe else { return };
        let within = if arm.squeeze.server_ram.is_some() { ", within the server's RAM" } else { "" };
        let text = format!(
            "read the largest data file{within}: {reads} random reads and scans, cold and warm, past the page cache and through it"
        );
        self.add("load", estimate::probe_seconds(self.experiment, reads), text)
            .does("the file's pages leave the page cache", "none needed: they come back when they are read");
    }

    pub(super) fn live(&mut self, arm: &Arm) {
        for (name, value) in &arm.live {
            self.add("load", 0.1, format!("set {name} to {value} while the server runs; read it back"));
        }
        if !arm.load.pause.is_zero() {
            self.add(
                "load",
                estimate::seconds(arm.load.pause),
                format!("wait for {}, with nothing to do", arm.load.pause),
            );
        }
    }

    pub(super) fn idle(&mut self, arm: &Arm) {
        let idle = arm.load.idle;
        if !idle.is_zero() {
            let text = format!("after the load, with its connections closed: look at the server for {idle}");
            self.add("load", estimate::seconds(idle), text);
        }
    }
}
