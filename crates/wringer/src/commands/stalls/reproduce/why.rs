// SPDX-License-Identifier: Apache-2.0
//! Why a server other than the article's shows other figures: the differences between the two rows of `capability`, in words; and measurements that lie
//! outside of their prediction.

use super::Row;
use super::shown::between;
use crate::commands::chart::time;
use capability::{Adapt, FreeList, Progress, Refiller, Version, free_list};
use simulate::Range;

/// The reasons as sentences; the most important one is first.
pub(super) fn sentences(article: &FreeList, here: &FreeList, rows: &[Row]) -> Vec<String> {
    let mut all = Vec::new();
    if std::ptr::eq(article, here) {
        all.push(
            "This server does the same as the article's: differences come from the host, and from the sizes of table and pool."
                .to_owned(),
        );
    }
    if let (Some(theirs), Some(ours)) = (adapt(article), adapt(here)) {
        all.extend(of_adapting(theirs, ours));
    } else {
        all.push("This server has no LRU manager of its own that could sleep for so long.".to_owned());
    }
    if here.refillers.len() > article.refillers.len() {
        all.push(
            "A second thread, the page cleaner, fills the list once a second here: stalls are shorter the further the two are apart, and nobody \
             knows how far; the band has all of it."
                .to_owned(),
        );
    }
    all.extend(another_depth(rows));
    all.extend(rows.iter().filter_map(outside));
    all.extend(rows.iter().filter_map(seen_differently));
    all
}

/// `None`: the article's server is simulated with the scan depths of the file.
fn another_depth(rows: &[Row]) -> Option<String> {
    let differs = |row: &&Row| row.article_server.scan_depth != row.here.scan_depth;
    let row = rows.iter().find(differs)?;
    Some(format!(
        "Names of arms have this server's scan depth. The article's server has a larger pool, and is simulated with a scan depth that is larger by as much: \
         {} for {} in \"{}\".",
        row.article_server.scan_depth, row.here.scan_depth, row.arm
    ))
}

/// A sentence about an arm of which clients, slow log and watch do not tell the same.
fn seen_differently(row: &Row) -> Option<String> {
    let views = row.measured.as_ref()?.views.as_ref().filter(|views| !views.agree())?;
    let log = views.log.map(|log| format!("the slow log has {}; ", log.words())).unwrap_or_default();
    Some(format!(
        "\"{}\" looks different to each of them: its clients had {}; {log}the watch saw {}.",
        row.arm,
        views.clients.words(),
        views.watch.words()
    ))
}

/// A sentence where the version that ran behaves in another way than the version of the prediction: a version that is named in part means the newest.
pub(super) fn another_server(predicted: &'static FreeList, ran: &str) -> Option<String> {
    let version = Version::find_in(ran)?;
    let row = free_list(predicted.flavour, &version);
    if row.is_some_and(|row| std::ptr::eq(row, predicted)) {
        return None;
    }
    Some(format!(
        "The server that ran is {ran}, and the predictions are for {} {}: name the whole version with --server.",
        predicted.flavour,
        predicted.versions()
    ))
}

fn adapt(row: &FreeList) -> Option<Adapt> {
    row.refillers.iter().find_map(|refiller| match refiller {
        Refiller::Manager { adapt, .. } => Some(*adapt),
        Refiller::Cleaner { .. } => None,
    })
}

fn of_adapting(theirs: Adapt, ours: Adapt) -> Vec<String> {
    let mut all = Vec::new();
    if theirs.progress != ours.progress && ours.progress == Progress::Flushed {
        all.push(
            "Here only pages that were written count as progress, and a load that only reads writes none. So an empty list never sets the manager's sleep \
             to 0: it stays near its longest, and a pause changes nothing. On the article's server pages that were taken away count too: the sleep falls to \
             0, and in a pause of t ms it grows again to about sqrt(2t) ms."
                .to_owned(),
        );
    }
    if theirs.step_up_ms != ours.step_up_ms {
        all.push(format!(
            "The sleep grows by {} ms a round here, and by {} ms on the article's server: from 0 it comes to {} ms in {:.1} s, there in {:.0} s.",
            ours.step_up_ms,
            theirs.step_up_ms,
            ours.longest_ms,
            seconds_to_longest(ours),
            seconds_to_longest(theirs),
        ));
    }
    all
}

/// The sum of all sleeps, in seconds, while the sleep grows in steps from 0 to the longest.
fn seconds_to_longest(adapt: Adapt) -> f64 {
    let rounds = f64::from(adapt.longest_ms) / f64::from(adapt.step_up_ms.max(1));
    f64::from(adapt.step_up_ms) * rounds * (rounds + 1.0) / 2.0 / 1000.0
}

