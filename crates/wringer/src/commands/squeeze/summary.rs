// SPDX-License-Identifier: Apache-2.0
//! The summary of a squeeze: asked, got, and counted.

use super::{host_ram, line};
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::{self, Output};
use diskmodel::Model;
use evidence::{DiskMechanism, LatencyHistogram, Measured, Quantity, Unit};
use host::Holder;
use host::process::Identity;
use serde_json::{Value, json};
use slowfs::stats::{InPrograms, Latency, Stats};
use squeeze::foreign_cache::ForeignCache;
use squeeze::limits::{Account, Got, LimitRequest};
use squeeze::ram::Hidden;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use units::{Bytes, Span, counted};

pub struct Summary {
    pub run: String,
    pub program: PathBuf,
    pub exit_code: i32,
    pub elapsed: Duration,
    /// CPU time of the command and of the processes that it waited for.
    pub cpu: Duration,
    /// Processes that the command left running, and that were ended.
    pub left_behind: usize,
    /// With `--leave`: processes that the command left running, and that live on.
    pub left_running: usize,
    /// Processes that the caller has no right to end, or with `--leave` no right to give their CPUs back.
    pub not_ended: Vec<Identity>,
    pub asked: LimitRequest,
    pub got: Got,
    pub account: Account,
    /// The worst result of all looks at the command's open files: their cached bytes, and how many are charged to others. `None`: no open file was
    /// seen.
    pub cached_by_others: Option<ForeignCache>,
    /// The mechanisms by which memory, CPU quota and CPU set are limited.
    pub mechanisms: [Option<String>; 3],
    /// The CPUs on which the command was allowed to run just after its start.
    pub cpus_allowed: Option<String>,
    pub host_ram: Option<Hidden>,
    pub disks: Vec<DiskSeen>,
}

/// One directory, and the command's operations there.
pub struct DiskSeen {
    path: PathBuf,
    mechanism: DiskMechanism,
    in_programs: Option<InPrograms>,
    model: Model,
    measured: Vec<Measured>,
    classes: [Class; 3],
}

struct Class {
    name: &'static str,
    count: u64,
    bytes: u64,
    latency: Latency,
}

impl DiskSeen {
    pub fn new(
        (path, model): (&Path, &Model),
        mechanism: DiskMechanism,
        measured: Vec<Measured>,
        before: &Stats,
        after: &Stats,
    ) -> Self {
        let class = |name, count: [u64; 2], bytes: [u64; 2], latency: [&Latency; 2]| Class {
            name,
            count: count[1] - count[0],
            bytes: bytes[1] - bytes[0],
            latency: Latency {
                own: latency[1].own.since(&latency[0].own),
                asked: latency[1].asked.since(&latency[0].asked),
                got: latency[1].got.since(&latency[0].got),
            },
        };
        let (reads, writes) = ([before.reads, after.reads], [before.writes, after.writes]);
        let (read_bytes, write_bytes) =
            ([before.read_bytes, after.read_bytes], [before.write_bytes, after.write_bytes]);
        let classes = [
            class("read", reads, read_bytes, [&before.read_latency, &after.read_latency]),
            class("write", writes, write_bytes, [&before.write_latency, &after.write_latency]),
            class("sync", [before.syncs, after.syncs], [0, 0], [&before.sync_latency, &after.sync_latency]),
        ];
        let (path, model) = (path.to_owned(), model.clone());
        let in_programs = after.in_programs.zip(before.in_programs).map(|(after, before)| after.since(before));
        Self { path, mechanism, in_programs, model, measured, classes }
    }

    /// Whether the library was loaded, if a library should slow the programs down.
    pub fn was_loaded(&self) -> bool {
        self.in_programs.is_none_or(|seen| seen.processes > 0)
    }

    fn json(&self) -> Value {
        let mut value = json!({
            "directory": self.path,
            "mechanism": self.mechanism.in_results(),
            "model": self.model,
            "measured": self.measured,
        });
        if let Some(seen) = self.in_programs {
            value["in_programs"] = json!(seen);
        }
        for class in &self.classes {
            value[format!("{}s", class.name)] = json!({
                "count": class.count,
                "bytes": class.bytes,
                "asked_p50_us": median_us(&class.latency.asked),
                "own_p50_us": median_us(&class.latency.own),
                "got_p50_us": median_us(&class.latency.got),
                "got_p99_us": percentile_us(&class.latency.got, 99.0),
            });
        }
        value
    }

