// SPDX-License-Identifier: Apache-2.0
//! `wringer load` and sysbench in turn on the same server, same workload, same prepared mode; ratios with their spread.
//! Called by `benches/load/run.sh`: `beside_sysbench WRINGER SOCKET USER ROWS SECONDS PAIRS CONNECTIONS...`; password in MYSQL_PWD.
//!
//! Queries a second are each program's own count over its own time. CPU is the kernel's account of the whole process, start-up
//! included, from `getrusage(RUSAGE_CHILDREN)`. The server's own count of executions is read around each run.
#![allow(clippy::disallowed_methods)]

use load::admin::Connection;
use std::error::Error;
use std::io::{Write as _, stdout};
use std::process::{Command, Stdio};

struct Bench {
    wringer: String,
    socket: String,
    user: String,
    password: String,
    rows: String,
    seconds: String,
    server: Connection,
}

#[derive(Debug, Clone, Copy)]
struct Ran {
    queries: f64,
    per_second: f64,
    user_us: f64,
    system_us: f64,
    /// By the server's count.
    counted: f64,
}

type Figure = fn(&Ran) -> f64;

/// User and system time, in us.
type Cpu = (f64, f64);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [wringer, socket, user, rows, seconds, pairs, connections @ ..] = arguments.as_slice() else {
        return Err("see the head of this file".into());
    };
    let password = std::env::var("MYSQL_PWD").unwrap_or_default();
    let dsn = format!("mysql://{user}:{password}@/sbtest?socket={socket}");
    let mut bench = Bench {
        wringer: wringer.clone(),
        socket: socket.clone(),
        user: user.clone(),
        password,
        rows: rows.clone(),
        seconds: seconds.clone(),
        server: Connection::open(&dsn.parse()?)?,
    };
    writeln!(stdout(), "server {}, {rows} rows, {seconds} s a run, {pairs} pairs", bench.server.server_version())?;
    for connections in connections {
        bench.compare(connections, pairs.parse()?)?;
    }
    Ok(())
}

impl Bench {
    fn compare(&mut self, connections: &str, pairs: usize) -> Result<(), Box<dyn Error>> {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        self.sysbench(connections)?; // warms the buffer pool; not counted
        for pair in 0..pairs {
            if pair % 2 == 0 {
                ours.push(self.wringer(connections)?);
                theirs.push(self.sysbench(connections)?);
            } else {
                theirs.push(self.sysbench(connections)?);
                ours.push(self.wringer(connections)?);
            }
        }
        let mut out = stdout();
        writeln!(out, "\n{connections} connections       wringer    sysbench    ratio  (95 % confidence, pairs)")?;
        let figures: [(&str, Figure); 4] = [
            ("queries/s", |ran| ran.per_second),
            ("user us/query", |ran| ran.user_us),
            ("system us/query", |ran| ran.system_us),
            ("total us/query", |ran| ran.user_us + ran.system_us),
        ];
        for (name, figure) in figures {
            let mean = |runs: &[Ran]| runs.iter().map(figure).sum::<f64>() / runs.len() as f64;
            let ratios: Vec<f64> = ours
                .iter()
                .zip(&theirs)
                .map(|(o, t)| (figure(o) / figure(t)).ln())
                .filter(|ratio| ratio.is_finite())
                .collect();
            // A short run may have no tick in user mode at all: no ratio then.
            let (low, middle, high) = confidence(&ratios);
            writeln!(
                out,
                "{name:<18} {:>10.2} {:>11.2} {middle:>8.3}  ({low:.3} to {high:.3}, {})",
                mean(&ours),
                mean(&theirs),
                ratios.len()
            )?;
        }
        let off = |runs: &[Ran]| runs.iter().map(|ran| (ran.queries - ran.counted).abs()).fold(0.0, f64::max);
        writeln!(out, "executions the server counted otherwise: wringer {}, sysbench {}", off(&ours), off(&theirs))?;
        Ok(())
    }

    fn wringer(&mut self, connections: &str) -> Result<Ran, Box<dyn Error>> {
        let mut command = Command::new(&self.wringer);
        command.args(["load", "oltp_point_select", "-o", "json", "--rand-type=uniform"]);
        command.args(self.common(connections)).env("MYSQL_PWD", &self.password);
        let (text, cpu, counted) = self.measure(command)?;
        let value: serde_json::Value = serde_json::from_str(&text)?;
        let read = |path: &str| value.pointer(path).and_then(serde_json::Value::as_f64).ok_or("a figure is missing");
        let queries = read("/load/measured/reads")?;
        Ok(ran(queries, read("/queries_per_second")?, cpu, counted))
    }

    fn sysbench(&mut self, connections: &str) -> Result<Ran, Box<dyn Error>> {
        let mut command = Command::new("sysbench");
        command.args(["oltp_point_select", "--rand-type=uniform", "--db-driver=mysql", "--mysql-db=sbtest"]);
        command.args(self.common(connections)).arg(format!("--mysql-password={}", self.password)).arg("run");
        let (text, cpu, counted) = self.measure(command)?;
        let line = text.lines().find(|line| line.contains("queries:")).ok_or("sysbench says nothing of queries")?;
        let numbers: Vec<f64> =
            line.split(|c: char| !(c.is_ascii_digit() || c == '.')).filter_map(|word| word.parse().ok()).collect();
        let [queries, per_second, ..] = numbers.as_slice() else { return Err("sysbench's queries line".into()) };
        Ok(ran(*queries, *per_second, cpu, counted))
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

    /// Output, CPU in us, and executions by the server's count.
    fn measure(&mut self, mut command: Command) -> Result<(String, Cpu, f64), Box<dyn Error>> {
        let (before, cpu_before) = (self.executions()?, cpu_of_children());
        let output = command.stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!("{command:?}: {}", output.status).into());
        }
        let cpu = cpu_of_children();
        let counted = self.executions()? - before;
        Ok((String::from_utf8(output.stdout)?, (cpu.0 - cpu_before.0, cpu.1 - cpu_before.1), counted))
    }

    fn executions(&mut self) -> Result<f64, Box<dyn Error>> {
        let rows = self.server.query("SHOW GLOBAL STATUS LIKE 'Com_stmt_execute'")?;
        Ok(rows.parse(0, 1).ok_or("the server does not count executions")?)
    }
}

fn ran(queries: f64, per_second: f64, cpu: Cpu, counted: f64) -> Ran {
    Ran { queries, per_second, user_us: cpu.0 / queries, system_us: cpu.1 / queries, counted }
}

/// Lower bound, geometric mean and upper bound of ratios given as logarithms: Student's t, 95 %.
fn confidence(logarithms: &[f64]) -> (f64, f64, f64) {
    const T: [f64; 10] = [f64::INFINITY, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];
    let count = logarithms.len() as f64;
    let mean = logarithms.iter().sum::<f64>() / count;
    let variance = logarithms.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let t = T.get(logarithms.len().saturating_sub(1)).copied().unwrap_or(2.2);
    let half = t * (variance / count).sqrt();
    ((mean - half).exp(), mean.exp(), (mean + half).exp())
}

/// User and system time of all children that have been waited for, in us.
fn cpu_of_children() -> Cpu {
    // SAFETY: all zeroes is a valid rusage, and the kernel fills the one that the pointer leads to.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let us = |time: libc::timeval| (time.tv_sec * 1_000_000 + time.tv_usec) as f64;
    (us(usage.ru_utime), us(usage.ru_stime))
}
