// SPDX-License-Identifier: Apache-2.0
//! Connection data that a user has already written down for the servers' own clients: environment variables, `.my.cnf`, `.pgpass`. Pure: text in.

use crate::option_file;
use load::{Endpoint, Password, Protocol, Target, Tls};
use std::path::{Path, PathBuf};

/// Parts of a connection; what is `None` is left to the next source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parts {
    pub host: Option<String>,
    pub port: Option<u16>,
    pub socket: Option<PathBuf>,
    pub user: Option<String>,
    pub password: Option<Password>,
    pub database: Option<String>,
    pub tls: Option<Tls>,
    pub tls_ca: Option<PathBuf>,
}

impl Parts {
    /// The variables that the servers' own clients read (`MYSQL_PWD`, `PGHOST`, ...). `variable` looks one up.
    pub fn from_environment(protocol: Protocol, variable: impl Fn(&str) -> Option<String>) -> Self {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        match protocol {
            Protocol::Mysql => Self {
                host: variable("MYSQL_HOST"),
                port: variable("MYSQL_TCP_PORT").and_then(|port| port.parse().ok()),
                socket: variable("MYSQL_UNIX_PORT").map(PathBuf::from),
                password: variable("MYSQL_PWD").map(Password::new),
                ..Self::default()
            },
            Protocol::Postgresql => Self {
                host: variable("PGHOST"),
                port: variable("PGPORT").and_then(|port| port.parse().ok()),
                socket: None,
                user: variable("PGUSER"),
                password: variable("PGPASSWORD").map(Password::new),
                database: variable("PGDATABASE"),
                tls: variable("PGSSLMODE").and_then(|mode| mode.parse().ok()),
                tls_ca: variable("PGSSLROOTCERT").map(PathBuf::from),
            },
        }
    }

    /// The groups of a MySQL option file that its command line client reads, and those with `suffix` behind their names
    /// (`--defaults-group-suffix`). `!include` lines are not followed.
    ///
    /// # Errors
    /// A value that is not valid, with its line. If it were ignored, the connection could go to another server, or have less encryption than was
    /// asked for.
    pub fn from_my_cnf(text: &str, suffix: &str) -> Result<Self, String> {
        let mut parts = Self::default();
        let mut ours = false;
        for (number, line) in (1..).zip(text.lines().map(str::trim)) {
            if let Some(group) = line.strip_prefix('[') {
                let group = group.split(']').next().unwrap_or_default();
                let with_suffix = group.strip_suffix(suffix).unwrap_or(group);
                ours = [group, with_suffix].iter().any(|group| MY_CNF_GROUPS.contains(group));
            } else if let (true, Some((key, value))) = (ours, line.split_once('=')) {
                let key = key.trim().replace('_', "-");
                let set = parts.set_my_cnf(&key, &option_file::value(value));
                set.map_err(|why| format!("line {number}, {key}: {why}"))?;
            }
        }
        Ok(parts)
    }

