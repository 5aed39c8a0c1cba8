// SPDX-License-Identifier: Apache-2.0

/// A token bucket in virtual time. Tokens come at `rate` up to `capacity`. A request goes as soon as the bucket is not in debt, and
/// takes its tokens then. So the tokens taken in any time never exceed credits + rate x time, plus the one request that caused the
/// debt. An idle disk answers at once, and a busy one evenly, not in slices. A `burst` rate bounds how fast saved tokens are spent.
///
/// Requests are served in the order they are asked for.
#[derive(Debug, Clone)]
pub struct Bucket {
    /// Tokens for each nanosecond.
    rate: f64,
    burst: Option<f64>,
    capacity: f64,
    tokens: f64,
    /// The time at which `tokens` is valid.
    at: u64,
    /// The time at which the burst rate lets the next request go.
    next: u64,
}

const SECOND: f64 = 1e9;

impl Bucket {
    /// Rates are for each second. The clock starts with the first request.
    pub fn new(rate: f64, burst: Option<f64>, capacity: f64, credits: f64) -> Self {
        Self {
            rate: rate / SECOND,
            burst: burst.map(|rate| rate / SECOND),
            capacity,
            tokens: credits.min(capacity),
            at: 0,
            next: 0,
        }
    }

    /// The time at which a request may go that comes at `now` and costs `cost` tokens.
    #[allow(clippy::cast_possible_truncation)] // not negative; a float beyond u64 saturates
    pub fn admit(&mut self, now: u64, cost: f64) -> u64 {
        if self.at == 0 {
            self.at = now;
        }
        let now = now.max(self.at);
        self.tokens = (self.tokens + self.rate * (now - self.at) as f64).min(self.capacity);
        self.at = now;
        let debt = (-self.tokens).max(0.0);
        let mut go = now + (debt / self.rate).ceil() as u64;
        if let Some(burst) = self.burst {
            go = go.max(self.next);
            self.next = go + (cost / burst).round() as u64;
        }
        self.tokens -= cost;
        go
    }
}
