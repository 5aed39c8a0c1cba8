// SPDX-License-Identifier: Apache-2.0
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("open the directory {}", path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error("open {}", path.display())]
    Image { path: PathBuf, source: io::Error },
    #[error("serve the slow disk: {why}")]
    Worker { why: String },
    #[error("open /dev/fuse")]
    Device { source: io::Error },
    #[error("change this process's namespace")]
    Namespace { source: host::Error },
    #[error("mount the slow layer over {}", path.display())]
    Mount { path: PathBuf, source: host::Error },
    #[error("serve the slow layer: {operation}")]
    Serve { operation: &'static str, source: io::Error },
    #[error("{operation} the slow layer's socket {}", path.display())]
    Socket { operation: &'static str, path: PathBuf, source: io::Error },
    #[error("the slow layer at {} refused the request: {answer}", path.display())]
    Refused { path: PathBuf, answer: String },
    #[error("read the slow layer's answer")]
    Answer { source: serde_json::Error },
    #[error("write down which mount is the slow layer's")]
    Mark { source: host::Error },
}
