// SPDX-License-Identifier: Apache-2.0
//! A slow layer over a sandbox's data directory, and the witness that measures it. The layer is a FUSE layer in its own mount
//! namespace, or, where none can be made, a library in the programs ([`crate::preloaded`]).
//!
//! In: a run, and a directory whose server is stopped. Out: the settings that make a program see the delay ([`SlowLayer::for_programs`]), a delay
//! that can be changed at any time, the layer's counters, and [`Measured`] entries: what was asked, and what a probe behind the layer got. Layer
//! and probe end with the run; when one of them has died, [`SlowLayer::check`] reports it.

use crate::Error;
use crate::constant;
use crate::directory::{SOCKET, socket_name};
use crate::files_in_use::{refuse_open_by_others, refuse_open_files};
use crate::imitation::{Below, Imitator, hold};
use crate::preloaded::{self, Preloaded};
use crate::probe::{self, Probe, Reads, Task};
use crate::way;
use diskmodel::Model;
use evidence::{DiskMechanism, LatencyHistogram, Measured, Quantity};
use host::in_use::Place;
use run::{Child, ChildSpec, Role, Run, StepId};
use slowfs::control::Client;
use slowfs::process::Options;
use slowfs::stats::Stats;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A running slow layer.
#[derive(Debug)]
pub struct SlowLayer {
    directory: PathBuf,
    socket: PathBuf,
    child: Child,
    /// `None`: the FUSE layer.
    preloaded: Option<Preloaded>,
    client: Client,
    probe: Option<Probe>,
    /// Direct reads of the same file: past the layer, and through it without a delay.
    floor: Option<Floor>,
}

/// The cost of a direct read at depth 1 without any delay.
#[derive(Debug, Clone, PartialEq)]
pub struct Floor {
    pub bare: LatencyHistogram,
    pub layer: LatencyHistogram,
}

/// How many reads measure the floor: half a second on a fast disk.
const FLOOR_READS: u32 = 2000;
const FLOOR_TURNS: u32 = 10;
const FLOOR_TIME: Duration = Duration::from_secs(1);

impl SlowLayer {
    /// Mounts the layer; no process may have files open below `directory`.
    ///
    /// # Errors
    /// [`Error::Refused`]: a process has files open; there is no FUSE, or no right to mount.
    pub fn start(run: &mut Run, directory: &Path) -> Result<Self, Error> {
        let directory = &directory.canonicalize().map_err(Error::file("look for", directory))?;
        refuse_open_files(directory)?;
        Self::mount(run, directory, SOCKET, |options| options)
    }

    /// Mounts the layer over a user's own directory, given by its canonical path, for one command, without a write-back cache. The layers of a run are
    /// `number`ed from 0. Each later layer joins the namespace of the first, given as `beside`.
    ///
    /// # Errors
    /// [`Error::Refused`]: a process has files open below it, or came while the layer was made; there is no FUSE, or no right to mount.
    pub(crate) fn start_for_command(
        run: &mut Run,
        directory: &Path,
        number: u32,
        beside: Option<&Self>,
    ) -> Result<Self, Error> {
        let place = Place::of(directory)?;
        refuse_open_by_others(directory, &place.users(), &[])?;
        let beside = beside.map(Self::pid);
        let change = |options| Options { beside, writeback_cache: false, ..options };
        let layer = Self::mount(run, directory, &socket_name(number), change)?;
        // only processes can have come: the layer's own namespace has a copy of each mount
        refuse_open_by_others(directory, &place.users(), &[layer.pid()])?;
        Ok(layer)
    }

    fn mount(
        run: &mut Run,
        directory: &Path,
        socket: &str,
        change: impl FnOnce(Options) -> Options,
    ) -> Result<Self, Error> {
        let socket = run.folder().join(socket);
        let order = change(Options::over(directory, &socket, run.id().as_str()));
        let spec = ChildSpec { ready: true, ..ChildSpec::internal(&order)? };
        let child = run.spawn(Role::SlowLayer, spec)?;
        let client = Client::connect(&socket)?;
        Ok(Self { directory: directory.to_owned(), socket, child, preloaded: None, client, probe: None, floor: None })
    }

