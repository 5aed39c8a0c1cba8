// SPDX-License-Identifier: Apache-2.0
//! Starts pgBouncer once its server answers, as a further step of the server's run.

use super::{CONFIGURATION, Pooler, Pooling, configuration};
use crate::deploy::ports_below;
use crate::manifest::{Manifest, State};
use crate::port::{self, Reserved};
use crate::start::{LOOK_EVERY, ask, is_settled};
use crate::{Error, Sandbox, StartOptions, Version};
use load::Target;
use run::{Child, ChildSpec, Role, Run};
use rustix::process::Signal;
use std::path::Path;
use std::time::{Duration, Instant};

/// pgBouncer answers within moments, because its server answers already.
const READY_TIMEOUT: Duration = Duration::from_secs(20);
/// The number of lines of its log in an error.
const LOG_LINES: usize = 12;
/// Versions, and from each on the signal that disconnects all clients at once, because the server behind them stops next. From 1.23 on SIGTERM waits
/// for the clients (usage, "Signals").
const STOP_SIGNALS: [(&[u32], Signal); 2] = [(&[1, 23], Signal::QUIT), (&[], Signal::TERM)];

/// A pgBouncer that answers, and whose server answers through it.
#[derive(Debug)]
pub(crate) struct RunningPooler {
    pub(crate) port: u16,
    pub(crate) pid: u32,
    pub(crate) child: Child,
    /// The target for connections through it.
    pub(crate) target: Target,
}

fn stop_signal(version: &Version) -> i32 {
    let known = STOP_SIGNALS.iter().find(|(since, _)| *version >= Version::of(since));
    known.map_or(Signal::TERM, |(_, signal)| *signal).as_raw()
}

impl Sandbox {
    /// Checks the pooler before anything is started.
    pub(crate) fn check_pooler(&self) -> Result<(), Error> {
        let Some(Pooler { program, .. }) = &self.manifest.pooler else { return Ok(()) };
        if !program.path.is_file() {
            return Err(Error::NoPooler { why: format!("there is no {} any more", program.path.display()) });
        }
        self.manifest.user.check_reach(&program.path)
    }

    /// Starts the pooler. `None` if the sandbox has no pooler, and while its data is still being made.
    pub(crate) fn start_pooler(&self, run: &mut Run, options: &StartOptions) -> Result<Option<RunningPooler>, Error> {
        let is_there = self.manifest.pooler.is_some() && options.pooling != Pooling::Without;
        if !is_there || self.manifest.state == State::Deploying {
            return Ok(None);
        }
        let (sandbox, mut pooler, _reserved) = self.with_pooler_port()?;
        if let Pooling::With(settings) = &options.pooling {
            settings.check()?;
            pooler.settings = settings.clone();
        }
        configuration::write(&sandbox, &pooler)?;
        let log_start = sandbox.pooler_log().metadata().map_or(0, |log| log.len());
        let target = sandbox.pooled_connection()?.ok_or_else(|| Error::NotRunning { name: self.name().into() })?;
        let child = run.spawn(Role::Server, sandbox.pooler_spec(&pooler, options))?;
        match sandbox.await_pooler(&child, &target, log_start) {
            Ok(()) => Ok(Some(RunningPooler { port: pooler.port, pid: child.pid, child, target })),
            Err(error) => {
                run.undo_step(child.step)?;
                Err(error)
            }
        }
    }

    /// The pooler with the port in the manifest, if that port is free, else with another one, which is written into the manifest.
    fn with_pooler_port(&self) -> Result<(Self, Pooler, Reserved), Error> {
        let path = self.folder.join("manifest.json");
        let mut stored = Manifest::read(&path)?;
        let gone = || Error::NoPooler { why: format!("the manifest of sandbox '{}' has none any more", self.name()) };
        let mut pooler = stored.pooler.clone().ok_or_else(gone)?;
        let reserved = match port::require(pooler.port) {
            Err(Error::PortInUse { .. }) => {
                let siblings = self.folder.parent().map(ports_below).unwrap_or_default();
                port::choose(&self.folder.join(super::CONSOLE), &siblings)?
            }
            other => other?,
        };
        if reserved.port != pooler.port {
            pooler.port = reserved.port;
            stored.pooler = Some(pooler.clone());
            stored.write(&self.folder)?;
        }
        let manifest = Manifest { pooler: Some(pooler.clone()), ..self.manifest.clone() };
        Ok((Self { manifest, ..self.clone() }, pooler, reserved))
    }

    /// The server's limits do not apply to pgBouncer: clients get a pooler with the machine's CPUs and RAM.
    fn pooler_spec(&self, pooler: &Pooler, options: &StartOptions) -> ChildSpec {
        let program = &pooler.program;
        let (path, mut args) = program.libraries.invocation(&program.path);
        args.push(self.folder.join(CONFIGURATION).into());
        let mut env: Vec<_> = program.libraries.environment().into_iter().collect();
        env.push(("LC_ALL".into(), "C".into()));
        ChildSpec {
            program: path,
            args,
            env,
            cwd: Some(self.folder.join("run")),
            stdout: Some(self.pooler_log()),
            stderr: Some(self.pooler_log()),
            identity: self.manifest.user.identity(),
            stop_signal: stop_signal(&program.version),
            launcher: true,
            lifeline: !options.standing,
            ..ChildSpec::default()
        }
    }

    fn await_pooler(&self, child: &Child, target: &Target, log_start: u64) -> Result<(), Error> {
        let deadline = Instant::now() + READY_TIMEOUT;
        let log = |path: &Path| host::files::tail_from(path, log_start, LOG_LINES);
        let failed = |what| Err(Error::Pooler { name: self.name().into(), what, log: log(&self.pooler_log()) });
        loop {
            if child.wait(LOOK_EVERY) {
                return failed("ended before it was ready");
            }
            match ask(target) {
                Ok(_) => return Ok(()),
                Err(source) if is_settled(&source) => return Err(Error::Talk { name: self.name().into(), source }),
                Err(_) => {}
            }
            if host::interrupt::requested() {
                return Err(Error::Interrupted);
            }
            if Instant::now() > deadline {
                return failed("was not ready in time");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signal_that_ends_it_at_once() {
        let signal = |version: &str| stop_signal(&version.parse().expect("a version"));
        let (quit, term) = (Signal::QUIT.as_raw(), Signal::TERM.as_raw());
        assert_eq!((signal("1.18.0"), signal("1.22.1")), (term, term));
        assert_eq!((signal("1.23.0"), signal("1.24.1")), (quit, quit));
    }
}
