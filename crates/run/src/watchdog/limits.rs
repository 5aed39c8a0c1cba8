// SPDX-License-Identifier: Apache-2.0
//! When a watchdog ends a run whose controller still lives.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// For tests: a JSON object with some of the keys of [`Limits`].
pub const LIMITS_VARIABLE: &str = "WRINGER_WATCHDOG";

/// `None` stands for a value that depends on the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// A controller that gives no sign of life for this time is stopped or hangs.
    pub lease_ms: u64,
    /// `MemAvailable` below which a run that hides RAM ends. `None`: 1 % of RAM, at least 256 MiB.
    pub available_floor_bytes: Option<u64>,
    /// `full avg10` of `/proc/pressure/memory`, in percent.
    pub pressure_full_percent: f64,
    /// The pressure, and an OOM kill, count only while less memory than this is available: a slow disk alone, below a server that reads through the
    /// page cache, shows the same value in `full`. `None`: twice the floor.
    pub pressure_available_bytes: Option<u64>,
    /// Free space below which a run with a server ends. `None`: 512 MiB, or 2 % of a small file system.
    pub disk_free_bytes: Option<u64>,
    /// A slow layer that does not answer for this time hangs.
    pub layer_deadline_ms: u64,
    /// The pause between two looks at all of these.
    pub look_ms: u64,
    /// How long a controller that was asked to release may take, in addition to the graces of its children.
    pub release_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            lease_ms: 60_000,
            available_floor_bytes: None,
            pressure_full_percent: 90.0,
            pressure_available_bytes: None,
            disk_free_bytes: None,
            layer_deadline_ms: 30_000,
            look_ms: 1000,
            release_ms: 60_000,
        }
    }
}

impl Limits {
    /// The defaults, or the limits that a test sets.
    pub(crate) fn from_environment() -> Self {
        let text = std::env::var(LIMITS_VARIABLE).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    pub(crate) fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    /// The pause between two signs of life: six of them fit into a lease.
    pub(crate) fn beat(&self) -> Duration {
        self.lease() / 6
    }

    pub(crate) fn look(&self) -> Duration {
        Duration::from_millis(self.look_ms)
    }

    pub(crate) fn layer_deadline(&self) -> Duration {
        Duration::from_millis(self.layer_deadline_ms)
    }

    pub(crate) fn floor_bytes(&self, total_bytes: u64) -> u64 {
        self.available_floor_bytes.unwrap_or((total_bytes / 100).max(256 << 20))
    }

    pub(crate) fn pressure_floor_bytes(&self, total_bytes: u64) -> u64 {
        self.pressure_available_bytes.unwrap_or(2 * self.floor_bytes(total_bytes))
    }

    pub(crate) fn disk_floor_bytes(&self, size_bytes: u64) -> u64 {
        self.disk_free_bytes.unwrap_or((size_bytes / 50).min(512 << 20))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_keys_are_enough() {
        let limits: Limits = serde_json::from_str(r#"{"lease_ms":600}"#).expect("parses");
        assert_eq!((limits.lease(), limits.beat()), (Duration::from_millis(600), Duration::from_millis(100)));
        assert_eq!(limits.look(), Duration::from_secs(1));
        assert!(serde_json::from_str::<Limits>(r#"{"lease":1}"#).is_err());
    }

    #[test]
    fn floors_follow_the_host() {
        let limits = Limits::default();
        assert_eq!(limits.floor_bytes(8 << 30), 256 << 20);
        assert_eq!(limits.floor_bytes(100 << 30), 1 << 30);
        assert_eq!(limits.disk_floor_bytes(1 << 40), 512 << 20);
        assert_eq!(limits.disk_floor_bytes(1000 << 20), 20 << 20);
    }
}
