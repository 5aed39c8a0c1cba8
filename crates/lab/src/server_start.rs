// SPDX-License-Identifier: Apache-2.0
//! Settings of a server's start beside its variables: they are translated from the experiment's words to the sandbox's, and checked later.

use crate::cell::Phase;
use crate::error::Error;
use crate::lab::Lab;
use evidence::{Measured, Quantity};
use experiment::{HugePages, Malloc, PgBouncer, PoolMode, ServerStart, Thp};
use host::places::Places;
use sandbox::{Installation, MallocStart, PoolSettings, Pooling, ServerOption, Wrapping};

/// Longer than any run, so that a server connection that pgBouncer has made stays.
const LIFETIME_S: u32 = 30 * 24 * 3600;

/// The settings for the sandbox. A malloc whose library this machine lacks is fetched into the cache.
///
/// # Errors
/// The library of a malloc cannot be fetched or does not fit the server, or the host's transparent huge pages differ from those that were asked for.
pub(crate) fn wrapping(
    start: &ServerStart,
    installation: &Installation,
    places: &Places,
    progress: &mut dyn sandbox::Progress,
) -> Result<Wrapping, sandbox::Error> {
    let malloc =
        start.malloc.as_ref().map(|asked| of_name(asked).locate(installation, places, progress)).transpose()?;
    of(start, malloc)
}

/// The result that [`wrapping`] would have, without fetching anything; also whether a malloc would be fetched.
///
/// # Errors
/// The same as those of [`wrapping`].
pub fn wrapping_at_hand(
    start: &ServerStart,
    installation: &Installation,
    places: &Places,
) -> Result<(Wrapping, bool), sandbox::Error> {
    let malloc = start.malloc.as_ref().map(|asked| of_name(asked).present(installation, places)).transpose()?;
    let is_missing = matches!(malloc, Some(None));
    Ok((of(start, malloc.flatten())?, is_missing))
}

/// What can be checked while the server is not here: the file of a malloc, and the host's transparent huge pages.
///
/// # Errors
/// No server of this machine can be started so.
pub fn check_without_server(start: &ServerStart) -> Result<(), sandbox::Error> {
    start.malloc.as_ref().map_or(Ok(()), |asked| of_name(asked).check_file())?;
    of(start, None).map(drop)
}

fn of(start: &ServerStart, malloc: Option<MallocStart>) -> Result<Wrapping, sandbox::Error> {
    let wrapping = Wrapping {
        malloc,
        thp: start.thp.map(thp),
        valgrind: None,
        valgrind_options: Vec::new(),
        huge_pages: start.huge_pages.map(huge_pages),
        environment: start.environment.clone().into_iter().collect(),
    };
    // where the host's setting may be changed, it is changed before the server starts
    if squeeze::host_thp::may_set() {
        wrapping.check_of_server()?
    } else {
        wrapping.check()?
    }
    Ok(wrapping)
}

/// The experiment's own check knows these names.
fn of_name(asked: &Malloc) -> sandbox::Malloc {
    let file = || sandbox::Malloc::File { name: None, path: asked.name().into() };
    asked.name().parse().unwrap_or_else(|_| file())
}

fn thp(asked: Thp) -> sandbox::Thp {
    match asked {
        Thp::Always => sandbox::Thp::Always,
        Thp::Madvise => sandbox::Thp::Madvise,
        Thp::Never => sandbox::Thp::Never,
    }
}

fn huge_pages(asked: HugePages) -> sandbox::HugePages {
    match asked {
        HugePages::On => sandbox::HugePages::On,
        HugePages::Try => sandbox::HugePages::Try,
        HugePages::Off => sandbox::HugePages::Off,
    }
}

pub(crate) fn pooling(start: &ServerStart) -> Result<Pooling, sandbox::Error> {
    start.pgbouncer.map_or(Ok(Pooling::Without), |asked| Ok(Pooling::With(pool_settings(asked)?)))
}

/// pgBouncer with as many server connections as asked for; none of them ends because it is old or idle.
pub(crate) fn pool_settings(asked: PgBouncer) -> Result<PoolSettings, sandbox::Error> {
    let mode = match asked.mode {
        PoolMode::Session => sandbox::PoolMode::Session,
        PoolMode::Transaction => sandbox::PoolMode::Transaction,
        PoolMode::Statement => sandbox::PoolMode::Statement,
    };
    let option = |key: &str, value: u32| ServerOption::new(key, Some(&value.to_string()));
    let options = vec![
        option("min_pool_size", asked.connections)?,
        option("server_lifetime", LIFETIME_S)?,
        option("server_idle_timeout", 0)?,
    ];
    Ok(PoolSettings { mode, size: Some(asked.connections), options, ..PoolSettings::default() })
}

impl Lab<'_> {
    /// What was asked for and what is in force, for a phase with settings of the server's start.
    pub(crate) fn record_start(&self, phase: &Phase) -> Result<(), Error> {
        let Some(serving) = &self.serving else { return Ok(()) };
        for got in &serving.running.got {
            let told = format!("{}: {} asked, {}", got.what, got.asked, got.got);
            self.notes.event("sandbox", told)?;
        }
        let pid = serving.running.pid;
        let huge = phase.start.huge_pages.map(|asked| self.huge_measured(phase, asked, pid));
        let got = &serving.running.got;
        let others = got.iter().filter_map(|got| Some(in_force(key(got.what)?, &got.asked, &got.got, got.is_as_asked)));
        for measured in huge.into_iter().chain(others) {
            let (at_us, arm) = (self.notes.clock.now_us(), Some(phase.name.clone()));
            self.notes.measured(&Measured { at_us, arm, ..measured })?;
        }
        Ok(())
    }

    /// How many bytes of memory the server's first process has in huge pages.
    fn huge_measured(&self, phase: &Phase, asked: HugePages, pid: u32) -> Measured {
        let got = sandbox::huge_page_bytes(pid);
        let room = self.huge_pool.as_ref().map_or(0, |pool| pool.asked_pages * pool.page_bytes);
        let (within, tolerance) = match asked {
            HugePages::On => (Some(got >= phase.pool.0), Some(format!("at least the server's pool, {}", phase.pool))),
            HugePages::Off => (Some(got == 0), Some("exactly".to_owned())),
            HugePages::Try => (None, None),
        };
        Measured {
            asked: Some(Quantity::bytes(room)),
            got: Some(Quantity::bytes(got)),
            within_tolerance: within,
            tolerance,
            ..Measured::of("server.huge_pages", "huge pages of the host's pool", "KernelPageSize in the server's smaps")
        }
    }
}

/// The experiment's key of the setting that is in force or not.
fn key(what: &str) -> Option<&'static str> {
    ["server.malloc", "server.environment", "server.thp"]
        .into_iter()
        .find(|key| key.strip_prefix("server.") == Some(what))
}

/// A setting, and whether it is in force.
fn in_force(what: &str, asked: &str, witness: &str, is_as_asked: bool) -> Measured {
    Measured {
        asked: Some(Quantity::count(1.0)),
        got: Some(Quantity::count(f64::from(u8::from(is_as_asked)))),
        within_tolerance: Some(is_as_asked),
        tolerance: Some("in force (1) or not (0)".into()),
        ..Measured::of(what, asked, witness)
    }
}
