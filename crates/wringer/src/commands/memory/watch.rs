// SPDX-License-Identifier: Apache-2.0
//! `wringer memory watch`: the account again and again, until Ctrl-C or the server's end.

use super::change::{changed, signed};
use super::{account, tree};
use crate::commands::connection::{Connection, whose};
use crate::commands::observe::{check_inventories, seconds};
use crate::exit::{Exit, Failure, Outcome};
use crate::signals;
use crate::terminal::{self, Screen};
use attach::Attached;
use host::clock::rfc3339;
use host::places::Places;
use ledger::{Account, Difference, Missing, difference};
use observe::memory::InventoryReader;
use observe::{Pace, Reader as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use units::{Bytes, SignedBytes, Span};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "On a terminal the picture is drawn in place. Elsewhere each reading is one line: the time, the total, the part of it that no leaf explains, how both have \
    changed since the first reading, and the leaves that changed most. Where a source could be read for only one of the two readings, the line says so and names the source: whether its leaves \
    changed is not known. With -o json each line is one account, as `memory account -o json` has it.\n\n\
    A reading may cost at most 1 % of the interval: the time for which it holds the server and for which the server answers, and its own CPU time. Where it costs more, the server is \
    read less often, and a message says so.\n\n\
    Examples:\n  \
      wringer memory watch --sandbox shop\n  \
      sudo wringer memory watch --pid \"$(pidof mariadbd)\" --interval 1m >> memory.log\n  \
      wringer memory watch --sandbox shop -o json | jq --unbuffered .unexplained_bytes\n\n\
    Exit codes: 0 by Ctrl-C or SIGTERM, or when nobody reads the output any more; 2 usage; 3 no such process, or no connection; 4 the server's process ended."
)]
pub(super) struct Args {
    /// The server's process [default: the one that listens at the socket, or the sandbox's]
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// Time from one reading to the next, 100ms at least
    #[arg(long, default_value = "2s", value_parser = seconds, value_name = "TIME")]
    interval: Duration,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = terminal::Output::Text)]
    output: terminal::Output,
    #[command(flatten)]
    connection: Connection,
}

pub(super) fn main(args: &Args) -> Outcome {
    check_inventories(args.interval)?;
    let (mut attached, unasked) = args.connection.attach_or_process(args.pid, &Places::from_environment())?;
    let reader = attached.inventories(args.interval).ok_or_else(|| whose("memory"))?;
    let stop = signals::install()?;
    let view = View { of: attached.describe(), output: args.output, screen: Screen::of_terminal(), first: None };
    Watching { attached, unasked, reader, view }.until(&stop)
}

struct Watching {
    attached: Attached,
    unasked: Option<Missing>,
    reader: InventoryReader,
    view: View,
}

/// The longest time until a request to stop is noticed.
const TICK: Duration = Duration::from_millis(50);

impl Watching {
    fn until(mut self, stop: &AtomicBool) -> Outcome {
        let mut due = Instant::now();
        while !stop.load(Ordering::SeqCst) {
            let mut inventory = match self.reader.inventory() {
                Ok(inventory) => inventory,
                Err(observe::Error::Gone { .. }) => return Err(self.gone()),
                Err(error) => return Err(error.into()),
            };
            inventory.missing.extend(self.unasked.clone());
            if !self.view.show(&ledger::account(&inventory)) {
                return Ok(());
            }
            if let Some(Pace::Changed(why)) = self.reader.pace() {
                self.view.note(&why);
            }
            let interval = self.reader.interval().unwrap_or_default();
            due = (due + interval).max(Instant::now());
            if !self.wait(due, stop) {
                return Err(self.gone());
            }
        }
        Ok(())
    }

    /// Waits until `due`. `false`: the server has ended meanwhile.
    fn wait(&self, due: Instant, stop: &AtomicBool) -> bool {
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() || stop.load(Ordering::SeqCst) {
                return true;
            }
            match self.attached.process() {
                Some(process) if process.wait(left.min(TICK)) => return false,
                Some(_) => {}
                None => std::thread::sleep(left.min(TICK)),
            }
        }
    }

    fn gone(&self) -> Failure {
        let pid = self.reader.process().pid;
        Failure::message(Exit::Failed, format!("process {pid} ended while it was watched"))
    }
}

