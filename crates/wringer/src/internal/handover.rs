// SPDX-License-Identifier: Apache-2.0
//! Passes an order from a command to its supervisor, through a file in memory: an argument on a command line has at most 128 KiB
//! (execve(2)), and the histograms of a disk may be longer.

use crate::exit::{Exit, Failure};
use run::supervise;
use rustix::fs::{MemfdFlags, memfd_create};
use serde::Serialize;
use serde_json::Value;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

/// Starts a supervisor with this order, and waits for its report.
///
/// # Errors
/// As [`supervise::start`]; or there is no memory for the order.
pub fn start(places: &host::places::Places, order: &impl Serialize, takes: Duration) -> Result<Value, run::Error> {
    let failed = |error: std::io::Error| host::Error::call("hand the order over to the supervisor", error);
    let order = written(order).map_err(failed)?;
    let args: [OsString; 2] = ["--order-fd".into(), order.as_raw_fd().to_string().into()];
    supervise::start(places, &args, vec![Arc::new(order.into())], takes)
}

fn written(order: &impl Serialize) -> std::io::Result<File> {
    let mut file = File::from(memfd_create("wringer-order", MemfdFlags::CLOEXEC)?);
    file.write_all(serde_json::to_string(order)?.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

/// Reads the order from an inherited descriptor, and closes it: programs that the supervisor starts do not inherit it.
///
/// # Errors
/// The number is no descriptor, or its content is no text.
pub fn received(number: RawFd) -> Result<String, Failure> {
    // SAFETY: asks only whether the number is open.
    if number <= 2 || unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(Failure::message(Exit::Usage, "--order-fd names no descriptor"));
    }
    // SAFETY: open, as we have just seen, and inherited for this one use.
    let mut file = File::from(unsafe { OwnedFd::from_raw_fd(number) });
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|error| Failure::new(Exit::Usage, error))?;
    Ok(text)
}
