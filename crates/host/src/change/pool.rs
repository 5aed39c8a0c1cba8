// SPDX-License-Identifier: Apache-2.0
//! The pool of huge pages: `/proc/sys/vm/nr_hugepages` (kernel, admin-guide/mm/hugetlbpage.rst). The kernel grants the memory that it finds in one
//! piece, so fewer pages than asked are normal. Pages in use when the pool is made smaller become surplus: they stay with their users until the
//! users free them, and are free then.

use super::value::{read_value, write};
use crate::Error;
use crate::permit::Permit;
use std::fmt;
use std::path::{Path, PathBuf};

pub const POOL: &str = "/proc/sys/vm/nr_hugepages";

/// The size of the pool, without surplus pages.
pub fn pool_pages() -> Result<u64, Error> {
    read_pool(Path::new(POOL))
}

/// The pages that each NUMA node has in the pool, in the order of the nodes' numbers. Empty on a host with one node, which has the whole pool.
pub fn pool_of_nodes() -> Vec<u64> {
    let sizes: Option<Vec<u64>> = node_files().iter().map(|path| read_pool(path).ok()).collect();
    sizes.filter(|sizes| sizes.len() > 1).unwrap_or_default()
}

/// The size of the pool after it has grown, and of each node's part, as a journal has it: `1000`, or with two nodes `1000 400 600`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolSize {
    pub pages: u64,
    /// As [`pool_of_nodes`]. Empty also in a journal of an earlier release.
    pub nodes: Vec<u64>,
}

impl PoolSize {
    /// # Errors
    /// The pool cannot be read.
    pub fn now() -> Result<Self, Error> {
        Ok(Self { pages: pool_pages()?, nodes: pool_of_nodes() })
    }

    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split(' ').map(str::parse);
        Some(Self { pages: numbers.next()?.ok()?, nodes: numbers.collect::<Result<_, _>>().ok()? })
    }
}

impl fmt::Display for PoolSize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.pages)?;
        self.nodes.iter().try_for_each(|pages| write!(formatter, " {pages}"))
    }
}

/// `nr_hugepages` of each node, of the host's default size (kernel, admin-guide/mm/hugetlbpage.rst).
fn node_files() -> Vec<PathBuf> {
    let size = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("Hugepagesize:"))?;
        line.trim().strip_suffix(" kB").map(str::to_owned)
    });
    let Some(size) = size else { return Vec::new() };
    let nodes = std::fs::read_dir("/sys/devices/system/node").into_iter().flatten().flatten();
    let number = |name: &str| name.strip_prefix("node")?.parse::<u32>().ok();
    let mut nodes: Vec<(u32, PathBuf)> =
        nodes.filter_map(|node| Some((number(node.file_name().to_str()?)?, node.path()))).collect();
    nodes.sort();
    nodes.into_iter().map(|(_, node)| node.join(format!("hugepages/hugepages-{size}kB/nr_hugepages"))).collect()
}

fn read_pool(path: &Path) -> Result<u64, Error> {
    let text = read_value(path)?;
    text.parse().map_err(|_| Error::path("read", path, std::io::Error::other(format!("'{text}' is no number"))))
}

/// Makes a pool of `after` pages, in several requests. `next` returns the number of further pages to ask for, and gets the number of pages that the
/// kernel did not grant of the request before (at first 0); with 0 further pages the growth ends. Returns the size.
///
/// # Errors
/// [`Error::Conflict`] when the size is not `before` any more; nothing was written then.
pub fn grow_pool(_permit: &Permit, before: u64, after: u64, next: &mut dyn FnMut(u64) -> u64) -> Result<u64, Error> {
    let path = Path::new(POOL);
    let found = read_pool(path)?;
    if found != before {
        return Err(Error::Conflict { path: path.into(), expected: before.to_string(), found: found.to_string() });
    }
    let mut request = |pages: u64| write(path, &pages.to_string()).and_then(|()| read_pool(path));
    grow(before, after, &mut request, next)
}

