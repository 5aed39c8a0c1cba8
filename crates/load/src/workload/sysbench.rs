// SPDX-License-Identifier: Apache-2.0
//! sysbench's workloads, as the statements a server sees from sysbench 1.0.20 with the same options.
//!
//! A transaction is a list of parts. A part is a number of statements of one class, all on one table that is drawn evenly
//! among the tables; their keys are drawn from the distribution in force.
//!
//! Three things differ, none of which a server can tell from its load: `select_random_*` draw the segment of the keys that
//! sysbench ties to a thread; `bulk_insert` sends whole statements of `bulk_rows` rows and counts each as one transaction, where
//! sysbench counts rows and sends when half a mebibyte has gathered; with `auto_inc` off, `oltp_insert` counts upwards from
//! the last row.

use super::sql::Class;
use super::text::{C_GROUPS, PAD_GROUPS, push_groups};
use super::{Name, Options, Rng, StatementSpec, Transaction, Workload, WorkloadError};
use crate::Protocol;
use crate::distribution::{Distribution, Draw as _, Sampler};
use std::sync::atomic::{AtomicU64, Ordering};

/// Builds a workload; `options` and `distribution` are fixed from here on.
///
/// # Errors
/// An option with which there is nothing to send, or more than a statement can hold.
pub fn build(
    name: Name,
    protocol: Protocol,
    options: &Options,
    distribution: &Distribution,
) -> Result<Box<dyn Workload>, WorkloadError> {
    options.check()?;
    if let Some(workload) = super::pgbench::build(name, protocol, options, distribution) {
        return Ok(workload);
    }
    let mut builder = Builder { protocol, options, statements: Vec::new(), parts: Vec::new(), frame: None };
    builder.workload(name);
    if builder.parts.is_empty() {
        return Err(WorkloadError::Empty { name });
    }
    let segment = options.table_size / u64::from(options.connections);
    Ok(Box::new(Sysbench {
        tables: if name == Name::BulkInsert { options.connections } else { options.tables },
        ids: distribution.sampler(1, options.table_size),
        segment: distribution.sampler(0, segment),
        segment_length: segment,
        segments: options.connections,
        range_size: options.range_size,
        delta: options.delta,
        inserted: AtomicU64::new(if name == Name::BulkInsert { 0 } else { options.table_size }),
        statements: builder.statements,
        parts: builder.parts,
        frame: builder.frame,
    }))
}

/// The statements that make the tables of a workload that does not run on what [`crate::fill`] makes: those of `bulk_insert`, one
/// table a connection, dropped first so that keys begin at 1. Empty for all others.
pub fn setup(name: Name, options: &Options) -> Vec<String> {
    let statements = |table: String| {
        let columns = "id INTEGER NOT NULL, k INTEGER DEFAULT '0' NOT NULL, PRIMARY KEY (id)";
        [format!("DROP TABLE IF EXISTS {table}"), format!("CREATE TABLE {table} ({columns})")]
    };
    setup_tables(name, options).into_iter().flat_map(statements).collect()
}

/// The tables that [`setup`] makes.
pub fn setup_tables(name: Name, options: &Options) -> Vec<String> {
    let count = if name == Name::BulkInsert { options.connections } else { 0 };
    (1..=count).map(|table| format!("sbtest{table}")).collect()
}

struct Sysbench {
    statements: Vec<StatementSpec>,
    parts: Vec<Part>,
    /// BEGIN and COMMIT.
    frame: Option<(usize, usize)>,
    tables: u32,
    ids: Sampler,
    /// Offsets within one connection's share of the keys.
    segment: Sampler,
    segment_length: u64,
    segments: u32,
    range_size: u64,
    delta: u64,
    /// The last key handed out where the client makes the keys.
    inserted: AtomicU64,
}

/// `times` statements of one class on one table.
struct Part {
    /// The statement for the first table; the others follow it.
    first: usize,
    times: u32,
    values: Values,
}

