// SPDX-License-Identifier: Apache-2.0
//! The cycle of a cell, as arms of an experiment on one server without a restart. First all tables are read. Then two workloads run with each number of
//! threads (the ladder). Then comes a burst: many connections make large temporary tables, and beside them runs a dump. When the connections have closed,
//! the server rests. PostgreSQL's connections stay open, because memory that a process keeps is gone when the process ends: those of each load until
//! the next load begins, those of the last load and of the burst to the end of the rest.

use experiment::{Experiment, Flavour};
use std::fmt::Write as _;
use units::Span;

pub const WARM_UP: &str = "warm-up";
pub const BURST: &str = "burst";
const WORKLOADS: [&str; 2] = ["oltp_read_only", "oltp_point_select"];
/// Connections and statements of the burst: as many as in the measurement in which mallocs kept between 13 and 485 MB.
const BURST_CONNECTIONS: usize = 24;
const BURST_STATEMENTS: usize = 3;
const BURST_ROWS: u32 = 30_000;
/// The number of rows, and of tables, that the dump reads at most, so that the dump ends before the rest begins.
const DUMP_ROWS: u32 = 100_000;
const DUMP_TABLES: u32 = 8;
/// Connections beside those of the ladder: those of the burst and of the observers.
const SPARE_CONNECTIONS: u32 = 128;
/// The most that every version of MySQL takes. The default of 16382 is too little for 1024 connections on four tables.
const PREPARED_STATEMENTS: u32 = 1_048_576;

/// The CPUs of the server, and the CPUs of the load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpus {
    pub server: String,
    pub load: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Study {
    /// Values of `server.malloc`; the others are compared with the first.
    pub mallocs: Vec<String>,
    pub threads: Vec<u32>,
    /// Values of `server.thp`; empty: the host's setting.
    pub thp: Vec<String>,
    /// Empty: all CPUs for both.
    pub cpus: Vec<Cpus>,
    pub repeat: u32,
    /// How long each load of the ladder is measured.
    pub time: Span,
    /// How long the burst may take, at least [`SHORTEST_BURST`].
    pub burst: Span,
    /// The rest after the burst.
    pub idle: Span,
    pub seed: u64,
}

impl Study {
    /// An experiment file with `[matrix]`. `text` is the whole file whose server, fill and load are taken; its own arms are left out.
    pub fn matrix(&self, text: &str, experiment: &Experiment) -> String {
        let mut file = without_arms(text);
        set_options(&mut file, &self.options(experiment.server.flavour));
        let mut out = file.to_string();
        self.arms(&mut out, experiment);
        let list = |values: &mut dyn Iterator<Item = &str>| values.map(quoted).collect::<Vec<_>>().join(", ");
        let mallocs = list(&mut self.mallocs.iter().map(String::as_str));
        _ = write!(
            out,
            "\n[matrix]\nblocks = {}\nseed = {}\n[matrix.cross]\n\"server.malloc\" = [{mallocs}]\n",
            self.repeat, self.seed
        );
        if !self.thp.is_empty() {
            _ = writeln!(out, "\"server.thp\" = [{}]", list(&mut self.thp.iter().map(String::as_str)));
        }
        if !self.cpus.is_empty() {
            let server = list(&mut self.cpus.iter().map(|it| it.server.as_str()));
            let load = list(&mut self.cpus.iter().map(|it| it.load.as_str()));
            _ = writeln!(out, "[matrix.pair]\n\"squeeze.cpuset\" = [{server}]\n\"load.cpuset\" = [{load}]");
        }
        out
    }

    /// The options with which the server has to be started, so that it takes the largest load.
    fn options(&self, flavour: Flavour) -> Vec<(&'static str, u32)> {
        let prepared = (flavour != Flavour::Postgresql).then_some(("max_prepared_stmt_count", PREPARED_STATEMENTS));
        [("max_connections", self.connections())].into_iter().chain(prepared).collect()
    }

