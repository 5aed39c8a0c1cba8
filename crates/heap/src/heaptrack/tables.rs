// SPDX-License-Identifier: Apache-2.0
//! Strings, addresses, calls and allocations of a file of heaptrack.

use crate::budget::Budget;
use crate::frame::Frame;
use std::sync::Arc;

#[derive(Default)]
pub(super) struct Tables {
    sizes_only: bool,
    budget: Budget,
    strings: Vec<Box<str>>,
    /// The functions of all addresses, one after the other.
    frames: Vec<Arc<Frame>>,
    /// For each address, where its functions end in `frames`.
    ends: Vec<u32>,
    /// The address of a call, and the call that it came from.
    calls: Vec<(u32, u32)>,
    /// The bytes of an allocation, and the call that allocates them.
    allocations: Vec<(u64, u32)>,
    count_of_calls: usize,
}

/// An address, by places in the table of strings; 0: no string.
#[derive(Default)]
pub(super) struct Address {
    pub(super) module: u32,
    /// Function, file, line; the innermost first.
    pub(super) functions: Vec<(u32, u32, u64)>,
}

impl Tables {
    /// Tables that keep sizes, and neither names nor calls.
    pub(super) fn sizes_only() -> Self {
        Self { sizes_only: true, ..Self::default() }
    }

    pub(super) fn add_string(&mut self, text: &[u8]) -> Result<(), String> {
        if !self.sizes_only {
            let text = String::from_utf8_lossy(text);
            self.budget.take(text.len() + size_of::<Box<str>>())?;
            self.strings.push(text.into());
        }
        Ok(())
    }

    /// Adds an address. Its strings must have been read before it.
    pub(super) fn add_address(&mut self, address: &Address) -> Result<(), String> {
        if self.sizes_only {
            return Ok(());
        }
        for frame in self.frames_of(address) {
            let text = frame.function.len() + frame.place.as_ref().map_or(0, String::len);
            // two strings and the frame are allocated, each with what malloc needs beside it
            self.budget.take(size_of::<Frame>() + 2 * size_of::<usize>() + text + 3 * 16)?;
            self.frames.push(Arc::new(frame));
        }
        self.budget.take(size_of::<u32>())?;
        self.ends.push(u32::try_from(self.frames.len()).unwrap_or(u32::MAX));
        Ok(())
    }

    /// Adds a call. The call that it comes from must have been read before it, so that no path is endless.
    pub(super) fn add_call(&mut self, address: u32, caller: u32) -> Result<(), String> {
        if caller as usize > self.count_of_calls {
            return Err(format!("a call comes from call {caller:x}, which was not told before"));
        }
        self.count_of_calls += 1;
        if !self.sizes_only {
            self.budget.take(size_of::<(u32, u32)>())?;
            self.calls.push((address, caller));
        }
        Ok(())
    }

    pub(super) fn add_allocation(&mut self, bytes: u64, call: u32) -> Result<(), String> {
        // the allocation, and its entry among the counts
        self.budget.take(size_of::<(u64, u32)>() + size_of::<u64>())?;
        self.allocations.push((bytes, call));
        Ok(())
    }

    pub(super) fn has_allocation(&self, place: usize) -> bool {
        place < self.allocations.len()
    }

    pub(super) fn allocation(&self, place: usize) -> (u64, u32) {
        self.allocations.get(place).copied().unwrap_or_default()
    }

    pub(super) fn frames(&self) -> &[Arc<Frame>] {
        &self.frames
    }

    fn frames_of(&self, address: &Address) -> Vec<Frame> {
        let module = || self.string(address.module).map(|it| format!("in {it}"));
        if address.functions.is_empty() {
            return vec![Frame { function: "???".to_owned(), place: module() }];
        }
        let frame = |(function, file, line): &(u32, u32, u64)| Frame {
            function: self.string(*function).unwrap_or("???").to_owned(),
            place: self
                .string(*file)
                .map(|it| format!("{}:{line}", it.rsplit('/').next().unwrap_or(it)))
                .or_else(module),
        };
        address.functions.iter().map(frame).collect()
    }

    fn string(&self, place: u32) -> Option<&str> {
        self.strings.get((place as usize).checked_sub(1)?).map(|it| &**it).filter(|it| !it.is_empty())
    }

    /// From the call outwards; places in [`Self::frames`].
    pub(super) fn path(&self, call: u32) -> impl Iterator<Item = u32> {
        let of = |call: u32| self.calls.get((call as usize).checked_sub(1)?).copied();
        let calls = std::iter::successors(of(call), move |(_, caller)| of(*caller));
        calls.flat_map(|(address, _)| self.places_of(address))
    }

    fn places_of(&self, address: u32) -> std::ops::Range<u32> {
        let place = (address as usize).checked_sub(1);
        let ends = |place: usize| self.ends.get(place).copied();
        let end = place.and_then(ends).unwrap_or(0);
        let begin = place.and_then(|it| it.checked_sub(1)).and_then(ends).unwrap_or(0);
        begin..end
    }
}
