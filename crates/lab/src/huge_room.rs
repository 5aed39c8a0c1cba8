// SPDX-License-Identifier: Apache-2.0
//! Room in the host's pool of huge pages for the server of a phase: made before the server starts, given back when it has stopped.

use crate::cell::Phase;
use crate::error::Error;
use crate::lab::Lab;
use crate::server::Serving;
use experiment::HugePages;
use sandbox::{Flavour, ServerOption, StartOptions};
use squeeze::huge_pool::{self, HugePool};
use std::collections::BTreeMap;
use units::Bytes;

/// Memory of the MySQL family that goes into huge pages, and how often the server has it.
const AREAS: [(&str, u64); 4] = [
    ("innodb_buffer_pool_size", 1),
    ("innodb_log_buffer_size", 2),
    ("key_buffer_size", 1),
    ("aria_pagecache_buffer_size", 1),
];

impl Lab<'_> {
    /// Makes room for a server that is stopped.
    pub(crate) fn make_huge_room(&mut self, phase: &Phase) -> Result<(), Error> {
        if !phase.start.wants_huge_pages() {
            return Ok(());
        }
        // RAM is hidden in huge pages, too: it is hidden again when the server has what it needs
        self.squeezes.give_ram_back(&mut self.run)?;
        let pages = self.pages_needed(phase)?;
        let pool = huge_pool::make(&mut self.run, pages)?;
        self.notes.event("squeeze", format!("room for the server: {}", pool.describe()))?;
        if !pool.is_enough() && phase.start.huge_pages == Some(HugePages::On) {
            let room = pool.describe();
            pool.give_back(&mut self.run)?;
            return Err(Error::HugePages { room });
        }
        self.huge_pool = Some(pool);
        Ok(())
    }

    /// Gives the room back; the server has stopped.
    pub(crate) fn give_huge_room_back(&mut self) -> Result<(), Error> {
        let Some(pool) = self.huge_pool.take() else { return Ok(()) };
        Ok(HugePool::give_back(pool, &mut self.run)?)
    }

    fn pages_needed(&mut self, phase: &Phase) -> Result<u64, Error> {
        let page_bytes = huge_pool::page_bytes()?;
        let Some(sandbox) = &self.sandbox else { return Ok(0) };
        if let Some(pages) = sandbox.huge_pages_needed(&phase.server_options)? {
            return Ok(pages);
        }
        match sandbox.flavour() {
            Flavour::Postgresql => Ok(self.seen_without(phase)?.div_ceil(page_bytes)),
            Flavour::Mariadb | Flavour::Mysql | Flavour::Percona => {
                let none = BTreeMap::new();
                let variables = self.conditions.as_ref().map_or(&none, |conditions| &conditions.server.variables);
                Ok(at_most(variables, &phase.server_options, page_bytes))
            }
        }
    }

    /// A version that does not tell its need before its start is started without huge pages, and its shared memory is measured.
    fn seen_without(&mut self, phase: &Phase) -> Result<u64, Error> {
        let Some(sandbox) = &self.sandbox else { return Ok(0) };
        let extra_options = sandbox.manifest.installation.start_options(&phase.server_options);
        let start = StartOptions { extra_options, ..StartOptions::default() };
        let serving = Serving::start(sandbox, &mut self.run, &start, &self.notes)?;
        let bytes = sandbox::shared_memory_bytes(serving.running.pid);
        serving.stop(&mut self.run, &self.notes)?;
        Ok(bytes)
    }
}

/// A number of pages that is larger than these servers have needed: each area plus a twentieth for the descriptions of its pages, in whole huge pages.
/// Unused pages are given back with the others; the memory that really lies in huge pages is measured.
fn at_most(variables: &BTreeMap<String, String>, options: &[ServerOption], page_bytes: u64) -> u64 {
    let of_arm = |name: &str| options.iter().rev().find(|option| option.key() == name).and_then(ServerOption::value);
    let bytes = |name: &str| {
        let written = of_arm(name).or_else(|| variables.get(name).map(String::as_str));
        written.and_then(|text| text.parse::<Bytes>().ok()).map_or(0, |size| size.0)
    };
    let pages = |size: u64| if size == 0 { 0 } else { (size + size / 20).div_ceil(page_bytes) + 1 };
    AREAS.iter().map(|(name, times)| times * pages(bytes(name))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pages that MariaDB 10.11 and MySQL 9.7 have taken for a pool of 256 MiB: 259 and 132 pages of 2 MiB.
    #[test]
    fn there_is_room_for_what_servers_take() {
        let of = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let mib = |count: u64| (count << 20).to_string();
        let pool = ServerOption::new("innodb_buffer_pool_size", Some("256M")).unwrap();
        let mariadb = of(&[
            ("innodb_buffer_pool_size", &mib(128)),
            ("innodb_log_buffer_size", &mib(16)),
            ("key_buffer_size", &mib(128)),
            ("aria_pagecache_buffer_size", &mib(128)),
        ]);
        let options = std::slice::from_ref(&pool);
        let pages = at_most(&mariadb, options, 2 << 20);
        assert!((259..300).contains(&pages), "{pages}");
        let mysql = of(&[("innodb_buffer_pool_size", &mib(256))]);
        assert!((132..140).contains(&at_most(&mysql, &[], 2 << 20)));
        assert!(at_most(&mysql, options, 1 << 30) <= 2);
    }
}
