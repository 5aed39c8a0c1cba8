// SPDX-License-Identifier: Apache-2.0

/// A line of `/proc/PID/maps`, which is also the first line of each mapping in `smaps`, and which heap profiles end with:
/// `55d0-55e0 r-xp 00001000 fe:00 4711   /usr/sbin/mariadbd`. See proc_pid_maps(5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapsLine<'a> {
    /// Addresses of the process; `start` is below `end`.
    pub start: u64,
    pub end: u64,
    /// `r-xp`, `rw-s`.
    pub permissions: &'a str,
    /// The place in the file at which the mapped part begins.
    pub offset: u64,
    /// The numbers of the device, in hexadecimal: `fe:00`.
    pub device: &'a str,
    pub inode: u64,
    /// A file's path, with ` (deleted)` behind it if the file is gone; the kernel's own name, such as `[heap]`; or nothing.
    pub name: &'a str,
}

impl<'a> MapsLine<'a> {
    /// `None`: the line is not one of `maps`.
    pub fn parse(line: &'a str) -> Option<Self> {
        let (range, rest) = word(line)?;
        let (start, end) = range.split_once('-')?;
        let (start, end) = (hexadecimal(start)?, hexadecimal(end)?);
        let (permissions, rest) = word(rest)?;
        let (offset, rest) = word(rest)?;
        let (device, rest) = word(rest)?;
        let (inode, rest) = word(rest)?;
        let (offset, inode) = (hexadecimal(offset)?, inode.trim_end().parse().ok()?);
        let name = rest.trim_start().trim_end_matches(['\r', '\n']);
        (start < end && permissions.len() == 4).then_some(Self { start, end, permissions, offset, device, inode, name })
    }

    /// The path of the mapped file. `None`: no file is mapped.
    pub fn path(&self) -> Option<&'a str> {
        self.name.starts_with('/').then_some(self.name)
    }

    /// Major and minor number of the device.
    pub fn device_numbers(&self) -> Option<(u32, u32)> {
        let (major, minor) = self.device.split_once(':')?;
        Some((u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?))
    }

    pub fn bytes(&self) -> u64 {
        self.end - self.start
    }
}

fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start_matches(' ');
    let end = text.find(' ').unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

fn hexadecimal(text: &str) -> Option<u64> {
    // `from_str_radix` takes a sign, the kernel writes none
    text.chars().all(|c| c.is_ascii_hexdigit()).then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps() {
        let line = "7f7d712bb000-7f7d712e1000 r-xp 00001000 fe:00 325835                     /usr/lib/ld linux.so.2\n";
        let found = MapsLine::parse(line).expect("a line of maps");
        assert_eq!((found.start, found.end, found.offset), (0x7f7d_712b_b000, 0x7f7d_712e_1000, 0x1000));
        assert_eq!((found.permissions, found.device, found.inode), ("r-xp", "fe:00", 325_835));
        assert_eq!(found.device_numbers(), Some((254, 0)));
        assert_eq!((found.path(), found.bytes()), (Some("/usr/lib/ld linux.so.2"), 0x26000));
        let name = |line| MapsLine::parse(line).map(|it| (it.name, it.path()));
        assert_eq!(name("7f-80 rw-p 00000000 00:00 0                          [stack]"), Some(("[stack]", None)));
        assert_eq!(name("7f-80 rw-p 00000000 00:00 0 \n"), Some(("", None)));
        assert_eq!(name("7f-80 rw-p 00000000 00:00 0\n"), Some(("", None)));
        let gone = "/dev/zero (deleted)";
        assert_eq!(
            name("7f-80 rw-s 00000000 00:01 7                          /dev/zero (deleted)"),
            Some((gone, Some(gone)))
        );
    }

    #[test]
    fn other_lines_are_none_of_maps() {
        for other in [
            "",
            "build=/a",
            "Pss_Anon:  43566 kB",
            "2-1 r-xp 0 00:00 0 /a",
            "1-1 r-xp 0 00:00 0 /a",
            "x-y r-xp 0 00:00 0 /a",
            "+1-2 r-xp 0 00:00 0 /a",
            "1-2 rwx 0 00:00 0 /a",
            "1-2 r-xp 0 00:00 x /a",
            "1-2 r-xp 0",
        ] {
            assert_eq!(MapsLine::parse(other), None, "{other}");
        }
    }
}
