// SPDX-License-Identifier: Apache-2.0
#![allow(clippy::disallowed_methods)] // tests lay out folders of their own

use super::*;
use std::fs;
use tar::{Builder, Header};

enum Item {
    File(&'static str),
    Symlink(&'static str, &'static str),
    Hardlink(&'static str, &'static str),
    Fifo(&'static str),
}
use Item::{Fifo, File as Plain, Hardlink, Symlink};

/// The header is written byte by byte, because the library that writes archives also refuses such names.
fn header(kind: EntryType, path: &str, link: &str, size: usize) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(0o4755);
    header.set_size(size as u64);
    let fields = header.as_old_mut();
    fields.name[..path.len()].copy_from_slice(path.as_bytes());
    fields.linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_cksum();
    header
}

fn archive(items: &[Item]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for item in items {
        let written = match item {
            Plain(path) => builder.append(&header(EntryType::Regular, path, "", 2), &b"x\n"[..]),
            Symlink(path, to) => builder.append(&header(EntryType::Symlink, path, to, 0), io::empty()),
            Hardlink(path, to) => builder.append(&header(EntryType::Link, path, to, 0), io::empty()),
            Fifo(path) => builder.append(&header(EntryType::Fifo, path, "", 0), io::empty()),
        };
        written.expect("writes");
    }
    builder.into_inner().expect("ends")
}

struct Lab {
    home: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a folder");
        fs::create_dir(home.path().join("tree")).expect("makes");
        Self { home }
    }

    fn unpack(&self, bytes: &[u8]) -> Result<(), Error> {
        let path = self.home.path().join("a.tar");
        fs::write(&path, bytes).expect("writes");
        let mut file = File::open(&path).expect("opens");
        unpack(&path, &mut file, &self.home.path().join("tree"), &mut ())
    }

    fn why(&self, bytes: &[u8]) -> String {
        match self.unpack(bytes) {
            Err(Error::Archive { why, .. }) => why,
            other => panic!("{other:?}"),
        }
    }
}

fn packed_by(program: &str, bytes: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut command = tool::command(program);
    let mut child = command.arg("-c").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    child.stdin.take().expect("its input").write_all(bytes).expect("writes");
    child.wait_with_output().expect("ends").stdout
}

#[test]
fn an_archive_comes_out_as_it_is_but_for_its_modes() {
    use std::os::unix::fs::PermissionsExt as _;
    let bytes = archive(&[Plain("s/bin/d"), Symlink("s/bin/l", "../bin/d"), Hardlink("s/h", "s/bin/d")]);
    for bytes in [bytes.clone(), packed_by("gzip", &bytes), packed_by("xz", &bytes), packed_by("zstd", &bytes)] {
        let lab = Lab::new();
        lab.unpack(&bytes).expect("unpacks");
        let file = |name: &str| lab.home.path().join("tree").join(name);
        for name in ["s/bin/d", "s/bin/l", "s/h"] {
            assert_eq!(fs::read_to_string(file(name)).expect("reads"), "x\n", "{name}");
        }
        assert_eq!(fs::metadata(file("s/bin/d")).expect("is there").permissions().mode() & 0o7777, 0o755);
    }
}

#[test]
fn what_leads_out_is_refused() {
    let cases: [&[Item]; 9] = [
        &[Plain("../evil")],
        &[Plain("a/../../evil")],
        &[Plain("/evil")],
        &[Symlink("a/l", "/etc/passwd")],
        &[Symlink("a/l", "../../evil")],
        &[Hardlink("l", "../a.tar")],
        &[Symlink("l", "."), Plain("l/evil")],
        // each link stays inside by its text, but the second one leads out through the target of the first one
        &[Plain("a/b/c/x"), Symlink("a/b/c/s", "../../.."), Symlink("m", "a/b/c/s/..")],
        &[Symlink("a/b/s", "../../x"), Hardlink("h", "a/b/s")],
    ];
    for (number, items) in cases.into_iter().enumerate() {
        let lab = Lab::new();
        let why = lab.why(&archive(items));
        assert!(why.contains("leads out") || why.contains("through a link"), "{number}: {why}");
        assert!(!lab.home.path().join("evil").exists() && !Path::new("/evil").exists(), "{number}");
    }
}

#[test]
fn what_is_no_file_is_refused() {
    let why = Lab::new().why(&archive(&[Fifo("pipe")]));
    assert!(why.contains("neither file, folder nor link"), "{why}");
    assert!(Lab::new().why(b"PK\x03\x04 a zip").contains("no tar file"));
    assert!(Lab::new().why(b"").contains("no tar file"));
    assert!(Lab::new().why(&archive(&[])).contains("no "));
}

/// The archive is cut in the middle, cut at the end, or has one changed byte.
#[test]
fn a_damaged_archive_is_refused() {
    let items: Vec<Item> = (0..400).map(|_| Plain("some/file")).collect();
    let bytes = archive(&items);
    for program in ["gzip", "xz", "zstd"] {
        let packed = packed_by(program, &bytes);
        let mut turned = packed.clone();
        let middle = turned.len() / 2;
        turned[middle] ^= 0xff;
        for (case, bytes) in [("half", &packed[..middle]), ("tail", &packed[..packed.len() - 3]), ("turned", &turned)] {
            let why = Lab::new().why(bytes);
            assert!(why.contains("damaged"), "{program}, {case}: {why}");
        }
    }
    let why = Lab::new().why(&bytes[..bytes.len() / 2 + 100]);
    assert!(why.contains("damaged") || why.contains("some/file"), "{why}");
}
