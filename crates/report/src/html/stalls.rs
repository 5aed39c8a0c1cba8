// SPDX-License-Identifier: Apache-2.0
//! Stalls: the times when statements waited together in each arm, the cause, and the cost.

use super::escape::Text;
use super::section::Section;
use crate::{Context, show};
use evidence::Arm;
use explain::stalled::ArmStalls;
use stalls::{Cause, Stall};
use std::io::{self, Write};
use units::counted;

/// The most stalls of one arm in the table: those that lost the most.
const LISTED: usize = 10;
/// The drawing's own units.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 48.0;

pub(super) const SECTION: Section = Section {
    id: "stalls",
    title: "Stalls",
    nav: Some("Stalls"),
    has_content: |context| !context.stalls.is_empty(),
    write,
    help: "<p>A <b>stall</b> is an interval in which statements that are usually quick waited together. In the strip of an arm, from the begin of what was \
         measured to its end, each bar is one stall: as wide as it was long, and as high as the share of the connections that it stopped. \
         A grey bar has no known cause. A victim <b>lost</b> its time less the median of its class outside stalls. How causes are told: <code>wringer doc \
         stalls-explain</code>; who the victims were: <code>wringer stalls explain FOLDER</code>.</p>",
};

fn write(context: &Context<'_>, out: &mut dyn Write) -> io::Result<()> {
    context.stalls.iter().try_for_each(|arm| strip(context, arm, out))?;
    let rows: Vec<(&str, &Stall)> =
        context.stalls.iter().flat_map(|arm| costliest(arm).map(move |stall| (arm.arm.as_str(), stall))).collect();
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<table class=\"cards\"><thead><tr><th scope=\"col\">Stall</th><th scope=\"col\">From</th><th scope=\"col\">Length</th>\
         <th scope=\"col\">Victims</th><th scope=\"col\">Lost</th><th scope=\"col\">Sure</th></tr></thead>\n<tbody>"
    )?;
    rows.into_iter().try_for_each(|(arm, stall)| row(arm, stall, out))?;
    writeln!(out, "</tbody></table>")
}

/// The costliest stalls, in their order in time.
fn costliest(arm: &ArmStalls) -> impl Iterator<Item = &Stall> {
    let mut stalls: Vec<&Stall> = arm.explained.stalls.iter().collect();
    stalls.sort_by_key(|stall| std::cmp::Reverse(stall.lost_query_us));
    stalls.truncate(LISTED);
    stalls.sort_by_key(|stall| stall.started_us);
    stalls.into_iter()
}

fn strip(context: &Context<'_>, arm: &ArmStalls, out: &mut dyn Write) -> io::Result<()> {
    let Some(view) = context.arms.iter().find(|view| view.arm.name == arm.arm) else { return Ok(()) };
    let Shown { from_us, length_us, connections } = Shown::of(view.arm, arm, context.evidence.elapsed_us);
    let (account, count) = (&arm.explained.account, arm.explained.stalls.len() as u64 + arm.explained.stalls_left_out);
    let lost = show::micros(account.lost_query_us as f64);
    let mut told = match count {
        0 => format!("no stall of {} or longer", show::micros(arm.explained.source.least_us as f64)),
        1 => format!("1 stall, {lost} of query time lost"),
        _ => format!("{} stalls, {lost} of query time lost", show::count(count)),
    };
    if let Some(us) = account.no_stall_query_us.filter(|us| *us > 0) {
        told += &format!("; slow statements that took {} are in no stall", show::micros(us as f64));
    }
    writeln!(
        out,
        "<p class=\"lead\"><b>{}</b>: {told}</p>\n<svg class=\"strip\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">",
        Text(&arm.arm),
        Text(format!("stalls of {} over its time: {told}", arm.arm)),
    )?;
    for stall in &arm.explained.stalls {
        let Some(started_us) = stall.started_us else { continue };
        let x = (started_us as f64 - from_us) / length_us * WIDTH;
        // wide enough to be seen
        let width = (stall.length_us as f64 / length_us * WIDTH).max(1.5);
        let height = (stall.victim_count as f64 / connections as f64).min(1.0) * HEIGHT;
        let class = if stall.cause == Cause::Unknown { "unknown" } else { "known" };
        writeln!(
            out,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"><title>{}</title></rect>",
            HEIGHT - height,
            Text(format!(
                "{}, {}, {} at {}",
                stall.cause.name(),
                show::micros(stall.length_us as f64),
                counted(stall.victim_count, "victim"),
                moment(stall)
            )),
        )?;
    }
    writeln!(out, "</svg>")?;
    watched(arm, out)
}

/// The time that a strip shows, and the number of connections that is its full height.
struct Shown {
    from_us: f64,
    length_us: f64,
    connections: u64,
}

impl Shown {
    /// The measured time of the load. For an arm without a load: all of its time, and the most victims of one stall.
    fn of(arm: &Arm, stalls: &ArmStalls, elapsed_us: u64) -> Self {
        if let Some(load) = &arm.load {
            let (from_us, length_us) = (load.measured.started_us as f64, load.measured.elapsed_us.max(1) as f64);
            return Self { from_us, length_us, connections: u64::from(load.connections.max(1)) };
        }
        let most = stalls.explained.stalls.iter().map(|stall| stall.victim_count).max().unwrap_or(1);
        // an arm that was cut off has no end
        let ended_us = if arm.ended_us > arm.started_us { arm.ended_us } else { elapsed_us };
        let length_us = ended_us.saturating_sub(arm.started_us).max(1) as f64;
        Self { from_us: arm.started_us as f64, length_us, connections: most.max(1) }
    }
}

/// The cost of the watch, and what it did not see.
fn watched(arm: &ArmStalls, out: &mut dyn Write) -> io::Result<()> {
    let Some(watched) = &arm.watched else { return Ok(()) };
    let cost = watched.cost.as_ref().and_then(|cost| {
        let share = cost["cpu_share"].as_f64()?;
        Some(format!("; watching took {:.2} % of a CPU and {} statements", share * 100.0, cost["statements"]))
    });
    let resolution = watched.resolution_us.map(|us| format!(", of {} and longer", show::micros(us as f64)));
    writeln!(
        out,
        "<p><small>A watch of the server's threads told {}{}{}.</small></p>",
        counted(watched.stalls, "stall"),
        Text(resolution.unwrap_or_default()),
        Text(cost.unwrap_or_else(|| "; it was cut off".to_owned())),
    )
}

fn moment(stall: &Stall) -> String {
    stall.started_us.and_then(|us| u64::try_from(us).ok()).map_or_else(String::new, show::moment)
}

fn row(arm: &str, stall: &Stall, out: &mut dyn Write) -> io::Result<()> {
    let sure =
        if stall.cause == Cause::Unknown { "–".to_owned() } else { format!("{:.0} %", stall.confidence * 100.0) };
    writeln!(
        out,
        "<tr><th scope=\"row\"><code>{}</code><small>{}</small></th><td data-label=\"From\">{}</td><td data-label=\"Length\"><b>{}</b></td>\
         <td data-label=\"Victims\">{}</td><td data-label=\"Lost\">{}</td><td data-label=\"Sure\">{sure}</td></tr>",
        stall.cause.name(),
        Text(arm),
        moment(stall),
        show::micros(stall.length_us as f64),
        stall.victim_count,
        show::micros(stall.lost_query_us as f64),
    )
}
