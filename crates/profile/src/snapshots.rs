// SPDX-License-Identifier: Apache-2.0
//! Makes files of Massif's format from single snapshots: snapshots of several moments stand one after the other; snapshots of several processes are
//! summed into one.
//!
//! A snapshot for which Massif was asked comes as a file of its own, with the number 0 (massif/ms_main.c, `handle_snapshot_monitor_command`).

use host::files;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;

const SEPARATOR: &str = "#-----------";
/// The most levels of callers that are read. Massif writes 30 (`--depth`); a deeper tree was not written by Massif.
const DEEPEST: usize = 500;

/// A file that grows by a snapshot at a time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stitched {
    /// What the file does not have yet.
    new: String,
    kept_bytes: u64,
    count: u32,
}

impl Stitched {
    /// Adds a snapshot. `None`: the text is not a snapshot.
    pub(crate) fn push(&mut self, snapshot: &str) -> Option<()> {
        let (header, body) = parts(snapshot)?;
        if self.count == 0 {
            self.new.push_str(header);
        }
        let number = self.count;
        let body = body.strip_prefix("snapshot=")?;
        let rest = body.split_once('\n')?.1;
        let _ = write!(self.new, "{SEPARATOR}\nsnapshot={number}\n{rest}");
        if !rest.ends_with('\n') {
            self.new.push('\n');
        }
        self.count += 1;
        Some(())
    }

    /// Writes the new snapshots behind those that the file has, and waits until they are on the disk: a file with hundreds of snapshots is not written
    /// anew for each. The file is made in one step with the first ones. When this process is killed, at most the end of the last snapshot is missing.
    pub(crate) fn keep(&mut self, path: &Path) -> Result<(), host::Error> {
        if self.kept_bytes == 0 {
            files::write_atomic(path, self.new.as_bytes(), 0o600)?;
        } else {
            files::open_existing(path)
                .and_then(|file| files::write_synced_at(&file, self.new.as_bytes(), self.kept_bytes))
                .map_err(|source| host::Error::path("write", path, source))?;
        }
        self.kept_bytes += self.new.len() as u64;
        self.new.clear();
        Ok(())
    }
}

/// The header of a snapshot, and the text after the first separator.
fn parts(text: &str) -> Option<(&str, &str)> {
    let at = text.find(SEPARATOR)?;
    let (header, body) = text.split_at(at);
    let body = body.split_once('\n')?.1;
    (header.contains("cmd:") && body.starts_with("snapshot=")).then_some((header, body))
}

/// Two sizes in a snapshot, in bytes: of the heap, and what malloc adds to it.
pub(crate) fn bytes(snapshot: &str) -> Option<(u64, u64)> {
    Some((number(snapshot, "mem_heap_B=")?, number(snapshot, "mem_heap_extra_B=")?))
}

