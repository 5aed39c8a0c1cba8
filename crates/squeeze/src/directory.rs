// SPDX-License-Identifier: Apache-2.0
//! A slow layer over any directory, in the host's own mount namespace: whoever opens a file below it from now on is delayed.
//!
//! For standing squeezes. The layer keeps no written data back (no write-back cache), because the directory is the user's own. The
//! mount goes through the journal, and is taken away before the layer ends.

use crate::Error;
use crate::disk::{reads_within, refuse_open_files};
use crate::{databases::Database, probe};
use evidence::{Delay, DelayMode, LatencyHistogram, Measured, Quantity};
use host::change::mounts;
use run::{Child, ChildSpec, Role, Run, Step};
use slowfs::control::Client;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The layer's socket, in the run's folder.
pub const SOCKET: &str = "slowfs.sock";
/// As mountinfo(5) shows it.
pub const FILE_SYSTEM: &str = "fuse.wringer";
const MECHANISM: &str = "fuse layer";
const PROBE_TIME: Duration = Duration::from_millis(1500);
const TOLERANCE: f64 = 0.02;
/// Below this the timer's own jitter is what is measured.
const TOLERANCE_FLOOR_US: f64 = 15.0;

/// A directory that is slow for everybody.
#[derive(Debug)]
pub struct SlowDirectory {
    pub directory: PathBuf,
    pub socket: PathBuf,
    pub child: Child,
}

/// Looks whether the directory can be slowed down; returns its canonical path.
///
/// # Errors
/// [`Error::Refused`]: it is no directory, somebody uses it, something is mounted below it, a database lives in it, or we are not root.
pub fn check(directory: &Path, databases: &[Database]) -> Result<PathBuf, Error> {
    let refused = |what: String, hint: &str| Err(Error::Refused { what, hint: hint.to_owned() });
    let Ok(path) = directory.canonicalize() else {
        return refused(format!("there is no directory {}", directory.display()), "name one that exists");
    };
    let shown = path.display();
    if !path.is_dir() {
        return refused(format!("{shown} is not a directory"), "name the directory that holds the files");
    }
    if !rustix::process::geteuid().is_root() {
        return refused(
            "slowing a directory down for everybody needs root".into(),
            "run it with sudo; an experiment's own sandbox needs no root",
        );
    }
    if ["/", "/proc", "/sys", "/dev", "/run", "/usr", "/etc", "/var", "/boot"].iter().any(|it| path == Path::new(it)) {
        return refused(format!("{shown} is the host's own"), "name a directory that holds data");
    }
    if let Some(database) = databases.iter().find(|it| it.directory.as_deref().is_some_and(|data| overlap(data, &path)))
    {
        return refused(
            format!("{} (process {}) lives in {shown}", database.program, database.pid),
            "stop it first: storage is never swapped under a live server; better, squeeze a copy",
        );
    }
    let below = mounts()?.into_iter().find(|mount| mount.target.starts_with(&path) && mount.target != Path::new("/"));
    if let Some(mount) = below {
        return refused(
            format!("{} is mounted at {}", mount.source, mount.target.display()),
            "unmount it, or name a directory without mounts",
        );
    }
    refuse_open_files(&path)?;
    Ok(path)
}

