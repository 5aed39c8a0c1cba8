// SPDX-License-Identifier: Apache-2.0
//! Who stands still, and in which order.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Member {
    Layer,
    Watchdog,
    Supervisor,
    Server,
}

impl Member {
    pub(crate) const ALL: [Self; 4] = [Self::Layer, Self::Watchdog, Self::Supervisor, Self::Server];
}

/// Every subset but the empty one, in every order.
pub(crate) fn orders() -> Vec<Vec<Member>> {
    let mut all: Vec<Vec<Member>> = vec![vec![]];
    let mut done = 0;
    while done < all.len() {
        let order = all[done].clone();
        let longer = Member::ALL.into_iter().filter(|member| !order.contains(member));
        all.extend(longer.map(|member| order.iter().copied().chain([member]).collect()));
        done += 1;
    }
    all.split_off(1)
}
