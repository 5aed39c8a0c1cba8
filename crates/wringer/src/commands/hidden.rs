// SPDX-License-Identifier: Apache-2.0
//! RAM that runs hide from the whole host: which runs hide it, also after all their processes were killed, and how much.

use host::change::PoolSize;
use host::change::memory::{Blocks, block_bytes, is_online};
use host::places::Places;
use host::process::Identity;
use run::{FoundRun, Lost, Role, RunId, Step, StepState, Thing, Trace};
use serde::Serialize;
use squeeze::Meminfo;
use squeeze::ram::{balloon, holder};
use std::path::PathBuf;
use units::Bytes;

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
            let grown = step.observed.as_deref().and_then(PoolSize::parse).map_or(*after, |grown| grown.pages);
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
        _ => step.processes.iter().filter(|it| it.is_alive()).map(of_process).sum(),
    }
}

fn of_process(process: &Identity) -> u64 {
    let command = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
    if command.split(|byte| *byte == 0).any(|word| word == b"balloon") {
        balloon::resident_bytes(process.pid)
    } else {
        holder::reserved_bytes(process.pid)
    }
}

/// RAM that a run of another home, or of another user, hides.
#[derive(Debug, Serialize)]
pub struct ByOthers {
    pub run: RunId,
    /// Its `WRINGER_HOME`, if that is known.
    pub home: Option<PathBuf>,
    pub hidden_bytes: u64,
}

impl ByOthers {
    /// One line for the terminal.
    pub fn line(&self) -> String {
        let home = |home: &PathBuf| format!(": `WRINGER_HOME={} wringer ram status` tells more", home.display());
        let home = self.home.as_ref().map(home).unwrap_or_default();
        format!("{} hidden by run {}, which is not of this WRINGER_HOME{home}", Bytes(self.hidden_bytes), self.run)
    }
}

/// The runs among `lost` that belong to others and hide RAM.
pub fn by_others(places: &Places, lost: &[Lost], meminfo: &Meminfo) -> Vec<ByOthers> {
    let others = lost.iter().filter(|run| run.is_of_others());
    let hiding = others.filter_map(|run| {
        let hidden_bytes = of_other(places, run, meminfo)?;
        Some(ByOthers { run: run.id.clone(), home: run.home().map(Into::into), hidden_bytes })
    });
    hiding.collect()
}

/// By the run's journal; by its processes when this user may not read the journal. `None`: it hides nothing.
fn of_other(places: &Places, run: &Lost, meminfo: &Meminfo) -> Option<u64> {
    if let Some(found) = journal_of(places, run).filter(|found| !found.steps.is_empty()) {
        return hides(&found).then(|| bytes(&[&found], meminfo));
    }
    let holders: Vec<&Identity> = run.traces.iter().filter_map(holder_of).collect();
    (!holders.is_empty()).then(|| holders.into_iter().map(of_process).sum())
}

fn journal_of(places: &Places, run: &Lost) -> Option<FoundRun> {
    let theirs = Places { journal: run.journal.clone()?, ..places.clone() };
    run::find_runs(&theirs).ok()?.into_iter().find(|found| found.id == run.id)
}

/// Whether this is a process that holds hidden RAM.
pub fn is_holder(trace: &Trace) -> bool {
    holder_of(trace).is_some()
}

fn holder_of(trace: &Trace) -> Option<&Identity> {
    match &trace.thing {
        Thing::Process { identity, role: Some(role), .. } if role == "holder" || role == "balloon" => Some(identity),
        _ => None,
    }
}
