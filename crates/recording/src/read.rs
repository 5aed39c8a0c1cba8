// SPDX-License-Identifier: Apache-2.0
//! A recording, read back.

use crate::Error;
use crate::cell::{Counter, value_or_nan};
use crate::reader::{Reader, counter};
use crate::snapshots;
use evidence::{
    Arm, ArmOutcome, Conditions, Driven, Event, Evidence, Host, Measured, Output, Point, Series, Server, Snapshot,
    Span, Tool, Verdict, Witness,
};
use rusqlite::Row;
use std::collections::BTreeMap;
use std::path::Path;

pub(crate) fn evidence(
    path: &Path,
    is_needed: impl Fn(&Series) -> bool,
    kept: impl Fn(Snapshot) -> Snapshot,
) -> Result<Evidence, Error> {
    let reader = Reader::open(path)?;
    let arms = reader.arms()?;
    let measured = reader.measured()?;
    let samples = reader.samples(is_needed)?;
    let events = reader.rows("SELECT at_us, station, text FROM event ORDER BY at_us, rowid", |row| {
        Ok(Event { at_us: counter(row, 0)?, station: row.get(1)?, text: row.get(2)? })
    })?;
    let (snapshots, spans) = (snapshots::all(&reader, kept)?, reader.spans()?);
    let elapsed_us = match reader.meta("elapsed_us")? {
        Some(text) => text.parse().unwrap_or_default(),
        None => last_time(&arms, &measured, &events).max(last_seen(&snapshots, &spans)).max(reader.last_sample()?),
    };
    Ok(Evidence {
        run_id: reader.meta("run_id")?.unwrap_or_default(),
        started: reader.meta("started")?.unwrap_or_default(),
        elapsed_us,
        is_cut_off: reader.meta("finished")?.is_none(),
        experiment: reader.meta("experiment")?.unwrap_or_default(),
        files: reader.files()?,
        conditions: reader.conditions()?,
        arms,
        measured,
        samples,
        snapshots,
        spans,
        events,
    })
}

pub(crate) fn is_finished(path: &Path) -> Result<bool, Error> {
    Ok(Reader::open(path)?.meta("finished")?.is_some())
}

