// SPDX-License-Identifier: Apache-2.0
pub mod modes;

mod explained;

pub use explained::{Explained, ExplainedArm, explain};
