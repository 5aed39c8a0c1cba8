// SPDX-License-Identifier: Apache-2.0
//! The server whose files a folder holds, and the version that these files tell. Layouts: PostgreSQL's "Database File Layout"; InnoDB's redo log
//! header, which has the creator at byte 16; page 0 of a tablespace of MySQL 8, which has the server version at byte 8.

use super::{Kind, Origin, refusal};
use crate::{Error, Flavour, Version};
use host::files;
use std::path::Path;

pub(super) fn look(path: &Path) -> Result<Origin, Error> {
    std::fs::read_dir(path).map_err(|source| Error::path("read folder", path, source))?;
    let has = |name: &str| path.join(name).exists();
    if has("PG_VERSION") {
        return postgresql(path);
    }
    if has("ibdata1") {
        return mysql_family(path);
    }
    let unfit = |why: &str, hint: &str| Err(refusal(path, why, hint));
    if has("base.tar") || has("base.tar.gz") || has("base.tar.zst") || has("base.tar.lz4") {
        let hint = "unpack base.tar into an empty folder and pg_wal.tar into its pg_wal; then --from that folder";
        return unfit("it is a base backup of PostgreSQL in tar form", hint);
    }
    if has("toc.dat") {
        let hint = "pg_restore -f dump.sql FOLDER writes it as SQL; then --from dump.sql";
        return unfit("it is a dump of pg_dump in directory form", hint);
    }
    let what = "a folder of PostgreSQL has PG_VERSION in it, one of MariaDB or MySQL has ibdata1";
    unfit("it is no data directory and no backup that is known here", what)
}

fn postgresql(path: &Path) -> Result<Origin, Error> {
    let text = text_of(&path.join("PG_VERSION"))?;
    let version: Version = text.trim().parse().map_err(|_| refusal(path, "PG_VERSION holds no version", ""))?;
    if !path.join("global/pg_control").is_file() {
        let hint = "the folder of a database is no cluster: name the folder above `base` and `global`";
        return Err(refusal(path, "it has PG_VERSION and no global/pg_control", hint));
    }
    if path.join("tablespace_map").metadata().is_ok_and(|map| map.len() > 0) {
        let why = "it has a tablespace_map, by which the server would link to the original's tablespaces";
        return Err(refusal(path, why, "take the base backup with --format=plain and --tablespace-mapping"));
    }
    let is_backup = path.join("backup_label").is_file();
    let (kind, mark) = if is_backup { (Kind::PhysicalBackup, ", backup_label") } else { (Kind::DataDirectory, "") };
    Ok(Origin {
        path: path.into(),
        kind,
        flavour: Flavour::Postgresql,
        version: Some(version),
        why: format!("it has PG_VERSION ({}), global/pg_control{mark}", text.trim()),
        recovers: is_backup || path.join("postmaster.pid").exists(),
    })
}

fn mysql_family(path: &Path) -> Result<Origin, Error> {
    if !path.join("mysql").is_dir() {
        let hint =
            "name the folder that holds `mysql` and the databases; a backup of single tables cannot be started on";
        return Err(refusal(path, "it has ibdata1 and no folder `mysql` with the accounts", hint));
    }
    check_prepared(path)?;
    let creator = redo_creator(path);
    let said_mysql = creator.as_deref().is_some_and(|creator| creator.starts_with("MySQL"));
    let (flavour, mark) = if path.join("mysql.ibd").is_file() {
        (Flavour::Mysql, "mysql.ibd")
    } else if path.join("aria_log_control").is_file() {
        (Flavour::Mariadb, "aria_log_control")
    } else if said_mysql {
        (Flavour::Mysql, "a redo log of MySQL")
    } else {
        let hint = "a data directory of MariaDB has aria_log_control, one of MySQL 8 and later has mysql.ibd";
        return Err(refusal(path, "it has ibdata1, and neither is it MariaDB's nor MySQL's", hint));
    };
    let info = INFO.iter().map(|name| path.join(name)).find(|path| path.is_file());
    let mut versions: Vec<Version> = creator.as_deref().and_then(Version::find_in).into_iter().collect();
    versions.extend(UPGRADE_INFO.iter().filter_map(|name| upgraded_to(&path.join(name))));
    versions.extend(info.as_ref().and_then(|path| said_by_backup(path)));
    if flavour == Flavour::Mysql {
        versions.extend(page_zero_version(&path.join("mysql.ibd")));
    }
    let version = versions.into_iter().max();
    let backup = info.as_ref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned());
    let kind = if backup.is_some() { Kind::PhysicalBackup } else { Kind::DataDirectory };
    let creator = creator.map(|creator| format!(", a redo log made by '{creator}'")).unwrap_or_default();
    Ok(Origin {
        path: path.into(),
        kind,
        flavour,
        version,
        why: format!("it has ibdata1, {mark}{}{creator}", backup.map(|name| format!(", {name}")).unwrap_or_default()),
        recovers: false,
    })
}

