// SPDX-License-Identifier: Apache-2.0
use crate::Error;
use crate::permit::Permit;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;

/// How a value was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Restored {
    /// The value was the one that we had set; the earlier value is in force again.
    Restored,
    /// It already was the value from before: the change never happened, or was undone already.
    Already,
    /// There is no such file any more.
    Missing,
    /// Somebody else has set this value; it stays.
    Foreign(String),
}

/// One value of a file below `/proc/sys`, `/sys` or a cgroup, with runs of white space made one blank.
pub fn read_value(path: &Path) -> Result<String, Error> {
    let text = fs::read_to_string(path).map_err(|source| Error::path("read", path, source))?;
    Ok(normal(&text))
}

/// Sets a value that must still be `before`, and returns it as the kernel shows it afterwards.
///
/// # Errors
/// [`Error::Conflict`] when the value is not `before` any more; nothing was written then.
pub fn set_value(_permit: &Permit, path: &Path, before: &str, after: &str) -> Result<String, Error> {
    let found = read_value(path)?;
    if !holds(path, before, &found) {
        return Err(Error::Conflict { path: path.to_owned(), expected: before.to_owned(), found });
    }
    write(path, after)?;
    read_value(path)
}

/// Puts `before` back when the value is one of `ours`; any other value was set by somebody else and stays.
pub fn restore_value(_permit: &Permit, path: &Path, before: &str, ours: &[&str]) -> Result<Restored, Error> {
    let found = match read_value(path) {
        Err(error) if matches!(error.errno(), Some(libc::ENOENT | libc::ENODEV)) => return Ok(Restored::Missing),
        other => other?,
    };
    if holds(path, before, &found) {
        return Ok(Restored::Already);
    }
    if !ours.iter().any(|value| holds(path, value, &found)) {
        return Ok(Restored::Foreign(found));
    }
    if let Some(user) = switch(path, before).filter(|(_, on)| !on).and_then(|(name, _)| limited_below(path, name)) {
        return Ok(Restored::Foreign(format!("{found}: {user} uses it")));
    }
    write(path, before)?;
    Ok(Restored::Restored)
}

/// Whether the file holds the asked value. In a list of controllers, the asked value is one member.
fn holds(path: &Path, asked: &str, found: &str) -> bool {
    match switch(path, asked) {
        Some((name, on)) => found.split_whitespace().any(|member| member == name) == on,
        None if lists_choices(path) => chosen(asked).unwrap_or(asked) == chosen(found).unwrap_or(found),
        None => same_value(path, asked, found),
    }
}

/// Whether the file shows all choices: `transparent_hugepage/enabled` is written as one word, and read as all words with the chosen one in brackets
/// (kernel, admin-guide/mm/transhuge.rst).
fn lists_choices(path: &Path) -> bool {
    path.ends_with("transparent_hugepage/enabled")
}

/// `always [madvise] never`: the word in brackets.
pub fn chosen(found: &str) -> Option<&str> {
    found.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word)
}

/// The controller to switch, and whether to switch it on: `cgroup.subtree_control` is written as `+name` or `-name`, and read as a list of names
/// (kernel, admin-guide/cgroup-v2.rst). Other programs may switch other controllers meanwhile.
fn switch<'a>(path: &Path, value: &'a str) -> Option<(&'a str, bool)> {
    path.file_name().filter(|name| *name == "cgroup.subtree_control")?;
    value.strip_prefix('+').map(|name| (name, true)).or_else(|| value.strip_prefix('-').map(|name| (name, false)))
}

