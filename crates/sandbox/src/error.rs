// SPDX-License-Identifier: Apache-2.0
use crate::{Flavour, Version};
use std::io;
use std::path::{Path, PathBuf};
use units::Bytes;

/// Why a sandbox could not be made, started, or removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Host(#[from] host::Error),
    #[error(transparent)]
    Run(#[from] run::Error),
    #[error(transparent)]
    Fills(fills::Error),
    #[error("talk to sandbox '{name}'")]
    Talk {
        name: String,
        #[source]
        source: load::Error,
    },
    #[error("{operation} {}", path.display())]
    Path {
        operation: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("'{word}' is not a server: {why}")]
    Request { word: String, why: String },
    #[error("'{name}' is not a sandbox name: {why}")]
    Name { name: String, why: &'static str },
    #[error("'{option}' is not a server option: {why}")]
    ServerOption { option: String, why: &'static str },
    #[error("a sandbox named '{name}' is there already")]
    NameTaken { name: String },
    #[error("{} is in the way: it is a folder with files, and has no sandbox in it", folder.display())]
    FolderInTheWay { folder: PathBuf },
    #[error("there is no sandbox named '{name}'")]
    NoSandbox { name: String },
    #[error("sandbox '{name}' is being deployed by another process")]
    Deploying { name: String },
    /// The run that starts or uses it is not ended for this command.
    #[error("sandbox '{name}' is being started, or used, by another process (run {run})")]
    Starting { name: String, run: run::RunId },
    #[error("sandbox '{name}' was never deployed to its end")]
    HalfDeployed { name: String },
    #[error("sandbox '{name}' is a replica of '{of}', and is deleted with it")]
    IsReplica { name: String, of: String },
    #[error("{flavour} {version} cannot be deployed with replicas: {why}")]
    NoReplicas { flavour: Flavour, version: Version, why: String },
    #[error("no pgBouncer to be had: {why}")]
    NoPooler { why: String },
    #[error("pgBouncer stands in front of PostgreSQL alone, and this is {flavour}")]
    PoolerFlavour { flavour: Flavour },
    #[error("'{option}' is not an option for pgBouncer: {why}")]
    PoolOption { option: String, why: &'static str },
    #[error("pgBouncer of sandbox '{name}' {what}{}", log_text(log))]
    Pooler { name: String, what: &'static str, log: Vec<String> },
    #[error("{} is not a manifest of this version of Wringer: {why}", path.display())]
    Manifest { path: PathBuf, why: String },
    #[error("port {port} on 127.0.0.1 is in use by another program")]
    PortInUse { port: u16 },
    #[error("this user may not listen on port {port}")]
    PortOfRoot { port: u16 },
    #[error("no free port between {from} and {to} on 127.0.0.1")]
    NoPort { from: u16, to: u16 },
    #[error("the server of sandbox '{name}' is gone: there is no {}", program.display())]
    ProgramGone { name: String, program: PathBuf },
    #[error("sandbox '{name}' is running already (process {pid})")]
    Running { name: String, pid: u32 },
    /// Processes of its server may live where this process cannot see them.
    #[error("cannot tell from here whether the server of sandbox '{name}' runs: {why}")]
    Unknown { name: String, why: String },
    #[error("sandbox '{name}' is not running")]
    NotRunning { name: String },
    #[error("no {flavour} {wanted}on this machine, and {}", offered_text(offered))]
    NotOffered { flavour: Flavour, wanted: String, offered: Vec<String> },
    #[error(
        "no {flavour} on this machine nor in its distribution's suite, and suite {suite} cannot be read{}",
        log_text_of(log, "apt-get's words")
    )]
    SuiteUnreachable { flavour: Flavour, suite: String, log: Vec<String> },
    #[error(
        "no such {flavour} on this machine, and the package lists of its distribution cannot be read{}",
        log_text_of(log, "apt-get's words")
    )]
    ListsUnreachable { flavour: Flavour, log: Vec<String> },
    #[error("no {flavour} on this machine, and without '{program}' none can be fetched")]
    NoPackageClient { flavour: Flavour, program: &'static str },
    #[error(
        "no {flavour} {wanted}on this machine nor in its distribution, and without '{program}' (package {package}) none can be \
         fetched from Maven's repository"
    )]
    NoArtifactClient { flavour: Flavour, wanted: String, program: &'static str, package: &'static str },
    #[error(
        "no such {flavour} on this machine nor in its distribution, and Maven's repository cannot be read{}",
        log_text_of(log, "mvn's words")
    )]
    RepositoryUnreachable { flavour: Flavour, log: Vec<String> },
    #[error("cannot take {} for a server: {why}", path.display())]
    Archive { path: PathBuf, why: String },
    /// `file`: the file with the expected checksum, when the user did not give the checksum.
    #[error("{} has the {kind} {found}, and not {expected}{}", path.display(), as_said_in(file.as_deref()))]
    Checksum { path: PathBuf, kind: &'static str, expected: String, found: String, file: Option<PathBuf> },
    #[error("without '{program}' (package {package}) Wringer cannot {what}")]
    NoTool { program: &'static str, package: &'static str, what: String },
    #[error("{flavour} {version} does not run: {why}")]
    Unusable { flavour: Flavour, version: Version, why: String },
    #[error("nothing can be executed from {} (mounted noexec)", path.display())]
    NoExecution { path: PathBuf },
    #[error("{what} needs {} on the disk of {}, and {} are free", Bytes(*need_bytes), path.display(), Bytes(*free_bytes))]
    DiskFull { what: &'static str, path: PathBuf, need_bytes: u64, free_bytes: u64, setting: &'static str },
    /// The words of `program` show that the disk is full.
    #[error("the disk of {} is full: {program} found no room there while {doing}{}", path.display(), log_text(log))]
    NoRoom { program: String, doing: &'static str, path: PathBuf, log: Vec<String> },
    #[error(
        "{count} servers need about {} of RAM, going by their pools, and {} are available",
        Bytes(*need_bytes),
        Bytes(*available_bytes)
    )]
    MemoryFull { count: usize, need_bytes: u64, available_bytes: u64 },
    #[error("user '{user}' (uid {uid}), as whom the server would run, cannot pass through {} to reach {}", component.display(), path.display())]
    Unreachable { user: String, uid: u32, component: PathBuf, path: PathBuf },
    #[error("{} cannot be taken: {why}", path.display())]
    Origin { path: PathBuf, why: String, hint: String },
    #[error("line {line} of {}: {statement}", path.display())]
    Dump {
        path: PathBuf,
        line: u64,
        statement: String,
        #[source]
        source: load::Error,
    },
    /// This host does not have a wrapper that the start asks for.
    #[error("{what}")]
    Unwrappable { what: String, hint: Option<String> },
    #[error("the server of sandbox '{name}' got {got}, where {asked} was asked for; it was stopped again")]
    NotAsAsked { name: String, asked: String, got: String },
    #[error("no user to run the server as: {why}")]
    NoUser { why: &'static str },
    #[error("{program} ended with {status} while {doing}{}", log_text(log))]
    Program { program: String, doing: &'static str, status: String, log: Vec<String> },
    /// `status`: 128 + n when signal n ended it.
    #[error("the server of sandbox '{name}' ended before it was ready{}{}", status_text(*status), log_text(log))]
    Died { name: String, status: Option<i32>, log: Vec<String> },
    /// The server did not become ready, and the kernel had killed in its cgroup meanwhile.
    #[error(
        "the kernel killed {} sandbox '{name}' before it was ready: its RAM, --ram {ram}, was used up; give it more, or a smaller pool with -c \
         (innodb_buffer_pool_size, shared_buffers){}",
        if *is_server { "the server of" } else { "a process of the server of" },
        log_text(log)
    )]
    OutOfMemory { name: String, ram: Bytes, is_server: bool, log: Vec<String> },
    #[error("the server of sandbox '{name}' was not ready after {waited_s} s{}", log_text(log))]
    NotReady { name: String, waited_s: u64, log: Vec<String> },
    /// The server had been ready before. `status`: 128 + n when signal n ended it.
    #[error("the server ended by itself{}{}", status_text(*status), log_text(log))]
    Ended { status: Option<i32>, log: Vec<String> },
    #[error("interrupted")]
    Interrupted,
}

