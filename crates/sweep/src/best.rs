// SPDX-License-Identifier: Apache-2.0
//! The setting with the most transactions: the one that is told to people first, and compared with all others.

use crate::state::{Setting, Value};
use verdict::THROUGHPUT;

/// Its place, and its transactions. `None`: nothing was measured yet.
///
/// Of several arms, the one that most settings have measured counts, and of these the first: figures of different arms say nothing about each other.
#[must_use]
pub fn most_transactions(settings: &[Setting]) -> Option<(usize, &Value)> {
    let arm = most_measured(settings)?;
    let measured = settings.iter().enumerate().filter_map(|(place, setting)| Some((place, throughput(setting, arm)?)));
    measured.max_by(|(_, one), (_, other)| one.typical.total_cmp(&other.typical))
}

/// What a setting has of transactions in an arm.
#[must_use]
pub fn throughput<'a>(setting: &'a Setting, arm: &str) -> Option<&'a Value> {
    setting.figures.iter().find(|figure| figure.name == THROUGHPUT && figure.arm == arm)
}

fn most_measured(settings: &[Setting]) -> Option<&str> {
    let mut arms: Vec<(&str, usize)> = Vec::new();
    for figure in settings.iter().flat_map(|setting| &setting.figures).filter(|it| it.name == THROUGHPUT) {
        match arms.iter_mut().find(|(arm, _)| *arm == figure.arm) {
            Some((_, count)) => *count += 1,
            None => arms.push((&figure.arm, 1)),
        }
    }
    let more = |most: (_, usize), it: (_, usize)| if it.1 > most.1 { it } else { most };
    arms.into_iter().reduce(more).map(|(arm, _)| arm)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(rates: &[(&str, f64)]) -> Setting {
        let figure = |(arm, rate): &(&str, f64)| Value {
            arm: (*arm).to_owned(),
            name: THROUGHPUT.into(),
            unit: "transactions/s".into(),
            repeats: 3,
            typical: *rate,
            lowest: *rate,
            highest: *rate,
        };
        Setting { figures: rates.iter().map(figure).collect(), ..Setting::default() }
    }

    #[test]
    fn the_figures_of_another_arm_make_no_setting_the_best() {
        assert_eq!(most_transactions(&[setting(&[])]), None);
        let settings = [
            setting(&[("small", 100.0), ("large", 400.0)]),
            setting(&[("small", 300.0)]),
            setting(&[("small", 200.0), ("large", 900.0)]),
        ];
        let (place, value) = most_transactions(&settings).expect("all are measured");
        assert_eq!((place, value.arm.as_str(), value.typical), (1, "small", 300.0));
    }
}
