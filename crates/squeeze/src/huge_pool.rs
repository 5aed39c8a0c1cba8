// SPDX-License-Identifier: Apache-2.0
//! Makes room for a server in the host's pool of huge pages. The journal records the same step as for a squeeze by this pool, but here a server uses
//! the pages.
//!
//! The pages that are in the pool already may be meant for somebody else, so the pool grows by all pages that the server needs. A user who may not
//! make the pool larger takes the free pages.

use crate::ram::pool;
use crate::{Error, Meminfo};
use host::change::POOL;
use run::{Run, StepId};
use std::time::{Duration, Instant};
use units::Bytes;

/// How long the kernel may take to find memory in one piece.
const DEADLINE: Duration = Duration::from_secs(30);
/// This much of the host's RAM must stay available beside the pages; otherwise no page is taken.
const LEFT_BYTES: u64 = Bytes::GIB;

/// The pages that are ready for one server.
#[derive(Debug)]
pub struct HugePool {
    step: Option<StepId>,
    pub asked_pages: u64,
    /// The number of pages that the pool has for the server.
    pub pages: u64,
    /// The size of one page: the host's default size.
    pub page_bytes: u64,
    /// Why the pool has fewer pages than asked.
    pub stopped: Option<String>,
}

impl HugePool {
    pub fn is_enough(&self) -> bool {
        self.pages >= self.asked_pages
    }

    /// `131 huge pages of 2 MiB`.
    pub fn describe(&self) -> String {
        let page = Bytes(self.page_bytes);
        match &self.stopped {
            None => format!("{} huge pages of {page}", self.pages),
            Some(why) => format!("{} of {} huge pages of {page}: {why}", self.pages, self.asked_pages),
        }
    }

    /// Makes the pool as small as it was before. The server that used the pages has stopped by then.
    ///
    /// # Errors
    /// Somebody else has changed the pool meanwhile.
    pub fn give_back(self, run: &mut Run) -> Result<(), Error> {
        self.step.map_or(Ok(()), |step| Ok(run.undo_step(step)?))
    }
}

/// The size of the host's default huge page, in bytes.
///
/// # Errors
/// [`Error::Refused`]: this kernel has no huge pages.
pub fn page_bytes() -> Result<u64, Error> {
    match Meminfo::now()?.huge_page_bytes {
        0 => Err(Error::Refused {
            what: "this kernel has no huge pages".into(),
            hint: "leave server.huge_pages out".into(),
        }),
        bytes => Ok(bytes),
    }
}

/// Makes the pool larger by `pages`. Where this user may not make it larger, counts its free pages.
///
/// # Errors
/// The host has too little RAM for them; the pool was changed by somebody else at this moment.
pub fn make(run: &mut Run, pages: u64) -> Result<HugePool, Error> {
    let page_bytes = page_bytes()?;
    let none = HugePool { step: None, asked_pages: pages, pages, page_bytes, stopped: None };
    if rustix::fs::access(POOL, rustix::fs::Access::WRITE_OK).is_err() {
        let free = Meminfo::now()?.huge_unclaimed_pages();
        let why = || "this user may not make the pool larger, and no more are free".to_owned();
        return Ok(HugePool { pages: free.min(pages), stopped: (free < pages).then(why), ..none });
    }
    require_ram(pages * page_bytes)?;
    let started = Instant::now();
    let why_stop = || {
        let is_over = started.elapsed() > DEADLINE || host::interrupt::requested();
        is_over.then(|| format!("the kernel found no more memory in one piece within {} s", DEADLINE.as_secs()))
    };
    let grown = pool::grow_by(run, pages, false, &why_stop)?;
    Ok(HugePool { step: Some(grown.step), pages: grown.pages, stopped: grown.stopped, ..none })
}

fn require_ram(bytes: u64) -> Result<(), Error> {
    let available = Meminfo::now()?.available_bytes;
    if bytes.saturating_add(LEFT_BYTES) <= available {
        return Ok(());
    }
    let (bytes, available, left) = (Bytes(bytes), Bytes(available), Bytes(LEFT_BYTES));
    Err(Error::Refused {
        what: format!(
            "the server's huge pages take {bytes}, and {available} are available, of which {left} must be left"
        ),
        hint: "make the server's pool smaller".into(),
    })
}
