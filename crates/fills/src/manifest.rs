// SPDX-License-Identifier: Apache-2.0
//! Size, inode and times of an entry's files when they were kept. To read all files for their checksums would take the time that a clone saves.
//! Sizes, inodes and times show every write that went through the kernel; the checksums are there for `--verify`.

use crate::Error;
use crate::copying::in_parallel;
use crate::tree::{Node, Root};
use serde::{Deserialize, Serialize};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Bytes read at a time for a checksum.
const BUFFER_BYTES: usize = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// The path below `data/`.
    pub path: PathBuf,
    /// `false`: it is a regular file.
    pub is_folder: bool,
    /// The bits of permission; a clone gets the same.
    pub mode: u32,
    pub size_bytes: u64,
    pub inode: u64,
    /// Seconds and nanoseconds since 1970.
    pub modified: (i64, i64),
    pub changed: (i64, i64),
    /// CRC-32C of the content; 0 for a folder.
    pub crc32c: u32,
}

/// The rows for the files below `data`. Each file is read once for its checksum.
pub(crate) fn of(data: &Path, stop: &(dyn Fn() -> bool + Sync)) -> Result<Vec<Row>, Error> {
    let root = Root::open(data)?;
    let nodes = root.nodes()?;
    let sums = in_parallel(&nodes, |node| checksum(&root, node, stop))?;
    Ok(nodes.into_iter().zip(sums).map(|(node, crc32c)| Row::of(node, crc32c)).collect())
}

impl Row {
    fn of(node: Node, crc32c: u32) -> Self {
        Self {
            path: node.path,
            is_folder: node.is_folder,
            mode: node.mode,
            // a folder's size and times belong to the file system, not to its content
            size_bytes: if node.is_folder { 0 } else { node.size_bytes },
            inode: node.inode,
            modified: node.modified,
            changed: node.changed,
            crc32c,
        }
    }
}

/// The row of one small file in `folder`, whose content the caller has.
pub(crate) fn of_one(folder: &Path, name: &str, content: &[u8]) -> Result<Row, Error> {
    Ok(Row::of(Root::open(folder)?.node(name)?, crc32c::crc32c(content)))
}

/// The same for such a file, in words: also its content is compared. `None`: there is no difference.
pub(crate) fn difference_of_one(folder: &Path, content: &[u8], row: &Row) -> Result<Option<String>, Error> {
    let name = row.path.to_string_lossy();
    let node = Root::open(folder)?.node(&name)?;
    let checksum = (crc32c::crc32c(content) != row.crc32c).then_some("has another checksum");
    Ok(difference_of(&node, row).or(checksum).map(|what| format!("{name} {what}")))
}

fn checksum(root: &Root, node: &Node, stop: &(dyn Fn() -> bool + Sync)) -> Result<u32, Error> {
    if node.is_folder {
        return Ok(0);
    }
    let mut file = root.file(&node.path)?;
    let (mut sum, mut buffer) = (0, vec![0; BUFFER_BYTES]);
    loop {
        let count = file.read(&mut buffer).map_err(|source| Error::path("read", &node.path, source))?;
        let Some(read) = buffer.get(..count).filter(|read| !read.is_empty()) else { break };
        sum = crc32c::crc32c_append(sum, read);
        if stop() {
            return Err(Error::Interrupted);
        }
    }
    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    Ok(sum)
}

/// The first difference between the files below `data` and their rows, in words. `None`: there is none.
pub(crate) fn difference(data: &Path, rows: &[Row]) -> Result<Option<String>, Error> {
    let nodes = match Root::open(data).and_then(|root| root.nodes()) {
        Ok(nodes) => nodes,
        Err(Error::Unfit { path, why }) => return Ok(Some(format!("{}: {why}", path.display()))),
        Err(Error::Path { path, source, .. }) => return Ok(Some(format!("{}: {source}", path.display()))),
        Err(other) => return Err(other),
    };
    let mut there = nodes.iter();
    for row in rows {
        let Some(node) = there.next().filter(|node| node.path == row.path) else {
            return Ok(Some(format!("{} is not where it was, or a file is new before it", row.path.display())));
        };
        if let Some(what) = difference_of(node, row) {
            return Ok(Some(format!("{} {what}", row.path.display())));
        }
    }
    Ok(there.next().map(|node| format!("{} is new", node.path.display())))
}

fn difference_of(node: &Node, row: &Row) -> Option<&'static str> {
    let differs = [
        (node.is_folder != row.is_folder, "is of another kind"),
        (!node.is_folder && node.size_bytes != row.size_bytes, "has another size"),
        (node.inode != row.inode, "is another file (inode)"),
        (node.modified != row.modified, "was written since"),
        (node.mode != row.mode, "has another mode"),
        (node.changed != row.changed, "was changed since"),
    ];
    differs.into_iter().find_map(|(differs, what)| differs.then_some(what))
}

/// Reads every file, and names one whose checksum differs from the one that was kept.
pub(crate) fn difference_in_content(
    data: &Path,
    rows: &[Row],
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Option<String>, Error> {
    let now = of(data, stop)?;
    let other = rows.iter().zip(&now).find(|(row, now)| row.path != now.path || row.crc32c != now.crc32c);
    Ok(other.map(|(row, _)| format!("{} has another checksum", row.path.display())))
}
