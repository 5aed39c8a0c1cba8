// SPDX-License-Identifier: Apache-2.0
//! The keys of `[server]`, besides the options, that an arm may have, too: they say how the server is started.

use super::squeeze::one_of;
use crate::model::{Flavour, Load};
use crate::section::Section;
use crate::server_start::{HugePages, Malloc, PgBouncer, PoolMode, ServerStart, Thp, path_of};
use crate::tree::Value;
use capability::MALLOCS;
use std::collections::BTreeMap;

/// Keys of `[server]` and of an arm's own `server`.
pub(super) const KEYS: [&str; 5] = ["huge_pages", "malloc", "thp", "environment", "pgbouncer"];
/// The variables that mean the same as `huge_pages`.
const HUGE_PAGE_OPTIONS: [&str; 2] = ["huge_pages", "large_pages"];
/// Environment variables that the sandbox sets itself, and what to write instead.
const SET_BY_THE_SANDBOX: [(&str, &str); 4] = [
    ("LD_PRELOAD", "write server.malloc with the whole path of the library"),
    ("LD_LIBRARY_PATH", "the server's libraries are found by its installation: leave it out"),
    ("LC_ALL", "the server's messages are read: leave it out"),
    ("WRINGER_", "variables with this beginning are Wringer's own: leave it out"),
];

pub(super) fn read(server: &Section<'_>, flavour: Flavour) -> ServerStart {
    ServerStart {
        huge_pages: huge_pages(server),
        malloc: malloc(server),
        thp: one_of(server, "thp", Thp::ALL, Thp::name),
        environment: environment(server),
        pgbouncer: pgbouncer(server, flavour),
    }
}

/// `true` and `false`, or the words of the servers.
fn huge_pages(server: &Section<'_>) -> Option<HugePages> {
    let node = server.node("huge_pages")?;
    let asked = match node.value {
        Value::Bool(true) => Some(HugePages::On),
        Value::Bool(false) => Some(HugePages::Off),
        _ => one_of(server, "huge_pages", HugePages::ALL, HugePages::name),
    };
    let options = server.section("options");
    let mut entries = options.entries();
    if let Some((key, entry)) = entries.find(|(key, _)| HUGE_PAGE_OPTIONS.contains(&key.replace('-', "_").as_str())) {
        let message = format!("server.options.{key} is what server.huge_pages sets");
        server.wrong(Some(&entry.node), &message, Some("keep server.huge_pages, and leave the option out".into()));
    }
    asked
}

fn malloc(server: &Section<'_>) -> Option<Malloc> {
    let node = server.node("malloc")?;
    match &node.value {
        Value::Text(text) if path_of(text).starts_with('/') => Some(Malloc(text.clone())),
        Value::Text(text) if text.contains('/') => {
            let message = format!("server.malloc cannot be \"{text}\": the server starts in another folder");
            server.wrong(Some(node), &message, Some("write the whole path of the library, from / on".into()));
            None
        }
        _ => server.choice("malloc", &MALLOCS.map(|setting| setting.name)).map(|word| Malloc(word.value.to_owned())),
    }
}

/// The names and texts of the environment; an empty text is a value, too.
fn environment(server: &Section<'_>) -> BTreeMap<String, String> {
    let section = server.section("environment");
    let mut found = BTreeMap::new();
    for (key, entry) in section.entries() {
        let is_name = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !key.starts_with(|c: char| c.is_ascii_digit());
        let ours =
            SET_BY_THE_SANDBOX.iter().find(|(name, _)| key == name || name.ends_with('_') && key.starts_with(name));
        let wrong = |message: String, hint: &str| server.wrong(Some(&entry.node), &message, Some(hint.to_owned()));
        match (&entry.node.value, ours) {
            (_, Some((_, hint))) => wrong(format!("server.environment.{key} is set by Wringer"), hint),
            _ if !is_name => wrong(
                format!("server.environment.{key} is no name of a variable"),
                "letters, digits and _, no digit first",
            ),
            (Value::Text(text), None) if !text.contains('\0') => _ = found.insert(key.to_owned(), text.clone()),
            _ => wrong(
                format!("server.environment.{key} is no text"),
                "write the value in quotes: MALLOC_ARENA_MAX = \"2\"",
            ),
        }
    }
    found
}

/// A number of connections, or a table. An arm writes `"none"` to turn the section's value off.
fn pgbouncer(server: &Section<'_>, flavour: Flavour) -> Option<PgBouncer> {
    let node = server.node("pgbouncer")?;
    let asked = match &node.value {
        Value::Text(word) if word == "none" => return None,
        Value::Bool(false) => return None,
        Value::Table(_) => table(server),
        _ => {
            let connections = server.integer("pgbouncer", CONNECTIONS)?;
            Some(PgBouncer { connections: connections.value, mode: PoolMode::default() })
        }
    };
    if flavour != Flavour::Postgresql {
        let message = format!("pgBouncer stands in front of PostgreSQL, and the server is {flavour}");
        server.wrong(Some(node), &message, Some("leave server.pgbouncer out".into()));
    }
    asked
}

const CONNECTIONS: std::ops::RangeInclusive<u32> = 1..=10_000;

fn table(server: &Section<'_>) -> Option<PgBouncer> {
    let section = server.section("pgbouncer");
    let connections = section.integer("connections", CONNECTIONS);
    if section.node("connections").is_none() {
        section.missing("connections", "write connections = 80, how many it keeps to the server");
    }
    let mode = one_of(&section, "mode", PoolMode::ALL, PoolMode::name).unwrap_or_default();
    section.finish();
    Some(PgBouncer { connections: connections?.value, mode })
}

