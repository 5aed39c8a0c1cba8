// SPDX-License-Identifier: Apache-2.0

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("make memory that a server's library shares")]
    Map { source: std::io::Error },
    #[error("write the library that asks a server's malloc")]
    Install { source: host::Error },
}
