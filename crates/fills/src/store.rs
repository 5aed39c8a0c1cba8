// SPDX-License-Identifier: Apache-2.0
//! The folder of all kept directories. One process at a time adds or removes; an entry that somebody reads is not removed.

use crate::copying::{Copying, require_room};
use crate::entry::{DATA, Entry, LOCK, RECORD, Record, SECRET, USED};
use crate::tree::Root;
use crate::{Error, Key, limit, manifest};
use host::files;
use host::places::Places;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde_json::Value;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes that must be free on the disk after a directory was kept.
const KEEP_FREE_BYTES: u64 = 256 << 20;
/// Prefixes of the names of entries that are being made, and of entries that are being removed.
const NEW: &str = ".new-";
const OLD: &str = ".old-";

/// `<cache>/fills`, 0700.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
    limit: Option<u64>,
}

/// The answer to a search for a key.
#[derive(Debug)]
pub enum Looked {
    Here(Box<Entry>),
    Nothing,
    /// There was an entry whose files had changed. It was removed, for this reason.
    ThrownAway(String),
    /// The user has set the limit to 0.
    Off,
}

/// A filled directory whose server was stopped cleanly.
pub struct ToKeep<'a> {
    pub key: Key,
    pub data: &'a Path,
    /// The password of the account in it.
    pub secret: &'a str,
    /// Returned with each clone.
    pub note: Value,
    /// Names at the top that are the server's identity, or a sign of a running server.
    pub leave_out: &'a [&'a str],
    pub stop: &'a (dyn Fn() -> bool + Sync),
}

/// The result of [`Store::keep`].
#[derive(Debug)]
pub enum Kept {
    /// It is kept, and takes so many bytes. The entries `gone`, which nobody had used for the longest time, were removed to make room.
    Yes { id: String, bytes: u64, gone: Vec<String> },
    /// Another process has kept the same data meanwhile.
    Already,
    /// It is not kept, for this reason.
    No(String),
}

/// One entry, for a list.
#[derive(Debug, Clone)]
pub struct Listed {
    pub id: String,
    pub key: Key,
    /// Bytes that it takes on the disk, shared blocks included.
    pub taken_bytes: u64,
    /// Seconds since 1970.
    pub made: u64,
    pub used: u64,
    /// A process reads it now.
    pub in_use: bool,
}

/// What a purge has removed.
#[derive(Debug, Clone, Default)]
pub struct Purged {
    pub removed: Vec<Listed>,
    /// Entries that stay because a process reads them now.
    pub left: Vec<Listed>,
    /// Leftovers of processes that were killed.
    pub debris: u64,
}

