// SPDX-License-Identifier: Apache-2.0
//! Finds database servers on this host that these places did not start: a squeeze of the host would affect them.

use host::places::Places;
use host::process::{RUN_VARIABLE, Server, servers};
use std::collections::BTreeSet;

/// Servers of any run in `places` are left out; servers of another `WRINGER_HOME` are not.
///
/// # Errors
/// The journals cannot be listed.
pub fn unknown(places: &Places) -> Result<Vec<Server>, run::Error> {
    let ours: BTreeSet<u32> = run::find_runs(places)?.iter().flat_map(|run| &run.processes).map(|it| it.pid).collect();
    Ok(servers().into_iter().filter(|server| !ours.contains(&server.pid)).collect())
}

/// `mariadbd (process 12)`, and of which `WRINGER_HOME` it is, where its environment may be read and tells.
pub fn described(server: &Server) -> String {
    let environment = std::fs::read(format!("/proc/{}/environ", server.pid)).unwrap_or_default();
    let of = starter(&environment).map(|of| format!(", of {of}")).unwrap_or_default();
    format!("{} (process {}{of})", server.program, server.pid)
}

/// Who started a server with this environment. `None`: it was not Wringer, or the environment does not tell.
fn starter(environment: &[u8]) -> Option<String> {
    let variable = |name: &str| {
        let text = |entry: &[u8]| String::from_utf8_lossy(entry).into_owned();
        let entries = environment.split(|byte| *byte == 0).map(text);
        entries.into_iter().find_map(|entry| entry.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
    };
    let run = variable(RUN_VARIABLE)?;
    let home = variable("WRINGER_HOME").filter(|home| !home.is_empty());
    Some(home.map_or_else(|| format!("Wringer's run {run}"), |home| format!("WRINGER_HOME={home}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_tells_whose_server_it_is() {
        let told = |environment: &[u8]| starter(environment);
        let of_a_home = b"A=1\0WRINGER_HOME=/h\0WRINGER_RUN=w-1\0";
        assert_eq!(told(of_a_home).as_deref(), Some("WRINGER_HOME=/h"));
        assert_eq!(told(b"WRINGER_RUN=w-1\0").as_deref(), Some("Wringer's run w-1"), "of the default home");
        assert_eq!(told(b"WRINGER_HOME=/h\0"), None, "a shell that sets the variable may start servers, too");
        assert_eq!(told(b""), None, "it may not be read");
    }
}
