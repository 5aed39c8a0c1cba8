// SPDX-License-Identifier: Apache-2.0
//! Writes the report of the sample recording that the tests use, to look at: `cargo run -p report --example sample -- FILE.html`.

#[path = "../tests/common/mod.rs"]
mod common;

use std::io::Write;

#[allow(clippy::disallowed_methods)] // an example for people
fn main() -> std::io::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "sample.html".to_owned());
    let sample = match std::env::args().nth(2).as_deref() {
        Some("cut-off") => common::cut_off(),
        Some("empty") => common::empty(),
        Some("hostile") => common::hostile(),
        _ => common::sample(),
    };
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    report::write_html(&sample.context(), &mut file)?;
    std::io::stdout().write_all(report::text(&sample.context()).as_bytes())
}
