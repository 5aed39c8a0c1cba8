// SPDX-License-Identifier: Apache-2.0
//! The walk of a run: one cell in, one recording out.
//!
//! In: a [`Cell`], which is a server, its data, what is observed, and a list of [`Phase`]s, each with its squeeze and its load. Out: a
//! recording, and an [`Ended`], whose [`Outcome`] is a value: the caller decides what it means for an exit code or for the next cell.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`Cell`], [`Phase`] | what a walk does; an experiment file is translated into one cell |
//! | `walk` | sandbox, fill, then phase after phase; gives the host back, whatever happened |
//! | `phase` | one squeeze and one load, with the witnesses at both ends of what is measured |
//! | `beside` | clients with accounts of their own, beside the load |
//! | `kept_fill`, `kept_entry` | takes data from the cache instead of a fill, and keeps them after a fill; also for a sandbox without a run |
//! | `kept_fill_files` | the files that shape what a program of the user does: for kept data, and for the ids of a matrix's settings |
//! | `live` | variables that are set while the server runs, and the pause before a load |
//! | `probed`, `idle` | reads of a data file before the load, and a rest of the server after it |
//! | `statement` | a statement of the user's that may take any time |
//! | `moments` | statements beside the load at moments of it |
//! | `drivers` | other programs as the load: sysbench, pgbench, any command; and a program that fills |
//! | `replays` | a server's log as the load |
//! | `oom` | whether the kernel has killed for want of RAM: the server's cgroup says it, else the host |
//! | `server_start`, `huge_room`, `host_thp` | settings of the server's start (huge pages, malloc, pgBouncer), and whether they are in force |
//! | `footprint` | the server's memory at marks of an arm, and the bytes that it has asked its malloc for |
//! | `process_counts` | CPU time and page faults of the server while an arm is measured |
//! | `processes_at_end` | the memory of the server's processes when an arm's load has ended |
//! | `squeezes` | the squeezes that are in force, and changing them from phase to phase |
//! | `spans_and_snapshots` | spans and snapshots of the walk itself: how long its parts took, what the server said at the end of an arm |
//! | [`Hooks`] | the caller's part: progress, a second sink of samples, the request to stop |
//! | [`Error`], [`meaning`] | what went wrong, and what it means for the host |
//!
//! What it is not: it knows neither terminal nor command line, prints nothing, and asks the user nothing. The caller has asked for consent
//! and has looked for programs and files before.
//!
//! Invariants: storage and limits are never changed under a live server. Whatever ends a walk, the host is given back and the recording
//! is closed. A phase whose squeeze did not take effect is not measured, and the other phases are. The same holds for a phase whose
//! server does not start, or is killed by the kernel for want of RAM.

mod beside;
mod cell;
mod conditions;
mod drivers;
mod error;
mod footprint;
mod hooks;
mod host_thp;
mod huge_room;
mod idle;
mod judged;
mod kept_entry;
mod kept_fill;
mod kept_fill_files;
mod lab;
mod layer_reader;
mod live;
mod load_cpus;
mod loads_beside;
mod meaning;
mod moments;
mod notes;
mod oom;
mod outcome;
mod own_data;
mod phase;
mod probed;
mod process_counts;
mod processes_at_end;
mod replays;
mod room;
mod server;
mod server_start;
mod spans_and_snapshots;
mod squeeze_requests;
mod squeezes;
mod statement;
mod translate;
mod walk;
mod watch_stalls;
mod witnesses;
mod workload_from_file;

pub mod problems;

pub use cell::{Cell, Found, KeptFills, Log, Logs, Phase, Program, server_options, server_request};
pub use error::{Error, meaning};
pub use hooks::{Bar, Hooks, Progress, SecondSink, Silent};
pub use kept_entry::{clear_recordings, kept_entry};
pub use kept_fill_files::{files_named, files_that_fill};
pub use meaning::{Kind, not_kept};
pub use notes::Notes;
pub use outcome::{Ended, Missed, Outcome};
pub use own_data::{database, rows};
pub use room::refuse_connections;
pub use server_start::{check_without_server, wrapping_at_hand};
pub use squeeze_requests::{refuse_limits, refuse_ram};
pub use translate::{fill_spec, load_spec};
pub use walk::{Begun, begin};
pub use workload_from_file::{WorkloadFromFile, Workloads};
