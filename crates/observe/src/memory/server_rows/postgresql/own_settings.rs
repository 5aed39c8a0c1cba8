// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL's settings as the server has them, and the larger ones of roles and databases. A session only sees its own: `current_setting` and `reset_val` have
//! what ALTER ROLE and ALTER DATABASE say for the account that asks.

use super::super::{Asking, Row, text};
use ledger::{Missing, Raised, ServerSeen};
use std::collections::BTreeMap;

/// Where a value that is the server's comes from (GucSource_Names of guc_tables.c). All other values are those of the session.
const OF_SERVER: [&str; 5] = ["default", "environment variable", "configuration file", "command line", "override"];
const REMEDY: Option<&str> =
    Some("ask as a superuser, or as a role that has no such settings, in a database that has none");

/// A setting as the session has it.
struct Told {
    name: String,
    value: String,
    source: String,
    built_in: String,
    unit: String,
}

impl Told {
    fn of(row: &Row) -> Self {
        let [name, value, source, built_in, unit] = [0, 1, 2, 3, 4].map(|column| text(row, column));
        Self { name, value, source, built_in, unit }
    }

    fn is_of_session(&self) -> bool {
        !self.source.is_empty() && !OF_SERVER.contains(&self.source.as_str())
    }
}

pub(super) fn read(asking: &mut Asking<'_>, names: &[&str], seen: &mut ServerSeen) {
    let list = names.join("', '");
    let sql = format!(
        "SELECT name, current_setting(name, true), source, boot_val, unit FROM pg_settings WHERE name IN ('{list}')"
    );
    let told = asking.rows_of(Missing::SETTINGS, &sql, None);
    let told: Vec<Told> = told.iter().map(Told::of).filter(|it| names.contains(&it.name.as_str())).collect();
    seen.variables = told.iter().map(|it| (it.name.clone(), it.value.clone())).collect();
    let hidden: Vec<&Told> = told.iter().filter(|it| it.is_of_session()).collect();
    if !hidden.is_empty() {
        let known = of_server(asking);
        let mut value = |it: &&Told| (it.name.clone(), server_value(asking, it, known.as_ref()));
        seen.variables.extend(hidden.iter().map(&mut value).collect::<Vec<_>>());
    }
    seen.raised = raised(asking, &list, &told, &seen.variables);
}

fn server_value(asking: &mut Asking<'_>, told: &Told, known: Option<&BTreeMap<String, String>>) -> String {
    let value = known.and_then(|known| known.get(&told.name)).unwrap_or(&told.built_in);
    if known.is_none() {
        let why = format!(
            "the account that asks has a value of its own ({}), and may not read the server's; counted is the built-in default, or the largest value of \
             a role or a database",
            told.source
        );
        asking.missing(&format!("the server's own {}", told.name), &why, REMEDY);
    }
    written(value, &told.unit)
}

/// What configuration files and, before them, the command line say. `None`: not for the account that asks.
fn of_server(asking: &mut Asking<'_>) -> Option<BTreeMap<String, String>> {
    const FILES: &str = "SELECT name, setting FROM pg_file_settings WHERE error IS NULL ORDER BY seqno";
    // the command line of the server's start, which PostgreSQL keeps in its data directory (CreateOptsFile of postmaster.c)
    const COMMAND: &str = "SELECT pg_read_file('postmaster.opts')";
    let files = asking.rows(FILES).ok()?;
    let command = asking.rows(COMMAND).unwrap_or_default();
    let named = files.iter().map(|row| (text(row, 0).to_lowercase(), text(row, 1)));
    Some(named.chain(command.first().into_iter().flat_map(|row| of_command_line(&text(row, 0)))).collect())
}

/// `-c NAME=VALUE` and `--NAME=VALUE` of `PROGRAM "ARGUMENT" "ARGUMENT"`.
fn of_command_line(text: &str) -> Vec<(String, String)> {
    let arguments = text.trim_end().split('"').skip(1).step_by(2);
    let pair = |argument: &str| {
        let (name, value) = argument.split_once('=')?;
        let name = name.strip_prefix("--").or_else(|| name.strip_prefix("-c")).unwrap_or(name);
        Some((name.to_lowercase().replace('-', "_"), value.to_owned()))
    };
    arguments.filter_map(pair).collect()
}

