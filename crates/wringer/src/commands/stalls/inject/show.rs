// SPDX-License-Identifier: Apache-2.0
//! Plans, injections and causes as text.

use ::inject::{Injected, Injection, Plantable};
use std::fmt::Write as _;

fn ms(us: u64) -> String {
    format!("{:.1} ms", us as f64 / 1000.0)
}

fn s(us: u64) -> String {
    format!("{:.3} s", us as f64 / 1_000_000.0)
}

pub(super) fn plan(plan: &[Injection]) -> String {
    let mut text = format!("{:>10}  {:>10}  cause\n", "at", "length");
    for it in plan {
        let _ = writeln!(text, "{:>10}  {:>10}  {}", s(it.at_us), ms(it.length_us), it.cause.name());
    }
    text
}

/// One line for a stall that is over.
pub(super) fn injected(it: &Injected) -> String {
    let on = it.table.as_ref().map(|table| format!(" on {table}")).unwrap_or_default();
    let mut text = format!("{:>10}  {}{on}: asked {}", s(it.asked_at_us), it.cause, ms(it.asked_us));
    match it.length_us {
        Some(length) => text += &format!(", got {}", ms(length)),
        None => text += ", did not begin",
    }
    text += match it.bit {
        Some(true) => "; it took effect",
        Some(false) => "; it took no effect",
        None => "; it is not known whether it took effect",
    };
    if let Some(witness) = &it.witness {
        text += &format!("; {}: {}", witness.what, witness.value);
    }
    if let Some(why) = &it.why {
        text += &format!(" ({why})");
    }
    text
}

pub(super) fn causes(causes: &[Plantable]) -> String {
    let mut text = String::new();
    for it in causes {
        let can = if it.can_be_planted { "yes" } else { "no" };
        let words = it.why.as_deref().or(it.how).unwrap_or_default();
        let _ = writeln!(text, "{:<18} {can:<4} {words}", it.cause);
        if let Some(remedy) = &it.remedy {
            let _ = writeln!(text, "{:<18} {:<4} {remedy}", "", "");
        }
    }
    text
}
