// SPDX-License-Identifier: Apache-2.0
//! `wringer stalls simulate`.

mod flags;
mod shown;
mod sweep;

use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;
use flags::Flags;
use serde::Serialize;
use simulate::{Band, Load, Parameter, Settings, parameters, simulate_with_band};
use sweep::{Sweep, VALUES_MAX, Value};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A query that needs a page of the buffer pool takes one of the free list. When the list is empty, Percona Server with the algorithm `backoff` lets it wait \
    until the LRU manager wakes up from its sleep: up to a second. This command computes what a load suffers from that, by the rules of the server's own source; it asks no server. \
    With -o json, `parameters` says where each number comes from.\n\n\
    Examples:\n  \
    # five loads of 2 s, a quiet minute before each: a long stall at the beginning of each\n  \
    wringer stalls simulate --server percona@5.7.39 --pages-per-query 0.73 --time 2 \\\n    --pause 60 --repeat 5\n  \
    # a light load, and every two minutes a scan that empties the list\n  \
    wringer stalls simulate --server percona@8.0.29 --algorithm backoff --threads 4 --rate 400 \\\n    --pages-per-query 0.73 --time 600 --burst-pages 1229 --burst-every 120\n  \
    wringer stalls simulate --server mariadb@10.1.23 --sweep lru-scan-depth=128..4096/128 \\\n    --sweep threads=1..16/5 -o json | jq '.runs[] | [.swept, .max_us]'\n\n\
    The band shows the other results that are possible with the same load: nobody knows how much of its sleep the refiller of a running server has left. \
    Exit codes: 0 done; 2 a server, a version or a value that is not known or makes no sense.\n\n\
    What the numbers mean, and where each default comes from: docs/stalls.md, or `wringer doc stalls`."
)]
pub(super) struct Args {
    #[command(flatten)]
    flags: Flags,
    /// Simulate for each value of a flag: lru-scan-depth=128..4096/128, pause=5s..60s/5s, both ends included. Give it again for another flag
    #[arg(long = "sweep", value_name = "KEY=FROM..TO/STEP")]
    sweeps: Vec<Sweep>,
    /// How many other starts are simulated for the band; 0: no band
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u32).range(0..=1000))]
    starts: u32,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = terminal::Output::Text)]
    output: terminal::Output,
}

/// One load of one simulation.
#[derive(Debug, Serialize)]
struct Run {
    /// The values of the flags that are swept.
    swept: serde_json::Map<String, serde_json::Value>,
    #[serde(skip)]
    names: Vec<String>,
    #[serde(flatten)]
    load: Load,
    /// The band of the results. `None`: nothing about the server is unknown, or no band was asked for.
    band: Option<Band>,
    parameters: Vec<Parameter>,
}

/// # Errors
/// Exit code 2: see [`Flags::settings`], or too many values to sweep.
pub(super) fn main(args: &Args) -> Outcome {
    let points = points(args)?;
    let settings: Vec<(Vec<Value>, Settings)> =
        points.into_iter().map(|(values, flags)| Ok((values, flags.settings()?))).collect::<Result<_, Failure>>()?;
    let given = given(args);
    let bar = terminal::bar(settings.len() as u64, "simulating");
    let mut runs = Vec::new();
    for (values, settings) in &settings {
        let loads = simulate_with_band(settings, args.starts).map_err(|error| Failure::new(Exit::Usage, error))?;
        for (load, band) in loads {
            runs.push(Run {
                swept: values.iter().map(Value::json).collect(),
                names: values.iter().map(ToString::to_string).collect(),
                load,
                band,
                parameters: parameters(settings, &given),
            });
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    match args.output {
        terminal::Output::Json => terminal::json(&serde_json::json!({ "schema": 1, "runs": runs })),
        terminal::Output::Text => {
            let keys: Vec<&str> = args.sweeps.iter().map(Sweep::name).collect();
            if let Some((_, first)) = settings.first() {
                terminal::data(shown::text(&args.flags.server, first, &keys, &runs).trim_end());
            }
        }
    }
    Ok(())
}

/// The flags of all simulations: each value of the first sweep with each value of the next sweeps.
fn points(args: &Args) -> Result<Vec<(Vec<Value>, Flags)>, Failure> {
    let names: Vec<&str> = args.sweeps.iter().map(Sweep::name).collect();
    if let Some(twice) = names.iter().enumerate().find(|(nth, name)| names[..*nth].contains(name)) {
        let what = format!("--sweep {}= is given twice: the second one would replace the values of the first", twice.1);
        return Err(Failure::message(Exit::Usage, what).hint("one --sweep for each key"));
    }
    let count = args.sweeps.iter().try_fold(1usize, |count, sweep| count.checked_mul(sweep.len()));
    if count.is_none_or(|count| count > VALUES_MAX) {
        let what = format!("the sweeps make more than {VALUES_MAX} simulations together");
        return Err(Failure::message(Exit::Usage, what).hint("larger steps, or fewer sweeps at once"));
    }
    let mut points = vec![(Vec::new(), args.flags.clone())];
    for sweep in &args.sweeps {
        let with = |(values, flags): &(Vec<Value>, Flags)| {
            let before = values.clone();
            sweep.apply(flags).into_iter().map(move |(value, flags)| {
                let values: Vec<Value> = before.iter().cloned().chain([value]).collect();
                (values, flags)
            })
        };
        points = points.iter().flat_map(with).collect();
    }
    Ok(points)
}

/// The names of the flags on the command line, and the names of the swept flags.
fn given(args: &Args) -> Vec<String> {
    let words = super::super::command_line();
    let named = words.iter().filter_map(|word| word.strip_prefix("--"));
    let names = named.map(|word| word.split('=').next().unwrap_or(word).replace('_', "-"));
    let table = names.clone().any(|name| name == "table").then(|| "pages-per-query".to_owned());
    names.chain(args.sweeps.iter().map(|sweep| sweep.name().to_owned())).chain(table).collect()
}
