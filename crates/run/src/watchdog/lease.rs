// SPDX-License-Identifier: Apache-2.0
//! A controller's lease: it ends when no sign of life has come for too long. Pure: the time is passed in.

use std::time::Duration;

/// All times are CLOCK_BOOTTIME: no jump of the wall clock moves them, and a suspended machine's sleep counts.
#[derive(Debug, Clone)]
pub(crate) struct Lease {
    lasts: Duration,
    /// Looks in a row, with time to answer between them, that a late controller is given.
    patience: u32,
    last_sign: Duration,
    late_looks: u32,
}

/// After a suspend, or on a machine whose processors are all busy, the watchdog may wake before the controller could write.
const PATIENCE_LOOKS: u32 = 3;

impl Lease {
    pub(crate) fn new(lasts: Duration, now: Duration) -> Self {
        Self { lasts, patience: PATIENCE_LOOKS, last_sign: now, late_looks: 0 }
    }

    /// A sign of life was read.
    pub(crate) fn renew(&mut self, now: Duration) {
        self.last_sign = now;
        self.late_looks = 0;
    }

    /// To be asked once a look, when there is no sign of life to be read. `Some`: since when there was none.
    pub(crate) fn expired(&mut self, now: Duration) -> Option<Duration> {
        let silent = now.saturating_sub(self.last_sign);
        if silent <= self.lasts {
            self.late_looks = 0;
            return None;
        }
        self.late_looks += 1;
        (self.late_looks > self.patience).then_some(silent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn lease() -> Lease {
        Lease::new(at(60), at(1000))
    }

    #[test]
    fn renewed_it_lasts_for_ever() {
        let mut lease = lease();
        for second in (1000..1_000_000).step_by(59) {
            assert_eq!(lease.expired(at(second)), None);
            lease.renew(at(second));
        }
    }

    #[test]
    fn silence_ends_it_soon_after_its_time() {
        let mut lease = lease();
        let ended = (1001..2000).find(|second| lease.expired(at(*second)).is_some());
        assert_eq!(ended, Some(1064));
    }

    /// The machine slept for an hour; watchdog and controller wake in any order.
    #[test]
    fn a_suspend_does_not_end_it() {
        let mut lease = lease();
        for look in 0..3 {
            assert_eq!(lease.expired(at(4600 + look)), None);
        }
        lease.renew(at(4603));
        assert_eq!(lease.expired(at(4604)), None);
    }

    #[test]
    fn and_a_suspend_does_not_renew_it() {
        let mut lease = lease();
        let ended = (0..100).find(|look| lease.expired(at(4600 + look)).is_some());
        assert_eq!(ended, Some(3));
    }
}
