#![allow(warnings)]
mod common;
use common::*;
use explain::modes::find;
#[test]
fn dbg() {
    let mut r = Random(1);
    for b in [Bucketing::Hdr, Bucketing::Sysbench, Bucketing::Rounded(1.0), Bucketing::Rounded(10.0)] {
        for c in [150.0, 740.0, 5000.0] { for s in [0.03, 0.3] {
        let v: Vec<f64> = (0..10000).map(|_| c * (s * r.normal()).exp()).collect();
        let f = find(&bin(&v, b), None);
        println!("{b:?} {c} {s}: {:?}", f.modes.iter().map(|m| (m.low_us, m.high_us, m.count)).take(6).collect::<Vec<_>>());
        }}
    }
}