    /// The most connections that a server has to take.
    pub fn connections(&self) -> u32 {
        self.threads.iter().max().copied().unwrap_or(1) + SPARE_CONNECTIONS
    }

    fn arms(&self, out: &mut String, experiment: &Experiment) {
        let tables = experiment.fill.tables.max(1);
        let read = |number: u32| quoted(&format!("SELECT SUM(LENGTH(c) + LENGTH(pad)) FROM sbtest{number}"));
        let all = (1..=tables).map(read).collect::<Vec<_>>().join(", ");
        arm(out, WARM_UP, WORKLOADS[0], self.threads.first().copied().unwrap_or(1), self.time);
        _ = writeln!(out, "load.before = [{all}]");
        let stay = experiment.server.flavour == Flavour::Postgresql;
        for workload in WORKLOADS {
            for threads in &self.threads {
                arm(out, &format!("{workload} x{threads}"), workload, *threads, self.time);
                _ = writeln!(out, "load.stay = {stay}");
            }
        }
        // its own connection does not stay, so that those of the last load do
        arm(out, BURST, WORKLOADS[1], 1, self.burst);
        let one = |(seconds, connection, sql): (usize, String, String)| {
            format!("{{ time = \"{seconds}s\", sql = {}, connection = \"{connection}\", stay = {stay} }}", quoted(&sql))
        };
        let all: Vec<String> = temporary_tables().chain(dump(tables)).map(one).collect();
        _ = writeln!(out, "load.at = [\n  {}\n]\nload.idle = \"{}\"", all.join(",\n  "), self.idle);
    }
}

/// The last statement of the burst is sent a second before the burst's time is over.
pub const SHORTEST_BURST: Span = Span(std::time::Duration::from_secs(BURST_STATEMENTS as u64 + 1));

fn arm(out: &mut String, name: &str, workload: &str, threads: u32, time: Span) {
    _ = write!(
        out,
        "\n[[arm]]\nname = {}\nload.workload = {}\nload.threads = {threads}\nload.time = \"{time}\"\n",
        quoted(name),
        quoted(workload)
    );
}

/// The statements of the burst: at which second, over which connection, and the statement.
fn temporary_tables() -> impl Iterator<Item = (usize, String, String)> {
    let statement = burst();
    let one = move |at: usize| {
        (1 + at / BURST_CONNECTIONS, format!("burst {}", at % BURST_CONNECTIONS + 1), statement.clone())
    };
    (0..BURST_CONNECTIONS * BURST_STATEMENTS).map(one)
}

/// What `mysqldump` and `pg_dump` ask for: all columns of the rows, table by table.
fn dump(tables: u32) -> impl Iterator<Item = (usize, String, String)> {
    let one = |table: u32| (1, "dump".to_owned(), format!("SELECT * FROM sbtest{table} LIMIT {DUMP_ROWS}"));
    (1..=tables.min(DUMP_TABLES)).map(one)
}

/// A statement that makes a temporary table of some megabytes and reads it once. It takes a second or two, also on a busy host, so that it ends before the
/// rest begins. Ids are drawn from the first table.
fn burst() -> String {
    let half = |offset: &str| format!("SELECT id{offset} AS id, c, pad FROM sbtest1 WHERE id <= {BURST_ROWS}");
    format!("SELECT COUNT(*) FROM ({} UNION {}) AS a", half(""), half(" + 100000000"))
}

/// A file without its arms and without a matrix.
fn without_arms(text: &str) -> toml::Table {
    let mut file: toml::Table = text.parse().unwrap_or_default();
    file.retain(|key, _| key != "arm" && key != "matrix");
    file
}

