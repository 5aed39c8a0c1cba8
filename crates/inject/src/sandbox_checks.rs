// SPDX-License-Identifier: Apache-2.0
//! A sandbox that runs, and the stalls that can be made in it.

use crate::cpu::CpuGroup;
use crate::means::{CAUSES, Way, in_words, way};
use crate::table::{OWN, Table};
use crate::{Error, scan};
use diskmodel::Class;
use host::places::Places;
use load::Target;
use load::admin::Connection;
use run::{FoundRun, Role, Step};
use sandbox::Sandbox;
use serde::Serialize;
use squeeze::directory::SOCKET;
use stalls::Cause;
use std::path::PathBuf;

/// The hint beside a cause that cannot be planted.
const LIST: &str = "`wringer stalls inject --list` says which can";

/// A sandbox that runs, looked at once.
#[derive(Debug)]
pub struct Ground {
    pub(crate) sandbox: Sandbox,
    pub(crate) target: Target,
    pub(crate) table: Table,
    /// The socket of its slow layer. `None`: it was started without a slow layer.
    pub(crate) layer: Option<PathBuf>,
    /// Its CPU cgroup. `None`: it was started without one.
    pub(crate) cpu: Option<CpuGroup>,
}

/// Whether a cause can be planted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plantable {
    pub cause: &'static str,
    pub can_be_planted: bool,
    /// The means by which it is planted. `None`: there is none.
    pub how: Option<&'static str>,
    /// Why it cannot.
    pub why: Option<String>,
    /// What would help. `None`: nothing would.
    pub remedy: Option<String>,
}

impl Ground {
    /// `target` is the sandbox's own server; `table` the table that is to be held, or read.
    ///
    /// # Errors
    /// The server does not answer; [`Error::Refused`]: there is no such table.
    pub fn look(sandbox: Sandbox, target: Target, table: Option<&str>, places: &Places) -> Result<Self, Error> {
        let found = run::find_runs(places)?;
        let lock = format!("sandbox-{}", sandbox.name());
        let holds = |run: &&FoundRun| run.resources.contains(&lock) && (run.live || run.left);
        let runs: Vec<&FoundRun> = found.iter().filter(holds).collect();
        let open = |run: &&'_ FoundRun| run.steps.clone().into_iter().filter(|step| step.is_open());
        let has_layer =
            |run: &&&FoundRun| open(run).any(|step| matches!(step.change, Step::Process { role: Role::SlowLayer, .. }));
        let layer = runs.iter().find(has_layer).map(|run| places.journal.join(run.id.as_str()).join(SOCKET));
        let group = |change: &Step| if let Step::Cgroup { path, .. } = change { CpuGroup::of(path) } else { None };
        let cpu = runs.iter().flat_map(open).find_map(|step| group(&step.change));
        let table = Table::find(&mut Connection::open(&target)?, table)?;
        Ok(Self { sandbox, target, table, layer, cpu })
    }

    /// A note for the user, when the table that is held was made for this, so that no load uses it.
    pub fn note(&self) -> Option<String> {
        let why = "the sandbox has no table of a fill, and none was named";
        self.table.is_own.then(|| format!("{why}: {OWN} is made, held, and dropped; `--table` names one with a load"))
    }

    /// # Errors
    /// [`Error::Refused`] with the first cause that cannot be planted here.
    pub fn check(&self, causes: impl IntoIterator<Item = Cause>) -> Result<(), Error> {
        causes.into_iter().try_for_each(|cause| self.can(cause))
    }

    pub(crate) fn can(&self, cause: Cause) -> Result<(), Error> {
        let (name, way) = (cause.name(), plantable(cause)?);
        let sandbox = self.sandbox.name();
        match way {
            Way::Rows | Way::Table => Ok(()),
            Way::Disk(class) if self.layer.is_none() => {
                let disk = if class == Class::Read { "read=0" } else { "sync=0" };
                let what =
                    format!("{name} cannot be planted: sandbox {sandbox} has no slow layer below its data directory");
                Err(Error::refused(
                    what,
                    format!("`wringer sandbox restart {sandbox} --disk {disk}` puts one there, without a delay"),
                ))
            }
            Way::CpuQuota if self.cpu.is_none() => {
                let cpus = std::thread::available_parallelism().map_or(1, usize::from);
                let what = format!("{name} cannot be planted: sandbox {sandbox} has no CPU cgroup of its own");
                Err(Error::refused(what, format!("`wringer sandbox restart {sandbox} --cpus {cpus}` gives it one")))
            }
            Way::Disk(_) | Way::CpuQuota => Ok(()),
            Way::Scan => scan::check(&mut Connection::open(&self.target)?, &self.table),
        }
    }

    /// For each cause whether it can be planted here.
    pub fn list(&self) -> Vec<Plantable> {
        CAUSES.into_iter().map(|cause| Plantable::of(cause, self.can(cause).err())).collect()
    }
}

/// # Errors
/// [`Error::Refused`]: the cause cannot be planted in any sandbox.
pub fn check_cause(cause: Cause) -> Result<(), Error> {
    plantable(cause).map(drop)
}

fn plantable(cause: Cause) -> Result<Way, Error> {
    let refused = |why| Error::refused(format!("{} cannot be planted: {why}", cause.name()), LIST);
    way(cause).map_err(refused)
}

impl Plantable {
    /// For each cause whether it can be planted in some sandbox.
    pub fn anywhere() -> Vec<Self> {
        CAUSES.into_iter().map(|cause| Self::of(cause, None)).collect()
    }

    fn of(cause: Cause, refused: Option<Error>) -> Self {
        let how = way(cause).map(in_words);
        let refused = refused.filter(|_| how.is_ok()).map(|error| match error {
            Error::Refused { what, hint } => (what, Some(hint)),
            other => (host::chain(&other), None),
        });
        let (why, remedy) = refused.unzip();
        let why = why.or_else(|| how.err().map(str::to_owned));
        let can_be_planted = why.is_none();
        Self { cause: cause.name(), can_be_planted, how: how.ok(), why, remedy: remedy.flatten() }
    }
}
