// SPDX-License-Identifier: Apache-2.0
//! Lists of numbers, as the kernel writes those of CPUs, NUMA nodes and memory blocks: `0-3,8`.

use std::collections::BTreeSet;
use std::fmt;

/// Reads a list. `None`: it is not a list, it is empty, a run of numbers goes backwards, or a number is higher than `highest`.
pub fn parse_numbers(text: &str, highest: u32) -> Option<BTreeSet<u32>> {
    let number = |text: &str| text.trim().parse::<u32>().ok().filter(|number| *number <= highest);
    let mut found = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = number(first).zip(number(last)).filter(|(first, last)| first <= last)?;
        found.extend(first..=last);
    }
    Some(found)
}

/// Writes a list.
pub fn write_numbers(numbers: &BTreeSet<u32>, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    let text = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    formatter.pad(&runs.iter().map(text).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel() {
        let numbers = |text: &str| parse_numbers(text, 100).map(|found| found.into_iter().collect::<Vec<_>>());
        assert_eq!(numbers("0-2,8\n"), Some(vec![0, 1, 2, 8]));
        assert_eq!(numbers("100"), Some(vec![100]));
        for wrong in ["", "\n", "a", "1-", "-1", "3-1", ",", "3,,4", "101", "0-4000000000"] {
            assert_eq!(numbers(wrong), None, "{wrong}");
        }
    }
}
