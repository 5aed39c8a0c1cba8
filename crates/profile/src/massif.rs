// SPDX-License-Identifier: Apache-2.0
//! Valgrind's Massif. While the server runs, each of its processes is asked for a snapshot over `vgdb`.

use crate::mark::{ProcessMark, Taken};
use crate::snapshots::{self, Stitched};
use crate::{Error, vgdb};
use capability::Flavour;
use load::admin::Connection;
use sandbox::{RunningServer, Sandbox};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The most threads that Valgrind admits. Its default is 500, and servers may have more connections than that.
const MOST_THREADS: u32 = 4000;

pub(crate) struct Massif {
    vgdb: PathBuf,
    of_process: BTreeMap<u32, Stitched>,
}

impl Massif {
    pub(crate) fn new(vgdb: PathBuf) -> Self {
        Self { vgdb, of_process: BTreeMap::new() }
    }

    pub(crate) fn options(pages_as_heap: bool, threshold: f64, debug_files: Option<&Path>) -> Vec<String> {
        let mut options = vec![
            "--time-unit=ms".to_owned(),
            format!("--threshold={threshold}"),
            format!("--max-threads={MOST_THREADS}"),
        ];
        options.extend(pages_as_heap.then(|| "--pages-as-heap=yes".to_owned()));
        options.extend(debug_files.map(|it| format!("--extra-debuginfo-path={}", it.display())));
        options
    }

    /// Takes a snapshot of each of the server's processes, and sums them.
    pub(crate) fn take(&mut self, sandbox: &Sandbox, server: &RunningServer) -> Result<Taken, Error> {
        let roles = roles(sandbox, server);
        let began = Instant::now();
        let (mut texts, mut processes, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        for pid in vgdb::processes(server.pid) {
            if roles.own == Some(pid) {
                continue;
            }
            let text = match vgdb::snapshot(&self.vgdb, sandbox, pid) {
                Ok(text) => text,
                // the backend has ended in the meantime
                Err(error) if pid != server.pid => {
                    missing.push(host::chain(&error));
                    continue;
                }
                Err(error) => return Err(error),
            };
            let none = |why: &str| Error::NoSnapshot { pid, why: why.into() };
            let (heap_bytes, _) = snapshots::bytes(&text).ok_or_else(|| none("it has no size of a heap"))?;
            // one process has all in the file of the whole; nothing would ever take its texts out of memory here
            if sandbox.flavour() == Flavour::Postgresql {
                let stitched = self.of_process.entry(pid).or_default();
                stitched.push(&text).ok_or_else(|| none("its header is not Massif's"))?;
            }
            processes.push(ProcessMark { pid, role: roles.of(pid, server.pid), heap_bytes });
            texts.push(text);
        }
        let took = began.elapsed();
        let nothing = || Error::NoSnapshot { pid: server.pid, why: "there is no process in Valgrind".into() };
        let whole = if texts.len() == 1 { texts.pop() } else { snapshots::summed(&texts) }.ok_or_else(nothing)?;
        let (heap_bytes, extra_bytes) = snapshots::bytes(&whole).ok_or_else(nothing)?;
        Ok(Taken {
            whole: Some(whole),
            heap_bytes: Some(heap_bytes),
            extra_bytes: Some(extra_bytes),
            processes,
            missing,
            ..Taken::later(took)
        })
    }

    /// Adds, for PostgreSQL, the new snapshots of each process to its file.
    pub(crate) fn keep(&mut self, folder: &Path) -> Result<(), Error> {
        for (pid, it) in &mut self.of_process {
            let path = folder.join(format!("heap.{pid}.massif"));
            it.keep(&path).map_err(Error::Keep)?;
        }
        Ok(())
    }
}

/// The roles of PostgreSQL's processes, as far as PostgreSQL tells them.
fn roles(sandbox: &Sandbox, server: &RunningServer) -> Roles {
    if sandbox.flavour() != Flavour::Postgresql {
        return Roles::default();
    }
    let ask = || {
        let mut connection = Connection::open(&server.target)?;
        let own: Option<u32> = connection.query("SELECT pg_backend_pid()")?.parse(0, 0);
        let rows = connection.query("SELECT pid, backend_type FROM pg_stat_activity")?;
        let role = |row| Some((rows.parse(row, 0)?, rows.text(row, 1)?));
        Ok::<_, load::Error>(Roles { own, named: Some((0..rows.len()).filter_map(role).collect()) })
    };
    ask().unwrap_or_default()
}

#[derive(Debug, Default)]
struct Roles {
    /// The backend that answered this question. It exists only for the question, so it is left out.
    own: Option<u32>,
    named: Option<BTreeMap<u32, String>>,
}

impl Roles {
    fn of(&self, pid: u32, first: u32) -> String {
        match &self.named {
            None if pid == first => "server".to_owned(),
            Some(_) if pid == first => "postmaster".to_owned(),
            named => named.as_ref().and_then(|it| it.get(&pid).cloned()).unwrap_or_else(|| "helper".to_owned()),
        }
    }
}
