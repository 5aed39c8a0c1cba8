// SPDX-License-Identifier: Apache-2.0
//! Host and server over the whole run: a panel for each group of series.

use super::section::{Section, figure};
use crate::{Context, series};
use std::io::{self, Write};

pub(super) const SECTION: Section = Section {
    id: "host",
    title: "Host and server, over the whole run",
    nav: Some("Host and server"),
    has_content: |context| !series::panels(context.evidence).is_empty(),
    write,
    help: "",
};

fn write(context: &Context<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<p class=\"lead\">Shaded bands are the arms, the darker part what was measured. The time axis is that of the run.</p>"
    )?;
    let mut panels = series::panels(context.evidence).into_iter();
    panels.try_for_each(|panel| figure(out, panel.id, panel.title, panel.help))
}