/// Sets options of the server in a file that may have them, in either spelling.
fn set_options(file: &mut toml::Table, asked: &[(&str, u32)]) {
    let Some(toml::Value::Table(server)) = file.get_mut("server") else { return };
    let options = server.entry("options").or_insert_with(|| toml::Table::new().into());
    let Some(options) = options.as_table_mut() else { return };
    for (name, value) in asked {
        options.retain(|key, _| key.replace('-', "_") != *name);
        options.insert((*name).to_owned(), i64::from(*value).into());
    }
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const BASE: &str = "schema = 1\nname = \"base\"\n[server]\nflavour = \"mariadb\"\n[fill]\nrows = 100\ntables = 2\n[load]\nworkload = \"oltp_point_select\"\n\
                        [[arm]]\nname = \"own\"\nload.threads = 9\n[matrix]\nblocks = 2\n";

    fn study() -> Study {
        Study {
            mallocs: vec!["glibc".into(), "jemalloc-background".into(), "mine=/opt/lib.so".into()],
            threads: vec![8, 64],
            thp: vec!["never".into()],
            cpus: vec![Cpus { server: "0".into(), load: "1".into() }],
            repeat: 3,
            time: Span(std::time::Duration::from_secs(4)),
            burst: SHORTEST_BURST,
            idle: Span(std::time::Duration::from_secs(15)),
            seed: 7,
        }
    }

    /// What a cell of the matrix is, without the matrix: an experiment that is read as it is.
    #[test]
    fn the_cycle_is_an_experiment_on_one_server() {
        for flavour in ["mariadb", "mysql", "postgresql"] {
            let text = BASE.replace("mariadb", flavour);
            let experiment = Experiment::parse(&without_arms(&text).to_string()).unwrap();
            let made = study().matrix(&text, &experiment);
            let cell = without_matrix(&made);
            let read = Experiment::parse(&cell).unwrap_or_else(|problems| panic!("{cell}\n{problems:#?}"));
            let names: Vec<&str> = read.arms.iter().map(|arm| arm.name.as_str()).collect();
            let ladder = ["oltp_read_only x8", "oltp_read_only x64", "oltp_point_select x8", "oltp_point_select x64"];
            assert_eq!(names, [&[WARM_UP], &ladder[..], &[BURST]].concat());
            assert!(read.arms.iter().all(|arm| !arm.restart), "one life of the server");
            let burst = &read.arms.last().unwrap().load.at;
            let of_dump = burst.iter().filter(|at| at.connection.as_deref() == Some("dump")).count();
            let connections: BTreeSet<_> = burst.iter().map(|at| at.connection.as_deref()).collect();
            assert_eq!((burst.len(), of_dump, connections.len()), (24 * 3 + 2, 2, 25));
            let is_staying = flavour == "postgresql";
            assert!(burst.iter().all(|at| at.stay == is_staying), "its processes stay");
            let loads: Vec<bool> = read.arms.iter().map(|arm| arm.load.stay).collect();
            assert_eq!(loads, [&[false][..], &[is_staying; 4], &[false]].concat(), "and those of the last load");
            assert_eq!(made.contains("max_prepared_stmt_count"), flavour != "postgresql");
            assert!(made.contains("\"server.malloc\" = [\"glibc\", \"jemalloc-background\", \"mine=/opt/lib.so\"]"));
            assert_eq!(read.server.options.get("max_connections").map(String::as_str), Some("192"));
            assert!(made.contains("blocks = 3"));
        }
    }

    fn without_matrix(text: &str) -> String {
        text.split("\n[matrix]").next().unwrap().to_owned()
    }

    #[test]
    fn the_files_own_arms_are_left_out_however_they_are_written() {
        let told = "description = \"\"\"\n[[arm]] is a line of this text\n[load]\n\"\"\"\n";
        let inline = "schema = 1\narm = [{ name = \"own\" }]\nmatrix.blocks = 2\n[load]\ntime = \"1s\" # [matrix]\n";
        for text in [BASE.to_owned(), format!("{told}{BASE}"), inline.to_owned()] {
            let left = without_arms(&text);
            let mut whole: toml::Table = text.parse().unwrap();
            assert!(whole.remove("arm").is_some() && whole.remove("matrix").is_some());
            assert_eq!(left, whole);
        }
    }
}
