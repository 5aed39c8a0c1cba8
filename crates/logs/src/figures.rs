// SPDX-License-Identifier: Apache-2.0
//! The measurements of a statement in a log: the numbers in the `#` lines of a slow log.
//!
//! Sources: MySQL 8.0 manual, "The Slow Query Log" (`log_slow_extra`); Percona Server manual, "Slow query log" (`log_slow_verbosity`);
//! MariaDB manual, "Slow Query Log Extended Statistics".

/// No statement takes longer than this: a year. Servers whose clock was set back write longer times (MySQL bug 35396).
const LONGEST_US: u64 = 366 * 86_400 * 1_000_000;

/// Times in microseconds. `None`: the log does not have this number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// The time from its begin to its end, as the server measured it: `Query_time`, PostgreSQL's `duration`.
    pub took_us: Option<u64>,
    /// `Lock_time`: in MariaDB 10.11 the waits for table locks, without those for row locks; in MySQL 9.7 only those for row locks (both measured).
    pub lock_us: Option<u64>,
    /// The waits for row locks: `InnoDB_rec_lock_wait`.
    pub row_lock_us: Option<u64>,
    /// The wait for admission to InnoDB (`innodb_thread_concurrency`): `InnoDB_queue_wait`.
    pub queue_us: Option<u64>,
    /// Pages read from disk: `InnoDB_IO_r_ops`, `Pages_read`.
    pub reads: Option<u64>,
    /// The waits for these reads: `InnoDB_IO_r_wait`, `Pages_read_time`.
    pub read_us: Option<u64>,
    /// Accessed pages: `InnoDB_pages_distinct` (each once), `Pages_accessed` (each time).
    pub pages: Option<u64>,
    /// The time in the storage engine: MariaDB's `Engine_time`.
    pub engine_us: Option<u64>,
    pub rows_sent: Option<u64>,
    pub rows_examined: Option<u64>,
    pub rows_affected: Option<u64>,
    pub bytes_sent: Option<u64>,
    /// One of so many statements, or of so many sessions, is in the log: Percona Server's `Log_slow_rate_limit`.
    pub one_in: Option<u64>,
    /// The finest step of the clock by which the entry's moment is known: 1, 1000 (PostgreSQL's `%m`), or 1 000 000. 0: it is not known; only
    /// [`crate::open_timed`] gives such entries.
    pub step_us: u64,
    /// The entry has lines about InnoDB that only Percona Server writes.
    pub is_perconas: bool,
    /// The entry has a field that only MariaDB writes.
    pub is_mariadbs: bool,
    /// Messages of its own tell its waits for locks (PostgreSQL's `log_lock_waits`).
    pub has_wait_message: bool,
    /// A field occurs twice, or its value is no number: a server does not write such an entry.
    pub is_damaged: bool,
}

impl Figures {
    /// Takes the fields of one line: `# Query_time: 0.000155  Lock_time: 0.000000 Rows_sent: 1`.
    pub(crate) fn take(&mut self, line: &str) {
        let mut name = None;
        for word in line.split_ascii_whitespace() {
            if let Some(field) = word.strip_suffix(':') {
                name = Some(field);
            } else if let Some(field) = name.take() {
                self.set(field, word);
            }
        }
    }

    fn set(&mut self, name: &str, word: &str) {
        self.is_mariadbs |= matches!(name, "QC_hit" | "Engine_time");
        let value = match name {
            "Query_time" | "Lock_time" | "InnoDB_IO_r_wait" | "InnoDB_rec_lock_wait" | "InnoDB_queue_wait" => {
                decimal(word, 6)
            }
            "Pages_read_time" | "Engine_time" => decimal(word, 3),
            "Rows_sent"
            | "Rows_examined"
            | "Rows_affected"
            | "Bytes_sent"
            | "InnoDB_IO_r_ops"
            | "Pages_read"
            | "InnoDB_pages_distinct"
            | "Pages_accessed"
            | "Log_slow_rate_limit" => word.parse().ok(),
            _ => return,
        };
        let field = match name {
            "Query_time" => &mut self.took_us,
            "Lock_time" => &mut self.lock_us,
            "InnoDB_rec_lock_wait" => &mut self.row_lock_us,
            "InnoDB_queue_wait" => &mut self.queue_us,
            "InnoDB_IO_r_ops" | "Pages_read" => &mut self.reads,
            "InnoDB_IO_r_wait" | "Pages_read_time" => &mut self.read_us,
            "InnoDB_pages_distinct" | "Pages_accessed" => &mut self.pages,
            "Engine_time" => &mut self.engine_us,
            "Rows_sent" => &mut self.rows_sent,
            "Rows_examined" => &mut self.rows_examined,
            "Rows_affected" => &mut self.rows_affected,
            "Log_slow_rate_limit" => &mut self.one_in,
            _ => &mut self.bytes_sent,
        };
        // servers whose clock was set back write such times; the entry's own time must be right
        let is_impossible = value.is_none() && name != "Query_time" && is_decimal(word);
        self.is_damaged |= field.is_some() || value.is_none() && !is_impossible;
        *field = value;
        self.is_perconas |= name.starts_with("InnoDB_");
    }
}

