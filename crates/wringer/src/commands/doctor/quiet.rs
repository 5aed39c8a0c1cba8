// SPDX-License-Identifier: Apache-2.0
//! Whether this host is quiet enough to measure on: for two seconds it watches the host, and measures how late naps end.

use super::check::{Check, State};
use explain::busy::{self, Busy, Cause};
use host::places::Places;
use observe::busy::Look;
use observe::server::witnesses;
use std::thread::sleep;
use std::time::{Duration, Instant};

const ID: &str = "quiet";
const LENGTH: Duration = Duration::from_secs(2);
const NAP: Duration = Duration::from_millis(1);
/// When one nap in a hundred ends later than this, the lateness is part of every measured delay.
const LATE: Duration = Duration::from_millis(1);

/// Takes two seconds. Writes nothing, and reads only `/proc` and `/sys`.
pub fn check(places: &Places) -> Check {
    let look = Look::on_behalf_of(std::process::id(), Some(&places.sandboxes));
    let before = look.counters();
    let late = naps();
    let seen = Busy::from_counters(&witnesses(busy::HOST, &before, &look.counters()));
    judge(seen.as_ref(), late)
}

/// The lateness that one nap in a hundred exceeds.
fn naps() -> Duration {
    let began = Instant::now();
    let mut late = Vec::new();
    while began.elapsed() < LENGTH {
        let nap = Instant::now();
        sleep(NAP);
        late.push(nap.elapsed().saturating_sub(NAP));
    }
    late.sort();
    late.get(late.len().saturating_sub(1) * 99 / 100).copied().unwrap_or_default()
}

fn judge(seen: Option<&Busy>, late: Duration) -> Check {
    let lateness = format!("one sleep in a hundred ends {:.1} ms late or later", late.as_secs_f64() * 1e3);
    let Some(seen) = seen else {
        return said(State::Caution, format!("/proc/stat tells nothing; {lateness}"), "mount /proc");
    };
    let share = |ratio: f64| format!("{:.1} %", ratio * 100.0);
    let mut found = vec![
        format!("other programs use {} of the CPUs", share(seen.others_ratio)),
        format!("the hypervisor takes {}", share(seen.stolen_ratio)),
    ];
    found.extend(seen.waits().map(|(what, ratio)| format!("somebody waits for {what} {}", share(ratio))));
    found.push(lateness);
    if seen.other_runs > 0 {
        found.push(format!("{} other runs of Wringer's are here", seen.other_runs));
    }
    let causes = seen.causes(false);
    let waiting = seen.waits().any(|(_, ratio)| ratio > busy::WAITING_RATIO);
    let found = found.join(", ");
    match (causes.first().copied().map(Cause::hint), waiting || late > LATE) {
        (None, false) => {
            Check { id: ID, state: State::Good, found: format!("quiet enough to measure: {found}"), remedy: None }
        }
        (hint, _) => {
            let remedy =
                hint.unwrap_or("stop what runs beside it, and ask again; a run measures this in each arm and says it");
            said(State::Caution, format!("busy: what is measured now will differ from run to run: {found}"), remedy)
        }
    }
}

fn said(state: State, found: String, remedy: &str) -> Check {
    Check { id: ID, state, found, remedy: Some(remedy.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_that_disturbs_is_told_with_its_figure() {
        let soon = Duration::from_micros(80);
        let quiet = Busy { others_ratio: 0.01, cpu_waiting_ratio: Some(0.01), ..Busy::default() };
        let good = judge(Some(&quiet), soon);
        assert_eq!(good.state, State::Good);
        assert!(good.found.contains("other programs use 1.0 %") && good.found.contains("0.1 ms late"), "{good:?}");
        let cases = [
            (Busy { others_ratio: 0.5, ..quiet }, soon, "other programs use 50.0 %"),
            (Busy { stolen_ratio: 0.08, ..quiet }, soon, "the hypervisor takes 8.0 %"),
            (Busy { io_waiting_ratio: Some(0.4), ..quiet }, soon, "somebody waits for the disk 40.0 %"),
            (Busy { other_runs: 1, other_runs_ratio: 0.2, ..quiet }, soon, "1 other runs"),
            (quiet, Duration::from_millis(3), "3.0 ms late"),
        ];
        for (busy, late, words) in cases {
            let said = judge(Some(&busy), late);
            assert_eq!(said.state, State::Caution, "{words}");
            assert!(said.found.contains(words) && said.remedy.is_some(), "{said:?}");
        }
    }
}
