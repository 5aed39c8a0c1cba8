// SPDX-License-Identifier: Apache-2.0
//! Options without which a copied data directory cannot be opened, and options that keep the copy from acting on the original's surroundings.

use super::Origin;
use crate::{Error, Flavour, Sandbox, ServerOption};
use host::files;
use std::path::Path;

/// These options keep a copy of a replica, or of a subscriber, from replicating in the original's place. They also keep events and persisted settings
/// (which name the original's port and places) from taking effect. `loose_`: the name differs between versions.
const ALONE_MYSQL: [&str; 3] = ["loose_skip_slave_start", "loose_skip_replica_start", "event_scheduler=off"];
const ALONE_MYSQL_8: &str = "persisted_globals_load=off";
const ALONE_POSTGRESQL: [&str; 1] = ["max_logical_replication_workers=0"];
/// InnoDB's default.
const PAGE_BYTES: u64 = 16 << 10;

pub(super) fn of(sandbox: &Sandbox, origin: &Origin) -> Result<Vec<ServerOption>, Error> {
    let data = sandbox.data();
    let mut words: Vec<String> = Vec::new();
    match origin.flavour {
        Flavour::Postgresql => {
            words.extend(ALONE_POSTGRESQL.map(str::to_owned));
            let prepared = std::fs::read_dir(data.join("pg_twophase")).into_iter().flatten().count();
            if prepared > 0 {
                words.push(format!("max_prepared_transactions={}", prepared.max(64)));
            }
        }
        Flavour::Mariadb | Flavour::Mysql | Flavour::Percona => {
            words.extend(ALONE_MYSQL.map(str::to_owned));
            if origin.flavour == Flavour::Mysql && data.join("mysql.ibd").is_file() {
                words.push(ALONE_MYSQL_8.into());
            }
            words.extend(innodb(&data, origin.flavour));
        }
    }
    words.iter().map(|word| word.parse()).collect()
}

/// Events of a dump would run in the sandbox, and some delete old rows.
pub(super) fn of_dump() -> Result<Vec<ServerOption>, Error> {
    Ok(vec!["event_scheduler=off".parse()?])
}

fn innodb(data: &Path, flavour: Flavour) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(bytes) = page_bytes(&data.join("ibdata1")).filter(|bytes| *bytes != PAGE_BYTES) {
        words.push(format!("innodb_page_size={bytes}"));
    }
    if let Some(path) = said_by_backup(data).or_else(|| system_files(data)) {
        words.push(format!("innodb_data_file_path={path}"));
    }
    let undo = (1..=127).take_while(|number| data.join(format!("undo{number:03}")).is_file()).count();
    if flavour == Flavour::Mariadb && undo > 0 {
        words.push(format!("innodb_undo_tablespaces={undo}"));
    }
    words
}

/// The setting in the file in which xtrabackup and mariabackup keep the server's own settings.
fn said_by_backup(data: &Path) -> Option<String> {
    let text = std::fs::read_to_string(data.join("backup-my.cnf")).ok()?;
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let value =
        pairs.map(|(key, value)| (key.trim(), value.trim())).find(|(key, _)| *key == "innodb_data_file_path")?.1;
    in_the_copy(data, value)
}

/// The setting with the copy's files: with the path of a system file, the copy would open, and change, the original's file. `None` when the copy has
/// no file of that name.
fn in_the_copy(data: &Path, setting: &str) -> Option<String> {
    let part = |part: &str| {
        let (file, rest) = part.split_at(part.find(':').unwrap_or(part.len()));
        // in `x:/y` InnoDB takes the colon for a part of the name
        if rest.contains('/') {
            return None;
        }
        if !file.contains('/') {
            return Some(part.to_owned());
        }
        let name = Path::new(file).file_name()?.to_str()?;
        data.join(name).is_file().then(|| format!("{name}{rest}"))
    };
    let parts: Option<Vec<String>> = setting.split(';').map(part).collect();
    Some(parts?.join(";"))
}

