// SPDX-License-Identifier: Apache-2.0
//! `fill.command`: a program that is not Wringer's fills the server.

use super::access::Access;
use super::outputs::{self, Streams};
use super::{GRACE, attend};
use crate::cell::Program;
use crate::error::Error;
use crate::lab::Lab;
use experiment::{Driver, DriverProgram};
use run::{ChildSpec, Role};
use units::Bytes;

/// The most bytes of its output that the recording keeps.
const MOST_BYTES: usize = 64 << 10;

/// Runs the program to its end, on the server without any squeeze. Its output becomes an event.
///
/// # Errors
/// The program cannot be started, ended with another exit code than 0, or the user asked for the end.
pub(crate) fn fill(lab: &mut Lab<'_>, program: &Program) -> Result<(), Error> {
    let arguments = lab.cell.fill.command.clone();
    let driver = Driver { program: DriverProgram::Command, arguments };
    let serving = lab.serving.as_ref().ok_or(Error::NoServer)?;
    let access = Access::of(serving, lab.cell.fill.tables, lab.rows_per_table);
    let folder = lab.run.folder().join(format!("fill-{}", lab.notes.clock.now_us()));
    host::files::private_dir(&folder, 0o700)?;
    let args = access.words(&driver, &folder)?;
    let streams = Streams::below(&folder, "fill");
    let spec = ChildSpec {
        program: program.program.clone(),
        args: args.iter().map(Into::into).collect(),
        env: access.environment(&folder)?,
        cwd: Some(program.folder.clone()),
        stdout: Some(streams.stdout.clone()),
        stderr: Some(streams.stderr.clone()),
        grace: GRACE,
        launcher: true,
        ..ChildSpec::default()
    };
    let name = driver.arguments.first().cloned().unwrap_or_default();
    if let Some(why) = access.led_away() {
        lab.notes.event("fill", why)?;
    }
    lab.notes.event("fill", format!("{name} starts"))?;
    let began_us = lab.notes.clock.now_us();
    let child = lab.run.spawn(Role::Server, spec)?;
    let ended = attend::until_it_ends(lab, &driver, None, &child, "filling");
    let exit_code = attend::end(lab, &child)?;
    let elapsed_us = lab.notes.clock.now_us() - began_us;
    let written = streams.read(access.password());
    ended?;
    if exit_code != 0 {
        return Err(Error::FillCommand { program: name, exit_code, log: outputs::tail(&written) });
    }
    let words = access.without_password(args.into_iter());
    let seconds = elapsed_us as f64 / 1e6;
    lab.span("fill.command", "", began_us, &[("program", name.clone()), ("arguments", words.join(" "))])?;
    let said: String = written.iter().map(|output| shortened(&output.text)).collect();
    lab.notes
        .event("fill", format!("{name} filled the server in {seconds:.1} s; what it printed:\n{}", said.trim_end()))
}

/// The end of a long text, where the result stands.
fn shortened(text: &str) -> String {
    let Some(more) = text.len().checked_sub(MOST_BYTES).filter(|more| *more > 0) else { return text.to_owned() };
    let from = (more..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    format!("[{} left out here]\n{}", Bytes(from as u64), &text[from..])
}

#[cfg(test)]
mod tests {
    use super::{MOST_BYTES, shortened};

    #[test]
    fn of_a_long_output_the_end_is_kept() {
        assert_eq!(shortened("short"), "short");
        let long = "\u{20ac}".repeat(MOST_BYTES) + "last";
        let kept = shortened(&long);
        assert!(kept.starts_with("[128") && kept.ends_with("\u{20ac}last"), "{}", &kept[..40]);
        assert!(kept.len() <= MOST_BYTES + 40);
    }
}