impl From<fills::Error> for Error {
    fn from(error: fills::Error) -> Self {
        match error {
            fills::Error::Interrupted => Self::Interrupted,
            fills::Error::Host(host::Error::Interrupted) => Self::Interrupted,
            fills::Error::Host(error) => Self::Host(error),
            fills::Error::Path { operation, path, source } => Self::Path { operation, path, source },
            other => Self::Fills(other),
        }
    }
}

impl From<capability::Error> for Error {
    fn from(error: capability::Error) -> Self {
        Self::Request { word: error.word, why: error.why }
    }
}

impl Error {
    /// The error of a start in whose cgroup, of `ram`, the kernel has killed. Other errors stay.
    #[must_use]
    pub fn out_of_memory(self, ram: Bytes) -> Self {
        match self {
            Self::Died { name, status, log } => Self::OutOfMemory { name, ram, is_server: status == Some(KILLED), log },
            Self::NotReady { name, log, .. } => Self::OutOfMemory { name, ram, is_server: false, log },
            other => other,
        }
    }

    pub(crate) fn path(operation: &'static str, path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        Self::Path { operation, path: path.into(), source: source.into() }
    }

    /// Whether something was missing, or was an obstacle, before anything was changed: exit code 3.
    pub fn is_missing(&self) -> bool {
        match self {
            Self::Host(host::Error::MissingProgram { .. })
            | Self::NameTaken { .. }
            | Self::FolderInTheWay { .. }
            | Self::NoSandbox { .. }
            | Self::Deploying { .. }
            | Self::Starting { .. }
            | Self::HalfDeployed { .. }
            | Self::IsReplica { .. }
            | Self::NoReplicas { .. }
            | Self::NoPooler { .. }
            | Self::Manifest { .. }
            | Self::PortInUse { .. }
            | Self::PortOfRoot { .. }
            | Self::NoPort { .. }
            | Self::ProgramGone { .. }
            | Self::Running { .. }
            | Self::Unknown { .. }
            | Self::NotRunning { .. }
            | Self::NotOffered { .. }
            | Self::NoPackageClient { .. }
            | Self::SuiteUnreachable { .. }
            | Self::ListsUnreachable { .. }
            | Self::NoArtifactClient { .. }
            | Self::RepositoryUnreachable { .. }
            | Self::Archive { .. }
            | Self::Checksum { .. }
            | Self::NoTool { .. }
            | Self::NoExecution { .. }
            | Self::DiskFull { .. }
            | Self::NoRoom { .. }
            | Self::MemoryFull { .. }
            | Self::Unwrappable { .. }
            | Self::Unreachable { .. }
            | Self::Origin { .. }
            | Self::NoUser { .. } => true,
            Self::Fills(error) => matches!(error, fills::Error::NoRoom { .. } | fills::Error::Changed { .. }),
            Self::Path { source, .. } => is_in_the_way(source.raw_os_error()),
            Self::Host(host::Error::Path { operation: "make folder" | "use folder", .. }) => true,
            Self::Host(error) => is_in_the_way(error.errno()),
            _ => false,
        }
    }

