// SPDX-License-Identifier: Apache-2.0
//! `wringer hugepages apply`: makes the pool larger for a server. A supervisor keeps it so until the release.

use super::named::Named;
use crate::commands::ram::refuse_second;
use crate::commands::standing::{self, Output, Shown, Standing, lasting};
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;
use host::places::Places;
use ledger::huge_pages;
use serde_json::json;
use squeeze::ram::{GrantedPages, ServerPages, Wish};
use units::{Bytes, Span, counted};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    # make sure that 279 pages are free for the server that starts next\n  \
    sudo wringer hugepages apply --pages 279\n  \
    # make as many pages free as `advise` says for a server\n  \
    sudo wringer hugepages apply --mysql-socket=/run/mysqld/mysqld.sock\n  \
    # print the change and its undo; change nothing\n  \
    sudo wringer hugepages apply --pages 279 --dry-run\n\n\
    Pages of the pool that nobody uses count: the pool grows by the number that is missing. The kernel grants huge pages where it finds RAM in one piece: memory \
    is compacted, with --drop-caches the page cache is dropped, and the kernel is asked again until --deadline. The host keeps 1 GiB or 5 % of its RAM. The pool \
    stays larger until `wringer hugepages release` or `wringer undo`; pages that a server uses at that time are free when it ends. `apply` is refused while \
    `wringer ram hide` is in force. `sudo` does not see your own sandboxes: give the number of pages, or deploy the sandbox with sudo.")]
pub(super) struct Args {
    /// Pages of the default size that must be free [default: as many as the named server needs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pages: Option<u64>,
    #[command(flatten)]
    named: Named,
    /// Drop the page cache of the whole host when the kernel grants too few pages: then every program reads from disk again
    #[arg(long)]
    drop_caches: bool,
    /// How long the kernel may take to make room
    #[arg(long, value_name = "SPAN", default_value = "60s")]
    deadline: Span,
    /// Time after which the pages are given back without a release [default: until the release]
    #[arg(long = "for", value_name = "SPAN", value_parser = lasting)]
    lasts: Option<Span>,
    /// Print the change with its undo, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Fail, and give everything back, when fewer pages were granted; without it, it is a failure only when less than half of the missing pages were granted
    #[arg(long)]
    strict: bool,
    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// The longest time: the pages stay until the release.
const FOR_EVER: Span = Span::secs(100 * 365 * 24 * 3600);

pub(super) fn main(args: Args) -> Outcome {
    let places = Places::from_environment();
    let look = run::Look::take(&places)?;
    if !args.dry_run {
        standing::refuse_hot(&places, &look)?;
        refuse_second(&look.runs)?;
    }
    let pages = match args.pages {
        Some(pages) => pages,
        None => needed(&args.named)?,
    };
    let wish = Wish { pages, drop_caches: args.drop_caches, deadline: args.deadline.0, strict: args.strict };
    let planned = ServerPages::plan(&wish)?;
    if args.dry_run {
        dry_run(&planned, args.output);
        return Ok(());
    }
    if planned.plan.is_nothing() {
        nothing(&planned, args.output);
        return Ok(());
    }
    let words = Standing {
        lasts: Some(args.lasts.unwrap_or(FOR_EVER)),
        dry_run: false,
        strict: args.strict,
        output: args.output,
    };
    let spinner = terminal::spinner(&format!("asking for {}", counted(planned.plan.units, "huge page")));
    let result = standing::start(&places, &words, squeeze::Plan::HugePages(Box::new(planned)), args.deadline.0);
    spinner.finish_and_clear();
    let mut shown: Shown<GrantedPages> = result?.only()?;
    shown.until = shown.until.filter(|_| args.lasts.is_some());
    show(&shown, args.output);
    Ok(())
}

/// The number of pages that `advise` recommends, less those that the server has.
fn needed(named: &Named) -> Result<u64, Failure> {
    let read = named.read()?;
    let advice = huge_pages::advise(&read.seen);
    let default = read.seen.inventory.host.meminfo.get("Hugepagesize");
    if default.is_some_and(|size| *size != advice.page_bytes) {
        let message = format!(
            "{}: it asks for pages of {}, and the pool of another size than the default one can be had at boot",
            read.of,
            Bytes(advice.page_bytes)
        );
        return Err(Failure::message(Exit::Missing, message).hint("`wringer hugepages advise` prints the line"));
    }
    let pages = advice.pages_to_add().ok_or_else(|| match advice.pages_needed {
        Some(needed) => {
            let needed = counted(needed, "huge page");
            let message = format!(
                "{}: it needs {needed}, and how many of the pages in use are its own cannot be told: its mappings may not be read",
                read.of
            );
            Failure::message(Exit::Missing, message).hint("as root; or --pages N, the number that is to be added")
        }
        None => Failure::message(Exit::Missing, format!("{}: how many huge pages it needs cannot be told", read.of))
            .hint("`wringer hugepages advise` says what would help; or --pages N"),
    })?;
    if let (Some(has @ 1..), Some(needed)) = (advice.pages_in_use, advice.pages_needed) {
        terminal::say(format_args!("{}: it needs {}, and has {has} of them", read.of, counted(needed, "huge page")));
    }
    Ok(pages)
}

fn dry_run(planned: &ServerPages, output: Output) {
    let changes = planned.plan.changes();
    if output == Output::Json {
        return terminal::json(&json!({ "schema": 1, "dry_run": true, "plan": planned, "changes": changes }));
    }
    if planned.plan.is_nothing() {
        nothing(planned, output);
    }
    for change in changes {
        terminal::data(format_args!("{}\n    undo: {}", change.change, change.undo));
    }
}

fn nothing(planned: &ServerPages, output: Output) {
    if output == Output::Json {
        let before = &planned.plan.before;
        let value = json!({ "schema": 1, "run": null, "page_bytes": before.huge_page_bytes, "asked_pages": planned.pages,
            "granted_pages": 0, "unclaimed_pages": planned.unclaimed, "pool_pages": before.huge_total_pages,
            "available_before_bytes": before.available_bytes, "available_after_bytes": before.available_bytes,
            "elapsed_us": 0, "nodes": [], "shortage": null });
        return terminal::json(&value);
    }
    terminal::data(format_args!(
        "nothing to do: {} nobody claims, {} asked for",
        counted(planned.unclaimed, "page"),
        planned.pages
    ));
}

fn show(shown: &Shown<GrantedPages>, output: Output) {
    if output == Output::Json {
        return terminal::json(shown);
    }
    let granted = &shown.in_force;
    terminal::data(format_args!(
        "the pool has grown by {} of {} (run {})",
        counted(granted.granted_pages, "page"),
        Bytes(granted.page_bytes),
        shown.run
    ));
    terminal::data(format_args!(
        "{} now, {} that nobody claims; available: {} before, {} now",
        counted(granted.pool_pages, "page"),
        granted.unclaimed_pages,
        Bytes(granted.available_before_bytes),
        Bytes(granted.available_after_bytes)
    ));
    if granted.nodes.len() > 1 {
        let nodes = granted.nodes.iter().map(|it| format!("node {} gave {}", it.node, it.pages));
        terminal::data(nodes.collect::<Vec<_>>().join(", "));
    }
    if let Some(shortage) = &granted.shortage {
        terminal::data(format_args!("fewer than asked: {shortage}"));
        terminal::data(
            "PostgreSQL with huge_pages = on will not start with them; others will do without for a part of their memory",
        );
    }
    let until = shown.until.as_deref().map_or_else(String::new, |until| format!("until {until}; "));
    terminal::say(format_args!("{until}`wringer hugepages release` gives them back"));
}
