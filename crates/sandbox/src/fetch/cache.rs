// SPDX-License-Identifier: Apache-2.0
//! The cache of fetched servers: `<cache>/servers/<entry>/{fetched.json, tree/}`. An entry appears by one rename, when it is complete and was tried,
//! or not at all. It takes the place of an earlier one in one step.

use crate::apt::Package;
use crate::installation::unpacked;
use crate::space::require_execution;
use crate::{Error, Flavour, Installation, Source, Version};
use host::files;
use host::places::Places;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One entry of the cache.
pub(crate) struct Entry {
    pub(crate) flavour: Flavour,
    pub(crate) tree: PathBuf,
    pub(crate) source: Source,
}

/// The content of `fetched.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Fetched {
    pub(super) schema: u32,
    pub(super) flavour: Flavour,
    pub(super) version: Version,
    pub(super) source: Source,
    pub(super) packages: Vec<Part>,
}

/// A thing that was downloaded or unpacked: a package, an artifact, an archive.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) sha256: String,
    pub(super) size_bytes: u64,
}

impl Part {
    pub(super) fn of(package: &Package) -> Self {
        Self {
            name: package.name.clone(),
            version: package.version.clone(),
            sha256: package.sha256.clone(),
            size_bytes: package.size_bytes,
        }
    }
}

const SCHEMA: u32 = 1;
/// Prefixes of the names of entries that are being made, and of entries that are being replaced.
const NEW: &str = ".new-";
const OLD: &str = ".old-";

impl Fetched {
    pub(super) fn new(installation: &Installation, packages: Vec<Part>) -> Self {
        Self {
            schema: SCHEMA,
            flavour: installation.flavour,
            version: installation.version.clone(),
            source: installation.source.clone(),
            packages,
        }
    }

    /// The name of its entry. There may be several archives of one version: debug builds, a user's own builds.
    fn entry_name(&self) -> String {
        let (flavour, version) = (self.flavour, &self.version);
        match &self.source {
            Source::Archive { sha256, .. } => format!("{flavour}-{version}-{}", &sha256[..sha256.len().min(12)]),
            _ => format!("{flavour}-{version}"),
        }
    }
}

/// The entries of the cache whose record can be read. Root sees none where another user may write: it would run that user's programs.
pub(crate) fn entries(places: &Places) -> Vec<Entry> {
    if files::check_usable(&servers(places)).is_err() {
        return Vec::new();
    }
    let folders = fs::read_dir(servers(places)).into_iter().flatten().flatten().map(|entry| entry.path());
    folders
        .filter_map(|folder| {
            let text = fs::read_to_string(folder.join("fetched.json")).ok()?;
            let fetched: Fetched = serde_json::from_str(&text).ok()?;
            let tree = usable_tree(&folder)?;
            (fetched.schema == SCHEMA).then_some(Entry { flavour: fetched.flavour, tree, source: fetched.source })
        })
        .collect()
}

/// The tree of an entry that is complete. A user may have linked it, or the entry; for root both the links and what they lead to must be safe.
pub(super) fn usable_tree(entry: &Path) -> Option<PathBuf> {
    entry.file_name().filter(|name| !name.to_string_lossy().starts_with('.'))?;
    let tree = entry.join("tree");
    files::check_usable(&tree).ok()?;
    tree.canonicalize().ok()
}

fn servers(places: &Places) -> PathBuf {
    places.cache.join("servers")
}

/// The server of this version from a package or an artifact, when it is in the cache and runs. One that does not run, because libraries have been
/// removed from the machine or because the machine is short of memory for a moment, stays until another one takes its place: sandboxes may use it.
pub(super) fn find(flavour: Flavour, version: &Version, places: &Places) -> Option<Installation> {
    let folder = servers(places).join(format!("{flavour}-{version}"));
    let entry = entries(places).into_iter().find(|entry| is_in(entry, &folder))?;
    unpacked(flavour, &entry.tree, &entry.source)
}

