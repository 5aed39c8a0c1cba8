// SPDX-License-Identifier: Apache-2.0
//! The argument of perf_event_open(2): `struct perf_event_attr`, with the fields that a uprobe needs (include/uapi/linux/perf_event.h,
//! PERF_ATTR_SIZE_VER5).

use super::call::{control, owned};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::{AsRawFd as _, OwnedFd};

#[repr(C)]
#[derive(Debug, Default)]
struct Attribute {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint: u32,
    /// The address of the program's name.
    path: u64,
    offset: u64,
    branches: u64,
    registers: u64,
    stack: u32,
    clock: i32,
    registers_inside: u64,
    watermark: u32,
    depth: u16,
    reserved: u16,
}

const DISABLED: u64 = 1;
const USE_CLOCKID: u64 = 1 << 25;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
/// The event's number comes first in a record.
const SAMPLE_IDENTIFIER: u64 = 1 << 16;
const FLAG_CLOEXEC: libc::c_ulong = 1 << 3;
const ENABLE: libc::c_ulong = 0x2400;
const SET_OUTPUT: libc::c_ulong = 0x2405;
const ID: libc::c_ulong = 0x8008_2407;

/// Opens one probe on one CPU, for every process that runs the program there. The probe is not switched on yet.
pub(super) fn open(kind: u32, config: u64, program: &CStr, offset: u64, cpu: i32) -> Result<OwnedFd, Errno> {
    let attribute = Attribute {
        kind,
        size: u32::try_from(size_of::<Attribute>()).unwrap_or(0),
        config,
        sample_period: 1,
        sample_type: SAMPLE_IDENTIFIER | SAMPLE_TID | SAMPLE_TIME,
        flags: DISABLED | USE_CLOCKID,
        path: program.as_ptr().expose_provenance() as u64,
        offset,
        clock: libc::CLOCK_MONOTONIC,
        ..Attribute::default()
    };
    let (nobody, no_group): (libc::pid_t, libc::c_int) = (-1, -1);
    // SAFETY: the kernel reads `size` bytes of the attribute, and the name to which it points. Both live until the call returns, and the kernel keeps
    // neither
    owned(unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const attribute, nobody, cpu, no_group, FLAG_CLOEXEC)
    })
}

/// Sends the records of `event` to the ring of `other`.
pub(super) fn send_to(event: &OwnedFd, other: &OwnedFd) -> Result<(), Errno> {
    let descriptor = libc::c_ulong::try_from(other.as_raw_fd()).map_err(|_| Errno::BADF)?;
    control(event, SET_OUTPUT, descriptor)
}

pub(super) fn enable(event: &OwnedFd) -> Result<(), Errno> {
    control(event, ENABLE, 0)
}

/// The number by which the event's records name it.
pub(super) fn id(event: &OwnedFd) -> Result<u64, Errno> {
    let mut id = 0_u64;
    let address = (&raw mut id).expose_provenance();
    control(event, ID, libc::c_ulong::try_from(address).map_err(|_| Errno::FAULT)?)?;
    Ok(id)
}
