// SPDX-License-Identifier: Apache-2.0
//! A squeeze in force, whatever its mechanism: it is measured, changed, watched and released by the same functions.

use crate::Error;
use crate::disk::SlowLayer;
use crate::limits::{Limits, Usage};
use crate::plan::Kind;
use crate::ram::{self, GrantedPages, Hidden};
use crate::slowed::Slowed;
use crate::standing::{HiddenRam, Report};
use evidence::Measured;
use run::Run;
use units::Bytes;

#[derive(Debug)]
pub enum InForce {
    Ram(Box<Hidden>),
    HugePages(Box<GrantedPages>),
    Limits(Box<Limits>),
    Layer(Box<SlowLayer>),
    /// A disk that is slow for everybody.
    Disk {
        slowed: Slowed,
        report: Box<Report>,
    },
}

impl InForce {
    pub fn kind(&self) -> Kind {
        match self {
            Self::Ram(_) => Kind::Ram,
            Self::HugePages(_) => Kind::HugePages,
            Self::Limits(_) => Kind::Limits,
            Self::Layer(_) | Self::Disk { .. } => Kind::Disk,
        }
    }

    /// What the witness has found when the squeeze was applied.
    pub fn measured(&self) -> &[Measured] {
        match self {
            Self::Ram(hidden) => &hidden.measured,
            Self::Disk { report, .. } => report.measured(),
            Self::HugePages(_) | Self::Limits(_) | Self::Layer(_) => &[],
        }
    }

    /// What was got, for people.
    pub fn told(&self) -> Vec<String> {
        match self {
            Self::Ram(hidden) => {
                let available = Bytes(hidden.after.available_bytes);
                let mechanism = hidden.mechanism.in_results();
                let differences = ram::shortage(&hidden.measured).into_iter().chain(ram::remainder(&hidden.measured));
                differences
                    .chain([format!("{} of RAM hidden, {available} available ({mechanism})", Bytes(hidden.bytes))])
                    .collect()
            }
            Self::Limits(limits) => vec![format!("the {} gets {}", limits.who(), limits.describe())],
            Self::HugePages(_) | Self::Layer(_) | Self::Disk { .. } => Vec::new(),
        }
    }

    /// What is in force for everybody, as commands print it. `None`: a squeeze of one program.
    pub fn report(self) -> Option<Report> {
        match self {
            Self::Ram(hidden) => Some(Report::Ram(HiddenRam::of(&hidden))),
            Self::HugePages(granted) => Some(Report::HugePages(*granted)),
            Self::Disk { report, .. } => Some(*report),
            Self::Limits(_) | Self::Layer(_) => None,
        }
    }

    /// Compares what was asked with what the server `pid` has used, where only that tells: its limits.
    pub(crate) fn measure(&self, pid: u32, usage: Option<&Usage>) -> Vec<Measured> {
        match self {
            Self::Limits(limits) => limits.measure(pid, usage),
            _ => Vec::new(),
        }
    }

    /// The process without which the squeeze ends.
    pub(crate) fn holder(&self) -> Option<u32> {
        match self {
            Self::Ram(hidden) => hidden.pid(),
            Self::Layer(layer) => Some(layer.pid()),
            Self::HugePages(_) | Self::Limits(_) | Self::Disk { .. } => None,
        }
    }

    /// # Errors
    /// The process without which the squeeze ends has ended.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self {
            Self::Ram(hidden) => hidden.check(),
            Self::Layer(layer) => layer.check(),
            Self::HugePages(_) | Self::Limits(_) | Self::Disk { .. } => Ok(()),
        }
    }

    /// Ends RAM that is hidden, and limits, before the end of the run. The others come back: they end with the run, which knows in which order
    /// a mount and its layer must go.
    ///
    /// # Errors
    /// Somebody else has changed what it had set.
    pub(crate) fn release(self, run: &mut Run) -> Result<Option<Self>, Error> {
        match self {
            Self::Ram(hidden) => hidden.release(run).map(|()| None),
            Self::Limits(limits) => limits.remove(run).map(|()| None),
            with_the_run => Ok(Some(with_the_run)),
        }
    }
}
