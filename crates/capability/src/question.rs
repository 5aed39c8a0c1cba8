// SPDX-License-Identifier: Apache-2.0
//! Statements that ask a server itself whether it has a capability. A capability that cannot be asked about without a change (programs, packages,
//! options of a start) has no question: it is shown by a server that was deployed, started, replicated and stopped with the table's words.

use crate::{Capability, Flavour, Version, words};
use Capability as C;
use Means::{Accepted, Library, Row, Word};

#[derive(Debug, Clone, Copy)]
pub struct Question {
    pub capability: Capability,
    /// The statement changes nothing.
    pub sql: &'static str,
    means: Means,
}

/// The meaning of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Means {
    /// A row means that the capability is there.
    Row,
    /// A first value that is among the table's words means that the capability is there, by these words.
    Word,
    /// An answer that is no error means that the capability is there.
    Accepted,
    /// A row means that the capability is there. No row means nothing, because packages leave out libraries and extensions, or the whole folder of
    /// them.
    Library,
}

/// What the server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Nothing, or the first value of the first row.
    Rows(Option<String>),
    /// An error, in the server's words.
    Refused { code: String, message: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Server and table say the same.
    Agrees,
    Differs,
    /// The server's answer allows both.
    Open,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Differs => "DIFFERS",
            Self::Open => "open",
        }
    }
}

impl Question {
    /// Whether the server says that it has the capability (`true`) or lacks it (`false`). `None`: it says neither. `words` are the table's.
    pub fn said(&self, words: &[&str], answer: &Answer) -> Option<bool> {
        match (self.means, answer) {
            (Accepted, answer) => Some(matches!(answer, Answer::Rows(_))),
            (_, Answer::Refused { .. }) => None,
            (Row, Answer::Rows(value)) => Some(value.is_some()),
            (Library, Answer::Rows(value)) => value.is_some().then_some(true),
            (Word, Answer::Rows(value)) => Some(value.as_ref().is_some_and(|value| {
                // a value that is not among the table's words: the server has the capability under another word
                words.is_empty() || words.contains(&value.as_str())
            })),
        }
    }

    /// Compares the table's words for this version with the server's answer. An error as the answer counts as a difference, because the question was
    /// wrong.
    pub fn judge(&self, flavour: Flavour, version: &Version, answer: &Answer) -> Verdict {
        let words = words(self.capability, flavour, version);
        match self.said(words, answer) {
            Some(said) if said != words.is_empty() => Verdict::Agrees,
            None if self.means == Library && is_without_libraries(answer) => Verdict::Open,
            _ => Verdict::Differs,
        }
    }
}

/// The folder of plugins cannot be read: `ER_CANT_READ_DIR`.
fn is_without_libraries(answer: &Answer) -> bool {
    match answer {
        Answer::Rows(_) => true,
        Answer::Refused { code, .. } => code == "1018",
    }
}

/// The questions for a server of this flavour.
pub fn questions(flavour: Flavour) -> impl Iterator<Item = &'static Question> {
    let (family, own) = match flavour {
        Flavour::Mariadb => (MYSQL_FAMILY, MARIADB),
        Flavour::Mysql | Flavour::Percona => (MYSQL_FAMILY, MYSQL),
        Flavour::Postgresql => (POSTGRESQL, &[][..]),
    };
    family.iter().chain(own)
}

const fn ask(capability: Capability, means: Means, sql: &'static str) -> Question {
    Question { capability, sql, means }
}