    fn set_service(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "host" | "hostaddr" => self.host = Some(value.to_owned()),
            "port" => self.port = Some(value.parse().map_err(|_| format!("'{value}' is no port"))?),
            "user" => self.user = Some(value.to_owned()),
            "password" => self.password = Some(Password::new(value)),
            "dbname" => self.database = Some(value.to_owned()),
            "sslmode" => self.tls = Some(value.parse()?),
            "sslrootcert" => self.tls_ca = Some(PathBuf::from(value)),
            // options that tune a connection, and do not say where it goes
            _ => {}
        }
        Ok(())
    }

    fn set_my_cnf(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "host" => self.host = Some(value.to_owned()),
            "port" => self.port = Some(value.parse().map_err(|_| format!("'{value}' is no port"))?),
            "socket" => self.socket = Some(PathBuf::from(value)),
            "user" => self.user = Some(value.to_owned()),
            "password" => self.password = Some(Password::new(value)),
            "database" => self.database = Some(value.to_owned()),
            "ssl-mode" => self.tls = Some(value.parse()?),
            "ssl-ca" => self.tls_ca = Some(PathBuf::from(value)),
            _ => {}
        }
        Ok(())
    }

    /// Takes the parts that are missing here from `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        // a socket that is set here is not mixed with a host of `other`, nor a host with a socket
        let place_known = self.host.is_some() || self.socket.is_some();
        Self {
            host: self.host.or(other.host.filter(|_| !place_known)),
            socket: self.socket.or(other.socket.filter(|_| !place_known)),
            port: self.port.or(other.port),
            user: self.user.or(other.user),
            password: self.password.or(other.password),
            database: self.database.or(other.database),
            tls: self.tls.or(other.tls),
            tls_ca: self.tls_ca.or(other.tls_ca),
        }
    }

    /// Fills the rest in as the servers' own clients do; `exists` tells whether a server's socket is there. With no host, or with
    /// `localhost` and no port for MySQL, a socket in its usual place is taken.
    pub fn into_target(self, protocol: Protocol, login: &str, exists: impl Fn(&Path) -> bool) -> Target {
        let port = self.port.unwrap_or(protocol.default_port());
        let endpoint = self.socket.clone().map(Endpoint::Socket).unwrap_or_else(|| match (&self.host, protocol) {
            (Some(folder), Protocol::Postgresql) if folder.starts_with('/') => postgresql_socket(folder, port),
            (Some(host), Protocol::Mysql) if host == "localhost" && self.port.is_none() => {
                usual_socket(protocol, port, &exists)
            }
            (None, Protocol::Mysql) if self.port.is_some() => Endpoint::Tcp("localhost".into(), port),
            (None, _) => usual_socket(protocol, port, &exists),
            (Some(host), _) => Endpoint::Tcp(host.clone(), port),
        });
        Target {
            protocol,
            endpoint,
            user: self.user.unwrap_or_else(|| login.to_owned()),
            password: self.password.unwrap_or_default(),
            database: self.database,
            tls: Tls::chosen(self.tls, self.tls_ca.is_some()),
            tls_ca: self.tls_ca,
        }
    }
}

/// The folders in which PostgreSQL's socket is by default: Debian's, and PostgreSQL's own.
const POSTGRESQL_FOLDERS: [&str; 3] = ["/run/postgresql", "/var/run/postgresql", "/tmp"];

fn postgresql_socket(folder: &str, port: u16) -> Endpoint {
    Endpoint::Socket(Path::new(folder).join(format!(".s.PGSQL.{port}")))
}

fn usual_socket(protocol: Protocol, port: u16, exists: &impl Fn(&Path) -> bool) -> Endpoint {
    let places = match protocol {
        Protocol::Mysql => {
            ["/run/mysqld/mysqld.sock", "/var/lib/mysql/mysql.sock", "/tmp/mysql.sock"].map(PathBuf::from)
        }
        Protocol::Postgresql => POSTGRESQL_FOLDERS.map(|folder| Path::new(folder).join(format!(".s.PGSQL.{port}"))),
    };
    let found = places.into_iter().find(|place| exists(place));
    found.map_or_else(|| Endpoint::Tcp("localhost".into(), port), Endpoint::Socket)
}

/// The groups of an option file that the command line clients of MySQL and MariaDB read.
const MY_CNF_GROUPS: [&str; 6] = ["client", "client-mariadb", "client-server", "mysql", "mariadb-client", "mariadb"];

/// What a client asks the service file of PostgreSQL for (`pg_service.conf`, libpq): `[name]`, then `key=value` without quotes.
/// `None`: it has no such service.
///
/// # Errors
/// The key that libpq would refuse, or a value that is not valid.
pub(crate) fn from_service_file(text: &str, service: &str) -> Result<Option<Parts>, String> {
    let mut found: Option<Parts> = None;
    let mut ours = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            if found.is_some() {
                // the first service of that name counts
                break;
            }
            ours = name.strip_suffix(']') == Some(service);
            found = ours.then(Parts::default);
        } else if let Some(parts) = found.as_mut().filter(|_| ours) {
            let wrong = |what: &str| format!("line {} of the service file: {what}", index + 1);
            let (key, value) = line.split_once('=').ok_or_else(|| wrong("no key=value"))?;
            parts.set_service(key.trim(), value.trim()).map_err(|what| wrong(&what))?;
        }
    }
    Ok(found)
}

/// The password in a `.pgpass` file for this target: the first line whose five fields fit (`*` fits all, `\` escapes). As in libpq,
/// a socket is looked up by its folder and the number in its name; the usual folder is `localhost`, too.
pub(crate) fn password_from_pgpass(text: &str, target: &Target) -> Option<Password> {
    let (hosts, port) = match &target.endpoint {
        Endpoint::Socket(path) => places_of_socket(path),
        Endpoint::Tcp(host, port) => (vec![host.clone()], port.to_string()),
    };
    let database = target.database.as_deref().unwrap_or(&target.user);
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = pgpass_fields(line);
        let [its_host, its_port, its_database, its_user, password] = fields.as_slice() else { return None };
        let fits = |field: &str, value: &str| field == "*" || value.is_empty() || field == value;
        let all = hosts.iter().any(|host| fits(its_host, host))
            && fits(its_port, &port)
            && fits(its_database, database)
            && fits(its_user, &target.user);
        all.then(|| Password::new(password.as_str()))
    })
}