fn overlap(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

impl SlowDirectory {
    /// Mounts the layer with this delay over a directory that [`check`] let pass.
    ///
    /// # Errors
    /// The layer cannot be started; what there is of it is undone with the run.
    pub fn start(run: &mut Run, directory: &Path, delay: Delay) -> Result<Self, Error> {
        refuse_open_files(directory)?;
        let socket = run.folder().join(SOCKET);
        let mount = Step::Mount {
            target: directory.to_owned(),
            source: format!("wringer-{}", run.id()),
            fstype: FILE_SYSTEM.to_owned(),
        };
        // The layer mounts itself: what is applied here is the word that it may.
        run.step(mount, |_| Ok(()))?;
        let spec =
            ChildSpec { ready: true, ..ChildSpec::internal("slowfs", arguments(run, directory, &socket, delay)) };
        let child = run.spawn(Role::SlowLayer, spec)?;
        Ok(Self { directory: directory.to_owned(), socket, child })
    }
}

fn arguments(run: &Run, directory: &Path, socket: &Path, delay: Delay) -> Vec<OsString> {
    let mut args: Vec<OsString> = ["--public", "--no-writeback-cache", "--directory"].map(OsString::from).to_vec();
    args.extend([directory.into(), "--control".into(), socket.into(), "--run".into(), run.id().as_str().into()]);
    for (name, us) in [("--read-us", delay.read_us), ("--write-us", delay.write_us), ("--sync-us", delay.sync_us)] {
        args.extend([name.into(), us.to_string().into()]);
    }
    if delay.mode == DelayMode::Total {
        args.push("--total".into());
    }
    args
}

/// Sets the delay of a layer that serves; reaches files that are open. Leaves it in force, with what a probe of the largest file
/// below the directory got. Without a file of 1 MiB there is no measure.
///
/// # Errors
/// The layer is gone, or the file cannot be read. [`Error::OutOfTolerance`]: three probes got something else; the delay that was in
/// force before is in force again.
pub fn set_and_measure(socket: &Path, directory: &Path, delay: Delay) -> Result<Vec<Measured>, Error> {
    let mut client = Client::connect(socket)?;
    let before = client.get()?;
    let Some(file) = largest_file(directory).filter(|_| delay.read_us > 0) else {
        client.set(delay)?;
        return Ok(Vec::new());
    };
    let mut opened = probe::open(&file)?;
    let mut last = probe_once(&mut client, &mut opened, &file, delay)?;
    for _ in 0..2 {
        if last.within_tolerance == Some(true) {
            return Ok(vec![last]);
        }
        last = probe_once(&mut client, &mut opened, &file, delay)?;
    }
    if last.within_tolerance == Some(true) {
        return Ok(vec![last]);
    }
    client.set(before)?;
    Err(out_of_tolerance(&last))
}

/// Without the delay, then with it.
fn probe_once(client: &mut Client, opened: &mut fs::File, file: &Path, delay: Delay) -> Result<Measured, Error> {
    client.set(Delay { read_us: 0, ..delay })?;
    let undelayed = probe::read(opened, file, reads_within(PROBE_TIME, 0))?;
    client.set(delay)?;
    let got = probe::read(opened, file, reads_within(PROBE_TIME, delay.read_us))?;
    Ok(measured(&delay, &undelayed, &got))
}

fn out_of_tolerance(measured: &Measured) -> Error {
    let us = |quantity: &Option<Quantity>| quantity.map_or_else(String::new, |it| format!("{:.0} us", it.value));
    Error::OutOfTolerance {
        what: measured.what.clone(),
        asked: us(&measured.predicted),
        got: us(&measured.got),
        tolerance: measured.tolerance.clone().unwrap_or_default(),
    }
}

fn measured(delay: &Delay, undelayed: &LatencyHistogram, got: &LatencyHistogram) -> Measured {
    let median = |histogram: &LatencyHistogram| histogram.percentile_ns(50.0) as f64 / 1000.0;
    let asked = delay.read_us as f64;
    let predicted = match delay.mode {
        DelayMode::Add => asked + median(undelayed),
        DelayMode::Total => asked.max(median(undelayed)),
    };
    let tolerance = (predicted * TOLERANCE).max(TOLERANCE_FLOOR_US);
    Measured {
        at_us: 0,
        arm: None,
        what: "disk.read.median".into(),
        mechanism: MECHANISM.into(),
        asked: Some(Quantity::micros(asked)),
        predicted: Some(Quantity::micros(predicted)),
        got: Some(Quantity::micros(median(got))),
        witness: format!(
            "{} direct reads of 4 KiB at depth 1, of a file that was open before the delay was set",
            got.count()
        ),
        within_tolerance: Some((median(got) - predicted).abs() <= tolerance),
        tolerance: Some(format!("2 % of asked plus undelayed, at least {TOLERANCE_FLOOR_US} us")),
    }
}

/// Of at least 1 MiB, on the directory's own file system, without following links.
fn largest_file(folder: &Path) -> Option<PathBuf> {
    fn walk(folder: &Path, device: u64, best: &mut Option<(u64, PathBuf)>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() && metadata.dev() == device {
                walk(&entry.path(), device, best);
            } else if metadata.is_file() && best.as_ref().is_none_or(|(size, _)| metadata.len() > *size) {
                *best = Some((metadata.len(), entry.path()));
            }
        }
    }
    let mut best = None;
    walk(folder, fs::metadata(folder).ok()?.dev(), &mut best);
    best.filter(|(size, _)| *size >= 1 << 20).map(|(_, path)| path)
}
