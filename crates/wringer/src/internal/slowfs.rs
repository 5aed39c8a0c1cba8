// SPDX-License-Identifier: Apache-2.0
use crate::exit::{Exit, Failure, Outcome};

#[derive(Debug, clap::Args)]
pub struct Args {}

pub fn main(_args: Args) -> Outcome {
    Err(Failure::message(Exit::Missing, "not built yet"))
}
