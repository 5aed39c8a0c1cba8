// SPDX-License-Identifier: Apache-2.0

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("make memory that a server's library shares")]
    Map { source: std::io::Error },
    #[error(
        "{}: no library in this folder can be put into a server: the loader splits LD_PRELOAD at ' ' and ':' (WRINGER_CACHE names another folder)",
        folder.display()
    )]
    Split { folder: PathBuf },
    #[error("write the library that asks a server's malloc")]
    Install { source: host::Error },
}
