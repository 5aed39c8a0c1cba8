// SPDX-License-Identifier: Apache-2.0
//! The outcome of a `cargo test`, from the lines of its standard output and standard error together: which tests failed, and the output of their
//! programs. The output of other programs is dropped.

use crate::stopwatch::program_of;
use std::fmt;

#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) passed: usize,
    /// `PROGRAM: TEST`, or `PROGRAM: ended without a result`.
    pub(crate) failed: Vec<String>,
    /// The output of programs that failed, or of cargo before the first program ran.
    said: Vec<String>,
    running: Option<String>,
    /// The lines since `running` began; before that, the lines of cargo while it builds.
    block: Vec<String>,
}

impl Outcome {
    pub(crate) fn of(lines: impl Iterator<Item = String>) -> Self {
        let mut outcome = Self::default();
        for line in lines {
            outcome.take(line);
        }
        outcome.end_block();
        outcome
    }

    fn take(&mut self, line: String) {
        if let Some(program) = program_of(&line) {
            self.end_block();
            self.running = Some(program);
        } else if let Some(counts) = line.strip_prefix("test result: ") {
            let passed = counts.split(" passed").next().and_then(|before| before.rsplit(' ').next()?.parse().ok());
            self.passed += passed.unwrap_or(0);
            let program = self.running.take().unwrap_or_default();
            let said = std::mem::take(&mut self.block);
            if counts.starts_with("FAILED") {
                let names = said
                    .iter()
                    .rev()
                    .take_while(|line| *line != "failures:")
                    .filter_map(|line| line.strip_prefix("    "));
                let mut names: Vec<_> = names.map(|name| format!("{program}: {name}")).collect();
                names.reverse();
                self.failed.extend(names);
                self.said.extend(said);
            }
        } else {
            self.block.push(line);
        }
    }

    /// Ends the program that runs. A program without a result was killed, or has killed itself.
    fn end_block(&mut self) {
        let said = std::mem::take(&mut self.block);
        match self.running.take() {
            Some(program) => {
                self.failed.push(format!("{program}: ended without a result"));
                self.said.extend(said);
            }
            // no program has run yet: cargo was building, or printed why it could not build
            None if self.passed == 0 && self.failed.is_empty() => self.said.extend(said),
            None => {}
        }
    }
}

/// The output first, and the names of failed tests at the end.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.said.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        self.failed.iter().try_for_each(|name| writeln!(f, "FAILED {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Outcome {
        Outcome::of(text.lines().map(str::to_owned))
    }

    const GOOD: &str = "     Running unittests src/lib.rs (target/debug/deps/units-0a)\n\nrunning 2 tests\n..\n\
        test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.02s\n\n";
    const BAD: &str = "     Running tests/page.rs (target/debug/deps/page-0b)\n\nrunning 3 tests\n..F\nfailures:\n\n\
        ---- a::b stdout ----\nassertion failed\n    left: 1\n\n\nfailures:\n    a::b\n    c\n\n\
        test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.02s\n\n\
        error: test failed, to rerun pass `-p journal --test page`\n";

    #[test]
    fn who_failed_is_named_and_heard_and_nobody_else() {
        let outcome = of(&format!(
            "   Compiling units\n{GOOD}{BAD}{GOOD}error: 1 target failed:\n    `-p journal --test page`\n"
        ));
        assert_eq!(outcome.passed, 5);
        assert_eq!(outcome.failed, ["page (tests/page.rs): a::b", "page (tests/page.rs): c"]);
        let said = outcome.to_string();
        assert!(said.contains("assertion failed") && !said.contains("running 2 tests"), "{said}");
        assert!(said.ends_with("FAILED page (tests/page.rs): c\n"), "{said}");
    }

    #[test]
    fn a_program_that_ends_without_a_result_has_failed() {
        let killed = "     Running tests/page.rs (target/debug/deps/page-0b)\nrunning 3 tests\n\
            error: test failed\n  (signal: 9, SIGKILL: kill)\n";
        for text in [format!("{killed}{GOOD}"), format!("{GOOD}{killed}")] {
            let outcome = of(&text);
            assert_eq!(outcome.failed, ["page (tests/page.rs): ended without a result"]);
            assert!(outcome.to_string().contains("SIGKILL"), "{outcome}");
        }
    }

    #[test]
    fn what_does_not_build_is_told() {
        assert_eq!(of("error[E0308]: mismatched types\n").to_string(), "error[E0308]: mismatched types\n");
    }
}
