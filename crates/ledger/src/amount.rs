// SPDX-License-Identifier: Apache-2.0
use crate::figures::Figures;
use crate::innodb;
use crate::row::{Amount, Reckoned, Rule};

impl Rule {
    /// The allocated bytes by the server's figures. `None` where the server has no such figure, and for rules that do not use its figures.
    pub(crate) fn amount(self, path: &str, figures: Figures<'_>) -> Option<Amount> {
        match self {
            Self::Events(_) => figures.events_of(path).map(Amount::whole),
            Self::Status(name) => figures.status(name).map(Amount::whole),
            Self::Blocks { used, block, of } => {
                let resident = figures.status(used)?.saturating_mul(figures.size(block)?);
                let allocated = figures.size(of)?;
                Some(Amount { resident: resident.min(allocated), allocated })
            }
            Self::Less { size, free } => {
                let allocated = figures.size(size)?;
                Some(Amount { resident: allocated.saturating_sub(figures.status(free)?), allocated })
            }
            Self::Innodb(line) => innodb::line(figures.innodb_memory()?, line).map(Amount::whole),
            Self::Meter(reckon) | Self::Formula(reckon) => reckon(&Reckoned(figures)),
            _ => None,
        }
    }
}
