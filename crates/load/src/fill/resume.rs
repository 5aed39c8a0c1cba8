// SPDX-License-Identifier: Apache-2.0
//! Inspects the tables that an interrupted fill left, and finds the missing rows.
//!
//! The same seed gives the same rows, and each transaction holds whole blocks of them. So the rows in the tables can be compared with the planned
//! rows, without a record of the fill's progress. Any other row is a user's data, and the fill is refused before anything is changed.

use super::facts::ask;
use super::plan::{BLOCK_ROWS, split};
use super::rows::{Checksum, Form, Rows};
use super::{Error, FillPlan, Lane, go_on};
use crate::Protocol;
use crate::admin::Connection;
use std::ops::RangeInclusive;
use std::sync::atomic::AtomicBool;

/// The state of the tables before the missing rows are written.
pub(super) struct Kept {
    /// Ranges of missing keys.
    pub(super) lanes: Vec<Lane>,
    /// The checksums of the rows in the tables, in order of tables.
    pub(super) checksums: Vec<Checksum>,
    /// Names of the existing indexes, in order of tables.
    pub(super) indexes: Vec<Vec<String>>,
}

impl Kept {
    pub(super) fn nothing(plan: &FillPlan) -> Self {
        let tables = plan.spec.tables as usize;
        Self {
            lanes: plan.lanes.clone(),
            checksums: vec![Checksum::default(); tables],
            indexes: vec![Vec::new(); tables],
        }
    }

    pub(super) fn rows(&self) -> u64 {
        self.checksums.iter().map(|sum| sum.rows).sum()
    }
}

/// Compares each existing table with the plan, and finds the missing keys. Changes nothing that a user can see.
///
/// # Errors
/// A table holds anything that this plan would not have written; or `stop` was set.
pub(super) fn survey(plan: &FillPlan, stop: &AtomicBool, connection: &mut Connection) -> Result<Kept, Error> {
    let (mut kept, mut gaps) = (Kept { lanes: Vec::new(), ..Kept::nothing(plan) }, Vec::new());
    for (index, table) in (1..=plan.spec.tables).enumerate() {
        let name = FillPlan::table_name(table);
        let mut runs = Vec::new();
        if plan.facts.existing.contains(&name) {
            wait_for_others(plan, &name, connection)?;
            same_columns(plan, &name, connection)?;
            kept.indexes[index] = planned_indexes(plan, table, connection)?;
            for run in found(plan, &name, connection)? {
                runs.push(compare(plan, table, &run, stop)?);
                kept.checksums[index].merge(&run);
            }
        }
        gaps.extend(missing(&runs, plan.rows_per_table).into_iter().map(|keys| (table, keys)));
    }
    let parts = match plan.facts.protocol {
        Protocol::Mysql => 1,
        Protocol::Postgresql => u64::from(plan.spec.threads).div_ceil(gaps.len().max(1) as u64),
    };
    kept.lanes = gaps.into_iter().flat_map(|(table, keys)| split(table, keys, parts)).collect();
    if plan.facts.protocol == Protocol::Postgresql {
        free_aborted_rows(plan, connection)?;
    }
    Ok(kept)
}

/// Connections of a killed fill may still be at work: a bulk load, a rollback, an index.
fn wait_for_others(plan: &FillPlan, name: &str, connection: &mut Connection) -> Result<(), Error> {
    match plan.facts.protocol {
        Protocol::Mysql => {
            // The account may have no right to lock: then the first statement that meets a lock waits for it.
            let _ = connection.execute(&format!("LOCK TABLES {name} WRITE"));
            let _ = connection.execute("UNLOCK TABLES");
        }
        Protocol::Postgresql => {
            let lock = format!("LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE");
            for sql in ["BEGIN", &lock, "COMMIT"] {
                connection.execute(sql).map_err(Error::server(format!("wait for other work on {name}")))?;
            }
        }
    }
    Ok(())
}

