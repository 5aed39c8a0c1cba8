// SPDX-License-Identifier: Apache-2.0

use super::*;

/// SplitMix64, written here, so that no release of a library changes the series.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// Noise in which each reading keeps the share `memory` of the reading before; its deviation is 1.
fn remembering(memory: f64, n: usize, random: &mut Random) -> Vec<f64> {
    let mut value = random.normal();
    let step = (1.0 - memory * memory).sqrt();
    let next = |_| {
        value = memory * value + step * random.normal();
        value
    };
    (0..n).map(next).collect()
}

/// A sawtooth from -0.5 to 0.5, repeated `times` times, with a random beginning.
fn sawtooth(times: f64, n: usize, random: &mut Random) -> Vec<f64> {
    let from = random.unit();
    (0..n).map(|index| (index as f64 / n as f64 * times + from).fract() - 0.5).collect()
}

/// The values over one unit of time.
fn series(values: &[f64]) -> Vec<Reading> {
    let n = values.len() as f64;
    values.iter().enumerate().map(|(index, value)| (index as f64 / n, *value)).collect()
}

fn sum(parts: &[&[f64]]) -> Vec<f64> {
    (0..parts[0].len()).map(|index| parts.iter().map(|part| part[index]).sum()).collect()
}

fn scaled(values: Vec<f64>, factor: f64) -> Vec<f64> {
    values.into_iter().map(|value| value * factor).collect()
}

fn line(rate: f64, n: usize) -> Vec<f64> {
    (0..n).map(|index| rate * index as f64 / n as f64).collect()
}

/// In how many of `of` series, each of `n` readings, growth would be claimed at the level of one leaf.
fn claimed(of: u64, n: usize, make: Make<'_>) -> u64 {
    let is_claimed = |seed: &u64| {
        let trend = trend(&series(&make(&mut Random(seed * 7919 + 13)))).expect("enough readings");
        assert_eq!(make(&mut Random(1)).len(), n);
        trend.keeps_on && trend.low > 0.0 && trend.p < 0.05
    };
    (0..of).filter(is_claimed).map(|_| 1).sum()
}

type Make<'a> = &'a dyn Fn(&mut Random) -> Vec<f64>;

/// Growth is claimed for at most 1 in 20 series of each kind; a server at rest makes such series.
#[test]
fn steady_series_do_not_keep_growing() {
    const OF: u64 = 20;
    for n in [30, 120] {
        let noise = |share: f64, random: &mut Random| scaled(remembering(0.5, n, random), share);
        let steps = |at: &[f64]| -> Vec<f64> {
            (0..n).map(|index| at.iter().filter(|at| index as f64 / n as f64 > **at).count() as f64).collect()
        };
        let fill =
            |tau: f64| -> Vec<f64> { (0..n).map(|index| 1.0 - (-(index as f64) / n as f64 / tau).exp()).collect() };
        let kinds: [(&str, Make<'_>); 8] = [
            ("noise", &|random| remembering(0.0, n, random)),
            ("noise with memory", &|random| remembering(0.7, n, random)),
            ("few sessions that come and go", &|random| sum(&[&sawtooth(3.0, n, random), &noise(0.05, random)])),
            ("sessions that come and go", &|random| sum(&[&sawtooth(7.3, n, random), &noise(0.05, random)])),
            ("a cache that fills fast", &|random| sum(&[&fill(0.08), &noise(0.02, random)])),
            ("a cache that fills slowly", &|random| sum(&[&fill(0.35), &noise(0.02, random)])),
            ("a step", &|random| sum(&[&steps(&[random.unit()]), &noise(0.02, random)])),
            ("two steps", &|random| sum(&[&steps(&[random.unit(), random.unit()]), &noise(0.02, random)])),
        ];
        for (kind, make) in kinds {
            let claimed = claimed(OF, n, make);
            assert!(claimed * 20 <= OF, "{claimed} of {OF} series of {n} readings: {kind}");
        }
    }
}

/// The rate is added to the variations of a server's memory: sessions that come and go in sawteeth, and noise that depends on earlier values.
#[test]
fn a_planted_rate_is_found_within_a_tenth() {
    const RATE: f64 = 40.0;
    for n in [60, 240, 2000] {
        let (mut found, mut inside) = (0, 0);
        for seed in 0..20 {
            let mut random = Random(seed * 104_729 + 7);
            let parts = [line(RATE, n), remembering(0.7, n, &mut random), scaled(sawtooth(11.0, n, &mut random), 8.0)];
            let trend = trend(&series(&sum(&[&parts[0], &parts[1], &parts[2]]))).expect("enough readings");
            let is_near = (trend.slope / RATE - 1.0).abs() <= 0.1;
            assert!(is_near, "{n} readings, seed {seed}: {}", trend.slope);
            found += usize::from(trend.keeps_on && trend.p < 0.001);
            inside += usize::from(trend.low <= RATE && RATE <= trend.high);
        }
        assert_eq!(found, 20, "{n} readings");
        assert!(inside >= 18, "the true rate is in {inside} of 20 intervals, {n} readings");
    }
}

#[test]
fn a_leak_in_many_steps_is_one() {
    // malloc takes memory from the kernel in large pieces
    let stairs: Vec<f64> = (0..100).map(|index| f64::from(index / 10)).collect();
    let found = trend(&series(&stairs)).expect("enough readings");
    assert!(found.keeps_on && found.p < 0.001, "{found:?}");
    assert!((found.slope - 10.0).abs() < 1.0, "{found:?}");
}

#[test]
fn too_few_readings_and_equal_ones_have_no_trend() {
    assert_eq!(trend(&series(&line(5.0, FEWEST - 1))), None);
    let flat = trend(&series(&[7.0; 50])).expect("enough readings");
    assert_eq!((flat.slope, flat.low, flat.high, flat.p, flat.keeps_on), (0.0, 0.0, 0.0, 1.0, false));
    let at_once = trend(&[(1.0, 5.0); 40]).expect("enough readings");
    assert_eq!((at_once.slope, at_once.keeps_on), (0.0, false));
}

/// Nine readings in order: two of the 9! orders are so, 5.5e-6. The normal approximation is known to be too careful there.
#[test]
fn readings_in_order_are_as_unlikely_as_their_number_says() {
    let in_order: Vec<Reading> = (0..9).map(|index| (f64::from(index), f64::from(index))).collect();
    let p = rank::p_value(&in_order, &[0.0; 9]);
    assert!((1e-5..6e-4).contains(&p), "{p}");
    let back: Vec<Reading> = in_order.iter().map(|(t, y)| (*t, -y)).collect();
    assert!((rank::p_value(&back, &[0.0; 9]) - p).abs() < 1e-12);
}
