// SPDX-License-Identifier: Apache-2.0
//! Keys that vary, and the values that they take together.

use keyfile::{At, Node};

/// One key, with its values in the order of the file.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    pub(crate) path: String,
    pub(crate) key_at: At,
    pub(crate) values: Vec<Node>,
}

/// A key that is set to a value.
#[derive(Debug, Clone)]
pub(crate) struct Set {
    pub(crate) path: String,
    pub(crate) key_at: At,
    pub(crate) node: Node,
}

impl Axis {
    fn set(&self, index: usize) -> Set {
        Set { path: self.path.clone(), key_at: self.key_at.clone(), node: self.values[index].clone() }
    }
}

/// Keys that vary together. Each entry is one choice: these keys are set to these values.
pub(crate) type Choices = Vec<Vec<Set>>;

/// One choice for each value of the key.
pub(crate) fn alone(axis: &Axis) -> Choices {
    (0..axis.values.len()).map(|index| vec![axis.set(index)]).collect()
}

/// The first values of all keys, then the second ones: the keys have as many values as each other.
pub(crate) fn paired(axes: &[Axis]) -> Choices {
    let count = axes.iter().map(|axis| axis.values.len()).min().unwrap_or_default();
    (0..count).map(|index| axes.iter().map(|axis| axis.set(index)).collect()).collect()
}

/// The choices of all lists, crossed: each choice of each list with each choice of the other lists. The choice of the last list changes first.
pub(crate) fn crossed(all: &[Choices]) -> Choices {
    all.iter().fold(vec![Vec::new()], |before, choices| {
        before.iter().flat_map(|set| choices.iter().map(|choice| [set.as_slice(), choice].concat())).collect()
    })
}
