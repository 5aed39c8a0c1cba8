// SPDX-License-Identifier: Apache-2.0
//! Options that are decided when a data directory is made, and that no later start can change ([`Capability::InitOption`]).

use crate::{Error, Flavour, Installation, ServerOption};
use capability::{Capability, Version, any_words, words};
use units::Bytes;

/// The keys of these options. `version`: `None` while it is not known; then those of any version.
pub fn init_keys(flavour: Flavour, version: Option<&Version>) -> Vec<&'static str> {
    let found = match version {
        Some(version) => words(Capability::InitOption, flavour, version).to_vec(),
        None => any_words(Capability::InitOption, flavour),
    };
    found.iter().filter_map(|word| word.split('=').next()).collect()
}

impl Installation {
    /// Those of these options that are decided when the data directory is made: the server must be deployed with them.
    pub fn init_options(&self, options: &[ServerOption]) -> Vec<ServerOption> {
        options.iter().filter(|option| self.is_init_option(option)).cloned().collect()
    }

    /// Those of these options that a start takes: without those that only the init program knows.
    pub fn start_options(&self, options: &[ServerOption]) -> Vec<ServerOption> {
        let is_for_init = |option: &&ServerOption| self.init_words().any(|(key, ..)| key == option.key());
        options.iter().filter(|option| !is_for_init(option)).cloned().collect()
    }

    pub(crate) fn is_init_option(&self, option: &ServerOption) -> bool {
        let key = option.key().strip_prefix("loose_").unwrap_or(option.key());
        init_keys(self.flavour, Some(&self.version)).contains(&key)
    }

    /// The init program's argument for `key=value`; `None`: that value is the default anyway, or the init program is not told.
    ///
    /// # Errors
    /// The init program knows no such value.
    pub(crate) fn init_argument(&self, option: &ServerOption) -> Result<Option<String>, Error> {
        let written = option.value().unwrap_or("on");
        let of_key: Vec<_> = self.init_words().filter(|(key, ..)| *key == option.key()).collect();
        let takes = match of_key.first() {
            None => return Ok(None),
            Some((_, "", _)) => "initdb takes a power of two from 1MB to 1GB",
            Some(_) => "initdb takes on or off",
        };
        let found = of_key.iter().find_map(|(_, known, argument)| match *known {
            "" => Some(argument.replace("{value}", &megabytes(written)?)),
            known => (known == truth(written)).then(|| (*argument).to_owned()),
        });
        let unknown = || Error::ServerOption { option: option.to_string(), why: takes };
        found.map(|argument| Some(argument).filter(|it| !it.is_empty())).ok_or_else(unknown)
    }

    /// The options of the init program: key, value (empty: a size in MiB), and argument.
    fn init_words(&self) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
        let words = words(Capability::InitOption, self.flavour, &self.version);
        words.iter().filter_map(|word| {
            let (assignment, argument) = word.split_once(':')?;
            let (key, value) = assignment.split_once('=')?;
            Some((key, value, argument))
        })
    }
}

/// A truth value as PostgreSQL's configuration takes it, as `on` or `off`; another text as it is.
fn truth(written: &str) -> String {
    let small = written.to_lowercase();
    match small.as_str() {
        "on" | "true" | "yes" | "1" => "on".into(),
        "off" | "false" | "no" | "0" => "off".into(),
        _ => small,
    }
}

/// A size as PostgreSQL writes it (`32MB`), in whole MiB; a number alone is MiB already.
fn megabytes(written: &str) -> Option<String> {
    let mib = match written.parse::<u64>() {
        Ok(mib) => mib,
        Err(_) => {
            let bytes = written.parse::<Bytes>().ok()?.0;
            (bytes % Bytes::MIB == 0).then_some(bytes / Bytes::MIB)?
        }
    };
    (mib.is_power_of_two() && mib <= 1024).then(|| mib.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::installation::tests::installation;

    fn options(texts: &[&str]) -> Vec<ServerOption> {
        texts.iter().map(|text| text.parse().expect("an option")).collect()
    }

    #[test]
    fn a_size_and_a_truth_are_told_to_initdb_in_its_own_words() {
        let postgresql = installation(Flavour::Postgresql, "15.18");
        let told = |text: &str| postgresql.init_argument(&options(&[text])[0]).ok().map(Option::unwrap_or_default);
        for (option, argument) in [
            ("wal_segment_size=32MB", Some("--wal-segsize=32")),
            ("wal_segment_size=1GB", Some("--wal-segsize=1024")),
            ("wal_segment_size=64", Some("--wal-segsize=64")),
            ("wal_segment_size=48MB", None),
            ("wal_segment_size=512kB", None),
            ("wal_segment_size=2GB", None),
            ("data_checksums=true", Some("--data-checksums")),
            ("data_checksums=on", Some("--data-checksums")),
            ("data_checksums=False", Some("")),
            ("data_checksums=maybe", None),
            ("shared_buffers=1GB", Some("")),
        ] {
            assert_eq!(told(option).as_deref(), argument, "{option}");
        }
    }

    #[test]
    fn what_the_directory_is_made_with_and_what_a_start_takes() {
        let both = |flavour, version, texts: &[&str]| {
            let installation = installation(flavour, version);
            let told = |options: Vec<ServerOption>| options.iter().map(ToString::to_string).collect::<Vec<_>>();
            (told(installation.init_options(&options(texts))), told(installation.start_options(&options(texts))))
        };
        let (init, start) = both(Flavour::Postgresql, "15.18", &["wal_segment_size=32MB", "shared_buffers=1GB"]);
        assert_eq!((init, start), (vec!["wal_segment_size=32MB".into()], vec!["shared_buffers=1GB".into()]));
        let texts = ["innodb-page-size=8k", "loose_innodb_data_file_path=ibdata1:24M", "innodb_doublewrite=0"];
        let (init, start) = both(Flavour::Mariadb, "10.11.19", &texts);
        assert_eq!(init, ["innodb_page_size=8k", "loose_innodb_data_file_path=ibdata1:24M"]);
        assert_eq!(start.len(), 3, "the server takes them at each start");
        let names = ["lower_case_table_names=1"];
        assert!(both(Flavour::Mariadb, "10.11.19", &names).0.is_empty());
        assert_eq!(both(Flavour::Percona, "8.0.36", &names).0, names);
    }
}
