// SPDX-License-Identifier: Apache-2.0
//! Where the parts of a request come from that the user has not written: the environment and the user's folders.

use crate::Parts;
use host::places::Places;
use load::Protocol;

/// The sources that complete a request.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    pub places: &'a Places,
    /// Looks up a variable of the environment; an empty one counts as not set.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Called with a sentence for each part that was left out.
    pub say: &'a dyn Fn(&str),
}

impl Surroundings<'_> {
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    pub(crate) fn parts(&self, protocol: Protocol) -> Parts {
        Parts::from_environment(protocol, self.variable)
    }
}

/// A variable of this process's environment.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