/// The option for several files `ibdata1`, `ibdata2`: each file but the last has a fixed size.
fn system_files(data: &Path) -> Option<String> {
    let sizes: Vec<u64> = (1..).map_while(|n| Some(data.join(format!("ibdata{n}")).metadata().ok()?.len())).collect();
    if sizes.len() < 2 {
        return None;
    }
    let last = sizes.len() - 1;
    let part = |(index, bytes): (usize, &u64)| {
        let ending = if index == last { ":autoextend" } else { "" };
        format!("ibdata{}:{}K{ending}", index + 1, bytes >> 10)
    };
    Some(sizes.iter().enumerate().map(part).collect::<Vec<_>>().join(";"))
}

/// The page size, from the flags of the system tablespace (page 0, byte 54): in the layout of `full_crc32` (MariaDB 10.5) when bit 4 is set, else in
/// the older layout. 3 is 4 KiB, 5 is 16 KiB.
fn page_bytes(system: &Path) -> Option<u64> {
    let head = files::head(system, 58).ok()?;
    let flags = u32::from_be_bytes(head.get(54..58)?.try_into().ok()?);
    let shift = if flags & 0x10 != 0 { flags & 0xf } else { (flags >> 6) & 0xf };
    match shift {
        0 => Some(PAGE_BYTES),
        3..=7 => Some(512 << shift),
        _ => None,
    }
}

pub(super) fn describe(settings: &[ServerOption]) -> Vec<String> {
    settings.iter().map(|option| format!("{option} in server.cnf")).collect()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // tests lay out folders of their own
mod tests {
    use super::*;

    #[test]
    fn page_sizes() {
        let home = tempfile::tempdir().expect("a folder");
        let size = |flags: u32| {
            let mut page = vec![0_u8; 64];
            page[54..58].copy_from_slice(&flags.to_be_bytes());
            std::fs::write(home.path().join("ibdata1"), page).expect("writes");
            page_bytes(&home.path().join("ibdata1"))
        };
        assert_eq!((size(0), size(0x15), size(0x14)), (Some(16 << 10), Some(16 << 10), Some(8 << 10)));
        assert_eq!((size(3 << 6), size(7 << 6)), (Some(4 << 10), Some(64 << 10)));
    }

    #[test]
    fn several_system_files() {
        let home = tempfile::tempdir().expect("a folder");
        let file = |name: &str, bytes: usize| std::fs::write(home.path().join(name), vec![0; bytes]).expect("writes");
        file("ibdata1", 4096);
        assert_eq!(system_files(home.path()), None);
        file("ibdata2", 8192);
        assert_eq!(system_files(home.path()).as_deref(), Some("ibdata1:4K;ibdata2:8K:autoextend"));
        std::fs::write(home.path().join("backup-my.cnf"), "[mysqld]\ninnodb_data_file_path=ibdata1:12M:autoextend\n")
            .expect("writes");
        assert_eq!(said_by_backup(home.path()).as_deref(), Some("ibdata1:12M:autoextend"));
    }

    #[test]
    fn a_path_of_a_system_file_becomes_the_copys_file() {
        let (home, original) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let of = |setting: &str| {
            let text = format!("[mysqld]\ninnodb_data_file_path={setting}\n");
            std::fs::write(home.path().join("backup-my.cnf"), text).expect("writes");
            let words = innodb(home.path(), Flavour::Mysql);
            words.first().map(|word| word.replace("innodb_data_file_path=", ""))
        };
        std::fs::write(home.path().join("ibdata1"), vec![0; 4096]).expect("writes");
        std::fs::write(original.path().join("ibdata2"), "").expect("writes");
        let elsewhere = original.path().display();
        let setting = format!("{elsewhere}/ibdata1:12M;../x/ibdata1:4M;ibdata3:1M:autoextend:max:9M");
        assert_eq!(of(&setting).as_deref(), Some("ibdata1:12M;ibdata1:4M;ibdata3:1M:autoextend:max:9M"));
        for not_copied in [format!("ibdata1:12M;{elsewhere}/ibdata2:1M"), "/..:1M".into(), "x:/../y:1M".into()] {
            assert_eq!(of(&not_copied), None, "{not_copied}");
        }
    }
}
