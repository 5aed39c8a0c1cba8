// SPDX-License-Identifier: Apache-2.0
//! All tests of the guest are one program: so they take turns with each other, and both processors are at work until the last one ends.

mod boots;
mod power_cut;
mod server_power_cut;
