// SPDX-License-Identifier: Apache-2.0
use crate::server::Server;
use capability::Algorithm;

/// What the caller asks of a log.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// The shortest stall that is looked for.
    pub least_us: u64,
    /// The server that wrote the log. `None`: each entry is of the server that the head before it names.
    pub server: Option<Server>,
    /// `innodb_empty_free_list_algorithm`, where the caller knows it.
    pub algorithm: Option<Algorithm>,
    /// By how much `Innodb_buffer_pool_wait_free` rose while the log was written.
    pub wait_free: Option<u64>,
    /// Whether statements are also given with their values.
    pub with_values: bool,
}
