// SPDX-License-Identifier: Apache-2.0
//! A row of the tables of buffers: {buffer, flavour, since, until} with its size, how often one session has it at once, and the source of that number.

use super::settings::Settings;
use capability::Flavour;

/// A buffer that one session may hold. The row holds for a flavour from `since` (included) up to `until` (excluded); an empty one is open.
pub(crate) struct Buffer {
    pub(crate) name: &'static str,
    pub(crate) flavours: &'static [Flavour],
    pub(crate) since: &'static [u32],
    pub(crate) until: &'static [u32],
    /// Only where this setting has this value.
    pub(crate) only: Option<(&'static str, &'static str)>,
    pub(crate) size: Size,
    pub(crate) times: Times,
    pub(crate) when: When,
    /// Where the number is known from.
    pub(crate) source: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Size {
    /// A setting.
    Of(&'static str),
    /// The least of two settings.
    Least(&'static str, &'static str),
    /// work_mem, or the memory that a hash may take by it, whichever is larger.
    Work,
    Bytes(u64),
}

/// How often one session may have it at once.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Times {
    Fixed(u64),
    /// For each sort, join or temporary table of a statement.
    Operations,
}

/// A session runs one statement at a time: a query or the making of an index, never both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    Query,
    Maintenance,
}

impl Buffer {
    pub(crate) const fn new(
        name: &'static str,
        flavours: &'static [Flavour],
        when: When,
        size: Size,
        times: Times,
        source: &'static str,
    ) -> Self {
        Self { name, flavours, since: &[], until: &[], only: None, size, times, when, source }
    }

    pub(crate) const fn since(self, since: &'static [u32]) -> Self {
        Self { since, ..self }
    }

    pub(crate) const fn until(self, until: &'static [u32]) -> Self {
        Self { until, ..self }
    }

    pub(crate) const fn only(self, name: &'static str, value: &'static str) -> Self {
        Self { only: Some((name, value)), ..self }
    }

    pub(crate) fn holds(&self, settings: &Settings<'_>) -> bool {
        let is_on = self.only.is_none_or(|(name, value)| settings.is(name, value));
        is_on && settings.holds(self.flavours, self.since, self.until)
    }

    pub(crate) fn times(&self, operations: u64) -> u64 {
        match self.times {
            Times::Fixed(times) => times,
            Times::Operations => operations,
        }
    }
}

impl Size {
    /// `None`: the server has no such setting, or it limits nothing.
    pub(crate) fn bytes(self, settings: &Settings<'_>) -> Option<u64> {
        let bytes = match self {
            Self::Bytes(bytes) => bytes,
            Self::Of(name) => settings.number(name)?,
            // a server that lacks the second one has no such limit
            Self::Least(one, other) => settings.number(one)?.min(settings.number(other).unwrap_or(u64::MAX)),
            Self::Work => work(settings)?,
        };
        (bytes > 0).then_some(bytes)
    }

    /// `sort_buffer_size`.
    pub(crate) fn setting(self) -> String {
        match self {
            Self::Of(name) => name.to_owned(),
            Self::Least(one, other) => format!("the least of {one} and {other}"),
            Self::Work => "work_mem x hash_mem_multiplier, where that is more than 1".to_owned(),
            Self::Bytes(_) => "the server's source".to_owned(),
        }
    }
}

fn work(settings: &Settings<'_>) -> Option<u64> {
    let multiplier = settings.text("hash_mem_multiplier").and_then(super::settings::thousandths);
    let work = u128::from(settings.number("work_mem")?);
    let most = work * u128::from(multiplier.unwrap_or(1000).max(1000)) / 1000;
    u64::try_from(most).ok().map(crate::share::sane)
}
