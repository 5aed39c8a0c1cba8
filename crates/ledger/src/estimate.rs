// SPDX-License-Identifier: Apache-2.0
//! Estimates the proportional set size of processes of which only /proc/PID/status was read, from the processes of the same role that were read completely.
//!
//! The estimate is a ratio estimator: the resident bytes of the process (each shared page counted in full), times the ratio of proportional to
//! resident bytes among the processes that were read. The uncertainty holds in 19 of 20 cases (Cochran, Sampling Techniques, chapter 6).

use crate::parts::{Parts, measured, ratio, times};
use crate::share::sane;
use crate::{ProcessSeen, earlier};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The estimated part of an account.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimates {
    /// Processes whose Pss was read.
    pub sampled: u64,
    /// Processes whose Pss was estimated.
    pub estimated: u64,
    /// How many of these were read earlier in the same recording.
    #[serde(default)]
    pub carried: u64,
    /// The estimated bytes of the total.
    pub estimated_bytes: u64,
    pub uncertainty_bytes: u64,
    pub roles: Vec<RoleEstimate>,
}

/// The estimate for the processes of one role. Ratios are Pss / Rss.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RoleEstimate {
    pub role: String,
    pub sampled: u64,
    pub estimated: u64,
    pub anonymous_ratio: f64,
    pub file_ratio: f64,
    pub shared_ratio: f64,
}

struct Sample<'a> {
    role: &'a str,
    pss: Parts,
    rss: Parts,
}

impl<'a> Sample<'a> {
    fn of(process: &'a ProcessSeen, pss: Parts) -> Self {
        Self { role: &process.role, pss, rss: Parts::of_status(process) }
    }
}

#[derive(Debug, Clone, Copy)]
struct Ratios {
    anonymous: f64,
    file: f64,
    shared: f64,
}

