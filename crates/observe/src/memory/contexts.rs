// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL's memory contexts, read from outside: a tree that begins at the exported `TopMemoryContext`. Since version 13 each context contains the
//! number of its allocated bytes (src/include/nodes/memnodes.h), at the same place until 18. A tree that does not verify is not reported at all.
//! Of larger contexts the resident part is read, too (`allocation_set`).

use super::allocation_set::{self, Memory};
use super::elf::Program;
use super::pages::Pages;
use super::reading::Reading;
use super::target::Target;
use ledger::{Context, Mapping};
use std::collections::{BTreeMap, BTreeSet};

const MOST: usize = 100_000;
const DEEPEST: u32 = 200;
const TRIES: u32 = 3;
const NODE_BYTES: usize = 72;
/// Contexts of fewer pages are not asked for their blocks: they hardly have a page that nobody has touched.
const LEAST_PAGES: u64 = 4;
const TEXT_BYTES: usize = 64;

/// The fields of `MemoryContextData` that are read.
struct Node {
    tag: u32,
    allocated: u64,
    methods: u64,
    parent: u64,
    first_child: u64,
    previous: u64,
    next: u64,
    name: u64,
}

/// `None`: an entry in `reading` has the reason: there is no such symbol, no right, or the memory does not verify.
pub(super) fn read(
    target: &Target,
    mappings: &[Mapping],
    program: Option<&Program>,
    reading: &mut Reading,
) -> Option<Vec<Context>> {
    if !target.has_memory("memory contexts", reading) {
        return None;
    }
    let Some((program, top)) = program.and_then(|it| Some((it, it.address("TopMemoryContext", mappings)?))) else {
        reading.missing("memory contexts", "the program does not export TopMemoryContext", None);
        return None;
    };
    for _ in 0..TRIES {
        let found = Tree::of(target, mappings, program, reading).walk(top);
        if found.is_some() {
            return found;
        }
    }
    let why = "what is read at TopMemoryContext does not verify: PostgreSQL 13 and later have the sizes there, or it changed meanwhile";
    match reading.admits(0) {
        true => reading.missing("memory contexts", why, None),
        false => {
            let remedy = reading.remedy();
            let why = "to read them would hold the server longer than the budget admits";
            reading.missing("memory contexts", why, Some(remedy));
        }
    }
    None
}

struct Tree<'a> {
    target: &'a Target,
    mappings: &'a [Mapping],
    program: &'a Program,
    /// The tag of each table of functions: each kind of context has one table and one tag.
    methods: BTreeMap<u64, u32>,
    seen: BTreeSet<u64>,
    pages: Pages,
    reading: &'a mut Reading,
}

impl<'a> Tree<'a> {
    fn of(target: &'a Target, mappings: &'a [Mapping], program: &'a Program, reading: &'a mut Reading) -> Self {
        let (methods, seen, pages) = (BTreeMap::new(), BTreeSet::new(), Pages::of("contexts"));
        Self { target, mappings, program, methods, seen, pages, reading }
    }

    fn walk(&mut self, top: u64) -> Option<Vec<Context>> {
        let mut root = [0; 8];
        self.read(top, &mut root)?;
        let mut found = Vec::new();
        // a context, the parent and the previous context that its fields must name, and its level
        let mut next = vec![(u64::from_ne_bytes(root), 0, 0, 0)];
        while let Some((at, parent, previous, level)) = next.pop() {
            let node = self.node(at)?;
            let is_sane = node.parent == parent && node.previous == previous && level <= DEEPEST && found.len() < MOST;
            (is_sane && self.seen.insert(at)).then_some(())?;
            found.push(self.context(at, &node, level)?);
            if node.next != 0 && level > 0 {
                next.push((node.next, parent, at, level));
            }
            if node.first_child != 0 {
                next.push((node.first_child, at, 0, level + 1));
            }
        }
        Some(found)
    }

    fn node(&mut self, at: u64) -> Option<Node> {
        let mut bytes = [0; NODE_BYTES];
        (at != 0 && at.is_multiple_of(8)).then_some(())?;
        self.read(at, &mut bytes)?;
        let word = |nth: usize| bytes.as_chunks::<8>().0.get(nth).map_or(0, |word| u64::from_ne_bytes(*word));
        let node = Node {
            tag: u32::from_ne_bytes(*bytes.first_chunk::<4>()?),
            allocated: word(1),
            methods: word(2),
            parent: word(3),
            first_child: word(4),
            previous: word(5),
            next: word(6),
            name: word(7),
        };
        self.is_kind(&node).then_some(node)
    }

    /// Whether the context's table of functions is in a mapped file, and always has the same tag.
    fn is_kind(&mut self, node: &Node) -> bool {
        let inside = |it: &&Mapping| (it.start..it.end).contains(&node.methods);
        let is_in_file = self.mappings.iter().find(inside).is_some_and(|it| it.inode != 0);
        let is_tag = (1..10_000).contains(&node.tag) && node.allocated < 1 << 46;
        is_in_file && is_tag && *self.methods.entry(node.methods).or_insert(node.tag) == node.tag
    }

    fn context(&mut self, at: u64, node: &Node, level: u32) -> Option<Context> {
        let name = self.text(node.name).filter(|name| is_name(name))?;
        let is_large = node.allocated >= LEAST_PAGES * super::page_bytes();
        let resident = if is_large { allocation_set::resident(self, at, node.allocated) } else { None };
        // the identifier may be a statement, which may hold secrets; it is not used in any computation
        Some(Context { name, ident: None, level, allocated: node.allocated, resident })
    }

    fn text(&mut self, at: u64) -> Option<String> {
        if let Some(text) = self.program.text(at, self.mappings) {
            return Some(text);
        }
        let mut bytes = [0; TEXT_BYTES];
        let to_end_of_page = usize::try_from(super::page_bytes() - at % super::page_bytes()).ok()?;
        let bytes = bytes.get_mut(..TEXT_BYTES.min(to_end_of_page))?;
        self.read(at, bytes)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    fn read(&mut self, at: u64, into: &mut [u8]) -> Option<()> {
        self.pages.read(self.target, at, into, self.reading)
    }
}

impl Memory for Tree<'_> {
    fn word(&mut self, at: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes)?;
        Some(u64::from_ne_bytes(bytes))
    }

    fn resident(&mut self, start: u64, end: u64) -> Option<u64> {
        Some(self.target.presence(start, end, self.reading)?.resident(start, end))
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| !c.is_control() && c != char::REPLACEMENT_CHARACTER)
}
