// SPDX-License-Identifier: Apache-2.0
//! A distribution as it is asked for: its kind and its numbers, with the names that they have on the command line, in experiment files and in
//! workload files.

use super::Distribution;
use keyfile::Section;
use serde::Serialize;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The asked numbers, not yet checked.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Options {
    pub kind: Kind,
    /// `--rand-spec-iter`: a gaussian value is the mean of this many draws.
    pub spec_iterations: u32,
    /// `--rand-spec-pct`: the width of the hot range, in percent of all keys.
    pub spec_range_percent: f64,
    /// `--rand-spec-res`: the share of the draws that fall on the hot range, in percent.
    pub spec_special_percent: f64,
    /// `--rand-pareto-h`.
    pub pareto_h: f64,
    /// `--rand-zipfian-exp`.
    pub zipfian_exponent: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    #[default]
    Uniform,
    Gaussian,
    Special,
    Pareto,
    Zipfian,
}

/// One number that some kinds of distributions have.
#[derive(Debug)]
pub struct Number {
    /// The key in an experiment file, `rand_pareto_h`; see [`Self::flag`].
    pub name: &'static str,
    /// The key in a workload file, beside its parameter's type: `h`.
    pub in_workload_files: &'static str,
    /// The kinds that have this number; the kind that it is made for comes first.
    pub of: &'static [Kind],
    /// The name of the value in texts for people.
    pub value_name: &'static str,
    pub help: &'static str,
    slot: fn(&mut Options) -> Slot<'_>,
}

/// The place of a number, to read or to write it.
#[derive(Debug)]
pub enum Slot<'a> {
    Whole { value: &'a mut u32, limits: RangeInclusive<u32> },
    Real { value: &'a mut f64, limits: RangeInclusive<f64> },
}

/// All numbers, in the order in which people see them.
pub const NUMBERS: [Number; 5] = [
    Number {
        name: "rand_spec_iter",
        in_workload_files: "iterations",
        of: &[Kind::Special, Kind::Gaussian],
        value_name: "N",
        help: "Draws that one gaussian value is the mean of",
        slot: |options| Slot::Whole { value: &mut options.spec_iterations, limits: 1..=1000 },
    },
    Number {
        name: "rand_spec_pct",
        in_workload_files: "range_percent",
        of: &[Kind::Special],
        value_name: "PERCENT",
        help: "Width of special's hot range, in percent of the values",
        slot: |options| Slot::Real { value: &mut options.spec_range_percent, limits: 0.0..=100.0 },
    },
    Number {
        name: "rand_spec_res",
        in_workload_files: "special_percent",
        of: &[Kind::Special],
        value_name: "PERCENT",
        help: "Share of the draws that fall on the hot range",
        slot: |options| Slot::Real { value: &mut options.spec_special_percent, limits: 0.0..=100.0 },
    },
    Number {
        name: "rand_pareto_h",
        in_workload_files: "h",
        of: &[Kind::Pareto],
        value_name: "H",
        help: "0.2: a fifth of the values has four fifths of the draws",
        slot: |options| Slot::Real { value: &mut options.pareto_h, limits: 0.001..=0.999 },
    },
    Number {
        name: "rand_zipfian_exp",
        in_workload_files: "exponent",
        of: &[Kind::Zipfian],
        value_name: "EXPONENT",
        help: "The n-th value is drawn in proportion to n to the power of minus this",
        slot: |options| Slot::Real { value: &mut options.zipfian_exponent, limits: 0.0..=100.0 },
    },
];

/// Why a distribution was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    #[error("'{0}' is not a distribution: use one of {known}", known = Kind::ALL.map(Kind::name).join(", "))]
    UnknownKind(String),
    #[error("{option} is {value}: it must be from {least} to {most}")]
    OutOfRange { option: String, value: f64, least: f64, most: f64 },
}

impl Default for Options {
    /// sysbench's defaults, except the kind.
    fn default() -> Self {
        Self {
            kind: Kind::default(),
            spec_iterations: 12,
            spec_range_percent: 1.0,
            spec_special_percent: 75.0,
            pareto_h: 0.2,
            zipfian_exponent: 0.8,
        }
    }
}

impl Options {
    /// # Errors
    /// A number outside the range in which the distribution exists; only the numbers that the kind uses are checked.
    pub fn check(&self) -> Result<Distribution, Error> {
        let mut own = *self;
        for number in NUMBERS.iter().filter(|number| number.of.contains(&self.kind)) {
            let (value, least, most) = match number.slot(&mut own) {
                Slot::Whole { value, limits } => ((*value).into(), (*limits.start()).into(), (*limits.end()).into()),
                Slot::Real { value, limits } => (*value, *limits.start(), *limits.end()),
            };
            if !(least..=most).contains(&value) {
                return Err(Error::OutOfRange { option: number.flag(), value, least, most });
            }
        }
        let iterations = self.spec_iterations;
        let (range_percent, special_percent) = (self.spec_range_percent, self.spec_special_percent);
        Ok(match self.kind {
            Kind::Uniform => Distribution::Uniform,
            Kind::Gaussian => Distribution::Gaussian { iterations },
            Kind::Special => Distribution::Special { iterations, range_percent, special_percent },
            Kind::Pareto => Distribution::Pareto { h: self.pareto_h },
            Kind::Zipfian => Distribution::Zipfian { exponent: self.zipfian_exponent },
        })
    }
}

impl Number {
    /// The option on the command line, without its dashes: `rand-pareto-h`. `rand_pareto_h` is accepted, too.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    pub fn slot<'a>(&self, options: &'a mut Options) -> Slot<'a> {
        (self.slot)(options)
    }

    /// Takes the number from `section`, if it is there; `key` is its name in such a file.
    pub fn read(&self, section: &Section<'_>, key: &'static str, options: &mut Options) {
        match self.slot(options) {
            Slot::Whole { value, limits } => *value = section.integer(key, limits).map_or(*value, |asked| asked.value),
            Slot::Real { value, limits } => *value = section.number(key, limits).map_or(*value, |asked| asked.value),
        }
    }
}

impl Kind {
    pub const ALL: [Self; 5] = [Self::Uniform, Self::Gaussian, Self::Special, Self::Pareto, Self::Zipfian];

    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Gaussian => "gaussian",
            Self::Special => "special",
            Self::Pareto => "pareto",
            Self::Zipfian => "zipfian",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| Error::UnknownKind(text.to_owned()))
    }
}