/// How a password file names the server at this socket, and its port; no port where the file's name has none.
fn places_of_socket(path: &Path) -> (Vec<String>, String) {
    let folder = path.parent().unwrap_or(path).to_string_lossy().into_owned();
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let port = name.strip_prefix(".s.PGSQL.").unwrap_or_default().to_owned();
    let usual = POSTGRESQL_FOLDERS.contains(&folder.as_str()).then(|| "localhost".to_owned());
    (usual.into_iter().chain([folder]).collect(), port)
}

fn pgpass_fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match (character, fields.len(), fields.last_mut()) {
            // the password may hold colons
            (':', 1..=4, _) => fields.push(String::new()),
            ('\\', _, Some(field)) => field.extend(characters.next()),
            (other, _, Some(field)) => field.push(other),
            _ => {}
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn my_cnf_gives_the_client_groups_alone() {
        let text = "# mine\n[mysqld]\nport=1\n[client]\nuser = me\npassword=\"a b\"\nsocket=/s\nssl-ca=/ca.pem\n[mysql]\ndatabase=d\n[other]\nuser=x\n";
        let parts = Parts::from_my_cnf(text, "").unwrap();
        assert_eq!((parts.user.as_deref(), parts.port, parts.database.as_deref()), (Some("me"), None, Some("d")));
        assert_eq!(parts.password.unwrap().reveal(), "a b");
        assert_eq!(parts.socket, Some(PathBuf::from("/s")));
        assert_eq!(parts.tls_ca, Some(PathBuf::from("/ca.pem")));
    }

    #[test]
    fn a_value_that_is_none_is_an_error_with_its_line() {
        let refused = |text: &str| Parts::from_my_cnf(text, "").unwrap_err();
        let mode = refused("# mine\n[client]\nuser=me\nssl_mode = REQUIERD # always\n");
        assert!(mode.starts_with("line 4, ssl-mode: 'requierd' is no TLS mode"), "{mode}");
        assert!(mode.contains("verify-ca") && mode.contains("require"), "{mode}");
        assert_eq!(refused("[client]\nport=33o6\n"), "line 2, port: '33o6' is no port");
        assert!(Parts::from_my_cnf("[mysqld]\nport=x\n[client]\nport=1 # mine\n", "").is_ok());
    }

    #[test]
    fn groups_with_a_suffix_and_comments_behind_values() {
        let text = "[client]\nuser=me # not part of it\npassword='a # b'\nport=3306\n[client-shop] # the shop\nhost=db\nssl_ca=/ca.pem\n[mariadb]\ndatabase=d\n";
        let parts = Parts::from_my_cnf(text, "-shop").unwrap();
        assert_eq!(
            (parts.user.as_deref(), parts.host.as_deref(), parts.database.as_deref()),
            (Some("me"), Some("db"), Some("d"))
        );
        assert_eq!((parts.password.unwrap().reveal(), parts.tls_ca), ("a # b", Some(PathBuf::from("/ca.pem"))));
        assert_eq!(Parts::from_my_cnf(text, "").unwrap().host, None);
    }

    #[test]
    fn a_value_that_is_written_into_an_option_file_is_read_back() {
        let plain = [
            "",
            "word",
            " a b ",
            "a#b",
            "a # b",
            "it's",
            "say \"x\"",
            "C:\\new",
            "\\",
            "'",
            "\"#",
            "a\tb\r\n\u{8}",
            "ü",
        ];
        for plain in plain {
            let written = option_file::written(plain);
            let text = format!("[client]\nuser = me\npassword = {written}\nsocket = {written}\n");
            let parts = Parts::from_my_cnf(&text, "").unwrap();
            assert_eq!(parts.password.unwrap().reveal(), plain, "{text}");
            assert_eq!(parts.socket.unwrap().to_str(), Some(plain), "{text}");
            assert_eq!(parts.user.as_deref(), Some("me"));
        }
    }

    #[test]
    fn a_service_of_postgresql() {
        let text = "# ours\n[other]\nhost=x\n[shop]\nhost=db.example\nport=5433\nuser=me\ndbname=shop\nsslmode=verify-full\nsslrootcert=/ca.pem\nconnect_timeout=3\n[shop]\nhost=y\n";
        let parts = from_service_file(text, "shop").unwrap().unwrap();
        assert_eq!(
            (parts.host.as_deref(), parts.port, parts.database.as_deref()),
            (Some("db.example"), Some(5433), Some("shop"))
        );
        assert_eq!((parts.user.as_deref(), parts.tls), (Some("me"), Some(Tls::VerifyFull)));
        assert_eq!(from_service_file(text, "none"), Ok(None));
        assert!(from_service_file("[shop]\nport=x\n", "shop").unwrap_err().contains("line 2"));
    }

    #[test]
    fn what_is_nearer_wins_and_places_are_not_mixed() {
        let flags = Parts { host: Some("db".into()), ..Parts::default() };
        let file = Parts { socket: Some("/s".into()), user: Some("me".into()), ..Parts::default() };
        let target = flags.or(file).into_target(Protocol::Mysql, "login", |_| true);
        assert_eq!((target.endpoint, target.user.as_str()), (Endpoint::Tcp("db".into(), 3306), "me"));
    }

    #[test]
    fn the_usual_places_are_tried() {
        let target = |parts: Parts, protocol, there| parts.into_target(protocol, "me", move |_| there).endpoint;
        let socket = |path: &str| Endpoint::Socket(path.into());
        assert_eq!(target(Parts::default(), Protocol::Mysql, true), socket("/run/mysqld/mysqld.sock"));
        assert_eq!(target(Parts::default(), Protocol::Mysql, false), Endpoint::Tcp("localhost".into(), 3306));
        let folder = Parts { host: Some("/tmp/pg".into()), port: Some(5433), ..Parts::default() };
        assert_eq!(target(folder, Protocol::Postgresql, false), socket("/tmp/pg/.s.PGSQL.5433"));
        let port = Parts { port: Some(3307), ..Parts::default() };
        assert_eq!(target(port, Protocol::Mysql, true), Endpoint::Tcp("localhost".into(), 3307));
    }

    #[test]
    fn the_environment_is_read_by_protocol() {
        let variable = |name: &str| Some(format!("of {name}"));
        let parts = Parts::from_environment(Protocol::Postgresql, variable);
        assert_eq!(parts.user.as_deref(), Some("of PGUSER"));
        let parts = Parts::from_environment(Protocol::Mysql, variable);
        assert_eq!(parts.password.unwrap().reveal(), "of MYSQL_PWD");
    }

    #[test]
    fn pgpass_takes_the_first_line_that_fits() {
        let target = |dsn: &str| dsn.parse::<Target>().unwrap();
        let text = "# hosts\nother:*:*:*:no\ndb:5432:*:me:a\\:b:c\n*:*:*:*:all\n";
        let found = |dsn| password_from_pgpass(text, &target(dsn)).unwrap().reveal().to_owned();
        assert_eq!(found("postgresql://me@db/x"), "a:b:c");
        assert_eq!(found("postgresql://you@db/x"), "all");
        assert!(password_from_pgpass("db:1:x:y", &target("postgresql://me@db")).is_none());
    }

    /// As libpq looks them up: a socket by its folder and the number in its name, and the usual folder also as `localhost`.
    #[test]
    fn pgpass_lines_of_sockets_are_those_of_their_folders() {
        let target = |dsn: &str| dsn.parse::<Target>().unwrap();
        let text = "127.0.0.1:5433:*:me:tcp\n/srv/p\\:g/run:5433:*:me:ours\nlocalhost:5432:*:me:usual\nlocalhost:*:*:me:other\n";
        let found = |dsn: &str| password_from_pgpass(text, &target(dsn)).map(|password| password.reveal().to_owned());
        assert_eq!(found("postgresql://me@:5433/x?host=/srv/p:g/run").as_deref(), Some("ours"));
        assert_eq!(found("postgresql://me@:5434/x?host=/srv/p:g/run"), None, "another port, another server");
        for folder in ["/run/postgresql", "/var/run/postgresql", "/tmp"] {
            assert_eq!(found(&format!("postgresql://me@/x?host={folder}")).as_deref(), Some("usual"));
            assert_eq!(found(&format!("postgresql://me@:5433/x?host={folder}")).as_deref(), Some("other"));
        }
        assert_eq!(found("postgresql://me@/x?host=/srv/other"), None, "localhost is not any folder");
    }
}
