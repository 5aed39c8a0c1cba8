// SPDX-License-Identifier: Apache-2.0
//! A malloc with a profiler of its own: it writes a file whenever a small library in the server, which is asked, lets it. Its addresses become names.

use crate::mark::{Taken, millis};
use crate::{Error, vgdb};
use asked::Map;
use capability::MallocKind;
use heap::massif::{Header, TimeUnit};
use host::files;
use host::places::Places;
use sandbox::{Malloc, Preload, Sandbox, StartOptions};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use symbols::Binaries;

/// For a file. All threads that allocate meanwhile wait.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Asking {
    kind: MallocKind,
    map: Map,
    /// Where the server writes.
    folder: PathBuf,
    binaries: Binaries,
    threshold: f64,
    count: u32,
}

impl Asking {
    /// Before the server's start: what it is started with.
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

    /// `at`: since the server's start. `into`: the user's folder, which gets the file as the malloc wrote it.
    pub(crate) fn take(&mut self, sandbox: &Sandbox, pid: u32, at: Duration, into: &Path) -> Result<Taken, Error> {
        let none = |why: String| Error::NoSnapshot { pid, why };
        let library = |source: sandbox::Error| Error::Library(source.into());
        sandbox.empty_profiles_folder().map_err(library)?;
        let began = Instant::now();
        self.map.profile(self.kind, PATIENCE).map_err(|source| Error::Snapshot { pid, why: host::chain(&source) })?;
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

/// What stands at the beginning of the file with all marks.
pub(crate) fn header(with: &str, sandbox: &Sandbox) -> Header {
    let program = sandbox.manifest.installation.program.display().to_string();
    Header {
        arguments: vec![format!("taken by {with}").into_bytes()],
        command: program.into_bytes(),
        time_unit: TimeUnit::Milliseconds,
    }
}

/// No file but those that are asked for. jemalloc(3), TUNING; gperftools, docs/heapprofile.html.
fn environment(kind: MallocKind, folder: &Path) -> Vec<(String, String)> {
    let prefix = folder.join(kind.name()).display().to_string();
    let pair = |name: &str, value: String| (name.to_owned(), value);
    match kind {
        // each allocation: a sample of one in 512 KiB, jemalloc's own choice, says nothing of a leak of some KiB
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
