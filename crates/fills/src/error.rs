// SPDX-License-Identifier: Apache-2.0
use std::io;
use std::path::PathBuf;
use units::Bytes;

/// Why a directory could not be kept, found or cloned.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Host(#[from] host::Error),
    #[error("{operation} {}", path.display())]
    Path {
        operation: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The directory has something that the data directory of a stopped server does not have: a link, a socket, a name that is no text.
    #[error("{} cannot be kept: {why}", path.display())]
    Unfit { path: PathBuf, why: &'static str },
    #[error("{what} needs {} on the disk of {}, and {} are free", Bytes(*need_bytes), path.display(), Bytes(*free_bytes))]
    NoRoom { what: &'static str, path: PathBuf, need_bytes: u64, free_bytes: u64 },
    #[error("the kept data in {} are not what was kept: {why}", path.display())]
    Changed { path: PathBuf, why: String },
    #[error("{variable}={value:?} is no size: {why}")]
    Limit { variable: &'static str, value: String, why: String },
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    pub(crate) fn path(operation: &'static str, path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        Self::Path { operation, path: path.into(), source: source.into() }
    }

    /// Whether the user has written something wrong.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Limit { .. })
    }

    /// Whether the user asked for the end.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, Self::Interrupted | Self::Host(host::Error::Interrupted))
    }

    /// Whether the store is not this user's to use: another user has made it, or may write in it.
    pub fn is_of_others(&self) -> bool {
        let errno = match self {
            Self::Host(host::Error::Untrusted { .. }) => return true,
            Self::Host(error) => error.errno(),
            Self::Path { source, .. } => source.raw_os_error(),
            _ => None,
        };
        errno == Some(rustix::io::Errno::ACCESS.raw_os_error())
    }

    /// What would help, in one line.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoRoom { .. } => Some(
                "set WRINGER_HOME to a folder on a larger disk; `wringer purge` frees the filled data directories that are kept"
                    .into(),
            ),
            Self::Changed { .. } => Some("`wringer purge` throws kept data away; the next run fills anew".into()),
            Self::Limit { variable, .. } => Some(format!("write a size, as in {variable}=40G; 0 keeps nothing")),
            _ => None,
        }
    }
}
