// SPDX-License-Identifier: Apache-2.0
//! The programs that are compared, and what one run of each costs.

use load::admin::Connection;
use std::error::Error;
use std::path::PathBuf;
use std::process::{Command, Stdio};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Of the bare client, which needs no long run: it stands beside the pairs, not in them.
const BARE_SECONDS: &str = "1";

pub(crate) struct Programs {
    wringer: String,
    bare: PathBuf,
    socket: String,
    user: String,
    password: String,
    rows: String,
    seconds: String,
    server: Connection,
}

/// One run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ran {
    pub(crate) per_second: f64,
    pub(crate) user_us: f64,
    pub(crate) system_us: f64,
    /// The program's own count, and the server's.
    pub(crate) queries: f64,
    pub(crate) counted: f64,
}

/// What the kernel says a process used, in us.
#[derive(Debug, Clone, Copy)]
struct Cpu {
    user: f64,
    system: f64,
}

impl Programs {
    pub(crate) fn new(wringer: &str, socket: &str, user: &str, rows: &str, seconds: &str) -> Result<Self> {
        let password = std::env::var("MYSQL_PWD").unwrap_or_default();
        let dsn = format!("mysql://{user}:{password}@/sbtest?socket={socket}");
        Ok(Self {
            wringer: wringer.to_owned(),
            bare: std::env::current_exe()?.with_file_name("bare"),
            socket: socket.to_owned(),
            user: user.to_owned(),
            password,
            rows: rows.to_owned(),
            seconds: seconds.to_owned(),
            server: Connection::open(&dsn.parse()?)?,
        })
    }

    pub(crate) fn server_version(&self) -> String {
        self.server.server_version().to_owned()
    }

    /// Fills the buffer pool; not counted.
    pub(crate) fn warm(&mut self, connections: &str) -> Result<()> {
        self.sysbench(connections).map(drop)
    }

    pub(crate) fn wringer(&mut self, connections: &str) -> Result<Ran> {
        let mut command = Command::new(&self.wringer);
        command.args(["load", "oltp_point_select", "-o", "json", "--rand-type=uniform"]);
        command.args(self.common(connections)).env("MYSQL_PWD", &self.password);
        let (text, cpu, counted) = self.measure(command)?;
        let value: serde_json::Value = serde_json::from_str(&text)?;
        let read = |path: &str| value.pointer(path).and_then(serde_json::Value::as_f64).ok_or("a figure is missing");
        Ok(Ran::new(read("/load/measured/reads")?, read("/queries_per_second")?, cpu, counted))
    }

    pub(crate) fn sysbench(&mut self, connections: &str) -> Result<Ran> {
        let mut command = Command::new("sysbench");
        command.args(["oltp_point_select", "--rand-type=uniform", "--db-driver=mysql", "--mysql-db=sbtest"]);
        command.args(self.common(connections)).arg(format!("--mysql-password={}", self.password)).arg("run");
        let (text, cpu, counted) = self.measure(command)?;
        let line = text.lines().find(|line| line.contains("queries:")).ok_or("sysbench says nothing of queries")?;
        let numbers: Vec<f64> =
            line.split(|c: char| !(c.is_ascii_digit() || c == '.')).filter_map(|word| word.parse().ok()).collect();
        let [queries, per_second, ..] = numbers.as_slice() else { return Err("sysbench's queries line".into()) };
        Ok(Ran::new(*queries, *per_second, cpu, counted))
    }

    /// The client that does nothing but send and receive.
    pub(crate) fn bare(&mut self, connections: &str) -> Result<Ran> {
        let mut command = Command::new(&self.bare);
        command.args([&self.socket, &self.user, connections, BARE_SECONDS]).env("MYSQL_PWD", &self.password);
        let (text, cpu, counted) = self.measure(command)?;
        let value: serde_json::Value = serde_json::from_str(&text)?;
        let queries = value["executions"].as_f64().ok_or("the bare client says nothing of executions")?;
        Ok(Ran::new(queries, queries / BARE_SECONDS.parse::<f64>()?, cpu, counted))
    }

    fn common(&self, connections: &str) -> Vec<String> {
        vec![
            format!("--threads={connections}"),
            format!("--time={}", self.seconds),
            format!("--table-size={}", self.rows),
            format!("--mysql-socket={}", self.socket),
            format!("--mysql-user={}", self.user),
        ]
    }

    /// Output, CPU, and executions by the server's count.
    fn measure(&mut self, mut command: Command) -> Result<(String, Cpu, f64)> {
        let (before, cpu_before) = (self.executions()?, Cpu::of_children());
        let output = command.stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            // Without its arguments, which may hold a password.
            return Err(format!("{}: {}", command.get_program().display(), output.status).into());
        }
        let cpu = Cpu::of_children();
        let cpu = Cpu { user: cpu.user - cpu_before.user, system: cpu.system - cpu_before.system };
        let counted = self.executions()? - before;
        Ok((String::from_utf8(output.stdout)?, cpu, counted))
    }

    fn executions(&mut self) -> Result<f64> {
        let rows = self.server.query("SHOW GLOBAL STATUS LIKE 'Com_stmt_execute'")?;
        Ok(rows.parse(0, 1).ok_or("the server does not count executions")?)
    }
}

impl Ran {
    fn new(queries: f64, per_second: f64, cpu: Cpu, counted: f64) -> Self {
        Self { per_second, user_us: cpu.user / queries, system_us: cpu.system / queries, queries, counted }
    }

    pub(crate) fn total_us(&self) -> f64 {
        self.user_us + self.system_us
    }
}

impl Cpu {
    /// Of all children that have been waited for.
    fn of_children() -> Self {
        // SAFETY: all zeroes is a valid rusage, and the kernel fills the one that the pointer leads to.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
            usage
        };
        let us = |time: libc::timeval| (time.tv_sec * 1_000_000 + time.tv_usec) as f64;
        Self { user: us(usage.ru_utime), system: us(usage.ru_stime) }
    }
}
