#![allow(warnings)]
mod common;
use common::*;
use explain::modes::*;
fn load(n: &str) -> Vec<Bin> {
    let r = (1e8f64.ln() / 1023.0 / 2.0).exp();
    std::fs::read_to_string(format!("{}/../../fixtures/modes/{n}", env!("CARGO_MANIFEST_DIR"))).unwrap().lines()
        .filter(|l| l.starts_with(|c: char| c.is_ascii_digit())).map(|l| { let (v, c) = l.split_once(',').unwrap(); let v: f64 = v.parse().unwrap();
            Bin { low_us: v * 1000.0 / r, high_us: v * 1000.0 * r, count: c.parse().unwrap() } }).collect()
}
#[test]
fn dbg() {
    println!("{:#?}", find(&load("point-select-no-delay.csv"), None));
    println!("{:#?}", find(&load("point-select-10ms.csv"), None).modes.iter().map(|m| (m.center_us, m.share)).collect::<Vec<_>>());
    println!("{:#?}", find(&load("point-select-10ms.csv"), Some(ReadDelay::added(10000.0))));
}
