// SPDX-License-Identifier: Apache-2.0
//! The table: {capability, flavour, since, until} with the words that hold there, and their source.
//!
//! Several words mean: try them in this order, unless the capability says otherwise. Every row that begins or ends with a version
//! names its source; "seen in" is a real server of that version, asked.

mod family;
mod mariadb;
mod mysql;
mod percona;
mod postgresql;

use crate::{Capability, Flavour, Gauges, Version};

/// Holds from `since` (included) up to `until` (excluded); an empty `since` or `until` is open.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pub capability: Capability,
    pub flavour: Flavour,
    pub since: &'static [u32],
    pub until: &'static [u32],
    pub words: &'static [&'static str],
    /// The source of the versions; empty where all versions are the same.
    pub source: &'static str,
    /// The gauges, for a capability that yields numbers.
    pub gauges: Gauges,
}

/// Rows of one flavour: `Capability [since] .. [until] => [words]`, the source, and the lists of gauges.
macro_rules! table {
    ($flavour:ident: $($capability:ident [$($since:literal),*] .. [$($until:literal),*] => $words:expr
        $(, $source:literal)? $(, gauges $gauges:expr)?;)*) => {
        &[$(crate::table::Entry {
            capability: crate::Capability::$capability,
            flavour: crate::Flavour::$flavour,
            since: &[$($since),*],
            until: &[$($until),*],
            words: &$words,
            source: concat!($($source)?),
            gauges: crate::table::gauges_of!($($gauges)?),
        }),*]
    };
}
use table;

macro_rules! gauges_of {
    () => {
        crate::Gauges(&[])
    };
    ($lists:expr) => {
        crate::Gauges(&$lists)
    };
}
use gauges_of;

const TABLES: [&[Entry]; 4] = [mariadb::TABLE, mysql::TABLE, percona::TABLE, postgresql::TABLE];

/// Every row, flavour by flavour; newer versions first within a capability.
pub fn entries() -> impl Iterator<Item = &'static Entry> {
    TABLES.into_iter().flatten()
}

/// The words for `capability` in this version; none when the server lacks it. Where a flavour has no row that covers the version, the row of its base
/// flavour holds.
pub fn words(capability: Capability, flavour: Flavour, version: &Version) -> &'static [&'static str] {
    entry(capability, flavour, version).map_or(&[], |entry| entry.words)
}

/// Which of the numbers that `capability` yields in this version are no counters.
pub fn gauges(capability: Capability, flavour: Flavour, version: &Version) -> Gauges {
    entry(capability, flavour, version).map(|entry| entry.gauges).unwrap_or_default()
}

fn entry(capability: Capability, flavour: Flavour, version: &Version) -> Option<&'static Entry> {
    let own = rows(capability, flavour).find(|entry| entry.covers(version));
    own.or_else(|| entry(capability, flavour.base()?, version))
}

/// Whether this version has the capability.
pub fn has(capability: Capability, flavour: Flavour, version: &Version) -> bool {
    !words(capability, flavour, version).is_empty()
}

fn rows(capability: Capability, flavour: Flavour) -> impl Iterator<Item = &'static Entry> {
    entries().filter(move |entry| entry.capability == capability && entry.flavour == flavour)
}

/// The oldest version for which `capability` stands in the table.
pub fn first_since(capability: Capability, flavour: Flavour) -> Option<Version> {
    rows(capability, flavour).map(|entry| Version::of(entry.since)).min()
}

/// The words for `capability` in any version, newest names first: for a search before the version is known.
pub fn any_words(capability: Capability, flavour: Flavour) -> Vec<&'static str> {
    let mut found: Vec<&'static str> = Vec::new();
    if let (None, Some(base)) = (rows(capability, flavour).next(), flavour.base()) {
        return any_words(capability, base);
    }
    for entry in rows(capability, flavour) {
        found.extend(entry.words.iter().filter(|word| !found.contains(word)).copied().collect::<Vec<_>>());
    }
    found
}

