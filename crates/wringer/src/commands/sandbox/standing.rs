// SPDX-License-Identifier: Apache-2.0
//! Servers that outlive the command: each has a launcher in its own session, and is found again by its run.

use super::several::{Meant, Which};
use super::squeezed::{self, Squeezed};
use super::timed::{Started, Timed};
use super::{Start, below_squeeze, pooler, wrappers};
use crate::commands::command_line;
use crate::commands::standing::told;
use crate::exit::{Exit, Failure, Outcome};
use crate::internal::{Supervise, Supervised};
use crate::{signals, terminal};
use host::places::Places;
use run::{Begin, Kind, Resource, Run};
use sandbox::{Sandbox, Server, StartOptions};
use std::time::Duration;

pub(super) fn start(args: &Start) -> Outcome {
    below_squeeze::look()?;
    signals::install()?;
    let places = Places::from_environment();
    let meant = args.which.find(&places)?;
    start_all(meant, &places, args)
}

/// Starts the sandboxes one after the other, after checking that all of them can be started. Those that are included by a primary
/// or `--all` and run already are left alone.
fn start_all(meant: Vec<Meant>, places: &Places, args: &Start) -> Outcome {
    let found = run::find_runs(places)?;
    let mut sandboxes = Vec::new();
    for Meant { sandbox, is_named, .. } in meant {
        match sandbox.server(places, &found) {
            Server::Unknown(why) => return Err(sandbox::Error::Unknown { name: sandbox.name().into(), why }.into()),
            Server::Runs(_) if !is_named => {}
            Server::Runs(_) | Server::Stopped => sandboxes.push(sandbox),
        }
    }
    let asked = checked(args, &sandboxes, places)?;
    if sandboxes.is_empty() {
        terminal::say("all of them are running already");
        return Ok(());
    }
    sandbox::check_before_start_of(&sandboxes, &args.options)?;
    start_in_turn(&sandboxes, places, |sandbox| start_as_asked(sandbox, places, args, &asked))
}

/// The squeezes of a start, which this machine can make.
///
/// # Errors
/// Exit code 2 or 3: this machine cannot start these sandboxes with these flags.
fn checked(args: &Start, sandboxes: &[Sandbox], places: &Places) -> Result<Squeezed, Failure> {
    let limits = squeezed::checked_limits(&args.limits)?;
    for sandbox in sandboxes {
        sandbox.check_readable(&args.wrappers.asked(sandbox, places)?)?;
    }
    let disk = args.disk.as_ref().map(|asked| squeezed::checked_disk(asked, sandboxes, places)).transpose()?;
    Ok(Squeezed { limits, disk })
}

/// The longest time for a start under Valgrind.
const UNDER_VALGRIND: Duration = Duration::from_secs(600);

/// The supervisor's body: keeps the server for the stated time.
pub fn supervise(timed: Timed) -> Outcome {
    let places = Places::from_environment();
    let begin = begin(&timed.sandbox, timed.command, &places);
    let (extra_options, ready_timeout, wrapping) = (timed.options, timed.wait, timed.wrapping);
    let start = StartOptions { extra_options, ready_timeout, wrapping, ..StartOptions::default() };
    let (_, released) = run::supervise::daemon::<Supervise, _, _>(begin, timed.lasts, |run| {
        let sandbox = Sandbox::open(&timed.sandbox, &places).map_err(told_to_the_command)?;
        let not_squeezed = crate::internal::told_to_the_command;
        let (start, mut in_force) = timed.squeezed.apply(run, &sandbox, start).map_err(not_squeezed)?;
        let started = sandbox.start(run, &start);
        let server = started.map_err(|error| told_to_the_command(in_force.explained(error)))?;
        let disk = in_force.slow_down(run, &sandbox).map_err(not_squeezed)?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(Supervised::Sandbox(Started {
            server: server.pid,
            got: wrappers::lines(&server.got),
            pooler: server.pooler.map(|(_, port)| port),
            version: server.version,
            limits: in_force.limits(),
            disk,
        }))
    })?;
    match released.conflicts.first() {
        None => Ok(()),
        Some(it) => {
            Err(Failure::message(Exit::NotRestored, format!("{}: now '{}'", it.step, it.found)).hint(&it.repair))
        }
    }
}

/// A refusal keeps its hint and its exit code.
fn told_to_the_command(error: sandbox::Error) -> Box<dyn std::error::Error + Send + Sync> {
    match error {
        error if error.is_missing() => run::Error::Refused { what: error.to_string(), hint: error.hint() }.into(),
        sandbox::Error::Run(error) => error.into(),
        other => other.into(),
    }
}

