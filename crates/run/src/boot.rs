// SPDX-License-Identifier: Apache-2.0
//! The effect of a reboot on a run: most of its changes are gone.

use journal::{Content, Step};

/// A journal without a boot id counts as one of this boot.
pub(crate) fn is_of_another_boot(content: &Content) -> bool {
    let now = journal::boot_id().ok();
    content.boot_id.as_ref().zip(now).is_some_and(|(then, now)| *then != now)
}

/// Kernel values, cgroups, mounts and processes end with the boot; a value in an ordinary file does not.
pub(crate) fn survives_boot(change: &Step) -> bool {
    matches!(change, Step::Value { path, .. } if !path.starts_with("/proc") && !path.starts_with("/sys"))
}