impl Reader<'_> {
    fn files(&self) -> Result<BTreeMap<String, String>, Error> {
        let named = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let rows = self.rows("SELECT substr(key, 6), value FROM meta WHERE key GLOB 'file:*'", named)?;
        Ok(rows.into_iter().collect())
    }

    /// The conditions are empty when the run was cut off before they were known.
    fn conditions(&self) -> Result<Conditions, Error> {
        let found = self.rows("SELECT document FROM conditions", |row| row.get::<_, String>(0))?;
        match found.first() {
            Some(text) => self.json(text),
            None => Ok(Conditions {
                tool: Tool::default(),
                host: Host::default(),
                server: Server::default(),
                mechanisms: BTreeMap::new(),
                traits: BTreeMap::new(),
                data: None,
                caveats: vec!["the recording was cut off before its conditions were written".into()],
            }),
        }
    }

    fn arms(&self) -> Result<Vec<Arm>, Error> {
        let mut witnesses: BTreeMap<i64, Vec<Witness>> = BTreeMap::new();
        let found = self.rows("SELECT arm, of, counter, before, after FROM witness ORDER BY rowid", |row| {
            let witness =
                Witness { of: row.get(1)?, counter: row.get(2)?, before: counter(row, 3)?, after: counter(row, 4)? };
            Ok((row.get(0)?, witness))
        })?;
        found.into_iter().for_each(|(arm, witness)| witnesses.entry(arm).or_default().push(witness));
        let mut drivers = self.drivers()?;
        let mut verdicts = self.verdicts()?;
        let mut broken = self.broken()?;
        // older recordings have the turn only in the name
        let more = if self.has_column("arm", "cell")? { "cell, repeat" } else { "NULL AS cell, NULL AS repeat" };
        let layer_reads = if self.has_column("arm", "layer_reads")? { "layer_reads" } else { "NULL AS layer_reads" };
        let columns = "position, name, settings, delay, load, started_us, ended_us";
        self.rows(&format!("SELECT {columns}, {more}, {layer_reads} FROM arm ORDER BY position"), |row| {
            Ok(RawArm {
                position: row.get("position")?,
                name: row.get("name")?,
                turn: row.get::<_, Option<String>>("cell")?.zip(row.get("repeat")?),
                settings: row.get("settings")?,
                delay: row.get("delay")?,
                load: row.get("load")?,
                layer_reads: row.get("layer_reads")?,
                started_us: row.get::<_, Counter>("started_us")?.0,
                ended_us: row.get::<_, Counter>("ended_us")?.0,
            })
        })?
        .into_iter()
        .map(|raw| {
            let (cell, repeat) = raw.turn.unwrap_or_else(|| turn_in(&raw.name));
            let (broke_off, outcome) = broken.remove(&raw.position).unzip();
            Ok(Arm {
                cell,
                repeat,
                settings: self.json(&raw.settings)?,
                delay: self.optional_json(raw.delay)?,
                load: self.optional_json(raw.load)?,
                driven: drivers.remove(&raw.position),
                layer_reads: self.optional_json(raw.layer_reads)?,
                witnesses: witnesses.remove(&raw.position).unwrap_or_default(),
                verdicts: verdicts.remove(&raw.position).unwrap_or_default(),
                broke_off,
                outcome: outcome.unwrap_or_default(),
                name: raw.name,
                started_us: raw.started_us,
                ended_us: raw.ended_us,
            })
        })
        .collect()
    }

    /// Verdicts by the arm's position.
    fn verdicts(&self) -> Result<BTreeMap<i64, Vec<Verdict>>, Error> {
        if !self.has_table("assertion")? {
            return Ok(BTreeMap::new());
        }
        let at_least = if self.has_column("assertion", "at_least")? { "at_least" } else { "0" };
        let query = format!("SELECT arm, text, passed, asked, measured, {at_least} FROM assertion ORDER BY rowid");
        let found = self.rows(&query, |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get::<_, String>(3)?, row.get(4)?, row.get(5)?))
        })?;
        let mut verdicts: BTreeMap<i64, Vec<Verdict>> = BTreeMap::new();
        for (arm, assertion, passed, asked, measured, at_least) in found {
            let verdict = Verdict { assertion, passed, asked: self.json(&asked)?, measured, at_least };
            verdicts.entry(arm).or_default().push(verdict);
        }
        Ok(verdicts)
    }

    /// Why arms ended early, and how they ended, by the arm's position.
    fn broken(&self) -> Result<BTreeMap<i64, (String, ArmOutcome)>, Error> {
        if !self.has_table("broken")? {
            return Ok(BTreeMap::new());
        }
        // older recordings do not say how an arm ended
        let outcome = if self.has_column("broken", "outcome")? { "outcome" } else { "NULL" };
        let found = self.rows(&format!("SELECT arm, reason, {outcome} FROM broken"), |row| {
            let outcome: Option<String> = row.get(2)?;
            let outcome = outcome.as_deref().and_then(ArmOutcome::from_name).unwrap_or(ArmOutcome::BrokeOff);
            Ok((row.get(0)?, (row.get(1)?, outcome)))
        })?;
        Ok(found.into_iter().collect())
    }

    /// Programs that were the load, by the arm's position.
    fn drivers(&self) -> Result<BTreeMap<i64, Driven>, Error> {
        if !self.has_table("driver")? {
            return Ok(BTreeMap::new());
        }
        let documents =
            self.rows("SELECT arm, document FROM driver", |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))?;
        let mut drivers = BTreeMap::new();
        for (arm, document) in documents {
            drivers.insert(arm, self.json::<Driven>(&document)?);
        }
        let outputs = self.rows("SELECT arm, name, content, left_out_bytes FROM output ORDER BY rowid", |row| {
            let output = Output { name: row.get(1)?, text: row.get(2)?, left_out_bytes: counter(row, 3)? };
            Ok((row.get::<_, i64>(0)?, output))
        })?;
        for (arm, output) in outputs {
            if let Some(driven) = drivers.get_mut(&arm) {
                driven.outputs.push(output);
            }
        }
        Ok(drivers)
    }

    fn measured(&self) -> Result<Vec<Measured>, Error> {
        let columns = "at_us, arm, what, mechanism, witness, within_tolerance, tolerance, asked, predicted, got";
        // older recordings do not have these columns
        let more = if self.has_column("measured", "looks")? { "looks, came_on" } else { "NULL, NULL" };
        self.rows(&format!("SELECT {columns}, {more} FROM measured ORDER BY rowid"), |row| {
            let measured = Measured {
                at_us: counter(row, 0)?,
                arm: row.get(1)?,
                what: row.get(2)?,
                mechanism: row.get(3)?,
                witness: row.get(4)?,
                within_tolerance: row.get(5)?,
                tolerance: row.get(6)?,
                asked: None,
                predicted: None,
                got: None,
                looks: None,
                came_on: row.get(11)?,
            };
            Ok((measured, [row.get(7)?, row.get(8)?, row.get(9)?], row.get(10)?))
        })?
        .into_iter()
        .map(|(measured, [asked, predicted, got], looks)| {
            Ok(Measured {
                asked: self.optional_json(asked)?,
                predicted: self.optional_json(predicted)?,
                got: self.optional_json(got)?,
                looks: self.optional_json(looks)?,
                ..measured
            })
        })
        .collect()
    }

    fn spans(&self) -> Result<Vec<Span>, Error> {
        if !self.has_table("span")? {
            return Ok(Vec::new());
        }
        self.rows("SELECT from_us, to_us, kind, entity, attributes FROM span ORDER BY rowid", |row| {
            let span = Span {
                from_us: row.get::<_, Counter>("from_us")?.0,
                to_us: row.get::<_, Counter>("to_us")?.0,
                kind: row.get("kind")?,
                entity: row.get("entity")?,
                attributes: BTreeMap::new(),
            };
            Ok((span, row.get::<_, String>("attributes")?))
        })?
        .into_iter()
        .map(|(span, attributes)| Ok(Span { attributes: self.json(&attributes)?, ..span }))
        .collect()
    }

    fn last_sample(&self) -> Result<u64, Error> {
        let last = self.rows("SELECT max(at_us) FROM sample", |row| row.get::<_, Option<Counter>>(0))?;
        Ok(last.into_iter().flatten().next().map_or(0, |last| last.0))
    }

    /// Series in the order of declaration, and points in the order of arrival. Only the needed series are read into memory.
    fn samples(&self, is_needed: impl Fn(&Series) -> bool) -> Result<Vec<Series>, Error> {
        let sql = "SELECT id, source, entity, name, unit, cumulative FROM series ORDER BY id";
        let mut series: BTreeMap<u32, Series> = self
            .rows(sql, |row| {
                let series = Series {
                    source: row.get(1)?,
                    entity: row.get(2)?,
                    name: row.get(3)?,
                    unit: row.get(4)?,
                    cumulative: row.get(5)?,
                    points: Vec::new(),
                };
                Ok((row.get(0)?, series))
            })?
            .into_iter()
            .filter(|(_, series)| is_needed(series))
            .collect();
        self.rows("SELECT series, at_us, value FROM sample ORDER BY rowid", |row| {
            if let Some(series) = series.get_mut(&row.get(0)?) {
                series.points.push(Point { at_us: counter(row, 1)?, value: value_or_nan(row.get(2)?) });
            }
            Ok(())
        })?;
        Ok(series.into_values().collect())
    }
}