impl Ratios {
    fn of(samples: &[&Sample<'_>]) -> Self {
        let sum = |of: fn(&Sample<'_>) -> Parts| samples.iter().fold(Parts::default(), |sum, it| sum.plus(of(it)));
        let (pss, rss) = (sum(|it| it.pss), sum(|it| it.rss));
        Self {
            anonymous: ratio(pss.anonymous, rss.anonymous),
            file: ratio(pss.file, rss.file),
            shared: ratio(pss.shared, rss.shared),
        }
    }

    fn apply(self, rss: Parts) -> Parts {
        Parts {
            anonymous: times(rss.anonymous, self.anonymous),
            file: times(rss.file, self.file),
            shared: times(rss.shared, self.shared),
        }
    }
}

impl Estimates {
    /// The proportional shares of a process that was not read: by its own earlier reading, else by the processes of its role.
    pub(crate) fn parts(&self, process: &ProcessSeen) -> Parts {
        earlier::parts(process).unwrap_or_else(|| self.by_role(process))
    }

    fn by_role(&self, process: &ProcessSeen) -> Parts {
        let role = self.roles.iter().find(|it| it.role == process.role);
        let ratios = role.map_or(Ratios { anonymous: 1.0, file: 1.0, shared: 1.0 }, |it| Ratios {
            anonymous: it.anonymous_ratio,
            file: it.file_ratio,
            shared: it.shared_ratio,
        });
        ratios.apply(Parts::of_status(process))
    }
}

pub(crate) fn of(processes: &[ProcessSeen]) -> Estimates {
    let samples: Vec<Sample<'_>> = processes.iter().filter_map(sample).collect();
    let mut unread: BTreeMap<&str, Vec<Parts>> = BTreeMap::new();
    let mut carried = Vec::new();
    for process in processes.iter().filter(|process| Parts::read(process).is_none()) {
        match earlier::parts(process) {
            Some(parts) => carried.push((process, parts)),
            None => unread.entry(&process.role).or_default().push(Parts::of_status(process)),
        }
    }
    let mut estimates = Estimates { sampled: samples.len() as u64, ..Estimates::default() };
    add_carried(&mut estimates, &carried);
    // a process that was read earlier tells nearly as much of its role as one that was read now
    let samples: Vec<Sample<'_>> =
        samples.into_iter().chain(carried.iter().map(|(it, pss)| Sample::of(it, *pss))).collect();
    for (role, parts) in unread {
        add_role(&mut estimates, role, &parts, &samples, processes.len());
    }
    estimates
}

/// With so many processes of a role that were read, the others of it need not be read, if they are well known by then: see [`is_enough`].
const MANY: usize = 16;
/// The estimate is good when its uncertainty is at most one part in this many of the total.
const SMALL_PART: u64 = 1000;

/// Whether the processes that were read in detail tell of all others so much that no further process need be read. Of each role that has others,
/// many were read, and none of the others has far more memory of its own than those that were read.
pub fn is_enough(processes: &[ProcessSeen]) -> bool {
    let estimates = of(processes);
    let read: u64 = processes.iter().filter_map(Parts::read).map(Parts::sum).sum();
    let is_small = estimates.uncertainty_bytes <= (read + estimates.estimated_bytes) / SMALL_PART;
    let roles: BTreeSet<&str> = processes.iter().map(|process| process.role.as_str()).collect();
    is_small && roles.into_iter().all(|role| is_known(role, processes))
}

fn is_known(role: &str, processes: &[ProcessSeen]) -> bool {
    let of_role = processes.iter().filter(|process| process.role == role);
    let (read, others): (Vec<&ProcessSeen>, Vec<&ProcessSeen>) = of_role.partition(|it| measured(it).is_some());
    let largest = |those: &[&ProcessSeen]| those.iter().map(|it| Parts::of_status(it).anonymous).max().unwrap_or(0);
    others.is_empty() || (read.len() >= MANY && largest(&others) <= 2 * largest(&read))
}

fn sample(process: &ProcessSeen) -> Option<Sample<'_>> {
    Some(Sample::of(process, Parts::read(process)?))
}

fn add_carried(estimates: &mut Estimates, carried: &[(&ProcessSeen, Parts)]) {
    let those: Vec<&ProcessSeen> = carried.iter().map(|(process, _)| *process).collect();
    estimates.carried = carried.len() as u64;
    estimates.estimated += estimates.carried;
    estimates.estimated_bytes += carried.iter().map(|(_, parts)| parts.sum()).sum::<u64>();
    estimates.uncertainty_bytes += earlier::uncertainty(&those);
}

fn add_role(estimates: &mut Estimates, role: &str, unread: &[Parts], samples: &[Sample<'_>], processes: usize) {
    let own: Vec<&Sample<'_>> = samples.iter().filter(|it| it.role == role).collect();
    let all: Vec<&Sample<'_>> = samples.iter().collect();
    let ratios = match (own.is_empty(), all.is_empty()) {
        (false, _) => Ratios::of(&own),
        (true, false) => Ratios::of(&all),
        (true, true) => unsampled(processes),
    };
    let estimated: Vec<u64> = unread.iter().map(|rss| ratios.apply(*rss).sum()).collect();
    let sum: u64 = estimated.iter().sum();
    estimates.estimated += unread.len() as u64;
    estimates.estimated_bytes += sum;
    estimates.uncertainty_bytes += uncertainty(&own, ratios, unread, &estimated);
    estimates.roles.push(RoleEstimate {
        role: role.to_owned(),
        sampled: own.len() as u64,
        estimated: unread.len() as u64,
        anonymous_ratio: ratios.anonymous,
        file_ratio: ratios.file,
        shared_ratio: ratios.shared,
    });
}

/// The estimate when no process's Pss was read: it assumes that each process has each shared page, and that no private page is shared.
fn unsampled(processes: usize) -> Ratios {
    let part = 1.0 / processes.max(1) as f64;
    Ratios { anonymous: 1.0, file: part, shared: part }
}

/// The largest possible error: the true value is between 0 and the resident bytes. With fewer than two samples, it is used as the uncertainty.
fn uncertainty(own: &[&Sample<'_>], ratios: Ratios, unread: &[Parts], estimated: &[u64]) -> u64 {
    let (n, m) = (own.len(), unread.len() as f64);
    let bounds =
        unread.iter().zip(estimated).map(|(rss, estimate)| (*estimate).max(rss.sum().saturating_sub(*estimate)));
    let bound: u64 = bounds.sum();
    if n < 2 {
        return bound;
    }
    let residual = |it: &&Sample<'_>| it.pss.sum() as f64 - ratios.apply(it.rss).sum() as f64;
    let variance = own.iter().map(residual).map(|it| it * it).sum::<f64>() / (n as f64 - 1.0);
    let error = student(n - 1) * m * (variance * (1.0 / n as f64 + 1.0 / m)).sqrt();
    bytes(error).min(bound)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn bytes(error: f64) -> u64 {
    // such a cast saturates
    sane(error.max(0.0).ceil() as u64)
}

/// Student's t for 19 in 20, two-sided.
fn student(freedom: usize) -> f64 {
    const T: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    match freedom {
        0 => f64::MAX,
        1..=10 => T[freedom - 1],
        11..=19 => 2.201,
        20..=29 => 2.086,
        _ => 2.042,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mapping;

    const MIB: u64 = 1 << 20;

    fn backend(anonymous: u64, shared: u64, pss: Option<(u64, u64)>) -> ProcessSeen {
        let status = [("RssAnon".to_owned(), anonymous), ("RssShmem".to_owned(), shared)].into();
        let rollup = pss.map(|(anonymous, shared)| {
            [("Pss".to_owned(), anonymous + shared), ("Pss_Shmem".to_owned(), shared)].into()
        });
        let mappings = pss.map(|(anonymous, _)| vec![Mapping { rss: anonymous, pss: anonymous, ..Mapping::default() }]);
        ProcessSeen { role: "client backend".into(), status, rollup, mappings, ..ProcessSeen::default() }
    }

    #[test]
    fn like_processes_are_estimated_exactly() {
        let mut processes = vec![backend(3 * MIB, 400 * MIB, Some((MIB, 4 * MIB))); 4];
        processes.extend(vec![backend(6 * MIB, 200 * MIB, None); 10]);
        let estimates = of(&processes);
        assert_eq!((estimates.sampled, estimates.estimated), (4, 10));
        assert_eq!(estimates.estimated_bytes, 10 * (2 * MIB + 2 * MIB));
        assert_eq!(estimates.uncertainty_bytes, 0);
    }

    #[test]
    fn one_sample_says_only_what_cannot_be() {
        let processes = [backend(2 * MIB, 0, Some((MIB, 0))), backend(2 * MIB, 0, None)];
        assert_eq!(of(&processes).uncertainty_bytes, MIB);
    }

    #[test]
    fn no_more_are_read_when_many_alike_were_read_and_no_other_is_larger() {
        let (read, unread) = (backend(2 * MIB, 400 * MIB, Some((2 * MIB, MIB))), backend(3 * MIB, 400 * MIB, None));
        let of = |count: usize| [vec![read.clone(); count], vec![unread.clone(); 100]].concat();
        assert!(!is_enough(&of(MANY - 1)), "few were read");
        assert!(is_enough(&of(MANY)));
        let with = |one: ProcessSeen| [of(MANY), vec![one]].concat();
        assert!(!is_enough(&with(backend(5 * MIB, 0, None))), "one of the others is larger than all that were read");
        assert!(
            !is_enough(&with(ProcessSeen { role: "walwriter".into(), ..unread.clone() })),
            "none of its role was read"
        );
        assert!(
            !is_enough(&with(backend(2 * MIB, 400 * MIB, Some((MIB, MIB))))),
            "they differ by more than a thousandth"
        );
        assert!(is_enough(&vec![read.clone(); 3]), "all were read");
        let sized = ProcessSeen { mappings: None, ..read };
        assert!(!is_enough(&vec![sized; 100]), "their sizes are known, and not what is in them");
    }

    /// Ten backends, of which one is read each time: the others are as large as they were when it was their turn.
    #[test]
    fn those_that_were_read_earlier_are_estimated_from_themselves() {
        let mut processes = vec![backend(2 * MIB, 400 * MIB, Some((2 * MIB, 40 * MIB)))];
        for own in 1..10 {
            let then = backend(own * MIB, 400 * MIB, Some((own * MIB, 40 * MIB)));
            let earlier = crate::Earlier::of(&then);
            processes.push(ProcessSeen { earlier, ..backend(own * MIB, 400 * MIB, None) });
        }
        let estimates = of(&processes);
        assert_eq!((estimates.sampled, estimates.estimated, estimates.carried), (1, 9, 9));
        assert_eq!(estimates.estimated_bytes, (1..10).sum::<u64>() * MIB + 9 * 40 * MIB);
        assert_eq!((estimates.uncertainty_bytes, estimates.roles.len()), (0, 0));
        // one that nobody has read yet is estimated from all of its role
        processes.push(backend(5 * MIB, 0, None));
        let estimates = of(&processes);
        assert_eq!((estimates.roles[0].sampled, estimates.roles[0].anonymous_ratio), (10, 1.0));
        let without = |it: &ProcessSeen| ProcessSeen { earlier: None, ..it.clone() };
        let guessed = of(&processes[..2].iter().map(without).collect::<Vec<_>>());
        assert!(guessed.uncertainty_bytes > 300 * MIB, "{guessed:?}");
    }

    #[test]
    fn unlike_samples_widen_the_uncertainty() {
        let mut processes = vec![
            backend(2 * MIB, 0, Some((MIB, 0))),
            backend(2 * MIB, 0, Some((2 * MIB, 0))),
            backend(2 * MIB, 0, None),
        ];
        let few = of(&processes).uncertainty_bytes;
        for _ in 0..10 {
            processes.extend([backend(2 * MIB, 0, Some((MIB, 0))), backend(2 * MIB, 0, Some((2 * MIB, 0)))]);
        }
        assert!(few > MIB && of(&processes).uncertainty_bytes < few);
    }
}
