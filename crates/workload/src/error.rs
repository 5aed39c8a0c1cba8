// SPDX-License-Identifier: Apache-2.0
/// Why a workload was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("'{name}' is not a workload: use one of {known}")]
    Unknown { name: String, known: String },
    #[error("{option} is {value}: it must be from {least} to {most}")]
    OutOfRange { option: String, value: u64, least: u64, most: u64 },
    #[error("{name} would send no statement: all its counts are 0")]
    Empty { name: &'static str },
}
