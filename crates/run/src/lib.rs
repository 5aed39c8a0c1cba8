// SPDX-License-Identifier: Apache-2.0
//! A run: the owner of changes of the host, and how these changes are undone.
//!
//! [`Run::begin`] takes the locks, makes the run's folder with its journal, and starts the watchdog. Every change is a [`Run::step`], every child a
//! [`Run::spawn`]. [`Run::release`] first neutralises (sets delays to zero and gives RAM back, at once) and then dismantles, newest step first. When
//! the controller dies, its watchdog does the same; when the watchdog dies too, [`undo`] does it, by the journal and the run's token. A server that
//! should outlive its command is left with [`Run::leave`].
//!
//! This crate knows no squeeze and no server, only processes, values, cgroups and mounts.
//!
//! Invariants: one owner lock per run, held by the controller or by the process that undoes the run. A run is *hot* when it has not ended and nobody
//! holds that lock; a hot run blocks new ones. Undo may be repeated any number of times, by anybody.

mod alive;
mod begin;
mod boot;
pub mod controllers;
mod dismantle;
mod error;
mod executor;
mod find;
mod folder;
mod layers;
mod live_step;
mod locks;
mod ram_steps;
mod reading;
mod release;
pub mod supervise;
mod take_over;
mod trace;
mod undo;
mod undo_report;
pub mod watchdog;

pub use alive::takes_unseen_for_dead;
pub use begin::{Begin, Child, ProcessEnd, Run};
pub use dismantle::{Conflict, Executor, Report, dismantle, neutralise};
pub use error::Error;
pub use find::{FoundRun, Look, find_runs, refuse_hot};
pub use host::interrupt;
pub use host::places::Places;
pub use host::process::ChildSpec;
pub use journal::{
    CgroupVersion, Computed, Kind, Members, OomVictim, Outcome, Phase, Reading, Role, RunId, Step, StepId, StepState,
};
pub use live_step::change_live_step;
pub use locks::{Held, Measuring, Resource, hold, holder, measured_by, measuring, require_free};
pub use reading::Unsure;
pub use release::Released;
pub use trace::{Condition, Lost, Thing, Trace, find_lost, find_settled, refuse_lost};
pub use undo::{Scope, reason_to_leave, settle, undo};
pub use undo_report::UndoReport;
