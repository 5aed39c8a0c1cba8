// SPDX-License-Identifier: Apache-2.0
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("make memory that a server's library shares")]
    Map { source: std::io::Error },
    #[error("write the library {}", path.display())]
    Install { path: PathBuf, source: host::Error },
}
