// SPDX-License-Identifier: Apache-2.0
//! `[load]` of an arm whose load is another program: sysbench, pgbench, any command.

use super::load_keys::too_long;
use super::{foreign_load, moments};
use crate::model::{Arm, Driver, DriverProgram, Fill, Flavour, Load};
use crate::section::Section;
use crate::tree::Value;
use units::Span;
use workload::distribution;

const DRIVERS: [DriverProgram; 3] = [DriverProgram::Sysbench, DriverProgram::Pgbench, DriverProgram::Command];
const WORDS: [&str; 3] = ["sysbench", "pgbench", "command"];
/// Keys that only Wringer's own load has. The options of its workloads and the numbers of its distributions are such keys, too.
const OURS: [&str; 10] =
    ["workload", "rate", "arrivals", "warmup", "preheat", "distribution", "seed", "prepared", "events", "threads"];
/// Options that name the server and the account: an experiment uses only its own server.
const SYSBENCH_CONNECTION: [&str; 13] = [
    "--db-driver",
    "--config-file",
    "--mysql-host",
    "--mysql-port",
    "--mysql-socket",
    "--mysql-user",
    "--mysql-password",
    "--mysql-db",
    "--pgsql-host",
    "--pgsql-port",
    "--pgsql-user",
    "--pgsql-password",
    "--pgsql-db",
];
const PGBENCH_CONNECTION: [&str; 8] = ["-h", "--host", "-p", "--port", "-U", "--username", "-i", "--initialize"];
/// The length of a run by default; pgbench gets it as an argument.
const USUAL: Span = Span::secs(10);

/// Refuses keys of a driver in a section that names no driver.
pub(super) fn refuse_without(section: &Section<'_>) {
    for key in ["arguments", "command"] {
        if let Some(node) = section.node(key) {
            let hint = "write driver = \"sysbench\", \"pgbench\" or \"command\" beside it, and no workload";
            section.wrong(Some(node), &format!("load.{key} has no meaning without a driver"), Some(hint.into()));
        }
    }
}

pub(super) fn read(section: Section<'_>, flavour: Option<Flavour>) -> Option<Load> {
    let word = section.choice("driver", &WORDS);
    let program = word.and_then(|word| DRIVERS.into_iter().find(|driver| driver.name() == word.value));
    let arguments = texts(&section, "arguments");
    let command = texts(&section, "command");
    let threads = section.integer("threads", 1..=100_000u32).map(|number| number.value);
    let events = section.integer("events", 1..=u64::MAX >> 1).map(|number| number.value);
    let time = whole_seconds(&section, "time");
    let warmup = whole_seconds(&section, "warmup");
    let load = foreign_load::load(&section);
    refuse_ours(&section, program);
    moments::refuse_beside(&section, "driver");
    let Some(program) = program else {
        section.finish();
        return None;
    };
    let asked = Asked { section: &section, program, threads, events, time };
    let driver = match program {
        DriverProgram::Sysbench => asked.sysbench(arguments.unwrap_or_default()),
        DriverProgram::Pgbench => asked.pgbench(arguments.unwrap_or_default(), flavour),
        DriverProgram::Command => asked.command(command.unwrap_or_default()),
    };
    let length = asked.length(&driver);
    section.finish();
    Some(Load {
        workload: named(&driver),
        threads: threads.unwrap_or(1),
        time: length,
        warmup: warmup.unwrap_or(Span::ZERO),
        prepared: true,
        driver: Some(driver),
        ..load
    })
}

/// `sysbench oltp_read_only`, `pgbench`, `command ./my-load`.
fn named(driver: &Driver) -> String {
    let program = driver.program.name();
    let what = match driver.program {
        DriverProgram::Sysbench => driver.script(),
        DriverProgram::Pgbench => None,
        DriverProgram::Command => driver.arguments.first().map(String::as_str),
    };
    what.map_or_else(|| program.to_owned(), |what| format!("{program} {what}"))
}

pub(super) fn texts(section: &Section<'_>, key: &'static str) -> Option<Vec<String>> {
    let node = section.node(key)?;
    let Value::List(items) = &node.value else {
        let message = format!("{} is {}, not a list of texts", section.named(key), node.value.kind());
        section.wrong(
            Some(node),
            &message,
            Some(format!("write {key} = [\"...\", \"...\"], each argument as a text of its own")),
        );
        return None;
    };
    let mut texts = Vec::new();
    for item in items {
        match &item.value {
            Value::Text(text) => texts.push(text.clone()),
            other => {
                let message = format!("{} has {} in it, not a text", section.named(key), other.kind());
                section.wrong(Some(item), &message, Some(format!("write \"{}\"", other.written())));
            }
        }
    }
    Some(texts)
}

