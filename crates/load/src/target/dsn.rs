// SPDX-License-Identifier: Apache-2.0
//! Connection strings: `mysql://user:password@host:port/database?socket=/run/mysqld/mysqld.sock&tls=require`, and the same with
//! `mariadb`, `postgresql` or `postgres`. `%40` and the like stand for characters that have another meaning there.

use super::{Endpoint, Password, Protocol, Target, Tls};
use crate::Error;
use std::path::PathBuf;
use std::str::FromStr;

impl FromStr for Target {
    type Err = Error;

    fn from_str(dsn: &str) -> Result<Self, Error> {
        parse(dsn).map_err(|reason| Error::Dsn { dsn: without_password(dsn), reason })
    }
}

/// The text without anything that may be a password, or a part of one that was not escaped.
fn without_password(dsn: &str) -> String {
    let Some((scheme, rest)) = dsn.split_once("://").filter(|(scheme, _)| is_plain_word(scheme)) else {
        return "...".to_owned();
    };
    let (account, place) = match rest.rsplit_once('@') {
        Some((account, place)) => (Some(account), place),
        None => (None, rest),
    };
    let user = account.map(|account| match account.split_once(':') {
        Some((user, _)) => format!("{user}:...@"),
        None => format!("{account}@"),
    });
    let (place, options) = place.split_once('?').unwrap_or((place, ""));
    // Without an account, the text after a colon may be a password whose host was forgotten.
    let place = match place.split_once(':') {
        Some((host, port)) if account.is_none() && !is_port(port) => return format!("{scheme}://{host}:..."),
        _ => place.to_owned(),
    };
    let names = options.split('&').filter_map(|option| Some(option.split_once('=')?.0));
    let options: Vec<String> = names.filter(|name| is_plain_word(name)).map(|name| format!("{name}=...")).collect();
    let options = if options.is_empty() { String::new() } else { format!("?{}", options.join("&")) };
    format!("{scheme}://{}{place}{options}", user.unwrap_or_default())
}

fn is_plain_word(text: &str) -> bool {
    (1..=16).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// A port, with or without a database after it.
fn is_port(text: &str) -> bool {
    text.split('/').next().is_some_and(|port| port.parse::<u16>().is_ok())
}

fn parse(dsn: &str) -> Result<Target, String> {
    let (scheme, rest) = dsn.split_once("://").ok_or("it begins with mysql:// or postgresql://")?;
    let protocol = match scheme {
        "mysql" | "mariadb" => Protocol::Mysql,
        "postgresql" | "postgres" | "pgsql" => Protocol::Postgresql,
        other if is_plain_word(other) => {
            return Err(format!("'{other}' is no driver; there are mysql, mariadb and postgresql"));
        }
        _ => return Err("it begins with mysql:// or postgresql://".to_owned()),
    };
    let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    // Otherwise a part of the password would be taken for the host, and would be shown.
    if database.contains(['@', '/']) || options.contains('@') {
        return Err("in names and passwords '/' is written %2F, '@' %40, ':' %3A, '?' %3F and '%' %25".to_owned());
    }
    let (account, place) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (user, password) = account.split_once(':').unwrap_or((account, ""));
    let mut target = Target {
        protocol,
        endpoint: tcp(place, protocol)?,
        user: decode(user).map_err(|why| format!("the name of the account {why}"))?,
        password: Password::new(decode(password).map_err(|why| format!("the password {why}"))?),
        database: Some(decode(database).map_err(|why| format!("the database {why}"))?).filter(|name| !name.is_empty()),
        tls: Tls::default(),
        tls_ca: None,
    };
    let mut tls = None;
    if target.user.is_empty() {
        target.user = default_user(protocol);
    }
    options.split('&').filter(|option| !option.is_empty()).try_for_each(|option| set(&mut target, &mut tls, option))?;
    target.tls = Tls::chosen(tls, target.tls_ca.is_some());
    Ok(target)
}

fn default_user(protocol: Protocol) -> String {
    match protocol {
        Protocol::Mysql => "root".to_owned(),
        Protocol::Postgresql => "postgres".to_owned(),
    }
}

fn tcp(place: &str, protocol: Protocol) -> Result<Endpoint, String> {
    let port_of = |text: &str| {
        let why = "what stands behind the host's ':' is no port; an account goes before the host, as in me:word@host";
        text.parse::<u16>().map_err(|_| why.to_owned())
    };
    let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, after)) => (address, after.strip_prefix(':')),
        None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
    };
    let port = port.map_or(Ok(protocol.default_port()), port_of)?;
    let host =
        if host.is_empty() { "localhost".to_owned() } else { decode(host).map_err(|why| format!("the host {why}"))? };
    Ok(at(host, port, protocol))
}