    fn show(&self) {
        line("disk", format!("{}: {} ({})", self.path.display(), self.model, self.mechanism.in_results()));
        let (way, probed): (Vec<&Measured>, Vec<_>) = self.measured.iter().partition(|it| it.what == squeeze::WAY);
        way.iter().filter(|way| way.got.is_none()).for_each(|way| line("", format!("note: {}", way.witness)));
        for measured in probed {
            let value = |quantity: &Option<Quantity>| match quantity {
                Some(Quantity { value, unit: Unit::PerSecond }) => format!("{value:.0}/s"),
                Some(quantity) => time(quantity.value),
                None => "unknown".to_owned(),
            };
            let text = format!(
                "probe: {}: predicted {}, got {}, before the command",
                measured.what,
                value(&measured.predicted),
                value(&measured.got)
            );
            line("", text);
        }
        let seen: Vec<String> = self.classes.iter().filter(|class| class.count > 0).map(Class::text).collect();
        line(
            "",
            if seen.is_empty() {
                "the command did nothing there that reached the disk".into()
            } else {
                seen.join("; ")
            },
        );
        if let Some(seen) = self.in_programs {
            let words = [
                counted(seen.processes, "process"),
                counted(seen.cached_reads, "read") + " from the page cache",
                counted(seen.buffered_writes, "buffered write"),
            ];
            line("", format!("the library was in {}; not delayed: {}, {}", words[0], words[1], words[2]));
        }
        if let Some(seen) = self.in_programs.filter(|seen| seen.lapsed > 0) {
            line(
                "",
                format!(
                    "{} lapsed: the layer's process was held up, and nothing is delayed then",
                    counted(seen.lapsed, "delay")
                ),
            );
        }
    }
}

impl Class {
    fn text(&self) -> String {
        let (asked, got) = (median_us(&self.latency.asked), median_us(&self.latency.got));
        let median = match (asked, got) {
            (Some(asked), Some(got)) => format!(", median asked {}, got {}", time(asked), time(got)),
            _ => String::new(),
        };
        format!("{}{median}", counted(self.count, self.name))
    }
}

fn median_us(histogram: &LatencyHistogram) -> Option<f64> {
    percentile_us(histogram, 50.0)
}

fn percentile_us(histogram: &LatencyHistogram, percentile: f64) -> Option<f64> {
    (!histogram.is_empty()).then(|| histogram.percentile_ns(percentile) as f64 / 1000.0)
}

fn time(us: f64) -> String {
    if us < 1000.0 { format!("{us:.0} us") } else { format!("{:.2} ms", us / 1000.0) }
}

impl Summary {
    pub fn exit_code(&self) -> i32 {
        self.exit_code
    }

    pub fn write(&self, mut to: impl Write) -> anyhow::Result<()> {
        Ok(writeln!(to, "{}", report::pretty(&self.json())?)?)
    }

    /// Prints the summary on standard error.
    ///
    /// # Errors
    /// The JSON, which a program reads, cannot be written. A reader that has closed its pipe does not want it.
    pub fn show(&self, output: Output) -> anyhow::Result<()> {
        if output != Output::Json {
            self.show_text();
            return Ok(());
        }
        let is_closed = |error: &anyhow::Error| {
            error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
        };
        self.write(io::stderr().lock()).or_else(|error| if is_closed(&error) { Ok(()) } else { Err(error) })
    }

    fn show_text(&self) {
        let program = self.program.file_name().unwrap_or_default().to_string_lossy();
        let (elapsed, cpu) = (self.elapsed.as_secs_f64(), self.cpu.as_secs_f64());
        terminal::say(format_args!(
            "squeeze: {program} ended with exit code {} after {elapsed:.2} s, with {cpu:.2} s of CPU",
            self.exit_code
        ));
        self.host_ram.iter().for_each(host_ram::show);
        self.show_memory();
        self.show_cpu();
        self.disks.iter().for_each(DiskSeen::show);
        if self.left_behind > 0 {
            line("ended", format!("{} that it had left running", counted(self.left_behind as u64, "process")));
        }
        if self.left_running > 0 {
            let lives = if self.left_running == 1 { "lives on" } else { "live on" };
            line("left", format!("{} {lives}, squeezed no more", counted(self.left_running as u64, "process")));
        }
        if self.not_ended.is_empty() {
            terminal::say("  everything is given back");
        }
    }

    /// A process that is still squeezed, or lost limits under which it was started, means: the host is not restored.
    pub fn refuse_not_ended(&self) -> Outcome {
        if self.not_ended.is_empty() {
            return Ok(());
        }
        let pids: Vec<String> = self.not_ended.iter().map(|process| process.pid.to_string()).collect();
        let names: Vec<String> = self.not_ended.iter().map(|process| Holder::of(process.pid).to_string()).collect();
        let (names, pids) = (names.join(", "), pids.join(" "));
        let message = if self.left_running > 0 {
            format!("this user may not give {names} back the CPUs: started by the command, and run by another user")
        } else {
            format!("this user may not end {names}: started by the command, and run by another user; all else is back")
        };
        let hint = match self.left_running {
            0 => format!("end what was left: sudo kill {pids}"),
            _ => format!("for each of {pids}: sudo taskset --all-tasks --pid --cpu-list CPUS PID"),
        };
        Err(Failure::message(Exit::NotRestored, message).hint(hint))
    }

