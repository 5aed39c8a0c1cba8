// SPDX-License-Identifier: Apache-2.0
//! The steps in the order in which they are done.

use super::{HostFacts, Step, disk_mechanism, estimate};
use crate::model::{Arm, DriverProgram, Experiment, Fill, Load, LoadBeside, Preheat, RamSqueeze, RowShape, Squeeze};
use crate::server_start::ServerStart;
use diskmodel::DiskRequest;
use evidence::{Arrivals, DiskMechanism, OomVictim, RamAmount, RamMechanism};
use units::{Bytes, counted};
use workload::distribution::Kind;

/// The time of a start after a clean stop, from exec to the first answer.
const START_SECONDS: f64 = 2.0;
const STOP_SECONDS: f64 = 2.0;
const INIT_SECONDS: f64 = 5.0;
/// Reads of the probe after each change of delay.
const PROBES: u32 = 100;

pub(super) fn steps(experiment: &Experiment, host: &HostFacts) -> Vec<Step> {
    let mut list = List { experiment, host, steps: Vec::new() };
    list.prepare();
    for turn in 1..=experiment.repeat {
        for (index, arm) in experiment.arms.iter().enumerate() {
            list.arm(arm, turn, index);
        }
    }
    list.finish();
    list.steps
}

pub(super) struct List<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) host: &'a HostFacts,
    steps: Vec<Step>,
}