/// Of each setting the largest value that a role which may log in, or a database, has, where it is larger than the server's.
fn raised(asking: &mut Asking<'_>, list: &str, told: &[Told], server: &BTreeMap<String, String>) -> Vec<Raised> {
    let sql = format!(
        "SELECT lower(split_part(c, '=', 1)), substr(c, strpos(c, '=') + 1), r.rolname, d.datname FROM pg_db_role_setting s \
         CROSS JOIN unnest(s.setconfig) AS c LEFT JOIN pg_roles r ON r.oid = s.setrole LEFT JOIN pg_database d ON d.oid = s.setdatabase \
         WHERE lower(split_part(c, '=', 1)) IN ('{list}') AND coalesce(r.rolcanlogin, true) ORDER BY 1, 3, 4"
    );
    let rows = asking.rows_of("settings of roles and databases", &sql, None);
    let mut largest: BTreeMap<String, (f64, Raised)> = BTreeMap::new();
    for row in &rows {
        let name = text(row, 0);
        let Some(setting) = told.iter().find(|it| it.name == name) else { continue };
        let amount = |value: &str| amount(value, &setting.unit);
        let least = largest.get(&name).map(|it| it.0).or_else(|| amount(server.get(&name)?));
        let Some(size) = amount(&text(row, 1)).filter(|size| least.is_none_or(|least| *size > least)) else { continue };
        let value = written(&text(row, 1), &setting.unit);
        largest.insert(name.clone(), (size, Raised { name, value, by: whose(row) }));
    }
    largest.into_values().map(|(_, raised)| raised).collect()
}

fn whose(row: &Row) -> String {
    match (text(row, 2), text(row, 3)) {
        (role, database) if database.is_empty() && role.is_empty() => "all roles".to_owned(),
        (role, database) if database.is_empty() => format!("role {role}"),
        (role, database) if role.is_empty() => format!("database {database}"),
        (role, database) => format!("role {role} in database {database}"),
    }
}

/// Units of memory (memory_unit_conversion_table of guc.c), the largest first.
const UNITS: [(&str, f64); 5] =
    [("TB", 1_099_511_627_776.0), ("GB", 1_073_741_824.0), ("MB", 1_048_576.0), ("kB", 1024.0), ("B", 1.0)];

/// `64MB`, or `8192` with the unit of its setting (`8kB`), in bytes; a plain number as it is. `None`: no number.
fn amount(value: &str, unit: &str) -> Option<f64> {
    let split = |text: &str| text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let factor = |unit: &str| UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    let (number, own) = value.trim().split_at(split(value.trim()));
    let number: f64 = number.trim().parse().ok()?;
    if !own.is_empty() {
        return Some(number * factor(own)?);
    }
    let (times, name) = unit.split_at(split(unit));
    let times = if times.is_empty() { 1.0 } else { times.parse().ok()? };
    Some(number * times * if name.is_empty() { 1.0 } else { factor(name)? })
}

