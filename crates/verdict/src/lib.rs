// SPDX-License-Identifier: Apache-2.0
//! Whether two sides differ, and by how much. No I/O, no clock, no randomness: the same repeats give the same verdict.
//!
//! - [`judge`] compares two sides, each a list of [`Repeat`]s. It gives a ratio, its interval and a verdict for every figure.
//! - [`within`] compares two arms of one run, which are no repeats, by batches of their time. It also tells whether the two halves of an arm agree.
//!
//! A *repeat* is one fresh start of the server on a fresh clone of its data: two repeats share nothing except the things that are compared. Time
//! slots of one run are no repeats: they share the server's start, its caches and its files.
//!
//! # How a verdict is made
//!
//! Figures are compared by the logarithms of their values, because a change of a server changes its figures by a factor (Fleming and Wallace, "How not
//! to lie with statistics", Communications of the ACM 29, 1986). Where at least three blocks hold both sides, the differences within the blocks
//! count (Student's t with n - 1 degrees of freedom), so that a host that is slower at night makes no difference. Else the two sides are
//! two samples, each with its own spread (Welch, Biometrika 34, 1947).
//!
//! All intervals of one [`Judged`] hold jointly with a confidence of 95 %: if nothing differs, then in 95 of 100 comparisons *no* figure has
//! a verdict. The 5 % that remain are shared out in advance: [`THROUGHPUT`] has half of them, all other figures have equal parts of the
//! other half. This is the inequality of Bonferroni as Dunn uses it (Journal of the American Statistical Association 56, 1961), with unequal
//! weights (Rosenthal and Rubin, Psychological Bulletin 94, 1983). This rule has three reasons. Percentiles and modes depend on each other and
//! on the throughput in ways that nobody knows, and the rule holds for every dependence. Its intervals and its verdicts cannot contradict each
//! other; with Holm's steps they can. Random exchanges of signs would use the dependence, but cannot get below a chance of 1 in 16 with five
//! blocks. The throughput has one half because most users ask for it first, and ten more percentiles must not hide a loss of it.
//!
//! Not here: what a figure means, and which conditions may differ; the caller knows that.

mod figures;
mod interval;
mod judge;
mod judged;
mod limit;
mod sides;
pub mod within;

pub use figures::{Figure, Repeat, THROUGHPUT, typical};
pub use judge::{FEWEST_REPEATS, judge};
pub use judged::{Compared, Judged, NoVerdict, Verdict};
pub use limit::{Held, Limit, LimitError};