pub(super) fn stop(which: &Which) -> Outcome {
    signals::install()?;
    let places = Places::from_environment();
    let meant = which.find(&places)?;
    let stopped = stop_all(&meant, &places)?;
    let was_running = |meant: &Meant| {
        let members = meant.sandbox.members();
        members.iter().any(|member| stopped.iter().any(|name| name == member.name()))
    };
    match meant.iter().find(|meant| meant.is_named && !was_running(meant)) {
        Some(meant) => Err(not_running(&meant.sandbox).after_a_change(!stopped.is_empty())),
        None => Ok(()),
    }
}

/// Wringer stops the servers that it has started.
fn not_running(sandbox: &Sandbox) -> Failure {
    let name = sandbox.name().to_owned();
    match sandbox.server_process() {
        Some(pid) => {
            let hints = vec!["no run of Wringer's has started that server: end it as it was started".to_owned()];
            Failure { hints, ..sandbox::Error::Running { name, pid }.into() }
        }
        None => sandbox::Error::NotRunning { name }.into(),
    }
}

/// Stops replicas first; returns the names of the sandboxes that ran.
fn stop_all(meant: &[Meant], places: &Places) -> Result<Vec<String>, Failure> {
    let mut stopped = Vec::new();
    for Meant { sandbox, .. } in meant.iter().rev() {
        let name = sandbox.name();
        let had_died = sandbox.has_died(places)?;
        match sandbox.stop_standing(places) {
            Ok(_) => {
                if had_died {
                    terminal::say(format_args!(
                        "{name} had ended by itself; its run is ended, too (`wringer sandbox log {name}`)"
                    ));
                } else {
                    terminal::say(format_args!("stopped {name}"));
                }
                stopped.push(sandbox.name().to_owned());
            }
            Err(sandbox::Error::NotRunning { .. }) => {}
            Err(error) => return Err(Failure::from(error).after_a_change(!stopped.is_empty())),
        }
    }
    Ok(stopped)
}

pub(super) fn restart(args: &Start) -> Outcome {
    below_squeeze::look()?;
    signals::install()?;
    let places = Places::from_environment();
    let meant = args.which.find(&places)?;
    let sandboxes: Vec<Sandbox> = meant.iter().map(|meant| meant.sandbox.clone()).collect();
    let asked = checked_before_stop(args, &sandboxes, &places)?;
    let stopped = stop_all(&meant, &places)?;
    let started = sandbox::check_before_start_of(&sandboxes, &args.options)
        .map_err(Failure::from)
        .and_then(|()| start_in_turn(&sandboxes, &places, |sandbox| start_as_asked(sandbox, &places, args, &asked)));
    started.map_err(|failure| after_stop(failure, &stopped))
}

/// Every check of a start that can be made while the servers run: a refusal leaves them running.
fn checked_before_stop(args: &Start, sandboxes: &[Sandbox], places: &Places) -> Result<Squeezed, Failure> {
    for sandbox in sandboxes {
        sandbox.require_known(places)?;
        sandbox.check_installation()?;
    }
    let mut look = run::Look::take(places)?;
    run::refuse_lost(places, &look)?;
    // the stop ends these runs, also one that is hot
    look.runs.retain(|run| !sandboxes.iter().any(|sandbox| sandbox.is_held_by(run)));
    run::refuse_hot(&look.runs)?;
    checked(args, sandboxes, places)
}

/// The failure of a start after the stop.
fn after_stop(failure: Failure, stopped: &[String]) -> Failure {
    if stopped.is_empty() {
        return failure;
    }
    let names = stopped.join(" ");
    let (are_stopped, as_before) = match stopped {
        [_] => ("the server is stopped", "it as it was deployed"),
        _ => ("the servers are stopped", "them as they were deployed"),
    };
    failure.after_a_change(true).hint(format!("{are_stopped}; `wringer sandbox start {names}` starts {as_before}"))
}

/// The time that a squeeze lasts by default.
const SQUEEZED_FOR: Duration = Duration::from_secs(3600);

fn start_as_asked(sandbox: &Sandbox, places: &Places, args: &Start, squeezed: &Squeezed) -> Outcome {
    let wrapping = args.wrappers.asked(sandbox, places)?;
    let lasts = args.lasts.map(|lasts| lasts.0).or(squeezed.disk.is_some().then_some(SQUEEZED_FOR));
    match lasts {
        Some(lasts) => {
            let timed = Timed {
                command: command_line(),
                sandbox: sandbox.name().into(),
                options: args.options.clone(),
                wait: args.wait.0,
                lasts,
                squeezed: squeezed.clone(),
                wrapping,
            };
            start_for(sandbox, places, &timed)
        }
        None => {
            let (extra_options, ready_timeout) = (args.options.clone(), args.wait.0);
            let start = StartOptions { extra_options, ready_timeout, wrapping, ..StartOptions::default() };
            start_sandbox(sandbox, places, start, squeezed)
        }
    }
}

