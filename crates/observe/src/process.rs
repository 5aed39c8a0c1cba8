// SPDX-License-Identifier: Apache-2.0
//! One process; or a process and all its descendants, as a sum, with each process beside the sum.
//!
//! Reading CPU, faults and I/O is cheap. Memory has tiers, because `smaps_rollup` walks the page tables and during this time keeps the process from
//! mapping memory: the more resident memory, the longer.

mod rows;

use crate::host_readers::tick_us;
use crate::procfile::ProcFile;
use crate::{Collector, Error, Kind, Reader, parse};
use rows::Rows;
pub(crate) use rows::role_of as title_role;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// While `smaps_rollup` is read, the process cannot map memory; and the status of each of many processes is a further file. So a fast observer does
/// not read them in every interval.
const SMAPS_EVERY: Duration = Duration::from_secs(1);

/// The ways to read memory, the most expensive first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// Proportional and anonymous sizes: milliseconds for each gigabyte in 4 KiB pages.
    SmapsRollup,
    /// Resident sizes, split into anonymous, file and shared memory.
    Status,
    /// Three numbers: size, resident, shared.
    Statm,
}

impl Tier {
    fn source(self) -> &'static str {
        match self {
            Self::SmapsRollup => "process.smaps_rollup",
            Self::Status => "process.status",
            Self::Statm => "process.statm",
        }
    }

    fn file(self) -> &'static str {
        match self {
            Self::SmapsRollup => "smaps_rollup",
            Self::Status => "status",
            Self::Statm => "statm",
        }
    }

    fn cheaper(self) -> Option<Self> {
        match self {
            Self::SmapsRollup => Some(Self::Status),
            Self::Status => Some(Self::Statm),
            Self::Statm => None,
        }
    }
}

/// The readers of a process: activity (stat, io), and memory at the most expensive tier. `role` becomes the entity of the series. `descendants`:
/// values are sums over the process and all its descendants, for a server with a process for each connection; resident sizes then count shared memory
/// once for each process, `Pss` counts it once. Beside the sums, sources `process.each.*` have a few values of each process, for at most 64
/// processes; the entity is `PID ROLE` if PostgreSQL names the role: `4711 checkpointer`.
pub fn readers(role: &str, pid: u32, descendants: bool) -> Vec<Box<dyn Reader>> {
    PARTS.map(|part| group(role, pid, descendants, part)).into()
}

/// Like [`readers`], but only with files that this user may read: when a tier of memory is refused, the next one is used. Also returns what was
/// refused, in words.
pub fn readable(role: &str, pid: u32, descendants: bool) -> (Vec<Box<dyn Reader>>, Vec<String>) {
    let (mut readers, mut refused) = (Vec::new(), Vec::new());
    for part in PARTS {
        let mut wanted = Some(part);
        while let Some(part) = wanted {
            let Some(why) = refusal(pid, part) else {
                readers.push(group(role, pid, descendants, part));
                break;
            };
            wanted = part.cheaper();
            let instead = wanted.map_or("it is left out".to_owned(), |it| format!("{} is read instead", it.source()));
            refused.push(format!("{why}: {instead}"));
        }
    }
    (readers, refused)
}

/// Why this user may not read the file. `None` also when reading fails for another reason, which the reader will report.
fn refusal(pid: u32, part: Part) -> Option<String> {
    let path = format!("/proc/{pid}/{}", part.file());
    let error = match part {
        // the right is checked when the file is opened; reading it is expensive
        Part::Memory(Tier::SmapsRollup) => fs::File::open(&path).err(),
        _ => fs::read(&path).err(),
    }?;
    (error.kind() == io::ErrorKind::PermissionDenied).then(|| format!("{path}: {error}"))
}

fn group(role: &str, pid: u32, descendants: bool, part: Part) -> Box<dyn Reader> {
    Box::new(Group {
        role: role.to_owned(),
        root: pid,
        descendants,
        part,
        files: BTreeMap::new(),
        sums: BTreeMap::new(),
        rows: descendants.then(Rows::default),
    })
}

const PARTS: [Part; 4] = [Part::Stat, Part::Io, Part::Memory(Tier::SmapsRollup), Part::PageTables];
/// Lines of a process's status: the size of its page tables, and its memory in huge pages of the pool. Neither is in any resident size.
const PAGE_TABLES: [&str; 2] = ["VmPTE", "HugetlbPages"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Stat,
    Io,
    Memory(Tier),
    /// Reading it holds no process, whatever the tier of memory is.
    PageTables,
}

