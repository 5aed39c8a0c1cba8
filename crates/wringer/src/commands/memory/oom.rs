// SPDX-License-Identifier: Apache-2.0
//! `wringer memory oom`: which processes the kernel would kill, in which order.

use super::{Looked, Wanted};
use crate::exit::Outcome;
use crate::terminal;
use ledger::{Advice, Arena, Kill, Oom, Victim};
use std::fmt::Write as _;
use units::Bytes;

/// The most entries of each list that the text shows; JSON has all.
const SHOWN: usize = 10;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The kernel compares resident memory (shared pages in full, not Pss), swap and page tables, and adds, for each point of \
    oom_score_adj, a thousandth of RAM and swap together (in a memory cgroup: of its limit). Memory in huge pages does not count. `predicted` is computed here from that rule; `kernel says` is /proc/PID/oom_score. The realistic peak \
    is that of `memory worst-case`.\n\n\
    Examples:\n  \
      # the processes of this host, without a server\n  \
      wringer memory oom\n  \
      wringer memory oom --sandbox shop\n  \
      # a server without an account for you: its process is enough\n  \
      sudo wringer memory oom --pid \"$(pidof mysqld)\"\n  \
      # the process that would die first on this host\n  \
      wringer memory oom -o json | jq '.host.victims[0]'\n  \
      # the same answer from a bundle of another machine\n  \
      wringer memory oom --from shop.tar.gz\n\n\
    More: docs/memory.md, or `wringer doc memory`."
)]
pub(super) struct Args {
    #[command(flatten)]
    looked: Looked,
}

pub(super) fn main(args: &Args) -> Outcome {
    let read = args.looked.read_or_host(Wanted { candidates: true, limits: true })?;
    let oom = ledger::oom(&read.inventory);
    match args.looked.output {
        terminal::Output::Json => terminal::json(&oom),
        terminal::Output::Text => terminal::data(text(&read.of, &oom).trim_end()),
    }
    Ok(())
}

fn text(of: &str, oom: &Oom) -> String {
    let mut text = format!("{of}\n\n");
    arena(&mut text, "on the host", &oom.host);
    if let Some(cgroup) = &oom.cgroup {
        text.push('\n');
        arena(&mut text, "in the server's memory cgroup", cgroup);
    }
    if oom.host.victims.iter().any(|victim| victim.is_server) {
        text.push_str("\n* a process of the server\n");
    }
    advice(&mut text, &oom.advice);
    last_kill(&mut text, oom.last_kill.as_ref());
    super::missing(&mut text, &oom.missing);
    text
}

fn last_kill(text: &mut String, kill: Option<&Kill>) {
    let Some(kill) = kill else { return };
    let when = host::clock::rfc3339(kill.at_unix_us / 1_000_000);
    let place = match (kill.ran_out.as_deref(), &kill.cgroup) {
        (Some("cgroup"), Some(cgroup)) => format!("cgroup {cgroup} was full"),
        (Some("host"), _) => "the host was out of memory".to_owned(),
        (Some(other), _) => other.to_owned(),
        (None, _) => "the kernel does not say where memory ran out".to_owned(),
    };
    let _ =
        writeln!(text, "\nthe last kill in the kernel's log: process {} ({}), {when}; {place}", kill.pid, kill.command);
    let parts = [
        ("anonymous", kill.anon_rss_bytes),
        ("of files", kill.file_rss_bytes),
        ("shared", kill.shmem_rss_bytes),
        ("page tables", kill.page_tables_bytes),
    ];
    let parts =
        parts.into_iter().filter_map(|(name, bytes)| Some(format!("{name} {}", Bytes(bytes?)))).collect::<Vec<_>>();
    let adjusted = kill.oom_score_adj.map_or_else(String::new, |adj| format!("; oom_score_adj {adj}"));
    let _ = writeln!(text, "  it had {}{adjusted}", parts.join(", "));
    if let Some(group) = &kill.killed_whole {
        let _ = writeln!(text, "  with it all processes of the cgroup {group} were killed (memory.oom.group)");
    }
}

