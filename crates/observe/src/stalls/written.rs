// SPDX-License-Identifier: Apache-2.0
//! Which of InnoDB's files a name means.

use ::stalls::watch::Written;
use std::path::Path;

/// The kind of the file, by its name and its folder, as MySQL, MariaDB and Percona Server choose them unless they are told otherwise.
pub(super) fn written(file: &Path) -> Written {
    let name = |path: &Path| path.file_name().and_then(|it| it.to_str()).map(str::to_owned).unwrap_or_default();
    let folder = file.parent().map(name).unwrap_or_default();
    let name = name(file);
    let begins = |beginnings: &[&str]| beginnings.iter().any(|it| name.starts_with(it));
    if begins(&["ib_logfile", "#ib_redo"]) || folder == "#innodb_redo" || is_binary_log(&name) {
        Written::Log
    } else if begins(&["ibdata"]) || name.ends_with(".dblwr") || name.ends_with(".bdblwr") {
        Written::Doublewrite
    } else if name.ends_with(".ibd") || begins(&["undo_0", "undo0"]) {
        Written::Table
    } else {
        Written::Unknown
    }
}

/// `binlog.000017`, `server-bin.000017`.
fn is_binary_log(name: &str) -> bool {
    let is_numbered = |number: &str| number.len() >= 6 && number.bytes().all(|it| it.is_ascii_digit());
    name.rsplit_once('.')
        .is_some_and(|(base, number)| is_numbered(number) && (base.ends_with("bin") || base == "binlog"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_innodb_are_known_by_their_names() {
        let kinds = |kind: Written, files: &[&str]| {
            for file in files {
                assert_eq!(written(Path::new(file)), kind, "{file}");
            }
        };
        kinds(
            Written::Log,
            &["/d/ib_logfile0", "/d/#innodb_redo/#ib_redo12", "/d/binlog.000003", "/d/host-bin.0000017"],
        );
        kinds(Written::Doublewrite, &["/d/ibdata1", "/d/#ib_16384_0.dblwr", "/d/#ib_16384_1.bdblwr"]);
        kinds(Written::Table, &["/d/sbtest/sbtest1.ibd", "/d/t/a#p#p0.ibd", "/d/undo_001", "/d/undo002"]);
        kinds(Written::Unknown, &["/d/aria_log.00000001", "/d/x/t.MYD", "/tmp/ibX (deleted)", "/d/binlog.index", ""]);
    }
}
