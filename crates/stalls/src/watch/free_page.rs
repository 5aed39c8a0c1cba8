// SPDX-License-Identifier: Apache-2.0
//! Waits for a free page of the buffer pool: the evidence that names them in each version.

use super::track::Wait;
use super::wait_context::{Around, Verdict, unknown};
use crate::cause::{Cause, Evidence, ms};
use capability::{LADDER, OnEmpty};

/// With fewer free pages than this, the free list counts as empty.
const FEW: u64 = 64;

/// A thread that waits for a page wakes up after each sleep and looks again. On a busy host it also waits for a CPU each time, so that one look in this many
/// sleeps' time is enough.
const LOOKS_EACH: u64 = 3;

/// The verdict on a call that a probe saw: the cause is what the server's version does in the probed function.
pub(super) fn probed(wait: &Wait, around: &Around<'_>) -> Verdict {
    let symbol = around.probed.unwrap_or("the function that waits for a free page");
    let seen = format!("in {symbol} for {}, by a probe", ms(wait.length_us()));
    let Some(cause) = around.free_list_cause() else {
        let why = "nobody has looked at what this version does there: it is a wait for a free page, and in which way is not known";
        return unknown(vec![seen], why.to_owned());
    };
    let mut speaks_for = vec![seen];
    speaks_for.push(match (cause, around.free_list) {
        (Cause::FreeListBackoff, _) => "innodb_empty_free_list_algorithm is backoff".to_owned(),
        (_, Some(row)) => format!("what this version does there: {}", row.source),
        (_, None) => String::new(),
    });
    let mut against = Vec::new();
    free_pages(around, &mut speaks_for, &mut against);
    Verdict::Stall { cause, confidence: 0.99, evidence: Evidence { speaks_for, against } }
}

/// The verdict on a plain sleep that the server does not explain.
pub(super) fn asleep(wait: &Wait, around: &Around<'_>) -> Verdict {
    let slept = format!("{} samples in a plain sleep, over {}", wait.samples, ms(wait.length_us()));
    let mut evidence = Evidence { speaks_for: vec![slept.clone()], against: Vec::new() };
    let (cause, tries, longest_us) = match around.backoff {
        Some(true) => {
            evidence.speaks_for.push("innodb_empty_free_list_algorithm is backoff".to_owned());
            (Cause::FreeListBackoff, around.tries, u64::from(LADDER.longest_us))
        }
        Some(false) => match around.free_list.map(|row| row.legacy) {
            Some(OnEmpty::Searches(search)) => {
                let sleep_us = u64::from(search.sleep_us).max(1);
                let what = format!("this version sleeps for {} in each round without a page", ms(sleep_us));
                evidence.speaks_for.push(what);
                (Cause::FreeListLegacy, (wait.length_us() / sleep_us).max(1), sleep_us)
            }
            Some(_) => return unknown(vec![slept], "free_list_backoff: this version does not sleep for a page".into()),
            None => {
                let why = "free_list_backoff: the server's innodb_empty_free_list_algorithm is not backoff";
                return unknown(vec![slept], why.to_owned());
            }
        },
        None => return unknown(vec![slept], "free_list_backoff: nothing says that the server has it".to_owned()),
    };
    if let Some(symbol) = around.probed {
        return unknown(vec![slept], format!("{}: it was not in {symbol}, which is probed", cause.name()));
    }
    if let Some(looks) = wait.turns {
        let what = format!("it woke up {looks} times, and such a wait sleeps for {} at most", ms(longest_us));
        if looks.saturating_mul(LOOKS_EACH) < wait.length_us() / longest_us {
            return unknown(vec![slept], format!("{}: {what}", cause.name()));
        }
        evidence.speaks_for.push(what);
    }
    let (sure, fairly) = if cause == Cause::FreeListBackoff { (0.97, 0.7) } else { (0.85, 0.0) };
    let confidence = match around.wait_free {
        // half of the tries are enough: it is not known to the millisecond when the counter was read
        Some(rose) if rose.saturating_mul(2) >= tries => {
            let what = format!("wait_free rose by {rose} meanwhile; this wait alone makes about {tries}");
            evidence.speaks_for.push(what);
            sure
        }
        Some(rose) => {
            let why = format!("wait_free rose by {rose} meanwhile, and this wait alone would make {tries}");
            return unknown(vec![slept], format!("{}: {why}", cause.name()));
        }
        None if fairly > 0.0 => {
            evidence.against.push("wait_free could not be read meanwhile".to_owned());
            fairly
        }
        None => return unknown(vec![slept], format!("{}: wait_free could not be read meanwhile", cause.name())),
    };
    free_pages(around, &mut evidence.speaks_for, &mut evidence.against);
    Verdict::Stall { cause, confidence, evidence }
}

