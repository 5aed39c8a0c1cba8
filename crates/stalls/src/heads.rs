// SPDX-License-Identifier: Apache-2.0
//! The servers that wrote a log. A server writes a head with its version at each start, so one log has the heads of several servers after an upgrade.

use crate::asked::Asked;
use crate::server::{Backoff, Server};
use capability::{Algorithm, Flavour};
use std::sync::Arc;

/// The most servers of one log. Further ones are not told apart, and nothing is known of them.
const MOST_SERVERS: usize = 16;

/// A server whose statements are judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Writer {
    pub(crate) server: Option<Server>,
    pub(crate) backoff: Backoff,
}

/// The servers of a log, in the order in which they first appear.
#[derive(Debug)]
pub(crate) struct Heads {
    /// The caller names the server, so the heads do not count.
    is_asked: bool,
    last: Option<Arc<str>>,
    now: usize,
    /// The first is that of the entries before any head.
    all: Vec<Part>,
}

/// What one server wrote.
#[derive(Debug, Default, PartialEq, Eq)]
struct Part {
    server: Option<Server>,
    /// The version, with the words after it, of a head that does not say whose server it is.
    unnamed: Option<String>,
    entries: u64,
    is_perconas: bool,
}

impl Part {
    fn of_head(line: &str) -> Self {
        let said = line.split_once(", Version: ").map_or(line, |(_, said)| said);
        let said = said.split_once(". started with:").map_or(said, |(said, _)| said);
        let server = Server::of_header(line);
        let is_unnamed = server.as_ref().is_some_and(|it| it.flavour == Flavour::Mysql) && !said.contains("MySQL");
        Self { server, unnamed: is_unnamed.then(|| said.to_owned()), ..Self::default() }
    }

    /// A build of Percona Server may have a head without its name. The fields of its entries tell it.
    fn is_built_percona(&self) -> bool {
        self.unnamed.is_some() && self.is_perconas
    }

    fn server(&self) -> Option<Server> {
        let mut server = self.server.clone()?;
        if self.is_built_percona() {
            server.flavour = Flavour::Percona;
        }
        Some(server)
    }

    fn writer(&self, asked: &Asked, is_perconas: bool) -> Writer {
        let server = self.server();
        let backoff = match asked.algorithm {
            _ if asked.wait_free == Some(0) => Backoff::NotThere,
            // a fork of MySQL that nobody knows may have it
            Some(Algorithm::Backoff) if self.unnamed.is_some() => Backoff::InForce,
            algorithm => Backoff::of(server.as_ref(), algorithm, is_perconas),
        };
        Writer { server, backoff }
    }
}

impl Default for Heads {
    fn default() -> Self {
        Self::new(&Asked::default())
    }
}

impl Heads {
    pub(crate) fn new(asked: &Asked) -> Self {
        let first = Part { server: asked.server.clone(), ..Part::default() };
        Self { is_asked: asked.server.is_some(), last: None, now: 0, all: vec![first] }
    }

    /// The number of the server with this head.
    pub(crate) fn number(&mut self, head: Option<&Arc<str>>) -> usize {
        let Some(head) = head.filter(|head| !self.is_asked && self.last.as_ref() != Some(*head)) else {
            return self.now;
        };
        let part = Part::of_head(head);
        self.last = Some(Arc::clone(head));
        let is_same = |it: &Part| it.server == part.server && it.unnamed == part.unnamed;
        self.now = match self.all.iter().skip(1).position(is_same) {
            Some(at) => at + 1,
            None if self.all.len() < MOST_SERVERS => {
                let is_last = self.all.len() + 1 == MOST_SERVERS;
                self.all.push(if is_last { Part::default() } else { part });
                self.all.len() - 1
            }
            None => MOST_SERVERS - 1,
        };
        self.now
    }

    /// The number of the server that wrote an entry with this head before it.
    pub(crate) fn entry(&mut self, head: Option<&Arc<str>>, is_perconas: bool) -> usize {
        let number = self.number(head);
        if let Some(part) = self.all.get_mut(number) {
            part.entries += 1;
            part.is_perconas |= is_perconas;
        }
        number
    }

    /// The servers, by their numbers. Entries before any head count as those of the first head.
    pub(crate) fn writers(&self, asked: &Asked) -> Vec<Writer> {
        let before = |part: &Part| match self.all.get(1) {
            Some(first) if !self.is_asked => first.writer(asked, part.is_perconas || first.is_perconas),
            _ => part.writer(asked, part.is_perconas),
        };
        let of = |(nth, part): (usize, &Part)| match nth {
            0 => before(part),
            _ => part.writer(asked, part.is_perconas),
        };
        self.all.iter().enumerate().map(of).collect()
    }

    /// The servers by name, each once.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for name in self.all.iter().filter_map(Part::server).map(|server| server.to_string()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// All servers, in the order in which they first appear. `None`: nothing names them.
    pub(crate) fn shown(&self) -> Option<String> {
        Some(self.names().join(", then ")).filter(|names| !names.is_empty())
    }

    pub(crate) fn are_several(&self) -> bool {
        self.names().len() > 1
    }

