// SPDX-License-Identifier: Apache-2.0
//! What a time in whole seconds means in a slow log: the begin of the statement, or its end. The server's version, in the head of its log, decides.

/// The first release of each series of MariaDB whose times are the begin. Measured with `SELECT SLEEP(3)`: 10.1.23, 10.2.11 and 10.11.5 tell the end; 10.11.19
/// and 11.4.5 tell the begin. Releases from 10.11.6 to 10.11.10, and those of other series in the same months, were not had.
const BEGIN_SINCE: [[u32; 3]; 4] = [[10, 5, 28], [10, 6, 21], [10, 11, 11], [11, 4, 5]];

/// What `# Time` and `SET timestamp` tell of an entry of this log, when they have whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Tells {
    /// MariaDB of today; also without a head.
    #[default]
    Begin,
    /// MariaDB before [`BEGIN_SINCE`].
    End,
}

impl Tells {
    /// By the head of the log: `/usr/sbin/mariadbd, Version: 10.11.19-MariaDB-log (Debian 12). started with:`. `None`: the line tells no version.
    pub(crate) fn of_head(line: &str) -> Option<Self> {
        let (_, version) = line.split_once(", Version: ")?;
        let number = version.split(|it: char| !it.is_ascii_digit() && it != '.').next().unwrap_or_default();
        let mut parts = number.split('.').map(|part| part.parse().unwrap_or(0));
        let [major, minor, patch] = std::array::from_fn(|_| parts.next().unwrap_or(0));
        let of_series = BEGIN_SINCE.iter().find(|it| it[..2] == [major, minor]);
        let is_begin = match of_series {
            Some(first) => patch >= first[2],
            // series that had ended before: 10.7 to 10.10 and 11.0 to 11.3
            None => [major, minor] > [11, 4],
        };
        (major > 0).then_some(if is_begin { Self::Begin } else { Self::End })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_decides() {
        let of = |version: &str| Tells::of_head(&format!("/usr/sbin/mariadbd, Version: {version} (x). started with:"));
        for end in ["10.1.23-MariaDB", "10.2.11-MariaDB", "10.11.5-MariaDB-log", "10.4.34-MariaDB", "11.2.6-MariaDB"] {
            assert_eq!(of(end), Some(Tells::End), "{end}");
        }
        for begin in
            ["10.11.19-MariaDB-0+deb12u1", "11.4.5-MariaDB", "10.6.21-MariaDB", "11.8.3-MariaDB", "12.0.2-MariaDB"]
        {
            assert_eq!(of(begin), Some(Tells::Begin), "{begin}");
        }
        assert_eq!((of("unreadable"), Tells::of_head("Tcp port: 3306  Unix socket: s.sock")), (None, None));
    }
}
