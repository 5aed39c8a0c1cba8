// SPDX-License-Identifier: Apache-2.0
//! The data that were read about a server's memory, before any arithmetic: mappings, processes, the server's own rows, the allocator's chunks, memory contexts.
//! Each part says when it was read. A recording keeps an [`Inventory`] as a snapshot; a bundle holds one as JSON.

use crate::marks::{Marks, Raised};
use capability::Flavour;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything that was read at one time. All sizes are in bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Inventory {
    /// When reading began, in microseconds since 1970, UTC.
    pub at_unix_us: u64,
    pub took_us: u64,
    /// `None`: neither the server nor its process says so.
    pub flavour: Option<Flavour>,
    /// The version that the server told at login.
    pub version: Option<String>,
    /// The base page: 4096 on x86-64.
    pub page_bytes: u64,
    /// The first one is the server's first process: mariadbd, mysqld, or the postmaster.
    pub processes: Vec<ProcessSeen>,
    /// `None`: without SQL.
    pub server: Option<ServerSeen>,
    /// The memory that all processes of a PostgreSQL share. `None`: not read.
    #[serde(default)]
    pub segment: Option<SegmentSeen>,
    pub host: HostSeen,
    pub cgroup: Option<CgroupSeen>,
    /// `None`: not looked at.
    #[serde(default)]
    pub files: Option<FilesSeen>,
    /// The cost of reading for the server.
    pub probes: Vec<Probe>,
    pub missing: Vec<Missing>,
    /// `None`: the server is not read repeatedly.
    #[serde(default)]
    pub interval: Option<Interval>,
}

/// The time from one repeated reading to the next. It is longer than asked where readings cost too much.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    pub asked_us: u64,
    /// The interval when this reading was taken.
    pub got_us: u64,
    /// What the readings cost, in words; `None`: the interval is as asked.
    pub why: Option<String>,
}

/// One process of the server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessSeen {
    pub pid: u32,
    /// Its number in the process namespace of the server, which the server's own rows have. `None`: it is the same, or not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner_pid: Option<u32>,
    /// `mariadbd`, `postmaster`, `client backend`, `checkpointer`, ...
    pub role: String,
    pub command: String,
    pub started_ticks: u64,
    /// Microseconds after [`Inventory::at_unix_us`].
    pub at_us: u64,
    /// By name without the colon, as in /proc/PID/status (VmRSS, RssAnon, RssShmem, VmPTE, VmSwap, HugetlbPages, ...).
    pub status: BTreeMap<String, u64>,
    pub oom_score: Option<i64>,
    pub oom_score_adj: Option<i64>,
    /// /proc/PID/smaps_rollup: Rss, Pss, Pss_Anon, Pss_File, Pss_Shmem, SwapPss, ... `None`: not read of this process.
    pub rollup: Option<BTreeMap<String, u64>>,
    /// `None`: not read of this process, or not allowed.
    pub mappings: Option<Vec<Mapping>>,
    /// What malloc holds and what is free; `None` where neither glibc's nor tcmalloc serves, or the layout does not verify.
    pub heap: Option<HeapWalk>,
    /// Memory contexts of PostgreSQL 13 and later; `None` where the layout does not verify.
    pub contexts: Option<Vec<Context>>,
    /// Memory that MariaDB allocates once; `None` where the layout does not verify.
    #[serde(default)]
    pub collations: Option<Collations>,
    /// The allocator that serves malloc: `glibc 2.36`, `jemalloc`, `tcmalloc`, `mimalloc`.
    pub allocator: Option<String>,
    /// Of a server that is read repeatedly: the last reading of this process before this one. `None`: there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<Earlier>,
}

impl ProcessSeen {
    /// The number by which the server's rows name it.
    pub fn pid_of_server(&self) -> u32 {
        self.inner_pid.unwrap_or(self.pid)
    }
}