/// `request` asks for a pool of this size, and returns the size that the pool has then.
fn grow(
    before: u64,
    after: u64,
    request: &mut dyn FnMut(u64) -> Result<u64, Error>,
    next: &mut dyn FnMut(u64) -> u64,
) -> Result<u64, Error> {
    let (mut now, mut refused) = (before, 0);
    while now < after {
        let pages = next(refused).min(after - now);
        if pages == 0 {
            break;
        }
        let asked = now + pages;
        now = request(asked)?;
        refused = asked.saturating_sub(now);
    }
    Ok(now)
}

/// How the pool was made smaller again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shrunk {
    Restored,
    Already,
    /// Somebody else made the pool this large; it stays as it is.
    Foreign(u64),
}

/// The part of a NUMA node in the pool.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Share {
    node: PathBuf,
    before: u64,
    /// After the growth. `None`: the journal does not tell it.
    grown: Option<u64>,
}

/// Makes the pool `before` again when its size is ours: `grown`, or any size in between if the growth was interrupted. `nodes`: the pages of each
/// node at `before`. Without them the kernel would take pages from the nodes in turn, even from nodes that gave none.
///
/// # Errors
/// The pool cannot be read or written.
pub fn shrink_pool(
    permit: &Permit,
    before: u64,
    after: u64,
    grown: Option<&PoolSize>,
    nodes: &[u64],
) -> Result<Shrunk, Error> {
    let files = node_files();
    // a node has been added or removed since: which share belongs to which node is not known
    let is_same = files.len() == nodes.len();
    let of_node = |nth: usize| grown.and_then(|grown| grown.nodes.get(nth).copied());
    let shares = files.into_iter().zip(nodes).enumerate().filter(|_| is_same);
    let shares: Vec<Share> =
        shares.map(|(nth, (node, before))| Share { node, before: *before, grown: of_node(nth) }).collect();
    shrink_at(permit, Path::new(POOL), before, after, grown.map(|grown| grown.pages), &shares)
}

/// Whether an undo was killed between two nodes: then each of them has what it had before, or what it had when the pool had grown. Where the journal does not
/// tell the second, a smaller pool counts as somebody else's.
fn was_cut(shares: &[Share]) -> bool {
    let is_ours = |Share { node, before, grown }: &Share| {
        read_pool(node).is_ok_and(|now| grown.is_some_and(|grown| now == *before || now == grown))
    };
    !shares.is_empty() && shares.iter().all(is_ours)
}

fn shrink_at(
    _: &Permit,
    path: &Path,
    before: u64,
    after: u64,
    observed: Option<u64>,
    shares: &[Share],
) -> Result<Shrunk, Error> {
    let now = read_pool(path)?;
    let ours = observed.map_or((before..=after).contains(&now), |observed| {
        now == observed || ((before..observed).contains(&now) && was_cut(shares))
    });
    match (now == before, ours) {
        (true, _) => Ok(Shrunk::Already),
        (false, false) => Ok(Shrunk::Foreign(now)),
        (false, true) => {
            for Share { node, before, .. } in shares {
                // pages that a node does not give back are taken from the pool as a whole
                if read_pool(node).is_ok_and(|now| now > *before) {
                    let _ = write(node, &before.to_string());
                }
            }
            write(path, &before.to_string()).map(|()| Shrunk::Restored)
        }
    }
}