/// What the placeholders of a part stand for.
#[derive(Clone, Copy)]
enum Values {
    Id,
    IdRange,
    TextAndId,
    /// A DELETE, then an INSERT of the same key; `insert` is the statement for the first table.
    DeleteInsert {
        insert: usize,
    },
    RowWithoutKey,
    RowWithKeyZero,
    RowWithNewKey,
    BulkRows {
        rows: u32,
    },
    Points {
        points: u32,
    },
    Ranges {
        ranges: u32,
    },
}

impl Workload for Sysbench {
    fn statements(&self) -> &[StatementSpec] {
        &self.statements
    }

    fn next(&self, rng: &mut Rng, transaction: &mut Transaction) {
        if let Some((begin, _)) = self.frame {
            transaction.step(begin);
        }
        for part in &self.parts {
            self.add(part, rng, transaction);
        }
        if let Some((_, commit)) = self.frame {
            transaction.step(commit);
        }
    }
}

impl Sysbench {
    fn add(&self, part: &Part, rng: &mut Rng, transaction: &mut Transaction) {
        let table = self.table(part, rng);
        for _ in 0..part.times {
            transaction.step(part.first + table);
            match part.values {
                Values::Id => transaction.int(self.id(rng)),
                Values::IdRange => {
                    let low = self.id(rng);
                    transaction.int(low);
                    transaction.int(low.saturating_add_unsigned(self.range_size - 1));
                }
                Values::TextAndId => {
                    transaction.text(|out| push_groups(rng, C_GROUPS, out));
                    transaction.int(self.id(rng));
                }
                Values::DeleteInsert { insert } => {
                    let id = self.id(rng);
                    transaction.int(id);
                    transaction.step(insert + table);
                    transaction.int(id);
                    self.row(rng, transaction);
                }
                Values::RowWithoutKey => self.row(rng, transaction),
                Values::RowWithKeyZero => {
                    transaction.int(0);
                    self.row(rng, transaction);
                }
                Values::RowWithNewKey => {
                    transaction.int(self.new_ids(1));
                    self.row(rng, transaction);
                }
                Values::BulkRows { rows } => self.bulk_rows(rows, transaction),
                Values::Points { points } => (0..points).for_each(|_| transaction.int(self.key_in_segment(rng))),
                Values::Ranges { ranges } => (0..ranges).for_each(|_| self.range(rng, transaction)),
            }
        }
    }

    /// From 0.
    fn table(&self, part: &Part, rng: &mut Rng) -> usize {
        match part.values {
            // these two know one table only, as with sysbench
            Values::Points { .. } | Values::Ranges { .. } => 0,
            _ if self.tables == 1 => 0,
            _ => usize::try_from(rng.below(self.tables.into())).unwrap_or(0),
        }
    }

    fn id(&self, rng: &mut Rng) -> i64 {
        signed(self.ids.sample(rng))
    }

    /// k, c and pad.
    fn row(&self, rng: &mut Rng, transaction: &mut Transaction) {
        transaction.int(self.id(rng));
        transaction.text(|out| push_groups(rng, C_GROUPS, out));
        transaction.text(|out| push_groups(rng, PAD_GROUPS, out));
    }

    /// The first of `count` keys that nobody else gets.
    fn new_ids(&self, count: u32) -> i64 {
        signed(self.inserted.fetch_add(count.into(), Ordering::Relaxed) + 1)
    }

    fn bulk_rows(&self, rows: u32, transaction: &mut Transaction) {
        let first = self.new_ids(rows);
        for id in (first..).take(rows as usize) {
            transaction.int(id);
            transaction.int(id);
        }
    }

    fn range(&self, rng: &mut Rng, transaction: &mut Transaction) {
        let low = self.key_in_segment(rng);
        transaction.int(low);
        transaction.int(low.saturating_add_unsigned(self.delta));
    }

    fn key_in_segment(&self, rng: &mut Rng) -> i64 {
        let segment = if self.segments == 1 { 0 } else { rng.below(self.segments.into()) };
        signed(self.segment_length * segment + self.segment.sample(rng))
    }
}