impl List<'_> {
    pub(super) fn add(&mut self, station: &str, seconds: f64, text: impl Into<String>) -> &mut Step {
        let number = self.steps.len() + 1;
        let (station, text) = (station.to_owned(), text.into());
        self.steps.push(Step { number, station, arm: None, text, change: None, undo: None, seconds });
        let last = self.steps.len() - 1;
        &mut self.steps[last]
    }

    fn prepare(&mut self) {
        let server = self.server_name();
        self.add("journal", 0.1, "open the undo journal, lock what is squeezed, start the watchdog").does(
            "a watchdog process",
            "it ends with the run; if the run dies first, it puts everything back and ends",
        );
        self.server();
        let folder = self.host.data_folder.clone();
        self.add(
            "sandbox",
            INIT_SECONDS,
            format!("make a data directory below {folder}; start {server} on loopback, with a generated password"),
        )
        .does("a server process", "stop it");
        self.fill();
        self.add("sandbox", STOP_SECONDS, "stop the server: storage is never switched under a live one");
    }

    fn fill(&mut self) {
        let (fill, bytes) = (self.experiment.fill.clone(), estimate::fill_bytes(self.experiment));
        if let Some(from) = &fill.from {
            self.add(
                "fill",
                0.0,
                format!(
                    "begin with a copy of {from}, which is only read{}; how long that takes is not known",
                    if fill.keep { ", or with a clone of a copy that was kept" } else { "" }
                ),
            );
        }
        if fill.size.is_some() {
            self.fill_tables(&fill, bytes);
        }
        if let Some(scale) = fill.pgbench {
            let accounts = u64::from(scale) * 100_000;
            let text = format!("fill pgbench's tables at scale {scale}: {}", counted(accounts, "account"));
            self.add("fill", estimate::pgbench_seconds(scale), text);
        }
        self.fill_by_command();
    }

    fn fill_tables(&mut self, fill: &Fill, bytes: Bytes) {
        let shape = match fill.rows {
            RowShape::Sysbench => "sysbench's rows".to_owned(),
            RowShape::PerPage(rows) => format!("{rows} rows a page"),
            RowShape::Width(width) => format!("rows of {width}"),
        };
        let tables = counted(fill.tables.into(), "table");
        let rows = counted(estimate::rows(self.experiment), "row");
        let indexes = ["", ", an index on k", ", indexes on k and pad", ", indexes on k, pad and c"];
        let indexes = indexes.get(fill.secondary_indexes as usize).unwrap_or(&"");
        let keys = match fill.k_distribution.kind {
            Kind::Uniform => String::new(),
            kind => format!(", values of k {kind}"),
        };
        let text = format!(
            "fill {tables}: about {bytes} in {rows}, {shape}{keys}{indexes}; read the size back from the server"
        );
        self.add("fill", estimate::fill_seconds(self.experiment), text);
    }

    fn arm(&mut self, arm: &Arm, turn: u32, index: usize) {
        let from = self.steps.len();
        let first = turn == 1 && index == 0;
        let mut was = self.before(turn, index).and_then(|before| before.squeeze.ram);
        if first || arm.restart {
            self.start(arm, first, was.take());
            self.preheat(arm);
        }
        self.squeeze_ram(arm, was);
        if let Some(disk) = &arm.squeeze.disk {
            self.delay(disk);
        }
        self.probe(arm);
        self.live(arm);
        self.load(arm);
        self.idle(arm);
        self.assertions(arm);
        let name = if self.experiment.repeat == 1 { arm.name.clone() } else { format!("{} #{turn}", arm.name) };
        self.steps[from..].iter_mut().for_each(|step| step.arm = Some(name.clone()));
    }

    /// The arm that runs before this one.
    fn before(&self, turn: u32, index: usize) -> Option<&Arm> {
        match (turn, index) {
            (1, 0) => None,
            (_, 0) => self.experiment.arms.last(),
            (_, index) => self.experiment.arms.get(index - 1),
        }
    }

    /// `hides`: the RAM that the arm before has hidden.
    fn start(&mut self, arm: &Arm, first: bool, hides: Option<RamSqueeze>) {
        self.give_ram_back(hides);
        if !first {
            self.add(
                "sandbox",
                STOP_SECONDS,
                "delay to 0, stop the server: this arm starts it with other variables, in another way or with another limit",
            );
        }
        self.add("squeeze", 1.0, "evict the data files from the page cache")
            .does("the data files leave the page cache", "none needed: they come back when they are read");
        if first {
            self.slow_layer();
        }
        self.limits(arm);
        self.huge_pool(arm);
        self.host_thp(arm);
        let pool = self.experiment.pool(arm);
        let (server, variable) = (self.server_name(), self.experiment.server.flavour.pool_variable());
        let text = format!("start {server}, {variable} = {pool}{}", with(&arm.start));
        self.add("sandbox", START_SECONDS, text).does("a server process", "stop it");
        if let Some(pgbouncer) = &arm.start.pgbouncer {
            let text = format!("start pgBouncer in front of it: {pgbouncer}, which stay; the load goes through it");
            self.add("sandbox", 1.0, text).does("a pgBouncer process", "stop it, before the server");
        }
        if self.experiment.slow_layer() {
            self.add(
                "squeeze",
                1.0,
                "measure what the layer costs: direct reads through it, without delay, and past it",
            );
        }
    }

    /// The limits under which the server is started.
    fn limits(&mut self, arm: &Arm) {
        const GONE: &str = "remove it when the server has stopped";
        let (host, squeeze) = (self.host, &arm.squeeze);
        let ram = squeeze.server_ram.map(|limit| format!("limit {limit}"));
        let swap = squeeze.swap.map(|swap| format!("swap {swap}"));
        let memory: Vec<String> = ram.into_iter().chain(swap).collect();
        if !memory.is_empty() && host.memory_cgroup != "none" {
            let text = format!("make a memory cgroup ({}) for the server, {}", host.memory_cgroup, memory.join(", "));
            self.add("squeeze", 0.1, text).does("a cgroup", GONE);
        }
        if self.experiment.cpu_group() {
            let quota =
                squeeze.cpus.map_or("no quota in this arm".into(), |cpus| format!("the time of {}", cpus.in_words()));
            let text = format!("make a cpu cgroup ({}) for the server, {quota}", host.cpu_cgroup);
            self.add("squeeze", 0.1, text).does("a cgroup", GONE);
        }
        if let Some(list) = &squeeze.cpuset {
            if host.cpuset_cgroup == "none" {
                self.add("squeeze", 0.0, format!("start the server on CPU {list} alone (CPU affinity)"));
            } else {
                let text = format!("make a cpuset cgroup ({}) for the server, CPU {list}", host.cpuset_cgroup);
                self.add("squeeze", 0.1, text).does("a cgroup", GONE);
            }
        }
    }

    fn give_ram_back(&mut self, was: Option<RamSqueeze>) {
        if self.host.as_root && was.is_some_and(|was| self.hidden(was).is_some()) {
            self.add("squeeze", 0.5, "give the hidden RAM back");
        }
    }

    fn squeeze_ram(&mut self, arm: &Arm, was: Option<RamSqueeze>) {
        if !self.host.as_root || was == arm.squeeze.ram {
            return;
        }
        self.give_ram_back(was);
        let Some((ram, hidden)) = arm.squeeze.ram.and_then(|ram| Some((ram, self.hidden(ram)?))) else { return };
        let text = match ram.amount {
            RamAmount::Hide(hide) => format!("hide {hide}; measure what is left"),
            RamAmount::Leave(leave) => {
                format!("hide about {hidden} so that {leave} of MemAvailable is left; measure what is left")
            }
        };
        let server_dies = ram.oom_victim == OomVictim::Server;
        let victim = if server_dies { "; out of memory, the kernel kills the server, not the holder" } else { "" };
        let (change, undo) = match ram.mechanism.unwrap_or(self.host.ram_mechanism) {
            RamMechanism::Pool => (
                format!("vm.nr_hugepages raised by {hidden}: pages of the huge-page pool, which nobody holds"),
                "back to what it was; when all of Wringer is killed, by `wringer undo` or a reboot",
            ),
            RamMechanism::Offline => (
                format!("memory blocks of {hidden} go offline: MemTotal shrinks"),
                "the blocks come back online; when all of Wringer is killed, by `wringer undo` or a reboot",
            ),
            RamMechanism::Holder => (
                format!(
                    "vm.nr_overcommit_hugepages for moments; a process reserves {hidden} in huge pages and touches none"
                ),
                "end that process: the kernel takes the pages back at once, also when it is killed; the sysctl is back before that",
            ),
            RamMechanism::Balloon => (
                format!("a process touches {hidden} of its own memory (balloon)"),
                "end that process: the kernel takes the memory back at once, also when it is killed",
            ),
        };
        self.add("squeeze", 10.0, format!("{text}{victim}")).does(&change, undo);
    }

    /// The amount of hidden RAM; `None` when the host has no more RAM than is to be left.
    fn hidden(&self, ram: RamSqueeze) -> Option<Bytes> {
        match ram.amount {
            RamAmount::Hide(hide) => Some(hide),
            RamAmount::Leave(leave) => {
                self.host.mem_available_bytes.checked_sub(leave.0).filter(|hidden| *hidden > 0).map(Bytes)
            }
        }
    }

    fn preheat(&mut self, arm: &Arm) {
        let load = &arm.load;
        let amount = match load.preheat {
            None => return,
            Some(Preheat::Time(span)) => format!("for {span}"),
            Some(Preheat::Transactions(count)) => format!("with {}", counted(count, "transaction")),
            Some(Preheat::TimesRows(1.0)) => "with 1 transaction a row".to_owned(),
            Some(Preheat::TimesRows(factor)) => format!("with {factor} transactions a row"),
        };
        let text = format!("fill the server's page cache {amount} of {}, without delay", load.workload);
        self.add("load", estimate::preheat_seconds(self.experiment, load), text);
    }

    fn slow_layer(&mut self) {
        let (text, change) = match disk_mechanism(self.experiment, self.host) {
            None => return,
            Some(DiskMechanism::Preload) => (
                "start the slow layer, with no delay yet; the server gets a library that slows its reads and writes, and no asynchronous \
                 I/O of its own",
                "a library in the server (LD_PRELOAD)",
            ),
            Some(_) => (
                "put the slow layer over the data directory, in a private mount namespace, with no delay yet",
                "a FUSE mount that only the server's own namespace sees",
            ),
        };
        let undo = "it goes with its processes: delay to 0, stop the server, end the layer";
        self.add("squeeze", 0.5, text).does(change, undo);
    }

    fn delay(&mut self, disk: &DiskRequest) {
        let said = disk.to_string();
        let text = format!("set {said}; measure it with direct reads in the server's namespace");
        let seconds =
            0.2 + f64::from(PROBES) * disk.read_median_us() / 1e6 + if disk.is_constant() { 0.0 } else { 5.0 };
        let step = self.add("squeeze", seconds, text);
        if !disk.is_none() {
            step.does("each operation on the data directory takes longer", "delay to 0, at once");
        }
    }

    fn load(&mut self, arm: &Arm) {
        let load = &arm.load;
        self.beside(load);
        if let (Some(driver), false) = (&load.driver, load.warmup.is_zero()) {
            let text = format!(
                "warm up: run {} for {} on its own, not measured; keep what it prints",
                load.workload, load.warmup
            );
            let change = format!("a process, {}", driver.program.name());
            self.add("load", estimate::seconds(load.warmup), text).does(&change, "it ends with the run");
        } else if !load.warmup.is_zero() {
            let text = format!("warm up: {} for {}, not measured", load.workload, load.warmup);
            self.add("load", estimate::seconds(load.warmup), text);
        }
        let seconds = estimate::measured_seconds(arm);
        let observe = self.experiment.observe;
        if let Some(driver) = &load.driver {
            let text = format!(
                "run {} in place of Wringer's own load{}; keep what it prints; sample the host{} every {}{}",
                load.workload,
                driven(load),
                observed(observe),
                observe.interval,
                inventories(observe)
            );
            let change = format!("a process, {}", driver.program.name());
            return self
                .add("load", seconds, text)
                .does(&change, "it ends with the run; what it does to the data goes with the sandbox");
        }
        let sample = format!("sample the host{} every {}{}", observed(observe), observe.interval, inventories(observe));
        if let Some(replay) = &load.replay {
            return self.replay(replay, &sample);
        }
        self.add("load", seconds, format!("measure: {}; {sample}", describe(load)));
        self.moments(load);
    }

    fn moments(&mut self, load: &Load) {
        for at in &load.at {
            let again = at.every.map_or_else(String::new, |every| format!(", and again every {every}"));
            let text = format!("beside the load, {} after its beginning{again}, send: {}", at.time, at.sql);
            self.add("load", 0.0, text);
        }
        if let Some(threshold) = load.slow_statements {
            self.add("load", 0.0, format!("keep each statement that lasts {threshold} or longer"));
        }
        if load.stay {
            let until = "until the next load whose connections stay, or until the server stops";
            self.add("load", 0.0, format!("keep the {} open {until}", counted(load.threads.into(), "connection")));
        }
    }

    fn beside(&mut self, load: &Load) {
        let accounts: Vec<&str> = load.beside.iter().map(|beside| beside.account.as_str()).collect();
        if !accounts.is_empty() {
            self.add("load", 0.1, format!("make the accounts {}, where they are not there yet", accounts.join(", ")));
        }
        for statement in &load.before {
            self.add("load", 0.1, format!("send: {statement}"));
        }
        for beside in &load.beside {
            let keep = if beside.keep { "and closes none" } else { "sends one statement over each, and closes it" };
            let text = format!("beside the load, {} opens {} connections a second {keep}", beside.account, beside.rate);
            self.add("load", 0.0, text);
        }
        for LoadBeside { name, load } in &load.loads_beside {
            let connections = counted(load.threads.into(), "connection");
            self.add("load", 0.0, format!("beside the load, {name} sends {} over {connections}", load.workload));
        }
    }

    fn assertions(&mut self, arm: &Arm) {
        let asserted: Vec<String> = arm.assertions.iter().map(|asserted| asserted.assertion.to_string()).collect();
        if !asserted.is_empty() {
            let text = format!(
                "hold the result to: {}; where one fails the run goes on, and ends with exit code 1",
                asserted.join(", ")
            );
            self.add("load", 0.0, text);
        }
    }

    fn finish(&mut self) {
        let arms = &self.experiment.arms;
        let layer = self.experiment.slow_layer();
        let hides =
            self.host.as_root && arms.iter().any(|arm| arm.squeeze.ram.is_some_and(|ram| self.hidden(ram).is_some()));
        let by = |cgroup: &str, asks: &dyn Fn(&Squeeze) -> bool| {
            cgroup != "none" && arms.iter().any(|arm| asks(&arm.squeeze))
        };
        let memory = by(&self.host.memory_cgroup, &|it| it.server_ram.is_some() || it.swap.is_some());
        let cpus = self.experiment.cpu_group() || by(&self.host.cpuset_cgroup, &|it| it.cpuset.is_some());
        let named = |words: &[(bool, &'static str)]| {
            words.iter().filter(|(applies, _)| *applies).map(|(_, word)| *word).collect::<Vec<_>>().join(", ")
        };
        let at_once = named(&[(layer, "delay to 0"), (hides, "hidden RAM back")]);
        let in_huge_pages = self.host.huge_pool && arms.iter().any(|arm| arm.start.wants_huge_pages());
        let rest = named(&[
            (true, "stop the server"),
            (in_huge_pages, "give the huge pages back"),
            (arms.iter().any(|arm| self.other_thp(arm).is_some()), "put the host's transparent huge pages back"),
            (layer, "end the slow layer"),
            (memory, "remove the memory cgroup"),
            (cpus, "remove the cgroups of CPUs"),
        ]);
        if !at_once.is_empty() {
            self.add("release", 0.5, format!("neutralise: {at_once}"));
        }
        self.add("release", STOP_SECONDS, format!("dismantle, newest step first: {rest}; close the journal"));
        self.add("sandbox", 0.5, "delete the sandbox, by its manifest (--keep leaves it)");
        self.add("report", 1.0, "explain the recording; write report.html, result.json and recording.sqlite");
    }
}

