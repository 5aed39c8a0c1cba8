// SPDX-License-Identifier: Apache-2.0
//! Brings an origin into a sandbox that is being deployed: a folder is copied, a dump is loaded. In both cases the server is started once, and gets
//! the sandbox's own account.

use super::{Imported, Origin, copy, live_server, load, settings};
use crate::account::USER;
use crate::init::{self, account_anew, run_as_server_user, with_secret_file};
use crate::{Error, Flavour, Progress, Sandbox, ServerOption, StartOptions};
use ::load::admin::Connection;
use host::places::Places;
use run::{Begin, Kind, Resource, Run};
use std::time::Duration;
use units::counted;

/// The recovery of a large data directory, or the upgrade of its dictionary, takes long.
const START_TIMEOUT: Duration = Duration::from_secs(1800);
/// The largest packet that MySQL and MariaDB accept: a dump has statements of any length.
const LARGEST_PACKET: &str = "max_allowed_packet=1073741824";

/// Copies the files of a folder; for a dump it does nothing yet. It comes before the configuration is written, which depends on the returned value.
pub(crate) fn prepare(sandbox: &Sandbox, origin: &Origin, progress: &mut dyn Progress) -> Result<Imported, Error> {
    let mut imported = Imported {
        path: origin.path.clone(),
        what: origin.describe(),
        settings: Vec::new(),
        changes: Vec::new(),
        databases: Vec::new(),
    };
    if origin.is_folder() {
        live_server::require_stopped(origin)?;
        imported.changes = copy::copy(sandbox, origin, progress)?;
        live_server::require_stopped(origin)?;
        imported.settings = settings::of(sandbox, origin)?;
    } else if origin.flavour != Flavour::Postgresql {
        imported.settings = settings::of_dump()?;
    }
    imported.changes.extend(settings::describe(&imported.settings));
    Ok(imported)
}

/// Starts the server with the data, loads a dump, and makes the sandbox's account. The sandbox's manifest holds `imported`.
pub(crate) fn finish(
    sandbox: &Sandbox,
    origin: &Origin,
    imported: &mut Imported,
    password: &str,
    servers: Servers<'_>,
    progress: &mut dyn Progress,
) -> Result<(), Error> {
    if !origin.is_folder() {
        init::initialise(sandbox, password)?;
        progress.doing(&format!("load {}", origin.path.display()));
        let options = match sandbox.flavour() {
            Flavour::Postgresql => Vec::new(),
            Flavour::Mariadb | Flavour::Mysql | Flavour::Percona => vec![LARGEST_PACKET.parse()?],
        };
        let installation = &sandbox.manifest.installation;
        let restore = installation.beside("pg_restore").map(|program| installation.command(&program));
        let loaded = with_server(sandbox, servers, options, |sandbox| {
            load::load(origin, &sandbox.connection()?, restore, progress)
        })?;
        imported.changes.extend(loaded.describe());
    }
    progress.doing("start it once, for the sandbox's own account");
    imported
        .changes
        .push(format!("account {USER}, with all rights, and database sbtest; other accounts are as they were"));
    let at_last = |sandbox: &Sandbox| {
        sandbox.forget_former_replication()?;
        databases(sandbox)
    };
    imported.databases = match sandbox.flavour() {
        Flavour::Postgresql => {
            if origin.is_folder() {
                single_user(sandbox, password)?;
            }
            with_server(sandbox, servers, Vec::new(), at_last)?
        }
        Flavour::Mariadb | Flavour::Mysql | Flavour::Percona => {
            with_secret_file(sandbox, "init.sql", &account_anew(&sandbox.manifest.installation, password), |file| {
                let option = ServerOption::new("init_file", Some(&file.to_string_lossy()))?;
                with_server(sandbox, servers, vec![option], at_last)
            })?
        }
    };
    Ok(())
}

/// How the server is started for that.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Servers<'a> {
    pub(crate) places: &'a Places,
    /// The caller's run holds the sandbox.
    pub(crate) held: bool,
}

/// Runs `work` while the server runs, below a run of its own: nothing is left of the server when this process is killed.
fn with_server<T>(
    sandbox: &Sandbox,
    servers: Servers<'_>,
    extra_options: Vec<ServerOption>,
    work: impl FnOnce(&Sandbox) -> Result<T, Error>,
) -> Result<T, Error> {
    let resources = if servers.held { Vec::new() } else { vec![Resource::Sandbox(sandbox.name().into())] };
    let places = servers.places.clone();
    let command = std::env::args().collect();
    let mut run = Run::begin(Begin { kind: Kind::Run, command, resources, places })?;
    let options = StartOptions { extra_options, ready_timeout: START_TIMEOUT, ..StartOptions::default() };
    let done = sandbox.start(&mut run, &options).and_then(|server| {
        // the server's port may have moved
        let now =
            Sandbox { manifest: crate::Manifest { port: server.port, ..sandbox.manifest.clone() }, ..sandbox.clone() };
        let done = work(&now);
        let stopped = server.stop(&mut run);
        done.and_then(|done| stopped.map(|_| done))
    });
    let released = run.release();
    let done = done?;
    let _ = released?;
    Ok(done)
}

fn databases(sandbox: &Sandbox) -> Result<Vec<String>, Error> {
    let sql = match sandbox.flavour() {
        Flavour::Postgresql => "SELECT datname FROM pg_database WHERE NOT datistemplate ORDER BY 1",
        Flavour::Mariadb | Flavour::Mysql | Flavour::Percona => {
            "SELECT schema_name FROM information_schema.schemata WHERE schema_name NOT IN \
             ('mysql', 'sys', 'performance_schema', 'information_schema') ORDER BY 1"
        }
    };
    let talk = |source| Error::Talk { name: sandbox.name().into(), source };
    let mut connection = Connection::open(&sandbox.connection()?).map_err(talk)?;
    let rows = connection.query(sql).map_err(talk)?;
    Ok((0..rows.len()).filter_map(|row| rows.text(row, 0)).collect())
}

/// Makes the account in PostgreSQL's single-user mode, which asks for no password; each statement is one line. `template0`: from `template1` no database can be
/// made where the data came from a host with another version of the C library's or ICU's collations.
fn single_user(sandbox: &Sandbox, password: &str) -> Result<(), Error> {
    let installation = &sandbox.manifest.installation;
    let mut command = installation.command(&installation.program);
    command.arg("--single").args(init::server_arguments(sandbox));
    command.args(["-c", "password_encryption=scram-sha-256", "template1"]);
    let sql = format!(
        "DO $w$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{USER}') THEN CREATE ROLE {USER}; END IF; \
         ALTER ROLE {USER} SUPERUSER LOGIN CONNECTION LIMIT -1 VALID UNTIL 'infinity' PASSWORD '{password}'; END $w$\n\
         CREATE DATABASE sbtest TEMPLATE template0\n"
    );
    run_as_server_user(sandbox, command, "making the sandbox's account", sql.as_bytes())
}

impl load::Loaded {
    fn describe(self) -> Vec<String> {
        let mut lines = vec![format!("{} of the dump", counted(self.statements, "statement"))];
        if !self.roles.is_empty() {
            let names: Vec<&str> = self.roles.iter().map(String::as_str).collect();
            lines.push(format!(
                "made without the right to log in, because the dump names them: role {}",
                names.join(", ")
            ));
        }
        lines.extend(self.passed_over.iter().map(|statement| format!("passed over, not needed here: {statement}")));
        if self.may_be_cut {
            lines.push(
                "the dump does not end with the comment that says it is complete: it may have been cut short".into(),
            );
        }
        lines
    }
}
