// SPDX-License-Identifier: Apache-2.0
//! Answers a read of a file in a directory, or of an image.

use crate::buffer::Pool;
use crate::clock::now;
use crate::engine::Engine;
use crate::rule::Place;
use diskmodel::Class;
use fuser::{Errno, ReplyData};
use rustix::io::Result;
use std::sync::Arc;

pub(crate) fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}

/// `fill` reads the file into a buffer of `length` bytes. `filled` is called after that; then the reply leaves when it is due.
pub(crate) fn read(
    engine: &Engine,
    buffers: &Arc<Pool>,
    (place, length): (Place, u32),
    fill: impl FnOnce(&mut [u8]) -> Result<usize>,
    filled: impl FnOnce(),
    reply: ReplyData,
) {
    let work = engine.arrive(Class::Read, place);
    let length = length as usize;
    let mut buffer = buffers.take(length);
    match fill(buffer.bytes_mut(length)) {
        Ok(count) => {
            let finished = now();
            filled();
            let buffers = buffers.clone();
            engine.answer_since(finished, work, move || {
                reply.data(buffer.bytes(count));
                buffers.give_back(buffer);
            });
        }
        Err(error) => {
            buffers.give_back(buffer);
            engine.counters.failed();
            reply.error(errno(error));
        }
    }
}