/// As in libpq, a host that begins with `/` is the folder of PostgreSQL's socket.
fn at(host: String, port: u16, protocol: Protocol) -> Endpoint {
    match protocol {
        Protocol::Postgresql if host.starts_with('/') => Endpoint::Socket(format!("{host}/.s.PGSQL.{port}").into()),
        _ => Endpoint::Tcp(host, port),
    }
}

fn set(target: &mut Target, tls: &mut Option<Tls>, option: &str) -> Result<(), String> {
    let decoded = |value| decode(value).map_err(|why| format!("the value of an option {why}"));
    let (key, value) = option.split_once('=').ok_or("what stands behind the '?' is key=value, joined by '&'")?;
    match key {
        "host" => {
            let port = match &target.endpoint {
                Endpoint::Tcp(_, port) => *port,
                Endpoint::Socket(_) => target.protocol.default_port(),
            };
            target.endpoint = at(decoded(value)?, port, target.protocol);
        }
        "socket" => target.endpoint = Endpoint::Socket(PathBuf::from(decoded(value)?)),
        "tls" | "sslmode" | "ssl-mode" => *tls = Some(value.parse()?),
        "sslrootcert" | "ssl-ca" => target.tls_ca = Some(PathBuf::from(decoded(value)?)),
        "password" => {
            return Err("a password stands before the host, as in me:word@host, or in MYSQL_PWD or PGPASSWORD".into());
        }
        other if is_plain_word(other) => {
            return Err(format!("'{other}' is no option; there are host, socket, tls and sslrootcert"));
        }
        _ => return Err("an option is not known; there are host, socket, tls and sslrootcert".into()),
    }
    Ok(())
}

impl FromStr for Tls {
    type Err = String;

    /// The values of PostgreSQL's `sslmode` and MySQL's `--ssl-mode`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "disable" | "disabled" | "off" => Ok(Self::Disable),
            "prefer" | "preferred" | "allow" => Ok(Self::Prefer),
            "require" | "required" | "on" => Ok(Self::Require),
            "verify-ca" | "verify_ca" => Ok(Self::VerifyCa),
            "verify-full" | "verify-identity" | "verify_identity" => Ok(Self::VerifyFull),
            other => {
                Err(format!("'{other}' is no TLS mode; there are disable, prefer, require, verify-ca and verify-full"))
            }
        }
    }
}

impl Tls {
    /// A user who names an authority wants it checked, also with `require`: libpq and the mysql client do the same.
    pub fn chosen(written: Option<Self>, has_ca: bool) -> Self {
        match written {
            None | Some(Self::Prefer | Self::Require) if has_ca => Self::VerifyCa,
            written => written.unwrap_or_default(),
        }
    }
}