/// A cgroup beside the file in which somebody has set a limit of this controller, or that hands it down to its own groups: without the controller the limit
/// would be lost.
fn limited_below(control: &Path, controller: &str) -> Option<String> {
    // each file with its value when nobody has set it
    let unset: &[(&str, &str)] = match controller {
        "cpu" => &[
            ("cpu.max", "max 100000"),
            ("cpu.weight", "100"),
            ("cpu.idle", "0"),
            ("cpu.max.burst", "0"),
            ("cpu.uclamp.min", "0.00"),
            ("cpu.uclamp.max", "max"),
        ],
        "cpuset" => &[
            ("cpuset.cpus", ""),
            ("cpuset.mems", ""),
            ("cpuset.cpus.exclusive", ""),
            ("cpuset.cpus.partition", "member"),
        ],
        _ => &[
            ("memory.max", "max"),
            ("memory.high", "max"),
            ("memory.low", "0"),
            ("memory.min", "0"),
            ("memory.oom.group", "0"),
            ("memory.swap.max", "max"),
            ("memory.swap.high", "max"),
            ("memory.zswap.max", "max"),
            ("memory.zswap.writeback", "1"),
        ],
    };
    let limited = |folder: &Path| {
        let is_set = |(file, unset): &(&str, &str)| read_value(&folder.join(file)).is_ok_and(|value| value != *unset);
        // the kernel refuses to take a controller away from those who hand it down
        let hands_down = || {
            let control = read_value(&folder.join("cgroup.subtree_control"));
            control.is_ok_and(|names| names.split_whitespace().any(|name| name == controller))
        };
        unset.iter().any(is_set) || hands_down()
    };
    let entries = fs::read_dir(control.parent()?).into_iter().flatten().flatten();
    let found = entries.map(|entry| entry.path()).find(|folder| folder.is_dir() && limited(folder));
    found.map(|folder| folder.display().to_string())
}

/// The files in which the kernel keeps a number of bytes as whole pages of this machine, and shows the rounded number (kernel, mm/page_counter.c). It
/// rounds in no other file: there each digit counts.
const KEPT_IN_PAGES: [&str; 9] = [
    "memory.max",
    "memory.high",
    "memory.low",
    "memory.min",
    "memory.swap.max",
    "memory.swap.high",
    "memory.limit_in_bytes",
    "memory.memsw.limit_in_bytes",
    "memory.soft_limit_in_bytes",
];

/// Whether two values are equal, apart from white space. A limit that is kept in pages may also differ by the rounding.
fn same_value(path: &Path, asked: &str, found: &str) -> bool {
    let (asked, found) = (normal(asked), normal(found));
    let page = rustix::param::page_size() as u64;
    let pages = |text: &str| text.parse::<u64>().ok().map(|bytes| bytes / page);
    let rounded = path.file_name().is_some_and(|name| KEPT_IN_PAGES.iter().any(|kept| name == *kept));
    asked == found || (rounded && pages(&asked).is_some() && pages(&asked) == pages(&found))
}

