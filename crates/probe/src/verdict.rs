// SPDX-License-Identifier: Apache-2.0
use crate::Round;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The conclusion from the rounds of a scan, and from nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The page cache kept the whole file, and the second read was faster.
    Fits,
    /// The second read was no faster, and most of the file was not kept: the file is larger than the free RAM.
    DoesNotFit,
    /// The second read was faster, though a part of the file was not kept.
    FitsInPart,
    /// The file was kept, and the second read was no faster: the first read was as fast as the page cache.
    NoDifference,
    /// The first read did not start cold, so there is no comparison.
    NotCold,
    /// There was one round only.
    OneRound,
}

/// The ratio from which a read is called faster. In article 1's test it was 300 with the file cached, and 1.0 with RAM hidden.
const FASTER: f64 = 1.5;
/// Shares of a file that count as "the whole file was kept" and as "it started cold".
const NEARLY_ALL: f64 = 0.95;

impl Verdict {
    pub fn of(rounds: &[Round]) -> Self {
        let Some((first, later)) = rounds.split_first().filter(|(_, later)| !later.is_empty()) else {
            return Self::OneRound;
        };
        if first.cached_before > 1.0 - NEARLY_ALL {
            return Self::NotCold;
        }
        // The median, so that one disturbed round does not decide.
        let mut seconds: Vec<f64> = later.iter().map(|round| round.seconds).collect();
        seconds.sort_by(f64::total_cmp);
        let faster = first.seconds / seconds[seconds.len() / 2].max(1e-9) >= FASTER;
        let kept = later.iter().all(|round| round.cached_before >= NEARLY_ALL);
        match (faster, kept) {
            (true, true) => Self::Fits,
            (true, false) => Self::FitsInPart,
            (false, false) => Self::DoesNotFit,
            (false, true) => Self::NoDifference,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Fits => "the file fits the page cache: read again, it comes from RAM",
            Self::DoesNotFit => {
                "the second read is no faster, and the file was not kept: it is larger than the RAM that is left for it \
                 (RAM is hidden, limited, or too small)"
            }
            Self::FitsInPart => "a part of the file was kept, and that part comes from RAM",
            Self::NoDifference => {
                "no difference shown: the file was kept, and reading it from there is no faster than the first read"
            }
            Self::NotCold => "no difference shown: the first read did not start cold, a part of the file was cached already",
            Self::OneRound => "one round shows nothing: two are needed to compare",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(seconds: f64, before: f64, after: f64) -> Round {
        Round { seconds, cached_before: before, cached_after: after, ..Round::default() }
    }

    /// The figures of article 1: 266 s cold, 0.8 s warm; with RAM hidden 262 s and 263 s, and an eighth of the file cached.
    #[test]
    fn article_1() {
        assert_eq!(Verdict::of(&[round(266.1, 0.0, 1.0), round(0.818, 1.0, 1.0)]), Verdict::Fits);
        assert_eq!(Verdict::of(&[round(262.6, 0.0, 0.12), round(263.5, 0.12, 0.12)]), Verdict::DoesNotFit);
    }

    #[test]
    fn the_rest() {
        assert_eq!(Verdict::of(&[round(1.0, 0.0, 1.0)]), Verdict::OneRound);
        assert_eq!(Verdict::of(&[round(1.0, 0.5, 1.0), round(0.1, 1.0, 1.0)]), Verdict::NotCold);
        assert_eq!(Verdict::of(&[round(1.0, 0.0, 1.0), round(0.9, 1.0, 1.0)]), Verdict::NoDifference);
        assert_eq!(Verdict::of(&[round(1.0, 0.0, 0.5), round(0.5, 0.5, 0.5)]), Verdict::FitsInPart);
        let disturbed = [round(1.0, 0.0, 1.0), round(0.1, 1.0, 1.0), round(3.0, 1.0, 1.0), round(0.1, 1.0, 1.0)];
        assert_eq!(Verdict::of(&disturbed), Verdict::Fits);
    }
}
