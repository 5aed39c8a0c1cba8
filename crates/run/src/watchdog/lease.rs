// SPDX-License-Identifier: Apache-2.0
//! A controller's lease: it ends when no sign of life has come for too many looks. This module reads no clock.

use host::looks::{Silence, looks_in};
use std::time::Duration;

#[derive(Debug, Clone)]
pub(crate) struct Lease {
    every: Duration,
    silence: Silence,
}

/// Additional looks for a late controller: on a machine whose processors are all busy it may write its sign of life late.
const PATIENCE_LOOKS: u32 = 3;

impl Lease {
    pub(crate) fn new(lasts: Duration, every: Duration) -> Self {
        Self { every, silence: Silence::of(looks_in(lasts, every).saturating_add(PATIENCE_LOOKS)) }
    }

    /// To be called when a sign of life was read.
    pub(crate) fn renew(&mut self) {
        self.silence.end();
    }

    /// To be called at each look that counts, if there is no sign of life to read. `Some`: the time without a sign of life while the watchdog ran.
    pub(crate) fn expired(&mut self) -> Option<Duration> {
        self.silence.look(true).map(|looks| self.every * looks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::looks::Looks;

    const SECOND: Duration = Duration::from_secs(1);

    /// The second at which the lease ends, when the watchdog looks at these seconds.
    fn ends(lease: &mut Lease, looks: &mut Looks, seconds: impl IntoIterator<Item = u64>) -> Option<u64> {
        let mut silent = |second: u64| looks.counts(Duration::from_secs(second)).then(|| lease.expired()).flatten();
        seconds.into_iter().find(|second| silent(*second).is_some())
    }

    fn lease() -> (Lease, Looks) {
        (Lease::new(60 * SECOND, SECOND), Looks::new(SECOND, 1000 * SECOND))
    }

    #[test]
    fn renewed_it_lasts_for_ever() {
        let (mut lease, mut looks) = lease();
        for second in (1000..1_000_000).step_by(59) {
            assert_eq!(ends(&mut lease, &mut looks, second + 1..second + 60), None);
            lease.renew();
        }
    }

    #[test]
    fn silence_ends_it_soon_after_its_time() {
        let (mut lease, mut looks) = lease();
        assert_eq!(ends(&mut lease, &mut looks, 1001..2000), Some(1064));
    }

    /// The machine slept for an hour, or watchdog and controller were frozen: they continue in any order.
    #[test]
    fn a_suspend_does_not_end_it() {
        for silent_before in [0, 50] {
            let (mut lease, mut looks) = lease();
            assert_eq!(ends(&mut lease, &mut looks, 1001..1001 + silent_before), None);
            assert_eq!(ends(&mut lease, &mut looks, 4600..4610), None);
            lease.renew();
            assert_eq!(ends(&mut lease, &mut looks, 4610..4670), None);
        }
    }

    /// The silence before the suspend and the silence after it count together; the jump and three looks do not count.
    #[test]
    fn and_a_suspend_does_not_renew_it() {
        let (mut lease, mut looks) = lease();
        assert_eq!(ends(&mut lease, &mut looks, 1001..1051), None);
        assert_eq!(ends(&mut lease, &mut looks, 4600..5000), Some(4617));
    }
}