/// Each question is for MariaDB, MySQL and Percona Server: a capability that one of them lacks must be absent there.
const MYSQL_FAMILY: &[Question] = &[
    ask(C::FlushMethod, Word, "SHOW GLOBAL VARIABLES LIKE 'innodb_flush_method'"),
    ask(C::SynchronousIo, Row, "SHOW GLOBAL VARIABLES LIKE 'innodb_use_native_aio'"),
    ask(C::HugePages, Row, "SHOW GLOBAL VARIABLES LIKE 'large_pages'"),
    // sets the present size again
    ask(C::PoolResize, Accepted, "SET GLOBAL innodb_buffer_pool_size = @@GLOBAL.innodb_buffer_pool_size"),
    // MariaDB 10.2 still has the variable, without effect
    ask(
        C::EmptyFreeListAlgorithm,
        Word,
        "SHOW GLOBAL VARIABLES WHERE Variable_name = 'innodb_empty_free_list_algorithm' AND Value <> 'DEPRECATED'",
    ),
    ask(C::DedicatedServer, Word, "SHOW GLOBAL VARIABLES LIKE 'innodb_dedicated_server'"),
    ask(
        C::MemoryInstruments,
        Row,
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'performance_schema' \
         AND table_name = 'memory_summary_global_by_event_name'",
    ),
    ask(C::ServerStatus, Row, "SHOW GLOBAL STATUS LIKE 'Uptime'"),
    ask(C::InnodbStatus, Row, "SHOW ENGINE INNODB STATUS"),
    ask(
        C::InnodbMetrics,
        Word,
        "SELECT upper(column_name) FROM information_schema.columns WHERE table_schema = 'information_schema' \
         AND table_name = 'INNODB_METRICS' AND column_name IN ('STATUS', 'ENABLED')",
    ),
    ask(
        C::SlowLogDetail,
        Word,
        "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('log_slow_verbosity', 'log_slow_extra')",
    ),
    // the sandbox's own account, made without a plugin's name; MariaDB up to 10.3 leaves out the name of the usual plugin
    ask(
        C::DefaultAuthentication,
        Word,
        "SELECT if(plugin = '', 'mysql_native_password', plugin) FROM mysql.user WHERE concat(user, '@', host) = current_user()",
    ),
    ask(
        C::NativePassword,
        Row,
        "SELECT plugin_name FROM information_schema.plugins WHERE plugin_name = 'mysql_native_password'",
    ),
];

const MARIADB: &[Question] = &[
    ask(C::MallocLibrary, Word, "SHOW GLOBAL VARIABLES LIKE 'version_malloc_library'"),
    ask(
        C::AccountTable,
        Word,
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'mysql' \
         AND table_name IN ('global_priv', 'user') AND table_type = 'BASE TABLE'",
    ),
    // `all_plugins` also has the plugins that a library in the folder of plugins offers
    ask(
        C::CachingSha2Password,
        Library,
        "SELECT plugin_name FROM information_schema.all_plugins WHERE plugin_name = 'caching_sha2_password'",
    ),
    ask(C::Ed25519, Library, "SELECT plugin_name FROM information_schema.all_plugins WHERE plugin_name = 'ed25519'"),
    ask(C::Parsec, Library, "SELECT plugin_name FROM information_schema.all_plugins WHERE plugin_name = 'parsec'"),
    ask(C::RedoLogResize, Accepted, "SET GLOBAL innodb_log_file_size = @@GLOBAL.innodb_log_file_size"),
    ask(C::Gtid, Word, "SHOW GLOBAL VARIABLES LIKE 'gtid_binlog_pos'"),
    ask(C::GtidTags, Row, "SHOW GLOBAL VARIABLES LIKE 'gtid_executed'"),
];

const MYSQL: &[Question] = &[
    ask(
        C::CachingSha2Password,
        Row,
        "SELECT plugin_name FROM information_schema.plugins WHERE plugin_name = 'caching_sha2_password' \
         AND plugin_status = 'ACTIVE'",
    ),
    ask(C::Ed25519, Row, "SELECT plugin_name FROM information_schema.plugins WHERE plugin_name = 'ed25519'"),
    ask(C::Parsec, Row, "SELECT plugin_name FROM information_schema.plugins WHERE plugin_name = 'parsec'"),
    ask(C::RedoLogResize, Word, "SHOW GLOBAL VARIABLES LIKE 'innodb_redo_log_capacity'"),
    ask(C::Gtid, Word, "SHOW GLOBAL VARIABLES LIKE 'gtid_executed'"),
    ask(C::GtidTags, Accepted, "SELECT gtid_subset('3e11fa47-71ca-11e1-9e33-c80aa9429562:tag:1', '')"),
];

