// SPDX-License-Identifier: Apache-2.0
//! The parameters of the distributions, with sysbench's names: one set of flags for `wringer load` and `wringer fill`, built from
//! [`workload::distribution::NUMBERS`].

use clap::{Arg, ArgMatches, Command, value_parser};
use workload::distribution::{Kind, NUMBERS, Number, Options, Slot};

#[derive(Debug)]
pub struct RandNumbers(Options);

impl RandNumbers {
    pub fn of(&self, kind: Kind) -> Options {
        Options { kind, ..self.0 }
    }
}

impl clap::Args for RandNumbers {
    fn augment_args(command: Command) -> Command {
        command.args(NUMBERS.iter().map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for RandNumbers {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut options = Options::default();
        for number in &NUMBERS {
            match number.slot(&mut options) {
                Slot::Whole { value, .. } => *value = matches.get_one(number.name).copied().unwrap_or(*value),
                Slot::Real { value, .. } => *value = matches.get_one(number.name).copied().unwrap_or(*value),
            }
        }
        Ok(Self(options))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn flag(number: &Number) -> Arg {
    let flag = Arg::new(number.name).long(number.flag()).alias(number.name);
    let flag = flag.value_name(number.value_name).help(number.help);
    match number.slot(&mut Options::default()) {
        Slot::Whole { value, .. } => flag.value_parser(value_parser!(u32)).default_value(value.to_string()),
        Slot::Real { value, .. } => flag.value_parser(value_parser!(f64)).default_value(value.to_string()),
    }
}