fn normal(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Writes with one call: kernel files take a value as a whole, and an empty value as an empty line. The file must exist.
#[allow(clippy::disallowed_methods)]
pub(super) fn write(path: &Path, value: &str) -> Result<(), Error> {
    OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(path)
        .and_then(|mut file| file.write_all(if value.is_empty() { b"\n" } else { value.as_bytes() }))
        .map_err(|source| Error::path("write", path, source))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    fn file(content: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), content).expect("writes");
        file
    }

    #[test]
    fn set_and_restore() {
        let (file, permit) = (file("0\n"), Permit::issue(1));
        assert_eq!(set_value(&permit, file.path(), "0", "512").expect("sets"), "512");
        let restore = || restore_value(&permit, file.path(), "0", &["512"]).expect("restores");
        assert_eq!(restore(), Restored::Restored);
        assert_eq!(restore(), Restored::Already);
    }

    #[test]
    fn an_empty_value_is_put_back() {
        let (file, permit) = (file("\n"), Permit::issue(1));
        assert_eq!(set_value(&permit, file.path(), "", "0-1").expect("sets"), "0-1");
        assert_eq!(restore_value(&permit, file.path(), "", &["0-1"]).expect("restores"), Restored::Restored);
        assert_eq!(
            fs::read_to_string(file.path()).expect("reads"),
            "\n",
            "no write at all would leave the kernel's value"
        );
    }

    #[test]
    fn what_somebody_else_set_stays() {
        let (file, permit) = (file("77\n"), Permit::issue(1));
        let set = set_value(&permit, file.path(), "0", "512");
        assert!(matches!(set, Err(Error::Conflict { found, .. }) if found == "77"));
        let restored = restore_value(&permit, file.path(), "0", &["512"]).expect("looks");
        assert_eq!(restored, Restored::Foreign("77".into()));
        assert_eq!(read_value(file.path()).expect("reads"), "77");
    }

    /// The content has the form of the kernel's file. A plain file keeps what is written to it, so it shows what the kernel was asked for.
    #[test]
    fn one_controller_of_several_is_switched() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, permit) = (folder.path().join("cgroup.subtree_control"), Permit::issue(1));
        let reads = |list: &str| fs::write(&path, list).expect("writes");
        let restore = || restore_value(&permit, &path, "-memory", &["+memory"]).expect("restores");
        reads("cpu");
        assert_eq!(set_value(&permit, &path, "-memory", "+memory").expect("sets"), "+memory");
        reads("cpu pids");
        assert_eq!(restore(), Restored::Already, "it never came, and somebody else switched another one on");
        reads("cpu memory pids");
        assert_eq!(restore(), Restored::Restored);
        assert_eq!(fs::read_to_string(&path).expect("reads"), "-memory");
        reads("memory");
        let other = folder.path().join("other");
        fs::create_dir(&other).expect("a folder");
        fs::write(other.join("memory.max"), "max\n").expect("writes");
        assert_eq!(restore(), Restored::Restored, "a cgroup without a limit loses nothing");
        reads("memory");
        fs::write(other.join("memory.max"), "1048576\n").expect("writes");
        assert!(matches!(restore(), Restored::Foreign(found) if found.contains("other uses it")));
        reads("cpu");
        let restore = || restore_value(&permit, &path, "-cpu", &["+cpu"]).expect("restores");
        fs::write(other.join("cpu.max"), "max 100000\n").expect("writes");
        assert_eq!(restore(), Restored::Restored, "the memory limit does not need it");
        reads("cpu");
        fs::write(other.join("cpu.max"), "50000 100000\n").expect("writes");
        assert!(matches!(restore(), Restored::Foreign(found) if found.contains("other uses it")));
        reads("cpuset");
        let restore = || restore_value(&permit, &path, "-cpuset", &["+cpuset"]).expect("restores");
        fs::write(other.join("cgroup.subtree_control"), "cpuset memory\n").expect("writes");
        let is_used = matches!(restore(), Restored::Foreign(found) if found.contains("other uses it"));
        assert!(is_used, "the kernel would answer EBUSY");
    }

    #[test]
    fn a_missing_file_is_restored() {
        let restored = restore_value(&Permit::issue(1), Path::new("/nonexistent/value"), "0", &["1"]);
        assert_eq!(restored.expect("looks"), Restored::Missing);
    }

    #[test]
    fn the_kernel_rounds_bytes_to_pages_and_prints_tabs() {
        let limit = Path::new("/sys/fs/cgroup/memory/x/memory.limit_in_bytes");
        assert!(same_value(limit, "1073741825", "1073741824"));
        let next_page = (1_u64 << 30) + rustix::param::page_size() as u64;
        assert!(!same_value(limit, "1073741824", &next_page.to_string()));
        let ports = Path::new("/proc/sys/net/ipv4/tcp_mem");
        assert!(same_value(ports, "4096 87380 6291456", "4096\t87380\t6291456\n"));
    }

    /// A kernel value that is a little larger than ours was set by somebody else: only limits of memory are kept in pages.
    #[test]
    fn another_value_within_the_same_page_is_somebody_elses() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, permit) = (folder.path().join("shmmax"), Permit::issue(1));
        fs::write(&path, "1073741825\n").expect("writes");
        let restored = restore_value(&permit, &path, "0", &["1073741824"]).expect("looks");
        assert_eq!(restored, Restored::Foreign("1073741825".into()));
        assert!(matches!(set_value(&permit, &path, "1073741824", "1"), Err(Error::Conflict { .. })));
        let limit = folder.path().join("memory.max");
        fs::write(&limit, "1073741824\n").expect("writes");
        assert_eq!(restore_value(&permit, &limit, "max", &["1073741825"]).expect("looks"), Restored::Restored);
    }

    #[test]
    fn a_choice_is_known_by_its_brackets() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("transparent_hugepage/enabled");
        fs::create_dir(path.parent().expect("a parent")).expect("makes");
        let permit = Permit::issue(1);
        let now = |text: &str| fs::write(&path, text).expect("writes");
        let restore = || restore_value(&permit, &path, "madvise", &["always"]).expect("restores");
        now("always [madvise] never\n");
        assert_eq!(restore(), Restored::Already);
        assert_eq!(set_value(&permit, &path, "madvise", "always").expect("sets"), "always");
        now("[always] madvise never\n");
        assert!(matches!(set_value(&permit, &path, "madvise", "always"), Err(Error::Conflict { .. })));
        assert_eq!(restore(), Restored::Restored);
        assert_eq!(fs::read_to_string(&path).expect("reads"), "madvise");
        now("always madvise [never]\n");
        assert_eq!(restore(), Restored::Foreign("always madvise [never]".into()));
    }
}