/// The files by which mariabackup and xtrabackup describe a backup.
const INFO: [&str; 2] = ["mariadb_backup_info", "xtrabackup_info"];
const CHECKPOINTS: [&str; 2] = ["mariadb_backup_checkpoints", "xtrabackup_checkpoints"];
/// The files in which a server keeps the version that its system tables were last upgraded to.
const UPGRADE_INFO: [&str; 2] = ["mariadb_upgrade_info", "mysql_upgrade_info"];

/// Refuses a backup that is not prepared: its files are of several moments until its log is applied to them.
fn check_prepared(path: &Path) -> Result<(), Error> {
    let Some(file) = CHECKPOINTS.iter().map(|name| path.join(name)).find(|path| path.is_file()) else { return Ok(()) };
    let text = text_of(&file)?;
    let value = value_of(&text, "backup_type").unwrap_or_default();
    if value == "full-prepared" || value == "log-applied" {
        return Ok(());
    }
    let why = format!("it is a backup that is not prepared (backup_type = {value}): its files are of several moments");
    let hint = "mariabackup (or xtrabackup) --prepare --target-dir=... on a copy of it; then --from that copy";
    Err(refusal(path, why, hint))
}

fn text_of(path: &Path) -> Result<String, Error> {
    let bytes = files::head(path, 64 << 10).map_err(|source| Error::path("read", path, source))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The value in `key = value` on a line of its own.
fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.trim(), value.trim())).find(|(name, _)| *name == key).map(|(_, value)| value)
}

fn said_by_backup(path: &Path) -> Option<Version> {
    Version::of_package(value_of(&text_of(path).ok()?, "server_version")?)
}

fn upgraded_to(path: &Path) -> Option<Version> {
    Version::of_package(text_of(path).ok()?.trim())
}

/// The server that made the redo log: `MariaDB 10.11.19`, `MySQL 9.7.4`. Later versions of the same series need not make a new log.
fn redo_creator(path: &Path) -> Option<String> {
    let newest = || {
        let entries = std::fs::read_dir(path.join("#innodb_redo")).ok()?.flatten();
        entries.map(|entry| entry.path()).filter(|path| !path.to_string_lossy().ends_with("_tmp")).max()
    };
    let file = Some(path.join("ib_logfile0")).filter(|path| path.is_file()).or_else(newest)?;
    let head = files::head(&file, 48).ok()?;
    let words = head.get(16..)?;
    let end = words.iter().position(|byte| !(b' '..=b'~').contains(byte)).unwrap_or(words.len());
    Some(String::from_utf8_lossy(&words[..end]).trim().to_owned()).filter(|words| !words.is_empty())
}

