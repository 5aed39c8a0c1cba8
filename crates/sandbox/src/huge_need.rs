// SPDX-License-Identifier: Apache-2.0
//! The number of huge pages that a server needs: its program is asked before the start if it can tell; otherwise the number is read from a server
//! that runs without them.

use crate::{Error, Sandbox, ServerOption, client};
use capability::{Capability, words};
use units::MapsLine;

/// The kernel's name for memory that is shared by processes and has no file (shmem_zero_setup, mm/shmem.c).
const SHARED: &str = "/dev/zero (deleted)";

impl Sandbox {
    /// How many pages of the host's default size the stopped server would need with these options, as its own program tells. `None`: this server or
    /// this version does not tell.
    ///
    /// # Errors
    /// The program cannot be run, or refuses the options.
    pub fn huge_pages_needed(&self, options: &[ServerOption]) -> Result<Option<u64>, Error> {
        let installation = &self.manifest.installation;
        let known = words(Capability::HugePagesNeeded, installation.flavour, &installation.version);
        let Some(variable) = known.first() else { return Ok(None) };
        let mut command = self.program(&["-C", variable]);
        for option in installation.start_options(options) {
            command.args(option.to_arguments(installation.flavour)?);
        }
        let said = client::output(command, "saying how many huge pages it needs")?;
        Ok(said.trim().parse().ok())
    }
}

/// The memory that a server without huge pages has made for all of its processes: this memory would be in huge pages. 0: none is seen.
pub fn shared_memory_bytes(pid: u32) -> u64 {
    in_maps(&std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default())
}

fn in_maps(maps: &str) -> u64 {
    maps.lines().filter_map(MapsLine::parse).filter(|line| line.name == SHARED).map(|line| line.bytes()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_without_a_file_is_summed() {
        let maps = "7f0000000000-7f0000800000 rw-s 00000000 00:01 7                          /dev/zero (deleted)\n\
                    7f0000900000-7f0000901000 rw-s 00000000 00:01 8                          /SYSV00001234 (deleted)\n\
                    7f0000a00000-7f0000a01000 rw-p 00000000 00:00 0 \n";
        assert_eq!(in_maps(maps), 8 << 20);
        assert_eq!(in_maps(""), 0);
    }
}
