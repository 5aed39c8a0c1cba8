// SPDX-License-Identifier: Apache-2.0
//! Every place that others may have in a slow directory, what they do there, and every way in which it ends. `WRINGER_MOUNTS=full` tries all,
//! `WRINGER_MOUNTS='Container Open'` those of that name;
//! otherwise every other pair of place and end, and what is done there, as the seed says.

use super::scene::{Doing, NEXT_TRY, Place, Scene};
use super::standing::{PATIENCE, kill_together, process_of, signal};
use rustix::process::Signal;
use testkit::{Snapshot, alone, announce_cases, is_root, wait_until};

const PLACES: [Place; 6] = [
    Place::ForeignMountAbove,
    Place::BindMountElsewhere,
    Place::RenamedParent,
    Place::PrivateNamespace,
    Place::SlaveNamespace,
    Place::Container,
];
const DOINGS: [Doing; 3] = [Doing::Idle, Doing::Open, Doing::Writing];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Release,
    Undo,
    TimeOver,
    ControllerKilled,
    WatchdogKilledToo,
}

const ENDS: [End; 5] = [End::Release, End::Undo, End::TimeOver, End::ControllerKilled, End::WatchdogKilledToo];

#[allow(clippy::print_stdout)] // whoever repeats a failure needs the seed
fn cases() -> Vec<(Place, Doing, End)> {
    let wanted = std::env::var("WRINGER_MOUNTS").unwrap_or_default();
    let seed = std::env::var("WRINGER_SEED").ok().and_then(|text| text.parse().ok());
    let seed: usize = seed.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        usize::try_from(now.as_secs() % 1000).unwrap()
    });
    println!("WRINGER_SEED={seed}");
    let all = PLACES.iter().enumerate().flat_map(|(p, place)| {
        ENDS.iter().enumerate().flat_map(move |(e, end)| {
            DOINGS.iter().enumerate().map(move |(d, doing)| ((p, d, e), (*place, *doing, *end)))
        })
    });
    let sampled =
        |(p, d, e): (usize, usize, usize)| (p + e + seed).is_multiple_of(2) && (p * 7 + e * 5 + seed / 2) % 3 == d;
    let named = |(place, doing, end): &(Place, Doing, End)| format!("{place:?} {doing:?} {end:?}").contains(&wanted);
    let all = all.filter(|(at, case)| match wanted.as_str() {
        "" => sampled(*at),
        "full" => true,
        _ => named(case),
    });
    all.map(|(_, case)| case).collect()
}

#[test]
fn nobody_loses_anything_and_ours_is_gone_or_told() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let _alone = alone();
    let before = Snapshot::take();
    let cases = cases();
    for (place, doing, end) in &cases {
        let began = std::time::Instant::now();
        try_one(*place, *doing, *end);
        println!("{place:?} {doing:?} {end:?}: {:.1} s", began.elapsed().as_secs_f64());
    }
    super::standing::expect_as_before(&before);
    announce_cases("matrix::nobody_loses_anything_and_ours_is_gone_or_told", cases.len());
}

fn try_one(place: Place, doing: Doing, end: End) {
    let mut scene = Scene::new(place, doing, if end == End::TimeOver { "6s" } else { "1h" });
    let (must_stay, what) = (scene.must_stay(), format!("{place:?} {doing:?} {end:?}"));
    let code = if must_stay { 5 } else { 0 };
    let by_command = |arguments: &[&str]| {
        let ran = scene.lab.run(arguments).expect_code(code);
        assert!(!must_stay || ran.stderr.contains("is busy: "), "{what}: {ran:?}");
    };
    match end {
        End::Release => by_command(&["disk", "release"]),
        End::Undo => by_command(&["undo"]),
        End::TimeOver => {}
        End::ControllerKilled => signal(scene.supervisor, Signal::KILL),
        End::WatchdogKilledToo => {
            kill_together(&[process_of(&scene.lab, "watchdog"), scene.supervisor]);
            by_command(&["undo"]);
        }
    }
    if matches!(end, End::TimeOver | End::ControllerKilled) {
        let said = || scene.watchdog_said();
        let settled = || if must_stay { said().contains("is busy: ") } else { scene.runs() == 0 };
        assert!(wait_until(PATIENCE, settled), "{what}: {}", said());
    }
    assert_eq!((scene.is_mounted(), scene.runs() > 0), (must_stay, must_stay), "{what}");
    scene.expect_no_harm();
    scene.leave();
    if must_stay && end == End::WatchdogKilledToo {
        scene.lab.run(["undo"]).expect_code(0);
    }
    assert!(
        wait_until(NEXT_TRY, || scene.runs() == 0),
        "{what}: nobody takes it away later: {}",
        scene.watchdog_said()
    );
    scene.expect_everything_back();
}