    pub(crate) fn notes(&self, asked: &Asked) -> Vec<String> {
        let mut notes = Vec::new();
        if let (true, Some(names)) = (self.are_several(), self.shown()) {
            let counter = match asked.wait_free {
                Some(_) => ". --wait-free is not compared with their stalls: each server has a counter of its own",
                None => "",
            };
            notes.push(format!("the server changed: {names}. Each entry is judged by the head before it{counter}"));
        }
        let before = self.all.first().map_or(0, |part| part.entries);
        if let (true, Some(Some(first))) = (before > 0 && !self.is_asked, self.all.get(1).map(Part::server)) {
            notes.push(format!("entries before the first head ({before}) count as those of {first}"));
        }
        let unnamed = self.all.iter().filter(|part| !part.is_built_percona()).filter_map(|part| part.unnamed.as_ref());
        notes.extend(unnamed.map(|said| {
            format!(
                "the head \"Version: {said}\" does not say whose server it is: it counts as MySQL, which has no innodb_empty_free_list_algorithm. If it is \
                 another: --server NAME@VERSION"
            )
        }));
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(said: &str) -> Arc<str> {
        format!("/usr/sbin/mysqld, Version: {said}. started with:").into()
    }

    /// The servers of entries with these heads before them, and what is known of each entry's server.
    fn of(entries: &[(Option<&str>, bool)], asked: &Asked) -> (Heads, Vec<Writer>) {
        let mut heads = Heads::new(asked);
        let numbers: Vec<usize> =
            entries.iter().map(|(said, is_perconas)| heads.entry(said.map(head).as_ref(), *is_perconas)).collect();
        let all = heads.writers(asked);
        let writers = numbers.into_iter().map(|number| all[number].clone()).collect();
        (heads, writers)
    }

    fn names(writers: &[Writer]) -> Vec<String> {
        writers.iter().map(|it| it.server.as_ref().map_or("-".to_owned(), ToString::to_string)).collect()
    }

    const OLD: &str = "10.2.11-MariaDB-log (MariaDB Server)";
    const NEW: &str = "11.4.5-MariaDB-log (MariaDB Server)";

    #[test]
    fn each_entry_is_of_the_server_whose_head_is_before_it() {
        let entries = [(None, false), (Some(OLD), false), (Some(NEW), false), (Some(OLD), false)];
        let (heads, writers) = of(&entries, &Asked { wait_free: Some(5), ..Asked::default() });
        let (old, new) = ("mariadb 10.2.11", "mariadb 11.4.5");
        assert_eq!(names(&writers), [old, old, new, old]);
        assert_eq!(heads.shown().as_deref(), Some("mariadb 10.2.11, then mariadb 11.4.5"));
        let notes = heads.notes(&Asked { wait_free: Some(5), ..Asked::default() });
        assert!(notes[0].starts_with("the server changed: mariadb 10.2.11, then mariadb 11.4.5"), "{notes:?}");
        assert!(notes[0].contains("--wait-free is not compared"), "{notes:?}");
        assert!(notes[1].starts_with("entries before the first head (1)"), "{notes:?}");
    }

    #[test]
    fn a_restart_is_no_change_and_what_the_caller_says_counts_for_all() {
        let asked = Asked::default();
        let (heads, _) = of(&[(Some(NEW), false), (Some(NEW), false)], &asked);
        assert_eq!((heads.are_several(), heads.notes(&asked)), (false, vec![]));
        let server = Server::of_header(&head("8.0.29-21 (Percona Server (GPL), Release 21)"));
        let asked = Asked { server, ..Asked::default() };
        let (heads, writers) = of(&[(None, false), (Some(OLD), false), (Some(NEW), false)], &asked);
        assert_eq!(names(&writers), ["percona 8.0.29"; 3]);
        assert_eq!((heads.shown().as_deref(), heads.notes(&asked)), (Some("percona 8.0.29"), vec![]));
    }

    #[test]
    fn a_head_that_names_nobody_is_of_mysql_unless_something_tells_a_fork() {
        const DEBIANS: &str = "9.7.4-2 ((Debian))";
        let asked = Asked::default();
        let (heads, writers) = of(&[(Some(DEBIANS), false)], &asked);
        assert_eq!((names(&writers), writers[0].backoff), (vec!["mysql 9.7.4".to_owned()], Backoff::NotThere));
        assert!(heads.notes(&asked)[0].contains("\"Version: 9.7.4-2 ((Debian))\" does not say"), "{heads:?}");

        let in_force = Asked { algorithm: Some(Algorithm::Backoff), ..Asked::default() };
        assert_eq!(of(&[(Some(DEBIANS), false)], &in_force).1[0].backoff, Backoff::InForce);
        let (heads, writers) = of(&[(Some("8.0.29-21 (Source distribution)"), true)], &asked);
        assert_eq!((names(&writers), writers[0].backoff), (vec!["percona 8.0.29".to_owned()], Backoff::Unusual));
        assert_eq!(heads.notes(&asked), Vec::<String>::new());

        let named = of(&[(Some("9.1.0 (MySQL Community Server - GPL)"), false)], &in_force);
        assert_eq!((named.1[0].backoff, named.0.notes(&in_force)), (Backoff::NotThere, vec![]));
    }

    #[test]
    fn servers_without_end_take_no_memory_without_end() {
        let mut heads = Heads::new(&Asked::default());
        for patch in 0..1000 {
            heads.entry(Some(&head(&format!("10.2.{patch}-MariaDB"))), false);
        }
        let writers = heads.writers(&Asked::default());
        assert_eq!(writers.len(), MOST_SERVERS);
        assert_eq!(writers[MOST_SERVERS - 1].server, None, "nothing is known of those that are not told apart");
    }
}