    /// Makes a layer without a mount, for programs that are started with [`Self::for_programs`]. Other programs may use the
    /// directory meanwhile, because there is only one view of it. `library` is the folder for the library; the programs' user must
    /// be able to read it. The layers of a run are `number`ed from 0.
    ///
    /// # Errors
    /// The library cannot be written, or the layer's process cannot be started.
    pub fn preload(run: &mut Run, directory: &Path, library: &Path, number: u32) -> Result<Self, Error> {
        let directory = &directory.canonicalize().map_err(Error::file("look for", directory))?;
        let preloaded = Preloaded::new(directory, library)?;
        let socket = run.folder().join(socket_name(number));
        let map = preloaded.map();
        let order = ::preload::keeper::Options { map: map.as_raw_fd(), control: socket.clone() };
        let spec = ChildSpec { ready: true, inherit: vec![map], ..ChildSpec::internal(&order)? };
        let child = run.spawn(Role::SlowLayer, spec)?;
        let client = Client::connect(&socket)?;
        let (directory, preloaded) = (directory.to_owned(), Some(preloaded));
        Ok(Self { directory, socket, child, preloaded, client, probe: None, floor: None })
    }

    pub fn mechanism(&self) -> DiskMechanism {
        if self.preloaded.is_some() { DiskMechanism::Preload } else { DiskMechanism::Fuse }
    }

    /// The settings that make a program see the delays of these layers: a namespace to enter, or an environment and descriptors to
    /// inherit. The layers belong to one run and use one mechanism; the first layer comes first.
    pub fn for_programs(layers: &[&Self]) -> ChildSpec {
        let preloaded: Vec<_> =
            layers.iter().filter_map(|layer| Some((layer.preloaded.as_ref()?, layer.child.pid))).collect();
        if preloaded.is_empty() {
            return ChildSpec { namespaces_of: layers.first().map(|first| first.pid()), ..ChildSpec::default() };
        }
        ChildSpec {
            env: preloaded::environment(&preloaded),
            inherit: preloaded.iter().map(|(preloaded, _)| preloaded.map()).collect(),
            ..ChildSpec::default()
        }
    }

    /// How many processes have loaded the library of a preload layer so far. `None`: the FUSE layer, which loads nothing into programs.
    ///
    /// # Errors
    /// The layer is gone.
    pub fn processes(&mut self) -> Result<Option<u64>, Error> {
        Ok(self.stats()?.in_programs.map(|seen| seen.processes))
    }

    /// Opens another connection to the layer's counters, for an observer.
    ///
    /// # Errors
    /// The layer is gone.
    pub fn connect(&self) -> Result<Client, Error> {
        Ok(Client::connect(&self.socket)?)
    }

    /// The layer's process. With the FUSE layer, programs in its mount namespace see the delay.
    pub fn pid(&self) -> u32 {
        self.child.pid
    }

    pub fn step(&self) -> StepId {
        self.child.step
    }

    /// # Errors
    /// [`Error::LayerDied`]: the run is over.
    pub fn check(&self) -> Result<(), Error> {
        if self.child.is_alive() { Ok(()) } else { Err(Error::LayerDied { directory: self.directory.clone() }) }
    }

    /// Changes the model in one atomic switch, also for open files and waiting replies. Credits and queues start anew.
    ///
    /// # Errors
    /// The layer is gone.
    pub fn set(&mut self, model: &Model) -> Result<(), Error> {
        self.check()?;
        Ok(self.client.set_model(model)?)
    }

    /// # Errors
    /// The layer is gone.
    pub fn stats(&mut self) -> Result<Stats, Error> {
        self.check()?;
        Ok(self.client.stats()?)
    }

    /// Opens `file`, which is below the directory, in the layer's namespace, and keeps it open: later measurements then show that a
    /// change of the delay reaches open files. Measures the floor past the layer and through it.
    ///
    /// # Errors
    /// The file is too small to probe, or cannot be read directly.
    pub fn open_probe(&mut self, run: &mut Run, file: &Path) -> Result<(), Error> {
        if self.preloaded.is_some() && !preloaded::can_be_loaded(&host::process::own_program()) {
            // A static program of ours has no library in it, and would see no delay.
            return Ok(());
        }
        let past_the_layer = probe::open(file)?;
        let mut probe = Probe::start(run, self.pid(), Self::for_programs(&[self]), file)?;
        let (mut bare, mut layer) = (LatencyHistogram::new(), LatencyHistogram::new());
        let task = Task::short(FLOOR_READS / FLOOR_TURNS, 1, FLOOR_TIME / FLOOR_TURNS);
        // In turns, so that disturbances by the host hit both measurements.
        for _ in 0..FLOOR_TURNS {
            bare.merge(&probe::read(&past_the_layer, file, task)?.histogram);
            layer.merge(&probe.read(task)?.histogram);
        }
        self.probe = Some(probe);
        self.floor = Some(Floor { bare, layer });
        Ok(())
    }

