// SPDX-License-Identifier: Apache-2.0
//! The squeezes in force of one run, whatever their mechanisms: the one face of this crate, with five verbs.
//!
//! - *Plan*: the functions of [`Plan`] check what is asked. Nothing is changed.
//! - *Apply*: [`Squeezes::apply`] puts a plan in force, and measures it. The caller chooses the order: its program must start after its limits and
//!   its slow disks, and RAM is hidden when the program's own memory is there.
//! - *Measure*: [`InForce::measured`] has what was found when a squeeze was applied, [`Squeezes::measure`] what a limited server has used.
//! - *Change*: [`SlowLayer::measure`] and [`crate::Slowed::change`] change a slow disk in place. RAM and limits are released and applied anew: how much
//!   room there is can be seen only when the old squeeze is gone.
//! - *Release*: [`Squeezes::release`] before the end of the run; all others end with it.

use crate::Error;
use crate::device::SlowDevice;
use crate::directory::SlowDirectory;
use crate::disk::SlowLayer;
use crate::in_force::InForce;
use crate::limits::{Limits, Usage};
use crate::loop_disk::{self, SlowDisk};
use crate::plan::{Kind, Plan};
use crate::ram::{self, Hidden};
use crate::slowed::Slowed;
use crate::standing::{Report, SlowedDevice, SlowedDirectory, SlowedImage};
use evidence::Measured;
use host::process::Identity;
use run::{ChildSpec, Run};

#[derive(Debug, Default)]
pub struct Squeezes {
    /// In the order in which they were applied.
    in_force: Vec<InForce>,
}

impl Squeezes {
    /// Puts a planned squeeze in force. A layer of one program has no delay yet.
    ///
    /// # Errors
    /// It cannot be made, or its result is missed (`Measured::is_missed`); with `strict`, any result out of its tolerance (a plan of
    /// RAM or huge pages says itself how strict it is). Finished parts are undone with the run.
    pub fn apply(&mut self, run: &mut Run, plan: &Plan, strict: bool) -> Result<&mut InForce, Error> {
        let made = self.make(run, plan, strict)?;
        self.in_force.push(made);
        let last = self.in_force.len() - 1;
        Ok(&mut self.in_force[last])
    }

    fn make(&self, run: &mut Run, plan: &Plan, strict: bool) -> Result<InForce, Error> {
        Ok(match plan {
            Plan::Ram(plan) => InForce::Ram(Box::new(ram::hide(run, plan)?)),
            Plan::HugePages(pages) => InForce::HugePages(Box::new(pages.apply(run)?)),
            Plan::Limits(plan) => InForce::Limits(Box::new(plan.apply(run)?)),
            Plan::Layer(layer) => {
                let number = u32::try_from(self.layers().count()).unwrap_or(u32::MAX);
                InForce::Layer(Box::new(layer.start(run, self.layers().next(), number)?))
            }
            Plan::Directory { directory, model } => {
                let slow = SlowDirectory::start(run, directory)?;
                let report = SlowedDirectory::set(&slow.socket, directory, model, strict)?;
                let slowed = Slowed::Directory { directory: directory.clone(), run: run.id().clone() };
                InForce::Disk { slowed, report: Box::new(Report::Directory(report)) }
            }
            Plan::Device { device, delays } => {
                let slow = SlowDevice::start(run, device)?;
                let report = SlowedDevice::set(run.places(), &slow, *delays, strict)?;
                InForce::Disk { slowed: Slowed::Device(slow), report: Box::new(Report::Device(report)) }
            }
            Plan::Image { image, model } => {
                let loop_disk::Started { disk, device, resends, folder, .. } = SlowDisk::start(run, image)?;
                let report = SlowedImage::set(&folder, &disk.image, &device.path, model, resends, strict)?;
                InForce::Disk { slowed: Slowed::Loop(disk), report: Box::new(Report::Image(report)) }
            }
        })
    }

    /// Compares the limits with what the server `pid` has used. The caller sets `at_us` and `arm`.
    pub fn measure(&self, pid: u32, usage: Option<&Usage>) -> Vec<Measured> {
        self.in_force.iter().flat_map(|one| one.measure(pid, usage)).collect()
    }

    /// Releases RAM or limits before the end of the run. Other kinds end with the run.
    ///
    /// # Errors
    /// Somebody else has changed what was set.
    pub fn release(&mut self, run: &mut Run, kind: Kind) -> Result<(), Error> {
        let (ending, mut staying): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.in_force).into_iter().partition(|one| one.kind() == kind);
        let released = ending.into_iter().rev().try_for_each(|one| {
            staying.extend(one.release(run)?);
            Ok(())
        });
        self.in_force = staying;
        released
    }

    /// How a program must be started that these squeezes are to affect.
    pub fn for_program(&self) -> ChildSpec {
        let limits = self.limits();
        ChildSpec {
            cgroups: limits.map(|limits| limits.folders().to_vec()).unwrap_or_default(),
            affinity: limits.and_then(Limits::affinity),
            ..SlowLayer::for_programs(&self.layers().collect::<Vec<_>>())
        }
    }

    /// The processes without which a squeeze ends.
    pub fn holders(&self) -> Vec<Identity> {
        self.in_force.iter().filter_map(InForce::holder).filter_map(Identity::of).collect()
    }

    /// # Errors
    /// A process without which a squeeze ends has ended.
    pub fn check(&self) -> Result<(), Error> {
        self.in_force.iter().try_for_each(InForce::check)
    }

    /// What a supervisor tells of the squeeze that it holds. `None`: none is in force for everybody.
    pub fn into_report(self) -> Option<Report> {
        self.in_force.into_iter().find_map(InForce::report)
    }

    /// The hidden RAM, to be told of when the run has given it back.
    pub fn into_hidden_ram(self) -> Option<Hidden> {
        self.in_force.into_iter().find_map(|one| match one {
            InForce::Ram(hidden) => Some(*hidden),
            _ => None,
        })
    }

    pub fn limits(&self) -> Option<&Limits> {
        self.in_force.iter().find_map(|one| match one {
            InForce::Limits(limits) => Some(&**limits),
            _ => None,
        })
    }

    pub fn hidden_ram(&self) -> Option<&Hidden> {
        self.in_force.iter().find_map(|one| match one {
            InForce::Ram(hidden) => Some(&**hidden),
            _ => None,
        })
    }

    /// The slow disks of this program, in their order.
    pub fn layers(&self) -> impl Iterator<Item = &SlowLayer> {
        self.in_force.iter().filter_map(|one| match one {
            InForce::Layer(layer) => Some(&**layer),
            _ => None,
        })
    }

    pub fn layers_mut(&mut self) -> impl Iterator<Item = &mut SlowLayer> {
        self.in_force.iter_mut().filter_map(|one| match one {
            InForce::Layer(layer) => Some(&mut **layer),
            _ => None,
        })
    }
}