fn is_in(entry: &Entry, folder: &Path) -> bool {
    folder.canonicalize().is_ok_and(|folder| entry.tree.parent() == Some(&folder))
}

/// Makes an entry for a server: `fill` makes `tree` in the folder that it gets, tries the server in it, and returns which server that is.
pub(super) fn make(
    places: &Places,
    fill: impl FnOnce(&Path) -> Result<(Installation, Vec<Part>), Error>,
) -> Result<Installation, Error> {
    let (entry, fetched) = add_entry(&servers(places), |new| {
        let (installation, parts) = fill(new)?;
        let fetched = Fetched::new(&installation, parts);
        Ok((fetched.entry_name(), fetched))
    })?;
    let tree = entry.join("tree").canonicalize().map_err(|source| Error::path("look at", &entry, source))?;
    unpacked(fetched.flavour, &tree, &fetched.source).ok_or_else(|| super::unusable(&fetched, &tree))
}

/// Adds an entry to `folder`, replacing one of the same name: `fill` fills the folder that it gets, tries the content, and returns the entry's name
/// and its record. Returns the path of the entry. Nothing is left of an entry that fails; one that is in place, and may not be on the disk, stays, and the
/// error says so.
pub(super) fn add_entry<R: Serialize>(
    folder: &Path,
    fill: impl FnOnce(&Path) -> Result<(String, R), Error>,
) -> Result<(PathBuf, R), Error> {
    let new = folder.join(format!("{NEW}{}", std::process::id()));
    files::private_dir(&new, 0o755)?;
    let fill = |new: &Path| require_execution(folder).and_then(|()| fill(new));
    let added = fill(&new).and_then(|(name, record)| Ok((publish(&new, &name, &record)?, record)));
    if added.is_err() {
        let _ = files::remove_tree(&new);
    }
    let ((entry, old), record) = added?;
    sync_name(&entry)?;
    // the next fetch removes what stays now
    let _ = remove(&old);
    Ok((entry, record))
}

/// Gives the new entry its name. Returns its path, and where the old one is, if there was one.
fn publish(new: &Path, name: &str, record: &impl Serialize) -> Result<(PathBuf, PathBuf), Error> {
    let text = format!("{:#}\n", serde_json::json!(record));
    files::write_atomic(&new.join("fetched.json"), text.as_bytes(), 0o644)?;
    sync(new)?;
    let entry = new.with_file_name(name);
    // a kill at any moment leaves the old entry or the new one
    let old = if files::exchange(new, &entry) { new.to_owned() } else { rename(new, &entry)? };
    Ok((entry, old))
}

/// The same where the two cannot be swapped. Returns where the old one is, if there was one.
fn rename(new: &Path, entry: &Path) -> Result<PathBuf, Error> {
    let old = new.with_file_name(format!("{OLD}{}", std::process::id()));
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    let put_back = |error: host::Error| {
        let _ = files::rename(&old, entry);
        Error::from(error)
    };
    if is_there(entry) {
        files::rename(entry, &old).map_err(put_back)?;
    }
    match files::rename(new, entry) {
        // it is in place, and only the sync failed: the caller syncs, too
        Err(_) if is_there(entry) && !is_there(new) => {}
        renamed => renamed.map_err(put_back)?,
    }
    Ok(old)
}

/// Writes the name of an entry to the disk: until then, the earlier entry may be back after a power cut.
fn sync_name(entry: &Path) -> Result<(), Error> {
    let synced = fs::File::open(entry.parent().unwrap_or(entry)).and_then(|folder| folder.sync_all());
    synced.map_err(|source| {
        Error::path("sync the folder of the new entry, which is complete and in place:", entry, source)
    })
}

/// Removes what is left of an entry. Of a link, what it leads to is the user's.
fn remove(path: &Path) -> Result<(), Error> {
    if path.is_symlink() { Ok(files::remove_file(path)?) } else { Ok(files::remove_tree(path).map(drop)?) }
}