/// The verdict on a wait for another thread for which the server names no lock. `None`: nothing shows that it was a wait for a page.
///
/// Two ways look alike: MariaDB from 10.5 waits for its page cleaner on a condition, and counts each round; `legacy` may wait for a batch that runs, and counts
/// nothing. Both are only assumed, and only while the list is empty and the counter of just that way rises: nothing there
/// distinguishes this wait from a wait for a latch.
pub(super) fn blocked(around: &Around<'_>) -> Option<Verdict> {
    if around.backoff == Some(true) || around.probed.is_some() {
        return None;
    }
    let free = around.pages_free.filter(|free| *free < FEW)?;
    let (cause, confidence, what) = match around.free_list?.legacy {
        OnEmpty::WaitsForCleaner { .. } | OnEmpty::OwnBatch { .. } => {
            let rose = around.wait_free.filter(|rose| *rose > 0)?;
            (Cause::FreeListWait, 0.6, format!("wait_free rose by {rose} meanwhile: so many rounds of all who waited"))
        }
        OnEmpty::Searches(search) if search.waits_for_batch => {
            let rose = around.lru_flushed.filter(|rose| *rose > 0)?;
            let what = format!("LRU batches wrote {rose} pages meanwhile, and this version waits for one that runs");
            (Cause::FreeListLegacy, 0.5, what)
        }
        OnEmpty::Searches(_) => return None,
    };
    let waited = "waited for another thread, and the server named no lock".to_owned();
    let evidence = Evidence {
        speaks_for: vec![waited, what, format!("{free} free pages")],
        against: vec!["a wait for a latch inside the server looks the same: --probes would tell".to_owned()],
    };
    Some(Verdict::Stall { cause, confidence, evidence })
}

/// The verdict on a wait of several ways in turn, in which the thread itself wrote a page out. `None`: nothing shows that it did so for a free page.
///
/// A query leaves the writing of pages to the server's own threads, unless it finds no free page and no clean one; and the server counts each round of such a
/// search. A query also writes to the file of a table where it makes that file longer. Under a checkpoint that is late, queries write whole batches: these
/// pages go to the doublewrite buffer, and to their files by other threads.
///
/// Who only waited while others wrote pages out may have waited for the redo log as well: of such waits on XtraDB 5.6, half were for a page.
pub(super) fn writing(wait: &Wait, around: &Around<'_>) -> Option<Verdict> {
    let is_sought = matches!(around.free_list?.legacy, OnEmpty::Searches(_));
    if around.backoff == Some(true) || around.probed.is_some() || !is_sought {
        return None;
    }
    let rose = around.wait_free.filter(|rose| *rose > 0)?;
    let is_empty = around.pages_free.is_some_and(|free| free < FEW);
    let Around { page_writes, doublewrites, others_page_writes_us: others_us, .. } = *around;
    let (confidence, what, looks_the_same) = if page_writes > 0 {
        let what = "wrote to the file of a table itself, and waited for other threads in turn";
        let longer = (!is_empty).then_some("a query that makes the file of a table longer looks the same");
        (if is_empty { 0.9 } else { 0.7 }, what, longer)
    } else if doublewrites > 0 && others_us > 0 {
        let what = "wrote to the doublewrite buffer itself, and waited for other threads in turn";
        (if is_empty { 0.8 } else { 0.6 }, what, Some("a query that writes pages for a late checkpoint looks the same"))
    } else {
        return None;
    };
    let wrote = page_writes + doublewrites;
    let mut evidence = Evidence {
        speaks_for: vec![
            format!("{what}, over {}: it wrote in {wrote} of {} samples", ms(wait.length_us()), wait.samples),
            format!("wait_free rose by {rose} meanwhile: so many times a query found no free page, and no clean one"),
        ],
        against: looks_the_same.into_iter().map(|it| format!("{it}: --probes would tell")).collect(),
    };
    if others_us > 0 {
        let others = ms(others_us);
        evidence.speaks_for.push(format!("other connections wrote pages out themselves for {others} meanwhile"));
    }
    free_pages(around, &mut evidence.speaks_for, &mut evidence.against);
    Some(Verdict::Stall { cause: Cause::FreeListLegacy, confidence, evidence })
}

fn free_pages(around: &Around<'_>, speaks_for: &mut Vec<String>, against: &mut Vec<String>) {
    match around.pages_free {
        Some(free) if free < 100 => speaks_for.push(format!("{free} free pages")),
        Some(free) => against.push(format!("{free} pages were free when the server was asked")),
        None => {}
    }
}
