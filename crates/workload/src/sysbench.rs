// SPDX-License-Identifier: Apache-2.0
//! sysbench's workloads: their options, and the statements that a server sees from sysbench 1.0.20 with the same options. A new option needs a row of
//! [`SETTINGS`] and its effect further down, and nothing outside of this file.
//!
//! A transaction is a list of parts. A part is a number of statements of one class, all on one table that is drawn evenly
//! among the tables; their keys are drawn from the distribution in force.
//!
//! Three things differ, none of which a server can tell from its load: `select_random_*` draw the segment of the keys that
//! sysbench ties to a thread; `bulk_insert` sends whole statements of `bulk_rows` rows and counts each as one transaction, where
//! sysbench counts rows and sends when half a mebibyte has gathered; with `auto_inc` off, `oltp_insert` counts upwards from
//! the last row.

use crate::Name::{
    BulkInsert, OltpDelete, OltpInsert, OltpPointSelect, OltpReadOnly, OltpReadWrite, OltpUpdateIndex,
    OltpUpdateNonIndex, OltpWriteOnly, PgbenchSelectOnly, PgbenchSimpleUpdate, PgbenchTpcbLike, SelectRandomPoints,
    SelectRandomRanges,
};
use crate::distribution::{Distribution, Draw as _, Sampler};
use crate::settings::{ON_OFF, settings};
use crate::text::{C_GROUPS, PAD_GROUPS, push_groups};
use crate::{Kind, Name, Rng, StatementSpec, Tables, Transaction, Workload};
use capability::Protocol;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

const READS: [Name; 2] = [OltpReadOnly, OltpReadWrite];
const WRITES: [Name; 2] = [OltpReadWrite, OltpWriteOnly];
/// The workloads that look for rows by id and insert none, so that an id beyond the last row stays without a row.
const IDS: [Name; 5] = [OltpPointSelect, OltpReadOnly, OltpUpdateIndex, OltpUpdateNonIndex, OltpDelete];
const TRANSACTIONS: [Name; 3] = [OltpReadOnly, OltpReadWrite, OltpWriteOnly];

/// Keys are signed 64-bit numbers at the server; half of them leaves room for ranges beyond the last row.
pub(crate) const MOST_ROWS: u64 = 1 << 62;
/// Statements of one kind in one transaction; with more of them, a transaction is a batch job and not a load.
const STATEMENTS: RangeInclusive<u64> = 0..=100_000;
const ROWS: RangeInclusive<u64> = 1..=MOST_ROWS;
/// Both protocols count the parameters of a statement in 16 bits.
const PARAMETERS: RangeInclusive<u64> = 1..=65_535;
const PAIRS_OF_PARAMETERS: RangeInclusive<u64> = 1..=32_767;

settings! {
    skip_trx: bool = false, ON_OFF, TRANSACTIONS, true, "No BEGIN and COMMIT: each statement commits by itself";
    point_selects: u64 = 10, STATEMENTS, READS, true;
    range_selects: bool = true, ON_OFF, READS, true, "off: none of the four kinds of range statements";
    range_size: u64 = 100, ROWS, READS, true, "Rows in a range";
    simple_ranges: u64 = 1, STATEMENTS, READS, true;
    sum_ranges: u64 = 1, STATEMENTS, READS, true;
    order_ranges: u64 = 1, STATEMENTS, READS, true;
    distinct_ranges: u64 = 1, STATEMENTS, READS, true;
    index_updates: u64 = 1, STATEMENTS, WRITES, true;
    non_index_updates: u64 = 1, STATEMENTS, WRITES, true;
    delete_inserts: u64 = 1, STATEMENTS, WRITES, true;
    // the arms of an experiment share their tables: each arm would hand out the same keys
    auto_inc: bool = true, ON_OFF, [OltpInsert], false, "off: oltp_insert sends the keys of its rows; on: the server chooses them";
    random_points: u64 = 10, PARAMETERS, [SelectRandomPoints], true, "Values in the IN list of select_random_points";
    number_of_ranges: u64 = 10, PAIRS_OF_PARAMETERS, [SelectRandomRanges], true, "Ranges in a statement of select_random_ranges";
    delta: u64 = 5, 0..=MOST_ROWS, [SelectRandomRanges], true, "Width of each of those ranges";
    ids_times_rows: u64 = 1, 1..=1000, IDS, true, "Draw ids from 1 to this number times the rows of a table; with 2, half of the drawn ids do not exist";
    // no experiment has bulk_insert
    bulk_rows: u64 = 500, PAIRS_OF_PARAMETERS, [BulkInsert], false, "Rows in a statement of bulk_insert";
}