/// The number that [`Capability::StopSignal`] names; SIGTERM where the table says nothing.
pub fn stop_signal(flavour: Flavour, version: &Version) -> i32 {
    words(Capability::StopSignal, flavour, version).first().and_then(|word| word.parse().ok()).unwrap_or(15)
}

impl Entry {
    fn covers(&self, version: &Version) -> bool {
        let before_end = self.until.is_empty() || *version < Version::of(self.until);
        *version >= Version::of(self.since) && before_end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().expect("a version")
    }

    #[test]
    fn words_follow_the_version() {
        let name = |text| words(Capability::ServerProgram, Flavour::Mariadb, &version(text))[0];
        assert_eq!((name("10.4.34"), name("10.5.0"), name("11.8.3")), ("mysqld", "mariadbd", "mariadbd"));
        assert!(words(Capability::FlushMethod, Flavour::Postgresql, &version("15.20")).is_empty());
        assert!(!words(Capability::FlushMethod, Flavour::Postgresql, &version("16.1")).is_empty());
    }

    #[test]
    fn no_two_entries_overlap() {
        let all: Vec<&Entry> = entries().collect();
        for (index, one) in all.iter().enumerate() {
            for other in &all[index + 1..] {
                let same = one.capability == other.capability && one.flavour == other.flavour;
                let disjoint = (!other.until.is_empty() && other.until <= one.since)
                    || (!one.until.is_empty() && one.until <= other.since);
                assert!(!same || disjoint, "{one:?} and {other:?}");
            }
        }
    }

    #[test]
    fn every_version_has_a_source() {
        for entry in entries().filter(|entry| !entry.since.is_empty() || !entry.until.is_empty()) {
            assert!(entry.source.len() > 8, "{entry:?}");
        }
    }

    #[test]
    fn a_flavour_is_what_it_is_made_from_but_for_its_own_rows() {
        let version = version("8.0.36");
        assert_eq!(words(Capability::ServerProgram, Flavour::Percona, &version), ["mysqld"]);
        assert_eq!(stop_signal(Flavour::Percona, &version), 15);
        assert!(any_words(Capability::ServerPackage, Flavour::Percona).is_empty(), "MySQL's package is not Percona's");
    }

    #[test]
    fn a_capability_that_came_to_several_series_is_not_between_them() {
        let has = |text| has(Capability::CachingSha2Password, Flavour::Mariadb, &version(text));
        let had: Vec<bool> = ["11.4.8", "11.4.9", "11.5.2", "11.8.3", "11.8.4", "12.0.2", "12.1.2"].map(has).to_vec();
        assert_eq!(had, [false, true, false, false, true, false, true]);
    }

    #[test]
    fn replication_is_told_in_the_words_of_the_version() {
        let change =
            |flavour, text: &str| words(Capability::ReplicationWords, flavour, &version(text)).first().copied();
        assert_eq!(change(Flavour::Mariadb, "10.11.19"), Some("CHANGE MASTER TO"));
        assert_eq!(change(Flavour::Mysql, "8.0.25"), Some("CHANGE MASTER TO"));
        assert_eq!(change(Flavour::Mysql, "9.7.4"), Some("CHANGE REPLICATION SOURCE TO"));
        assert_eq!(change(Flavour::Percona, "8.0.36"), Some("CHANGE REPLICATION SOURCE TO"));
        let has = |flavour, text: &str| has(Capability::ReplicaOption, flavour, &version(text));
        assert!(!has(Flavour::Mysql, "5.6.24") && has(Flavour::Mysql, "8.0.25") && has(Flavour::Mysql, "9.7.4"));
        assert!(!has(Flavour::Postgresql, "12.20") && has(Flavour::Postgresql, "15.18"));
    }

    #[test]
    fn stop_signals() {
        assert_eq!(stop_signal(Flavour::Mariadb, &version("10.11.19")), 15);
        assert_eq!(stop_signal(Flavour::Postgresql, &version("15.20")), 2);
    }
}