    /// Whether a source of servers cannot be asked at all: another source may have the wanted server.
    pub(crate) fn is_absent_source(&self) -> bool {
        matches!(
            self,
            Self::NoPackageClient { .. }
                | Self::SuiteUnreachable { .. }
                | Self::ListsUnreachable { .. }
                | Self::NoArtifactClient { .. }
                | Self::RepositoryUnreachable { .. }
        )
    }

    /// Whether the user's arguments were wrong: exit code 2.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Request { .. }
                | Self::Name { .. }
                | Self::ServerOption { .. }
                | Self::PoolOption { .. }
                | Self::PoolerFlavour { .. }
        ) || matches!(self, Self::Fills(error) if error.is_usage())
    }

    /// Whether the log of the program says that its disk is full, and that this is why it failed. Servers use the same words for shared memory that is full;
    /// such lines do not count.
    pub fn is_full_disk(&self) -> bool {
        const FULL: [&str; 3] = ["No space left on device", "failed with error 28", "Errcode: 28"];
        let says = |line: &String| FULL.iter().any(|it| line.contains(it)) && !line.contains("shared memory");
        match self {
            Self::Died { log, .. }
            | Self::Ended { log, .. }
            | Self::NotReady { log, .. }
            | Self::Program { log, .. } => log.iter().any(says),
            _ => false,
        }
    }

    /// Advice, in one line.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NameTaken { name } => Some(format!("choose another with --name, or `wringer sandbox delete {name}`")),
            Self::FolderInTheWay { folder } => {
                let folder = folder.display();
                Some(format!("choose another name with --name, or look into {folder}, and move it away or remove it"))
            }
            Self::NoSandbox { .. } => Some("`wringer sandbox list` shows those of this user; root and other users have their own".into()),
            Self::HalfDeployed { name } => Some(format!("`wringer sandbox delete {name}` clears it away")),
            Self::IsReplica { of, .. } => {
                Some(format!("`wringer sandbox delete {of}` deletes the primary and its replicas"))
            }
            Self::NoPooler { .. } => Some("install the package pgbouncer by this system's own means, and deploy anew".into()),
            Self::PoolerFlavour { .. } => {
                Some("MariaDB and MySQL limit connections themselves: `wringer doc sandbox`, \"Limits of connections\"".into())
            }
            Self::PortOfRoot { .. } => {
                Some("/proc/sys/net/ipv4/ip_unprivileged_port_start is the first port that everybody may use: take one from there on".into())
            }
            Self::PortInUse { .. } => Some("deploy with another --port, or end the program that holds it".into()),
            Self::Running { name, .. } => Some(format!("`wringer sandbox stop {name}` stops it")),
            Self::Unknown { .. } => Some(
                "nothing was changed; run this where its processes can be seen: outside of this namespace or container, and as the \
                 user who started it, or as root"
                    .into(),
            ),
            Self::Starting { .. } => Some("`wringer status` shows what that run does".into()),
            Self::NotRunning { name } => Some(format!("`wringer sandbox start {name}` starts it")),
            Self::ProgramGone { .. } => {
                Some("`wringer sandbox fetch` brings a fetched server back; see `wringer sandbox list -o json`".into())
            }
            Self::NotOffered { .. } => Some(
                "`wringer sandbox available` lists what can be had here; `wringer sandbox unpack` takes the tarball of the \
                 server's maker"
                    .into(),
            ),
            Self::NoPackageClient { flavour, .. }
            | Self::SuiteUnreachable { flavour, .. }
            | Self::ListsUnreachable { flavour, .. } => {
                Some(format!("install {flavour} by this system's own means; Wringer then finds it"))
            }
            Self::NoArtifactClient { package, .. } => Some(format!(
                "install the package {package}, or `wringer sandbox unpack` the tarball of the server's maker"
            )),
            Self::RepositoryUnreachable { .. } => {
                Some("`mvn` says where it looks; `wringer sandbox unpack` takes the tarball of the server's maker".into())
            }
            Self::Checksum { .. } => Some("download it again, and compare with what its maker publishes".into()),
            Self::NoTool { package, .. } => Some(format!("install the package {package}")),
            Self::Unreachable { .. } => Some(
                "set WRINGER_HOME to a folder that every user may pass through, for example /var/lib/wringer".into(),
            ),
            Self::Unwrappable { hint, .. } => hint.clone(),
            Self::MemoryFull { .. } => Some("start fewer at a time, or give each a smaller pool with -c".into()),
            Self::DiskFull { setting, .. } => Some(format!("set {setting} to a folder on a larger disk")),
            Self::NoRoom { .. } => Some("set WRINGER_CACHE to a folder on a larger disk".into()),
            Self::NoExecution { .. } => Some("set WRINGER_CACHE to a folder on another file system".into()),
            Self::Ended { status: Some(KILLED), .. } => Some(
                "somebody killed it, or the kernel did because RAM ran out: `dmesg | grep -i 'out of memory'` tells"
                    .into(),
            ),
            Self::Origin { hint, .. } => Some(hint.clone()).filter(|hint| !hint.is_empty()),
            Self::Fills(error) => error.hint(),
            Self::NoUser { .. } => Some("run as an ordinary user, or through sudo".into()),
            _ => None,
        }
    }
}

