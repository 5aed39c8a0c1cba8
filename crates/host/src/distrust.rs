// SPDX-License-Identifier: Apache-2.0
use crate::user_names::{group, user};
use std::fmt;

/// Why a file or folder is not safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distrust {
    /// It belongs to this user, who is neither root nor the caller.
    Owner(u32),
    /// It belongs to a user whom this user namespace does not know.
    UnknownOwner,
    /// Everybody can write it.
    Everybody,
    /// The members of this group can write it.
    Group(u32),
}

impl fmt::Display for Distrust {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner(0) => formatter.write_str("belongs to root, and not to you"),
            Self::Owner(uid) => write!(formatter, "belongs to {}, and not to root or to you", user(*uid)),
            Self::UnknownOwner => formatter.write_str("belongs to a user whom this user namespace does not know"),
            Self::Everybody => formatter.write_str("can be written by everybody"),
            Self::Group(gid) => write!(formatter, "can be written by the group {}", group(*gid)),
        }
    }
}
