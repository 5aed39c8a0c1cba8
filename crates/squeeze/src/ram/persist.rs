// SPDX-License-Identifier: Apache-2.0
//! Prints the settings that would hide RAM at each boot. Never writes them: a person must decide that.

use crate::ram::plan::Plan;
use serde::Serialize;
use units::Bytes;

/// One setting, and its undo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lasting {
    /// The file for the line, or the kernel's command line.
    pub place: String,
    pub line: String,
    pub note: String,
    pub undo: String,
}

/// The settings for huge pages of the default size, for pages of 1 GiB where possible, and for a memory limit at boot.
pub fn lines(plan: &Plan, pool_pages: u64) -> Vec<Lasting> {
    let boot = "the kernel's command line (GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub)";
    let gone = "remove it there, and boot again";
    let (hide, page) = (plan.hide_bytes, plan.before.huge_page_bytes);
    let mut lines = Vec::new();
    if let Some(pages) = hide.checked_div(page).filter(|pages| *pages > 0) {
        let pages = pages + pool_pages;
        lines.push(Lasting {
            place: "/etc/sysctl.d/90-hidden-ram.conf".into(),
            line: format!("vm.nr_hugepages = {pages}"),
            note: "set early in the boot; a part may still be missing: compare HugePages_Total in /proc/meminfo".into(),
            undo: format!("remove the file, and as root: sysctl vm.nr_hugepages={pool_pages}"),
        });
        lines.push(Lasting {
            place: boot.into(),
            line: format!("hugepagesz={} hugepages={pages}", size(page)),
            note: "before anything else takes memory, so all of it is there".into(),
            undo: gone.into(),
        });
    }
    if hide >= Bytes::GIB {
        lines.push(Lasting {
            place: boot.into(),
            line: format!("hugepagesz=1G hugepages={}", hide / Bytes::GIB),
            note: format!("pages of 1 GiB can be had at boot only; hides {}", Bytes(hide >> 30 << 30)),
            undo: gone.into(),
        });
    }
    lines.push(Lasting {
        place: boot.into(),
        line: format!("mem={}M", plan.before.total_bytes.saturating_sub(hide) >> 20),
        note:
            "MemTotal falls, too: with huge pages it does not; counted from address 0, so holes make it less than asked"
                .into(),
        undo: gone.into(),
    });
    lines
}

/// A size in the kernel's notation: 2M, 1G.
fn size(bytes: u64) -> String {
    if bytes.is_multiple_of(Bytes::GIB) { format!("{}G", bytes >> 30) } else { format!("{}M", bytes >> 20) }
}
