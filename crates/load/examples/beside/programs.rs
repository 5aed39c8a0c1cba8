// SPDX-License-Identifier: Apache-2.0
//! The programs that are compared, and what one run of each costs.

use load::admin::Connection;
use load::{Endpoint, Target};
use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::time::Duration;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Of the bare client, which needs no long run: it stands beside the pairs, not in them.
const BARE_SECONDS: &str = "1";
/// pgbench counts the time that it connects as part of its run: so many connections take a second at the most, also on a busy machine.
const CONNECTIONS_A_SECOND: u64 = 250;
/// Between two looks at a count that still grows.
const SETTLING: Duration = Duration::from_millis(150);

/// Whom `wringer load` is held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// `oltp_point_select` on the MySQL family.
    Sysbench,
    /// `pgbench -S` on PostgreSQL.
    Pgbench,
}

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "sysbench" => Ok(Self::Sysbench),
            "pgbench" => Ok(Self::Pgbench),
            other => Err(format!("'{other}' is neither sysbench nor pgbench")),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sysbench => "sysbench",
            Self::Pgbench => "pgbench",
        })
    }
}

pub(crate) struct Programs {
    peer: Peer,
    wringer: String,
    bare: PathBuf,
    dsn: String,
    target: Target,
    socket: PathBuf,
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
    pub(crate) fn new(peer: Peer, wringer: &str, rows: &str, seconds: &str) -> Result<Self> {
        let dsn = std::env::var("WRINGER_DSN").map_err(|_| "WRINGER_DSN names the server")?;
        let target: Target = dsn.parse()?;
        let Endpoint::Socket(socket) = &target.endpoint else {
            return Err("the server is reached by its socket".into());
        };
        Ok(Self {
            peer,
            wringer: wringer.to_owned(),
            bare: std::env::current_exe()?.with_file_name("bare"),
            socket: socket.clone(),
            rows: rows.to_owned(),
            seconds: seconds.to_owned(),
            server: Connection::open(&target)?,
            target,
            dsn,
        })
    }

    pub(crate) fn server_version(&self) -> String {
        self.server.server_version().to_owned()
    }

    /// Fills the server's cache; not counted.
    pub(crate) fn warm(&mut self, connections: &str) -> Result<()> {
        self.peer(connections).map(drop)
    }

    pub(crate) fn wringer(&mut self, connections: &str) -> Result<Ran> {
        let mut command = Command::new(&self.wringer);
        command.args(["load", "-o", "json"]).env("WRINGER_DSN", &self.dsn);
        command.arg(format!("--threads={connections}")).arg(format!("--time={}", self.seconds));
        match self.peer {
            Peer::Sysbench => {
                let rows = format!("--table-size={}", self.rows);
                command.args(["oltp_point_select", "--rand-type=uniform", &rows])
            }
            Peer::Pgbench => command.args(["pgbench_select_only", &format!("--scale={}", self.scale()?)]),
        };
        let (text, cpu, counted) = self.measure(command)?;
        let value: serde_json::Value = serde_json::from_str(&text)?;
        let read = |path: &str| value.pointer(path).and_then(serde_json::Value::as_f64).ok_or("a figure is missing");
        Ok(Ran::new(read("/load/measured/reads")?, read("/queries_per_second")?, cpu, counted))
    }

    pub(crate) fn peer(&mut self, connections: &str) -> Result<Ran> {
        match self.peer {
            Peer::Sysbench => self.sysbench(connections),
            Peer::Pgbench => self.pgbench(connections),
        }
    }

    fn sysbench(&mut self, connections: &str) -> Result<Ran> {
        let mut command = Command::new("sysbench");
        command.args(["oltp_point_select", "--rand-type=uniform", "--db-driver=mysql", "--mysql-db=sbtest"]);
        command.arg(format!("--threads={connections}")).arg(format!("--time={}", self.seconds));
        command.arg(format!("--table-size={}", self.rows)).arg(format!("--mysql-socket={}", self.socket.display()));
        command.arg(format!("--mysql-user={}", self.target.user));
        command.arg(format!("--mysql-password={}", self.target.password.reveal())).arg("run");
        let (text, cpu, counted) = self.measure(command)?;
        let line = text.lines().find(|line| line.contains("queries:")).ok_or("sysbench says nothing of queries")?;
        let numbers: Vec<f64> =
            line.split(|c: char| !(c.is_ascii_digit() || c == '.')).filter_map(|word| word.parse().ok()).collect();
        let [queries, per_second, ..] = numbers.as_slice() else { return Err("sysbench's queries line".into()) };
        Ok(Ran::new(*queries, *per_second, cpu, counted))
    }

