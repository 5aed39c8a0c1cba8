// SPDX-License-Identifier: Apache-2.0
//! The flags for [`workload::SETTINGS`], built from that table: a new row is a new flag.

use super::on_off;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use workload::{Options, SETTINGS, Setting, Slot};

/// What a transaction consists of, as it was asked for.
#[derive(Debug)]
pub struct SettingFlags(pub Options);

impl clap::Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        command.args(SETTINGS.iter().map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut options = Options::default();
        for setting in SETTINGS {
            match setting.slot(&mut options) {
                Slot::Flag(asked) => *asked = matches.get_one(setting.name).copied().unwrap_or(*asked),
                Slot::Count { value, .. } => *value = matches.get_one(setting.name).copied().unwrap_or(*value),
            }
        }
        Ok(Self(options))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn flag(setting: &Setting) -> Arg {
    let mut defaults = Options::default();
    let mut flag = Arg::new(setting.name).long(setting.flag());
    if setting.flag() != setting.name {
        flag = flag.alias(setting.name);
    }
    if !setting.help.is_empty() {
        flag = flag.help(setting.help);
    }
    match setting.slot(&mut defaults) {
        Slot::Flag(default) => flag
            .action(ArgAction::Set)
            .num_args(0..=1)
            .require_equals(true)
            .value_name(setting.name.to_uppercase())
            .value_parser(on_off)
            .default_missing_value("on")
            .default_value(if *default { "on" } else { "off" }),
        Slot::Count { value, .. } => {
            flag.value_name("N").value_parser(value_parser!(u64)).default_value(value.to_string())
        }
    }
}
