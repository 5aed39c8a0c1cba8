// SPDX-License-Identifier: Apache-2.0
//! RAM that runs hide from the whole host: which runs hide it, also after all their processes were killed, and how much.

use host::change::memory::{Blocks, block_bytes, is_online};
use host::process::Identity;
use run::{FoundRun, Role, Step, StepState};
use squeeze::Meminfo;
use squeeze::ram::balloon;

/// The runs that hide the host's RAM. Pool pages and memory blocks stay hidden when supervisor and watchdog are dead: such a run is hot.
pub fn hiding_ram(found: &[FoundRun]) -> Vec<&FoundRun> {
    found.iter().filter(|run| hides(run)).collect()
}

/// The runs that have made the pool of huge pages larger for a server: nothing is hidden by them.
pub fn huge_pages_for_servers(found: &[FoundRun]) -> Vec<&FoundRun> {
    let is_open = |run: &FoundRun| run.steps.iter().any(|step| step.is_open() && is_pool(&step.change));
    found.iter().filter(|run| is_for_servers(run) && (run.live || run.hot && is_open(run))).collect()
}

fn is_for_servers(run: &FoundRun) -> bool {
    run.resources.iter().any(|it| it == "huge-pages")
}

fn is_pool(change: &Step) -> bool {
    matches!(change, Step::HugePool { .. })
}

fn hides(run: &FoundRun) -> bool {
    if is_for_servers(run) {
        return false;
    }
    let begins = || run.live && run.resources.iter().any(|it| it == "host-ram");
    begins() || ((run.live || run.hot) && taken(run).next().is_some())
}

fn taken(run: &FoundRun) -> impl Iterator<Item = &StepState> {
    let takes = |change: &Step| {
        matches!(change, Step::Process { role: Role::Holder, .. } | Step::HugePool { .. } | Step::MemoryBlocks { .. })
    };
    run.steps.iter().filter(move |step| step.is_open() && takes(&step.change))
}

/// The RAM that these runs hide now: from their journals, as far as the host still shows it.
pub fn bytes(hiding: &[&FoundRun], meminfo: &Meminfo) -> u64 {
    hiding.iter().flat_map(|run| taken(run)).map(|step| of_step(step, meminfo)).sum()
}

fn of_step(step: &StepState, meminfo: &Meminfo) -> u64 {
    match &step.change {
        Step::HugePool { before, after, .. } => {
            let grown = step.observed.as_deref().and_then(|text| text.parse().ok()).unwrap_or(*after);
            let ours = grown.min(meminfo.huge_total_pages).saturating_sub(*before);
            // Free pages only: a page that a program has taken meanwhile is not hidden.
            ours.min(meminfo.huge_unclaimed_pages()) * meminfo.huge_page_bytes
        }
        Step::MemoryBlocks { kernel, movable, .. } => {
            let listed = [kernel, movable].into_iter().filter_map(|list| Blocks::parse(list)).flat_map(|it| it.0);
            let went = step.observed.as_deref().and_then(Blocks::parse);
            let ours = listed.filter(|block| went.as_ref().is_none_or(|went| went.0.contains(block)));
            ours.filter(|block| !is_online(*block)).count() as u64 * block_bytes().unwrap_or(0)
        }
        _ => step.processes.iter().filter(|it| it.is_alive()).map(|it| of_process(it, meminfo)).sum(),
    }
}

fn of_process(process: &Identity, meminfo: &Meminfo) -> u64 {
    let command = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
    if command.split(|byte| *byte == 0).any(|word| word == b"balloon") {
        balloon::resident_bytes(process.pid)
    } else {
        meminfo.huge_reserved_pages * meminfo.huge_page_bytes
    }
}
