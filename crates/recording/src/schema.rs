// SPDX-License-Identifier: Apache-2.0

/// The number of the schema below. It grows when a table or a column changes its meaning; new columns that an older reader may
/// ignore do not change it.
pub const SCHEMA: i64 = 1;

/// SQLite's `application_id` in our files: "WRNG".
pub(crate) const APPLICATION_ID: i64 = 0x5752_4e47;

/// Every table. `docs/recording.md` says what each column means.
pub(crate) const TABLES: &str = "
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE conditions (document TEXT NOT NULL);
CREATE TABLE arm (
    position INTEGER PRIMARY KEY, name TEXT NOT NULL, settings TEXT NOT NULL, delay TEXT, load TEXT,
    started_us INTEGER NOT NULL, ended_us INTEGER NOT NULL, cell TEXT NOT NULL, repeat INTEGER NOT NULL, layer_reads TEXT);
CREATE TABLE driver (arm INTEGER PRIMARY KEY REFERENCES arm (position), document TEXT NOT NULL);
CREATE TABLE output (
    arm INTEGER NOT NULL REFERENCES arm (position), name TEXT NOT NULL, content TEXT NOT NULL, left_out_bytes INTEGER NOT NULL);
CREATE TABLE witness (
    arm INTEGER NOT NULL REFERENCES arm (position), of TEXT NOT NULL, counter TEXT NOT NULL, before NOT NULL, after NOT NULL);
CREATE TABLE assertion (
    arm INTEGER NOT NULL REFERENCES arm (position), text TEXT NOT NULL, passed INTEGER NOT NULL, asked TEXT NOT NULL, measured REAL,
    at_least INTEGER NOT NULL);
CREATE TABLE broken (arm INTEGER PRIMARY KEY REFERENCES arm (position), reason TEXT NOT NULL, outcome TEXT);
CREATE TABLE measured (
    at_us INTEGER NOT NULL, arm TEXT, what TEXT NOT NULL, mechanism TEXT NOT NULL, asked TEXT, predicted TEXT, got TEXT,
    witness TEXT NOT NULL, within_tolerance INTEGER, tolerance TEXT, looks TEXT, came_on REAL);
CREATE TABLE snapshot (
    at_us INTEGER NOT NULL, arm TEXT, source TEXT NOT NULL, entity TEXT NOT NULL, format TEXT NOT NULL, content TEXT NOT NULL);
CREATE TABLE packed_snapshot (
    at_us INTEGER NOT NULL, arm TEXT, source TEXT NOT NULL, entity TEXT NOT NULL, format TEXT NOT NULL, content BLOB NOT NULL);
CREATE TABLE span (from_us INTEGER NOT NULL, to_us INTEGER NOT NULL, kind TEXT NOT NULL, entity TEXT NOT NULL, attributes TEXT NOT NULL);
CREATE TABLE event (at_us INTEGER NOT NULL, station TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE series (
    id INTEGER PRIMARY KEY, source TEXT NOT NULL, entity TEXT NOT NULL, name TEXT NOT NULL, unit TEXT NOT NULL,
    cumulative INTEGER NOT NULL, UNIQUE (source, entity, name));
CREATE TABLE sample (series INTEGER NOT NULL REFERENCES series (id), at_us INTEGER NOT NULL, value REAL);
";
