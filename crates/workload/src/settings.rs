// SPDX-License-Identifier: Apache-2.0
//! The rows of the table of options. The table itself is [`crate::SETTINGS`], beside the statements that its rows shape.

use crate::{Name, Options};
use std::ops::RangeInclusive;

/// One option, for the command line and for the files that accept it.
#[derive(Debug)]
pub struct Setting {
    /// The key in an experiment file, `sum_ranges`; see [`Self::flag`].
    pub name: &'static str,
    /// Help for people; empty where the name says it all.
    pub help: &'static str,
    /// The workloads that have it.
    pub of: &'static [Name],
    /// Whether experiment files accept it, and not only the command line.
    pub in_experiments: bool,
    slot: fn(&mut Options) -> Slot<'_>,
}

/// The place of a setting's value, to read or to write it.
#[derive(Debug)]
pub enum Slot<'a> {
    Flag(&'a mut bool),
    Count { value: &'a mut u64, limits: RangeInclusive<u64> },
}

impl Setting {
    /// A row of the table; [`settings`] writes them.
    pub(crate) const fn new(
        name: &'static str,
        help: &'static str,
        of: &'static [Name],
        in_experiments: bool,
        slot: fn(&mut Options) -> Slot<'_>,
    ) -> Self {
        Self { name, help, of, in_experiments, slot }
    }

    /// The option on the command line, without its dashes: `sum-ranges`. `sum_ranges` is accepted, too.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    pub fn slot<'a>(&self, options: &'a mut Options) -> Slot<'a> {
        (self.slot)(options)
    }
}

/// A type that an option may have.
pub(crate) trait Field {
    fn slot(&mut self, limits: RangeInclusive<u64>) -> Slot<'_>;
}

impl Field for bool {
    fn slot(&mut self, _: RangeInclusive<u64>) -> Slot<'_> {
        Slot::Flag(self)
    }
}

impl Field for u64 {
    fn slot(&mut self, limits: RangeInclusive<u64>) -> Slot<'_> {
        Slot::Count { value: self, limits }
    }
}

/// Makes [`Options`](crate::Options), with one field for each row, and [`SETTINGS`](crate::SETTINGS) from the table of options.
///
/// A row is `name: type = default, limits, workloads that have it, whether an experiment accepts it, "help";`. The type is `u64` or `bool`; the
/// limits of a `bool` are ignored.
macro_rules! settings {
    ($($name:ident: $type:ty = $default:expr, $limits:expr, $of:expr, $in_experiments:expr $(, $help:literal)?;)*) => {
        /// The parts of a transaction, under sysbench's names. Counts are statements in a transaction.
        #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
        pub struct Options {
            $($(#[doc = $help])? pub $name: $type,)*
        }

        impl Default for Options {
            /// sysbench's defaults.
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        /// All options, in the order in which people see them.
        pub const SETTINGS: &[$crate::Setting] = &[$($crate::Setting::new(
            stringify!($name),
            concat!($($help)?),
            &$of,
            $in_experiments,
            |options| $crate::settings::Field::slot(&mut options.$name, $limits),
        ),)*];
    };
}
pub(crate) use settings;

/// The limits of a `bool`, which are ignored.
pub(crate) const ON_OFF: RangeInclusive<u64> = 0..=1;