    /// Ends the probe; nothing can be measured after that.
    ///
    /// # Errors
    /// It could not be ended.
    pub fn close_probe(&mut self, run: &mut Run) -> Result<(), Error> {
        self.probe.take().map_or(Ok(()), |probe| probe.end(run))
    }

    /// Sets a model that does not change any more, and measures it by reads of `file`, where there is one to read. Leaves no probe, and fresh credits.
    ///
    /// # Errors
    /// Those of [`Self::open_probe`] and [`Self::measure`].
    pub fn apply(
        &mut self,
        run: &mut Run,
        model: &Model,
        file: Option<&Path>,
        arm: &str,
    ) -> Result<Vec<Measured>, Error> {
        if let Some(file) = file {
            self.open_probe(run, file)?;
        }
        let measured = self.measure(model, arm, 0)?;
        self.close_probe(run)?;
        self.set(model)?;
        Ok(measured)
    }

    /// The cost of a read through the layer when the delay is 0. `None` without a probe.
    pub fn measure_cost(&self, at_us: u64) -> Option<Measured> {
        let Floor { bare, layer } = self.floor.as_ref()?;
        let cost = layer.median_us() - bare.median_us();
        Some(Measured {
            at_us,
            arm: None,
            what: "disk.layer_cost.median".into(),
            mechanism: self.mechanism().in_results().into(),
            asked: Some(Quantity::micros(0.0)),
            predicted: None,
            got: Some(Quantity::micros(cost)),
            witness: format!(
                "{} direct reads of 4 KiB at depth 1 through the layer with delay 0 ({:.1} us), against as many past it ({:.1} us)",
                layer.count(),
                layer.median_us(),
                bare.median_us()
            ),
            // An arm that asks for no delay cannot miss it: the cost of the layer is reported only.
            within_tolerance: None,
            tolerance: None,
            looks: None,
            came_on: None,
        })
    }

    /// The time that the layer subtracts from each delay for the kernel's way to it and back, or why it subtracts nothing. `None`:
    /// the layer has no such way.
    ///
    /// # Errors
    /// The layer is gone.
    pub fn measured_way(&mut self, at_us: u64) -> Result<Option<Measured>, Error> {
        self.check()?;
        let name = Self::mechanism(self).in_results();
        Ok(way::measured(&mut self.client, name)?.map(|it| Measured { at_us, ..it }))
    }

    /// Sets the model and measures it; leaves it in force with fresh credits. Empty without a probe. The caller judges results that
    /// are out of tolerance or missed.
    ///
    /// # Errors
    /// The probe or the layer died; a read does not come back.
    pub fn measure(&mut self, model: &Model, arm: &str, at_us: u64) -> Result<Vec<Measured>, Error> {
        if self.probe.is_none() {
            return self.set(model).map(|()| Vec::new());
        }
        let by_whom = "by a probe that opened the file before the delay was set";
        let measured = match model.is_constant() {
            true => vec![constant::hold(self, model.delay(), by_whom)?],
            false => hold(self, model)?.measured,
        };
        Ok(measured.into_iter().map(|it| Measured { at_us, arm: Some(arm.to_owned()), ..it }).collect())
    }
}

impl Imitator for SlowLayer {
    fn set(&mut self, model: &Model) -> Result<(), Error> {
        Self::set(self, model)
    }

    fn mechanism(&self) -> &'static str {
        Self::mechanism(self).in_results()
    }

    fn read(&mut self, task: Task) -> Result<Reads, Error> {
        self.check()?;
        match self.probe.as_mut() {
            Some(probe) => probe.read(task),
            None => Err(Error::ProbeAnswer { answer: "no probe was started".into() }),
        }
    }

    fn below(&mut self) -> Result<Below, Error> {
        Below::of(&mut self.client)
    }
}