    fn show_memory(&self) {
        let mechanism = self.mechanisms[0].as_deref().unwrap_or("none");
        let memory = self.account.memory.clone().unwrap_or_default();
        let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), |bytes| Bytes(bytes).to_string());
        if let Some(asked) = self.asked.ram {
            let text = format!(
                "asked {asked}, got {} ({mechanism}); peak {}, page cache included",
                bytes(self.got.ram_bytes),
                bytes(memory.peak_bytes)
            );
            line("ram", text);
            self.show_cached_by_others(asked);
        }
        if let Some(asked) = self.asked.swap {
            let got =
                self.got.swap_bytes.map(|bytes| if bytes == 0 { "off".to_owned() } else { Bytes(bytes).to_string() });
            line(
                "swap",
                format!("asked {asked}, got {} ({mechanism})", got.unwrap_or_else(|| "none on this host".into())),
            );
        }
        match memory.oom_kills {
            Some(0) => {}
            Some(kills) => {
                line("OOM", format!("the kernel killed {} of it: the limit left no room", counted(kills, "process")))
            }
            None if self.asked.ram.is_some() => line("OOM", "this kernel does not count the kills of a cgroup"),
            None => {}
        }
    }

    fn show_cached_by_others(&self, limit: Bytes) {
        if let Some(cache) = self.cached_by_others.filter(|cache| cache.matters(limit)) {
            line("WARNING", format!("{cache}; reads of them are free of the limit"));
            line("", "who reads them besides? what is there already: `wringer probe cache PATH`");
        }
    }

    fn show_cpu(&self) {
        if let Some(asked) = self.asked.cpus {
            let got = self.got.cpus.map_or_else(|| "unknown".to_owned(), |cpus| cpus.to_string());
            let cpu = self.account.cpu.clone().unwrap_or_default();
            let text = format!(
                "asked {asked}, got {got} ({}); used {:.2}; throttled in {} of {} periods, {} in all",
                self.mechanisms[1].as_deref().unwrap_or("none"),
                self.cpus_used(),
                cpu.throttled_periods,
                cpu.periods,
                Span::micros(cpu.throttled_us)
            );
            line("cpus", text);
        }
        if let Some(asked) = &self.asked.cpuset {
            let got = self.cpuset_got().unwrap_or_else(|| "unknown, it ended at once".into());
            line("cpuset", format!("asked {asked}, got {got} ({})", self.mechanisms[2].as_deref().unwrap_or("none")));
        }
    }

    fn cpuset_got(&self) -> Option<String> {
        self.cpus_allowed.clone().or_else(|| self.got.cpuset.as_ref().map(ToString::to_string))
    }

    fn cpus_used(&self) -> f64 {
        self.cpu.as_secs_f64() / self.elapsed.as_secs_f64().max(1e-6)
    }

    fn json(&self) -> Value {
        let [memory_by, cpu_by, cpuset_by] = &self.mechanisms;
        let memory = self.account.memory.clone().unwrap_or_default();
        let cpu = self.account.cpu.clone().unwrap_or_default();
        json!({
            "schema": 1,
            "run": self.run,
            "program": self.program,
            "exit_code": self.exit_code,
            "elapsed_us": Span(self.elapsed).as_us(),
            "cpu_us": Span(self.cpu).as_us(),
            "left_behind": self.left_behind,
            "left_running": self.left_running,
            "not_ended": self.not_ended.iter().map(|process| process.pid).collect::<Vec<_>>(),
            "ram": self.asked.ram.map(|asked| json!({
                "asked_bytes": asked.0,
                "got_bytes": self.got.ram_bytes,
                "mechanism": memory_by,
                "peak_bytes": memory.peak_bytes,
                "oom_kills": memory.oom_kills,
                "cached_by_others_bytes": self.cached_by_others.map(|cache| cache.bytes()),
            })),
            "swap": self.asked.swap.map(|asked| json!({
                "asked_bytes": asked.bytes(),
                "got_bytes": self.got.swap_bytes,
                "mechanism": memory_by,
            })),
            "cpus": self.asked.cpus.map(|asked| json!({
                "asked": asked,
                "got": self.got.cpus,
                "mechanism": cpu_by,
                "used": self.cpus_used(),
                "periods": cpu.periods,
                "throttled_periods": cpu.throttled_periods,
                "throttled_us": cpu.throttled_us,
            })),
            "cpuset": self.asked.cpuset.as_ref().map(|asked| json!({
                "asked": asked,
                "got": self.cpuset_got(),
                "mechanism": cpuset_by,
            })),
            "host_ram": self.host_ram.as_ref().map(host_ram::json),
            "disks": self.disks.iter().map(DiskSeen::json).collect::<Vec<_>>(),
        })
    }
}