/// A time for another program, which takes only whole seconds.
fn whole_seconds(section: &Section<'_>, key: &'static str) -> Option<Span> {
    let asked = section.unit::<Span>(key, "20s")?.value;
    too_long(section, key, asked);
    if asked.is_zero() || asked.as_us() % 1_000_000 != 0 {
        let message = format!("load.{key} cannot be {asked} with a driver");
        section.wrong(section.node(key), &message, Some(format!("write whole seconds, such as {key} = \"20s\"")));
        return None;
    }
    Some(asked)
}

/// Keys of Wringer's own load.
pub(super) fn ours() -> impl Iterator<Item = &'static str> {
    let options = workload::SETTINGS.iter().filter(|setting| setting.in_experiments);
    let numbers = distribution::NUMBERS.iter().map(|number| number.name);
    OURS.into_iter().chain(options.map(|setting| setting.name)).chain(numbers)
}

/// Refuses keys that would have no effect.
fn refuse_ours(section: &Section<'_>, program: Option<DriverProgram>) {
    for key in ours() {
        let taken = match (key, program) {
            ("threads" | "warmup", program) => program != Some(DriverProgram::Command),
            ("events", program) => program == Some(DriverProgram::Sysbench),
            _ => false,
        };
        if let Some(node) = section.node(key).filter(|_| !taken) {
            let hint = match program {
                Some(DriverProgram::Command) => "write it into the command, as its program wants it",
                _ if key == "preheat" => "write warmup = \"20s\": its program runs for so long before it is measured",
                _ => "write the program's own option into arguments",
            };
            let message = format!("load.{key} has no meaning beside load.driver");
            section.wrong(Some(node), &message, Some(hint.into()));
        }
    }
}

/// The values of the keys, which become arguments of the program.
struct Asked<'a> {
    section: &'a Section<'a>,
    program: DriverProgram,
    threads: Option<u32>,
    events: Option<u64>,
    time: Option<Span>,
}

impl Asked<'_> {
    fn wrong(&self, key: &'static str, message: &str, hint: &str) {
        self.section.wrong(self.section.node(key), message, Some(hint.to_owned()));
    }

    fn sysbench(&self, mut arguments: Vec<String>) -> Driver {
        self.no_other("command", "arguments = [\"oltp_read_only\", \"--threads=4\"]");
        let plain: Vec<String> = arguments.iter().filter(|word| !word.starts_with("--")).cloned().collect();
        match plain.as_slice() {
            [] => self.section.missing("arguments", "name sysbench's script first: arguments = [\"oltp_read_only\"]"),
            [_] => {}
            [_, run] if run == "run" => arguments.retain(|word| word != "run"),
            [_, other, ..] => self.wrong(
                "arguments",
                &format!("\"{other}\" is a second word that is no option"),
                "an experiment runs the script: its tables come from [fill], and values are written --name=value",
            ),
        }
        self.refuse_connection(&arguments, &SYSBENCH_CONNECTION);
        let time = match (self.time, self.events) {
            // without this sysbench would stop after 10 s
            (None, Some(_)) => Some("0".to_owned()),
            (time, _) => time.map(seconds),
        };
        let events = self.events.map(|events| events.to_string());
        for (key, value) in [("threads", self.threads.map(|it| it.to_string())), ("events", events), ("time", time)] {
            if let Some(value) = value {
                self.refuse_twice(key, arguments.iter().any(|word| word.starts_with(&format!("--{key}="))));
                arguments.push(format!("--{key}={value}"));
            }
        }
        Driver { program: self.program, arguments }
    }

    fn pgbench(&self, mut arguments: Vec<String>, flavour: Option<Flavour>) -> Driver {
        self.no_other("command", "arguments = [\"-b\", \"simple-update\"]");
        if let Some(other) = flavour.filter(|flavour| *flavour != Flavour::Postgresql) {
            let message = format!("pgbench speaks to PostgreSQL, and server.flavour is {other}");
            self.wrong("driver", &message, "write driver = \"sysbench\", or flavour = \"postgresql\"");
        }
        self.refuse_connection(&arguments, &PGBENCH_CONNECTION);
        let has = |words: &[&str]| {
            arguments.iter().any(|argument| words.iter().any(|word| argument == word || is_joined(argument, word)))
        };
        let (timed, clients) = (has(&["-T", "--time", "-t", "--transactions"]), has(&["-c", "--client"]));
        if let Some(threads) = self.threads {
            self.refuse_twice("threads", clients);
            arguments.push(format!("--client={threads}"));
        }
        match self.time {
            Some(time) => {
                self.refuse_twice("time", timed);
                arguments.push(format!("--time={}", seconds(time)));
            }
            // pgbench without this option would stop after ten transactions
            None if !timed => arguments.push(format!("--time={}", seconds(USUAL))),
            None => {}
        }
        Driver { program: self.program, arguments }
    }

    fn command(&self, command: Vec<String>) -> Driver {
        self.no_other("arguments", "command = [\"./my-load\", \"--dsn\", \"{dsn}\"]");
        if command.first().is_none_or(String::is_empty) {
            self.section.missing("command", "write command = [\"./my-load\", \"--dsn\", \"{dsn}\"], the program, then each of its arguments as a text of its own");
        }
        refuse_password(self.section, &command);
        Driver { program: self.program, arguments: command }
    }

    fn no_other(&self, key: &'static str, hint: &str) {
        if self.section.node(key).is_some() {
            let message = format!("load.{key} does not go with driver = \"{}\"", self.program.name());
            self.wrong(key, &message, &format!("write {hint}"));
        }
    }

    fn refuse_connection(&self, arguments: &[String], options: &[&str]) {
        let says = |word: &&String| {
            let name = word.split('=').next().unwrap_or_default().replace('_', "-");
            options
                .iter()
                .any(|option| name == *option || (self.program == DriverProgram::Pgbench && is_joined(word, option)))
        };
        if let Some(word) = arguments.iter().find(says) {
            let message = format!("\"{word}\" is Wringer's to say: the arm's server is the experiment's own");
            self.wrong("arguments", &message, "leave it out");
        }
    }

    fn refuse_twice(&self, key: &'static str, is_there: bool) {
        if is_there {
            let message = format!("load.{key} and load.arguments both say it");
            self.wrong(key, &message, "keep one of them");
        }
    }

    /// How long the program will run, if its arguments say it.
    fn length(&self, driver: &Driver) -> Option<Span> {
        let prefix = match self.program {
            DriverProgram::Sysbench => "--time=",
            DriverProgram::Pgbench => "-T",
            DriverProgram::Command => return self.time,
        };
        let written = driver.arguments.iter().rev().find_map(|word| word.strip_prefix(prefix)?.parse().ok());
        self.time.or(written.map(Span::secs)).or(self.events.is_none().then_some(USUAL))
    }
}

