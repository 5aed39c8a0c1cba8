// SPDX-License-Identifier: Apache-2.0
//! The label of a node: a function, or a sum of functions.

use std::sync::Arc;

/// The label of one node of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Label {
    /// A function that called the function of the node above.
    Frame(Arc<Frame>),
    /// Several callers summed into one line, each of them below the profiler's threshold.
    Hidden { places: u64 },
    /// The allocation functions themselves, at the root.
    Root(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// The function with its arguments, where the symbol has them; `???` without a symbol.
    pub function: String,
    /// `file.c:12`, or `in /path/of/the/object`.
    pub place: Option<String>,
}

impl Frame {
    /// The function without its arguments: `Log_event::read_log_event` of `Log_event::read_log_event(char const*)`.
    pub fn name(&self) -> &str {
        base_name(&self.function)
    }
}

/// The part of a function's name before its arguments. `operator()` and `(anonymous namespace)` keep their parentheses.
pub fn base_name(function: &str) -> &str {
    let mut depth = 0_usize;
    for (at, character) in function.char_indices() {
        match character {
            '<' if !function.split_at(at).0.trim_end_matches('<').ends_with("operator") => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' if depth == 0 => {
                let (before, behind) = function.split_at(at);
                let is_name = before.is_empty() || before.ends_with("::") || before.ends_with("operator");
                if !is_name || behind.is_empty() {
                    return before;
                }
            }
            _ => {}
        }
    }
    function
}

impl Label {
    /// Reads a label as Massif writes it (massif/ms_main.c, `pp_snapshot_SXPt`). Bytes that are no UTF-8 are replaced.
    pub fn of_massif(label: &[u8]) -> Self {
        let text = String::from_utf8_lossy(label);
        let text = text.trim();
        if let Some(places) = hidden(text) {
            return Self::Hidden { places };
        }
        match text.strip_prefix("0x").and_then(|it| it.split_once(": ")) {
            Some((address, rest)) if address.bytes().all(|it| it.is_ascii_hexdigit()) => {
                Self::Frame(Arc::new(frame(rest)))
            }
            _ => Self::Root(text.to_owned()),
        }
    }
}

/// `in 17 places, below massif's threshold (1.00%)`, and `all below`.
fn hidden(text: &str) -> Option<u64> {
    let (places, rest) = text.strip_prefix("in ")?.split_once(" place")?;
    rest.contains("below massif's threshold").then_some(())?;
    places.parse().ok()
}

fn frame(text: &str) -> Frame {
    let place = text.strip_suffix(')').and_then(|it| it.rsplit_once(" ("));
    match place {
        Some((function, place)) => Frame { function: function.to_owned(), place: Some(place.to_owned()) },
        None => Frame { function: text.to_owned(), place: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(label: &str) -> Arc<Frame> {
        let Label::Frame(frame) = Label::of_massif(label.as_bytes()) else { panic!("{label}") };
        frame
    }

    #[test]
    fn labels_as_massif_writes_them() {
        let with_line = frame(" 0x4E3F: my_malloc (my_malloc.c:88)");
        assert_eq!((with_line.function.as_str(), with_line.place.as_deref()), ("my_malloc", Some("my_malloc.c:88")));
        assert_eq!(frame(" 0x4E: ??? (in /usr/sbin/mariadbd)").place.as_deref(), Some("in /usr/sbin/mariadbd"));
        let cpp = frame(" 0x4E: Log_event::read(char const*, std::map<int, A (*)(B)>) (log_event.cc:9)");
        assert_eq!((cpp.name(), cpp.place.as_deref()), ("Log_event::read", Some("log_event.cc:9")));
        assert_eq!(frame(" 0x4E: (below main) (libc-start.c:308)").function, "(below main)");
        assert_eq!(
            Label::of_massif(b" in 17 places, all below massif's threshold (1.00%)"),
            Label::Hidden { places: 17 }
        );
        assert_eq!(Label::of_massif(b" in 1 place, below massif's threshold (1.00%)"), Label::Hidden { places: 1 });
        let root = "(heap allocation functions) malloc/new/new[], --alloc-fns, etc.";
        assert_eq!(Label::of_massif(root.as_bytes()), Label::Root(root.into()));
    }

    #[test]
    fn a_name_ends_where_its_arguments_begin() {
        assert_eq!(base_name("operator new(unsigned long)"), "operator new");
        assert_eq!(base_name("A::operator()(int)"), "A::operator()");
        assert_eq!(base_name("(anonymous namespace)::grow(int)"), "(anonymous namespace)::grow");
        assert_eq!(base_name("std::vector<void (*)(int)>::push_back(int)"), "std::vector<void (*)(int)>::push_back");
        assert_eq!(base_name("operator<<(A&, std::vector<int> const&)"), "operator<<");
        assert_eq!(base_name("palloc"), "palloc");
    }
}
