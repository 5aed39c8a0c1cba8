// SPDX-License-Identifier: Apache-2.0
//! No source file is longer than 500 lines, its tests included: a reader cannot keep more in mind.

use std::path::Path;

const MOST: usize = 500;

#[test]
fn no_file_is_longer_than_500_lines() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut longer = Vec::new();
    let mut read = 0;
    for folder in ["crates", "xtask", "tests", "benches", "fuzz"] {
        longer.extend(longer_below(&root.join(folder), &mut read));
    }
    assert!(read > 1000, "only {read} files were found");
    assert!(longer.is_empty(), "longer than {MOST} lines; give a part of each a file of its own: {longer:#?}");
}

#[test]
fn a_file_of_501_lines_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines = |count: usize| "// a line\n".repeat(count);
    let inside = folder.path().join("src");
    std::fs::create_dir(&inside).expect("a folder");
    std::fs::write(inside.join("long.rs"), lines(501)).expect("writes");
    std::fs::write(inside.join("full.rs"), lines(500)).expect("writes");
    std::fs::write(inside.join("data.json"), lines(501)).expect("writes");
    let mut read = 0;
    let longer = longer_below(folder.path(), &mut read);
    assert!(matches!(&longer[..], [only] if only.ends_with("src/long.rs: 501 lines")), "{longer:?}");
    assert_eq!(read, 2);
}

/// The files of Rust and shell, except those in the folders where cargo builds.
fn longer_below(folder: &Path, read: &mut usize) -> Vec<String> {
    let mut longer = Vec::new();
    for entry in folder.read_dir().expect("a folder") {
        let path = entry.expect("an entry").path();
        let is_built = path.file_name().is_some_and(|name| name == "target");
        let is_source = path.extension().is_some_and(|ending| ending == "rs" || ending == "sh");
        if path.is_dir() && !path.is_symlink() && !is_built {
            longer.extend(longer_below(&path, read));
        } else if path.is_file() && is_source {
            *read += 1;
            let count = std::fs::read_to_string(&path).expect("reads").lines().count();
            if count > MOST {
                longer.push(format!("{}: {count} lines", path.display()));
            }
        }
    }
    longer
}
