// SPDX-License-Identifier: Apache-2.0
//! The result of a run, for people and for machines: one context of plain data, written as HTML, JSON, text, Markdown or JUnit XML.
//!
//! In: an [`evidence::Evidence`], and the result of `explain`. Out: [`write_html`], [`json`], [`text`], [`findings_text`], [`together_text`],
//! [`markdown`], [`junit`]; for several runs that measure articles again, [`articles`].
//!
//! For heap profiles: a [`HeapPage`], written by [`write_heap_html`]. For a comparison of mallocs: an [`AllocatorsPage`], written by
//! [`write_allocators_html`].
//!
//! Not here: measuring, explaining, choosing the place of a file. No finding is computed here; only the presentation is computed: percentiles of a
//! histogram, rates of a counter, bars.
//!
//! Invariants:
//! - Pure: no I/O of its own, no clock, no randomness. The same recording gives the same bytes.
//! - The HTML file needs no other file: no script, style, font or picture from elsewhere, and a policy in its head that forbids them. The charts are
//!   SVG, drawn by the script in `assets`; no chart library is used, because a build has cargo and nothing else.
//! - Everything that comes from the recording is escaped where it is written: as text in HTML, and as JSON that cannot end a script.
//! - Secrets stay out: [`Context`] masks every text that looks like one, whatever the output.
//! - Series and histograms are thinned for the HTML file alone; JSON carries the whole histograms, the recording all samples.

mod allocators_page;
mod articles;
mod bins;
mod context;
mod heap_page;
mod html;
mod json;
mod junit;
mod markdown;
mod memory;
mod pretty;
mod redact;
mod series;
mod show;
mod sweep;
pub(crate) mod text;
mod verdict;
mod width;

pub use allocators_page::{AllocatorsPage, write_allocators_html};
pub use articles::{Reproduction, articles};
pub use context::{ArmView, Context};
pub use heap_page::{HeapPage, HeapProfile, HeapTimes, heap_without_growth};
pub use html::{write_heap_html, write_html};
pub use json::{SCHEMA, json};
pub use junit::junit;
pub use markdown::markdown;
pub use pretty::{pretty, write_pretty};
pub use series::needs;
pub use show::ratio;
pub use sweep::{SweepCell, SweepFigure, SweepSetting, SweepVerdict, SweepView, write_sweep_html};
pub use text::{findings_text, text, together_text};
