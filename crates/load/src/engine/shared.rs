// SPDX-License-Identifier: Apache-2.0
//! The state that all workers of a load share.

use super::LoadSpec;
use super::schedule::Schedule;
use super::timeline::Pages;
use super::waker::Waker;
use crate::Target;
use crate::protocol::Template;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use workload::Kind;

pub(super) struct Shared<'a> {
    pub(super) spec: &'a LoadSpec,
    pub(super) target: &'a Target,
    /// The zero of all nanoseconds in here.
    pub(super) origin: Instant,
    /// Classes of statements, each once.
    pub(super) classes: Vec<String>,
    pub(super) statements: Vec<Plan>,
    pub(super) stop: Arc<AtomicBool>,
    /// The load has failed: workers neither drain nor reconnect.
    pub(super) abort: AtomicBool,
    /// The error of the last attempt to make a broken connection again.
    pub(super) refusal: Mutex<Option<crate::Error>>,
    pub(super) alive: AtomicUsize,
    pub(super) wakers: Vec<Waker>,
}

pub(super) struct Plan {
    pub(super) class: usize,
    pub(super) kind: Kind,
    pub(super) template: Template,
}

impl<'a> Shared<'a> {
    pub(super) fn new(
        spec: &'a LoadSpec,
        target: &'a Target,
        stop: Arc<AtomicBool>,
        workers: usize,
    ) -> io::Result<Self> {
        let mut classes: Vec<String> = Vec::new();
        let statements = spec.workload.statements().iter().map(|statement| {
            let class = classes.iter().position(|class| *class == statement.class).unwrap_or_else(|| {
                classes.push(statement.class.clone());
                classes.len() - 1
            });
            Plan { class, kind: statement.kind, template: Template::new(&statement.sql, target.protocol) }
        });
        let statements = statements.collect();
        let wakers = (0..workers).map(|_| Waker::new()).collect::<io::Result<_>>()?;
        Ok(Self {
            spec,
            target,
            origin: Instant::now(),
            classes,
            statements,
            stop,
            abort: AtomicBool::new(false),
            refusal: Mutex::default(),
            alive: AtomicUsize::new(0),
            wakers,
        })
    }

    #[inline]
    pub(super) fn now_ns(&self) -> u64 {
        #[cfg(test)]
        if let Some(clock) = &self.spec.scripted_clock {
            return clock.load(Ordering::SeqCst);
        }
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    #[inline]
    pub(super) fn should_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.abort.load(Ordering::Relaxed)
    }
}

/// One phase, the same for all workers.
pub(super) struct PhasePlan {
    pub(super) start_ns: u64,
    /// `u64::MAX`: only the number of events ends it.
    pub(super) end_ns: u64,
    /// `None`: closed loop.
    pub(super) schedule: Option<Schedule>,
    events: Option<AtomicI64>,
    pub(super) backlog_max: AtomicU64,
    /// Of each worker.
    pub(super) pages: Vec<Mutex<Pages>>,
    /// Statements that last this long or longer are kept one by one.
    pub(super) slow: Option<Duration>,
}

impl PhasePlan {
    pub(super) fn new(
        start_ns: u64,
        end_ns: u64,
        schedule: Option<Schedule>,
        events: Option<u64>,
        workers: usize,
    ) -> Self {
        let events = events.map(|events| AtomicI64::new(i64::try_from(events).unwrap_or(i64::MAX)));
        let pages = (0..workers).map(|_| Mutex::default()).collect();
        Self { start_ns, end_ns, schedule, events, backlog_max: AtomicU64::new(0), pages, slow: None }
    }

    /// Takes one of the remaining events; false when there is none.
    #[inline]
    pub(super) fn take_event(&self) -> bool {
        self.events.as_ref().is_none_or(|events| events.fetch_sub(1, Ordering::Relaxed) > 0)
    }

    pub(super) fn has_no_event_left(&self) -> bool {
        self.events.as_ref().is_some_and(|events| events.load(Ordering::Relaxed) <= 0)
    }
}
