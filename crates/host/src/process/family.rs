// SPDX-License-Identifier: Apache-2.0
//! Finds the processes of a run by their place in the tree of processes, and tells which of them belong to another run: a server that
//! `wringer sandbox start` has started below another run's command does not belong to that command.

use super::identity::{Identity, Stat};
use super::proc_files::{is_open_for_writing, links};
use super::scan::children_by_parent;
use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The first bytes of the journal, which is in the same folder as a run's token.
const JOURNAL_MAGIC: &[u8] = b"WRINGERJ";

/// `leaders` and every live process below them, without the processes that belong to another run, and without the processes below these.
pub fn family(leaders: &[Identity]) -> BTreeSet<Identity> {
    let alive: Vec<u32> = leaders.iter().filter(|leader| leader.is_alive()).map(|leader| leader.pid).collect();
    let own: BTreeSet<PathBuf> = alive.iter().copied().chain([std::process::id()]).flat_map(tokens_of).collect();
    let children = children_by_parent();
    let (mut found, mut next): (BTreeSet<u32>, Vec<u32>) = (BTreeSet::new(), alive.clone());
    while let Some(pid) = next.pop() {
        if (alive.contains(&pid) || !is_elsewhere(pid, &own)) && found.insert(pid) {
            next.extend(children.get(&pid).into_iter().flatten());
        }
    }
    found.into_iter().filter_map(Identity::of).collect()
}

/// Whether this process belongs to another run than the one with `token`. If it belongs to no run, the next process above it that belongs to a run
/// decides.
pub fn is_of_another_run(pid: u32, token: &Path) -> bool {
    let mut next = Some(pid);
    while let Some(pid) = next.filter(|pid| *pid > 1) {
        let tokens = tokens_of(pid);
        if !tokens.is_empty() {
            return !tokens.contains(token);
        }
        next = Stat::read(pid).map(|stat| stat.parent);
    }
    false
}

/// Whether the process holds tokens of runs, and none of `own`.
fn is_elsewhere(pid: u32, own: &BTreeSet<PathBuf>) -> bool {
    let tokens = tokens_of(pid);
    !tokens.is_empty() && tokens.is_disjoint(own)
}

/// The tokens of runs that this process holds open. The token of a run that has ended does not count: its folder is gone.
fn tokens_of(pid: u32) -> BTreeSet<PathBuf> {
    let links = links(pid).unwrap_or_default().into_iter();
    links.filter(|(entry, link)| is_token(link) && is_open_for_writing(entry)).map(|(_, link)| link).collect()
}

fn is_token(link: &Path) -> bool {
    let named = |name: &Path| name.file_name().is_some_and(|it| it.to_string_lossy().starts_with("w-"));
    let Some(folder) = link.parent().filter(|folder| link.ends_with("token") && named(folder)) else { return false };
    let mut magic = [0; JOURNAL_MAGIC.len()];
    fs::File::open(folder.join("journal")).and_then(|mut journal| journal.read_exact(&mut magic)).is_ok()
        && magic == JOURNAL_MAGIC
}

/// The numbers of our own descriptors that are tokens of runs.
pub(super) fn own_tokens() -> Vec<i32> {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let tokens = entries.filter(|entry| fs::read_link(entry.path()).is_ok_and(|link| is_token(&link)));
    tokens.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}
