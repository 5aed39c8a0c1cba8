// SPDX-License-Identifier: Apache-2.0
//! Whether the kernel has killed for want of RAM meanwhile: in the server's own cgroup where it has one, else on this host.

use crate::squeezes::Squeezes;
use std::fs;
use std::path::PathBuf;

/// The kernel's counts at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kills {
    /// The server's cgroup and `oom_kill` in its `memory.events` (`memory.oom_control` on v1).
    own: Option<(PathBuf, u64)>,
    host: u64,
}

impl Kills {
    pub(crate) fn now(squeezes: &Squeezes) -> Self {
        Self { own: squeezes.oom_kills(), host: on_host() }
    }

    /// The host's count alone.
    pub(crate) fn on_host() -> Self {
        Self { own: None, host: on_host() }
    }

    /// Where the kernel has killed since `before`. A cgroup that was made since then began with no kills. Where the server has a cgroup, kills elsewhere on
    /// the host do not count; when the whole host is out of RAM, the kernel counts a kill in the killed process's cgroup, too.
    pub(crate) fn since(&self, before: &Self) -> Killed {
        let own = match (&self.own, &before.own) {
            (Some((folder, now)), Some((same, then))) if folder == same => Some(now > then),
            (Some((_, now)), _) => Some(*now > 0),
            (None, _) => None,
        };
        match own {
            Some(true) => Killed::InOwnCgroup,
            None if self.host > before.host => Killed::OnHost,
            _ => Killed::Nobody,
        }
    }
}

/// Whom the kernel has killed for want of RAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Killed {
    Nobody,
    /// A process of the server: it alone is in this cgroup.
    InOwnCgroup,
    /// Somebody on the host: the server has no cgroup of its own that would tell more.
    OnHost,
}

/// Processes that the kernel has killed on this host for want of RAM, in a cgroup or in all of it.
fn on_host() -> u64 {
    let text = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_elsewhere_is_none_of_a_server_with_a_cgroup() {
        let of = |own: Option<(&str, u64)>, host| Kills { own: own.map(|(at, count)| (at.into(), count)), host };
        let (nobody, own, host) = (Killed::Nobody, Killed::InOwnCgroup, Killed::OnHost);
        assert_eq!(of(Some(("a", 0)), 9).since(&of(Some(("a", 0)), 4)), nobody, "somebody else's");
        assert_eq!(of(Some(("a", 2)), 9).since(&of(Some(("a", 1)), 8)), own);
        assert_eq!(of(Some(("b", 0)), 9).since(&of(Some(("a", 5)), 4)), nobody);
        assert_eq!(of(Some(("b", 1)), 9).since(&of(Some(("a", 5)), 8)), own, "a new cgroup began with none");
        assert_eq!(of(None, 5).since(&of(None, 4)), host, "without a cgroup the host's count is all there is");
        assert_eq!(of(None, 4).since(&of(None, 4)), nobody);
    }
}
