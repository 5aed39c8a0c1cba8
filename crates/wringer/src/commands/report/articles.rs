// SPDX-License-Identifier: Apache-2.0
//! `wringer report --articles`: the page about the five articles, and the gallery of the reports that it leads to.

use super::{files_of, html, read, recording_in};
use crate::exit::{Exit, Failure, Outcome};
use crate::{input, output_file, terminal};
use report::Reproduction;
use serde::{Deserialize, Serialize};
use std::path::Path;

const SCHEMA: u32 = 1;
/// The data from which the page is made, beside the reports.
const EXTRACT: &str = "articles.json";

#[derive(Debug, Serialize, Deserialize)]
struct Extract {
    schema: u32,
    articles: Vec<Reproduction>,
}

/// Makes the page. `to`: the page's file; `None` or `-`: standard output.
///
/// # Errors
/// Exit code 2: a run is of no article. 3: there is no such recording.
pub(super) fn main(runs: &[impl AsRef<Path>], gallery: Option<&Path>, to: Option<&Path>) -> Outcome {
    if let Some(gallery) = gallery.filter(|gallery| !gallery.exists()) {
        host::files::private_dir(gallery, 0o755)?;
    }
    let mut told = Vec::new();
    for run in runs {
        let run = run.as_ref();
        if run.extension().is_some_and(|ending| ending == "json") {
            told.extend(extract(run)?);
        } else {
            told.push(one(run, gallery, &told)?);
        }
    }
    told.sort_by(|one, other| (one.article, &one.name).cmp(&(other.article, &other.name)));
    let stored = report::pretty(&serde_json::to_value(Extract { schema: SCHEMA, articles: told })?)?;
    if let Some(gallery) = gallery {
        // these figures may come from that file: they are then the same
        output_file::write(&gallery.join(EXTRACT), stored.as_bytes(), [""; 0])?;
    }
    let to = to.filter(|to| to.as_os_str() != "-");
    // from the rounded figures that are stored, so that the page is the same when it is made from them again
    let Extract { articles, .. } = serde_json::from_str(&stored)?;
    let page = report::articles(&articles, gallery.map(|gallery| seen_from(to, gallery)).as_deref());
    match to {
        Some(to) => {
            output_file::write(to, page.as_bytes(), runs.iter().flat_map(|run| files_of(&recording_in(run.as_ref()))))
        }
        None => {
            terminal::data(page.trim_end());
            Ok(())
        }
    }
}

/// The reproduction in one recording; its report is written into the gallery.
fn one(run: &Path, gallery: Option<&Path>, earlier: &[Reproduction]) -> Result<Reproduction, Failure> {
    let evidence = read(&recording_in(run), report::needs, explain::with_figures_alone)?;
    let explained = explain::explain(&evidence);
    let context = report::Context::new(&evidence, &explained);
    let told = Reproduction::of(&context).ok_or_else(|| {
        Failure::message(Exit::Usage, format!("{} has measured no figure of an article", run.display()))
            .hint("runs of experiments/article-*.toml have; `article = N` in an experiment's file says which article it is about")
    })?;
    if let Some(gallery) = gallery {
        // the recording may come from somebody else, and its name becomes that of a file
        if !experiment::is_name(&told.name) {
            let message = format!("the experiment in {} has the name {:?}", run.display(), told.name);
            return Err(Failure::message(Exit::Missing, message).hint("it cannot become the name of a report"));
        }
        if earlier.iter().any(|it| it.name == told.name) {
            let message =
                format!("{} is a second run of {}: its report would replace the other one", run.display(), told.name);
            return Err(Failure::message(Exit::Usage, message).hint("name one run of each experiment"));
        }
        let page = html(&context)?;
        output_file::write(
            &gallery.join(format!("{}.html", told.name)),
            page.as_bytes(),
            files_of(&recording_in(run)),
        )?;
    }
    Ok(told)
}

fn extract(file: &Path) -> Result<Vec<Reproduction>, Failure> {
    let failed = |error: anyhow::Error| Failure::new(Exit::Missing, error.context(format!("read {}", file.display())));
    let text = input::read(file).map_err(failed)?;
    let extract: Extract = serde_json::from_str(&text).map_err(|error| failed(error.into()))?;
    if extract.schema == SCHEMA {
        return Ok(extract.articles);
    }
    let message = format!("{} has schema {}, and this Wringer reads {SCHEMA}", file.display(), extract.schema);
    Err(Failure::message(Exit::Missing, message))
}

/// The gallery as a link on the page: relative to the page's folder if the gallery is below it, else as the user wrote it.
fn seen_from(page: Option<&Path>, gallery: &Path) -> String {
    let folder = page.and_then(Path::parent).unwrap_or(Path::new(""));
    gallery.strip_prefix(folder).unwrap_or(gallery).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::seen_from;
    use std::path::Path;

    #[test]
    fn the_page_leads_to_its_gallery_from_where_it_is() {
        let from = |page: Option<&str>, gallery: &str| seen_from(page.map(Path::new), Path::new(gallery));
        assert_eq!(from(Some("docs/articles.md"), "docs/gallery"), "gallery");
        assert_eq!(from(Some("articles.md"), "docs/gallery"), "docs/gallery");
        assert_eq!(from(None, "out/gallery"), "out/gallery");
    }
}