impl Part {
    fn source(self) -> &'static str {
        match self {
            Self::Stat => "process.stat",
            Self::Io => "process.io",
            Self::Memory(tier) => tier.source(),
            Self::PageTables => "process.page_tables",
        }
    }

    fn cheaper(self) -> Option<Self> {
        match self {
            Self::Memory(tier) => tier.cheaper().map(Self::Memory),
            Self::Stat | Self::Io | Self::PageTables => None,
        }
    }

    /// The source of the rows of each process.
    fn source_of_rows(self) -> &'static str {
        match self {
            Self::Stat => "process.each.stat",
            Self::Io => "process.each.io",
            Self::Memory(Tier::SmapsRollup) => "process.each.smaps_rollup",
            Self::Memory(Tier::Status) => "process.each.status",
            Self::Memory(Tier::Statm) => "process.each.statm",
            Self::PageTables => "process.each.page_tables",
        }
    }

    fn file(self) -> &'static str {
        match self {
            Self::Stat => "stat",
            Self::Io => "io",
            Self::Memory(tier) => tier.file(),
            Self::PageTables => "status",
        }
    }
}

struct Group {
    role: String,
    root: u32,
    descendants: bool,
    part: Part,
    files: BTreeMap<u32, ProcFile>,
    /// The sums, kept between readings because of their keys.
    sums: BTreeMap<String, (Kind, f64)>,
    /// With descendants: the rows of each process beside the sum.
    rows: Option<Rows>,
}

impl Reader for Group {
    fn name(&self) -> String {
        format!("{} {}", self.part.source(), self.role)
    }

    fn read(&mut self, into: &mut Collector) -> Result<(), Error> {
        self.sums.values_mut().for_each(|(_, value)| *value = 0.0);
        let pids = if self.descendants { family(self.root) } else { vec![self.root] };
        self.files.retain(|pid, _| pids.contains(pid));
        if let Some(rows) = &mut self.rows {
            rows.keep(self.root, &pids);
        }
        for pid in pids {
            match self.add(pid, into) {
                Err(error) if error.says_gone() && pid == self.root => return Err(Error::Gone { pid }),
                Err(error) if error.says_gone() => drop(self.files.remove(&pid)),
                other => other?,
            }
        }
        let source = self.part.source();
        self.sums.iter().for_each(|(name, (kind, value))| into.value(source, &self.role, name, *kind, *value));
        Ok(())
    }

    fn interval(&self) -> Option<Duration> {
        let is_dear = matches!(self.part, Part::Memory(Tier::SmapsRollup) | Part::PageTables);
        is_dear.then_some(SMAPS_EVERY)
    }

    fn cheapen(&mut self) -> Option<String> {
        let Part::Memory(tier) = self.part else { return None };
        let cheaper = tier.cheaper()?;
        self.part = Part::Memory(cheaper);
        self.files.clear();
        self.sums.clear();
        Some(cheaper.source().to_owned())
    }
}

impl Group {
    fn add(&mut self, pid: u32, into: &mut Collector) -> Result<(), Error> {
        let file = match self.files.entry(pid) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(ProcFile::open(PathBuf::from(format!("/proc/{pid}/{}", self.part.file())))?)
            }
        };
        let (sums, page_bytes) = (&mut self.sums, rustix::param::page_size() as f64);
        let (rows, source) = (&self.rows, self.part.source_of_rows());
        let mut each = |name: &str, kind, value| {
            if let Some(rows) = rows {
                rows.value(into, source, pid, (name, kind, value));
            }
            match sums.get_mut(name) {
                Some((_, sum)) => *sum += value,
                None => drop(sums.insert(name.to_owned(), (kind, value))),
            }
        };
        let text = file.text()?;
        match self.part {
            Part::Stat => parse::process_stat(text, tick_us(), page_bytes, each),
            Part::Io => parse::process_io(text, each),
            Part::Memory(Tier::SmapsRollup) => parse::key_values(text, each),
            Part::Memory(Tier::Status) => parse::process_status(text, each),
            Part::Memory(Tier::Statm) => parse::process_statm(text, page_bytes, each),
            Part::PageTables => parse::process_status(text, |name, kind, value| {
                if PAGE_TABLES.contains(&name) {
                    each(name, kind, value);
                }
            }),
        }
        Ok(())
    }
}

/// The process and all its descendants. `children` needs CONFIG_PROC_CHILDREN; without it there is only the process itself.
fn family(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        next += 1;
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for thread in threads {
            let text = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            found.extend(text.split_ascii_whitespace().filter_map(|word| word.parse::<u32>().ok()));
        }
    }
    found
}
