// SPDX-License-Identifier: Apache-2.0
//! What makes a server take a malloc, as the cells were started: the libraries that were preloaded, and the variables of the malloc.

use crate::cell::Cell;
use capability::{MallocKind, malloc_setting};

/// A sentence for the advice to keep the first malloc, where a server has this malloc only when it is told to take it.
pub(crate) fn is_a_change(base: &str, cells: &[Cell]) -> Option<String> {
    let pairs = Start::of(seen(cells, base)?).pairs();
    let told = pairs.join(" ");
    (!pairs.is_empty()).then(|| {
        format!("a server has {base} only if it is started as the cells of {base} were, with {told}: where yours is not, this is a change too")
    })
}

/// The last cell of this malloc that counts; one that says what was preloaded before one that does not.
pub(crate) fn seen<'a>(cells: &'a [Cell], malloc: &str) -> Option<&'a Cell> {
    let own = cells.iter().filter(|cell| cell.malloc == malloc && cell.counts());
    own.max_by_key(|cell| cell.preloaded.is_some())
}

/// What makes a server take the malloc of a cell.
pub(crate) struct Start {
    pub(crate) libraries: Vec<String>,
    environment: &'static [(&'static str, &'static str)],
}

impl Start {
    pub(crate) fn of(cell: &Cell) -> Self {
        let setting = malloc_setting(&cell.malloc);
        let libraries = match (setting, &cell.preloaded) {
            (Some(setting), Some(files)) => files.iter().map(|file| loaded_as(setting.kind, file)).collect(),
            (None, Some(files)) => files.clone(),
            (Some(setting), None) if setting.kind == MallocKind::Glibc => Vec::new(),
            (Some(setting), None) => setting.kind.libraries().iter().take(1).map(|name| (*name).to_owned()).collect(),
            (None, None) => vec![cell.malloc.split_once('=').map_or(cell.malloc.as_str(), |(_, path)| path).to_owned()],
        };
        Self { libraries, environment: setting.map_or(&[], |setting| setting.environment) }
    }

    pub(crate) fn pairs(&self) -> Vec<String> {
        let preload = (!self.libraries.is_empty()).then(|| format!("LD_PRELOAD={}", self.libraries.join(":")));
        preload.into_iter().chain(self.environment.iter().map(|(name, value)| format!("{name}={value}"))).collect()
    }
}

/// A library of the system, or one that Wringer unpacked from a package of the system, has a name by which the loader finds it once the package is
/// installed. Any other file is named by its path.
fn loaded_as(kind: MallocKind, path: &str) -> String {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let of_package = folder.is_empty()
        || ["/lib", "/usr/lib"].iter().any(|begin| folder.starts_with(begin))
        || folder.split('/').any(|part| part == "tree");
    kind.library_of(file).filter(|_| of_package).unwrap_or(path).to_owned()
}