/// # Errors
/// The mistake, without the text itself.
fn decode(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let hex = after.first_chunk::<2>().and_then(|hex| std::str::from_utf8(hex).ok());
        let value = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(value.ok_or_else(|| "has a % without two hexadecimal digits behind it".to_owned())?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_part() {
        let target: Target = "mysql://me%40here:p%3Aw@db.example:3307/sbtest?tls=require".parse().unwrap();
        assert_eq!(target.endpoint, Endpoint::Tcp("db.example".into(), 3307));
        assert_eq!((target.user.as_str(), target.password.reveal()), ("me@here", "p:w"));
        assert_eq!((target.database.as_deref(), target.tls), (Some("sbtest"), Tls::Require));
    }

    #[test]
    fn an_authority_is_checked() {
        let tls = |dsn: &str| dsn.parse::<Target>().map(|target| (target.tls, target.tls_ca)).unwrap();
        assert_eq!(tls("postgresql://db/x?sslrootcert=/ca.pem"), (Tls::VerifyCa, Some("/ca.pem".into())));
        assert_eq!(tls("postgresql://db/x?sslmode=require&sslrootcert=/ca.pem").0, Tls::VerifyCa);
        assert_eq!(tls("mysql://db/x?ssl-mode=VERIFY_IDENTITY&ssl-ca=%2Fca.pem").0, Tls::VerifyFull);
        assert_eq!(tls("mysql://db/x?tls=disable&ssl-ca=/ca.pem").0, Tls::Disable);
    }

    #[test]
    fn fills_in_what_is_not_said() {
        let target: Target = "postgresql://".parse().unwrap();
        assert_eq!(target.endpoint, Endpoint::Tcp("localhost".into(), 5432));
        assert_eq!((target.user.as_str(), target.database), ("postgres", None));
        let target: Target = "mariadb://root@/sbtest?socket=/run/mysqld/mysqld.sock".parse().unwrap();
        assert_eq!(target.endpoint, Endpoint::Socket("/run/mysqld/mysqld.sock".into()));
        let target: Target = "mysql://root@[::1]:3307".parse().unwrap();
        assert_eq!(target.endpoint, Endpoint::Tcp("::1".into(), 3307));
    }

    #[test]
    fn a_host_that_is_a_folder_is_postgresqls_socket() {
        let endpoint = |dsn: &str| dsn.parse::<Target>().unwrap().endpoint;
        let socket = Endpoint::Socket("/run/pg/.s.PGSQL.5433".into());
        assert_eq!(endpoint("postgresql://me@%2Frun%2Fpg:5433/x"), socket);
        assert_eq!(endpoint("postgresql://me@:5433/x?host=/run/pg"), socket);
        assert_eq!(endpoint("postgresql:///x?host=db.example"), Endpoint::Tcp("db.example".into(), 5432));
        assert_eq!(endpoint("mysql://me@[::1]:3307/x").to_string(), "[::1]:3307");
    }

    #[test]
    fn a_password_that_is_not_escaped_is_not_shown() {
        for dsn in ["mysql://a:p@se/cret@b:3306/x", "mysql://a:secret/y@b/x", "mysql://a:%secret@b/x"] {
            let refused = dsn.parse::<Target>().unwrap_err().to_string();
            assert!(!refused.contains("cret") && refused.contains('%'), "{refused}");
        }
    }

    /// The password stays hidden, whatever was mistyped around it.
    #[test]
    fn no_error_shows_a_password() {
        for dsn in [
            "mysql:/me:hush@db/x",
            "me:hush@db:3306/x",
            "hush",
            "me:hush@db://x",
            "mysql://me:hush",
            "mysql://me:hush/x",
            "mysql://me:hu?hush@db/x",
            "mysql://me:pa?hush",
            "mysql://me@db/x?password=hush",
            "mysql://me@db/x?pwd=hush",
            "mysql://me@db/x?hush",
            "mysql://me@db/x?tls=require&me:hush",
            "mysql://me:%zzhush@db/x",
            "mysql://me:%ffhush@db/x",
            "oracle://me:hush@db/x",
            "mysql://me:hush@db:port/x",
            "mysql://me:1#hush@db:port/x",
        ] {
            let refused = dsn.parse::<Target>().unwrap_err().to_string();
            assert!(!refused.contains("hush"), "{dsn} says {refused}");
        }
    }

    #[test]
    fn refuses_with_a_reason_and_without_the_password() {
        let refused = |dsn: &str| dsn.parse::<Target>().unwrap_err().to_string();
        assert!(refused("oracle://x").contains("'oracle' is no driver"));
        assert!(refused("mysql://a@b:port").contains("is no port"));
        assert!(refused("mysql://a:secret@b/?colour=red").contains("'colour' is no option"));
        assert!(!refused("mysql://a:secret@b/?colour=red").contains("secret"));
        assert!(!refused("mysql://a:sec@ret@b/?tls=maybe").contains("ret"));
    }
}
