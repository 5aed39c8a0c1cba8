// SPDX-License-Identifier: Apache-2.0
//! What an earlier reading of a process tells about it now, in a recording or a watch: each reading reads some of many processes.
//!
//! Its anonymous memory that has come since then is its own. Of files and of shared memory it has the same part of what is resident as then. This
//! is wrong where pages have come to be shared, or are not shared any more: see [`uncertainty`].

use crate::parts::{Parts, ratio, times};
use crate::{Earlier, ProcessSeen, share};
use std::time::Duration;

impl Earlier {
    /// What a later inventory keeps of this process. `None`: its Pss was not read.
    pub fn of(process: &ProcessSeen) -> Option<Self> {
        let pss = Parts::read(process)?;
        let named = |name: &str, bytes| (name.to_owned(), bytes);
        let of_status = |name: &&str| Some(named(name, *process.status.get(*name)?));
        Some(Self {
            age_us: 0,
            pss: [named("Pss", pss.sum()), named("Pss_File", pss.file), named("Pss_Shmem", pss.shared)].into(),
            rss: ["VmRSS", "RssAnon", "RssFile", "RssShmem"].iter().filter_map(of_status).collect(),
            changed_by_all: 0,
        })
    }

    /// The same, so much later, when all processes have changed by so much.
    #[must_use]
    pub fn aged(&self, by: Duration, changed_by_all: u64) -> Self {
        Self { age_us: u64::try_from(by.as_micros()).unwrap_or(u64::MAX), changed_by_all, ..self.clone() }
    }

    /// How much less anonymous memory the process had then, by its status; 0: it had as much, or more.
    pub fn grown(&self, process: &ProcessSeen) -> u64 {
        Parts::of_status(process).anonymous.saturating_sub(Parts::by_status(&self.rss).anonymous)
    }
}

/// RssFile and RssShmem of a process.
pub fn shared(process: &ProcessSeen) -> u64 {
    let parts = Parts::of_status(process);
    parts.file + parts.shared
}

/// The proportional shares of a process now. `None`: there is no earlier reading of it.
pub(crate) fn parts(process: &ProcessSeen) -> Option<Parts> {
    let earlier = process.earlier.as_ref()?;
    let (then, rss) = (Parts::by_rollup(&earlier.pss)?, Parts::by_status(&earlier.rss));
    let now = Parts::of_status(process);
    let anonymous = if now.anonymous >= rss.anonymous {
        then.anonymous + (now.anonymous - rss.anonymous)
    } else {
        times(now.anonymous, ratio(then.anonymous, rss.anonymous))
    };
    Some(Parts {
        anonymous: anonymous.min(now.anonymous),
        file: times(now.file, ratio(then.file, rss.file)),
        shared: times(now.shared, ratio(then.shared, rss.shared)),
    })
}

/// How far the sum of [`parts`] of these processes may be off: by what each has given back, and has taken of files and shared memory, since it was
/// read; and by what all processes have taken or given back of it, because that changes the shares of those who have the same pages. A page that
/// one more process maps takes from the others as much as this process gets: about the share of a page; twice as much is counted.
pub(crate) fn uncertainty(carried: &[&ProcessSeen]) -> u64 {
    let (mut own, mut others, mut resident, mut shared) = (0, 0, 0_u64, 0_u64);
    for (process, earlier) in carried.iter().filter_map(|it| Some((it, it.earlier.as_ref()?))) {
        let (now, then) = (Parts::of_status(process), Parts::by_status(&earlier.rss));
        own += then.anonymous.saturating_sub(now.anonymous);
        own += now.file.abs_diff(then.file) + now.shared.abs_diff(then.shared);
        others = others.max(earlier.changed_by_all);
        resident += now.file + now.shared;
        shared += parts(process).map_or(0, |parts| parts.file + parts.shared);
    }
    own + share::of(others.saturating_mul(2), shared, u128::from(resident)).min(shared)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const MIB: u64 = 1 << 20;

    fn status(anonymous: u64, file: u64, shared: u64) -> BTreeMap<String, u64> {
        [("RssAnon", anonymous), ("RssFile", file), ("RssShmem", shared)]
            .map(|(name, mib)| (name.to_owned(), mib * MIB))
            .into()
    }

    fn read_then(rss: BTreeMap<String, u64>, [pss, file, shared]: [u64; 3]) -> Earlier {
        let rollup = [("Pss", pss), ("Pss_File", file), ("Pss_Shmem", shared)];
        let rollup = rollup.map(|(name, mib)| (name.to_owned(), mib * MIB)).into();
        let process = ProcessSeen { status: rss, rollup: Some(rollup), ..ProcessSeen::default() };
        Earlier::of(&process).expect("its Pss")
    }

    #[test]
    fn what_a_process_has_taken_since_it_was_read_is_its_own() {
        let earlier = read_then(status(4, 8, 20), [7, 1, 4]);
        let of = |status| ProcessSeen { status, earlier: Some(earlier.clone()), ..ProcessSeen::default() };
        let same = of(status(4, 8, 20));
        assert_eq!(parts(&same), Some(Parts { anonymous: 2 * MIB, file: MIB, shared: 4 * MIB }));
        assert_eq!(uncertainty(&[&same]), 0);
        let grown = of(status(54, 8, 20));
        assert_eq!(parts(&grown).map(|it| it.anonymous), Some(52 * MIB), "its new pages are not shared");
        assert_eq!((earlier.grown(&grown), earlier.grown(&same)), (50 * MIB, 0));
        let aged = earlier.aged(Duration::from_secs(1), 2 * MIB);
        let other = ProcessSeen { earlier: Some(aged), ..of(status(2, 16, 10)) };
        assert_eq!(parts(&other), Some(Parts { anonymous: MIB, file: 2 * MIB, shared: 2 * MIB }));
        let of_shares = 2 * 2 * MIB * 4 / 26;
        assert_eq!(uncertainty(&[&other]), (2 + 8 + 10) * MIB + of_shares);
        assert_eq!(parts(&ProcessSeen { earlier: None, ..same }), None);
    }

    /// A process that began since then has the same pages, and takes a part of the shares.
    #[test]
    fn what_the_others_have_taken_makes_the_shares_uncertain() {
        let then = read_then(status(4, 8, 20), [7, 1, 4]);
        let with = |changed: u64| {
            let earlier = Some(then.aged(Duration::from_secs(1), changed * MIB));
            uncertainty(&[&ProcessSeen { status: status(4, 8, 20), earlier, ..ProcessSeen::default() }])
        };
        let of_three = 2 * 3 * MIB * 5 / 28;
        assert_eq!((with(0), with(3), with(90)), (0, of_three, 5 * MIB), "never more than the shares are");
    }
}
