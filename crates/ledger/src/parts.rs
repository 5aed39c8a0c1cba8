// SPDX-License-Identifier: Apache-2.0
//! The memory of a process in three parts, by its proportional shares and by what is resident.

use crate::share::sane;
use crate::{Mapping, ProcessSeen};
use std::collections::BTreeMap;

/// Bytes of a process: anonymous, of files, shared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) anonymous: u64,
    pub(crate) file: u64,
    pub(crate) shared: u64,
}

impl Parts {
    pub(crate) fn sum(self) -> u64 {
        self.anonymous + self.file + self.shared
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        let add = |a: u64, b: u64| a.saturating_add(b);
        Self {
            anonymous: add(self.anonymous, other.anonymous),
            file: add(self.file, other.file),
            shared: add(self.shared, other.shared),
        }
    }

    /// Proportional shares (Pss). Kernels before 5.4 do not tell the parts: then everything counts as anonymous.
    pub(crate) fn of_rollup(process: &ProcessSeen) -> Option<Self> {
        Self::by_rollup(process.rollup.as_ref()?)
    }

    pub(crate) fn by_rollup(rollup: &BTreeMap<String, u64>) -> Option<Self> {
        let pss = sane(*rollup.get("Pss")?);
        let part = |name: &str| rollup.get(name).map_or(0, |bytes| sane(*bytes));
        let file = part("Pss_File").min(pss);
        let shared = part("Pss_Shmem").min(pss - file);
        Some(Self { anonymous: pss - file - shared, file, shared })
    }

    /// Proportional shares (Pss) of a process whose mappings were read, but not its rollup.
    fn of_mappings(process: &ProcessSeen) -> Option<Self> {
        let mut parts = Self::default();
        for mapping in measured(process)? {
            let pss = sane(mapping.pss);
            match mapping {
                it if it.path.starts_with("/dev/zero") || it.permissions.ends_with('s') => parts.shared += pss,
                it if it.inode != 0 && it.anonymous < it.rss => parts.file += pss,
                _ => parts.anonymous += pss,
            }
        }
        Some(parts)
    }

    /// Proportional shares (Pss) as they were read. `None`: they were not.
    pub(crate) fn read(process: &ProcessSeen) -> Option<Self> {
        Self::of_rollup(process).or_else(|| Self::of_mappings(process))
    }

    /// Resident memory (Rss), in which each shared page counts in full.
    pub(crate) fn of_status(process: &ProcessSeen) -> Self {
        Self::by_status(&process.status)
    }

    pub(crate) fn by_status(status: &BTreeMap<String, u64>) -> Self {
        let part = |name: &str| status.get(name).map(|bytes| sane(*bytes));
        let (file, shared) = (part("RssFile").unwrap_or(0), part("RssShmem").unwrap_or(0));
        // kernels before 4.5 tell the sum only
        let rest = || part("VmRSS").unwrap_or(0).saturating_sub(file + shared);
        Self { anonymous: part("RssAnon").unwrap_or_else(rest), file, shared }
    }
}

/// The mappings, if their resident bytes were read, too.
pub(crate) fn measured(process: &ProcessSeen) -> Option<&[Mapping]> {
    let mappings = process.mappings.as_deref()?;
    let has_figures =
        mappings.iter().any(|it| it.rss > 0 || it.pss > 0 || it.private_hugetlb > 0 || it.shared_hugetlb > 0);
    has_figures.then_some(mappings)
}

/// The ratio of proportional to resident bytes, at most 1. Where nothing is resident, the ratio is not known, and counts as 1.
pub(crate) fn ratio(pss: u64, rss: u64) -> f64 {
    if rss == 0 { 1.0 } else { (pss as f64 / rss as f64).min(1.0) }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(crate) fn times(bytes: u64, ratio: f64) -> u64 {
    // the bytes are below 2^47, and the ratio is between 0 and 1
    (bytes as f64 * ratio).round() as u64
}
