// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL's memory contexts, by their purpose.

use crate::Context;
use crate::row::{Amount, Row, Rule};
use crate::share::sane;
use std::collections::BTreeMap;

/// The leaf of contexts that no row names.
pub(crate) const OTHER: &str = "backends/other";

/// Bytes by leaf. Contexts come as a walk of the tree yields them, each before its children: a context that no row names belongs to the leaf
/// of its parent, except the children of the topmost context.
pub(crate) fn by_leaf(contexts: &[Context], rows: &[&'static Row]) -> BTreeMap<&'static str, Amount> {
    let mut leaves: BTreeMap<&'static str, Amount> = BTreeMap::new();
    let mut above: Vec<(u32, &'static str)> = Vec::new();
    for context in contexts {
        above.retain(|(level, _)| *level < context.level);
        let inherited = above.last().filter(|(level, _)| *level > 0).map(|(_, leaf)| *leaf);
        let leaf = named(&context.name, rows).or(inherited).unwrap_or(OTHER);
        above.push((context.level, leaf));
        let amount = leaves.entry(leaf).or_default();
        amount.allocated += sane(context.allocated);
        // a context whose blocks were not read counts as resident
        amount.resident += sane(context.resident.unwrap_or(context.allocated).min(context.allocated));
    }
    leaves
}

fn named(name: &str, rows: &[&'static Row]) -> Option<&'static str> {
    let all = rows.iter().flat_map(|row| -> Vec<(&'static str, &'static str)> {
        match row.rule {
            Rule::Contexts(beginnings) => beginnings.iter().map(|it| (*it, row.path)).collect(),
            _ => Vec::new(),
        }
    });
    let fitting = all.filter(|(beginning, _)| name.starts_with(beginning));
    fitting.max_by_key(|(beginning, _)| beginning.len()).map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows_for;
    use capability::Flavour;

    #[test]
    fn children_belong_to_their_parents_unless_named() {
        let context =
            |level, name: &str, allocated| Context { name: name.into(), level, allocated, ..Context::default() };
        let contexts = [
            context(0, "TopMemoryContext", 100),
            context(1, "CacheMemoryContext", 1000),
            context(2, "CachedPlanSource", 20),
            context(3, "CachedPlanQuery", 5),
            context(2, "never heard of", 7),
            context(1, "never heard of", 3),
            Context { resident: Some(30), ..context(1, "MessageContext", 50) },
        ];
        let version = "15.4".parse().expect("a version");
        let rows: Vec<_> = rows_for(Some(Flavour::Postgresql), Some(&version)).collect();
        let expected = [
            ("backends/catalogue_cache", Amount::whole(1007)),
            ("backends/message", Amount { resident: 30, allocated: 50 }),
            (OTHER, Amount::whole(3)),
            ("backends/plans", Amount::whole(25)),
            ("backends/top", Amount::whole(100)),
        ];
        assert_eq!(by_leaf(&contexts, &rows), expected.into());
    }
}