fn number(snapshot: &str, name: &str) -> Option<u64> {
    snapshot.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

/// One snapshot with the sums of several processes' snapshots, at the time of the first. Branches with the same label are one branch: the processes of
/// one server are forks of each other, and have their functions at the same addresses. `None`: one of the texts is not a snapshot with a tree.
pub(crate) fn summed(snapshots: &[String]) -> Option<String> {
    let first = snapshots.first()?;
    let (header, body) = parts(first)?;
    let time = number(body, "time=")?;
    let sum = |name: &str| snapshots.iter().map(|it| number(it, name)).sum::<Option<u64>>();
    let (heap, extra, stacks) = (sum("mem_heap_B=")?, sum("mem_heap_extra_B=")?, sum("mem_stacks_B=")?);
    let mut root = Branch::default();
    for snapshot in snapshots {
        root.add(snapshot)?;
    }
    let mut text = format!(
        "{header}{SEPARATOR}\nsnapshot=0\n{SEPARATOR}\ntime={time}\nmem_heap_B={heap}\nmem_heap_extra_B={extra}\nmem_stacks_B={stacks}\n\
         heap_tree=detailed\n"
    );
    root.children.first()?.1.write(&root.children.first()?.0, 0, &mut text);
    Some(text)
}

/// A place in the code that allocated bytes, and its callers.
#[derive(Debug, Default)]
struct Branch {
    bytes: u64,
    /// The callers with their labels, in the order in which they were read.
    children: Vec<(String, Branch)>,
    place: HashMap<String, usize>,
}

impl Branch {
    fn add(&mut self, snapshot: &str) -> Option<()> {
        let tree = snapshot.split_once("heap_tree=")?.1.split_once('\n')?.1;
        // the path from the root to the last node: at each level the index among the children
        let mut way: Vec<usize> = Vec::new();
        for line in tree.lines().take_while(|line| !line.starts_with('#')) {
            let depth = line.len() - line.trim_start_matches(' ').len();
            let (_, rest) = line.trim_start_matches(' ').strip_prefix('n')?.split_once(": ")?;
            let (bytes, label) = rest.split_once(' ')?;
            if depth > way.len() || depth > DEEPEST {
                return None;
            }
            way.truncate(depth);
            let above = way.iter().try_fold(&mut *self, |at, place| Some(&mut at.children.get_mut(*place)?.1))?;
            way.push(above.charge(shared_label(label), bytes.parse().ok()?));
        }
        (!way.is_empty()).then_some(())
    }

    /// Adds the bytes to the child with this label, and returns its index.
    fn charge(&mut self, label: &str, bytes: u64) -> usize {
        let next = self.children.len();
        let place = *self.place.entry(label.to_owned()).or_insert(next);
        if place == next {
            self.children.push((label.to_owned(), Self::default()));
        }
        if let Some((_, child)) = self.children.get_mut(place) {
            child.bytes = child.bytes.saturating_add(bytes);
        }
        place
    }

    fn write(&self, label: &str, depth: usize, text: &mut String) {
        let _ = writeln!(text, "{}n{}: {} {label}", " ".repeat(depth), self.children.len(), self.bytes);
        let mut children: Vec<&(String, Self)> = self.children.iter().collect();
        // the largest first, as Massif writes them
        children.sort_by_key(|(_, child)| std::cmp::Reverse(child.bytes));
        children.iter().for_each(|(label, child)| child.write(label, depth + 1, text));
    }
}

/// The line for everything below the threshold differs between processes in its number of places: all of them get one label.
fn shared_label(label: &str) -> &str {
    let is_hidden = label.starts_with("in ") && label.contains("below massif's threshold");
    if is_hidden { "in 2 places, below massif's threshold (summed over processes)" } else { label }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(time: u32, heap: u32, tree: &str) -> String {
        format!(
            "desc: --time-unit=ms\ncmd: ./f\ntime_unit: ms\n#-----------\nsnapshot=0\n#-----------\ntime={time}\nmem_heap_B={heap}\n\
             mem_heap_extra_B=8\nmem_stacks_B=0\nheap_tree=detailed\n{tree}"
        )
    }

    const ROOT: &str = "(heap allocation functions) malloc/new/new[], --alloc-fns, etc.";

    #[test]
    fn snapshots_of_several_moments_are_one_file() {
        let mut stitched = Stitched::default();
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("heap.massif");
        assert!(stitched.push("").is_none() && stitched.push("vgdb error").is_none());
        stitched.push(&snapshot(10, 100, &format!("n1: 100 {ROOT}\n n0: 100 0x1: f (f.c:1)\n"))).expect("a snapshot");
        stitched.keep(&path).expect("the first snapshot is kept");
        stitched.push(&snapshot(20, 300, &format!("n1: 300 {ROOT}\n n0: 300 0x1: f (f.c:1)"))).expect("a snapshot");
        stitched.keep(&path).expect("the second one is added");
        let outline = heap::Outline::read(&*std::fs::read(&path).expect("the file")).expect("a profile");
        let told: Vec<_> = outline.snapshots.iter().map(|it| (it.number, it.time, it.heap_bytes)).collect();
        assert_eq!((told, outline.damage), (vec![(0, 10, 100), (1, 20, 300)], None));
        assert_eq!(bytes(&snapshot(1, 7, "")), Some((7, 8)));
    }

    #[test]
    fn processes_are_summed_by_who_allocated() {
        let one = snapshot(
            10,
            130,
            &format!(
                "n2: 130 {ROOT}\n n1: 100 0x1: f (f.c:1)\n  n0: 100 0x2: main (f.c:9)\n n0: 30 in 3 places, below massif's threshold (0.10%)\n"
            ),
        );
        let two = snapshot(
            12,
            300,
            &format!(
                "n2: 300 {ROOT}\n n0: 200 0x3: g (f.c:2)\n n1: 100 0x1: f (f.c:1)\n  n0: 100 0x4: child (f.c:8)\n"
            ),
        );
        let sum = summed(&[one.clone(), two]).expect("two snapshots");
        let expected = format!(
            "n3: 430 {ROOT}\n n2: 200 0x1: f (f.c:1)\n  n0: 100 0x2: main (f.c:9)\n  n0: 100 0x4: child (f.c:8)\n n0: 200 0x3: g (f.c:2)\n \
             n0: 30 in 2 places, below massif's threshold (summed over processes)\n"
        );
        assert!(sum.ends_with(&expected) && sum.contains("mem_heap_B=430\nmem_heap_extra_B=16\n"), "{sum}");
        assert_eq!(heap::Outline::read(sum.as_bytes()).expect("a profile").damage, None);
        assert_eq!(summed(&[one, "nothing".into()]), None);
    }
}
