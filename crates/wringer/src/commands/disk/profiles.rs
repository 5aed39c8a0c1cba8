// SPDX-License-Identifier: Apache-2.0
//! `wringer disk profiles`: the disks with a name, and the sources of their figures.

use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::{self, Output};
use diskmodel::{Class, DiskRequest, Model, Profile, ProfileSpec, closed_loop, profiles};
use serde_json::{Value, json};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// One of them, with its size or options: gp2:100G
    name: Option<String>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// Requests of a virtual closed loop: enough for a 99th percentile.
const REQUESTS: u32 = 20_000;

pub fn main(args: &Args) -> Outcome {
    let chosen: Vec<ProfileSpec> = match &args.name {
        Some(name) => vec![words(name)?],
        None => profiles().iter().filter_map(|profile| profile.name.parse().ok()).collect(),
    };
    if args.output == Output::Json {
        let rows: Vec<Value> = chosen.iter().map(as_json).collect();
        terminal::json(&json!({ "schema": 1, "profiles": rows }));
        return Ok(());
    }
    match chosen.as_slice() {
        [one] if args.name.is_some() => explain(one),
        several => {
            several.iter().for_each(|words| {
                let model = model(words);
                let text = format!("{:<12} {}", words.profile().name, words.profile().title);
                terminal::data(format_args!("{text}\n{:13}{}", "", model_without_name(&model)));
            });
            terminal::say("`wringer disk profiles NAME` says where each figure is from");
        }
    }
    Ok(())
}

fn words(name: &str) -> Result<ProfileSpec, Failure> {
    name.parse::<ProfileSpec>().map_err(|error| Failure::message(Exit::Usage, error.message).hint(error.hint))
}

fn model(words: &ProfileSpec) -> Model {
    let asked = DiskRequest { profile: Some(words.clone()), ..DiskRequest::default() };
    // A profile names no file, and its figures have been parsed already.
    asked.model(&mut |_| Err(String::new())).unwrap_or_else(|_| Model::none(asked.mode()))
}

fn model_without_name(model: &Model) -> String {
    Model { profile: None, ..model.clone() }.to_string()
}

fn explain(words: &ProfileSpec) {
    let (profile, model) = (words.profile(), model(words));
    terminal::data(format_args!("{words}: {}", profile.title));
    if let Some(size) = words.size() {
        terminal::data(format_args!("with a size of {size}"));
    }
    terminal::data(format_args!("\n{}\n", model_without_name(&model)));
    for [class, depth, median, p99, rate] in table(&model) {
        terminal::data(format_args!("{class:<10} {depth:>8} {median:>12} {p99:>12} {rate:>14}"));
    }
    terminal::data(
        "\nThe first 20 000 random requests of 4 KiB, one after the other and 32 at once, by the model; the figures are from:\n",
    );
    for figure in &profile.figures {
        terminal::data(format_args!("{:<11} {}\n            {}", figure.of, figure.says(), figure.source));
    }
    terminal::data(format_args!("\n{}", profile.parameters()));
}

fn table(model: &Model) -> Vec<[String; 5]> {
    let mut rows = vec![["", "depth", "median", "p99", "a second"].map(str::to_owned)];
    for (name, class) in [("read", Class::Read), ("write", Class::Write)] {
        for depth in [1, 32] {
            let seen = closed_loop(model, class, depth, REQUESTS, 4096, 0.0);
            let us = |p: f64| format!("{:.0} us", seen.quantile_us(p));
            rows.push([name.into(), depth.to_string(), us(0.5), us(0.99), format!("{:.0}", seen.per_second)]);
        }
    }
    rows
}

fn as_json(words: &ProfileSpec) -> Value {
    let (profile, model): (&Profile, Model) = (words.profile(), model(words));
    let simulated = |class, depth| {
        let seen = closed_loop(&model, class, depth, REQUESTS, 4096, 0.0);
        json!({
            "depth": depth,
            "p50_us": seen.quantile_us(0.5),
            "p99_us": seen.quantile_us(0.99),
            "per_second": seen.per_second,
        })
    };
    let mut value = json!(profile);
    value["asked"] = json!(words);
    value["size_bytes"] = json!(words.size());
    value["model"] = json!(model);
    value["parameters"] = json!(profile.parameters());
    value["figures"].as_array_mut().into_iter().flatten().zip(&profile.figures).for_each(|(value, figure)| {
        *value = json!({ "of": figure.of, "says": figure.says(), "source": figure.source, "assumed": figure.is_assumed() });
    });
    value["by_the_model"] = json!({
        "read": [simulated(Class::Read, 1), simulated(Class::Read, 32)],
        "write": [simulated(Class::Write, 1), simulated(Class::Write, 32)],
    });
    if let Some(map) = value.as_object_mut() {
        map.remove("size");
    }
    value
}