impl Step {
    pub(super) fn does(&mut self, change: &str, undo: &str) {
        self.change = Some(change.to_owned());
        self.undo = Some(undo.to_owned());
    }
}

fn describe(load: &Load) -> String {
    let threads = if load.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", load.threads) };
    let arrivals = match load.arrivals {
        Arrivals::Closed => "closed loop".to_owned(),
        Arrivals::Constant { per_second } => format!("{per_second}/s evenly"),
        Arrivals::Poisson { per_second } => format!("{per_second}/s at random"),
        Arrivals::Recorded { times } => format!("the moments of a log, {times} times as fast"),
    };
    let until = match (load.time, load.events) {
        (Some(time), Some(events)) => format!("for {time} or {events} transactions"),
        (Some(time), None) => format!("for {time}"),
        (None, Some(events)) => format!("for {events} transactions"),
        (None, None) => String::new(),
    };
    let cpus = load.cpuset.as_ref().map_or_else(String::new, |list| format!(", on CPU {list}"));
    format!("{} {until}, {threads}{cpus}, {arrivals}, {}, seed {}", load.workload, load.distribution.kind, load.seed)
}

/// The words about the end of a program's run and about its CPUs.
fn driven(load: &Load) -> String {
    let is_command = load.driver.as_ref().is_some_and(|driver| driver.program == DriverProgram::Command);
    let until = match load.time {
        Some(time) if is_command => format!(", ended after {time}"),
        None if is_command => ", until it ends".to_owned(),
        _ => String::new(),
    };
    let cpus = load.cpuset.as_ref().map_or_else(String::new, |list| format!(", on CPU {list}"));
    until + &cpus
}

fn inventories(observe: crate::Observe) -> String {
    observe
        .memory
        .map_or_else(String::new, |interval| format!(", and what the server's memory is made of every {interval}"))
        + &observe.stalls.map_or_else(String::new, |watch| format!("; {}", watch.words()))
}

/// The words about all with which the server is started besides its variables.
fn with(start: &ServerStart) -> String {
    let pages = start.huge_pages.map(|asked| format!(", huge pages {}", asked.name()));
    let malloc = start.malloc.as_ref().map(|malloc| format!(", malloc {}", malloc.name()));
    let thp = start.thp.map(|thp| format!(", transparent huge pages {}", thp.name()));
    let environment = start.environment.iter().map(|(name, value)| format!(", {name}={value}"));
    [pages, malloc, thp].into_iter().flatten().chain(environment).collect()
}

fn observed(observe: crate::Observe) -> &'static str {
    match (observe.process, observe.server) {
        (true, true) => ", the server process and its counters",
        (true, false) => " and the server process",
        (false, true) => " and the server's counters",
        (false, false) => "",
    }
}
