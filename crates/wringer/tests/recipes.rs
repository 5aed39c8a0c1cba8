// SPDX-License-Identifier: Apache-2.0
//! The pages of `docs/recipes`, without a server: each command of theirs is one that the program reads, each experiment is planned, each file of
//! statements is known. `make test-recipes` follows them to the letter.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::Lab;

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn pages() -> Vec<PathBuf> {
    let entries = fs::read_dir(project().join("docs/recipes")).unwrap();
    let mut pages: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    pages
}

/// As `make test-recipes` takes it from the page.
fn script(page: &Path) -> String {
    let output =
        Command::new("awk").arg("-f").arg(project().join("tests/recipes/script.awk")).arg(page).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The files that a page asks its reader to save, by name.
fn files(script: &str) -> BTreeMap<String, String> {
    let pieces = script.split("cat > ").skip(1);
    let pieces =
        pieces.filter_map(|piece| piece.split_once("\nEND OF THE FILE\n")?.0.split_once(" <<'END OF THE FILE'\n"));
    pieces.map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
}

/// Each command with `--help` behind it: the program reads the words before, refuses the first that it does not know, and does nothing.
/// Shell and program agree on what a word is, for it is the shell that runs the page.
#[test]
fn every_command_is_one_that_the_program_reads() {
    for page in pages() {
        let lab = Lab::new(WRINGER);
        fs::create_dir(lab.home().join("bin")).unwrap();
        let stand_in = lab.write(
            "bin/wringer",
            &format!(
                "#!/bin/sh\necho x >>'{home}/commands'\n'{WRINGER}' \"$@\" --help >/dev/null 2>>'{home}/refused' ||\n\
                 echo \"wringer $*\" >>'{home}/refused'\n",
                home = lab.home().display()
            ),
        );
        fs::set_permissions(&stand_in, fs::Permissions::from_mode(0o755)).unwrap();
        // what is read from an answer that nobody gave fails; the next command is tried all the same
        let text = script(&page).replacen("set -e\n", "", 1).replace("\nset -e\n", "\n");
        let path = std::env::join_paths([stand_in.parent().unwrap().into(), PathBuf::from("/usr/bin"), "/bin".into()]);
        let mut shell = Command::new("bash");
        shell.arg("-c").arg(text).current_dir(lab.home()).env("PATH", path.unwrap()).env_remove("GITHUB_STEP_SUMMARY");
        shell.output().unwrap();
        let said = |name: &str| fs::read_to_string(lab.home().join(name)).unwrap_or_default();
        assert_eq!(said("refused"), "", "{}", page.display());
        assert!(said("commands").lines().count() >= 3, "{}", page.display());
    }
}

#[test]
fn every_file_is_an_experiment_that_is_planned_or_statements_that_are_known() {
    let mut experiments = 0;
    for page in pages() {
        let lab = Lab::new(WRINGER);
        for (name, text) in files(&script(&page)) {
            let file = lab.write(&name, &text);
            let file = file.to_str().unwrap();
            if text.contains("[[transaction]]") {
                // read before the server is looked for: that there is none is all that is missing
                let ran = lab.run(["load", file, "--mysql-socket", "/nobody/listens"]);
                ran.expect_code(3).expect_said(&["/nobody/listens"]);
            } else {
                lab.run(["plan", file]).expect_code(0);
                experiments += 1;
            }
        }
    }
    assert!(experiments >= 2, "{experiments}");
}

/// A load that could not be measured says nothing about the smaller machine.
#[test]
fn the_smaller_machine_is_judged_by_the_exit_code() {
    let script = script(&project().join("docs/recipes/smaller-machine.md"));
    for (code, answer) in [
        (0, "it will do"),
        (1, "it will not do"),
        (3, "it was not measured (exit code 3)"),
        (4, "it was not measured (exit code 4)"),
    ] {
        let lab = Lab::new(WRINGER);
        fs::create_dir(lab.home().join("bin")).unwrap();
        let stand_in = format!("#!/bin/sh\ncase \"$*\" in *--assert*) exit {code};; esac\n");
        let stand_in = lab.write("bin/wringer", &stand_in);
        fs::set_permissions(&stand_in, fs::Permissions::from_mode(0o755)).unwrap();
        let path = std::env::join_paths([stand_in.parent().unwrap(), "/usr/bin".as_ref(), "/bin".as_ref()]).unwrap();
        let mut shell = Command::new("bash");
        let output = shell.arg("-c").arg(&script).current_dir(lab.home()).env("PATH", path).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && said.lines().any(|line| line == answer), "{code}: {said}");
    }
}
