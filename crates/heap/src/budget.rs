// SPDX-License-Identifier: Apache-2.0
//! The memory that reading one file may take, whatever the file contains.

/// About ten times the memory that the largest profile of a server needed so far.
pub(crate) const MOST_MEMORY: usize = 512 << 20;

#[derive(Debug)]
pub(crate) struct Budget(usize);

impl Default for Budget {
    fn default() -> Self {
        Self(MOST_MEMORY)
    }
}

impl Budget {
    /// # Errors
    /// What is wrong with the file, in words.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), String> {
        self.0 = self
            .0
            .checked_sub(bytes)
            .ok_or_else(|| format!("what came before needs more than {} MiB of memory", MOST_MEMORY >> 20))?;
        Ok(())
    }
}