/// Writes the tree to the disk: this comes before the name that marks the tree as complete.
fn sync(folder: &Path) -> Result<(), Error> {
    let opened = fs::File::open(folder).map_err(|source| Error::path("open", folder, source))?;
    rustix::fs::syncfs(&opened).map_err(|errno| Error::path("sync", folder, errno))
}

/// Takes the lock of the cache. Only one fetch runs at a time: a second one waits, and then finds the server that the first one fetched. Also removes
/// the leftovers of a killed fetch.
pub(super) fn lock(places: &Places) -> Result<fs::File, Error> {
    // first of all: a folder of root's would lock the user out in whose folder it was made
    files::check_usable(&servers(places))?;
    files::own_dir(&places.cache, 0o755)?;
    files::usable_dir(&servers(places))?;
    let path = servers(places).join(".lock");
    let lock = files::open_lock(&path)?;
    loop {
        match rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(rustix::io::Errno::WOULDBLOCK) if host::interrupt::requested() => return Err(Error::Interrupted),
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(200)),
            Err(errno) => return Err(Error::path("lock", &path, errno)),
        }
    }
    clear_unfinished(&servers(places))?;
    Ok(lock)
}

/// Removes the leftovers of killed fetches in this folder.
pub(super) fn clear_unfinished(folder: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if [NEW, OLD].iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // tests lay out folders of their own
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("is there").mode() & 0o7777
    }

    #[test]
    fn a_cache_that_is_there_keeps_its_mode() {
        let home = tempfile::tempdir().expect("a folder");
        let places = Places::below(home.path());
        for (found, root_takes_it) in [(0o751, true), (0o1777, true), (0o777, false)] {
            fs::create_dir_all(&places.cache).expect("makes");
            fs::set_permissions(&places.cache, fs::Permissions::from_mode(found)).expect("sets");
            let is_root = rustix::process::geteuid().is_root();
            assert_eq!(lock(&places).is_ok(), root_takes_it || !is_root, "{found:o}");
            assert_eq!(mode(&places.cache), found);
        }
    }

    #[test]
    fn root_makes_nothing_in_a_folder_of_another_user() {
        if !rustix::process::geteuid().is_root() {
            testkit::skip!("needs root");
        }
        let home = tempfile::tempdir().expect("a folder");
        let places = Places::below(home.path());
        chown(home.path(), Some(12_345), None).expect("gives it away");
        let error = lock(&places).expect_err("another user's folder");
        assert!(matches!(error, Error::Host(host::Error::Untrusted { .. })) && !places.cache.exists(), "{error}");
        fs::create_dir_all(servers(&places)).expect("makes");
        fs::set_permissions(servers(&places), fs::Permissions::from_mode(0o700)).expect("sets");
        chown(servers(&places), Some(12_345), None).expect("gives it away");
        chown(home.path(), Some(0), None).expect("takes it back");
        lock(&places).expect_err("another user's servers");
        assert_eq!((fs::read_dir(servers(&places)).expect("lists").count(), mode(&servers(&places))), (0, 0o700));
    }

    /// Makes an entry without a server; returns its tree.
    fn made(folder: &Path) -> PathBuf {
        let text = r#"{"schema": 1, "flavour": "mariadb", "version": "10.11.1", "source": {"kind": "installed"}, "packages": []}"#;
        fs::create_dir_all(folder.join("tree")).expect("makes");
        fs::write(folder.join("fetched.json"), text).expect("writes");
        folder.join("tree").canonicalize().expect("is there")
    }

    #[test]
    fn an_entry_is_replaced_and_nothing_of_the_old_one_is_left() {
        let home = tempfile::tempdir().expect("a folder");
        let [folder, elsewhere] = ["servers", "elsewhere"].map(|name| home.path().join(name));
        let add = |text: &'static str| {
            let fill = |new: &Path| {
                fs::write(new.join("made"), text).expect("writes");
                Ok(("entry".to_owned(), serde_json::json!({})))
            };
            let (entry, _) = add_entry(&folder, fill).expect("is added");
            assert_eq!(fs::read_to_string(entry.join("made")).expect("reads"), text);
            entry
        };
        fs::remove_dir_all(add("first")).expect("removes");
        made(&elsewhere);
        symlink(&elsewhere, folder.join("entry")).expect("links");
        add("in place of a link");
        add("in place of a folder");
        assert!(elsewhere.join("tree").exists(), "what a link leads to is the user's");
        fs::rename(folder.join("entry"), folder.join(".old-1")).expect("as a killed process leaves it");
        symlink(&elsewhere, folder.join(".old-2")).expect("links");
        clear_unfinished(&folder).expect("clears");
        assert_eq!(fs::read_dir(&folder).expect("lists").count(), 0);
    }

    /// With two renames the name would be missing between them.
    #[test]
    fn the_name_of_an_entry_is_never_missing_while_the_entry_is_replaced() {
        let home = tempfile::tempdir().expect("a folder");
        let add = || add_entry(home.path(), |_| Ok(("entry".to_owned(), serde_json::json!({})))).expect("is added").0;
        let (entry, is_over, looks) = (add(), AtomicBool::new(false), AtomicU32::new(0));
        let missing = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut missing = 0;
                while !is_over.load(Ordering::SeqCst) {
                    missing += u32::from(!entry.is_dir());
                    looks.fetch_add(1, Ordering::SeqCst);
                }
                missing
            });
            while looks.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            (0..5).for_each(|_| drop(add()));
            is_over.store(true, Ordering::SeqCst);
            reader.join().expect("ends")
        });
        // where a file system cannot swap names, the name is missing for a moment
        let others = tempfile::tempdir_in(home.path()).expect("a folder");
        assert!(missing == 0 || !files::exchange(&entry, others.path()), "{missing} times");
    }

    #[test]
    fn an_entry_that_is_in_place_and_not_known_to_be_on_the_disk_says_so() {
        let home = tempfile::tempdir().expect("a folder");
        let error = sync_name(&home.path().join("gone/entry")).expect_err("there is no such folder");
        let said = host::chain(&error);
        assert!(said.contains("complete and in place") && said.contains("gone/entry"), "{said}");
    }

    #[test]
    fn where_names_cannot_be_swapped_the_old_entry_is_set_aside() {
        let folder = tempfile::tempdir().expect("a folder");
        let [new, entry] = [".new-1", "entry"].map(|name| folder.path().join(name));
        for (path, text) in [(&new, "new"), (&entry, "old")] {
            fs::create_dir(path).expect("makes");
            fs::write(path.join("made"), text).expect("writes");
        }
        let old = rename(&new, &entry).expect("renames");
        let made = |folder: &Path| fs::read_to_string(folder.join("made")).expect("reads");
        assert_eq!((made(&entry), made(&old), new.exists()), ("new".into(), "old".into(), false));
        assert!(rename(&new, &entry).is_err() && made(&entry) == "new", "a failed one changes nothing");
    }

    #[test]
    fn linked_entries_are_used_and_for_root_none_of_another_user() {
        let home = tempfile::tempdir().expect("a folder");
        let places = Places::below(home.path());
        let [ours, elsewhere] = [made(&servers(&places).join("ours")), made(&home.path().join("elsewhere"))];
        symlink(home.path().join("elsewhere"), servers(&places).join("linked")).expect("links");
        let trees = || {
            let mut trees: Vec<PathBuf> = entries(&places).into_iter().map(|entry| entry.tree).collect();
            trees.sort();
            trees
        };
        for unfinished in [".new-1", ".old-1"] {
            made(&servers(&places).join(unfinished));
        }
        assert_eq!(trees(), [ours.as_path(), &elsewhere]);
        if rustix::process::geteuid().is_root() {
            chown(&elsewhere, Some(12_345), None).expect("gives it away");
            assert_eq!(trees(), [ours.as_path()]);
            chown(&ours, Some(12_345), None).expect("gives it away");
            assert!(trees().is_empty());
        }
    }
}
