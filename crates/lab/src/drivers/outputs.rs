// SPDX-License-Identifier: Apache-2.0
//! The output of a driver: it is read back, kept, and summed up in a line.

use evidence::{Driven, LoadResult, Output};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use units::{Bytes, counted};

/// The most bytes that are kept. Of longer output the middle is left out: the recording is no archive of logs.
const MOST_BYTES: u64 = 16 << 20;
/// The number of lines that are shown with a failure.
const TAIL_LINES: usize = 10;

/// The files that the driver writes to.
pub(super) struct Streams {
    pub stdout: PathBuf,
    pub stderr: PathBuf,
}

impl Streams {
    pub(super) fn below(folder: &Path, driver: &str) -> Self {
        Self { stdout: folder.join(format!("{driver}.stdout")), stderr: folder.join(format!("{driver}.stderr")) }
    }

    /// Standard output first.
    pub(super) fn read(&self, password: &str) -> Vec<Output> {
        [&self.stdout, &self.stderr].map(|path| output(path, password)).into()
    }
}

fn output(path: &Path, password: &str) -> Output {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (text, left_out_bytes) = kept(path).unwrap_or_else(|error| (format!("{}: {error}\n", path.display()), 0));
    Output { name, text: masked(&text, password), left_out_bytes }
}

fn kept(path: &Path) -> std::io::Result<(String, u64)> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut head = Vec::new();
    if size <= MOST_BYTES {
        file.read_to_end(&mut head)?;
        return Ok((String::from_utf8_lossy(&head).into_owned(), 0));
    }
    let half = MOST_BYTES / 2;
    (&mut file).take(half).read_to_end(&mut head)?;
    let left_out = size - MOST_BYTES;
    head.extend(format!("\n[{} left out here]\n", Bytes(left_out)).bytes());
    file.seek(SeekFrom::Start(half + left_out))?;
    file.take(half).read_to_end(&mut head)?;
    Ok((String::from_utf8_lossy(&head).into_owned(), left_out))
}

/// The text without the password, in case the program has printed it.
pub(super) fn masked(text: &str, password: &str) -> String {
    if password.is_empty() { text.to_owned() } else { text.replace(password, "***") }
}

/// pgbench's logs, one a thread.
pub(super) fn logs(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let logs = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("pgbench_log"));
    logs.filter_map(|entry| std::fs::read_to_string(entry.path()).ok()).collect()
}

/// The last lines of both streams, standard error last: they show what went wrong.
pub(super) fn tail(outputs: &[Output]) -> String {
    let lines = outputs.iter().flat_map(|output| {
        let lines: Vec<&str> = output.text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(TAIL_LINES / 2)..].to_vec()
    });
    lines.map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// The result of the driver, in a line.
pub(super) fn said(seen: &Driven, load: Option<&LoadResult>) -> String {
    let seconds = seen.elapsed_us as f64 / 1e6;
    let program = seen.understood.as_deref().unwrap_or(&seen.driver);
    let figures = match load {
        Some(load) => {
            let phase = &load.measured;
            let rate = phase.transactions_per_second().map_or_else(String::new, |rate| format!(" ({rate:.0}/s)"));
            format!("{}{rate} by its own count", counted(phase.transactions, "transaction"))
        }
        None => "its output is in no form that is known, so it has no figures".to_owned(),
    };
    format!("{program} ended after {seconds:.1} s with exit code {}: {figures}", seen.exit_code)
}

#[cfg(test)]
mod tests {
    use super::{MOST_BYTES, kept, masked, tail};
    use evidence::Output;
    use std::io::Write as _;

    #[test]
    fn of_a_long_output_both_ends_are_kept() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let line = [b'x'; 1 << 16];
        writeln!(file, "first").expect("writes");
        (0..=MOST_BYTES >> 16).for_each(|_| file.write_all(&line).expect("writes"));
        writeln!(file, "\nlast").expect("writes");
        let (text, left_out) = kept(file.path()).expect("reads");
        assert!(text.starts_with("first\n") && text.ends_with("\nlast\n") && text.contains("left out here]"));
        assert_eq!(left_out, (1 << 16) + 12);
    }

    #[test]
    fn a_password_is_masked_and_the_end_is_told() {
        assert_eq!(masked("--password=s3cret", "s3cret"), "--password=***");
        let output = |text: &str| Output { text: text.into(), ..Output::default() };
        let long: String = (0..20).map(|number| format!("line {number}\n")).collect();
        let tail = tail(&[output(&long), output("FATAL: no\n\n")]);
        assert!(tail.starts_with("  line 15\n") && tail.ends_with("\n  FATAL: no"), "{tail}");
    }
}
