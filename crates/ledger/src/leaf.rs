// SPDX-License-Identifier: Apache-2.0
//! The table of leaves: {leaf, flavour, since, until} with the rule that fills it, and the source of the rule. The rows are in `table`.

use crate::Class;
use crate::row::{Row, Rule};
use crate::table::{NO_MEMORY, ROWS};
use capability::{Flavour, Version};

/// All rows, in the order in which they are tried.
pub fn rows() -> &'static [Row] {
    ROWS
}

/// The rows that hold for a server.
pub fn rows_for(flavour: Option<Flavour>, version: Option<&Version>) -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(move |row| row.holds(flavour, version))
}

/// The first row of a class.
pub(crate) fn of_class(class: Class) -> Option<&'static Row> {
    ROWS.iter().find(|row| matches!(row.rule, Rule::Class(it) if it == class))
}

/// The leaf of a memory event of performance_schema, by the longest beginning. `None`: no row names it, or the event is not memory.
pub fn event_leaf(event: &str) -> Option<&'static str> {
    if is_no_memory(event) {
        return None;
    }
    let named = ROWS.iter().filter_map(|row| Some((longest(row.rule, event)?, row.path)));
    named.max_by_key(|(length, _)| *length).map(|(_, path)| path)
}

/// Whether an event counts memory that is not added: the pool, whose resident pages the kernel counts, and files that are mapped.
pub(crate) fn is_no_memory(event: &str) -> bool {
    NO_MEMORY.contains(&event)
}

fn longest(rule: Rule, event: &str) -> Option<usize> {
    let Rule::Events(beginnings) = rule else { return None };
    beginnings.iter().filter(|beginning| event.starts_with(*beginning)).map(|beginning| beginning.len()).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_belong_to_the_longest_beginning() {
        for (event, leaf) in [
            ("memory/sql/TABLE", Some("metadata/tables")),
            ("memory/sql/TABLE_SHARE::mem_root", Some("metadata/tables")),
            ("memory/sql/Filesort_buffer::sort_keys", Some("sessions/sort")),
            ("memory/sql/THD::main_mem_root", Some("sessions/idle")),
            ("memory/sql/Prepared_statement::main_mem_root", Some("sessions/prepared")),
            ("memory/temptable/physical_ram", Some("sessions/temporary_tables")),
            ("memory/performance_schema/threads", Some("instrumentation/performance_schema")),
            ("memory/innodb/buf_buf_pool", None),
            ("memory/temptable/physical_disk", None),
            ("memory/sql/never_heard_of", None),
        ] {
            assert_eq!(event_leaf(event), leaf, "{event}");
        }
    }

    #[test]
    fn the_table_is_well_formed() {
        for row in ROWS {
            assert!(!row.source.is_empty(), "{}: where is it known from?", row.path);
            let is_plain = |c: char| c.is_ascii_lowercase() || "_/<>".contains(c);
            assert!(row.path.chars().all(is_plain) && row.path != "heap", "{}", row.path);
            assert!(row.since.is_empty() || row.until.is_empty() || row.since < row.until, "{}", row.path);
        }
        // no beginning stands in two rows of different leaves
        let beginnings =
            ROWS.iter().filter_map(|row| if let Rule::Events(it) = row.rule { Some((row.path, it)) } else { None });
        let mut seen = std::collections::BTreeMap::new();
        for (path, beginning) in beginnings.flat_map(|(path, all)| all.iter().map(move |it| (path, *it))) {
            assert_eq!(*seen.entry(beginning).or_insert(path), path, "{beginning}");
        }
    }

    #[test]
    fn versions_and_flavours() {
        let row = ROWS.iter().find(|row| row.path == "locks/index" && matches!(row.rule, Rule::Formula(_)));
        let row = row.expect("the formula of the lock table");
        let version = |text: &str| text.parse::<Version>().expect("a version");
        assert!(row.holds(Some(Flavour::Percona), Some(&version("8.0.36"))));
        assert!(!row.holds(Some(Flavour::Mysql), Some(&version("5.6.51"))));
        assert!(!row.holds(Some(Flavour::Mysql), None), "a row with limits needs a version");
        assert!(!row.holds(Some(Flavour::Postgresql), Some(&version("15.4"))));
    }
}