/// The figures of the last reading of a process that told its Pss. All sizes are in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Earlier {
    /// How long before this inventory, in microseconds.
    pub age_us: u64,
    /// Pss, Pss_File, Pss_Shmem.
    pub pss: BTreeMap<String, u64>,
    /// VmRSS, RssAnon, RssFile, RssShmem.
    pub rss: BTreeMap<String, u64>,
    /// What all of the server's processes together have taken and given back of files and shared memory since then, in RssFile and RssShmem. A process
    /// that began or ended counts in full.
    pub changed_by_all: u64,
}

/// One line of /proc/PID/maps, with what is resident in it.
///
/// A server has thousands, and most have nothing in most fields: JSON leaves out what is zero or empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    /// `rw-p`.
    pub permissions: String,
    #[serde(skip_serializing_if = "is_nothing")]
    pub offset: u64,
    /// The inode of the mapped file; 0: no file. Two processes that map the same inode of the same device share the memory.
    #[serde(skip_serializing_if = "is_nothing")]
    pub inode: u64,
    #[serde(skip_serializing_if = "is_nothing")]
    pub device: String,
    /// Empty for anonymous memory without a name; else `[heap]`, `[stack]`, `[anon:...]`, or the file's path.
    #[serde(skip_serializing_if = "is_nothing")]
    pub path: String,
    #[serde(skip_serializing_if = "is_nothing")]
    pub rss: u64,
    #[serde(skip_serializing_if = "is_nothing")]
    pub pss: u64,
    /// Private pages of a file mapping that were written, and all pages of an anonymous one.
    #[serde(skip_serializing_if = "is_nothing")]
    pub anonymous: u64,
    #[serde(skip_serializing_if = "is_nothing")]
    pub swap: u64,
    #[serde(skip_serializing_if = "is_nothing")]
    pub private_hugetlb: u64,
    #[serde(skip_serializing_if = "is_nothing")]
    pub shared_hugetlb: u64,
    #[serde(skip_serializing_if = "is_nothing")]
    pub kernel_page_bytes: u64,
    #[serde(skip_serializing_if = "is_nothing")]
    pub anon_huge_pages: u64,
    /// Bytes in ranges of at least 4 MiB that have no resident page. Looked for where malloc's blocks of MySQL and MariaDB may lie.
    #[serde(skip_serializing_if = "is_nothing")]
    pub holes: u64,
    /// As in smaps: `rd wr mr mw me ht`.
    #[serde(skip_serializing_if = "is_nothing")]
    pub flags: String,
}

/// The memory of malloc, read from outside: the chunks of glibc's, or the page heap of tcmalloc.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapWalk {
    /// What the layout that verified belongs to: `glibc 2.36`, `tcmalloc's page heap`.
    pub layout: String,
    pub arenas: u32,
    /// In chunks that the program holds, headers included; of tcmalloc, in spans that are in use, where blocks in its caches count as held.
    pub used: u64,
    /// Free chunks and the tops of the arenas; of tcmalloc, free spans that were not given back to the kernel.
    pub free: u64,
    /// The resident part of `free`, by pagemap.
    pub free_resident: u64,
    /// Resident in all mappings that were walked; of tcmalloc 0, because none is walked as a whole.
    pub resident: u64,
    /// Start addresses of the mappings that were walked as a whole.
    pub walked: Vec<u64>,
}

impl HeapWalk {
    /// The layout of gperftools' tcmalloc.
    pub const PAGE_HEAP: &str = "tcmalloc's page heap";

    /// Whether `used` is what the program holds: free blocks in tcmalloc's caches lie in spans that are in use.
    pub fn tells_use(&self) -> bool {
        self.layout != Self::PAGE_HEAP
    }
}

/// One memory context of PostgreSQL.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    pub name: String,
    pub ident: Option<String>,
    /// 0 for TopMemoryContext.
    pub level: u32,
    /// Without children: `mem_allocated` of MemoryContextData.
    pub allocated: u64,
    /// The resident part of its blocks. `None`: it was not read, because the context is small, or is no allocation set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident: Option<u64>,
}

