// SPDX-License-Identifier: Apache-2.0
//! Traces on the host of runs without a readable journal.

use super::hidden;
use crate::terminal;
use run::{Condition, Lost, Thing, Trace};
use serde_json::{Value, json};

/// One word, as `wringer status --help` explains it, or why it does not belong to this home.
fn word(condition: &Condition) -> &'static str {
    match condition {
        Condition::CutOff | Condition::Held(_) => "lost",
        Condition::Stands => "standing",
        Condition::LiveElsewhere => "live",
        Condition::HotElsewhere => "hot",
        Condition::Foreign(_) => "foreign",
    }
}

pub fn show(lost: &Lost) {
    if lost.condition == Condition::LiveElsewhere {
        terminal::data(format_args!("run {} is {}{}", lost.id, lost.condition, where_is(lost)));
    } else {
        terminal::data(format_args!("{}: {}: {}{}", lost.id, word(&lost.condition), lost.condition, where_is(lost)));
    }
    for trace in lost.traces.iter().filter(|trace| is_told(trace, &lost.condition)) {
        let owner = trace.owner.filter(|_| !trace.is_ours).map(|uid| format!(", of uid {uid}")).unwrap_or_default();
        terminal::data(format_args!("    {}{owner}", trace.thing));
    }
}

/// Of a live run of another home, only what it changes for everybody: who looks from outside has no use for its other processes.
fn is_told(trace: &Trace, condition: &Condition) -> bool {
    *condition != Condition::LiveElsewhere || hidden::is_holder(trace) || !matches!(trace.thing, Thing::Process { .. })
}

fn where_is(lost: &Lost) -> String {
    // an ordinary user may not look at the journals of another one
    let is_shut = matches!(lost.condition, Condition::Foreign(_)) && !rustix::process::geteuid().is_root();
    let home = lost.home().filter(|_| lost.is_of_others() && !is_shut);
    home.map(|home| format!(": `WRINGER_HOME={} wringer status` tells more", home.display())).unwrap_or_default()
}

pub fn json(lost: &Lost) -> Value {
    let traces = lost.traces.iter().map(|trace| {
        json!({ "what": trace.thing.to_string(), "ours": trace.is_ours, "uid": trace.owner, "command": trace.command() })
    });
    json!({
        "run": lost.id,
        "condition": word(&lost.condition),
        "due": lost.is_due(),
        "why": lost.condition.to_string(),
        "journal": lost.journal,
        "traces": traces.collect::<Vec<_>>(),
    })
}
