// SPDX-License-Identifier: Apache-2.0
//! The ways in which the servers read and write, and where one sees that a server takes one: in `/proc`.

use sandbox::{Flavour, Sandbox};
use std::fs;
use std::path::Path;

/// One way, by options of a start.
pub(crate) struct Way {
    pub(crate) name: &'static str,
    pub(crate) options: &'static [&'static str],
    shows: &'static [Mark],
}

/// What `/proc` shows of a server that takes this way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// A file with this in its path is open with O_DIRECT.
    Direct(&'static str),
    /// None is.
    Buffered(&'static str),
    /// A context of the kernel's native AIO (`io_setup`) is mapped.
    NativeAio,
    /// An instance of io_uring is open.
    IoUring,
    /// Neither of the two.
    NoAio,
    /// A file with this in its path, of the data directory, is mapped and shared.
    Mapped(&'static str),
}

use Mark::{Buffered, Direct, IoUring, Mapped, NativeAio, NoAio};

/// Pools of a few MiB, so that pages are read and written under the load. InnoDB maps no file of its data; PostgreSQL maps shared
/// memory, when told to.
pub(crate) fn ways(flavour: Flavour) -> &'static [Way] {
    match flavour {
        // as Debian builds it
        Flavour::Mariadb => &[
            Way {
                name: "O_DIRECT, io_uring",
                options: &["innodb_buffer_pool_size=6M", "innodb_flush_method=O_DIRECT"],
                shows: &[Direct("/wide.ibd"), IoUring],
            },
            Way {
                name: "page cache, threads",
                options: &["innodb_buffer_pool_size=6M", "innodb_flush_method=fsync", "innodb_use_native_aio=OFF"],
                shows: &[Buffered("/wide.ibd"), NoAio],
            },
        ],
        Flavour::Mysql | Flavour::Percona => &[
            Way {
                name: "O_DIRECT, native AIO",
                options: &["innodb_buffer_pool_size=6M", "innodb_flush_method=O_DIRECT"],
                shows: &[Direct("/wide.ibd"), NativeAio],
            },
            Way {
                name: "page cache, threads",
                options: &["innodb_buffer_pool_size=6M", "innodb_flush_method=fsync", "innodb_use_native_aio=OFF"],
                shows: &[Buffered("/wide.ibd"), NoAio],
            },
        ],
        // until 15, the log is written past the page cache when nobody else reads it (get_sync_bit, xlog.c)
        Flavour::Postgresql => &[
            Way {
                name: "page cache, mapped shared memory in the data directory",
                options: &[
                    "shared_buffers=2MB",
                    "dynamic_shared_memory_type=mmap",
                    "min_dynamic_shared_memory=1MB",
                    "wal_sync_method=fdatasync",
                ],
                shows: &[Buffered("/base/"), Buffered("/pg_wal/"), Mapped("/pg_dynshmem/")],
            },
            Way {
                name: "log by O_DIRECT",
                options: &[
                    "shared_buffers=2MB",
                    "wal_sync_method=open_datasync",
                    "wal_level=minimal",
                    "max_wal_senders=0",
                ],
                shows: &[Buffered("/base/"), Direct("/pg_wal/")],
            },
        ],
    }
}

impl Way {
    /// Whether the server of process `pid` takes this way.
    pub(crate) fn check(&self, pid: u32, sandbox: &Sandbox) -> Result<(), String> {
        let seen: Vec<Seen> = super::family(pid).into_iter().map(|pid| Seen::of(pid, &sandbox.data())).collect();
        for mark in self.shows {
            let any = |of: &dyn Fn(&Seen) -> bool| seen.iter().any(of);
            let is_so = match *mark {
                Direct(part) => any(&|it| it.opened(part, true)),
                Buffered(part) => any(&|it| it.opened(part, false)) && !any(&|it| it.opened(part, true)),
                NativeAio => any(&|it| it.native_aio),
                IoUring => any(&|it| it.io_uring),
                NoAio => !any(&|it| it.native_aio || it.io_uring),
                Mapped(part) => any(&|it| it.mapped.iter().any(|path| path.contains(part))),
            };
            if !is_so {
                return Err(format!("{}: no {mark:?} in {seen:#?}", self.name));
            }
        }
        Ok(())
    }
}

/// Of one process.
#[derive(Debug, Default)]
struct Seen {
    /// Files below the data directory, and whether they are open with O_DIRECT.
    files: Vec<(String, bool)>,
    mapped: Vec<String>,
    native_aio: bool,
    io_uring: bool,
}

impl Seen {
    fn of(pid: u32, data: &Path) -> Self {
        let data = data.display().to_string();
        let mut seen = Self::default();
        for entry in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
            let Ok(target) = fs::read_link(entry.path()) else { continue };
            let target = target.display().to_string();
            seen.io_uring |= target.contains("io_uring");
            if target.starts_with(&data) {
                seen.files.push((target, is_direct(pid, &entry.file_name().to_string_lossy())));
            }
        }
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        seen.native_aio = maps.lines().any(|line| line.contains("/[aio]"));
        let shared = maps.lines().filter(|line| line.contains(" rw-s ") && line.contains(&data));
        seen.mapped = shared.map(str::to_owned).collect();
        seen
    }

    fn opened(&self, part: &str, direct: bool) -> bool {
        self.files.iter().any(|(path, is_direct)| path.contains(part) && *is_direct == direct)
    }
}

/// `flags:` in octal; proc(5).
fn is_direct(pid: u32, fd: &str) -> bool {
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| u32::from_str_radix(line.strip_prefix("flags:")?.trim(), 8).ok());
    flags.is_some_and(|flags| flags & rustix::fs::OFlags::DIRECT.bits() != 0)
}