/// Memory that MariaDB allocates once and keeps until it ends (`my_once_alloc`): tables of collations and character sets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collations {
    pub blocks: u32,
    /// Sizes of the blocks together, in bytes.
    pub allocated: u64,
    /// The resident part of it, by pagemap.
    pub resident: u64,
}

/// The server's own rows. Texts are kept as the server gave them; arithmetic parses them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerSeen {
    pub at_us: u64,
    pub variables: BTreeMap<String, String>,
    pub status: BTreeMap<String, String>,
    /// performance_schema.memory_summary_global_by_event_name: current bytes (signed: they may be below zero) by event.
    pub memory_events: BTreeMap<String, i64>,
    /// How many of its instruments are enabled, of how many.
    pub instruments: Option<(u64, u64)>,
    /// `performance_schema.memory` of SHOW ENGINE PERFORMANCE_SCHEMA STATUS.
    pub performance_schema_bytes: Option<u64>,
    /// The part "BUFFER POOL AND MEMORY" of SHOW ENGINE INNODB STATUS.
    pub innodb_memory: Option<String>,
    pub sessions: Vec<Session>,
    /// MariaDB's information_schema.KEY_CACHES, with the default cache. Empty: not asked, or refused.
    #[serde(default)]
    pub key_caches: Vec<KeyCacheSeen>,
    /// pg_shmem_allocations, in order of their offset.
    pub shared_allocations: Vec<SharedAllocation>,
    /// `None`: not asked, or refused.
    #[serde(default)]
    pub marks: Option<Marks>,
    /// PostgreSQL's settings for which a role or a database has a larger value than the server.
    #[serde(default)]
    pub raised: Vec<Raised>,
    /// The most connections of each account that is known to have some, by its name as in [`Session`]; without a number only the server's limit holds. `None`: not
    /// asked, or refused.
    #[serde(default)]
    pub account_limits: Option<BTreeMap<String, Option<u64>>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub id: u64,
    /// The number of the backend's process; only for PostgreSQL.
    pub pid: Option<u32>,
    pub account: String,
    pub command: String,
    /// By the server: threads.TOTAL_MEMORY, PROCESSLIST.MEMORY_USED.
    pub bytes: Option<u64>,
    pub bytes_max: Option<u64>,
}

/// One key cache of MyISAM.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyCacheSeen {
    pub name: String,
    /// With the descriptors of its blocks, in bytes.
    pub size: u64,
    /// The bytes of a block.
    pub block: u64,
    /// How many blocks there are.
    pub blocks: u64,
    /// How many of them were used at once, at most.
    pub used: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedAllocation {
    /// `None`: the unused tail.
    pub name: Option<String>,
    pub offset: Option<u64>,
    pub size: u64,
    pub allocated_size: u64,
    /// Bytes of it in pages that a process has touched. `None`: not read, or its offset is not known.
    #[serde(default)]
    pub touched: Option<u64>,
}

/// PostgreSQL's one piece of shared memory, by its pages. All sizes are in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentSeen {
    /// As in [`Mapping`].
    pub device: String,
    pub inode: u64,
    pub mapped: u64,
    /// Pages that one of the processes has touched, each once.
    pub touched: u64,
    /// Whether all processes were looked at.
    pub is_whole: bool,
    /// All its pages, also those that only processes have touched that have ended, and those in swap. `None`: not for this user.
    pub blocks: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostSeen {
    pub kernel: String,
    /// By name, as in /proc/meminfo; page counts (HugePages_Total, ...) as they are.
    pub meminfo: BTreeMap<String, u64>,
    /// Values by their path below /proc/sys, and others the kernel has: vm/overcommit_memory, vm/swappiness, ...
    pub settings: BTreeMap<String, String>,
    /// All processes on the host, with those of the server: the figures that the OOM killer compares.
    pub candidates: Vec<Candidate>,
    /// What the OOM killer wrote to the kernel's log, oldest first; only the last lines.
    #[serde(default)]
    pub kernel_log: Vec<KernelLine>,
    /// The huge pages of all processes that are not the server's, in bytes. `None`: not asked, or not all processes can be seen.
    #[serde(default)]
    pub huge_pages_of_others: Option<u64>,
}

