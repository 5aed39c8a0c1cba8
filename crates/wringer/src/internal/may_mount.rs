// SPDX-License-Identifier: Apache-2.0
//! `wringer internal may-mount`: tries to mount the slow layer in a new mount namespace, and prints the missing right, or `null`.

use crate::exit::Outcome;
use crate::terminal;

pub fn main() -> Outcome {
    terminal::data(serde_json::to_string(&slowfs::mount_rights::missing_right())?);
    Ok(())
}
