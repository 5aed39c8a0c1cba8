// SPDX-License-Identifier: Apache-2.0
//! The present database of each connection of a log.

use std::collections::HashMap;

/// The database is remembered for at least this many connections. A log may have more connections than fit into memory.
const REMEMBERED: usize = 50_000;

/// Two generations: when the younger one is full, it becomes the older one. Connections of the former older one that were not used since then are
/// forgotten.
#[derive(Debug, Default)]
pub(crate) struct Databases {
    younger: HashMap<String, String>,
    older: HashMap<String, String>,
}

impl Databases {
    pub(crate) fn insert(&mut self, session: &str, database: String) {
        if self.younger.len() >= REMEMBERED && !self.younger.contains_key(session) {
            self.older = std::mem::take(&mut self.younger);
        }
        match self.younger.get_mut(session) {
            Some(known) => *known = database,
            None => drop(self.younger.insert(session.to_owned(), database)),
        }
    }

    pub(crate) fn remove(&mut self, session: &str) {
        self.younger.remove(session);
        self.older.remove(session);
    }

    pub(crate) fn of(&mut self, session: &str) -> Option<String> {
        if let Some(database) = self.younger.get(session) {
            return Some(database.clone());
        }
        let database = self.older.remove(session)?;
        self.insert(session, database.clone());
        Some(database)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_heard_of_stays_known_and_the_rest_is_bounded() {
        let mut databases = Databases::default();
        databases.insert("busy", "shop".into());
        databases.insert("gone", "shop".into());
        databases.remove("gone");
        assert_eq!(databases.of("gone"), None);
        for number in 0..5 * REMEMBERED {
            databases.insert(&number.to_string(), "other".into());
            if number % 1000 == 0 {
                assert_eq!(databases.of("busy").as_deref(), Some("shop"), "after {number}");
            }
        }
        assert!(databases.younger.len() + databases.older.len() <= 2 * REMEMBERED);
        assert_eq!(databases.of("0"), None);
    }
}