const POSTGRESQL: &[Question] = &[
    ask(C::FlushMethod, Word, "SELECT name FROM pg_settings WHERE name = 'debug_io_direct'"),
    ask(C::SynchronousIo, Row, "SELECT name FROM pg_settings WHERE name = 'io_method'"),
    ask(C::IoMethod, Word, "SELECT name FROM pg_settings WHERE name = 'io_method'"),
    ask(C::HugePages, Row, "SELECT name FROM pg_settings WHERE name = 'huge_pages'"),
    ask(C::HugePagesStatus, Word, "SELECT name FROM pg_settings WHERE name = 'huge_pages_status'"),
    ask(C::HugePagesNeeded, Word, "SELECT name FROM pg_settings WHERE name = 'shared_memory_size_in_huge_pages'"),
    ask(C::BackendMemoryContexts, Word, "SELECT relname FROM pg_class WHERE relname = 'pg_backend_memory_contexts'"),
    ask(
        C::LogBackendMemoryContexts,
        Word,
        "SELECT proname FROM pg_proc WHERE proname = 'pg_log_backend_memory_contexts'",
    ),
    ask(C::SharedMemoryAllocations, Word, "SELECT relname FROM pg_class WHERE relname = 'pg_shmem_allocations'"),
    ask(C::DatabaseStatistics, Word, "SELECT relname FROM pg_class WHERE relname = 'pg_stat_database'"),
    ask(C::BgwriterStatistics, Word, "SELECT relname FROM pg_class WHERE relname = 'pg_stat_bgwriter'"),
    ask(C::CheckpointerStatistics, Word, "SELECT relname FROM pg_class WHERE relname = 'pg_stat_checkpointer'"),
    ask(C::WalStatistics, Word, "SELECT relname FROM pg_class WHERE relname = 'pg_stat_wal'"),
    ask(C::IoStatistics, Word, "SELECT relname FROM pg_class WHERE relname = 'pg_stat_io'"),
    ask(C::StatementStatistics, Library, "SELECT name FROM pg_available_extensions WHERE name = 'pg_stat_statements'"),
    ask(C::JsonLog, Row, "SELECT name FROM pg_settings WHERE name = 'log_destination' AND extra_desc LIKE '%jsonlog%'"),
    ask(C::ReplicaOption, Row, "SELECT name FROM pg_settings WHERE name = 'max_slot_wal_keep_size'"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn question(flavour: Flavour, capability: Capability) -> &'static Question {
        questions(flavour).find(|question| question.capability == capability).expect("a question")
    }

    fn row(value: &str) -> Answer {
        Answer::Rows(Some(value.into()))
    }

    #[test]
    fn a_server_that_says_otherwise_than_the_table_differs() {
        let judge = |flavour, capability, version: &str, answer: &Answer| {
            question(flavour, capability).judge(flavour, &version.parse().expect("a version"), answer)
        };
        let none = Answer::Rows(None);
        let refused = |code: &str| Answer::Refused { code: code.into(), message: "in words".into() };
        let (refused, unreadable) = (refused("1238"), refused("1018"));

        let algorithm = C::EmptyFreeListAlgorithm;
        let named = row("innodb_empty_free_list_algorithm");
        assert_eq!(judge(Flavour::Mariadb, algorithm, "10.1.23", &named), Verdict::Agrees);
        assert_eq!(judge(Flavour::Mariadb, algorithm, "10.1.23", &none), Verdict::Differs);
        assert_eq!(judge(Flavour::Mariadb, algorithm, "10.11.19", &none), Verdict::Agrees);
        assert_eq!(judge(Flavour::Mariadb, algorithm, "10.11.19", &named), Verdict::Differs);
        assert_eq!(judge(Flavour::Mysql, algorithm, "9.7.4", &refused), Verdict::Differs, "not understood");

        assert_eq!(judge(Flavour::Mariadb, C::PoolResize, "10.1.23", &refused), Verdict::Agrees);
        assert_eq!(judge(Flavour::Mariadb, C::PoolResize, "10.2.11", &refused), Verdict::Differs);
        assert_eq!(judge(Flavour::Mysql, C::PoolResize, "9.7.4", &none), Verdict::Agrees);

        assert_eq!(
            judge(Flavour::Mysql, C::DefaultAuthentication, "9.7.4", &row("caching_sha2_password")),
            Verdict::Agrees
        );
        assert_eq!(
            judge(Flavour::Mysql, C::DefaultAuthentication, "9.7.4", &row("mysql_native_password")),
            Verdict::Differs
        );

        assert_eq!(judge(Flavour::Mariadb, C::Ed25519, "10.11.19", &none), Verdict::Open, "its library is not there");
        assert_eq!(judge(Flavour::Mariadb, C::Parsec, "10.11.19", &unreadable), Verdict::Open);
        assert_eq!(judge(Flavour::Mariadb, C::Parsec, "10.11.19", &refused), Verdict::Differs, "not understood");
        assert_eq!(judge(Flavour::Mariadb, C::Parsec, "10.11.19", &row("parsec")), Verdict::Differs);
    }

    #[test]
    fn what_stands_in_the_table_is_asked_once_of_each_flavour() {
        for flavour in Flavour::ALL {
            let asked: Vec<Capability> = questions(flavour).map(|question| question.capability).collect();
            let once: BTreeSet<Capability> = asked.iter().copied().collect();
            assert_eq!(asked.len(), once.len(), "{flavour}");
        }
    }
}
