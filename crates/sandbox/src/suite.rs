// SPDX-License-Identifier: Apache-2.0
//! The package client for another suite of the archive that this machine uses: the same mirror and the same keys, but its own lists. None of the
//! machine's packages counts as installed, so that a server comes with everything that it needs.

use crate::apt::Apt;
use crate::{Error, Flavour};
use capability::{Capability, any_words};
use host::files;
use std::fs;
use std::path::Path;

/// One of the machine's sources of packages.
#[derive(Debug, PartialEq, Eq)]
struct Archive {
    uri: String,
    /// The field `Signed-By` of a deb822 source, as it is written there; further lines included.
    signed_by: Option<String>,
}

/// The client for the suite that offers `flavour` when the machine's own suite does not. `None` for this flavour, or when no source of this machine
/// belongs to that archive. `machine` has lists: they tell to which archive a source belongs.
pub(crate) fn open(machine: &Apt, flavour: Flavour) -> Result<Option<Apt>, Error> {
    for word in any_words(Capability::OtherSuite, flavour) {
        let Some((label, suite)) = word.split_once(' ') else { continue };
        if let Some(archive) = archive(machine, label)? {
            return of(machine, &archive, suite).map(Some);
        }
    }
    Ok(None)
}

/// The first source whose lists have this label.
fn archive(machine: &Apt, label: &str) -> Result<Option<Archive>, Error> {
    let mut command = machine.command("apt-get");
    command.args(["indextargets", "--format", "$(REPO_URI) $(SOURCESENTRY)", "Created-By: Packages"]);
    command.arg(format!("Label: {label}"));
    let text = machine.output(command, "looking at the package sources")?;
    let first = text.lines().find_map(|line| line.split_once(' ')).filter(|(uri, _)| !uri.starts_with("cdrom:"));
    Ok(first.map(|(uri, entry)| {
        // `FILE:NUMBER`; the number is that of a line or of a paragraph
        let file = entry.rsplit_once(':').map_or(entry, |(file, _)| file);
        let text = fs::read_to_string(file).unwrap_or_default();
        Archive { uri: uri.to_owned(), signed_by: signed_by(&text, Path::new(file), uri) }
    }))
}

fn of(machine: &Apt, archive: &Archive, suite: &str) -> Result<Apt, Error> {
    let folder = machine.folder.with_file_name(format!("apt-{suite}"));
    let apt = Apt { folder, suite: Some(suite.to_owned()) };
    apt.make_folders()?;
    let settings = fs::read_to_string(machine.folder.join("apt.conf")).unwrap_or_default();
    let architecture = setting(&settings, "APT::Architecture").unwrap_or("amd64");
    let keys = archive.signed_by.as_ref().map(|keys| format!("Signed-By: {keys}\n")).unwrap_or_default();
    let source = format!(
        "Types: deb\nURIs: {}\nSuites: {suite}\nComponents: main\nArchitectures: {architecture}\n{keys}",
        archive.uri
    );
    let (sources, status) = (apt.folder.join("suite.sources"), apt.folder.join("state/empty-status"));
    files::write_atomic(&sources, source.as_bytes(), 0o644)?;
    files::write_atomic(&status, b"", 0o644)?;
    // the machine's preferences would forbid packages of another release
    let more = format!(
        "Dir::Etc::sourcelist \"{}\";\nDir::Etc::sourceparts \"/dev/null\";\nDir::Etc::preferences \"/dev/null\";\n\
         Dir::Etc::preferencesparts \"/dev/null\";\nAPT::Default-Release \"\";\nDir::State::status \"{}\";\n\
         Acquire::GzipIndexes \"true\";\n",
        sources.display(),
        status.display()
    );
    apt.write_configuration(&settings, &more)?;
    Ok(apt)
}

/// The value in `NAME "value";`, the last one in the text.
fn setting<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let value = |line: &'a str| line.strip_prefix(name)?.trim().strip_prefix('"')?.strip_suffix("\";");
    text.lines().rev().find_map(value)
}

/// The keys that the source of `uri` names in this file of sources; sources.list(5).
fn signed_by(text: &str, file: &Path, uri: &str) -> Option<String> {
    let uri = uri.trim_end_matches('/');
    let is_it = |part: &str| part.split_whitespace().any(|word| word.trim_end_matches('/') == uri);
    if file.extension().is_some_and(|extension| extension == "sources") {
        return text.split("\n\n").filter(|paragraph| is_it(paragraph)).find_map(signed_by_field);
    }
    let lines = text.lines().filter(|line| line.trim_start().starts_with("deb") && is_it(line));
    let option = |line: &str| {
        let options = line.split_once('[')?.1.split_once(']')?.0;
        options.split_whitespace().find_map(|option| option.strip_prefix("signed-by=")).map(str::to_owned)
    };
    lines.filter_map(option).next()
}

/// The field with the lines that continue it: they may hold a key itself.
fn signed_by_field(paragraph: &str) -> Option<String> {
    let mut lines = paragraph.lines().skip_while(|line| !line.to_ascii_lowercase().starts_with("signed-by:"));
    let first = lines.next()?.split_once(':')?.1.trim().to_owned();
    let more = lines.take_while(|line| line.starts_with([' ', '\t']));
    Some(more.fold(first, |all, line| all + "\n" + line))
}

#[cfg(test)]
mod tests {
    use super::*;

    const URI: &str = "http://mirror.invalid/debian/";

    #[test]
    fn keys_of_a_deb822_source() {
        let text = "# mirror.invalid\nTypes: deb\nURIs: http://mirror.invalid/security\nSigned-By: /other.gpg\n\n\
                    Types: deb\nURIs: http://mirror.invalid/debian\nSigned-By:\n -----BEGIN\n .\n abc\nSuites: bookworm\n";
        let found = signed_by(text, Path::new("/etc/apt/sources.list.d/debian.sources"), URI);
        assert_eq!(found.as_deref(), Some("\n -----BEGIN\n .\n abc"));
        assert_eq!(signed_by(&text.replace("Signed-By", "X"), Path::new("/debian.sources"), URI), None);
    }

    #[test]
    fn keys_of_a_source_in_one_line() {
        let text = "# deb [signed-by=/no.gpg] http://mirror.invalid/debian bookworm main\n\
                    deb http://mirror.invalid/security bookworm-security main\n\
                    deb [arch=amd64 signed-by=/debian.gpg] http://mirror.invalid/debian bookworm main\n";
        assert_eq!(signed_by(text, Path::new("/etc/apt/sources.list"), URI).as_deref(), Some("/debian.gpg"));
        assert_eq!(signed_by("deb http://mirror.invalid/debian sid main", Path::new("/l.list"), URI), None);
    }

    #[test]
    fn a_setting_is_its_last_value() {
        let text = "APT::Architecture \"amd64\";\nAPT::Architectures \"\";\nAPT::Architecture \"arm64\";\n";
        assert_eq!(setting(text, "APT::Architecture"), Some("arm64"));
        assert_eq!(setting(text, "APT::Nothing"), None);
    }
}
