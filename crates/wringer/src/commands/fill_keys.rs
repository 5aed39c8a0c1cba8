// SPDX-License-Identifier: Apache-2.0
//! The distribution of the column `k`: the flags of `wringer fill`.

use super::rand_numbers::RandNumbers;
use workload::distribution::{Distribution, Error, Kind};

/// How often each value of k comes, with the words of `wringer load`.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Values of k")]
pub struct KeyArgs {
    /// uniform, gaussian, special, pareto or zipfian, over 1 to the number of rows, as `load --rand-type`. The rows
    /// of a skewed k are many for some values: what a query by the index on k finds
    #[arg(long, alias = "k_distribution", default_value = "uniform", value_name = "TYPE")]
    pub k_distribution: Kind,
    #[command(flatten)]
    numbers: RandNumbers,
}

impl KeyArgs {
    pub fn distribution(&self) -> Result<Distribution, Error> {
        self.numbers.of(self.k_distribution).check()
    }
}
