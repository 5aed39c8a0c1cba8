// SPDX-License-Identifier: Apache-2.0
//! `internal watchdog` and `internal launch`, as the program `wringer` has them: what a run of these tests re-executes. And
//! `deploy HOME CACHE NAME`, to be killed.

use host::places::Places;
use host::process::{launch, order};
use std::error::Error;
use std::ffi::OsString;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    if args.first().is_some_and(|word| word == "deploy") {
        return deploy(&args);
    }
    match args.get(1).and_then(|role| role.to_str()) {
        Some("watchdog") => Ok(run::watchdog::main(order()?, |_| true)?),
        Some("launch") => std::process::exit(launch(&order()?)?),
        _ => Err("usage: internal watchdog|launch".into()),
    }
}

fn deploy(args: &[OsString]) -> Result<(), Box<dyn Error>> {
    let [_, home, cache, name] = args else { return Err("usage: deploy HOME CACHE NAME".into()) };
    let places = Places { cache: cache.into(), ..Places::below(home.as_ref()) };
    let installation = sandbox::fetched(sandbox::Flavour::Mariadb, &places).remove(0);
    let spec = sandbox::Spec { name: name.to_string_lossy().into(), ..sandbox::Spec::new(installation) };
    sandbox::Sandbox::deploy(spec, &places, &mut ())?;
    Ok(())
}