/// Keys stay below 2^62 ([`Options::check`]).
fn signed(key: u64) -> i64 {
    i64::try_from(key).unwrap_or(i64::MAX)
}

struct Builder<'a> {
    protocol: Protocol,
    options: &'a Options,
    statements: Vec<StatementSpec>,
    parts: Vec<Part>,
    frame: Option<(usize, usize)>,
}

impl Builder<'_> {
    fn workload(&mut self, name: Name) {
        let options = self.options;
        match name {
            Name::OltpPointSelect => self.part(Class::PointSelect, 1, Values::Id),
            Name::OltpReadOnly => self.framed(Self::reads),
            Name::OltpReadWrite => self.framed(|builder| {
                builder.reads();
                builder.writes();
            }),
            Name::OltpWriteOnly => self.framed(Self::writes),
            Name::OltpUpdateIndex => self.part(Class::IndexUpdate, options.index_updates, Values::Id),
            Name::OltpUpdateNonIndex => self.part(Class::NonIndexUpdate, options.non_index_updates, Values::TextAndId),
            // to the MySQL family a key of 0 is one to hand out, and that is what sysbench sends
            Name::OltpInsert if options.auto_inc && self.protocol == Protocol::Mysql => {
                self.part(Class::Insert, 1, Values::RowWithKeyZero);
            }
            Name::OltpInsert if options.auto_inc => self.part(Class::InsertKeyless, 1, Values::RowWithoutKey),
            Name::OltpInsert => self.part(Class::Insert, 1, Values::RowWithNewKey),
            Name::OltpDelete => self.part(Class::Delete, 1, Values::Id),
            Name::BulkInsert => {
                let rows = options.bulk_rows;
                self.part_on(options.connections, Class::BulkInsert { rows }, 1, Values::BulkRows { rows });
            }
            Name::SelectRandomPoints => {
                let points = options.random_points;
                self.part_on(1, Class::RandomPoints { points }, 1, Values::Points { points });
            }
            Name::SelectRandomRanges => {
                let ranges = options.number_of_ranges;
                self.part_on(1, Class::RandomRanges { ranges }, 1, Values::Ranges { ranges });
            }
            // not made of parts: built before
            Name::PgbenchTpcbLike | Name::PgbenchSimpleUpdate | Name::PgbenchSelectOnly => {}
        }
    }

    fn framed(&mut self, parts: impl FnOnce(&mut Self)) {
        if !self.options.skip_trx {
            self.frame = Some((self.statement(Class::Begin, 1), self.statement(Class::Commit, 1)));
        }
        parts(self);
    }

    fn reads(&mut self) {
        let options = self.options;
        self.part(Class::PointSelect, options.point_selects, Values::Id);
        if options.range_selects {
            self.part(Class::SimpleRange, options.simple_ranges, Values::IdRange);
            self.part(Class::SumRange, options.sum_ranges, Values::IdRange);
            self.part(Class::OrderRange, options.order_ranges, Values::IdRange);
            self.part(Class::DistinctRange, options.distinct_ranges, Values::IdRange);
        }
    }

    fn writes(&mut self) {
        let options = self.options;
        self.part(Class::IndexUpdate, options.index_updates, Values::Id);
        self.part(Class::NonIndexUpdate, options.non_index_updates, Values::TextAndId);
        if options.delete_inserts > 0 {
            let insert = self.statement(Class::Insert, options.tables);
            self.part(Class::Delete, options.delete_inserts, Values::DeleteInsert { insert });
        }
    }

    fn part(&mut self, class: Class, times: u32, values: Values) {
        self.part_on(self.options.tables, class, times, values);
    }

    fn part_on(&mut self, tables: u32, class: Class, times: u32, values: Values) {
        if times > 0 {
            let first = self.statement(class, tables);
            self.parts.push(Part { first, times, values });
        }
    }

    /// Adds the statement of `class` for each table; returns the first one's index.
    fn statement(&mut self, class: Class, tables: u32) -> usize {
        let first = self.statements.len();
        self.statements.extend((1..=tables).map(|table| class.spec(self.protocol, table)));
        first
    }
}
