// SPDX-License-Identifier: Apache-2.0
//! A memory limit around one server, page cache included: a memory cgroup that the server is started in.
//!
//! Moving a running server would move none of its charges, so there is no such function. What the server's files have in the
//! page cache from outside is a free hit inside: [`evict`] them first.

use crate::Error;
use crate::cgroup::{self, Controller};
use evidence::{Measured, Quantity};
use host::change;
use run::{CgroupVersion, Run, Step, StepId};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use units::Bytes;

/// The cgroup, made and limited; the server joins it when it is started.
#[derive(Debug, Clone)]
pub struct ServerRam {
    folder: PathBuf,
    version: CgroupVersion,
    limit: Bytes,
    /// The steps to undo, the last first.
    steps: Vec<StepId>,
}

/// Some allocations must not fail and are charged beyond the limit (kernel, mm/memcontrol.c, `try_charge_memcg`, "force").
const FORCED_CHARGES_BYTES: u64 = 1 << 20;

impl ServerRam {
    /// # Errors
    /// [`Error::Refused`] when no memory controller is mounted, or not writable for this user.
    pub fn make(run: &mut Run, limit: Bytes, generation: u32) -> Result<Self, Error> {
        let Controller { root, version } = cgroup::writable("memory")?;
        let folder = root.join(format!("wringer-{}-{generation}", run.id()));
        let mut steps = Vec::new();
        if version == CgroupVersion::V2 {
            steps.extend(cgroup::hand_down(run, &root, "memory")?);
        }
        let make = Step::Cgroup { path: folder.clone(), version };
        steps.push(run.step(make, |permit| change::make_cgroup(permit, &folder))?.0);
        let mut made = Self { folder, version, limit, steps };
        for (file, value) in made.limits() {
            made.set(run, file, &value)?;
        }
        Ok(made)
    }

    /// For [`run::ChildSpec::cgroups`].
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// # Errors
    /// Processes are left in it that are not the run's.
    pub fn remove(self, run: &mut Run) -> Result<(), Error> {
        for step in self.steps.into_iter().rev() {
            run.undo_step(step)?;
        }
        Ok(())
    }

    pub fn mechanism(&self) -> &'static str {
        match self.version {
            CgroupVersion::V1 => "memory cgroup v1",
            CgroupVersion::V2 => "memory cgroup v2",
        }
    }

    /// The kernel's own account of the highest charge, against the limit.
    pub fn measure(&self, arm: &str, at_us: u64) -> Measured {
        let file = match self.version {
            CgroupVersion::V1 => "memory.max_usage_in_bytes",
            CgroupVersion::V2 => "memory.peak",
        };
        let peak = fs::read_to_string(self.folder.join(file)).ok().and_then(|text| text.trim().parse::<u64>().ok());
        Measured {
            at_us,
            arm: Some(arm.to_owned()),
            what: "server.ram.peak".into(),
            mechanism: self.mechanism().into(),
            asked: Some(Quantity::bytes(self.limit.0)),
            predicted: None,
            got: peak.map(Quantity::bytes),
            witness: format!("{file} of the server's cgroup"),
            within_tolerance: peak.map(|peak| peak <= self.limit.0 + FORCED_CHARGES_BYTES),
            tolerance: Some("the limit, and 1 MiB of charges that the kernel cannot refuse".into()),
        }
    }

    /// On v2 swapping is off, so that the limit is one of RAM. On v1 the limit of RAM stands alone.
    fn limits(&self) -> Vec<(&'static str, String)> {
        let limit = self.limit.0.to_string();
        match self.version {
            CgroupVersion::V1 => vec![("memory.limit_in_bytes", limit)],
            CgroupVersion::V2 => vec![("memory.swap.max", "0".into()), ("memory.max", limit)],
        }
    }

    fn set(&mut self, run: &mut Run, file: &str, value: &str) -> Result<(), Error> {
        let path = self.folder.join(file);
        if !path.exists() {
            return Ok(()); // memory.swap.max is absent on a kernel without swap accounting
        }
        self.steps.push(cgroup::set_value(run, &path, value)?);
        Ok(())
    }
}

/// Takes the files below `folder` out of the page cache, as far as they are clean: pages that are in it are a free hit for a
/// server in a cgroup. Needs no root for one's own files (posix_fadvise(2), `POSIX_FADV_DONTNEED`).
pub fn evict(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => evict(&entry.path()),
            Ok(kind) if kind.is_file() => {
                if let Ok(file) = File::open(entry.path()) {
                    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
                }
            }
            _ => {}
        }
    }
}
