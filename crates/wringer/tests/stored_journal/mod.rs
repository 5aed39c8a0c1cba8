// SPDX-License-Identifier: Apache-2.0
//! Journals that earlier releases have left (`fixtures/journal`), fitted to this host: its boot, its paths, its processes. All else in the records stays as
//! that release has written it. The journal's bytes are read and written here by other code than the program's (docs/undo.md).

use host::process::Identity;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use testkit::Lab;

/// The run of every stored journal.
pub(crate) const RUN: &str = "w-20261120-201530-4f2a";

/// The latest format that has stored journals.
pub(crate) const VERSIONS: [u32; 2] = [1, 2];

pub(crate) struct Stored {
    /// Magic, version and boot id.
    header: Vec<u8>,
    /// The JSON of each record.
    records: Vec<String>,
}

impl Stored {
    pub(crate) fn read(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/journal").join(name);
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let (header, mut rest) = bytes.split_at(64);
        let mut records = Vec::new();
        while rest.len() > 8 && rest[..4] != [0; 4] {
            let length = usize::try_from(u32::from_le_bytes(rest[..4].try_into().unwrap())).unwrap();
            records.push(String::from_utf8(rest[8..8 + length].to_vec()).unwrap());
            rest = &rest[8 + length..];
        }
        let stored = Self { header: header[..48].to_vec(), records };
        let now = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        stored.of_this_boot(now.trim()).of_these_namespaces()
    }

    fn of_this_boot(mut self, now: &str) -> Self {
        let then = String::from_utf8(self.header.split_off(12)).unwrap();
        self.header.extend_from_slice(now.as_bytes());
        self.all(&then, now);
        self
    }

    fn of_these_namespaces(mut self) -> Self {
        for (name, then) in [("pid", "4026531836"), ("user", "4026531837"), ("mnt", "4026531841")] {
            let link = fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
            let now = link.to_str().unwrap().trim_start_matches(|c: char| !c.is_ascii_digit()).trim_end_matches(']');
            self.all(then, now);
        }
        self
    }

    fn all(&mut self, from: &str, to: &str) -> bool {
        let is_there = self.records.iter().any(|record| record.contains(from));
        self.records.iter_mut().for_each(|record| *record = record.replace(from, to));
        is_there
    }

    /// Puts a text of this host in place of a text of the journal.
    #[track_caller]
    pub(crate) fn with(mut self, from: &str, to: &str) -> Self {
        assert!(self.all(from, to), "'{from}' is not in {:#?}", self.records);
        self
    }

    /// Puts a process of this host in place of the one that the journal names.
    #[track_caller]
    pub(crate) fn with_process(self, pid: u32, of_host: u32) -> Self {
        let now = Identity::of(of_host).unwrap();
        let then = format!("{{\"pid\":{pid},\"start_time\":123456}}");
        self.with(&then, &format!("{{\"pid\":{},\"start_time\":{}}}", now.pid, now.start_time))
    }

    /// Writes the journal into its run's folder.
    pub(crate) fn write(&self, lab: &Lab) {
        let mut bytes = self.header.clone();
        bytes.resize(60, 0);
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        for record in &self.records {
            let length = u32::try_from(record.len()).unwrap().to_le_bytes();
            let crc = crc32c::crc32c_append(crc32c::crc32c(&length), record.as_bytes());
            bytes.extend_from_slice(&length);
            bytes.extend_from_slice(&crc.to_le_bytes());
            bytes.extend_from_slice(record.as_bytes());
        }
        bytes.resize(64 << 10, 0);
        fs::write(folder(lab).join("journal"), bytes).unwrap();
    }
}

/// The run's folder, which is made when it is asked for first.
pub(crate) fn folder(lab: &Lab) -> PathBuf {
    let folder = lab.home().join("journal").join(RUN);
    DirBuilder::new().mode(0o700).recursive(true).create(&folder).unwrap();
    folder
}
