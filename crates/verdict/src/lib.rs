// SPDX-License-Identifier: Apache-2.0
//! Whether two sides differ, and by how much. No I/O, no clock, no randomness: the same repeats give the same verdict.
//!
//! - [`judge`]: two sides, each a list of [`Repeat`]s; of every figure a ratio, its interval and a verdict.
//! - [`within`]: two arms of one run, which are no repeats, by batches of their time; and whether the two halves of an arm agree.
//!
//! A *repeat* is one fresh start of the server on a fresh clone of its data: two repeats have nothing in common but what is compared. Time
//! slots of one run are no repeats: they share the server's start, its caches and its files.
//!
//! # How a verdict is made
//!
//! Figures are compared by the logarithms of their values: what changes a server changes its figures by a factor (Fleming and Wallace, "How not
//! to lie with statistics", Communications of the ACM 29, 1986). Where at least three blocks hold both sides, the differences within the blocks
//! are what counts (Student's t with n - 1 degrees of freedom), so that a host that is slower at night is no difference. Else the two sides are
//! two samples with spreads of their own (Welch, Biometrika 34, 1947).
//!
//! All intervals of one [`Judged`] hold jointly with a confidence of 95 %: if nothing differs, then in 95 of 100 comparisons *no* figure has
//! a verdict. The 5 % that remain are shared out in advance: [`THROUGHPUT`] has half of them, all other figures have equal parts of the
//! other half. This is the inequality of Bonferroni as Dunn uses it (Journal of the American Statistical Association 56, 1961), with unequal
//! weights (Rosenthal and Rubin, Psychological Bulletin 94, 1983). Why this rule and no other: percentiles and modes depend on each other and
//! on the throughput in ways that nobody knows, and this one holds for each dependence; its intervals and its verdicts cannot contradict each
//! other, as they can with Holm's steps; and random exchanges of signs, which would use the dependence, cannot get below a chance of 1 in 16
//! with five blocks. The throughput has the half because it is what most ask for, and ten more percentiles must not hide its loss.
//!
//! Not here: what a figure means, and which conditions may differ (who calls knows).

mod figures;
mod interval;
mod judge;
mod judged;
mod limit;
mod sides;
pub mod within;

pub use figures::{Figure, Repeat, THROUGHPUT};
pub use judge::{FEWEST_REPEATS, judge};
pub use judged::{Compared, Judged, NoVerdict, Verdict};
pub use limit::{Held, Limit, LimitError};