/// Refuses `{password}` in the arguments of `command`.
pub(super) fn refuse_password(section: &Section<'_>, command: &[String]) {
    if command.iter().any(|word| word.contains("{password}")) {
        let message = "{password} would show the password to everybody on the machine: `ps` prints a program's words";
        let hint = "write {password_file}, a file of mode 0600 that holds it; or take it from the environment: MYSQL_PWD, \
                    PGPASSWORD, WRINGER_DSN";
        section.wrong(section.node("command"), message, Some(hint.into()));
    }
}

/// Whether the argument is the option and its value in one word: `-T10`, `--time=10`.
fn is_joined(argument: &str, option: &str) -> bool {
    argument
        .strip_prefix(option)
        .is_some_and(|rest| if option.starts_with("--") { rest.starts_with('=') } else { !rest.is_empty() })
        && (option.starts_with("--") || !argument.starts_with("--"))
}

fn seconds(span: Span) -> String {
    span.0.as_secs().to_string()
}

/// pgbench's own scripts need pgbench's own tables, whether pgbench or Wringer sends them.
pub(super) fn check_tables(top: &Section<'_>, fill: Option<&Fill>, arms: &[Arm]) {
    if fill.is_none_or(|fill| fill.pgbench.is_some() || fill.from.is_some() || !fill.command.is_empty()) {
        return;
    }
    let by_pgbench = |arm: &&Arm| {
        let driver = arm.load.driver.as_ref();
        driver.is_some_and(|driver| driver.program == DriverProgram::Pgbench && driver.files().is_empty())
    };
    let section = top.section("fill");
    if let Some(arm) = arms.iter().find(by_pgbench) {
        let message = format!("arm '{}' runs pgbench's own scripts, and nothing makes their tables", arm.name);
        let hint =
            "write pgbench = 1, their scale, below [fill]; or a script of your own: arguments = [\"-f\", \"mine.sql\"]";
        section.wrong(None, &message, Some(hint.into()));
    }
    let loads = |arm: &'_ Arm| -> Vec<_> {
        let beside = arm.load.loads_beside.iter().map(|beside| &beside.load);
        let all = std::iter::once(&arm.load).chain(beside);
        all.filter(|load| load.is_pgbench()).map(|load| (arm.name.clone(), load.workload.clone())).collect()
    };
    if let Some((arm, workload)) = arms.iter().flat_map(loads).next() {
        let message = format!("arm '{arm}' sends {workload}, and nothing makes pgbench's tables");
        section.wrong(None, &message, Some("write pgbench = 1, their scale, below [fill]".into()));
    }
}