/// The server version in page 0; 90704 is 9.7.4.
fn page_zero_version(path: &Path) -> Option<Version> {
    let head = files::head(path, 12).ok()?;
    let number = u32::from_be_bytes(head.get(8..12)?.try_into().ok()?);
    (50_000..1_000_000).contains(&number).then(|| Version::of(&[number / 10_000, number / 100 % 100, number % 100]))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // tests lay out folders of their own
mod tests {
    use super::*;
    use std::fs;

    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let home = tempfile::tempdir().expect("a folder");
        for (name, content) in files {
            let path = home.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("makes");
            fs::write(path, content).expect("writes");
        }
        home
    }

    const REDO: &[u8] = b"Phys\0\0\0\0\0\0\0\0\0\0\0\0MariaDB 10.11.19\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

    #[test]
    fn a_data_directory_says_who_made_it() {
        let home = folder(&[("ibdata1", b""), ("mysql/x", b""), ("aria_log_control", b""), ("ib_logfile0", REDO)]);
        let found = look(home.path()).expect("is known");
        assert_eq!(found.describe(), "data directory of mariadb 10.11.19");
        fs::write(home.path().join("mysql_upgrade_info"), "11.4.5-MariaDB\n").expect("writes");
        assert_eq!(look(home.path()).expect("is known").describe(), "data directory of mariadb 11.4.5");

        let mut page = vec![0_u8; 12];
        page[8..].copy_from_slice(&90_704_u32.to_be_bytes());
        let home = folder(&[("ibdata1", b""), ("mysql/x", b""), ("mysql.ibd", &page)]);
        assert_eq!(look(home.path()).expect("is known").describe(), "data directory of mysql 9.7.4");
    }

    #[test]
    fn a_backup_is_refused_until_it_is_prepared() {
        let files: [(&str, &[u8]); 6] = [
            ("ibdata1", b""),
            ("mysql/x", b""),
            ("aria_log_control", b""),
            ("xtrabackup_info", b"tool_name = mariabackup\nserver_version = 10.11.6-MariaDB-log\n"),
            ("xtrabackup_checkpoints", b"backup_type = full-backuped\n"),
            ("ib_logfile0", b"short"),
        ];
        let home = folder(&files);
        let error = look(home.path()).expect_err("not prepared");
        assert!(error.to_string().contains("full-backuped") && error.is_missing(), "{error}");
        fs::write(home.path().join("xtrabackup_checkpoints"), "backup_type = log-applied\n").expect("writes");
        assert_eq!(look(home.path()).expect("is known").describe(), "physical backup of mariadb 10.11.6");
    }

    #[test]
    fn a_cluster_of_postgresql() {
        let home = folder(&[("PG_VERSION", b"15\n"), ("global/pg_control", b"x")]);
        let found = look(home.path()).expect("is known");
        assert_eq!((found.describe().as_str(), found.recovers), ("data directory of postgresql 15", false));
        let version = |text: &str| text.parse::<Version>().expect("a version");
        assert!(found.check_server(Flavour::Postgresql, &version("15.20")).is_ok());
        let error = found.check_server(Flavour::Postgresql, &version("18.1")).expect_err("another major version");
        assert!(error.is_missing() && error.hint().is_some_and(|hint| hint.contains("postgresql 15")), "{error}");
        assert!(found.check_server(Flavour::Mariadb, &version("10.11.19")).is_err());
        fs::write(home.path().join("backup_label"), "").expect("writes");
        assert_eq!(look(home.path()).expect("is known").kind, Kind::PhysicalBackup);
        fs::write(home.path().join("tablespace_map"), "16400 /elsewhere\n").expect("writes");
        assert!(look(home.path()).is_err());
    }

    #[test]
    fn data_of_a_newer_version_is_refused() {
        let home = folder(&[("ibdata1", b""), ("mysql/x", b""), ("aria_log_control", b""), ("ib_logfile0", REDO)]);
        let found = look(home.path()).expect("is known");
        let fits = |text: &str| found.check_server(Flavour::Mariadb, &text.parse().expect("a version")).is_ok();
        assert!(fits("10.11.2") && fits("11.4.1") && !fits("10.6.20"));
        assert!(found.check_server(Flavour::Mysql, &"9.7.4".parse().expect("a version")).is_err());
    }

    #[test]
    fn nothing_known_is_refused() {
        assert!(look(folder(&[("x", b"")]).path()).is_err());
        assert!(look(folder(&[("ibdata1", b"")]).path()).expect_err("no mysql").to_string().contains("accounts"));
        assert!(look(folder(&[("base.tar.gz", b"")]).path()).expect_err("tar").hint().is_some());
    }
}
