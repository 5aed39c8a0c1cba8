// SPDX-License-Identifier: Apache-2.0
use crate::entries::Basis;

/// What a source says of a leaf. In bytes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Claim {
    pub(crate) path: String,
    pub(crate) resident: u64,
    pub(crate) allocated: Option<u64>,
    pub(crate) basis: Basis,
    pub(crate) source: String,
    pub(crate) at_us: u64,
}
