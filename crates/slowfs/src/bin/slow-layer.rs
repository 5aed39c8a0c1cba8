// SPDX-License-Identifier: Apache-2.0
//! The slow layer alone, for this crate's tests and for `benches/squeeze`: its one argument is [`slowfs::process::Options`] as JSON.
//! People and runs use `wringer internal slowfs`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = std::env::args().nth(1).ok_or("usage: slow-layer OPTIONS-AS-JSON")?;
    Ok(slowfs::process::run(&serde_json::from_str(&options)?)?)
}
