// SPDX-License-Identifier: Apache-2.0
//! Server options as people write them: `key=value`, or a key alone where the server accepts that.

use crate::{Error, Flavour};
use capability::is_kept;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// One server variable. Keys are kept with `_`; for MariaDB and MySQL `-` means the same, and PostgreSQL has no `-` in keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ServerOption {
    key: String,
    value: Option<String>,
}

impl ServerOption {
    /// # Errors
    /// The key is empty or has other characters than letters, digits, `_`, `-` and `.`; the value has a line end.
    pub fn new(key: &str, value: Option<&str>) -> Result<Self, Error> {
        let option = || value.map_or(key.to_owned(), |value| format!("{key}={value}"));
        let key_text = key.trim().trim_start_matches("--").replace('-', "_");
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        if key_text.is_empty() || !key_text.chars().all(plain) {
            return Err(Error::ServerOption { option: option(), why: "it is written key=value" });
        }
        if value.is_some_and(|value| value.contains(['\n', '\r', '\0'])) {
            return Err(Error::ServerOption { option: option(), why: "a value has no line ends" });
        }
        Ok(Self { key: key_text, value: value.map(|value| value.trim().to_owned()) })
    }

    /// An option that somebody asks for in addition to the sandbox's own settings.
    ///
    /// # Errors
    /// The errors of [`ServerOption::new`]; the sandbox sets this option itself.
    pub fn asked(text: &str) -> Result<Self, Error> {
        let option: Self = text.parse()?;
        match (is_kept(&option.key), option.key.as_str()) {
            (false, _) => Ok(option),
            (true, "port") => {
                Err(Error::ServerOption { option: text.into(), why: "`deploy --port N` chooses the port" })
            }
            (true, _) => Err(Error::ServerOption { option: text.into(), why: "the sandbox sets this itself" }),
        }
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn value(&self) -> Option<&str> {
        self.value.as_deref()
    }

    /// The option as a line of the server's own configuration file.
    ///
    /// # Errors
    /// PostgreSQL has no keys without a value.
    pub(crate) fn to_line(&self, flavour: Flavour) -> Result<String, Error> {
        match (flavour, &self.value) {
            (Flavour::Mariadb | Flavour::Mysql | Flavour::Percona, None) => Ok(self.key.clone()),
            (Flavour::Mariadb | Flavour::Mysql | Flavour::Percona, Some(value)) => {
                Ok(format!("{} = {}", self.key, quote_mariadb(value)))
            }
            (Flavour::Postgresql, Some(value)) => Ok(format!("{} = {}", self.key, quote_postgresql(value))),
            (Flavour::Postgresql, None) => Err(self.without_value()),
        }
    }

    /// The option as arguments of the server program.
    pub(crate) fn to_arguments(&self, flavour: Flavour) -> Result<Vec<String>, Error> {
        match (flavour, &self.value) {
            (Flavour::Mariadb | Flavour::Mysql | Flavour::Percona, _) => Ok(vec![format!("--{self}")]),
            (Flavour::Postgresql, Some(_)) => Ok(vec!["-c".into(), self.to_string()]),
            (Flavour::Postgresql, None) => Err(self.without_value()),
        }
    }

    fn without_value(&self) -> Error {
        Error::ServerOption { option: self.key.clone(), why: "PostgreSQL's options are written key=value" }
    }
}

/// Later options replace earlier ones of the same key. For MariaDB and MySQL `skip_x` and `x` are one key.
pub(crate) fn overlay(base: &[ServerOption], over: &[ServerOption]) -> Vec<ServerOption> {
    let plain = |option: &ServerOption| option.key.trim_start_matches("skip_").to_owned();
    let mut all: Vec<ServerOption> = Vec::new();
    for option in base.iter().chain(over) {
        all.retain(|earlier| plain(earlier) != plain(option));
        all.push(option.clone());
    }
    all
}

/// A value for the option files of MariaDB and MySQL, with quotes and backslashes (option-files, "Option File Syntax"); there `#` begins a comment.
pub(crate) fn quote_mariadb(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:,+@%=".contains(c);
    if !value.is_empty() && value.chars().all(plain) {
        return value.to_owned();
    }
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A value for postgresql.conf: in single quotes, which are doubled inside the value; a backslash escapes (guc-file.l).
pub(crate) fn quote_postgresql(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "''"))
}

impl fmt::Display for ServerOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value}", self.key),
            None => f.write_str(&self.key),
        }
    }
}

impl FromStr for ServerOption {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.split_once('=') {
            Some((key, value)) => Self::new(key, Some(value)),
            None => Self::new(text, None),
        }
    }
}

impl TryFrom<String> for ServerOption {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<ServerOption> for String {
    fn from(option: ServerOption) -> Self {
        option.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(text: &str) -> ServerOption {
        text.parse().expect("an option")
    }

    #[test]
    fn lines_and_arguments() {
        let size = option("--innodb-buffer-pool-size=8M");
        assert_eq!(size.to_line(Flavour::Mariadb).expect("a line"), "innodb_buffer_pool_size = 8M");
        assert_eq!(size.to_arguments(Flavour::Mariadb).expect("arguments"), ["--innodb_buffer_pool_size=8M"]);
        let odd = option("x.y=it's # \\ \"odd\"");
        assert_eq!(odd.to_line(Flavour::Postgresql).expect("a line"), "x.y = 'it''s # \\\\ \"odd\"'");
        assert_eq!(odd.to_line(Flavour::Mariadb).expect("a line"), "x.y = \"it's # \\\\ \\\"odd\\\"\"");
        assert!(option("fsync").to_line(Flavour::Postgresql).is_err());
        assert!("a b=1".parse::<ServerOption>().is_err());
        assert!("a=1\nb=2".parse::<ServerOption>().is_err());
    }

    #[test]
    fn what_the_sandbox_sets_is_not_for_others() {
        assert_eq!(ServerOption::asked("max_connections=9").expect("an option"), option("max_connections=9"));
        for (text, why) in [
            ("datadir=/var/lib/mysql", "the sandbox sets this itself"),
            ("--loose-socket=/tmp/s", "the sandbox sets this itself"),
            ("hba_file=/etc/hba", "the sandbox sets this itself"),
            ("port=3306", "--port"),
        ] {
            let refused = ServerOption::asked(text).expect_err(text).to_string();
            assert!(refused.contains(text) && refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn later_options_win() {
        let base = [option("skip_log_bin"), option("port=1")];
        let all = overlay(&base, &[option("log-bin=on"), option("port=2")]);
        assert_eq!(all, [option("log_bin=on"), option("port=2")]);
    }
}
