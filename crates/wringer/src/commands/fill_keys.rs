// SPDX-License-Identifier: Apache-2.0
//! The distribution of the column `k`: the flags of `wringer fill`.

use super::rand_numbers::RandNumbers;
use workload::distribution::{Distribution, Error, Kind};

/// How often each value of k comes, with the words of `wringer load`.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Values of k")]
pub struct KeyArgs {
    /// How often each value of k comes, from 1 to the number of rows: uniform, gaussian, special, pareto or zipfian, as with `load --rand-type`. With a
    /// skewed k, a query by the index on k finds many rows for some values
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
