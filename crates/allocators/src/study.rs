// SPDX-License-Identifier: Apache-2.0
//! The cycle of a cell, as arms of an experiment on one server without a restart: all tables read, two workloads up a ladder of threads, a burst of
//! large temporary tables over many connections, their end, a rest.

use experiment::Experiment;
use std::fmt::Write as _;
use units::Span;

pub const WARM_UP: &str = "warm-up";
pub const BURST: &str = "burst";
const WORKLOADS: [&str; 2] = ["oltp_read_only", "oltp_point_select"];
/// Connections and statements of the burst: as many as in the measurement in which mallocs kept between 13 and 485 MB.
const BURST_CONNECTIONS: usize = 24;
const BURST_STATEMENTS: usize = 3;
const BURST_ROWS: u32 = 30_000;
/// Connections beside those of the ladder: each statement of the burst has a connection of its own, and so have the observers.
const SPARE_CONNECTIONS: u32 = 128;

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
    /// The rest after the burst.
    pub idle: Span,
    pub seed: u64,
}

impl Study {
    /// An experiment file with `[matrix]`. `text` is the whole file whose server, fill and load are taken; its own arms are left out.
    pub fn matrix(&self, text: &str, experiment: &Experiment) -> String {
        let mut out = without_arms(text).trim_end().to_owned() + "\n";
        self.arms(&mut out, experiment);
        let list = |values: &mut dyn Iterator<Item = &str>| values.map(quoted).collect::<Vec<_>>().join(", ");
        let mallocs = list(&mut self.mallocs.iter().map(String::as_str));
        let most = self.threads.iter().max().copied().unwrap_or(1) + SPARE_CONNECTIONS;
        _ = write!(
            out,
            "\n[matrix]\nblocks = {}\nseed = {}\n[matrix.cross]\n\"server.malloc\" = [{mallocs}]\n\
             \"server.options.max_connections\" = [{most}]\n",
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

    fn arms(&self, out: &mut String, experiment: &Experiment) {
        let tables = experiment.fill.tables.max(1);
        let read = |number: u32| quoted(&format!("SELECT SUM(LENGTH(c) + LENGTH(pad)) FROM sbtest{number}"));
        let all = (1..=tables).map(read).collect::<Vec<_>>().join(", ");
        arm(out, WARM_UP, WORKLOADS[0], self.threads.first().copied().unwrap_or(1), self.time);
        _ = writeln!(out, "load.before = [{all}]");
        for workload in WORKLOADS {
            for threads in &self.threads {
                arm(out, &format!("{workload} x{threads}"), workload, *threads, self.time);
            }
        }
        arm(out, BURST, WORKLOADS[1], 1, BURST_TIME);
        let statement = burst();
        let one = |at: usize| format!("{{ time = \"{}s\", sql = {} }}", 1 + at / BURST_CONNECTIONS, quoted(&statement));
        let all: Vec<String> = (0..BURST_CONNECTIONS * BURST_STATEMENTS).map(one).collect();
        _ = writeln!(out, "load.at = [\n  {}\n]\nload.idle = \"{}\"", all.join(",\n  "), self.idle);
    }
}

const BURST_TIME: Span = Span(std::time::Duration::from_secs(15));

fn arm(out: &mut String, name: &str, workload: &str, threads: u32, time: Span) {
    _ = write!(
        out,
        "\n[[arm]]\nname = {}\nload.workload = {}\nload.threads = {threads}\nload.time = \"{time}\"\n",
        quoted(name),
        quoted(workload)
    );
}

/// A temporary table of some megabytes, read once. It ends within a second or two also on a busy host, so that nothing of it runs in the rest. Ids
/// are drawn from the first table.
fn burst() -> String {
    let half = |offset: &str| format!("SELECT id{offset} AS id, c, pad FROM sbtest1 WHERE id <= {BURST_ROWS}");
    format!("SELECT COUNT(*) FROM ({} UNION {}) AS a", half(""), half(" + 100000000"))
}

/// The text of a TOML file without its arms and without a matrix.
fn without_arms(text: &str) -> String {
    let mut kept = String::new();
    let mut is_left_out = false;
    for line in text.lines() {
        let header = line.trim_start().trim_start_matches('[');
        if line.trim_start().starts_with('[') {
            let name = header.split([']', '.']).next().unwrap_or_default().trim();
            is_left_out = name == "arm" || name == "matrix";
        }
        if !is_left_out {
            kept += line;
            kept += "\n";
        }
    }
    kept
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            idle: Span(std::time::Duration::from_secs(15)),
            seed: 7,
        }
    }

    /// What a cell of the matrix is, without the matrix: an experiment that is read as it is.
    #[test]
    fn the_cycle_is_an_experiment_on_one_server() {
        for flavour in ["mariadb", "mysql", "postgresql"] {
            let text = without_arms(BASE).replace("mariadb", flavour);
            let experiment = Experiment::parse(&text).unwrap();
            let made = study().matrix(&text, &experiment);
            let cell = without_matrix(&made);
            let read = Experiment::parse(&cell).unwrap_or_else(|problems| panic!("{cell}\n{problems:#?}"));
            let names: Vec<&str> = read.arms.iter().map(|arm| arm.name.as_str()).collect();
            let ladder = ["oltp_read_only x8", "oltp_read_only x64", "oltp_point_select x8", "oltp_point_select x64"];
            assert_eq!(names, [&[WARM_UP], &ladder[..], &[BURST]].concat());
            assert!(read.arms.iter().all(|arm| !arm.restart), "one life of the server");
            assert!(made.contains("\"server.malloc\" = [\"glibc\", \"jemalloc-background\", \"mine=/opt/lib.so\"]"));
            assert!(made.contains("\"server.options.max_connections\" = [192]") && made.contains("blocks = 3"));
        }
    }

    fn without_matrix(text: &str) -> String {
        text.split("\n[matrix]").next().unwrap().to_owned()
    }

    #[test]
    fn the_files_own_arms_are_left_out() {
        let left = without_arms(BASE);
        assert!(left.contains("[load]") && !left.contains("own") && !left.contains("blocks"), "{left}");
    }
}