/// Whether the surroundings are not fit: a full disk, a read-only file system, no permission, a quota.
fn is_in_the_way(errno: Option<i32>) -> bool {
    use rustix::io::Errno;
    let errnos = [Errno::NOSPC, Errno::ROFS, Errno::ACCESS, Errno::PERM, Errno::DQUOT, Errno::NOTDIR];
    errno.is_some_and(|errno| errnos.iter().any(|known| known.raw_os_error() == errno))
}

fn offered_text(versions: &[String]) -> String {
    if versions.is_empty() {
        return "it can be fetched from nowhere".into();
    }
    format!("what can be fetched is {}", versions.join(", "))
}

fn as_said_in(file: Option<&Path>) -> String {
    file.map(|file| format!(" as {} says", file.display())).unwrap_or_default()
}

/// 128 + SIGKILL.
const KILLED: i32 = 137;

/// How a server ended, as the end of a sentence. 128 + n: signal n ended it.
pub fn status_text(status: Option<i32>) -> String {
    match status {
        Some(code @ 129..) => format!(", killed by signal {}", code - 128),
        Some(code) => format!(" with exit code {code}"),
        None => String::new(),
    }
}

fn log_text(lines: &[String]) -> String {
    log_text_of(lines, "the end of its log")
}

fn log_text_of(lines: &[String], what: &str) -> String {
    if lines.is_empty() { String::new() } else { format!("; {what}:\n  {}", lines.join("\n  ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn died(status: i32) -> Error {
        Error::Died { name: "s".into(), status: Some(status), log: vec!["[Note] last words".into()] }
    }

    #[test]
    fn what_ended_a_server_is_named() {
        let ends = [(1, "ready with exit code 1; the end of"), (139, "ready, killed by signal 11; the end of")];
        for (status, words) in ends {
            assert!(died(status).to_string().contains(words), "{}", died(status));
        }
        let ram = Bytes(24 << 20);
        let killed = died(KILLED).out_of_memory(ram).to_string();
        assert!(killed.starts_with("the kernel killed the server of sandbox 's'"), "{killed}");
        assert!(killed.contains("--ram 24 MiB, was used up") && killed.ends_with("last words"), "{killed}");
        // PostgreSQL ends with a code of its own when a process of it was killed
        let child = died(1).out_of_memory(ram).to_string();
        assert!(child.starts_with("the kernel killed a process of the server of sandbox 's'"), "{child}");
        assert!(matches!(Error::Interrupted.out_of_memory(ram), Error::Interrupted));
    }
}