/// Statements with the same text, except the table's number.
struct Class {
    name: &'static str,
    kind: Kind,
    /// `{}` is the table, `?` a placeholder.
    template: &'static str,
    /// The list after the template: an item, the number of items, the text between two items, and the text after the list.
    list: Option<(&'static str, u64, &'static str, &'static str)>,
}

const BEGIN: Class = class("begin", Kind::Other, "BEGIN");
const COMMIT: Class = class("commit", Kind::Other, "COMMIT");
const POINT_SELECT: Class = class("point_select", Kind::Read, "SELECT c FROM {} WHERE id=?");
const SIMPLE_RANGE: Class = class("simple_range", Kind::Read, "SELECT c FROM {} WHERE id BETWEEN ? AND ?");
const SUM_RANGE: Class = class("sum_range", Kind::Read, "SELECT SUM(k) FROM {} WHERE id BETWEEN ? AND ?");
const ORDER_RANGE: Class = class("order_range", Kind::Read, "SELECT c FROM {} WHERE id BETWEEN ? AND ? ORDER BY c");
const DISTINCT_RANGE: Class =
    class("distinct_range", Kind::Read, "SELECT DISTINCT c FROM {} WHERE id BETWEEN ? AND ? ORDER BY c");
const INDEX_UPDATE: Class = class("index_update", Kind::Write, "UPDATE {} SET k=k+1 WHERE id=?");
const NON_INDEX_UPDATE: Class = class("non_index_update", Kind::Write, "UPDATE {} SET c=? WHERE id=?");
const DELETE: Class = class("delete", Kind::Write, "DELETE FROM {} WHERE id=?");
const INSERT: Class = class("insert", Kind::Write, "INSERT INTO {} (id, k, c, pad) VALUES (?, ?, ?, ?)");
/// The server hands out the key.
const INSERT_KEYLESS: Class = class("insert", Kind::Write, "INSERT INTO {} (k, c, pad) VALUES (?, ?, ?)");

const fn class(name: &'static str, kind: Kind, template: &'static str) -> Class {
    Class { name, kind, template, list: None }
}

fn bulk_insert(rows: u64) -> Class {
    let list = Some(("(?, ?)", rows, ", ", ""));
    Class { list, ..class("bulk_insert", Kind::Write, "INSERT INTO {} (id, k) VALUES ") }
}

fn random_points(points: u64) -> Class {
    let list = Some(("?", points, ", ", ")"));
    Class { list, ..class("random_points", Kind::Read, "SELECT id, k, c, pad FROM {} WHERE k IN (") }
}

fn random_ranges(ranges: u64) -> Class {
    let list = Some(("k BETWEEN ? AND ?", ranges, " OR ", ""));
    Class { list, ..class("random_ranges", Kind::Read, "SELECT count(k) FROM {} WHERE ") }
}

impl Class {
    fn spec(&self, protocol: Protocol, table: u32) -> StatementSpec {
        let mut sql = self.template.replace("{}", &format!("sbtest{table}"));
        if let Some((item, times, between, end)) = self.list {
            for index in 0..times {
                sql.push_str(if index > 0 { between } else { "" });
                sql.push_str(item);
            }
            sql.push_str(end);
        }
        StatementSpec::new(self.name, self.kind, &sql, protocol)
    }
}

/// `None`: there would be nothing to send. The options are within their limits.
pub(crate) fn build(
    name: Name,
    protocol: Protocol,
    tables: &Tables,
    options: &Options,
    distribution: &Distribution,
) -> Option<Box<dyn Workload>> {
    let mut builder = Builder { protocol, tables, options, statements: Vec::new(), parts: Vec::new(), frame: None };
    builder.workload(name);
    if builder.parts.is_empty() {
        return None;
    }
    let segment = tables.table_size / u64::from(tables.connections);
    Some(Box::new(Sysbench {
        tables: if name == BulkInsert { tables.connections } else { tables.tables },
        ids: distribution.sampler(1, tables.table_size.saturating_mul(options.ids_times_rows).min(MOST_ROWS)),
        segment: distribution.sampler(0, segment),
        segment_length: segment,
        segments: tables.connections,
        range_size: options.range_size,
        delta: options.delta,
        inserted: AtomicU64::new(if name == BulkInsert { 0 } else { tables.table_size }),
        statements: builder.statements,
        parts: builder.parts,
        frame: builder.frame,
    }))
}

struct Builder<'a> {
    protocol: Protocol,
    tables: &'a Tables,
    options: &'a Options,
    statements: Vec<StatementSpec>,
    parts: Vec<Part>,
    frame: Option<(usize, usize)>,
}

