// SPDX-License-Identifier: Apache-2.0
use crate::folder::Folder;
use crate::reading;
use journal::{JournalFile, Reading};

/// The journal of the watched run. It stays open from the start, so that it can be read after the folder was removed.
pub(super) struct KeptJournal {
    folder: Folder,
    /// `None`: it could not be opened at the start; each look tries again.
    file: Option<JournalFile>,
}

impl KeptJournal {
    pub(super) fn open(folder: Folder) -> Self {
        let file = JournalFile::open_to_write(&folder.journal()).ok();
        Self { folder, file }
    }

    pub(super) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Reads without waiting, because it is called each second.
    pub(super) fn look(&self) -> Reading {
        self.file.as_ref().map_or_else(|| reading::read(&self.folder), JournalFile::read_at_once)
    }

    /// Reads the journal, and compares it with the other files of the folder while the folder is there.
    pub(super) fn read_to_undo(&self) -> (Option<JournalFile>, Reading) {
        let again = self.file.as_ref().and_then(|file| file.try_clone().ok());
        match again {
            Some(file) => {
                let reading = reading::beside_the_rest(&self.folder, file.read());
                (Some(file), reading)
            }
            None => reading::read_to_undo(&self.folder),
        }
    }

    /// Whether its folder was not removed, but renamed.
    pub(super) fn is_aside(&self) -> bool {
        self.file.as_ref().is_some_and(|file| !file.is_removed())
    }
}
