// SPDX-License-Identifier: Apache-2.0
//! Users and groups in `/etc/passwd` and `/etc/group`.

/// The lines of `/etc/passwd` or `/etc/group`, each split into its fields.
pub(crate) fn entries(path: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| line.split(':').map(str::to_owned).collect()).collect()
}

pub(crate) fn id(entry: &[String]) -> Option<u32> {
    entry.get(2)?.parse().ok()
}

fn name_of(id_wanted: u32, path: &str) -> Option<String> {
    entries(path).into_iter().find(|it| id(it) == Some(id_wanted)).map(|mut it| it.swap_remove(0))
}

/// The user's name in `/etc/passwd`, as `sudo -u` takes it.
pub fn user_name(uid: u32) -> Option<String> {
    name_of(uid, "/etc/passwd")
}

pub(crate) fn user(uid: u32) -> String {
    user_name(uid).map_or_else(|| format!("uid {uid}"), |name| format!("{name} (uid {uid})"))
}

pub(crate) fn group(gid: u32) -> String {
    name_of(gid, "/etc/group").unwrap_or_else(|| gid.to_string())
}
