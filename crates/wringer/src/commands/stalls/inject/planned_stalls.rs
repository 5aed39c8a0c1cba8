// SPDX-License-Identifier: Apache-2.0
//! The flags that describe one stall, or a plan of several.

use crate::exit::{Exit, Failure};
use ::inject::{Injection, Random, Rows, named, plan};
use clap::ValueEnum;
use stalls::Cause;
use std::str::FromStr;
use units::Span;

#[derive(Debug, clap::Args)]
pub(super) struct Flags {
    /// The cause of the one stall: what its victims wait for; --list has the names
    #[arg(long, value_name = "CAUSE", value_parser = cause, required_unless_present_any = ["plan", "list"], conflicts_with = "plan")]
    cause: Option<Cause>,
    /// Length of the stall, from 1ms to 10m; for a plan, the shortest and the longest: 20ms..2s
    #[arg(long, value_name = "TIME", required_unless_present = "list")]
    length: Option<Lengths>,
    /// When the stall begins, counted from the moment when everything is ready
    #[arg(long, value_name = "TIME", default_value = "0", conflicts_with = "plan")]
    at: Span,
    /// A plan of several stalls, drawn at random: causes, moments and lengths follow from the seed
    #[arg(long, value_enum, requires_all = ["causes", "lasts"])]
    plan: Option<Kind>,
    /// The seed of the plan: the same seed and the same flags give the same plan
    #[arg(long, value_name = "N", default_value_t = 1, requires = "plan")]
    seed: u64,
    /// How many stalls the plan has
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000), requires = "plan")]
    count: u32,
    /// The causes in the plan, each equally often
    #[arg(long, value_name = "CAUSE,...", value_delimiter = ',', value_parser = cause, requires = "plan")]
    causes: Vec<Cause>,
    /// The time after which the whole plan is over
    #[arg(long = "for", visible_alias = "time", value_name = "TIME", requires = "plan")]
    lasts: Option<Span>,
    /// The shortest time between two stalls of the plan, before the first, and after the last
    #[arg(long, value_name = "TIME", default_value = "200ms", requires = "plan")]
    gap: Span,
    /// Let stalls of the plan overlap
    #[arg(long, requires = "plan")]
    overlap: bool,
    /// How many rows row_lock holds, from the lowest key of the table on
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    rows: u32,
    /// The key of the one row that row_lock holds
    #[arg(long, value_name = "KEY", conflicts_with = "rows", allow_negative_numbers = true)]
    row: Option<i64>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    Random,
}

/// The stalls that are asked for.
#[derive(Debug)]
pub(super) struct PlannedStalls {
    pub(super) plan: Vec<Injection>,
    /// The seed of the plan. `None`: the plan was not drawn at random.
    pub(super) seed: Option<u64>,
    pub(super) rows: Rows,
}

impl PlannedStalls {
    pub(super) fn causes(&self) -> impl Iterator<Item = Cause> + '_ {
        self.plan.iter().map(|it| it.cause)
    }
}

fn cause(name: &str) -> Result<Cause, String> {
    named(name).ok_or_else(|| {
        let names: Vec<&str> = ::inject::CAUSES.iter().map(|cause| cause.name()).collect();
        format!("there is no such cause; there are {}", names.join(", "))
    })
}

/// One length, or two with `..` between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lengths {
    shortest_us: u64,
    longest_us: u64,
}

const SHORTEST_US: u64 = 1000;
const LONGEST_US: u64 = 600_000_000;

impl FromStr for Lengths {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let one = |text: &str| {
            let us = text.trim().parse::<Span>().map_err(|error| error.to_string())?.as_us();
            if (SHORTEST_US..=LONGEST_US).contains(&us) {
                Ok(us)
            } else {
                Err("a stall takes from 1ms to 10m".to_owned())
            }
        };
        let (from, to) = text.split_once("..").unwrap_or((text, text));
        let (shortest_us, longest_us) = (one(from)?, one(to)?);
        if shortest_us > longest_us {
            return Err("the shorter length comes first: 20ms..2s".to_owned());
        }
        Ok(Self { shortest_us, longest_us })
    }
}

impl Flags {
    /// # Errors
    /// Usage: a plan that does not fit into its time, or a single stall with two lengths.
    pub(super) fn asked(&self) -> Result<PlannedStalls, Failure> {
        let usage = |message: String| Failure::message(Exit::Usage, message);
        let Lengths { shortest_us, longest_us } = self.length.ok_or_else(|| {
            usage("--length is missing".to_owned()).hint("--length 400ms; with --plan random, --length 20ms..2s")
        })?;
        let rows = self.row.map_or(Rows::First(self.rows), Rows::Key);
        if let Some(cause) = self.cause {
            if shortest_us != longest_us {
                return Err(usage("one stall has one length: --length 400ms".to_owned())
                    .hint("two lengths are for a plan: --plan random"));
            }
            let plan = vec![Injection { cause, at_us: self.at.as_us(), length_us: longest_us }];
            return Ok(PlannedStalls { plan, seed: None, rows });
        }
        let random = Random {
            seed: self.seed,
            count: self.count,
            shortest_us,
            longest_us,
            causes: self.causes.clone(),
            lasts_us: self.lasts.map_or(0, Span::as_us),
            gap_us: self.gap.as_us(),
            may_overlap: self.overlap,
        };
        let plan = plan::random(&random).map_err(|error| usage(error.to_string()))?;
        Ok(PlannedStalls { plan, seed: Some(self.seed), rows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_or_two() {
        let parsed = |text: &str| text.parse::<Lengths>().map(|it| (it.shortest_us, it.longest_us));
        assert_eq!(parsed("400ms"), Ok((400_000, 400_000)));
        assert_eq!(parsed("20ms..2s"), Ok((20_000, 2_000_000)));
        for wrong in ["2s..20ms", "0..2s", "1us", "11m", "..", "400", "20ms..", "-1s"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
