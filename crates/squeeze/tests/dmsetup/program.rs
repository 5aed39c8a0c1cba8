// SPDX-License-Identifier: Apache-2.0
//! For the test guest, which has no `dmsetup`: what another tool does with device-mapper. Shares no code with the program under test
//! (linux/dm-ioctl.h).
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::disallowed_methods)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

const HEADER: usize = 312;
const SUSPEND: u32 = 1 << 1;
const STATUS_TABLE: u32 = 1 << 4;
const INACTIVE_PRESENT: u32 = 1 << 6;

#[repr(C, align(8))]
struct Call([u8; 16384]);

impl Call {
    fn new(name: &str, flags: u32) -> Box<Self> {
        let mut call = Box::new(Self([0; 16384]));
        for (at, value) in [(0, 4), (12, 16384), (16, 312), (28, flags)] {
            call.put(at, value);
        }
        call.0[48..48 + name.len()].copy_from_slice(name.as_bytes());
        call
    }

    fn put(&mut self, at: usize, value: u32) {
        self.0[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }

    fn number(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.0[at..at + 4].try_into().unwrap())
    }

    fn text(&self, at: usize) -> String {
        let end = self.0[at..].iter().position(|byte| *byte == 0).unwrap();
        String::from_utf8_lossy(&self.0[at..at + end]).into_owned()
    }

    /// Read and write, 312 bytes of type 0xfd.
    fn send(mut self: Box<Self>, command: u8) -> io::Result<Box<Self>> {
        let control = File::options().read(true).write(true).open("/dev/mapper/control")?;
        let number = 0xc138_fd00_u32 | u32::from(command);
        // SAFETY: the buffer has the size that its header names.
        let result = unsafe { libc::ioctl(control.as_raw_fd(), number as libc::Ioctl, self.0.as_mut_ptr()) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(self) }
    }
}

fn load(name: &str, sectors: &str, kind: &str, parameters: &str) -> io::Result<()> {
    let mut call = Call::new(name, 0);
    call.put(20, 1);
    call.0[HEADER + 8..HEADER + 16].copy_from_slice(&sectors.parse::<u64>().unwrap().to_ne_bytes());
    call.0[HEADER + 24..HEADER + 24 + kind.len()].copy_from_slice(kind.as_bytes());
    call.0[HEADER + 40..HEADER + 40 + parameters.len()].copy_from_slice(parameters.as_bytes());
    call.send(9).map(drop)
}

fn info(name: &str) -> io::Result<()> {
    let flags = Call::new(name, 0).send(7)?.number(28);
    let table = Call::new(name, STATUS_TABLE).send(12)?;
    let line = if table.number(20) == 0 {
        "none".to_owned()
    } else {
        format!("{} {}", table.text(HEADER + 24), table.text(HEADER + 40))
    };
    println!("suspended {}", u8::from(flags & SUSPEND != 0));
    println!("loaded {}", u8::from(flags & INACTIVE_PRESENT != 0));
    println!("table {line}");
    Ok(())
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["create", name] => Call::new(name, 0).send(3).map(drop),
        ["load", name, sectors, kind, ref parameters @ ..] => load(name, sectors, kind, &parameters.join(" ")),
        ["suspend", name] => Call::new(name, SUSPEND).send(6).map(drop),
        ["resume", name] => Call::new(name, 0).send(6).map(drop),
        ["remove", name] => Call::new(name, 0).send(4).map(drop),
        ["info", name] => info(name),
        _ => panic!("usage: create|suspend|resume|remove|info NAME; load NAME SECTORS KIND PARAMETERS"),
    }
}