impl Store {
    /// Opens the store. Nothing is written.
    ///
    /// # Errors
    /// The limit in the environment is no size.
    pub fn open(places: &Places) -> Result<Self, Error> {
        Ok(Self { folder: places.cache.join("fills"), limit: limit::asked()? })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether the user wants nothing kept.
    pub fn is_off(&self) -> bool {
        self.limit == Some(0)
    }

    /// Bytes that all entries together may take.
    ///
    /// # Errors
    /// The disk cannot be asked.
    pub fn limit_bytes(&self) -> Result<u64, Error> {
        let kept = self.list().iter().map(|entry| entry.taken_bytes).sum();
        let there = self.folder.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
        limit::bytes(self.limit, there, kept)
    }

    /// The entry of this key, if its files have not changed since they were kept. `verify`: every file is read for that.
    ///
    /// # Errors
    /// Others can write in the folder; a file cannot be read; interrupted.
    pub fn find(&self, key: &Key, verify: bool, stop: &(dyn Fn() -> bool + Sync)) -> Result<Looked, Error> {
        if self.is_off() {
            return Ok(Looked::Off);
        }
        if files::safe_folder(&self.folder)?.is_none() {
            return Ok(Looked::Nothing);
        }
        let folder = self.folder.join(key.id());
        let Some(lock) = open_entry(&folder)? else { return Ok(Looked::Nothing) };
        let (record, secret) = (Record::read(&folder), read_secret(&folder));
        let (Some(record), Some(secret)) = (record, secret) else {
            return self.throw_away(&folder, lock, "its description cannot be read".into());
        };
        let entry = Entry { folder, record, secret, _lock: lock };
        let mut changed = match entry.record.key == *key {
            true => entry.difference()?,
            false => Some("its description is that of other data".into()),
        };
        if changed.is_none() && verify {
            changed = entry.verify(stop)?;
        }
        match changed {
            Some(why) => {
                let Entry { folder, _lock: lock, .. } = entry;
                self.throw_away(&folder, lock, why)
            }
            None => {
                // also a full or read-only cache has data to clone
                let _ = note_use(&entry.folder);
                Ok(Looked::Here(Box::new(entry)))
            }
        }
    }

    /// Removes an entry. One that others read now stays until the next search: nobody clones it, because each search finds the change first.
    fn throw_away(&self, folder: &Path, lock: File, why: String) -> Result<Looked, Error> {
        drop(lock);
        if let Some(_ours) = self.lock_there()? {
            self.remove(folder)?;
        }
        Ok(Looked::ThrownAway(why))
    }

    /// Removes the entry of this key, unless a process reads it now: then it stays, and the next [`Self::keep`] of this key keeps nothing. Of a store
    /// that is closed to this user nothing is removed, because nothing in it is his.
    ///
    /// # Errors
    /// The entry cannot be removed; others can write in the folder.
    pub fn forget(&self, key: &Key) -> Result<(), Error> {
        let folder = self.folder.join(key.id());
        let lock = match self.lock_there() {
            Err(Error::Host(error)) if error.errno() == Some(Errno::ACCESS.raw_os_error()) => None,
            lock => lock?,
        };
        if let Some(_ours) = lock {
            self.remove(&folder)?;
        }
        Ok(())
    }

    /// Copies a filled directory into the store.
    ///
    /// # Errors
    /// The directory cannot be read, or the store cannot be written; interrupted. Nothing is left behind. Too little room is no error, but [`Kept::No`].
    pub fn keep(&self, wanted: &ToKeep<'_>) -> Result<Kept, Error> {
        if self.is_off() {
            return Ok(Kept::No(format!("{} is 0", limit::LIMIT_VARIABLE)));
        }
        if let Some(cache) = self.folder.parent() {
            files::check_usable(&self.folder)?;
            files::own_dir(cache, 0o755)?;
        }
        files::own_folder(&self.folder, 0o700)?;
        let Some(_lock) = self.lock(wanted.stop)? else { return Err(Error::Interrupted) };
        self.clear_debris()?;
        let id = wanted.key.id();
        let entry = self.folder.join(&id);
        if entry.exists() {
            return Ok(Kept::Already);
        }
        let bytes = taken_bytes(wanted.data, wanted.leave_out)?;
        let limit = limit::bytes(self.limit, &self.folder, self.list().iter().map(|it| it.taken_bytes).sum())?;
        if bytes > limit {
            let (bytes, limit) = (units::Bytes(bytes), units::Bytes(limit));
            return Ok(Kept::No(format!(
                "it takes {bytes}, and all kept data together may take {limit} ({} names another limit)",
                limit::LIMIT_VARIABLE
            )));
        }
        let gone = self.make_way(limit.saturating_sub(bytes))?;
        let new = self.folder.join(format!("{NEW}{id}-{}", std::process::id()));
        match self.fill_entry(&new, wanted, bytes) {
            Ok(()) => {}
            Err(Error::NoRoom { need_bytes, free_bytes, .. }) => {
                files::remove_tree(&new)?;
                let (need, free) = (units::Bytes(need_bytes), units::Bytes(free_bytes));
                let folder = self.folder.display();
                return Ok(Kept::No(format!("that needs {need} on the disk of {folder}, and {free} are free")));
            }
            Err(error) => {
                let _ = files::remove_tree(&new);
                return Err(error);
            }
        }
        files::rename(&new, &entry)?;
        Ok(Kept::Yes { id, bytes, gone })
    }

    fn fill_entry(&self, new: &Path, wanted: &ToKeep<'_>, bytes: u64) -> Result<(), Error> {
        files::new_private_dir(new)?;
        let data = new.join(DATA);
        files::new_private_dir(&data)?;
        let what = "a kept copy of the data";
        let (from, to, leave_out, stop) = (wanted.data, data.as_path(), wanted.leave_out, wanted.stop);
        Copying { what, from, to, owner: None, leave_out, keep_free_bytes: KEEP_FREE_BYTES, stop }.run()?;
        // also where blocks are shared: a server that writes to the original then needs blocks of its own
        require_room(what, &self.folder, KEEP_FREE_BYTES)?;
        let rows = manifest::of(&data, stop)?;
        let secret = format!("{}\n", wanted.secret);
        files::write_atomic(&new.join(SECRET), secret.as_bytes(), 0o600)?;
        let secret = Some(manifest::of_one(new, SECRET, secret.as_bytes())?);
        let record = Record { secret, ..Record::new(wanted.key.clone(), bytes, wanted.note.clone(), rows) };
        let text = serde_json::to_string(&record).map_err(|error| Error::path("write", new, error))?;
        files::open_lock(&new.join(LOCK))?;
        note_use(new)?;
        Ok(files::write_atomic(&new.join(RECORD), format!("{text}\n").as_bytes(), 0o600)?)
    }

    /// The entries; the one that was used last stands first.
    pub fn list(&self) -> Vec<Listed> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let visible = entries.filter(|path| !is_hidden(path));
        let mut listed: Vec<Listed> = visible.filter_map(|folder| listed(&folder)).collect();
        listed.sort_by(|one, other| other.used.cmp(&one.used).then(one.id.cmp(&other.id)));
        listed
    }

