// SPDX-License-Identifier: Apache-2.0
//! The order that a child in one of our roles gets, and its answer: one type each, written as JSON. The child's only argument is the role.
//!
//! The order is a file in memory, given as standard input. A launcher gets it on another descriptor, because its standard input belongs to its
//! command. So the arguments, which everybody may read, show nothing of the order, and an order may be longer than an argument (execve(2)).

use super::{READY_VARIABLE, inherited_descriptor};
use crate::Error;
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};

/// The order for a child in one role.
pub trait Order: Serialize + DeserializeOwned {
    /// The role, as in `wringer internal ROLE`.
    const ROLE: &'static str;
    /// The child's report when it is ready.
    type Ready: Serialize + DeserializeOwned;
}

/// The number of the descriptor from which a launcher reads its order.
pub(super) const ORDER_VARIABLE: &str = "WRINGER_ORDER_FD";

#[derive(Serialize, Deserialize)]
struct Written<R, O> {
    role: R,
    order: O,
}

/// The one line that a child answers.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer<R> {
    Ready(R),
    /// Why the child will never be ready.
    Error(String),
}

/// # Errors
/// A path in the order is not UTF-8.
pub(super) fn written<O: Order>(order: &O) -> Result<String, Error> {
    let written = Written { role: O::ROLE, order };
    serde_json::to_string(&written).map_err(|error| Error::call(format!("write the order of {}", O::ROLE), error))
}

/// Makes a file in memory that is read from its beginning.
pub(super) fn in_memory(text: &str) -> Result<OwnedFd, Error> {
    let make = || -> io::Result<File> {
        let mut file = File::from(memfd_create("wringer-order", MemfdFlags::CLOEXEC)?);
        file.write_all(text.as_bytes())?;
        file.rewind()?;
        Ok(file)
    };
    make().map(OwnedFd::from).map_err(|error| Error::call("make a file in memory", error))
}

/// For a child: its order. Processes that the child starts do not get it.
///
/// # Errors
/// There is no order, or it is for another role.
pub fn order<O: Order>() -> Result<O, Error> {
    let failed = |error: io::Error| Error::call(format!("read the order of {}", O::ROLE), error);
    let mut text = String::new();
    match inherited_descriptor(ORDER_VARIABLE) {
        Some(descriptor) => File::from(descriptor).read_to_string(&mut text).map_err(failed)?,
        None => {
            let length = io::stdin().read_to_string(&mut text).map_err(failed)?;
            forget_input().map_err(failed)?;
            length
        }
    };
    let written: Written<String, O> = serde_json::from_str(&text).map_err(|error| failed(error.into()))?;
    if written.role != O::ROLE {
        return Err(failed(io::Error::other(format!("it is for {}", written.role))));
    }
    Ok(written.order)
}

fn forget_input() -> io::Result<()> {
    let null = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(rustix::stdio::dup2_stdin(null)?)
}

/// For a child: reports that it is ready, and closes the descriptor. Nothing happens when nobody waits for the report.
pub fn report_ready<O: Order>(ready: &O::Ready) {
    write_line(inherited_descriptor(READY_VARIABLE).as_ref(), &Answer::Ready(ready));
}

/// For a child: reports why it will never be ready.
pub fn report_not_ready(why: &str) {
    write_line(inherited_descriptor(READY_VARIABLE).as_ref(), &Answer::<()>::Error(why.to_owned()));
}

pub(super) fn write_line(to: Option<&OwnedFd>, line: &impl Serialize) {
    if let (Some(descriptor), Ok(line)) = (to, serde_json::to_string(line)) {
        let _ = rustix::io::write(descriptor, format!("{line}\n").as_bytes());
    }
}
