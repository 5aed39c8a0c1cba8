// SPDX-License-Identifier: Apache-2.0
//! The account that every sandbox has, with all rights, and the database in it.

pub(crate) const USER: &str = "wringer";
pub(crate) const DATABASE: &str = "sbtest";
