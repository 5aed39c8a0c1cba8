// SPDX-License-Identifier: Apache-2.0
//! A malloc with a profiler of its own. A small library in the server calls the malloc's function that writes a profile, whenever this program asks the
//! library to. The profile has addresses; this program finds the functions' names for them.

use crate::mark::{Taken, millis};
use crate::{Error, vgdb};
use asked::Map;
use capability::MallocKind;
use heap::massif::{Header, TimeUnit};
use host::files;
use host::places::Places;
use host::process::Identity;
use sandbox::{Malloc, Preload, Sandbox, StartOptions};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use symbols::Binaries;

/// The longest wait for one file. All threads of the server that allocate in this time wait, too.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Asking {
    kind: MallocKind,
    map: Map,
    /// The folder into which the server writes.
    folder: PathBuf,
    binaries: Binaries,
    threshold: f64,
    count: u32,
}

impl Asking {
    /// Adds to `start` the malloc, the library and the variables that the server needs. Call this before the server's start.
    pub(crate) fn prepare(
        (kind, library): (MallocKind, &Path),
        sandbox: &Sandbox,
        places: &Places,
        debug_files: Option<&Path>,
        threshold: f64,
        start: &mut StartOptions,
    ) -> Result<Self, Error> {
        let made = asked::install(&places.cache.join("asked")).and_then(|library| Ok((library, Map::create()?)));
        let (asked_library, map) = made.map_err(|source| Error::Asked(Box::new(source)))?;
        let malloc = Malloc::File { name: None, path: library.to_owned() };
        let located = malloc.locate(&sandbox.manifest.installation, places, &mut |_: &str| {});
        start.wrapping.malloc = Some(located.map_err(|source| Error::Library(source.into()))?);
        let folder = sandbox.make_profiles_folder().map_err(|source| Error::Library(source.into()))?;
        start.wrapping.environment.extend(environment(kind, &folder));
        let environment = asked::environment(&asked_library, &map);
        start.asking = Some(Preload { environment, inherit: vec![map.descriptor()] });
        let binaries = Binaries::new(debug_files.map(Path::to_owned).into_iter().collect());
        Ok(Self { kind, map, folder, binaries, threshold, count: 0 })
    }

    /// Takes a snapshot. `at`: the time since the server's start. `into`: the user's folder, which gets the file as the malloc wrote it.
    pub(crate) fn take(&mut self, sandbox: &Sandbox, pid: u32, at: Duration, into: &Path) -> Result<Taken, Error> {
        let none = |why: String| Error::NoSnapshot { pid, why };
        let library = |source: sandbox::Error| Error::Library(source.into());
        sandbox.empty_profiles_folder().map_err(library)?;
        let began = Instant::now();
        let server = Identity::of(pid);
        let is_alive = || server.is_some_and(|server| server.is_alive());
        let asked = self.map.profile(self.kind, PATIENCE, &is_alive);
        asked.map_err(|source| Error::Snapshot { pid, why: host::chain(&source) })?;
        let took = began.elapsed();
        let written = std::fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|it| it.path());
        let written = written.filter(|path| path.extension().is_some_and(|it| it == "heap")).min();
        let written = written.ok_or_else(|| none("it has written no file; the server's log may say why".into()))?;
        let text = vgdb::read(&written, 0).map_err(|source| Error::Read { path: written.clone(), source })?;
        let file = into.join(format!("{}.{:04}.heap", self.kind.name(), self.count));
        files::write_atomic(&file, text.as_bytes(), 0o600).map_err(Error::Keep)?;
        sandbox.empty_profiles_folder().map_err(library)?;
        self.count += 1;
        let unreadable = |error: heap::Error| none(host::chain(&error));
        let outline = heap::Outline::read(text.as_bytes()).map_err(unreadable)?;
        if let Some(damage) = &outline.damage {
            return Err(none(damage.to_string()));
        }
        let trees = heap::trees(text.as_bytes(), &outline, &[0], &mut self.binaries).map_err(unreadable)?;
        let mut tree = trees.into_iter().next().ok_or_else(|| none("it has no tree".into()))?;
        tree.snapshot.time = millis(at);
        let header = header(self.kind.name(), sandbox);
        let whole = heap::massif::text(&header, &tree, self.threshold);
        Ok(Taken::of_server(pid, tree.snapshot.heap_bytes, whole, file, took))
    }
}

/// The header of the file with all marks.
pub(crate) fn header(with: &str, sandbox: &Sandbox) -> Header {
    let program = sandbox.manifest.installation.program.display().to_string();
    Header {
        arguments: vec![format!("taken by {with}").into_bytes()],
        command: program.into_bytes(),
        time_unit: TimeUnit::Milliseconds,
    }
}

/// Variables by which the malloc writes a profile only when it is asked for one: jemalloc(3), TUNING; gperftools, docs/heapprofile.html.
fn environment(kind: MallocKind, folder: &Path) -> Vec<(String, String)> {
    let prefix = folder.join(kind.name()).display().to_string();
    let pair = |name: &str, value: String| (name.to_owned(), value);
    match kind {
        // lg_prof_sample:0 counts each allocation; with its default, a sample of one in 512 KiB, jemalloc would miss a leak of some KiB
        MallocKind::Jemalloc => {
            vec![pair("MALLOC_CONF", format!("prof:true,lg_prof_sample:0,prof_prefix:{prefix}"))]
        }
        _ => vec![
            pair("HEAPPROFILE", prefix),
            pair("HEAP_PROFILE_ALLOCATION_INTERVAL", "0".into()),
            pair("HEAP_PROFILE_INUSE_INTERVAL", "0".into()),
        ],
    }
}