/// The output for each reading.
struct View {
    of: String,
    output: terminal::Output,
    /// `None`: standard output is no terminal.
    screen: Option<Screen>,
    /// The first reading; all later readings are compared with it.
    first: Option<Account>,
}

impl View {
    /// `false`: nobody reads the output any more.
    fn show(&mut self, account: &Account) -> bool {
        let first = self.first.get_or_insert_with(|| account.clone());
        let change = difference(first, account);
        match (self.output, &mut self.screen) {
            (terminal::Output::Json, _) => terminal::json_line(account),
            (terminal::Output::Text, Some(screen)) => screen.draw(&picture(&self.of, account, &change)),
            (terminal::Output::Text, None) => terminal::line(line(account, &change)),
        }
    }

    fn note(&mut self, why: &str) {
        if let Some(screen) = &mut self.screen {
            screen.leave();
        }
        terminal::say(why);
    }
}

fn picture(of: &str, account: &Account, change: &Difference) -> String {
    let since = Span(Duration::from_secs(change.to_unix_us.saturating_sub(change.from_unix_us) / 1_000_000));
    let most = most(change);
    let most = if most.is_empty() { String::new() } else { format!(": {most}") };
    let head = account::head(account);
    let (clock, total) = (clock(account), signed(change.kernel_total_bytes));
    let mark = mark(change).map_or_else(String::new, |mark| format!("\n{mark}"));
    format!("{of}\n{clock}  {head}\nin {since} {total}{most}{mark}\n\n{}", tree::text(account, false))
}

fn line(account: &Account, change: &Difference) -> String {
    let most = most(change);
    let mark = mark(change).map_or_else(String::new, |mark| format!("  {mark}"));
    format!(
        "{}  total {} ({})  unexplained {} ({})  {most}{mark}",
        clock(account),
        Bytes(account.kernel_total_bytes),
        signed(change.kernel_total_bytes),
        SignedBytes(account.unexplained_bytes.into()),
        signed(change.unexplained_bytes),
    )
}

/// The three leaves that changed most.
fn most(change: &Difference) -> String {
    let most = changed(change).into_iter().take(3);
    most.map(|(leaf, bytes)| format!("{} {}", leaf.path, signed(bytes))).collect::<Vec<_>>().join(", ")
}

/// A reading that knows less than the first one, or more, is no sign of memory that was freed or taken.
fn mark(change: &Difference) -> Option<String> {
    let once = change.read_once();
    (!once.is_empty()).then(|| format!("not comparable, not read: {}", once.join(", ")))
}

/// The time of the account: `14:05:30Z`.
fn clock(account: &Account) -> String {
    let clock = rfc3339(account.at_unix_us / 1_000_000);
    clock.split_once('T').map_or_else(String::new, |(_, clock)| clock.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::change::leaf;
    use super::*;

    #[test]
    fn a_reading_in_one_line() {
        let account = |[at, sort, plan]: [u64; 3]| {
            let leaves = [("sessions/sort", sort), ("backends/plans", plan)].map(leaf).into();
            let kernel_total_bytes = sort + plan + 1024;
            Account {
                at_unix_us: at * 1_000_000,
                kernel_total_bytes,
                unexplained_bytes: 1024,
                leaves,
                ..Account::default()
            }
        };
        let (first, last) = (account([1_795_205_730, 0, 4096]), account([1_795_205_790, 8192, 4096]));
        let change = difference(&first, &last);
        let said = "20:16:30Z  total 13 KiB (+8 KiB)  unexplained 1 KiB (0 B)  sessions/sort +8 KiB";
        assert_eq!(line(&last, &change), said);
        // while the server stands still, its leaves are not known
        let mut silent = Account { leaves: Vec::new(), ..last.clone() };
        silent.missing = vec![Missing { what: "the server's own rows".into(), ..Missing::default() }];
        let marked = line(&silent, &difference(&last, &silent));
        let said = "unexplained 1 KiB (0 B)    not comparable, not read: the server's own rows (after)";
        assert!(marked.ends_with(said), "{marked}");
        let drawn = picture("mariadb", &last, &change);
        assert!(
            drawn.starts_with("mariadb\n20:16:30Z  ") && drawn.contains("\nin 1 m +8 KiB: sessions/sort +8 KiB\n"),
            "{drawn}"
        );
    }
}