fn start_for(sandbox: &Sandbox, places: &Places, timed: &Timed) -> Outcome {
    sandbox.check_before_start()?;
    sandbox.clear_runs(places)?;
    let wait = if timed.wrapping.valgrind.is_some() { timed.wait.max(UNDER_VALGRIND) } else { timed.wait };
    let order = Supervise::Sandbox(Box::new(timed.clone()));
    let ready = run::supervise::start(places, &order, wait + Duration::from_secs(20)).map_err(told)?;
    let Supervised::Sandbox(Started { server, version, limits, got, pooler, disk }) = ready.told else {
        return Err(Failure::message(Exit::Failed, "the supervisor answers for something else than it was told of"));
    };
    terminal::say(format_args!(
        "started {} for {}: {version}, process {server}",
        sandbox.name(),
        units::Span(timed.lasts)
    ));
    if let Some(port) = pooler {
        terminal::say(format_args!("  pooler  pgBouncer, port 127.0.0.1:{port}"));
        say_pooler_trouble(sandbox);
    }
    if let Some(limited) = limits {
        terminal::say(format_args!("  limits  {limited}"));
    }
    if let Some(disk) = disk {
        terminal::say(format_args!("  disk    {disk}"));
    }
    wrappers::say(&got);
    Ok(())
}

fn say_pooler_trouble(sandbox: &Sandbox) {
    if let Some(words) = pooler::trouble(sandbox) {
        terminal::say(format_args!("          {words}"));
    }
}

fn begin(name: &str, command: Vec<String>, places: &Places) -> Begin {
    Begin { kind: Kind::Standing, command, resources: vec![Resource::Sandbox(name.into())], places: places.clone() }
}

/// Starts a sandbox, or a primary with its replicas, with the options of the deployment.
pub(super) fn start_members(sandbox: &Sandbox, places: &Places) -> Outcome {
    let members = sandbox.members();
    let start = |member: &Sandbox| start_sandbox(member, places, StartOptions::default(), &Squeezed::default());
    start_in_turn(&members, places, start)
}

/// Starts the sandboxes one after the other. When one of them does not start, the started ones are stopped again, the last one first.
fn start_in_turn(sandboxes: &[Sandbox], places: &Places, start: impl Fn(&Sandbox) -> Outcome) -> Outcome {
    for (count, sandbox) in sandboxes.iter().enumerate() {
        let Err(error) = start(sandbox) else { continue };
        for started in sandboxes[..count].iter().rev() {
            match started.stop_standing(places) {
                Ok(_) => terminal::say(format_args!("stopped {} again", started.name())),
                Err(error) => terminal::say(format_args!("note: {} still runs: {error}", started.name())),
            }
        }
        return Err(error);
    }
    Ok(())
}

/// Starts the server below a standing run, and leaves it there.
fn start_sandbox(sandbox: &Sandbox, places: &Places, start: StartOptions, squeezed: &Squeezed) -> Outcome {
    sandbox.check_before_start()?;
    sandbox.clear_runs(places)?;
    let begin = begin(sandbox.name(), command_line(), places);
    let mut run = Run::begin(begin)?;
    let start = StartOptions { standing: true, ..start };
    let applied = squeezed.apply(&mut run, sandbox, start).map_err(Failure::from);
    let started = applied.and_then(|(start, in_force)| {
        let server = sandbox.start(&mut run, &start).map_err(|error| in_force.explained(error))?;
        Ok((server, in_force.limits()))
    });
    match started {
        Ok((server, limited)) => {
            let id = run.leave()?;
            terminal::say(format_args!("started {}: {}, process {}", sandbox.name(), server.version, server.pid));
            terminal::say(format_args!(
                "  socket  {}\n  port    127.0.0.1:{}\n  run     {id}",
                server.socket.display(),
                server.port
            ));
            if let Some((pid, port)) = server.pooler {
                terminal::say(format_args!("  pooler  pgBouncer, port 127.0.0.1:{port}, process {pid}"));
                say_pooler_trouble(sandbox);
            }
            if let Some(limited) = limited {
                terminal::say(format_args!("  limits  {limited}"));
            }
            wrappers::say(&wrappers::lines(&server.got));
            Ok(())
        }
        Err(error) => match run.release() {
            Ok(released) => Err(match released.conflicts.first() {
                None => error,
                Some(conflict) => Failure::message(Exit::NotRestored, format_args!("{:#}; {conflict}", error.error)),
            }),
            Err(not_released) => Err(Failure::new(Exit::NotRestored, not_released).hint("wringer undo")),
        },
    }
}
