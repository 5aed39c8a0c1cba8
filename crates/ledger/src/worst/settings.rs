// SPDX-License-Identifier: Apache-2.0
//! The server's settings as sizes and numbers. PostgreSQL writes a unit behind them.

use crate::share::sane;
use crate::{Inventory, Raised};
use capability::{Flavour, Version};
use std::collections::BTreeMap;

pub(crate) struct Settings<'a> {
    pub(crate) flavour: Option<Flavour>,
    pub(crate) version: Option<Version>,
    variables: Option<&'a BTreeMap<String, String>>,
    status: Option<&'a BTreeMap<String, String>>,
    raised: &'a [Raised],
}

impl<'a> Settings<'a> {
    pub(crate) fn of(inventory: &'a Inventory) -> Self {
        let server = inventory.server.as_ref();
        Self {
            flavour: inventory.flavour,
            version: inventory.version.as_deref().and_then(crate::account::version_in),
            variables: server.map(|it| &it.variables),
            status: server.map(|it| &it.status),
            raised: server.map_or(&[], |it| &it.raised),
        }
    }

    pub(crate) fn is_postgresql(&self) -> bool {
        self.flavour == Some(Flavour::Postgresql)
    }

    /// The server's value, or the largest one that a role or a database has.
    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        let own = || self.variables?.get(name);
        let raised = self.raised.iter().find(|it| it.name == name).map(|it| &it.value);
        raised.or_else(own).map(|value| value.trim())
    }

    /// The source of a line, with the roles and databases that have larger values for the settings in it than the server.
    pub(crate) fn noted(&self, source: &str) -> String {
        let mut words = source.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect::<Vec<_>>();
        words.sort_unstable();
        let named = self.raised.iter().filter(|it| words.binary_search(&it.name.as_str()).is_ok());
        named.fold(source.to_owned(), |source, it| source + &format!("; {} = {} of {}", it.name, it.value, it.by))
    }

    /// `ON`, `TempTable`, ... in small or capital letters.
    pub(crate) fn is(&self, name: &str, value: &str) -> bool {
        self.text(name).is_some_and(|text| text.eq_ignore_ascii_case(value))
    }

    /// In bytes, or a plain number. `None`: not known, or below zero, which means "as another setting says".
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        parsed(self.text(name)?)
    }

    pub(crate) fn status(&self, name: &str) -> Option<u64> {
        parsed(self.status?.get(name)?.trim())
    }

    /// Autovacuum's processes at once. From PostgreSQL 18 on, only so many run as there are slots.
    pub(crate) fn autovacuum_workers(&self) -> Option<u64> {
        let slots = self.number("autovacuum_worker_slots").unwrap_or(u64::MAX);
        Some(self.number("autovacuum_max_workers")?.min(slots))
    }

    /// Percona Server has what MySQL has. Of a server whose version is not known, only rows without ends hold.
    pub(crate) fn holds(&self, flavours: &[Flavour], since: &[u32], until: &[u32]) -> bool {
        let is_one = |it: Flavour| flavours.contains(&it) || it.base().is_some_and(|base| flavours.contains(&base));
        self.flavour.is_some_and(is_one) && crate::figures::holds(since, until, self.version.as_ref())
    }
}

/// `16384`, `128MB`, `2.0`: whole bytes. PostgreSQL's units are powers of 1024.
pub(crate) fn parsed(text: &str) -> Option<u64> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = match unit.trim() {
        "" | "B" => 1,
        "kB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        "TB" => 1 << 40,
        _ => return None,
    };
    let number: u64 = number.trim().parse().ok()?;
    Some(sane(number.saturating_mul(factor)))
}

/// `2.5` as 2500. `None`: no such number.
pub(crate) fn thousandths(text: &str) -> Option<u64> {
    let (whole, part) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let digits: String = part.chars().chain("000".chars()).take(3).collect();
    let (whole, part): (u64, u64) = (whole.parse().ok()?, digits.parse().ok()?);
    Some(sane(whole).saturating_mul(1000).saturating_add(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_servers_write_them() {
        for (text, bytes) in [
            ("16384", Some(16_384)),
            ("128MB", Some(128 << 20)),
            ("4096kB", Some(4 << 20)),
            ("0", Some(0)),
            ("-1", None),
            ("on", None),
            ("2min", None),
            ("18446744073709551615", Some(1 << 47)),
        ] {
            assert_eq!(parsed(text), bytes, "{text}");
        }
        assert_eq!([thousandths("2"), thousandths("1.5"), thousandths("x")], [Some(2000), Some(1500), None]);
    }
}
