// SPDX-License-Identifier: Apache-2.0
//! Figures that the run of an experiment records besides the results of its loads: `memory.explained`, `probe.scan.warm`, `article NAME`.

use evidence::Unit;
use units::{Bytes, ParseError, Span};

/// The word before the name of a figure of the finding `article.figures`.
pub(crate) const ARTICLE: &str = "article";
/// Each stands for one word of a name: an account, or the name of a load beside the load.
const ANY: [&str; 2] = ["ACCOUNT", "NAME"];

/// A figure that a run records, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    name: String,
    source: Source,
    kind: Kind,
}

/// What the run must do so that it records a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Inventories of the server's memory: `observe.memory`.
    Memory,
    /// Slow statements of the load, or a watch of the server's threads: `load.slow_statements`, `observe.stalls`.
    Stalls,
    /// Reads before the load: `load.probe`.
    Probe,
    /// A rest after the load: `load.idle`.
    Idle,
    /// Clients beside the load: `load.beside`.
    Beside,
    /// Loads beside the load: `load.beside`.
    LoadBeside,
    /// The server's processes at the end of the load, where an arm has settings of the server's start.
    Processes,
    /// The finding `article.figures`: the key `article`.
    Article,
}

/// How a value is written, and in which unit it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bytes,
    BytesPerSecond,
    PerSecond,
    Time,
    Ratio,
    /// A part of a whole, from 0 to 1.
    Share,
    Count,
}

/// All names but those of an article's figures.
const KNOWN: [(&str, Source, Kind); 44] = [
    ("memory.explained", Source::Memory, Kind::Share),
    ("memory.unexplained", Source::Memory, Kind::Bytes),
    ("memory.total", Source::Memory, Kind::Bytes),
    ("memory.rss", Source::Memory, Kind::Bytes),
    ("memory.vsz", Source::Memory, Kind::Bytes),
    ("memory.page_tables", Source::Memory, Kind::Bytes),
    ("stalls.count", Source::Stalls, Kind::Count),
    ("stalls.victims", Source::Stalls, Kind::Count),
    ("stalls.longest", Source::Stalls, Kind::Time),
    ("stalls.lost", Source::Stalls, Kind::Time),
    ("stalls.unexplained", Source::Stalls, Kind::Time),
    ("stalls.share", Source::Stalls, Kind::Share),
    ("probe.scan.cold", Source::Probe, Kind::BytesPerSecond),
    ("probe.scan.warm", Source::Probe, Kind::BytesPerSecond),
    ("probe.scan.cold.cached", Source::Probe, Kind::Share),
    ("probe.scan.warm.cached", Source::Probe, Kind::Share),
    ("probe.read.direct.cold", Source::Probe, Kind::Time),
    ("probe.read.direct.warm", Source::Probe, Kind::Time),
    ("probe.read.cached.cold", Source::Probe, Kind::Time),
    ("probe.read.cached.warm", Source::Probe, Kind::Time),
    ("probe.read.direct.cold.rate", Source::Probe, Kind::PerSecond),
    ("probe.read.direct.warm.rate", Source::Probe, Kind::PerSecond),
    ("probe.read.cached.cold.rate", Source::Probe, Kind::PerSecond),
    ("probe.read.cached.warm.rate", Source::Probe, Kind::PerSecond),
    ("load.rss", Source::Idle, Kind::Bytes),
    ("load.vsz", Source::Idle, Kind::Bytes),
    ("idle.rss.begin", Source::Idle, Kind::Bytes),
    ("idle.rss.end", Source::Idle, Kind::Bytes),
    ("idle.vsz.begin", Source::Idle, Kind::Bytes),
    ("idle.vsz.end", Source::Idle, Kind::Bytes),
    ("beside.ACCOUNT.tried", Source::Beside, Kind::Count),
    ("beside.ACCOUNT.opened", Source::Beside, Kind::Count),
    ("beside.ACCOUNT.refused", Source::Beside, Kind::Count),
    ("beside.NAME.throughput", Source::LoadBeside, Kind::PerSecond),
    ("beside.NAME.p50", Source::LoadBeside, Kind::Time),
    ("beside.NAME.p95", Source::LoadBeside, Kind::Time),
    ("beside.NAME.p99", Source::LoadBeside, Kind::Time),
    ("beside.NAME.p99.9", Source::LoadBeside, Kind::Time),
    ("beside.NAME.errors", Source::LoadBeside, Kind::Count),
    ("server.page_tables", Source::Processes, Kind::Bytes),
    ("server.shared_mapped", Source::Processes, Kind::Bytes),
    ("server.pss", Source::Processes, Kind::Bytes),
    ("connection.page_tables", Source::Processes, Kind::Bytes),
    ("connection.shared_mapped", Source::Processes, Kind::Bytes),
];

