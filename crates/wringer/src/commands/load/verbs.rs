// SPDX-License-Identifier: Apache-2.0
//! `wringer load WORKLOAD prepare|run|cleanup`, for users of sysbench.

use super::Args;
use super::wanted::Wanted;
use crate::commands::connection::server_failure;
use crate::commands::fill_failure::refused;
use crate::commands::{fill, fill_pgbench};
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;
use load::Target;
use load::admin::Connection;
use load::fill::{FillSpec, Size};
use load::prepare::pgbench;
use workload::Name;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Prepare,
    Run,
    Cleanup,
}

impl Verb {
    pub(super) fn of(word: Option<&str>) -> Result<Self, Failure> {
        let usage = |message: String| Failure::message(Exit::Usage, message);
        match word {
            None | Some("run") => Ok(Self::Run),
            Some("prepare") => Ok(Self::Prepare),
            Some("cleanup") => Ok(Self::Cleanup),
            Some("warmup" | "prewarm") => Err(usage("`wringer load` has prepare, run and cleanup".into())
                .hint("--warmup-time runs the load before it measures")),
            Some(other) => Err(usage(format!("'{other}' is not known here: there are prepare, run and cleanup"))
                .hint("wringer load WORKLOAD --help")),
        }
    }
}

/// `prepare` or `cleanup`.
pub(super) fn do_it(verb: Verb, args: &Args, target: &Target) -> Outcome {
    let Wanted::Named(name) = args.workload else {
        return Err(Failure::message(Exit::Usage, "a workload's file does not say what tables it needs")
            .hint("`wringer fill` makes tables; `wringer load oltp_read_write cleanup` drops them"));
    };
    match verb {
        Verb::Prepare => prepare(name, args, target),
        _ => cleanup(name, args, target),
    }
}

fn prepare(name: Name, args: &Args, target: &Target) -> Outcome {
    let output = match args.output {
        super::Output::Json => terminal::Output::Json,
        super::Output::Text | super::Output::Sysbench => terminal::Output::Text,
    };
    if name == Name::BulkInsert {
        terminal::say("bulk_insert makes its tables itself: there is nothing to prepare");
        return Ok(());
    }
    let stop = super::interruptible()?;
    if load::fill::ensure_database(target).map_err(refused)? {
        terminal::say(format_args!("made the database {}", target.database.as_deref().unwrap_or_default()));
    }
    if name.is_pgbench() {
        return fill_pgbench::main(target, args.keys.scale.unwrap_or(1), false, &stop, output);
    }
    let spec = FillSpec {
        tables: args.keys.tables,
        size: Size::Rows(args.keys.table_size),
        secondary: args.oltp.create_secondary.unwrap_or(true),
        auto_inc: args.oltp.settings.0.auto_inc,
        threads: args.threads.first().copied().unwrap_or(1),
        seed: args.keys.rand_seed,
        ..FillSpec::default()
    };
    fill::make(&spec, target, &stop, output)
}

/// Drops the tables that the same arguments make, if they exist.
fn cleanup(name: Name, args: &Args, target: &Target) -> Outcome {
    let tables: Vec<String> = match name {
        name if name.is_pgbench() => pgbench::TABLES.map(str::to_owned).into(),
        Name::BulkInsert => (1..=args.threads.iter().copied().max().unwrap_or(1)).map(sbtest).collect(),
        _ => (1..=args.keys.tables).map(sbtest).collect(),
    };
    let mut connection = Connection::open(target).map_err(server_failure)?;
    for table in tables {
        connection.drop_tables(&[&table]).map_err(server_failure)?;
        terminal::data(format_args!("dropped {table}"));
    }
    Ok(())
}

fn sbtest(number: u32) -> String {
    format!("sbtest{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysbenchs_verbs() {
        assert_eq!(Verb::of(None).ok(), Some(Verb::Run));
        assert_eq!(["run", "prepare", "cleanup"].map(|word| Verb::of(Some(word)).is_ok()), [true; 3]);
        let refused = Verb::of(Some("prewarm")).unwrap_err();
        assert!(refused.exit == Exit::Usage && refused.hints[0].contains("--warmup-time"), "{refused:?}");
    }
}
