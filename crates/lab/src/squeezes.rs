// SPDX-License-Identifier: Apache-2.0
//! The squeezes that are in force, and changing them from arm to arm.

use crate::cell::Phase;
use crate::error::Error;
use crate::notes::Notes;
use crate::squeeze_requests::{is_root, ram_options};
use diskmodel::Model;
use evidence::{Delay, DelayMode, DiskMechanism, Measured};
use experiment::{OnMiss, RamSqueeze};
use host::process::Identity;
use run::{ChildSpec, Run};
use squeeze::directory::{PROBE_FILE_BYTES, largest_file};
use squeeze::disk::SlowLayer;
use squeeze::foreign_cache::{self, ForeignCache};
use squeeze::limits::{LimitRequest, Limits, OptionNames, Usage};
use squeeze::ram::{self, Hidden, Traits};
use squeeze::{Kind, Plan};
use std::path::{Path, PathBuf};
use units::Bytes;

/// A phase's delay.
#[derive(Default)]
pub(crate) struct Delayed {
    /// The delay that was asked for; `None` without a slow layer.
    pub delay: Option<Delay>,
    /// Why the phase cannot be measured.
    pub missed: Option<String>,
}

#[derive(Default)]
pub(crate) struct Squeezes {
    in_force: squeeze::Squeezes,
    /// What the phase asked for whose RAM is hidden.
    ram: Option<RamSqueeze>,
    /// The worst result of this arm's checks so far.
    cached_by_others: Option<ForeignCache>,
    /// How often this run has made cgroups for its server.
    generation: u32,
    probing: bool,
}

impl Squeezes {
    /// Puts the layer over the data directory of a server that is stopped; once a run.
    pub(crate) fn layer(
        &mut self,
        run: &mut Run,
        data: &Path,
        mechanism: DiskMechanism,
        notes: &Notes<'_>,
    ) -> Result<(), Error> {
        if self.disk().is_some() {
            return Ok(());
        }
        let plan = Plan::disk_of_server(data, mechanism, run.places())?;
        plan.notes()?.into_iter().try_for_each(|unknown| notes.event("squeeze", unknown))?;
        self.in_force.apply(run, &plan, false)?;
        let Some(layer) = self.in_force.layers_mut().next() else { return Ok(()) };
        let name = layer.mechanism().in_results();
        notes.event("squeeze", format!("slow layer over {}, delay 0 ({name})", data.display()))?;
        if let Some(way) = layer.measured_way(notes.clock.now_us())? {
            notes.event("squeeze", way.witness.clone())?;
            notes.measured(&way)?;
        }
        Ok(())
    }

    /// The slow layer over the data directory, if there is one.
    pub(crate) fn disk(&self) -> Option<&SlowLayer> {
        self.in_force.layers().next()
    }

    pub(crate) fn disk_mut(&mut self) -> Option<&mut SlowLayer> {
        self.in_force.layers_mut().next()
    }

    /// The limits in which the server was started.
    pub(crate) fn server_limits(&self) -> Option<&Limits> {
        self.in_force.limits()
    }

    /// How the server must be started, so that the squeezes affect it.
    pub(crate) fn for_program(&self) -> ChildSpec {
        self.in_force.for_program()
    }

    /// A server that was started without the library would run at full speed.
    pub(crate) fn refuse_not_loaded(&mut self) -> Result<(), Error> {
        let Some(layer) = self.disk_mut() else { return Ok(()) };
        if layer.processes()? == Some(0) {
            return Err(Error::NotLoaded);
        }
        Ok(())
    }

    /// Opens the largest data file of the data directory through the layer, before any delay is set; once a run.
    pub(crate) fn probe(&mut self, run: &mut Run, data: &Path, notes: &Notes<'_>) -> Result<(), Error> {
        if self.disk().is_none() || std::mem::replace(&mut self.probing, true) {
            return Ok(());
        }
        let Some(layer) = self.disk_mut() else { return Ok(()) };
        let is_data = |name: &str| !LOGS.iter().any(|log| name.starts_with(log));
        let Some((file, _)) = largest_file(data, &is_data).filter(|(_, bytes)| *bytes >= PROBE_FILE_BYTES) else {
            let least = Bytes(PROBE_FILE_BYTES);
            return notes
                .event("squeeze", format!("no data file has {least}: delays are set, but not measured by a probe"));
        };
        layer.open_probe(run, &file)?;
        if let Some(cost) = layer.measure_cost(notes.clock.now_us()) {
            notes.measured(&cost)?;
        }
        Ok(())
    }

    /// The memory cgroup that the server was started in, and how many processes the kernel has killed in it for want of RAM. `None`: the server has
    /// none, or the kernel does not count kills there.
    pub(crate) fn oom_kills(&self) -> Option<(PathBuf, u64)> {
        let limits = self.server_limits()?;
        Some((limits.memory_folder()?.to_owned(), limits.account().memory?.oom_kills?))
    }

    /// Makes new cgroups when the limits differ; the server is stopped.
    pub(crate) fn limits(&mut self, run: &mut Run, asked: &LimitRequest, notes: &Notes<'_>) -> Result<(), Error> {
        if self.server_limits().map_or(&LimitRequest::default(), Limits::asked) == asked {
            return Ok(());
        }
        self.in_force.release(run, Kind::Limits)?;
        if asked.is_nothing() {
            return Ok(());
        }
        let plan = Plan::limits(asked, OptionNames::EXPERIMENT)?.numbered(self.generation);
        for note in plan.notes()? {
            notes.event("squeeze", format!("note: {note}"))?;
        }
        self.apply(run, &plan, notes)?;
        self.generation += 1;
        Ok(())
    }

