// SPDX-License-Identifier: Apache-2.0
//! `--algorithm`, as all commands of `wringer stalls` take it.

use clap::ValueEnum;

/// A value of `innodb_empty_free_list_algorithm`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Named {
    Backoff,
    Legacy,
}

impl From<Named> for capability::Algorithm {
    fn from(named: Named) -> Self {
        match named {
            Named::Backoff => Self::Backoff,
            Named::Legacy => Self::Legacy,
        }
    }
}
