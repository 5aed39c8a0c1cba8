// SPDX-License-Identifier: Apache-2.0
//! The table of a mapping that delays a whole device (kernel, admin-guide/device-mapper/delay.rst).

use serde::{Deserialize, Serialize};
use std::fmt;

/// One line: `0 SECTORS delay DEVICE 0 READ DEVICE 0 WRITE DEVICE 0 FLUSH`, times in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelayTable {
    /// The length in sectors of 512 bytes.
    pub sectors: u64,
    /// The numbers of the device below: `7:0`.
    pub device: String,
    pub read_ms: u32,
    pub write_ms: u32,
    pub flush_ms: u32,
}

impl DelayTable {
    /// The words after the target's name. There are always all three groups: with two groups a flush would be delayed as a write.
    pub fn parameters(&self) -> String {
        let group = |ms: u32| format!("{} 0 {ms}", self.device);
        [self.read_ms, self.write_ms, self.flush_ms].map(group).join(" ")
    }

    /// Reads a table as the kernel shows it: three, six or nine words.
    pub fn parse(sectors: u64, parameters: &str) -> Option<Self> {
        let words: Vec<&str> = parameters.split_whitespace().collect();
        let groups: Vec<&[&str]> = words.chunks(3).collect();
        let whole = (1..=3).contains(&groups.len()) && groups.iter().all(|group| group.len() == 3);
        let same_place = groups.iter().all(|group| group[0] == words[0] && group[1] == "0");
        let ms: Vec<u32> = groups.iter().map(|group| group.get(2)?.parse().ok()).collect::<Option<_>>()?;
        let read_ms = *ms.first().filter(|_| whole && same_place)?;
        let write_ms = *ms.get(1).unwrap_or(&read_ms);
        let flush_ms = *ms.get(2).unwrap_or(&write_ms);
        Some(Self { sectors, device: words[0].to_owned(), read_ms, write_ms, flush_ms })
    }

    /// The same device without a delay.
    #[must_use]
    pub fn without_delay(&self) -> Self {
        Self { read_ms: 0, write_ms: 0, flush_ms: 0, ..self.clone() }
    }

    pub fn longest_ms(&self) -> u32 {
        self.read_ms.max(self.write_ms).max(self.flush_ms)
    }
}

impl fmt::Display for DelayTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0 {} delay {}", self.sectors, self.parameters())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> DelayTable {
        DelayTable { sectors: 2048, device: "7:0".into(), read_ms: 10, write_ms: 20, flush_ms: 5 }
    }

    #[test]
    fn written_and_read_back() {
        assert_eq!(table().to_string(), "0 2048 delay 7:0 0 10 7:0 0 20 7:0 0 5");
        assert_eq!(DelayTable::parse(2048, &table().parameters()), Some(table()));
        assert_eq!(table().without_delay().parameters(), "7:0 0 0 7:0 0 0 7:0 0 0");
        assert_eq!(table().longest_ms(), 20);
    }

    #[test]
    fn a_shorter_table_says_the_same_of_the_rest() {
        let times = |text| DelayTable::parse(1, text).map(|it| (it.read_ms, it.write_ms, it.flush_ms));
        assert_eq!(times("7:0 0 10"), Some((10, 10, 10)));
        assert_eq!(times("7:0 0 10 7:0 0 20"), Some((10, 20, 20)));
    }

    #[test]
    fn what_is_not_a_whole_device_is_nothing() {
        for text in ["", "7:0 0", "7:0 0 x", "7:0 8 10", "7:0 0 10 7:1 0 10", "7:0 0 1 7:0 0 1 7:0 0 1 7:0 0 1"] {
            assert_eq!(DelayTable::parse(1, text), None, "{text}");
        }
    }
}