struct RawArm {
    position: i64,
    name: String,
    /// The cell, and the number of the turn; `None`: the recording has both only in the name.
    turn: Option<(String, u32)>,
    settings: String,
    delay: Option<String>,
    load: Option<String>,
    layer_reads: Option<String>,
    started_us: u64,
    ended_us: u64,
}

/// The cell and the turn in a name: `10 ms #2` is the second turn of `10 ms`.
fn turn_in(name: &str) -> (String, u32) {
    let turn = name.rsplit_once(" #").and_then(|(cell, turn)| Some((cell.to_owned(), turn.parse().ok()?)));
    turn.unwrap_or_else(|| (name.to_owned(), 1))
}

/// The latest time in a recording that was cut off.
fn last_time(arms: &[Arm], measured: &[Measured], events: &[Event]) -> u64 {
    let arms = arms.iter().map(|arm| arm.ended_us.max(arm.started_us));
    let others = measured.iter().map(|one| one.at_us).chain(events.iter().map(|event| event.at_us));
    arms.chain(others).max().unwrap_or_default()
}

fn last_seen(snapshots: &[Snapshot], spans: &[Span]) -> u64 {
    let taken = snapshots.iter().map(|snapshot| snapshot.at_us);
    taken.chain(spans.iter().map(|span| span.to_us)).max().unwrap_or_default()
}