fn same_columns(plan: &FillPlan, name: &str, connection: &mut Connection) -> Result<(), Error> {
    let (schema, auto) = match plan.facts.protocol {
        Protocol::Mysql => ("DATABASE()", "extra LIKE '%auto_increment%'"),
        Protocol::Postgresql => ("current_schema()", "(COALESCE(column_default, '') LIKE 'nextval(%')::int"),
    };
    let sql = format!(
        "SELECT column_name, data_type, COALESCE(character_maximum_length, 0), {auto} FROM information_schema.columns \
         WHERE table_schema = {schema} AND table_name = '{name}' ORDER BY ordinal_position"
    );
    let rows = ask(connection, &sql)?;
    let read: Vec<String> = (0..rows.len())
        .map(|row| {
            let text = |column| rows.text(row, column).unwrap_or_default();
            column(&text(0), &text(1), &text(2), text(3) == "1")
        })
        .collect();
    let planned = planned_columns(plan);
    if read == planned {
        return Ok(());
    }
    Err(Error::Resume {
        table: name.to_owned(),
        what: format!("its columns are {} and should be {}", read.join(", "), planned.join(", ")),
    })
}

fn column(name: &str, kind: &str, length: &str, auto: bool) -> String {
    let length = if length == "0" { String::new() } else { format!("({length})") };
    format!("{name} {kind}{length}{}", if auto { " with automatic keys" } else { "" })
}

fn planned_columns(plan: &FillPlan) -> Vec<String> {
    let (int, text, filler) = match plan.facts.protocol {
        Protocol::Mysql => ("int", "char", "binary"),
        Protocol::Postgresql => ("integer", "character", "character"),
    };
    let id = if plan.wide_ids { "bigint" } else { int };
    let own = [
        column("id", id, "0", plan.spec.auto_inc),
        column("k", int, "0", false),
        column("c", text, "120", false),
        column("pad", text, "60", false),
    ];
    let fillers = plan.filler_bytes.iter().enumerate();
    let fillers =
        fillers.map(|(index, width)| column(&format!("filler{}", index + 1), filler, &width.to_string(), false));
    own.into_iter().chain(fillers).collect()
}

/// The existing indexes; each must be one of the plan's.
fn planned_indexes(plan: &FillPlan, table: u32, connection: &mut Connection) -> Result<Vec<String>, Error> {
    let name = FillPlan::table_name(table);
    let read = indexes(plan, &name, connection)?;
    let mut planned: Vec<String> = plan.indexes(table).into_iter().map(|(index, _)| index).collect();
    let refuse = |what: String| Err(Error::Resume { table: name.clone(), what });
    if plan.facts.protocol == Protocol::Mysql {
        if !read.iter().any(|index| index == "PRIMARY") {
            return refuse("it has no primary key".to_owned());
        }
        planned.push("PRIMARY".to_owned());
    }
    match read.iter().find(|index| !planned.contains(index)) {
        Some(strange) => refuse(format!("it has the index {strange}")),
        None => Ok(read),
    }
}

fn indexes(plan: &FillPlan, name: &str, connection: &mut Connection) -> Result<Vec<String>, Error> {
    let sql = match plan.facts.protocol {
        Protocol::Mysql => format!(
            "SELECT DISTINCT index_name FROM information_schema.statistics \
             WHERE table_schema = DATABASE() AND table_name = '{name}'"
        ),
        Protocol::Postgresql => {
            format!("SELECT indexname FROM pg_indexes WHERE schemaname = current_schema() AND tablename = '{name}'")
        }
    };
    let rows = ask(connection, &sql)?;
    Ok((0..rows.len()).filter_map(|row| rows.text(row, 0)).collect())
}