/// The value as `current_setting` writes it: with the largest unit of which it is a whole number.
fn written(value: &str, unit: &str) -> String {
    let Some(bytes) = amount(value, unit).filter(|bytes| !unit.is_empty() && *bytes > 0.0) else {
        return value.to_owned();
    };
    let whole = UNITS.iter().find(|(_, factor)| bytes % factor == 0.0);
    whole.map_or_else(|| value.to_owned(), |(name, factor)| format!("{}{name}", bytes / factor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Options;
    use crate::memory::reading::Reading;

    const NAMES: [&str; 4] = ["hash_mem_multiplier", "temp_buffers", "wal_buffers", "work_mem"];

    fn row(values: &[&str]) -> Row {
        values.iter().map(|value| Some((*value).to_owned()).filter(|value| value != "NULL")).collect()
    }

    fn asked(mut answer: fn(&str) -> Result<Vec<Row>, String>) -> (ServerSeen, Vec<Missing>) {
        let mut reading = Reading::begin(Options::default());
        let mut seen = ServerSeen::default();
        let mut asking = Asking { connection: &mut answer, reading: &mut reading, is_silent: false };
        read(&mut asking, &NAMES, &mut seen);
        (seen, reading.end().2)
    }

    fn settings() -> Vec<Row> {
        vec![
            row(&["hash_mem_multiplier", "2", "default", "2", "NULL"]),
            row(&["temp_buffers", "1GB", "database", "1024", "8kB"]),
            row(&["wal_buffers", "4MB", "override", "-1", "8kB"]),
            row(&["work_mem", "64kB", "user", "4096", "kB"]),
        ]
    }

    fn of_roles() -> Vec<Row> {
        vec![
            row(&["hash_mem_multiplier", "1.5", "app", "NULL"]),
            row(&["temp_buffers", "1GB", "NULL", "sbtest"]),
            row(&["work_mem", "64kB", "wringer", "NULL"]),
            row(&["work_mem", "1048576", "app", "shop"]),
            row(&["work_mem", "8MB", "NULL", "NULL"]),
        ]
    }

    fn by<'a>(seen: &'a ServerSeen, name: &str) -> Option<(&'a str, &'a str)> {
        seen.raised.iter().find(|it| it.name == name).map(|it| (it.value.as_str(), it.by.as_str()))
    }

    /// The role that asks has less than the server: `ALTER ROLE wringer SET work_mem = '64kB'`.
    #[test]
    fn a_superuser_reads_the_servers_value_and_the_largest_of_all() {
        let (seen, missing) = asked(|sql| {
            Ok(match sql {
                sql if sql.contains("pg_file_settings") => {
                    vec![row(&["work_mem", "4MB"]), row(&["Work_Mem", "512MB"]), row(&["temp_buffers", "2048"])]
                }
                sql if sql.contains("postmaster.opts") => {
                    vec![row(&[
                        "/usr/bin/postgres \"-D\" \"/d\" \"-c\" \"temp_buffers=64MB\" \"--wal-level=replica\"\n",
                    ])]
                }
                sql if sql.contains("pg_db_role_setting") => of_roles(),
                _ => settings(),
            })
        });
        let value = |name: &str| seen.variables[name].as_str();
        assert_eq!([value("work_mem"), value("temp_buffers"), value("wal_buffers")], ["512MB", "64MB", "4MB"]);
        assert_eq!(by(&seen, "work_mem"), Some(("1GB", "role app in database shop")));
        assert_eq!(by(&seen, "temp_buffers"), Some(("1GB", "database sbtest")));
        assert_eq!((by(&seen, "hash_mem_multiplier"), missing.len()), (None, 0), "the server's is larger");
    }

    #[test]
    fn for_others_the_built_in_value_counts_and_that_is_said() {
        let (seen, missing) = asked(|sql| match sql {
            sql if sql.contains("pg_db_role_setting") => Ok(of_roles()),
            sql if sql.starts_with("SELECT name, current_setting") => Ok(settings()),
            _ => Err("permission denied".into()),
        });
        assert_eq!((seen.variables["work_mem"].as_str(), seen.variables["temp_buffers"].as_str()), ("4MB", "8MB"));
        assert_eq!(by(&seen, "work_mem").map(|it| it.0), Some("1GB"));
        let what: Vec<&str> = missing.iter().map(|it| it.what.as_str()).collect();
        assert_eq!(what, ["the server's own temp_buffers", "the server's own work_mem"]);
    }

    /// Nothing more is asked than what roles and databases have.
    #[test]
    fn a_session_without_settings_of_its_own_sees_the_servers() {
        let (seen, missing) = asked(|sql| match sql {
            sql if sql.contains("pg_db_role_setting") => Ok(Vec::new()),
            sql if sql.starts_with("SELECT name, current_setting") => {
                Ok(vec![row(&["work_mem", "512MB", "configuration file", "4096", "kB"])])
            }
            _ => Err("not asked".into()),
        });
        assert_eq!((seen.variables["work_mem"].as_str(), seen.raised.len(), missing.len()), ("512MB", 0, 0));
    }

    #[test]
    fn amounts_with_the_unit_of_their_setting() {
        for (value, unit, as_written) in [
            ("4096", "kB", "4MB"),
            ("1024", "8kB", "8MB"),
            ("1.5GB", "kB", "1536MB"),
            ("100", "kB", "100kB"),
            ("-1", "kB", "-1"),
            ("2.5", "", "2.5"),
            ("on", "", "on"),
            ("0", "MB", "0"),
        ] {
            assert_eq!(written(value, unit), as_written);
        }
        assert_eq!(
            [amount("1 GB", "kB"), amount("2.5", ""), amount("x", "kB"), amount("1 xB", "kB")],
            [Some(1_073_741_824.0), Some(2.5), None, None]
        );
    }
}