impl Recorded {
    /// `None`: it is no name of this kind. A name whose first word is known, and the rest is not, is an error, which tells the names that there are.
    pub(crate) fn parse(words: &[&str]) -> Option<Result<Self, String>> {
        if let [ARTICLE, rest @ ..] = words {
            let name = rest.join(" ");
            if name.is_empty() {
                return Some(Err("it does not say which figure of the article".into()));
            }
            return Some(Ok(Self { name, source: Source::Article, kind: Kind::Ratio }));
        }
        let [name] = words else { return None };
        if let Some((_, source, kind)) = KNOWN.iter().find(|(known, ..)| fits(name, known)) {
            return Some(Ok(Self { name: (*name).to_owned(), source: *source, kind: *kind }));
        }
        let (first, _) = name.split_once('.')?;
        let alike: Vec<&str> = names().filter(|known| known.split_once('.').is_some_and(|it| it.0 == first)).collect();
        let known = if alike.is_empty() { names().collect() } else { alike };
        Some(Err(format!("'{name}' is no figure that a run records; there are {}", known.join(", "))))
    }

    /// As it was written, without the word `article`.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn source(&self) -> Source {
        self.source
    }

    pub(crate) fn unit(&self) -> Unit {
        match self.kind {
            Kind::Bytes => Unit::Bytes,
            Kind::BytesPerSecond | Kind::PerSecond => Unit::PerSecond,
            Kind::Time => Unit::Microseconds,
            Kind::Ratio | Kind::Share => Unit::Ratio,
            Kind::Count => Unit::Count,
        }
    }

    /// The limit in the figure's unit.
    pub(crate) fn limit(&self, text: &str) -> Result<f64, String> {
        let told = |error: ParseError| error.to_string();
        match self.kind {
            Kind::Bytes | Kind::BytesPerSecond => text.parse::<Bytes>().map(|bytes| bytes.0 as f64).map_err(told),
            Kind::Time => text.parse::<Span>().map(|span| span.as_ns() as f64 / 1e3).map_err(told),
            Kind::Share => share(text),
            Kind::PerSecond | Kind::Ratio | Kind::Count => crate::number(text),
        }
    }
}

/// `0.95` or `95%`: a limit above 1 would hold always or never.
fn share(text: &str) -> Result<f64, String> {
    let value = match text.strip_suffix('%') {
        Some(percent) => crate::number(percent.trim_end())? / 100.0,
        None => crate::number(text)?,
    };
    if value > 1.0 { Err(format!("a share is from 0 to 1, and {text} is not: write 0.95, or 95%")) } else { Ok(value) }
}

/// All names, an account as `ACCOUNT`, the name of a load beside the load as `NAME`.
pub fn names() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|(name, ..)| *name)
}

fn fits(name: &str, known: &str) -> bool {
    let (words, of_known) = (name.split('.'), known.split('.'));
    words.clone().count() == of_known.clone().count()
        && words.zip(of_known).all(|(word, known)| word == known || (ANY.contains(&known) && !word.is_empty()))
}