    /// A thread a CPU, as its manual advises for many connections.
    fn pgbench(&mut self, connections: &str) -> Result<Ran> {
        let jobs = std::thread::available_parallelism()?.get().min(connections.parse()?);
        let name = self.socket.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let port = name.rsplit('.').next().ok_or("the socket has no port in its name")?;
        let seconds = self.seconds.parse::<u64>()? + connections.parse::<u64>()? / CONNECTIONS_A_SECOND;
        let mut command = Command::new("pgbench");
        command.args(["-n", "-S", "-M", "prepared", "-c", connections, "-j", &jobs.to_string()]);
        command.args(["-T", &seconds.to_string()]);
        command.arg("-h").arg(self.socket.parent().ok_or("the socket has no folder")?);
        command.args(["-p", port, "-U", &self.target.user]).arg(self.target.database.as_deref().unwrap_or("sbtest"));
        command.env("PGPASSWORD", self.target.password.reveal());
        let (text, cpu, counted) = self.measure(command)?;
        let figure = |start: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(start));
            let number = line.and_then(|rest| rest.split([' ', '/']).find_map(|word| word.parse::<f64>().ok()));
            number.ok_or_else(|| format!("pgbench says nothing of '{start}'"))
        };
        Ok(Ran::new(figure("number of transactions actually processed: ")?, figure("tps = ")?, cpu, counted))
    }

    /// The client that does nothing but send and receive.
    pub(crate) fn bare(&mut self, connections: &str) -> Result<Ran> {
        let mut command = Command::new(&self.bare);
        command.args([connections, BARE_SECONDS]).env("WRINGER_DSN", &self.dsn);
        let (text, cpu, counted) = self.measure(command)?;
        let value: serde_json::Value = serde_json::from_str(&text)?;
        let queries = value["executions"].as_f64().ok_or("the bare client says nothing of executions")?;
        Ok(Ran::new(queries, queries / BARE_SECONDS.parse::<f64>()?, cpu, counted))
    }

    /// pgbench's unit: 100,000 accounts.
    fn scale(&self) -> Result<u64> {
        Ok((self.rows.parse::<u64>()? / 100_000).max(1))
    }

    /// The server goes on ending the connections of the last program, and adds up their counts, when that has gone.
    fn idle(&mut self) -> Result<()> {
        let (sql, column) = match self.peer {
            Peer::Sysbench => ("SHOW GLOBAL STATUS LIKE 'Threads_connected'", 1),
            Peer::Pgbench => ("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'", 0),
        };
        while self.server.query(sql)?.parse::<u64>(0, column).ok_or("the server does not count connections")? > 1 {
            std::thread::sleep(SETTLING);
        }
        Ok(())
    }

    /// Output, CPU, and executions by the server's count.
    fn measure(&mut self, mut command: Command) -> Result<(String, Cpu, f64)> {
        self.idle()?;
        let (before, cpu_before) = (self.executions()?, Cpu::of_children());
        let output = command.stderr(Stdio::piped()).output()?;
        if !output.status.success() {
            // Without its arguments, which may hold a password.
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{}: {}\n{said}", command.get_program().display(), output.status).into());
        }
        let cpu = Cpu::of_children();
        let cpu = Cpu { user: cpu.user - cpu_before.user, system: cpu.system - cpu_before.system };
        self.idle()?;
        let counted = self.executions()? - before;
        Ok((String::from_utf8(output.stdout)?, cpu, counted))
    }

    /// PostgreSQL's backends hand their counts in when they end, which is a little after their client has.
    fn executions(&mut self) -> Result<f64> {
        let (sql, column) = match self.peer {
            Peer::Sysbench => ("SHOW GLOBAL STATUS LIKE 'Com_stmt_execute'", 1),
            Peer::Pgbench => ("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()", 0),
        };
        let mut last = -1.0;
        loop {
            let rows = self.server.query(sql)?;
            let count: f64 = rows.parse(0, column).ok_or("the server does not count executions")?;
            // a look counts as one
            if self.peer == Peer::Sysbench || count - last <= 1.0 {
                return Ok(count);
            }
            last = count;
            std::thread::sleep(SETTLING);
        }
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