/// The ranges of existing keys, with the server's sums. InnoDB's rows are written in one range from the first key, PostgreSQL's in
/// several ranges of whole blocks.
fn found(plan: &FillPlan, name: &str, connection: &mut Connection) -> Result<Vec<Checksum>, Error> {
    let sql = match plan.facts.protocol {
        Protocol::Mysql => {
            format!("SELECT MIN(id), MAX(id), COUNT(*), SUM(id), SUM(k) FROM {name} HAVING COUNT(*) > 0")
        }
        Protocol::Postgresql => format!(
            "SELECT MIN(first), MAX(last), SUM(held), SUM(ids), SUM(ks) FROM (\
             SELECT MIN(id) AS first, MAX(id) AS last, COUNT(*) AS held, SUM(id) AS ids, SUM(k) AS ks, \
             block - ROW_NUMBER() OVER (ORDER BY block) AS run \
             FROM (SELECT id, k, (id - 1) / {BLOCK_ROWS} AS block FROM {name}) AS present GROUP BY block\
             ) AS blocks GROUP BY run ORDER BY 1"
        ),
    };
    let rows = ask(connection, &sql)?;
    let number = |row: usize, column: usize| rows.parse::<i128>(row, column);
    let run = |row: usize| {
        let of = |column: usize| number(row, column).and_then(|value| u64::try_from(value).ok());
        let wide = |column: usize| number(row, column).and_then(|value| u128::try_from(value).ok());
        Some(Checksum { id_min: of(0)?, id_max: of(1)?, rows: of(2)?, id_sum: wide(3)?, k_sum: wide(4)? })
    };
    // Our keys begin at 1, so a number below that is not ours.
    let strange = || Error::Resume { table: name.to_owned(), what: "it has keys below 1".to_owned() };
    (0..rows.len()).map(|row| run(row).ok_or_else(strange)).collect()
}

/// Compares the rows of a range with the planned rows; returns the range.
fn compare(plan: &FillPlan, table: u32, found: &Checksum, stop: &AtomicBool) -> Result<RangeInclusive<u64>, Error> {
    let keys = whole(plan, found);
    let planned = sums(plan, table, &keys, stop)?;
    match planned.difference(found) {
        None => Ok(keys),
        Some((what, planned, read)) => Err(Error::Resume {
            table: FillPlan::table_name(table),
            what: format!("of the keys {} to {}, {what} is {read} and should be {planned}", keys.start(), keys.end()),
        }),
    }
}

/// The whole range that the plan wrote if it has these ends.
fn whole(plan: &FillPlan, found: &Checksum) -> RangeInclusive<u64> {
    match plan.facts.protocol {
        Protocol::Mysql => 1..=found.id_max.min(plan.rows_per_table),
        Protocol::Postgresql => {
            let first = found.id_min.saturating_sub(1) / BLOCK_ROWS * BLOCK_ROWS + 1;
            let last = found.id_max.checked_next_multiple_of(BLOCK_ROWS).unwrap_or(u64::MAX);
            first..=last.min(plan.rows_per_table)
        }
    }
}

/// The checksum of the planned rows with these keys.
fn sums(plan: &FillPlan, table: u32, keys: &RangeInclusive<u64>, stop: &AtomicBool) -> Result<Checksum, Error> {
    let mut rows = Rows::new(plan.spec.seed, table, &plan.spec.keys, plan.rows_per_table, *keys.start());
    let mut text = Vec::new();
    for key in keys.clone() {
        if key.is_multiple_of(STOP_EVERY) {
            go_on(stop)?;
        }
        text.clear();
        rows.push(Form::Lines, &mut text);
    }
    Ok(rows.checksum)
}

const STOP_EVERY: u64 = 1 << 16;

/// The keys up to `rows` that are in none of `runs`; `runs` must be in order.
fn missing(runs: &[RangeInclusive<u64>], rows: u64) -> Vec<RangeInclusive<u64>> {
    let mut next = 1;
    let mut gaps = Vec::new();
    for run in runs {
        if *run.start() > next {
            gaps.push(next..=*run.start() - 1);
        }
        next = *run.end() + 1;
    }
    if next <= rows {
        gaps.push(next..=rows);
    }
    gaps
}

/// Rows of an interrupted COPY take room until VACUUM frees it; the missing rows then use that room.
fn free_aborted_rows(plan: &FillPlan, connection: &mut Connection) -> Result<(), Error> {
    for name in (1..=plan.spec.tables).map(FillPlan::table_name) {
        if plan.facts.existing.contains(&name) {
            let sql = format!("VACUUM {name}");
            connection.execute(&sql).map_err(Error::server(format!("free what an interrupted COPY left in {name}")))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_between_runs() {
        assert_eq!(missing(&[], 1000), [1..=1000]);
        assert_eq!(missing(&[1..=1000], 1000), []);
        assert_eq!(missing(&[1..=256], 1000), [257..=1000]);
        assert_eq!(missing(&[257..=512, 769..=1000], 1000), [1..=256, 513..=768]);
    }
}