    /// Removes all entries that no process reads, and the leftovers of killed processes. `pretend`: removes nothing, and says what would be removed.
    ///
    /// # Errors
    /// Others can write in the folder; an entry cannot be removed.
    pub fn purge(&self, pretend: bool, stop: &(dyn Fn() -> bool + Sync)) -> Result<Purged, Error> {
        let mut purged = Purged::default();
        if files::safe_folder(&self.folder)?.is_none() {
            return Ok(purged);
        }
        let Some(_lock) = self.lock(stop)? else { return Err(Error::Interrupted) };
        if !pretend {
            purged.debris = self.clear_debris()?;
        }
        for entry in self.list() {
            let is_gone = !entry.in_use && (pretend || self.remove(&self.folder.join(&entry.id))?);
            if is_gone { purged.removed.push(entry) } else { purged.left.push(entry) }
        }
        Ok(purged)
    }

    /// Removes entries, beginning with those that nobody has used for the longest time, until the others take at most `limit` bytes.
    fn make_way(&self, limit: u64) -> Result<Vec<String>, Error> {
        let listed = self.list();
        let mut taken: u64 = listed.iter().map(|entry| entry.taken_bytes).sum();
        let mut gone = Vec::new();
        for entry in listed.into_iter().rev() {
            if taken <= limit {
                break;
            }
            if self.remove(&self.folder.join(&entry.id))? {
                taken = taken.saturating_sub(entry.taken_bytes);
                gone.push(entry.id);
            }
        }
        Ok(gone)
    }

    /// Removes an entry, unless a process reads it; returns whether it was removed. The entry is renamed first, so that a kill leaves no half entry under
    /// its name.
    fn remove(&self, folder: &Path) -> Result<bool, Error> {
        if !folder.exists() {
            return Ok(false);
        }
        let lock = files::open_lock(&folder.join(LOCK))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(false);
        }
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let old = self.folder.join(format!("{OLD}{name}-{}", std::process::id()));
        files::remove_tree(&old)?;
        files::rename(folder, &old)?;
        files::remove_tree(&old)?;
        Ok(true)
    }

    /// As [`Self::lock`], without waiting. `None` also when there is no store yet.
    fn lock_there(&self) -> Result<Option<File>, Error> {
        if files::safe_folder(&self.folder)?.is_none() {
            return Ok(None);
        }
        self.lock(&|| true)
    }

    /// Waits for the store's lock, which is held until it is dropped. `None`: `stop` was true before.
    fn lock(&self, stop: &dyn Fn() -> bool) -> Result<Option<File>, Error> {
        let path = self.folder.join(".lock");
        let lock = files::open_lock(&path)?;
        loop {
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Some(lock)),
                Err(Errno::WOULDBLOCK) if stop() => return Ok(None),
                Err(Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(50)),
                Err(errno) => return Err(Error::path("lock", &path, errno)),
            }
        }
    }

    /// Removes the leftovers of killed processes. The caller holds the store's lock, so that nobody else makes or removes anything now.
    fn clear_debris(&self) -> Result<u64, Error> {
        let mut cleared: u64 = 0;
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(NEW) || name.starts_with(OLD) {
                files::remove_tree(&entry.path())?;
                cleared = cleared.saturating_add(1);
            }
        }
        Ok(cleared)
    }
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'))
}

/// The entry's lock, shared with other readers. `None`: there is no such entry, or it is being removed.
fn open_entry(folder: &Path) -> Result<Option<File>, Error> {
    if !folder.join(RECORD).exists() {
        return Ok(None);
    }
    files::safe_folder(folder)?;
    let Ok(lock) = File::open(folder.join(LOCK)) else { return Ok(None) };
    if flock(&lock, FlockOperation::NonBlockingLockShared).is_err() {
        return Ok(None);
    }
    // it may have been removed between opening and locking
    Ok(folder.join(RECORD).exists().then_some(lock))
}

/// The content of the file with the password.
fn read_secret(folder: &Path) -> Option<String> {
    let mut text = String::new();
    files::open_safe(&folder.join(SECRET), false).ok()?.read_to_string(&mut text).ok()?;
    Some(text)
}

fn note_use(folder: &Path) -> Result<(), Error> {
    Ok(files::write_atomic(&folder.join(USED), format!("{}\n", host::clock::unix_seconds()).as_bytes(), 0o600)?)
}

fn listed(folder: &Path) -> Option<Listed> {
    if !folder.is_dir() {
        return None;
    }
    // an entry with a damaged description is listed and purged, too
    let record = Record::read(folder).unwrap_or_else(|| Record::new(Key::new(), 0, Value::Null, Vec::new()));
    let Record { key, made, taken_bytes, .. } = record;
    let id = folder.file_name()?.to_string_lossy().into_owned();
    let used = fs::read_to_string(folder.join(USED)).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(made);
    let lock = File::open(folder.join(LOCK));
    let in_use = lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err());
    Some(Listed { id, key, taken_bytes, made, used, in_use })
}

fn taken_bytes(data: &Path, leave_out: &[&str]) -> Result<u64, Error> {
    let nodes = Root::open(data)?.nodes()?;
    let kept = nodes.iter().filter(|node| !leave_out.iter().any(|name| node.path == Path::new(name)));
    Ok(kept.map(|node| node.taken_bytes).sum())
}
