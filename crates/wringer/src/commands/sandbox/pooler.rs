// SPDX-License-Identifier: Apache-2.0
//! pgBouncer in front of a sandbox: the flags of `deploy`, and its lines in `status`.

use super::Watch;
use crate::exit::Failure;
use clap::ValueEnum;
use host::places::Places;
use sandbox::{Flavour, Pool, PoolMode, PoolSettings, PoolUser, Pooler, PoolerSpec, Sandbox, ServerOption};
use serde_json::{Value, json};

#[derive(Debug, Clone, clap::Args)]
pub struct PoolerArgs {
    /// Start pgBouncer with the server, on a port and a socket of its own: the machine's pgBouncer, or that of the distribution's package, which is fetched
    /// and not installed. `sandbox export` prints how to connect through pgBouncer, with --direct how to connect to the server itself
    #[arg(long)]
    pgbouncer: bool,
    /// For how long a client keeps a server connection: until it disconnects, until its transaction ends, until its statement ends.
    /// With the last two, `wringer load` needs --db-ps-mode=disable
    #[arg(long, value_enum, requires = "pgbouncer", default_value_t = Mode::Session)]
    pool_mode: Mode,
    /// Server connections for each pair of user and database; further clients wait (default_pool_size) [default: 20]
    #[arg(long, requires = "pgbouncer", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pool_size: Option<u32>,
    /// Server connections for each user, so that no application takes them all; further clients wait [default: no limit]
    #[arg(long, requires = "pgbouncer", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_user_connections: Option<u32>,
    /// Settings of one account, such as app:max_user_connections=5 or reports:pool_mode=session; may be repeated
    #[arg(long = "pool-user", requires = "pgbouncer", value_name = "NAME:KEY=VALUE[,...]")]
    pool_users: Vec<PoolUser>,
    /// Another setting of pgBouncer, such as server_lifetime=432000; may be repeated
    #[arg(long = "pool-option", requires = "pgbouncer", value_name = "KEY=VALUE")]
    pool_options: Vec<ServerOption>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    Session,
    Transaction,
    Statement,
}

impl PoolerArgs {
    /// `flavour`: `None` before an archive is unpacked. Nothing is fetched here.
    ///
    /// # Errors
    /// The server is not PostgreSQL; or a user may not change a setting.
    pub fn settings(self, flavour: Option<Flavour>) -> Result<Option<PoolSettings>, Failure> {
        if !self.pgbouncer {
            return Ok(None);
        }
        flavour.map_or(Ok(()), expect_postgresql)?;
        let mode = match self.pool_mode {
            Mode::Session => PoolMode::Session,
            Mode::Transaction => PoolMode::Transaction,
            Mode::Statement => PoolMode::Statement,
        };
        let (size, max_user_connections, options) = (self.pool_size, self.max_user_connections, self.pool_options);
        let settings = PoolSettings { mode, size, max_user_connections, users: self.pool_users, options };
        settings.check()?;
        Ok(Some(settings))
    }
}

/// Fetches the program.
///
/// # Errors
/// The server is not PostgreSQL; or pgBouncer is not available.
pub fn obtain(
    settings: PoolSettings,
    flavour: Flavour,
    places: &Places,
    watch: &mut Watch,
) -> Result<PoolerSpec, Failure> {
    expect_postgresql(flavour)?;
    Ok(PoolerSpec { program: sandbox::locate_pooler(places, watch)?, settings })
}

fn expect_postgresql(flavour: Flavour) -> Result<(), Failure> {
    if flavour == Flavour::Postgresql { Ok(()) } else { Err(sandbox::Error::PoolerFlavour { flavour }.into()) }
}

/// `pgBouncer 1.18.0 on 127.0.0.1:21000, transaction pooling, ...`
pub fn line(sandbox: &Sandbox) -> Option<String> {
    let pooler = sandbox.manifest.pooler.as_ref()?;
    Some(format!("{}{}", words(pooler), doing(sandbox)))
}

pub fn words(pooler: &Pooler) -> String {
    let Pooler { port, program, settings } = pooler;
    let size = settings.size.map(|size| format!(", {size} server connections a pool")).unwrap_or_default();
    let most = settings.max_user_connections.map(|most| format!(", {most} a user")).unwrap_or_default();
    let users: String = settings.users.iter().map(|user| format!(", {user}")).collect();
    format!("pgBouncer {} on 127.0.0.1:{port}, {} pooling{size}{most}{users}", program.version, settings.mode)
}

/// A sentence about accounts that have settings of their own and cannot log in.
pub fn trouble(sandbox: &Sandbox) -> Option<String> {
    let unknown = sandbox.unknown_pool_users();
    let (name, them) = (sandbox.name(), unknown.join(", "));
    (!unknown.is_empty()).then(|| {
        format!(
            "no role {them} with a password when it started: once there is, `wringer sandbox restart {name}` lets it in"
        )
    })
}

/// The pooler's state, while the server runs.
fn doing(sandbox: &Sandbox) -> String {
    let name = sandbox.name();
    match (sandbox.server_process(), sandbox.pooler_process()) {
        (None, None) => String::new(),
        (_, None) => format!(", NOT RUNNING: `wringer sandbox restart {name}` starts it again"),
        (_, Some(_)) => match sandbox.pools() {
            Err(error) => format!(", does not answer: {}", host::chain(&error)),
            Ok(pools) => {
                let sum = |of: fn(&Pool) -> u64| pools.iter().map(of).sum::<u64>();
                let trouble = trouble(sandbox).map(|words| format!("; {words}")).unwrap_or_default();
                format!(
                    ", clients {} active, {} waiting, server connections {} active, {} idle{trouble}",
                    sum(|pool| pool.clients_active),
                    sum(|pool| pool.clients_waiting),
                    sum(|pool| pool.servers_active),
                    sum(|pool| pool.servers_idle)
                )
            }
        },
    }
}

pub fn row(sandbox: &Sandbox) -> Value {
    let Some(Pooler { port, program, settings }) = &sandbox.manifest.pooler else { return Value::Null };
    let pid = sandbox.pooler_process();
    let mut row = json!({
        "program": program.path,
        "version": program.version,
        "source": program.source.describe(),
        "pid": pid,
        "port": port,
        "socket": sandbox.pooler_socket(),
        "log": sandbox.pooler_log(),
        "pool_mode": settings.mode,
        "pool_size": settings.size,
        "max_user_connections": settings.max_user_connections,
        "users": settings.users.iter().map(|user| json!({"name": user.name, "settings": user.settings})).collect::<Vec<_>>(),
        "options": settings.options,
    });
    if pid.is_some() {
        row["unknown_users"] = sandbox.unknown_pool_users().into();
    }
    match pid.map(|_| sandbox.pools()) {
        None => {}
        Some(Err(error)) => row["trouble"] = host::chain(&error).into(),
        Some(Ok(pools)) => row["pools"] = pools.iter().map(pool).collect(),
    }
    row
}

fn pool(pool: &Pool) -> Value {
    json!({
        "database": pool.database,
        "user": pool.user,
        "clients_active": pool.clients_active,
        "clients_waiting": pool.clients_waiting,
        "servers_active": pool.servers_active,
        "servers_idle": pool.servers_idle,
        "longest_wait_us": u64::try_from(pool.longest_wait.as_micros()).unwrap_or(u64::MAX),
    })
}
