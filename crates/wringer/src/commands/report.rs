// SPDX-License-Identifier: Apache-2.0
//! Writes the report of a recording again.

mod articles;

use crate::commands::run::RECORDING;
use crate::exit::{Exit, Failure, Outcome};
use crate::{input, output_file, terminal};
use clap::ValueEnum;
use evidence::{Evidence, Series, Snapshot};
use recording::Recording;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Findings are computed from the recording, so an old one is explained as this build explains it.\n\n\
    Examples:\n  \
      # write out/report.html\n  \
      wringer report out\n  \
      wringer report out/recording.sqlite -o text\n  \
      # write assertions as test cases, for a CI server\n  \
      wringer report out -o junit > junit.xml\n  \
      # show what was observed here together with the load that another host sent\n  \
      wringer report out --load load.json\n  \
      # compare the runs of experiments/article-*.toml with the articles\n  \
      wringer report --articles out/* --to articles.md\n  \
      wringer report out -o json \\\n    | jq '.arms[] | {name, p99: .load.measured.transaction.response.p99_us}'"
)]
pub struct Args {
    /// The recording, or the folder that holds it
    #[arg(required_unless_present = "articles")]
    recording: Option<PathBuf>,
    /// The page about the five articles, in Markdown, from runs of their experiments: their folders or recordings, or the articles.json of a
    /// gallery
    #[arg(long, value_name = "FOLDER", num_args = 1.., conflicts_with_all = ["recording", "load", "output"])]
    articles: Vec<PathBuf>,
    /// With --articles: a folder for the reports of these runs, to which the page leads, and for articles.json, from which it can be made again
    #[arg(long, value_name = "FOLDER", requires = "articles", conflicts_with = "recording")]
    gallery: Option<PathBuf>,
    /// One HTML file that opens offline, the whole result for machines, a summary for the terminal or in Markdown, or JUnit XML
    #[arg(short, long, value_enum, default_value_t = Format::Html)]
    output: Format,
    /// A load that ran on another host while `wringer observe` recorded this one, as `wringer load -o json` has printed it
    #[arg(long, value_name = "FILE")]
    load: Option<PathBuf>,
    /// Where to write; `-` is standard output [default: report.html beside the recording for html, else standard output]
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Html,
    Json,
    Text,
    /// A summary for a merge request or the page of a CI job
    Markdown,
    /// JUnit XML: each assertion a test case
    Junit,
}

pub fn main(args: Args) -> Outcome {
    let Some(recording) = &args.recording else {
        return articles::main(&args.articles, args.gallery.as_deref(), args.to.as_deref());
    };
    let path = recording_in(recording);
    let is_needed = if args.output == Format::Html { report::needs } else { explain::needs };
    let mut evidence = read(&path, is_needed, explain::with_figures_alone)?;
    if let Some(file) = &args.load {
        join(&mut evidence, file)?;
    }
    let explained = explain::explain(&evidence);
    let context = report::Context::new(&evidence, &explained);
    let target = target(&args, &path);
    let columns = terminal::columns().filter(|_| target.is_none());
    let content = match args.output {
        Format::Html => html(&context)?,
        Format::Json => report::pretty(&report::json(&context))?,
        Format::Text => report::text(&context.within(columns)),
        Format::Markdown => report::markdown(&context),
        Format::Junit => report::junit(&context),
    };
    match target {
        Some(target) if args.to.is_none() => replace_page(&target, content.as_bytes(), &path),
        Some(target) => output_file::write(&target, content.as_bytes(), args.load.iter().chain(&files_of(&path))),
        None => {
            terminal::data(content.trim_end());
            Ok(())
        }
    }
}

/// The page beside a recording: who may read the one may read the other. A link of that name, which the user did not write, is not followed.
fn replace_page(page: &Path, content: &[u8], recording: &Path) -> Outcome {
    let mode = recording.metadata().map_or(0o600, |it| it.permissions().mode() & 0o644);
    host::files::write_atomic(page, content, mode)?;
    terminal::say(format_args!("wrote {}", page.display()));
    Ok(())
}

fn join(evidence: &mut Evidence, file: &Path) -> Outcome {
    let failed = |error: anyhow::Error| Failure::new(Exit::Missing, error.context(format!("join {}", file.display())));
    let text = input::read(file).map_err(failed)?;
    let hint = "`wringer load ... -o json > load.json` there, while `wringer observe ... --to FOLDER` runs here";
    let no_json = |error: serde_json::Error| {
        anyhow::anyhow!("it is not what `wringer load -o json` prints, but no JSON: {error}")
    };
    let document = serde_json::from_str(&text).map_err(|error| failed(no_json(error)).hint(hint))?;
    explain::joined::join(evidence, &document).map_err(|error| failed(error.into()).hint(hint))
}

/// The recording: the path itself, or the recording in the folder at the path.
pub fn recording_in(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(RECORDING) } else { path.to_owned() }
}

/// The files of a recording: beside its own one, those of SQLite with what was written last, when the writer was killed.
pub fn files_of(recording: &Path) -> [PathBuf; 3] {
    ["", "-wal", "-shm"].map(|ending| {
        let mut name = recording.as_os_str().to_owned();
        name.push(ending);
        name.into()
    })
}

/// Whether it is a file of SQLite, as a recording is. A pipe is not looked into, because its bytes can be read only once.
pub fn is_recording_file(path: &Path) -> bool {
    const SQLITE: &[u8; 16] = b"SQLite format 3\0";
    let mut begin = [0; SQLITE.len()];
    path.is_file() && File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok() && begin == *SQLITE
}

/// The evidence in the recording, with the series that are needed. `kept`: what is kept of a snapshot.
///
/// # Errors
/// Exit code 3: there is no such recording, this user may not read it, or the file is something else. 4: it is damaged.
pub fn read(path: &Path, is_needed: fn(&Series) -> bool, kept: fn(Snapshot) -> Snapshot) -> Result<Evidence, Failure> {
    input::check_readable(path).map_err(|error| {
        if error.kind() != ErrorKind::NotFound {
            return Failure::new(Exit::Missing, input::named(error, path));
        }
        let message = match path.parent().filter(|folder| path.ends_with(RECORDING) && folder.is_dir()) {
            Some(folder) => format!("there is no recording in the folder {}", folder.display()),
            None => format!("{} does not exist", path.display()),
        };
        Failure::message(Exit::Missing, message).hint(crate::hints::RECORDING)
    })?;
    Ok(Recording::read_reduced(path, is_needed, kept)?)
}

fn html(context: &report::Context<'_>) -> Result<String, Failure> {
    let mut page = Vec::new();
    report::write_html(context, &mut page)?;
    Ok(String::from_utf8(page)?)
}

/// The file to write to. `None`: standard output.
fn target(args: &Args, recording: &Path) -> Option<PathBuf> {
    match &args.to {
        Some(to) if to.as_os_str() == "-" => None,
        Some(to) => Some(to.clone()),
        None => (args.output == Format::Html).then(|| recording.with_file_name("report.html")),
    }
}
