// SPDX-License-Identifier: Apache-2.0
//! Finds a pgBouncer program for this machine.

use super::program::{PoolerProgram, installed};
use crate::{Error, Progress, fetch};
use host::places::Places;

/// The program that [`locate`] finds without fetching.
pub fn present(places: &Places) -> Option<PoolerProgram> {
    installed().or_else(|| fetch::fetched_pooler(places))
}

/// An installed program, else one that was fetched earlier, else the distribution's package, which is fetched now.
///
/// # Errors
/// [`Error::NoPooler`]: no source has it; the package client fails; the disk is full.
pub fn locate(places: &Places, progress: &mut dyn Progress) -> Result<PoolerProgram, Error> {
    match present(places) {
        Some(found) => Ok(found),
        None => fetch::pooler(places, progress),
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // tests lay out folders of their own
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, chown};

    #[test]
    fn a_fetched_program_is_used_where_the_cache_cannot_be_locked() {
        let home = tempfile::tempdir().expect("a folder");
        let places = Places::below(home.path());
        let entry = places.cache.join("poolers/pgbouncer-1.18.0");
        let program = entry.join("tree/usr/sbin/pgbouncer");
        fs::create_dir_all(entry.join("tree/usr/sbin")).expect("makes");
        let text = home.path().join("text");
        fs::write(&text, "#!/bin/sh\necho PgBouncer 1.18.0\n").expect("writes");
        fs::set_permissions(&text, fs::Permissions::from_mode(0o755)).expect("sets");
        testkit::copy_program(&text, &program);
        let source = r#"{"kind": "package", "name": "pgbouncer", "version": "1.18.0-1"}"#;
        let record = format!(r#"{{"schema": 1, "source": {source}, "packages": []}}"#);
        fs::write(entry.join("fetched.json"), record).expect("writes");
        fs::write(places.cache.join("servers"), "no folder, so no lock").expect("writes");
        let found = locate(&places, &mut ()).expect("the fetched one, or an installed one");
        assert!(fetch::fetched_pooler(&places).is_some());
        assert!(installed().is_some() || found.path == program.canonicalize().expect("is there"));
        if rustix::process::geteuid().is_root() {
            chown(&program, Some(12_345), None).expect("gives it away");
            assert!(fetch::fetched_pooler(&places).is_none(), "root runs no program of another user");
        }
    }
}
