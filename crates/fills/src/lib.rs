// SPDX-License-Identifier: Apache-2.0
//! Data directories that were filled once, and are kept for later runs that need the same data: `<cache>/fills/<key>/`.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`Key`] | what a filled directory depends on, readable, and its hash: the entry's name |
//! | `tree` | files and folders below a folder, read through no link |
//! | `manifest` | size, inode and times of each kept file, and which files differ from them |
//! | `copying` | copies a tree: by reflink or by `copy_file_range`, synced, out of the page cache |
//! | [`Entry`] | a kept directory, protected from removal while it is used: [`Entry::clone_into`] |
//! | [`Store`] | finds, keeps, lists and removes entries, so that all together stay below the limit of size |
//!
//! What an entry consists of: `data/` (owned by the user who runs Wringer; the server's user cannot reach it), `entry.json` (the key,
//! what the caller noted, the manifest), `secret` (the password of the account in the data, 0600), `used` (when it was used last),
//! `lock` (held by those who read it).
//!
//! Invariants: an entry appears by one rename, complete and on the disk, or not at all. It is never written after that: an entry that was
//! changed is thrown away. No link is followed, in the source, in the entry or in the clone. The caller has stopped the server
//! cleanly before it gives its directory to [`Store::keep`].

mod copying;
mod entry;
mod error;
mod key;
mod limit;
mod manifest;
mod store;
mod tree;

pub use copying::{Cloned, Owner};
pub use entry::Entry;
pub use error::Error;
pub use key::Key;
pub use limit::LIMIT_VARIABLE;
pub use store::{Kept, Listed, Looked, Purged, Store, ToKeep};
