// SPDX-License-Identifier: Apache-2.0
//! What the keeper knows of the model in force, from the worker's messages and its own orders.

use diskmodel::Model;

/// The model that a next worker begins with.
pub(super) struct InForce {
    model: Model,
    /// How many orders to remove all delays the worker has not answered. Until then a model that it tells of is in force no more.
    unanswered: u32,
}

impl InForce {
    pub(super) fn new(model: Model) -> Self {
        Self { model, unanswered: 0 }
    }

    pub(super) fn model(&self) -> &Model {
        &self.model
    }

    pub(super) fn neutralise(&mut self, is_ordered: bool) {
        self.model = Model::none(self.model.mode);
        self.unanswered += u32::from(is_ordered);
    }

    /// The worker's answer.
    pub(super) fn neutralised(&mut self) {
        self.unanswered = self.unanswered.saturating_sub(1);
    }

    pub(super) fn told(&mut self, model: Model) {
        if self.unanswered == 0 {
            self.model = model;
        }
    }

    /// A next worker owes no answer.
    pub(super) fn worker_is_gone(&mut self) {
        self.unanswered = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evidence::{Delay, DelayMode};

    #[test]
    fn a_delay_that_was_set_before_the_order_to_remove_all_does_not_come_back() {
        let none = Model::none(DelayMode::Add);
        let slow = Model::from(Delay { read_us: 9, ..none.delay() });
        let mut in_force = InForce::new(none.clone());
        in_force.told(slow.clone());
        assert_eq!(*in_force.model(), slow);
        in_force.neutralise(true);
        in_force.told(slow.clone());
        assert_eq!(*in_force.model(), none, "the worker had told it before it heard the order");
        in_force.neutralised();
        in_force.told(slow.clone());
        assert_eq!(*in_force.model(), slow, "a client has set it again");
    }
}