/// Moves pages together so that larger pieces become free: `/proc/sys/vm/compact_memory`, 1. There is nothing to undo.
pub fn compact_memory(_permit: &Permit) -> Result<(), Error> {
    write(Path::new("/proc/sys/vm/compact_memory"), "1")
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    fn check(now: &str, observed: Option<u64>, expected: Shrunk, left: &str) {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), now).expect("writes");
        let shrunk = shrink_at(&Permit::issue(1), file.path(), 10, 100, observed, &[]).expect("looks");
        assert_eq!((shrunk, read_value(file.path()).expect("reads").as_str()), (expected, left));
    }

    #[test]
    fn a_pool_grows_in_several_requests() {
        let (mut asked, mut refused) = (Vec::new(), Vec::new());
        let mut sizes = [110, 118, 125].into_iter();
        let mut kernel = |pages| {
            asked.push(pages);
            Ok(sizes.next().expect("one request more"))
        };
        let mut next = |pages| {
            refused.push(pages);
            10
        };
        assert_eq!(grow(100, 125, &mut kernel, &mut next).expect("grows"), 125);
        assert_eq!((asked, refused), (vec![110, 120, 125], vec![0, 0, 2]));
    }

    #[test]
    fn a_pool_stays_as_it_is_when_no_more_pages_are_wanted() {
        let mut sizes = [8, 4, 0].into_iter();
        let mut next = |_| sizes.next().expect("was the last");
        assert_eq!(grow(10, 100, &mut Ok, &mut next).expect("grows"), 22);
        let mut never = |_| panic!("is large enough");
        assert_eq!(grow(10, 10, &mut Ok, &mut never).expect("grows"), 10);
    }

    #[test]
    fn a_pool_is_given_back_as_far_as_it_is_ours() {
        check("10\n", Some(100), Shrunk::Already, "10");
        check("100\n", Some(100), Shrunk::Restored, "10");
        check("40\n", Some(40), Shrunk::Restored, "10");
        // interrupted while the pool grew: a part was granted, and its size was not recorded
        check("40\n", None, Shrunk::Restored, "10");
        check("100\n", None, Shrunk::Restored, "10");
        // a size that somebody else has set
        check("77\n", Some(100), Shrunk::Foreign(77), "77");
        check("120\n", None, Shrunk::Foreign(120), "120");
        check("5\n", None, Shrunk::Foreign(5), "5");
    }

    fn share(node: PathBuf, before: u64, grown: Option<u64>) -> Share {
        Share { node, before, grown }
    }

    #[test]
    fn a_size_is_written_with_its_nodes() {
        for size in [PoolSize { pages: 40, nodes: vec![] }, PoolSize { pages: 40, nodes: vec![33, 7] }] {
            assert_eq!(PoolSize::parse(&size.to_string()), Some(size));
        }
        assert_eq!(["", "40 x", "-1"].map(PoolSize::parse), [None, None, None]);
    }

    #[test]
    fn each_node_is_given_what_it_had_and_no_more() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, pages: u64| {
            let path = folder.path().join(name);
            std::fs::write(&path, pages.to_string()).expect("writes");
            path
        };
        let pool = file("pool", 40);
        // somebody has made the second node's share smaller meanwhile
        let shares = [(file("node0", 31), 7), (file("node1", 9), 12), (folder.path().join("gone"), 1)]
            .map(|(node, before)| share(node, before, None));
        let shrunk = shrink_at(&Permit::issue(1), &pool, 10, 40, Some(40), &shares).expect("looks");
        let left = [&pool, &shares[0].node, &shares[1].node].map(|path| read_value(path).expect("reads"));
        assert_eq!((shrunk, left), (Shrunk::Restored, ["10", "7", "9"].map(str::to_owned)));
        let foreign =
            shrink_at(&Permit::issue(1), &pool, 5, 9, Some(9), &[share(file("node2", 8), 1, Some(8))]).expect("looks");
        let untouched = read_value(&folder.path().join("node2")).expect("reads");
        assert_eq!((foreign, untouched.as_str()), (Shrunk::Foreign(10), "8"));
    }

    #[test]
    fn an_undo_that_was_killed_between_two_nodes_goes_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, pages: u64| {
            let path = folder.path().join(name);
            std::fs::write(&path, pages.to_string()).expect("writes");
            path
        };
        let pool = file("pool", 25);
        let permit = Permit::issue(1);
        let shrunk = |shares: &[Share]| shrink_at(&permit, &pool, 10, 40, Some(40), shares).expect("looks");
        // an admin has made the pool smaller: also where one of the nodes had given nothing
        let smaller = [share(file("node2", 12), 7, Some(22)), share(file("node3", 13), 3, Some(18))];
        let gave_nothing = [share(file("node4", 18), 3, Some(33)), share(file("node5", 7), 7, Some(7))];
        let not_told = [share(file("node6", 7), 7, None), share(file("node7", 18), 3, None)];
        for other in [&smaller, &gave_nothing, &not_told] {
            assert_eq!(shrunk(other), Shrunk::Foreign(25));
        }
        let cut = [share(file("node0", 7), 7, Some(22)), share(file("node1", 18), 3, Some(18))];
        assert_eq!(shrunk(&cut), Shrunk::Restored);
        assert_eq!(read_value(&folder.path().join("node1")).expect("reads"), "3");
    }
}