impl Builder<'_> {
    fn workload(&mut self, name: Name) {
        let options = self.options;
        match name {
            OltpPointSelect => self.part(&POINT_SELECT, 1, Values::Id),
            OltpReadOnly => self.framed(Self::reads),
            OltpReadWrite => self.framed(|builder| {
                builder.reads();
                builder.writes();
            }),
            OltpWriteOnly => self.framed(Self::writes),
            OltpUpdateIndex => self.part(&INDEX_UPDATE, options.index_updates, Values::Id),
            OltpUpdateNonIndex => self.part(&NON_INDEX_UPDATE, options.non_index_updates, Values::TextAndId),
            // in the MySQL family a key of 0 tells the server to hand out a key; sysbench sends 0
            OltpInsert if options.auto_inc && self.protocol == Protocol::Mysql => {
                self.part(&INSERT, 1, Values::RowWithKeyZero);
            }
            OltpInsert if options.auto_inc => self.part(&INSERT_KEYLESS, 1, Values::RowWithoutKey),
            OltpInsert => self.part(&INSERT, 1, Values::RowWithNewKey),
            OltpDelete => self.part(&DELETE, 1, Values::Id),
            BulkInsert => {
                let rows = options.bulk_rows;
                self.part_on(self.tables.connections, &bulk_insert(rows), 1, Values::BulkRows { rows });
            }
            SelectRandomPoints => {
                let points = options.random_points;
                self.part_on(1, &random_points(points), 1, Values::Points { points });
            }
            SelectRandomRanges => {
                let ranges = options.number_of_ranges;
                self.part_on(1, &random_ranges(ranges), 1, Values::Ranges { ranges });
            }
            // not made of parts: built before
            PgbenchTpcbLike | PgbenchSimpleUpdate | PgbenchSelectOnly => {}
        }
    }

    fn framed(&mut self, parts: impl FnOnce(&mut Self)) {
        if !self.options.skip_trx {
            self.frame = Some((self.statement(&BEGIN, 1), self.statement(&COMMIT, 1)));
        }
        parts(self);
    }

    fn reads(&mut self) {
        let options = self.options;
        self.part(&POINT_SELECT, options.point_selects, Values::Id);
        if options.range_selects {
            self.part(&SIMPLE_RANGE, options.simple_ranges, Values::IdRange);
            self.part(&SUM_RANGE, options.sum_ranges, Values::IdRange);
            self.part(&ORDER_RANGE, options.order_ranges, Values::IdRange);
            self.part(&DISTINCT_RANGE, options.distinct_ranges, Values::IdRange);
        }
    }

    fn writes(&mut self) {
        let options = self.options;
        self.part(&INDEX_UPDATE, options.index_updates, Values::Id);
        self.part(&NON_INDEX_UPDATE, options.non_index_updates, Values::TextAndId);
        if options.delete_inserts > 0 {
            let insert = self.statement(&INSERT, self.tables.tables);
            self.part(&DELETE, options.delete_inserts, Values::DeleteInsert { insert });
        }
    }

    fn part(&mut self, class: &Class, times: u64, values: Values) {
        self.part_on(self.tables.tables, class, times, values);
    }

    fn part_on(&mut self, tables: u32, class: &Class, times: u64, values: Values) {
        if times > 0 {
            let first = self.statement(class, tables);
            self.parts.push(Part { first, times, values });
        }
    }

    /// Adds the statement of `class` for each table; returns the first one's index.
    fn statement(&mut self, class: &Class, tables: u32) -> usize {
        let first = self.statements.len();
        self.statements.extend((1..=tables).map(|table| class.spec(self.protocol, table)));
        first
    }
}

struct Sysbench {
    statements: Vec<StatementSpec>,
    parts: Vec<Part>,
    /// The statements BEGIN and COMMIT.
    frame: Option<(usize, usize)>,
    tables: u32,
    ids: Sampler,
    /// Offsets within one connection's share of the keys.
    segment: Sampler,
    segment_length: u64,
    segments: u32,
    range_size: u64,
    delta: u64,
    /// The last key that was handed out, when the client makes the keys.
    inserted: AtomicU64,
}

/// `times` statements of one class on one table.
struct Part {
    /// The statement for the first table; the others follow it.
    first: usize,
    times: u64,
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
        rows: u64,
    },
    Points {
        points: u64,
    },
    Ranges {
        ranges: u64,
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

    /// The table's index, from 0.
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

    /// Adds k, c and pad.
    fn row(&self, rng: &mut Rng, transaction: &mut Transaction) {
        transaction.int(self.id(rng));
        transaction.text(|out| push_groups(rng, C_GROUPS, out));
        transaction.text(|out| push_groups(rng, PAD_GROUPS, out));
    }

    /// The first of `count` keys that no other statement gets.
    fn new_ids(&self, count: u64) -> i64 {
        signed(self.inserted.fetch_add(count, Ordering::Relaxed) + 1)
    }

    fn bulk_rows(&self, rows: u64, transaction: &mut Transaction) {
        let first = self.new_ids(rows);
        for id in first..first.saturating_add_unsigned(rows) {
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

/// Keys stay below 2^62 ([`MOST_ROWS`]).
fn signed(key: u64) -> i64 {
    i64::try_from(key).unwrap_or(i64::MAX)
}
