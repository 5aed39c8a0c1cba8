// SPDX-License-Identifier: Apache-2.0
//! Texts that were taken as a whole, each folded.

use super::escape::Text;
use super::section::Section;
use crate::{Context, show};
use evidence::Snapshot;
use std::io::{self, Write};

/// The limit for all texts together; the rest is in the recording, because a phone must be able to open the page.
const SHOWN_CHARS: usize = 15_000;

pub(super) const SECTION: Section = Section {
    id: "snapshots",
    title: "Snapshots",
    nav: None,
    has_content: |context| !context.snapshots.is_empty(),
    write,
    help: "<p>Each line opens a text that was taken at that moment of the run: of MariaDB and MySQL what InnoDB says of itself when an arm's \
         load had ended (<code>SHOW ENGINE INNODB STATUS</code>). Its rates a second are of the seconds since it was last asked. A statement \
         that the server was running may stand in it.</p>",
};

fn write(context: &Context<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<p class=\"lead\">What was said at one moment, as it was said.</p>")?;
    let mut left = SHOWN_CHARS;
    for taken in &context.snapshots {
        left -= snapshot(taken, left, out)?;
    }
    Ok(())
}

/// Returns how many characters were written.
fn snapshot(taken: &Snapshot, left: usize, out: &mut dyn Write) -> io::Result<usize> {
    let shown: String = taken.content.chars().take(left).collect();
    let rest = if shown.len() < taken.content.len() { "\n[the rest is in recording.sqlite]" } else { "" };
    let of = [taken.source.as_str(), &taken.entity, taken.arm.as_deref().unwrap_or("between arms")];
    let of: Vec<&str> = of.into_iter().filter(|part| !part.is_empty()).collect();
    writeln!(
        out,
        "<details><summary>{} · {}</summary><pre>{}{rest}</pre></details>",
        show::moment(taken.at_us),
        Text(of.join(" · ")),
        Text(&shown)
    )?;
    Ok(shown.chars().count())
}