/// `0.744840` with 6 digits gives its millionths. `None`: the word is no such number, or is too long for a statement.
pub(crate) fn decimal(word: &str, digits: usize) -> Option<u64> {
    if !is_decimal(word) {
        return None;
    }
    let (whole, fraction) = word.split_once('.').unwrap_or((word, ""));
    let mut value: u64 = whole.parse().ok()?;
    for place in 0..digits {
        let digit = fraction.as_bytes().get(place).map_or(0, |byte| u64::from(byte - b'0'));
        value = value.checked_mul(10)?.checked_add(digit)?;
    }
    (value <= LONGEST_US).then_some(value)
}

fn is_decimal(word: &str) -> bool {
    let (whole, fraction) = word.split_once('.').unwrap_or((word, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !whole.is_empty() && are_digits(whole) && are_digits(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_with_one_of_many_statements_says_so() {
        let mut figures = Figures::default();
        figures.take("# Log_slow_rate_type: query  Log_slow_rate_limit: 100");
        assert_eq!((figures.one_in, figures.is_damaged), (Some(100), false));
    }

    #[test]
    fn the_fields_of_all_servers() {
        let mut percona = Figures::default();
        percona.take("# Query_time: 0.744840  Lock_time: 0.000003  Rows_sent: 1  Rows_examined: 2  Rows_affected: 0  Bytes_sent: 197");
        percona.take("#   InnoDB_IO_r_ops: 1  InnoDB_IO_r_bytes: 16384  InnoDB_IO_r_wait: 0.000009");
        percona.take("#   InnoDB_rec_lock_wait: 0.000000  InnoDB_queue_wait: 0.000001");
        percona.take("#   InnoDB_pages_distinct: 4");
        let expected = Figures {
            took_us: Some(744_840),
            lock_us: Some(3),
            row_lock_us: Some(0),
            queue_us: Some(1),
            reads: Some(1),
            read_us: Some(9),
            pages: Some(4),
            rows_sent: Some(1),
            rows_examined: Some(2),
            rows_affected: Some(0),
            bytes_sent: Some(197),
            is_perconas: true,
            ..Figures::default()
        };
        assert_eq!(percona, expected);
        let mut mariadb = Figures::default();
        mariadb.take("# Query_time: 0.010107  Lock_time: 0.000000  Rows_sent: 1  Rows_examined: 0");
        mariadb.take("# Pages_accessed: 5  Pages_read: 1  Pages_prefetched: 0  Pages_updated: 0  Old_rows_read: 0");
        mariadb.take("# Pages_read_time: 0.0096  Engine_time: 10.0257");
        assert_eq!((mariadb.read_us, mariadb.engine_us, mariadb.pages), (Some(9), Some(10_025), Some(5)));
        let mut extra = Figures::default();
        extra.take("# Query_time: 0.25 Lock_time: 0.1 Rows_sent: 1  Rows_examined: 1 Thread_id: 10 Errno: 0 Bytes_sent: 60 Start: 2026-11-21T22:43:55.25Z End: 2026-11-21T22:43:55.5Z");
        assert_eq!((extra.took_us, extra.bytes_sent, extra.is_damaged), (Some(250_000), Some(60), false));
    }

    #[test]
    fn what_no_server_writes_is_damage() {
        for line in ["# Query_time: 1 Query_time: 2", "# Lock_time: -1", "# Query_time: 18446744073709.550781"] {
            let mut figures = Figures::default();
            figures.take(line);
            assert!(figures.is_damaged, "{line}");
        }
        assert_eq!(decimal("1.", 6), Some(1_000_000));
        assert_eq!([decimal(".5", 6), decimal("1e3", 6), decimal("", 6)], [None, None, None]);
    }
}
