// SPDX-License-Identifier: Apache-2.0
//! Steps that give a server huge pages: free pages in the host's pool, and the host's setting of transparent huge pages.

use super::steps::List;
use crate::model::Arm;
use crate::server_start::Thp;

impl List<'_> {
    /// Makes the pool so large that the server's memory fits.
    pub(super) fn huge_pool(&mut self, arm: &Arm) {
        if !arm.start.wants_huge_pages() {
            return;
        }
        if !self.host.huge_pool {
            self.add("sandbox", 0.0, "use the huge pages that are free on this host");
            return;
        }
        let pool = self.experiment.pool(arm);
        self.add("sandbox", 2.0, "make room for the server's memory in the host's pool of huge pages").does(
            &format!("vm.nr_hugepages raised by {pool} and somewhat more: what the server needs"),
            "back to what it was when the server has stopped; when all of Wringer is killed, by `wringer undo` or a reboot",
        );
    }

    /// For a single process, transparent huge pages can only be turned off. To turn them on, all programs of the host get them.
    pub(super) fn host_thp(&mut self, arm: &Arm) {
        let Some((now, asked)) = self.other_thp(arm) else { return };
        self.add("sandbox", 0.1, format!("set the transparent huge pages of the host to {asked}")).does(
            &format!("/sys/kernel/mm/transparent_hugepage/enabled: {now} -> {asked}, for all programs that ask for memory meanwhile"),
            &format!("back to {now} when the server has stopped; when all of Wringer is killed, by `wringer undo` or a reboot"),
        );
    }

    /// The host's setting, and the different one that the arm asks for.
    pub(super) fn other_thp(&self, arm: &Arm) -> Option<(String, &'static str)> {
        let asked = arm.start.thp.filter(|asked| *asked != Thp::Never)?.name();
        let now = self.host.host_thp.clone()?;
        (now != asked).then_some((now, asked))
    }
}