/// A line of the kernel's log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelLine {
    /// Microseconds since 1970, UTC.
    pub at_unix_us: u64,
    pub text: String,
}

/// A process that the OOM killer may choose.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    pub pid: u32,
    pub command: String,
    pub rss: u64,
    pub swap: u64,
    pub page_tables: u64,
    pub oom_score: Option<i64>,
    pub oom_score_adj: i64,
    /// Its memory cgroup.
    pub cgroup: String,
}

/// The memory cgroup of the server's first process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CgroupSeen {
    pub path: String,
    /// 1 or 2.
    pub version: u8,
    pub current: Option<u64>,
    /// `None`: no limit.
    pub limit: Option<u64>,
    /// The most swap that it may use: memory.swap.max, or of version 1 memory.memsw.limit_in_bytes less the limit. `None`: no limit.
    #[serde(default)]
    pub swap_limit: Option<u64>,
    /// The swap that it uses: memory.swap.current, or of version 1 memory.memsw.usage_in_bytes less the usage. `None`: not read.
    #[serde(default)]
    pub swap_current: Option<u64>,
    /// As in memory.stat.
    pub stat: BTreeMap<String, u64>,
    /// memory.oom.group, of version 2.
    pub oom_group: Option<bool>,
    /// The cgroups with memory.oom.group = 1, from that of the server's first process upwards.
    #[serde(default)]
    pub oom_groups: Vec<String>,
    /// Processes in it that are not the server's.
    pub strangers: u32,
}

/// The page cache of the server's files: of those in its data directory and its tablespaces, and of others that its first process has open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FilesSeen {
    /// How many were looked at, each once.
    pub looked_at: u64,
    /// How many more are known. There was no time for them.
    pub left: u64,
    /// In bytes.
    pub cached: u64,
    /// The part of it that was changed and is not yet written, as far as the kernel tells it.
    pub dirty: u64,
}

/// One way of reading, and how long it held the server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// `status`, `smaps`, `smaps_rollup`, `pagemap`, `heap`, `contexts`, `sql`, `unanswered`.
    pub tier: String,
    /// How many times it was done.
    pub count: u32,
    /// The time for which the address space was locked, at most; the sum of all times. For `sql` the time until the server had answered, and for
    /// `unanswered` the time until the reader gave up; both hold no process.
    pub held_us: u64,
    /// The longest time.
    pub held_us_max: u64,
}

impl Probe {
    /// The tier of questions that the server answered.
    pub const SQL: &str = "sql";
    /// The tier of questions that the server did not answer.
    pub const UNANSWERED: &str = "unanswered";

    /// Whether it holds a process's address space.
    pub fn is_hold(&self) -> bool {
        ![Self::SQL, Self::UNANSWERED].contains(&self.tier.as_str())
    }
}

/// Something that could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    pub what: String,
    pub why: String,
    /// A statement or a command that would enable it; not run.
    pub remedy: Option<String>,
}

/// [`Self::what`] of a server that was not asked, or has not answered: without these even mappings are not told apart by their purpose.
impl Missing {
    /// It stopped answering.
    pub const OWN_ROWS: &'static str = "the server's own rows";
    /// Only its process is known.
    pub const ITS_WORD: &'static str = "what the server says of itself";
    pub const SETTINGS: &'static str = "the server's settings";
    /// How many connections each account may have.
    pub const ACCOUNT_LIMITS: &'static str = "the limits of accounts";
    /// Page cache is beside the sum.
    pub const FILES: &'static str = "page cache of the server's files";
    /// All was read, but meters count more than is resident.
    pub const HIDDEN: &'static str = "memory that nobody names";
    /// Which of them the OOM killer would compare, too.
    pub const OTHER_PROCESSES: &'static str = "other processes of the host";
}

fn is_nothing<T: Default + PartialEq>(field: &T) -> bool {
    *field == T::default()
}
