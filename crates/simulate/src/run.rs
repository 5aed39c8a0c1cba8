// SPDX-License-Identifier: Apache-2.0
//! All loads of one simulation, one after the other, on one server.

use crate::band::{Band, starts};
use crate::outcome::Load;
use crate::settings::{Error, Settings};
use crate::world::World;

/// Clients that have no page so long after a load will never get one.
const PATIENCE_NS: u64 = 10_000_000_000;

/// The loads of these settings, exactly with the start that they say.
///
/// # Errors
/// Settings that [`Settings::check`] refuses.
pub fn simulate(settings: &Settings) -> Result<Vec<Load>, Error> {
    settings.check()?;
    Ok(loads(settings).0)
}

/// The same, with the band of each load over `count` other starts that the server could have been in. No band when nothing is unknown.
///
/// # Errors
/// Settings that [`Settings::check`] refuses.
pub fn simulate_with_band(settings: &Settings, count: u32) -> Result<Vec<(Load, Option<Band>)>, Error> {
    let mut bands: Vec<(Load, Option<Band>)> = simulate(settings)?.into_iter().map(|load| (load, None)).collect();
    let (unknown, starts) = starts(settings, count);
    for other in starts {
        for ((load, band), other) in bands.iter_mut().zip(loads(&other).0) {
            band.get_or_insert_with(|| Band::new(unknown.clone(), load)).widen(&other);
        }
    }
    Ok(bands)
}

/// The loads, and whether no page of the pool was lost or doubled at the end of each load.
pub(crate) fn loads(settings: &Settings) -> (Vec<Load>, bool) {
    let mut world = World::new(settings);
    let mut loads = Vec::new();
    let mut is_whole = true;
    for repeat in 1..=settings.repeat {
        let gap = if repeat == 1 { 0 } else { settings.gap_ns };
        world.run(world.now + gap + settings.pause_ns);
        let before = world.counted();
        world.begin_load();
        world.run(world.load_ends);
        let sleep = world.refillers.first().map(|it| it.sleep_us());
        let free = world.free();
        let patience = world.load_ends.saturating_add(PATIENCE_NS);
        world.run_out(patience);
        if world.is_anybody_left() {
            world.run(patience);
        }
        world.end_load();
        is_whole &= world.instances.iter().all(|it| it.pages() == settings.instance_pages);
        let counters = world.counted().since(before);
        let recorder = std::mem::replace(&mut world.recorder, crate::outcome::Recorder::new(u64::MAX, 1));
        loads.push(recorder.load(repeat, sleep, free, counters));
    }
    (loads, is_whole)
}

#[cfg(test)]
mod tests;
