// SPDX-License-Identifier: Apache-2.0
//! What a row of the table of options is. The table itself is [`crate::SETTINGS`], beside the statements that its rows shape.

use crate::{Name, Options};
use std::ops::RangeInclusive;

/// One option, for every front that takes it.
#[derive(Debug)]
pub struct Setting {
    /// The key in an experiment file, `sum_ranges`; see [`Self::flag`].
    pub name: &'static str,
    /// For people; empty where the name says it all.
    pub help: &'static str,
    /// The workloads that have it.
    pub of: &'static [Name],
    /// Whether an experiment file takes it, and not the command line alone.
    pub in_experiments: bool,
    slot: fn(&mut Options) -> Slot<'_>,
}

/// Where the value of a setting stands, to be read or written.
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

    /// On the command line, without its dashes: `sum-ranges`. `sum_ranges` is taken, too.
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

/// Makes of the table of options both [`Options`](crate::Options), one field a row, and [`SETTINGS`](crate::SETTINGS).
///
/// A row is `name: type = default, limits, workloads that have it, whether an experiment takes it, "help";`. The type is `u64` or
/// `bool`; a `bool` has no use for its limits.
macro_rules! settings {
    ($($name:ident: $type:ty = $default:expr, $limits:expr, $of:expr, $in_experiments:expr $(, $help:literal)?;)*) => {
        /// What a transaction consists of, under sysbench's names. Counts are statements a transaction.
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

        /// Every option there is, in the order in which people are told of them.
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

/// Stands for the limits of a `bool`.
pub(crate) const ON_OFF: RangeInclusive<u64> = 0..=1;
