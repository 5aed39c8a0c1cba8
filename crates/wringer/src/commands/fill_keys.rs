// SPDX-License-Identifier: Apache-2.0
//! Which values the column `k` gets: the flags of `wringer fill`.

use load::distribution::{Distribution, Error, Kind, Options};

/// How often each value of k comes, with the words of `wringer load`.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Values of k")]
pub struct KeyArgs {
    /// uniform, gaussian, special, pareto or zipfian, over 1 to the number of rows, as `load --rand-type`. The rows
    /// of a skewed k are many for some values: what a query by the index on k finds
    #[arg(long, alias = "k_distribution", default_value = "uniform", value_name = "TYPE")]
    pub k_distribution: Kind,
    /// Draws that one gaussian value is the mean of
    #[arg(long, alias = "rand_spec_iter", default_value_t = 12, value_name = "N")]
    rand_spec_iter: u32,
    /// Width of special's hot range, in percent of the values
    #[arg(long, alias = "rand_spec_pct", default_value_t = 1.0, value_name = "PERCENT")]
    rand_spec_pct: f64,
    /// Share of the rows whose k falls on the hot range
    #[arg(long, alias = "rand_spec_res", default_value_t = 75.0, value_name = "PERCENT")]
    rand_spec_res: f64,
    /// 0.2: a fifth of the values has four fifths of the rows
    #[arg(long, alias = "rand_pareto_h", default_value_t = 0.2, value_name = "H")]
    rand_pareto_h: f64,
    /// The n-th value has rows in proportion to n to the power of minus this
    #[arg(long, alias = "rand_zipfian_exp", default_value_t = 0.8, value_name = "EXPONENT")]
    rand_zipfian_exp: f64,
}

impl KeyArgs {
    pub fn distribution(&self) -> Result<Distribution, Error> {
        Options {
            kind: self.k_distribution,
            spec_iterations: self.rand_spec_iter,
            spec_range_percent: self.rand_spec_pct,
            spec_special_percent: self.rand_spec_res,
            pareto_h: self.rand_pareto_h,
            zipfian_exponent: self.rand_zipfian_exp,
        }
        .check()
    }
}
