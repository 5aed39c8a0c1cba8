// SPDX-License-Identifier: Apache-2.0
//! The machine for which a program was built: elf(5).

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// The name of the program's machine, when it is not that of this process.
pub(crate) fn foreign_machine(program: &Path) -> Option<String> {
    let (there, here) = (machine(program)?, machine(Path::new("/proc/self/exe"))?);
    (there != here).then(|| name(there))
}

/// `e_machine`; none for a file that is no ELF file, such as a script.
fn machine(program: &Path) -> Option<u16> {
    let mut head = [0_u8; 20];
    File::open(program).ok()?.read_exact(&mut head).ok()?;
    // EI_DATA: 1 is little-endian, 2 big-endian
    match head {
        [0x7f, b'E', b'L', b'F', _, 1, .., low, high] => Some(u16::from_le_bytes([low, high])),
        [0x7f, b'E', b'L', b'F', _, 2, .., high, low] => Some(u16::from_be_bytes([high, low])),
        _ => None,
    }
}

fn name(machine: u16) -> String {
    match machine {
        3 => "x86 of 32 bit".into(),
        21 => "powerpc64".into(),
        22 => "s390x".into(),
        40 => "arm of 32 bit".into(),
        62 => "x86_64".into(),
        183 => "aarch64".into(),
        243 => "riscv64".into(),
        other => format!("another machine (ELF machine {other})"),
    }
}
