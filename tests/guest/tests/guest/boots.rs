// SPDX-License-Identifier: Apache-2.0
//! Every case of the guest is a test of its own.

use guest::{Boot, case};
use std::time::Duration;

/// `boot NAME, RAM in MiB, seconds, words for the kernel: cases`: a static [`Boot`], and a test for each case.
macro_rules! boot {
    ($boot:ident, $memory_mib:literal, $seconds:literal $(, $words:literal)?: $($case:ident),+ $(,)?) => {
        mod $boot {
            use super::*;

            static BOOT: Boot = Boot::new(
                stringify!($boot),
                &[$(stringify!($case)),+],
                $memory_mib,
                Duration::from_secs($seconds),
                concat!($($words)?),
            );

            $(#[test]
            fn $case() {
                case(&BOOT, stringify!($case));
            })+
        }
    };
}

boot!(
    memory, 2048, 1800: doctor, ram_hide, ram_hidden_is_missed, ram_killed, ram_mechanisms, ram_over_squeezed, ram_refused,
    ram_swap
);
boot!(cgroup, 1024, 1200: server_ram, server_ram_killed, server_ram_shared, server_ram_too_small);
boot!(command, 1024, 1100: squeeze, squeeze_delegated, yama);
// CPU quotas come and go a hundred times: each time the kernel patches its scheduler, which the emulator survives with one processor
boot!(command_killed, 1024, 1000, "maxcpus=1": squeeze_killed);
boot!(image, 1024, 900: disk_image);
boot!(disk, 1536, 2000: disk_delay, disk_killed, dm_delay, dm_refused, dm_killed, disk_fails);
boot!(clock, 1536, 950: clock_jumps);
boot!(servers, 2048, 2100, "servers=yes": server_oom, server_disk_killed);
boot!(server_memory, 2048, 1800, "servers=yes nodes=2": huge_pages_nodes, huge_pages_sigbus, oom_victims);
