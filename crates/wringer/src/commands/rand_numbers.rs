// SPDX-License-Identifier: Apache-2.0
//! The numbers of the distributions, with sysbench's names: one set of flags for `wringer load` and `wringer fill`.

use workload::distribution::{Kind, Options};

#[derive(Debug, clap::Args)]
pub struct RandNumbers {
    /// Draws that one gaussian value is the mean of
    #[arg(long, alias = "rand_spec_iter", default_value_t = 12, value_name = "N")]
    rand_spec_iter: u32,
    /// Width of special's hot range, in percent of the values
    #[arg(long, alias = "rand_spec_pct", default_value_t = 1.0, value_name = "PERCENT")]
    rand_spec_pct: f64,
    /// Share of the draws that fall on the hot range
    #[arg(long, alias = "rand_spec_res", default_value_t = 75.0, value_name = "PERCENT")]
    rand_spec_res: f64,
    /// 0.2: a fifth of the values has four fifths of the draws
    #[arg(long, alias = "rand_pareto_h", default_value_t = 0.2, value_name = "H")]
    rand_pareto_h: f64,
    /// The n-th value is drawn in proportion to n to the power of minus this
    #[arg(long, alias = "rand_zipfian_exp", default_value_t = 0.8, value_name = "EXPONENT")]
    rand_zipfian_exp: f64,
}

impl RandNumbers {
    pub fn of(&self, kind: Kind) -> Options {
        Options {
            kind,
            spec_iterations: self.rand_spec_iter,
            spec_range_percent: self.rand_spec_pct,
            spec_special_percent: self.rand_spec_res,
            pareto_h: self.rand_pareto_h,
            zipfian_exponent: self.rand_zipfian_exp,
        }
    }
}
