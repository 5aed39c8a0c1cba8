// SPDX-License-Identifier: Apache-2.0
//! Parses `/proc/<thread>/syscall`: the system call in which a thread sleeps.

use libc::c_long;

/// Number and arguments. The number is -1 when a thread sleeps outside of a system call: in a page fault, or as a kernel thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Running,
    Asleep { number: c_long, arguments: [u64; 6] },
}

/// The data that a thread waits for, as far as its system call shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waits {
    /// The thread waits for no read.
    No,
    /// The thread may wait for a read, but which one is unknown.
    Somehow,
    /// The thread waits for this range of this descriptor.
    In(u64, Range),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    /// `None`: at the descriptor's position.
    pub(super) offset: Option<u64>,
    extent: Extent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    Bytes(u64),
    /// The range is as long as this many buffers; the vector is at `at` in the thread's memory.
    Vector {
        at: u64,
        count: u64,
    },
}

impl Call {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text == "running" {
            return Some(Self::Running);
        }
        let mut words = text.split_ascii_whitespace();
        let number = words.next()?.parse().ok()?;
        let mut arguments = [0; 6];
        for (argument, word) in arguments.iter_mut().zip(words) {
            *argument = u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()?;
        }
        Some(Self::Asleep { number, arguments })
    }

    pub(super) fn waits(self) -> Waits {
        let Self::Asleep { number, arguments: [fd, memory, count, offset, ..] } = self else { return Waits::No };
        let plain = Extent::Bytes(count);
        let vector = Extent::Vector { at: memory, count };
        match number {
            libc::SYS_pread64 | libc::SYS_pwrite64 => Waits::In(fd, Range { offset: Some(offset), extent: plain }),
            libc::SYS_read => Waits::In(fd, Range { offset: None, extent: plain }),
            libc::SYS_preadv => Waits::In(fd, Range { offset: Some(offset), extent: vector }),
            // -1: at the descriptor's position
            libc::SYS_preadv2 => {
                Waits::In(fd, Range { offset: (offset != u64::MAX).then_some(offset), extent: vector })
            }
            libc::SYS_readv => Waits::In(fd, Range { offset: None, extent: vector }),
            -1
            | libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_pwritev
            | libc::SYS_pwritev2
            | libc::SYS_io_submit
            | libc::SYS_io_uring_enter
            | libc::SYS_sendfile
            | libc::SYS_splice
            | libc::SYS_copy_file_range
            | libc::SYS_madvise
            | libc::SYS_mlock
            | libc::SYS_mlockall
            | libc::SYS_execve
            | libc::SYS_execveat => Waits::Somehow,
            _ => Waits::No,
        }
    }
}

impl Range {
    /// The length in bytes. When the thread's memory cannot be read, it is taken as one byte: then only the start of the range is known.
    pub(super) fn length(&self, thread: u32) -> u64 {
        match self.extent {
            Extent::Bytes(bytes) => bytes,
            Extent::Vector { at, count } => vector_length(thread, at, count).unwrap_or(1),
        }
    }
}

/// The longest vector that the kernel takes.
const LONGEST: usize = 1024;

fn vector_length(thread: u32, at: u64, count: u64) -> Option<u64> {
    const EMPTY: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let count = usize::try_from(count).ok()?.min(LONGEST);
    let mut buffers = vec![EMPTY; count];
    let size = size_of_val(buffers.as_slice());
    let here = libc::iovec { iov_base: buffers.as_mut_ptr().cast(), iov_len: size };
    let there = libc::iovec { iov_base: usize::try_from(at).ok()? as *mut _, iov_len: size };
    // SAFETY: `here` is our memory of that size, and any bytes make an iovec. `there` belongs to another process, and the kernel checks it.
    let read = unsafe { libc::process_vm_readv(thread.cast_signed(), &raw const here, 1, &raw const there, 1, 0) };
    (usize::try_from(read).ok()? == size).then(|| buffers.iter().map(|buffer| buffer.iov_len as u64).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(text: &str) -> Waits {
        Call::parse(text).unwrap().waits()
    }

    #[test]
    fn tells_reads_of_a_range_from_other_waits() {
        let tail = "0xa000011 0x0 0x7ffc26f5b8b8 0x7f568b3163d3";
        let read = waits(&format!("{} 0x28 0x7f5687d5d600 0x2000 0x14c8000 {tail}", libc::SYS_pread64));
        assert_eq!(read, Waits::In(0x28, Range { offset: Some(0x14c_8000), extent: Extent::Bytes(8192) }));
        let read = waits(&format!("{} 0x5 0x5634f46d4e30 0x1000 0x1f {tail}", libc::SYS_read));
        assert_eq!(read, Waits::In(5, Range { offset: None, extent: Extent::Bytes(4096) }));
        assert_eq!(waits(&format!("{} 0xc 0x7ffc 0x1 0xffffffff {tail}", libc::SYS_epoll_pwait)), Waits::No);
        assert_eq!(waits("running\n"), Waits::No);
        assert_eq!(waits("-1 0x7ffc26f5b8b8 0x7f568b3163d3"), Waits::Somehow);
        assert_eq!(Call::parse("17 nonsense"), None);
        assert_eq!(Call::parse(""), None);
    }

    #[test]
    fn a_vector_is_as_long_as_its_buffers() {
        let buffers = [3, 4096, 0].map(|iov_len| libc::iovec { iov_base: std::ptr::null_mut(), iov_len });
        let at = buffers.as_ptr().addr() as u64;
        assert_eq!(vector_length(std::process::id(), at, 3), Some(4099));
        assert_eq!(vector_length(std::process::id(), 16, 3), None, "not mapped");
    }
}
