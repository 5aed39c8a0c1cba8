// SPDX-License-Identifier: Apache-2.0
//! The checksums that the makers of servers publish beside an archive: in a file of its own (MySQL `ARCHIVE.md5`, Percona
//! `ARCHIVE.sha256sum`), or in a list of all files of a release (MariaDB `sha256sums.txt`).

use crate::Error;
use host::files;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Sha256,
    Md5,
}
use Kind::{Md5, Sha256};

/// A checksum of the archive from a file beside it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Published {
    pub(super) file: PathBuf,
    pub(super) kind: Kind,
    pub(super) sum: String,
}

/// Files with the checksum of the archive alone: the archive's name with one of these endings.
const ENDINGS: [(&str, Kind); 4] = [("sha256", Sha256), ("sha256sum", Sha256), ("md5", Md5), ("md5sum", Md5)];
/// Files with the checksums of many files, in the archive's folder.
const LISTS: [(&str, Kind); 4] =
    [("sha256sums.txt", Sha256), ("SHA256SUMS", Sha256), ("md5sums.txt", Md5), ("MD5SUMS", Md5)];
/// A list of a whole release has some hundred lines.
const MOST_BYTES: u64 = 1 << 20;

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Sha256 => "SHA-256",
            Md5 => "MD5",
        }
    }

    /// The program that computes the checksum.
    pub(super) fn program(self) -> &'static str {
        match self {
            Sha256 => "sha256sum",
            Md5 => "md5sum",
        }
    }

    fn digits(self) -> usize {
        match self {
            Sha256 => 64,
            Md5 => 32,
        }
    }
}

/// The checksums in files beside the archive.
///
/// # Errors
/// A file that belongs to this archive alone holds no checksum of it: its download went wrong, and perhaps that of the archive, too.
pub(super) fn beside(archive: &Path) -> Result<Vec<Published>, Error> {
    let name = archive.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut found = Vec::new();
    for (ending, kind) in ENDINGS {
        let file = archive.with_file_name(format!("{name}.{ending}"));
        let Some(text) = text_of(&file)? else { continue };
        let sums = sums(&text, kind);
        let named = sums.iter().find(|(known, _)| *known == Some(&name));
        let only = sums.first().filter(|_| sums.len() == 1);
        let Some((_, sum)) = named.or(only) else {
            let why =
                format!("{} beside it holds no {} of it; remove that file to do without", file.display(), kind.name());
            return Err(Error::Archive { path: archive.into(), why });
        };
        found.push(Published { kind, sum: (*sum).to_owned(), file });
    }
    for (list, kind) in LISTS {
        let file = archive.with_file_name(list);
        let Some(text) = text_of(&file)? else { continue };
        let sum = sums(&text, kind).into_iter().find(|(known, _)| *known == Some(&name)).map(|(_, sum)| sum.to_owned());
        found.extend(sum.map(|sum| Published { file, kind, sum }));
    }
    Ok(found)
}

/// The text of the file; `None` if there is no such file.
fn text_of(file: &Path) -> Result<Option<String>, Error> {
    if !file.is_file() {
        return Ok(None);
    }
    let bytes = files::head(file, MOST_BYTES).map_err(|source| Error::path("read", file, source))?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// The name and the checksum of each line with a checksum.
fn sums(text: &str, kind: Kind) -> Vec<(Option<&str>, &str)> {
    text.lines().filter_map(|line| of_line(line.trim(), kind)).collect()
}

/// The name and the checksum of a line: `SUM  NAME` and `SUM *NAME` (sha256sum(1)), `SHA256 (NAME) = SUM` (its `--tag`), or a bare checksum.
fn of_line(line: &str, kind: Kind) -> Option<(Option<&str>, &str)> {
    let is_sum = |word: &&str| word.len() == kind.digits() && word.chars().all(|c| c.is_ascii_hexdigit());
    if let Some((head, sum)) = line.rsplit_once(") = ") {
        let name = head.split_once('(')?.1;
        return Some((Some(file_name(name)), sum.trim())).filter(|(_, sum)| is_sum(sum));
    }
    let (sum, name) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let name = name.trim_start().trim_start_matches('*');
    Some((Some(file_name(name)).filter(|name| !name.is_empty()), sum)).filter(|(_, sum)| is_sum(sum))
}

/// The name of a file without its folders: lists may also name files below the folder in which the lists were made.
fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // tests lay out folders of their own
mod tests {
    use super::*;

    const SUM: &str = "0f1e2d3c4b5a69780f1e2d3c4b5a6978";

    #[test]
    fn the_forms_in_which_makers_write_them() {
        for (line, name) in [
            (format!("{SUM}  a.tar.gz"), Some("a.tar.gz")),
            (format!("{SUM} *./bintar/a.tar.gz"), Some("a.tar.gz")),
            (format!("MD5 (a.tar.gz) = {SUM}"), Some("a.tar.gz")),
            (SUM.to_owned(), None),
        ] {
            assert_eq!(of_line(&line, Md5), Some((name, SUM)), "{line}");
            assert_eq!(of_line(&line, Sha256), None, "{line}");
        }
        assert_eq!(of_line("<html>not found</html>", Md5), None);
    }

    #[test]
    fn a_file_of_its_own_and_a_list() {
        let home = tempfile::tempdir().expect("a folder");
        let file = |name: &str, text: &str| std::fs::write(home.path().join(name), text).expect("writes");
        let archive = home.path().join("a.tar.gz");
        let found = || beside(&archive).map(|found| found.into_iter().map(|it| (it.kind, it.sum)).collect::<Vec<_>>());
        assert_eq!(found().expect("reads"), []);
        file("md5sums.txt", &format!("{}  b.tar.gz\n{SUM}  a.tar.gz\n", "0".repeat(32)));
        assert_eq!(found().expect("reads"), [(Md5, SUM.to_owned())]);
        // the checksum of a file that was downloaded under another name
        file("a.tar.gz.sha256sum", &format!("{}  c.tar.gz\n", "ab".repeat(32)));
        assert_eq!(found().expect("reads"), [(Sha256, "ab".repeat(32)), (Md5, SUM.to_owned())]);
        file("a.tar.gz.md5", "<html>404</html>\n");
        let error = found().expect_err("no checksum in it").to_string();
        assert!(error.contains("a.tar.gz.md5 beside it holds no MD5"), "{error}");
    }
}