/// Times below this in both prediction and measurement are no stalls, and are not compared.
const SHORT_US: f64 = 20_000.0;

/// A sentence about the figures whose measurement is outside of their prediction. `None`: there are no such figures.
fn outside(row: &Row) -> Option<String> {
    let expected = row.here_by_legacy.as_ref().unwrap_or(&row.here).figures;
    let got = row.measured.as_ref()?.figures;
    let number = |value: f64| format!("{value:.0}");
    let figures = [
        told("first load", stall(got.first_max_us, expected.first_max_us), time),
        told("later", stall(got.later_max_us, expected.later_max_us), time),
        told("queries a second", got.queries_per_second.zip(expected.queries_per_second), number),
        told("wait_free", got.wait_free.zip(expected.wait_free), number),
    ];
    let figures: Vec<String> = figures.into_iter().flatten().collect();
    (!figures.is_empty()).then(|| {
        format!(
            "\"{}\" is more than 15 % outside of what was predicted: {}. What went into the prediction is not fitted to it: see -o json, \
             parameters.",
            row.arm,
            figures.join("; ")
        )
    })
}

/// `None`: the measurement or the prediction is missing, or both times are short.
fn stall(got: Option<Range>, expected: Option<Range>) -> Option<(Range, Range)> {
    got.zip(expected).filter(|(got, expected)| got.high >= SHORT_US || expected.high >= SHORT_US)
}

/// `first load 145 ms to 194 ms, predicted 291 ms to 935 ms`. `None`: a part of the measurement is within 15 % of the
/// prediction.
fn told(what: &str, both: Option<(Range, Range)>, words: impl Fn(f64) -> String) -> Option<String> {
    let (got, expected) = both?;
    let is_within = got.high >= expected.low * 0.85 && got.low <= expected.high * 1.15;
    let range = |range: Range| between(range, &words);
    (!is_within).then(|| format!("{what} {}, predicted {}", range(got), range(expected)))
}

#[cfg(test)]
mod tests {
    use super::{another_server, sentences, stall, told};
    use capability::{Flavour, free_list};
    use simulate::Range;

    fn row(flavour: Flavour, version: &str) -> &'static capability::FreeList {
        free_list(flavour, &version.parse().unwrap()).unwrap()
    }

    #[test]
    fn xtradb_does_not_adapt_to_a_load_that_only_reads() {
        let told = sentences(row(Flavour::Percona, "8.0.29"), row(Flavour::Mariadb, "10.1.23"), &[]).join("\n");
        for words in ["a pause changes nothing", "by 50 ms a round", "1000 ms in 10.5 s", "A second thread"] {
            assert!(told.contains(words), "{words}: {told}");
        }
    }

    #[test]
    fn a_prediction_for_another_version_than_ran_is_told() {
        let predicted = row(Flavour::Mariadb, "10.1.23");
        assert_eq!(another_server(predicted, "10.1.23-MariaDB"), None);
        let told = another_server(predicted, "10.11.19-MariaDB-0+deb12u1").unwrap();
        assert!(told.contains("10.11.19-MariaDB") && told.contains("--server"), "{told}");
    }

    #[test]
    fn of_the_articles_own_server_nothing_is_said_to_differ() {
        let theirs = row(Flavour::Percona, "8.0.29");
        let told = sentences(theirs, theirs, &[]);
        assert_eq!(told.len(), 1, "{told:?}");
    }

    #[test]
    fn each_figure_is_held_against_its_own_prediction() {
        let range = |low: f64, high: f64| Some(Range { low, high });
        let ms = |us: f64| format!("{:.0} ms", us / 1000.0);
        let first = |got, expected| told("first load", stall(got, expected), ms);
        assert_eq!(
            first(range(145_000.0, 194_000.0), range(291_000.0, 935_000.0)).as_deref(),
            Some("first load 145 ms to 194 ms, predicted 291 ms to 935 ms")
        );
        assert_eq!(first(range(145_000.0, 250_000.0), range(291_000.0, 935_000.0)), None, "250 is within 15 % of 291");
        assert_eq!(first(range(9000.0, 12_000.0), range(60.0, 400.0)), None, "no stall in either");
        assert!(first(range(18_000.0, 29_000.0), range(60.0, 400.0)).is_some());
        assert_eq!(first(None, range(60.0, 400.0)), None);
    }
}
