// SPDX-License-Identifier: Apache-2.0
//! What a request does. The preload layer compiles this file, too, and without any dependency.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Read,
    Write,
    Sync,
}