    /// Hides RAM from the whole host, when the phase asks for another amount than the phase before it. It works only as root; the plan has said
    /// what is left out otherwise.
    ///
    /// Returns the reason, where the phase cannot be measured.
    pub(crate) fn ram(&mut self, run: &mut Run, phase: &Phase, notes: &Notes<'_>) -> Result<Option<String>, Error> {
        let asked = phase.ram.filter(|_| is_root());
        if self.ram == asked {
            return Ok(None);
        }
        self.give_ram_back(run)?;
        let Some(asked) = asked else { return Ok(None) };
        let strict = phase.on_miss == OnMiss::End;
        let plan = Plan::ram(&ram::Options { strict, ..ram_options(asked) })?;
        match self.apply(run, &plan, notes) {
            Err(Error::Squeeze(error)) if error.is_miss() => return Ok(Some(error.to_string())),
            applied => applied?,
        }
        self.ram = Some(asked);
        Ok(None)
    }

    /// Puts a squeeze in force, and records what it came to.
    fn apply(&mut self, run: &mut Run, plan: &Plan, notes: &Notes<'_>) -> Result<(), Error> {
        let in_force = self.in_force.apply(run, plan, false)?;
        for measured in in_force.measured() {
            notes.measured(&Measured { at_us: notes.clock.now_us(), ..measured.clone() })?;
        }
        in_force.told().into_iter().try_for_each(|told| notes.event("squeeze", told))
    }

    /// Gives hidden RAM back. The next phase that asks for it hides it again.
    pub(crate) fn give_ram_back(&mut self, run: &mut Run) -> Result<(), Error> {
        self.ram = None;
        Ok(self.in_force.release(run, Kind::Ram)?)
    }

    /// The traits of the way in which RAM is hidden now.
    pub(crate) fn ram_traits(&self) -> Option<Traits> {
        self.in_force.hidden_ram().filter(|hidden| hidden.bytes > 0).map(Hidden::traits)
    }

    /// The processes that hold the squeeze.
    pub(crate) fn holders(&self) -> Vec<Identity> {
        self.in_force.holders()
    }

    /// Whether the processes that hold a squeeze still live.
    pub(crate) fn check(&self) -> Result<(), Error> {
        Ok(self.in_force.check()?)
    }

    /// Sets the phase's delay on the running server's disk, and measures the result.
    pub(crate) fn delay(&mut self, phase: &Phase, notes: &Notes<'_>) -> Result<Delayed, Error> {
        let Some(layer) = self.disk_mut() else { return Ok(Delayed::default()) };
        let model = &phase.disk;
        notes.event("squeeze", format!("delay: {model}"))?;
        let delay = Some(model.delay());
        let measured = match layer.measure(model, &phase.name, notes.clock.now_us()) {
            Err(error) if error.is_miss() => return Ok(Delayed { delay, missed: Some(error.to_string()) }),
            measured => measured?,
        };
        for measured in &measured {
            notes.measured(measured)?;
        }
        let missed = squeeze::accept(measured, phase.on_miss == OnMiss::End).err().map(|error| error.to_string());
        Ok(Delayed { delay, missed })
    }

    /// Removes the delay: while the server's page cache is filled, and while it stops and starts.
    pub(crate) fn full_speed(&mut self) -> Result<(), Error> {
        let none = Model::none(DelayMode::Add);
        Ok(self.disk_mut().map_or(Ok(()), |layer| layer.set(&none))?)
    }

    /// Counts pages of the server's files that are charged to other cgroups, before an arm's load and after it. With a slow layer there are none: it
    /// reads past the host's page cache, and the cache above the layer is the server's own.
    pub(crate) fn look_at_cache(&mut self, data: &Path) {
        if let (Some(cgroup), None) = (self.server_limits().and_then(Limits::memory_folder), self.disk())
            && let Some(look) = foreign_cache::of_folder(cgroup, data)
        {
            self.cached_by_others = Some(self.cached_by_others.map_or(look, |worst| worst.worse(look)));
        }
    }

    /// What was seen in an arm that did not come to its end is none of the next arm's.
    pub(crate) fn forget_cache(&mut self) {
        self.cached_by_others = None;
    }

    fn tell_cache(&mut self, arm: &str, notes: &Notes<'_>) -> Result<(), Error> {
        let (Some(cache), Some(limits)) = (self.cached_by_others.take(), self.server_limits()) else { return Ok(()) };
        let (Some(limit), Some(mechanism)) = (limits.asked().ram, limits.mechanism("memory")) else { return Ok(()) };
        if cache.matters(limit) {
            notes.event("squeeze", format!("WARNING: {cache}; reads of them are free of the limit"))?;
        }
        notes.measured(&cache.measured(arm, limit, &mechanism, notes.clock.now_us()))
    }

    /// Whether the limits were in force when the arm has ended, and whether the processes that hold them still live.
    pub(crate) fn after_arm(
        &mut self,
        arm: &str,
        server: u32,
        usage: Option<&Usage>,
        notes: &Notes<'_>,
    ) -> Result<(), Error> {
        self.tell_cache(arm, notes)?;
        for measured in self.in_force.measure(server, usage) {
            let (at_us, arm) = (notes.clock.now_us(), Some(arm.to_owned()));
            notes.measured(&Measured { at_us, arm, ..measured })?;
        }
        self.check()
    }
}

/// Whether the file is a redo or write-ahead log: such files are written while they are read, and queries do not read them.
const LOGS: [&str; 3] = ["ib_logfile", "ib_buffer_pool", "pg_wal"];
