// SPDX-License-Identifier: Apache-2.0
//! The server that is looked at, for how long, and how often.

use crate::commands::connection::{Connection, DYING, server_failure};
use crate::exit::{Exit, Failure};
use crate::{signals, terminal};
use attach::Attached;
use connections::ServerReading;
use host::places::Places;
use load::Target;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use units::Span;

/// The shortest time between looks. Each look asks the server twice, and MySQL and MariaDB go through all of their sessions for the answer.
const LEAST_EVERY: Duration = Duration::from_millis(100);
/// The most looks. All are kept until the end, which takes some MiB for a thousand clients.
const MOST_LOOKS: u32 = 20_000;
/// The longest time until a request to stop is noticed.
const TICK: Duration = Duration::from_millis(50);

#[derive(Debug, clap::Args)]
pub(super) struct Looks {
    /// Look again and again for this time, and take the peak. Without it there is one look, which shows no peak
    #[arg(long = "for", visible_alias = "time", value_name = "TIME", default_value = "0", value_parser = seconds)]
    time: Duration,
    /// Time from one look to the next, 100ms at least
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = seconds)]
    every: Duration,
    /// The console of a pgBouncer in front of the server, with an account of its admin_users or stats_users: postgresql://admin@/pgbouncer?socket=/run/postgresql/.s.PGSQL.6432
    /// [default: the console of the sandbox's pgBouncer, where it has one]
    #[arg(long, value_name = "URL")]
    pgbouncer: Option<String>,
    #[command(flatten)]
    connection: Connection,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = terminal::Output::Text)]
    pub(super) output: terminal::Output,
}

/// The result of all looks, and a name for the server.
pub(super) struct Looked {
    pub(super) of: String,
    pub(super) target: Target,
    pub(super) seen: ServerReading,
    /// Whether the user asked to stop.
    pub(super) was_stopped: bool,
}

fn seconds(text: &str) -> Result<Duration, units::ParseError> {
    Span::parse_seconds(text).map(|span| span.0)
}

impl Looks {
    /// Looks at the server. `None`: no server is named.
    ///
    /// # Errors
    /// Usage: wrong words. Missing: no connection. Failed: the server's process ended while it was looked at.
    pub(super) fn look(&self, memory: bool) -> Result<Option<Looked>, Failure> {
        if self.every < LEAST_EVERY {
            let message = format!("--every {}: at least {}", Span(self.every), Span(LEAST_EVERY));
            return Err(Failure::message(Exit::Usage, message)
                .hint("more frequent looks would themselves be a load on the server"));
        }
        if self.time > self.every.saturating_mul(MOST_LOOKS) {
            let message = format!("--for {} --every {}: at most {MOST_LOOKS} looks", Span(self.time), Span(self.every));
            return Err(Failure::message(Exit::Usage, message).hint("a longer --every"));
        }
        let places = Places::from_environment();
        let console = match &self.pgbouncer {
            Some(dsn) => Some(Connection::console(dsn, &places)?),
            None => self.connection.console_of_sandbox(&places),
        };
        let mut attached = self.connection.attach_anywhere(&places)?;
        let of = attached.describe();
        let Some(target) = attached.server.as_ref().map(|server| server.target.clone()) else { return Ok(None) };
        let stop = signals::install()?;
        let (mut seen, was_stopped) = self.follow(&mut attached, console.as_ref(), memory, &stop)?;
        let of_sandbox = self.pgbouncer.is_none().then(|| self.connection.pool_limits_of_sandbox(&places)).flatten();
        if let (Some(pooler), Some(limits)) = (&mut seen.pooler, of_sandbox) {
            pooler.learn_user_limits(&limits);
        }
        Ok(Some(Looked { of, target, seen, was_stopped }))
    }

    fn follow(
        &self,
        attached: &mut Attached,
        console: Option<&Target>,
        memory: bool,
        stop: &AtomicBool,
    ) -> Result<(ServerReading, bool), Failure> {
        let Some(begun) = attached.connections(console) else { return Err(no_server()) };
        let mut looks = match begun {
            Ok(looks) => looks,
            Err(error) => return Err(if ended(attached, DYING) { gone(attached) } else { lost(error) }),
        };
        let mut patience = Duration::ZERO;
        let bar = terminal::bar(u64::try_from(self.time.as_millis()).unwrap_or(u64::MAX), "looking at connections");
        let started = Instant::now();
        let mut next = self.every;
        while wait(started, next.min(self.time), stop) && next <= self.time {
            bar.set_position(u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX));
            if let Err(error) = looks.look() {
                looks.fell_silent(&error);
                patience = DYING;
                break;
            }
            // after a look that took longer than an interval, the missed looks are left out
            while next <= started.elapsed() {
                next += self.every;
            }
        }
        bar.finish_and_clear();
        let seen = looks.end(memory);
        if ended(attached, patience) {
            return Err(gone(attached));
        }
        Ok((seen, stop.load(Ordering::SeqCst)))
    }
}

/// Whether the server's process ends within this time.
fn ended(attached: &Attached, patience: Duration) -> bool {
    attached.process().is_some_and(|process| process.wait(patience))
}

fn gone(attached: &Attached) -> Failure {
    Failure::message(Exit::Failed, format!("{} ended while its connections were looked at", attached.describe()))
}

/// `false`: the user asked to stop, or there is nothing to wait for.
fn wait(started: Instant, until: Duration, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::SeqCst) {
            return false;
        }
        match until.checked_sub(started.elapsed()) {
            Some(left) if !left.is_zero() => sleep(left.min(TICK)),
            _ => return true,
        }
    }
}

pub(super) fn no_server() -> Failure {
    Failure::message(Exit::Usage, "whose connections? No server is named")
        .hint("--sandbox NAME, or a connection (--dsn, --mysql-socket, --pgsql-host, ...)")
}

/// The failure of a server that had answered the login, and whose connection was lost later.
pub(super) fn lost(error: observe::connections::Lost) -> Failure {
    match error.downcast::<load::Error>() {
        Ok(error) => Failure { exit: Exit::Missing, ..server_failure(*error) },
        Err(error) => Failure::message(Exit::Missing, error),
    }
}
