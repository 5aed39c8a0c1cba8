// SPDX-License-Identifier: Apache-2.0
//! What lets this user read the files of another process below `/proc`: ptrace(2), "Ptrace access mode checking".

const CAPABILITY: &str =
    "the capability CAP_SYS_PTRACE, which root in a container often lacks (docker run --cap-add=SYS_PTRACE)";

/// For mappings, and what is resident in them (PTRACE_MODE_READ).
pub(crate) fn for_mappings() -> &'static str {
    if is_root() { CAPABILITY } else { "run as root or as the server's user" }
}

/// For memory itself, and for the system call in which a thread waits: Yama, where the kernel has it, restricts both (PTRACE_MODE_ATTACH).
pub(crate) fn for_attaching() -> &'static str {
    if is_root() { CAPABILITY } else { "root, or the server's own user where kernel.yama.ptrace_scope is 0" }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_not_told_to_become_root() {
        for remedy in [for_mappings(), for_attaching()] {
            assert_eq!(remedy.contains("CAP_SYS_PTRACE"), is_root(), "{remedy}");
        }
    }
}