/// Refuses prepared statements when pgBouncer changes the server connection: only one server connection knows a statement that a client has prepared.
pub(super) fn check_load(top: &Section<'_>, start: &ServerStart, load: &Load) {
    let Some(pgbouncer) = start.pgbouncer.filter(|it| it.mode != PoolMode::Session) else { return };
    if load.is_of_ours() && load.prepared {
        let section = top.section("load");
        let mode = pgbouncer.mode.name();
        let message = format!("with server.pgbouncer.mode = \"{mode}\" prepared statements get to other connections");
        let node = section.node("prepared").or_else(|| section.node("workload"));
        section.wrong(node, &message, Some("write prepared = false below [load], or mode = \"session\"".into()));
    }
}

#[cfg(test)]
mod tests {
    use crate::{Experiment, HugePages, Malloc, PgBouncer, PoolMode, Problem, Thp};

    const GOOD: &str = r#"schema = 1
name = "sample"
[server]
flavour = "postgresql"
huge_pages = true
malloc = "jemalloc"
thp = "never"
pgbouncer = 80
[fill]
rows = 100
[load]
workload = "oltp_point_select"
[[arm]]
name = "section's"
[[arm]]
name = "own"
server = { huge_pages = "try", malloc = "/usr/lib/libmine.so", pgbouncer = { connections = 20, mode = "transaction" } }
load.prepared = false
[[arm]]
name = "none"
server.huge_pages = false
server.malloc = "glibc"
server.pgbouncer = "none"
"#;

    fn problems(from: &str, to: &str) -> Vec<Problem> {
        assert!(GOOD.contains(from), "{from}");
        Experiment::parse(&GOOD.replacen(from, to, 1)).unwrap_err()
    }

    /// Checks that there is one problem, with this line, and with these words in its message and in its suggestion.
    fn refused(from: &str, to: &str, line: usize, words: [&str; 2]) {
        let found = problems(from, to);
        let [problem] = &found[..] else { panic!("{to}: {found:#?}") };
        let suggestion = problem.suggestion.clone().unwrap_or_default();
        assert!(problem.line == line && problem.message.contains(words[0]), "{problem:#?}");
        assert!(suggestion.contains(words[1]), "{problem:#?}");
    }

    #[test]
    fn an_arms_start_lies_over_the_sections_and_restarts_the_server() {
        let experiment = Experiment::parse(GOOD).unwrap();
        let [section, own, none] = &experiment.arms[..] else { panic!("three arms") };
        assert_eq!(section.start.huge_pages, Some(HugePages::On));
        assert_eq!(section.start.malloc, Some(Malloc("jemalloc".into())));
        assert_eq!(section.start.pgbouncer, Some(PgBouncer { connections: 80, mode: PoolMode::Session }));
        assert_eq!(own.start.huge_pages, Some(HugePages::Try));
        assert_eq!(own.start.malloc, Some(Malloc("/usr/lib/libmine.so".into())));
        assert_eq!(own.start.pgbouncer, Some(PgBouncer { connections: 20, mode: PoolMode::Transaction }));
        assert_eq!((none.start.malloc.clone(), none.start.pgbouncer), (Some(Malloc("glibc".into())), None));
        assert!(section.start.wants_huge_pages() && !none.start.wants_huge_pages());
        assert_eq!(none.start.thp, Some(Thp::Never), "what the arm does not say, the section says");
        assert_eq!(experiment.arms.iter().map(|arm| arm.restart).collect::<Vec<_>>(), [false, true, true]);
        assert_eq!(own.overrides["server.huge_pages"], "try");
    }

    #[test]
    fn what_cannot_be_meant_is_told_with_its_line() {
        refused("huge_pages = true", "huge_pages = \"always\"", 5, ["server.huge_pages cannot be", "on"]);
        refused("malloc = \"jemalloc\"", "malloc = \"jmalloc\"", 6, ["server.malloc cannot be", "jemalloc"]);
        refused("malloc = \"jemalloc\"", "malloc = \"./mine.so\"", 6, ["another folder", "whole path"]);
        refused("thp = \"never\"", "thp = \"no\"", 7, ["server.thp cannot be", "never"]);
        refused("pgbouncer = 80", "pgbouncer = 0", 8, ["server.pgbouncer cannot be 0", "from 1"]);
        refused(
            "pgbouncer = 80",
            "pgbouncer = { mode = \"session\" }",
            8,
            ["connections is missing", "connections = 80"],
        );
        refused("thp =", "large_pages =", 7, ["unknown key \"large_pages\"", "huge_pages = true"]);
        refused("load.prepared = false\n", "", 12, ["get to other connections", "prepared = false"]);
        refused("server.malloc = \"glibc\"", "server.flavour = \"mysql\"", 22, ["cannot vary", "second file"]);
        let twice = "server.options.huge_pages = \"on\"\nserver.malloc = \"glibc\"";
        refused("server.malloc = \"glibc\"", twice, 22, ["is what server.huge_pages sets", "leave the option out"]);
    }

    #[test]
    fn pgbouncer_is_for_postgresql_and_hidden_ram_not_in_the_servers_pool() {
        let found = problems("flavour = \"postgresql\"", "flavour = \"mariadb\"");
        assert!(found.iter().all(|problem| problem.message.contains("stands in front of PostgreSQL")), "{found:#?}");
        let hides = "[squeeze]\nram = { hide = \"1G\", mechanism = \"pool\" }\n[load]";
        refused("[load]", hides, 11, ["hides what server.huge_pages would take", "holder"]);
    }
}