fn arena(text: &mut String, place: &str, arena: &Arena) {
    let total = Bytes(arena.total_bytes);
    let left = match arena.headroom_bytes {
        Some(bytes) => format!("{} ({})", headroom(bytes), arena.headroom_source),
        None => "how much is left is not known".to_owned(),
    };
    let _ = writeln!(text, "{place}: {total} in all, {left}");
    if let Some(bytes) = arena.headroom_at_peak_bytes {
        let _ = writeln!(text, "  when the server is at its realistic peak: {}", headroom(bytes));
    }
    let _ = writeln!(
        text,
        "{:>10} {:<18} {:>9} {:>11} {:>5} {:>11} {:>11} {:>11}",
        "pid", "command", "predicted", "kernel says", "adj", "Rss", "swap", "page tables"
    );
    for victim in arena.victims.iter().take(SHOWN) {
        row(text, victim);
    }
    if let Some((first, group)) = arena.victims.iter().find_map(|it| Some((it, it.killed_with.as_ref()?))) {
        let all = arena.victims.iter().filter(|it| it.killed_with.as_ref() == Some(group)).count();
        let _ = writeln!(
            text,
            "  memory.oom.group is 1 in {group}: when {} or another of its processes is chosen, the kernel kills all {all} of them",
            first.pid
        );
    }
    let more = arena.victims.len().saturating_sub(SHOWN);
    if more > 0 {
        let _ = writeln!(text, "  and {more} more (-o json)");
    }
}

fn headroom(bytes: i64) -> String {
    let size = Bytes(bytes.unsigned_abs());
    if bytes >= 0 { format!("{size} left") } else { format!("{size} more promised than there is") }
}

fn row(text: &mut String, victim: &Victim) {
    let kernel = victim.oom_score.map_or_else(|| "not told".to_owned(), |score| score.to_string());
    let mark = if victim.is_server { "*" } else { " " };
    let bytes = |bytes: u64| Bytes(bytes).to_string();
    let mut notes = String::new();
    if victim.badness_pages.is_none() {
        notes.push_str("  never");
    }
    if !victim.tied_with.is_empty() {
        let pids: Vec<String> = victim.tied_with.iter().take(3).map(ToString::to_string).collect();
        let _ = write!(notes, "  the same as {}: the youngest goes first", pids.join(", "));
    }
    let _ = writeln!(
        text,
        "{mark}{:>9} {:<18} {:>9} {kernel:>11} {:>5} {:>11} {:>11} {:>11}{notes}",
        victim.pid,
        victim.command,
        victim.oom_score_predicted,
        victim.oom_score_adj,
        bytes(victim.rss_bytes),
        bytes(victim.swap_bytes),
        bytes(victim.page_tables_bytes),
    );
}

fn advice(text: &mut String, advice: &[Advice]) {
    if advice.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nwhat to change");
    for one in advice {
        let now = one.now.as_deref().unwrap_or("not set");
        let _ = writeln!(text, "  {} (now {now}): {}\n    {}", one.setting, one.wanted, one.why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headroom_now_and_at_the_realistic_peak() {
        let of = |headroom_at_peak_bytes| {
            let headroom_source = "MemAvailable".to_owned();
            let arena = Arena {
                total_bytes: 8 << 30,
                headroom_bytes: Some(2 << 30),
                headroom_source,
                headroom_at_peak_bytes,
                ..Arena::default()
            };
            text("a server", &Oom { host: arena, ..Oom::default() })
        };
        assert!(
            of(None).contains("on the host: 8 GiB in all, 2 GiB left (MemAvailable)\n")
                && !of(None).contains("realistic")
        );
        assert!(of(Some(1 << 30)).contains("\n  when the server is at its realistic peak: 1 GiB left\n"));
        assert!(of(Some(-(1 << 30))).contains("realistic peak: 1 GiB more promised than there is\n"));
    }
}
