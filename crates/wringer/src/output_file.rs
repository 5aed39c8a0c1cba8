// SPDX-License-Identifier: Apache-2.0
//! Writes an answer to the file that the user named.

use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;
use host::files;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Replaces the file, and says so. `was_read`: the files from which the answer was made.
///
/// # Errors
/// Exit code 2: the file is one of those that were read, by whatever name. Else it cannot be written.
pub fn write(file: &Path, content: &[u8], was_read: impl IntoIterator<Item = impl AsRef<Path>>) -> Outcome {
    refuse_input(file, was_read)?;
    files::write_named(file, content, 0o644)?;
    terminal::say(format_args!("wrote {}", file.display()));
    Ok(())
}

/// # Errors
/// Exit code 2: the answer would replace one of the files that were read for it.
pub fn refuse_input(file: &Path, was_read: impl IntoIterator<Item = impl AsRef<Path>>) -> Outcome {
    let identity = |path: &Path| fs::metadata(path).ok().map(|it| (it.dev(), it.ino()));
    let Some(own) = identity(file) else { return Ok(()) };
    let Some(input) = was_read.into_iter().find(|input| identity(input.as_ref()) == Some(own)) else { return Ok(()) };
    let input = input.as_ref().display();
    let message = format!("the answer would replace {input}, from which it was made: nothing was written");
    Err(Failure::message(Exit::Usage, message).hint("name another file"))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // a test's own folder
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_not_replaced_by_whatever_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let [input, link, hard, other] = ["in", "link", "hard", "other"].map(|name| folder.path().join(name));
        fs::write(&input, "data").expect("written");
        std::os::unix::fs::symlink(&input, &link).expect("linked");
        fs::hard_link(&input, &hard).expect("linked");
        for target in [&input, &link, &hard] {
            let refused = write(target, b"page", [&other, &input]).expect_err("refused");
            assert_eq!(refused.exit, Exit::Usage, "{target:?}");
            assert!(refused.error.to_string().contains("nothing was written"), "{}", refused.error);
        }
        assert_eq!(fs::read(&input).expect("read"), b"data");
        write(&other, b"page", [&input]).expect("written");
        write(&other, b"page again", [&input]).expect("an older answer is replaced");
        assert_eq!(fs::read(&other).expect("read"), b"page again");
    }
}
