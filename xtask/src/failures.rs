// SPDX-License-Identifier: Apache-2.0
//! Remembers which tests failed, and what they said, so that both stand once more at the end of the output: between them lie thousands of lines.

/// At most so many lines of what a test says when it panics are kept: the place, and the message.
const LINES: usize = 30;
/// At most so many characters of each of these lines: a message may hold a whole document in one line.
const LINE_CHARACTERS: usize = 2000;

/// The panics that stand in the standard error of test programs.
#[derive(Debug, Default)]
pub(crate) struct Panics {
    said: Vec<Panic>,
    is_speaking: bool,
}

#[derive(Debug)]
struct Panic {
    thread: String,
    lines: Vec<String>,
}

impl Panics {
    /// Takes one line of standard error. A message ends where the backtrace begins, or the note that tells how to get one.
    pub(crate) fn hear(&mut self, line: &str) {
        if let Some(thread) = thread_that_panics(line) {
            self.said.push(Panic { thread: thread.to_owned(), lines: Vec::new() });
            self.is_speaking = true;
        } else if line.starts_with("stack backtrace:") || line.starts_with("note: ") {
            self.is_speaking = false;
        }
        if let Some(panic) = self.said.last_mut().filter(|panic| self.is_speaking && panic.lines.len() < LINES) {
            panic.lines.push(line.chars().take(LINE_CHARACTERS).collect());
        }
    }

    /// What the test said: the harness names a test's thread after the test.
    fn of<'a>(&'a self, test: &'a str) -> impl Iterator<Item = &'a str> {
        let its = self.said.iter().filter(move |panic| panic.thread == test);
        its.flat_map(|panic| panic.lines.iter().map(String::as_str))
    }
}

/// `thread 'a::test' (4711) panicked at tests/a.rs:1:2:` names `a::test`.
fn thread_that_panics(line: &str) -> Option<&str> {
    let (thread, rest) = line.strip_prefix("thread '")?.split_once('\'')?;
    rest.contains("panicked at ").then_some(thread)
}

/// The test that a line of the harness calls failed.
pub(crate) fn failed_test(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

/// One paragraph for each failed test: `label` tells the lane.
pub(crate) fn paragraphs(label: &str, failed: &[String], panics: &Panics) -> String {
    let paragraph = |test: &String| {
        let said: String = panics.of(test).map(|line| format!("    {line}\n")).collect();
        format!("FAILED {label}{test}\n{said}")
    };
    failed.iter().map(paragraph).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_test_is_told_with_its_message() {
        let mut panics = Panics::default();
        let said = "thread 'a::one' (7) panicked at tests/a.rs:1:2:\nassertion failed\n  left: 1\nstack backtrace:\n   0: main\n\
                    thread '<unnamed>' (8) panicked at tests/a.rs:9:2:\non purpose\nnote: run with\n\
                    thread 'b' (9) panicked at tests/b.rs:1:2:\nno\n";
        said.lines().for_each(|line| panics.hear(line));
        let failed: Vec<String> =
            ["test a::one ... FAILED", "test fine ... ok", "test quiet ... FAILED", "test result: FAILED. 1 passed"]
                .iter()
                .filter_map(|line| failed_test(line))
                .map(str::to_owned)
                .collect();
        let expected = "FAILED 2: a::one\n    thread 'a::one' (7) panicked at tests/a.rs:1:2:\n    assertion failed\n      left: 1\nFAILED 2: quiet\n";
        assert_eq!(paragraphs("2: ", &failed, &panics), expected);
    }

    #[test]
    fn a_long_message_is_cut() {
        let mut panics = Panics::default();
        panics.hear("thread 'a' panicked at x:1:1:");
        (0..100).for_each(|_| panics.hear(&"ä".repeat(2 * LINE_CHARACTERS)));
        assert_eq!(panics.of("a").count(), LINES);
        assert!(panics.of("a").all(|line| line.chars().count() <= LINE_CHARACTERS));
    }
}
