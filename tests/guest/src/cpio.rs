// SPDX-License-Identifier: Apache-2.0
//! The archive that the kernel unpacks as its first root: cpio, format "newc" (kernel, driver-api/early-userspace/buffer-format.rst).

use std::io::Write as _;

#[derive(Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    entries: usize,
}

const FOLDER: u32 = 0o040_755;
const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_777;

impl Archive {
    pub(crate) fn folder(&mut self, name: &str) -> &mut Self {
        self.entry(name, FOLDER, &[])
    }

    pub(crate) fn file(&mut self, name: &str, permissions: u32, content: &[u8]) -> &mut Self {
        self.entry(name, REGULAR | permissions, content)
    }

    pub(crate) fn link(&mut self, name: &str, target: &str) -> &mut Self {
        self.entry(name, LINK, target.as_bytes())
    }

    pub(crate) fn finish(&mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        std::mem::take(&mut self.bytes)
    }

    /// Magic, 13 numbers of 8 hexadecimal digits, the name with its zero, the content; name and content padded to 4 bytes.
    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) -> &mut Self {
        self.entries += 1;
        let size = u32::try_from(content.len()).expect("a file below 4 GiB");
        let name_size = u32::try_from(name.len() + 1).expect("a short name");
        let inode = u32::try_from(self.entries).expect("few entries");
        let links = if mode == FOLDER { 2 } else { 1 };
        // inode, mode, uid, gid, links, mtime, size, device (2), special device (2), size of the name, checksum
        let numbers = [inode, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name_size, 0];
        self.bytes.extend_from_slice(b"070701");
        numbers.iter().for_each(|number| write!(self.bytes, "{number:08x}").expect("writes to memory"));
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
        self
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_as_the_kernel_reads_it() {
        let bytes = Archive::default().file("init", 0o755, b"hello").finish();
        let text = String::from_utf8(bytes).unwrap();
        let expected = "070701\
            00000001000081ed000000000000000000000001000000000000000500000000000000000000000000000000\
            0000000500000000init\0\0hello\0\0\0";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("TRAILER!!!\0"));
        assert_eq!(text.len() % 4, 0);
    }
}
