// SPDX-License-Identifier: Apache-2.0
//! Whether the slow layer can be mounted here. A child of this program tries it.

use super::check::{Check, State};
use host::chain;
use slowfs::mount_rights::{MissingRight, MountRight};

const ID: &str = "namespaces";

/// Whether the layer can be mounted in a new mount namespace, as a server or a command needs it. Another check reports problems of `/dev/fuse`.
pub fn private() -> Check {
    judge(tried())
}

/// Whether the layer can be mounted in the host's own mount namespace, which needs only the right to mount. `None`: nothing known forbids it.
pub fn forbidden() -> Option<Check> {
    tried().filter(|lacking| lacking.right == MountRight::Mount).map(|lacking| judge(Some(lacking)))
}

fn judge(lacking: Option<MissingRight>) -> Check {
    let missing =
        |found: String, remedy: &str| Check { id: ID, state: State::Missing, found, remedy: Some(remedy.to_owned()) };
    let good = |found: &str| Check { id: ID, state: State::Good, found: found.to_owned(), remedy: None };
    match lacking {
        Some(MissingRight { right: MountRight::Mount, why }) => missing(
            format!("a FUSE file system may not be mounted here ({why})"),
            "a seccomp filter or a security module forbids it, or CAP_SYS_ADMIN is missing; in a container: --cap-add SYS_ADMIN, and \
             --security-opt apparmor=unconfined where AppArmor is",
        ),
        Some(MissingRight { right: MountRight::Namespace, why }) => missing(
            format!("a mount namespace may not be made here ({why})"),
            "a seccomp filter or a security module forbids it, or CAP_SYS_ADMIN is missing; in a container: --cap-add SYS_ADMIN",
        ),
        Some(MissingRight { right: MountRight::Device, .. }) => good("mount namespaces can be made"),
        None => good("mount namespaces can be made, and the slow layer be mounted there"),
    }
}

fn tried() -> Option<MissingRight> {
    let lacking = |why: String| Some(MissingRight { right: MountRight::Mount, why });
    let program = host::process::own_program();
    // the child mounts only in a namespace that ends with the child
    match host::tool::command(program).args(["internal", "may-mount"]).output() {
        Err(error) => lacking(format!("it cannot be tried: {}", chain(&error))),
        Ok(output) => serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| lacking(format!("who tried it ended with {}", output.status))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lacking_is_named_with_the_kernels_reason() {
        let of = |right| judge(Some(MissingRight { right, why: "mount: Operation not permitted".into() }));
        for right in [MountRight::Mount, MountRight::Namespace] {
            let check = of(right);
            assert_eq!(check.state, State::Missing);
            assert!(check.found.contains("Operation not permitted") && check.remedy.is_some(), "{check:?}");
        }
        assert_eq!(of(MountRight::Device).state, State::Good, "told by the check of /dev/fuse");
        assert_eq!(judge(None).state, State::Good);
    }
}
