// SPDX-License-Identifier: Apache-2.0
//! Lines of `/proc/meminfo` (proc_meminfo(5)): `MemAvailable:   123 kB`, or a bare count of huge pages.

/// The number in the line of this name, in the line's own unit.
pub fn number(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}

/// As [`number`], for a line in kB.
pub fn bytes(text: &str, name: &str) -> Option<u64> {
    number(text, name)?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_whole_name() {
        let text = "MemTotal:       16384 kB\nHugePages_Total:      12\nHugetlb:  odd\n";
        assert_eq!((bytes(text, "MemTotal"), number(text, "HugePages_Total")), (Some(16 << 20), Some(12)));
        assert_eq!((number(text, "Mem"), number(text, "Hugetlb"), number(text, "SwapTotal")), (None, None, None));
    }
}
