// SPDX-License-Identifier: Apache-2.0
//! `--hide-ram`, `--leave-ram`: hides RAM of the whole host as long as the command runs, as `wringer ram` does for a stated time.

use super::{Args, line};
use crate::commands::ram::{ask_consent, refuse_second};
use crate::commands::standing::refuse_hot;
use crate::exit::Failure;
use evidence::RamAmount;
use host::places::Places;
use serde_json::{Value, json};
use squeeze::Plan;
use squeeze::ram::{self, Hidden, Options};
use squeeze::standing::HiddenRam;
use units::Bytes;

/// Plans the hiding of RAM, with all refusals. `None`: the user did not ask for it.
pub fn plan(args: &Args, places: &Places) -> Result<Option<Plan>, Failure> {
    let hide = args.hide_ram.map(RamAmount::Hide);
    let Some(amount) = hide.or(args.leave_ram.map(RamAmount::Leave)) else { return Ok(None) };
    if !args.dry_run {
        let look = run::Look::take(places)?;
        let found = &look.runs;
        refuse_hot(places, &look)?;
        refuse_second(found)?;
    }
    let options = Options {
        mechanism: args.ram_mechanism.0,
        with_swap: args.with_swap,
        strict: args.strict,
        ..Options::new(amount)
    };
    let plan = Plan::ram(&options)?;
    if !args.dry_run && !plan.is_nothing() {
        ask_consent(places, args.yes)?;
    }
    Ok(Some(plan))
}

pub fn show(hidden: &Hidden) {
    let asked = match hidden.asked {
        RamAmount::Hide(bytes) => format!("asked to hide {bytes}"),
        RamAmount::Leave(bytes) => format!("asked to leave {bytes}"),
    };
    let Hidden { bytes, mechanism, before, after, .. } = hidden;
    let (before, after) = (Bytes(before.available_bytes), Bytes(after.available_bytes));
    let got = match bytes {
        0 => format!("nothing to hide: {before} were available"),
        bytes => format!(
            "hid {} of the whole host ({}); available {before} before, {after} then",
            Bytes(*bytes),
            mechanism.in_results()
        ),
    };
    line("host", format!("{asked}, {got}"));
    if let Some(remainder) = ram::remainder(&hidden.measured) {
        line("host", remainder);
    }
}

pub fn json(hidden: &Hidden) -> Value {
    let (hide, leave) = match hidden.asked {
        RamAmount::Hide(bytes) => (Some(bytes.0), None),
        RamAmount::Leave(bytes) => (None, Some(bytes.0)),
    };
    let mut value = json!(HiddenRam::of(hidden));
    value["asked_hide_bytes"] = json!(hide);
    value["asked_leave_bytes"] = json!(leave);
    value
}
