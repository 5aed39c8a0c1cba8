// SPDX-License-Identifier: Apache-2.0
//! One process; or a process and all its descendants, as a sum, with each process beside the sum.
//!
//! Reading CPU, faults and I/O is cheap. Memory has tiers, because `smaps_rollup` walks the page tables and during this time keeps the process from
//! mapping memory: the more resident memory, the longer.

pub(crate) mod kin;
mod rows;

use crate::host_readers::tick_us;
use crate::procfile::ProcFile;
use crate::{Collector, Error, Kind, Reader, parse};
use kin::{Failed, Kin};
use rows::Rows;
pub(crate) use rows::role_of as title_role;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
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
    let family = family(pid, descendants);
    PARTS.map(|part| group(role, pid, &family, part)).into()
}

/// Like [`readers`], but only with files that this user may read: when a tier of memory is refused, the next one is used. Also returns what was
/// refused, in words.
pub fn readable(role: &str, pid: u32, descendants: bool) -> (Vec<Box<dyn Reader>>, Vec<String>) {
    let (mut readers, mut refused) = (Vec::new(), Vec::new());
    let family = family(pid, descendants);
    for part in PARTS {
        let mut wanted = Some(part);
        while let Some(part) = wanted {
            let Some(why) = refusal(pid, part) else {
                readers.push(group(role, pid, &family, part));
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

/// Shared, so that the readers of one round search once.
type Family = Option<Arc<Mutex<Relatives>>>;

/// The process and all its descendants.
struct Relatives {
    kin: Kin,
    /// Whether it was said that they are searched for.
    is_told: bool,
}

impl Relatives {
    fn pids(&mut self, into: &mut Collector) -> Result<Vec<u32>, Error> {
        if self.kin.is_searched() && !std::mem::replace(&mut self.is_told, true) {
            into.remark(format!("{}: processes that ended before are not in the sums", kin::SEARCHED));
        }
        self.kin.pids()
    }
}

fn family(root: u32, descendants: bool) -> Family {
    descendants.then(|| Arc::new(Mutex::new(Relatives { kin: Kin::family_of(root), is_told: false })))
}

fn group(role: &str, pid: u32, family: &Family, part: Part) -> Box<dyn Reader> {
    Box::new(Group {
        role: role.to_owned(),
        root: pid,
        family: family.clone(),
        part,
        files: BTreeMap::new(),
        sums: BTreeMap::new(),
        rows: family.is_some().then(Rows::default),
        left_out: false,
    })
}

/// The number of processes whose files stay open, the server's first one and the oldest others. The files of all would use up the descriptors of this
/// process when a server has hundreds of connections.
const KEPT_OPEN: usize = 64;

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
    /// `None`: the process alone.
    family: Family,
    part: Part,
    files: BTreeMap<u32, ProcFile>,
    /// The sums, kept between readings because of their keys.
    sums: BTreeMap<String, (Kind, f64)>,
    /// With descendants: the rows of each process beside the sum.
    rows: Option<Rows>,
    /// Whether it was said that a process is not in the sums.
    left_out: bool,
}

impl Reader for Group {
    fn name(&self) -> String {
        format!("{} {}", self.part.source(), self.role)
    }

    fn read(&mut self, into: &mut Collector) -> Result<(), Error> {
        self.sums.values_mut().for_each(|(_, value)| *value = 0.0);
        let pids = match &self.family {
            Some(family) => family.lock().unwrap_or_else(PoisonError::into_inner).pids(into)?,
            None => vec![self.root],
        };
        self.files.retain(|pid, _| pids.contains(pid));
        if let Some(rows) = &mut self.rows {
            rows.keep(self.root, &pids);
        }
        for pid in pids {
            let Err(error) = self.add(pid, into) else { continue };
            match (Failed::of(&error), pid == self.root) {
                (Failed::Ended, true) => return Err(Error::Gone { pid }),
                (Failed::Ended, false) => drop(self.files.remove(&pid)),
                (Failed::Refused, false) => self.leave_out(&error, into),
                // without the others the sums would be too low
                (Failed::Refused, true) | (Failed::Otherwise, _) => return Err(error),
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
    /// Says once that processes are not in the sums.
    fn leave_out(&mut self, error: &Error, into: &mut Collector) {
        if !std::mem::replace(&mut self.left_out, true) {
            into.remark(format!("{}: such a process is not in the sums", host::chain(error)));
        }
    }

    fn add(&mut self, pid: u32, into: &mut Collector) -> Result<(), Error> {
        let open = || ProcFile::open(format!("/proc/{pid}/{}", self.part.file()));
        let is_full = self.files.len() >= KEPT_OPEN;
        let mut for_once;
        let file = match self.files.entry(pid) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(_) if is_full => {
                for_once = open()?;
                &mut for_once
            }
            Entry::Vacant(entry) => entry.insert(open()?),
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
