// SPDX-License-Identifier: Apache-2.0
//! A FUSE file system that shakes hands with the kernel, takes every request, and answers none: what a dead network disk is like.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

pub(crate) struct Silent {
    target: PathBuf,
    asked: Arc<AtomicU32>,
    /// Dropped first: the thread ends by that.
    end: Option<Sender<()>>,
    taking: Option<JoinHandle<()>>,
}

/// linux/fuse.h
const FUSE_INIT: u32 = 26;
const HEADER_BYTES: usize = 40;
const VERSION: [u32; 2] = [7, 31];

impl Silent {
    pub(crate) fn mount(target: &Path) -> Self {
        std::fs::create_dir_all(target).unwrap();
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse").unwrap();
        let text = |text: &[u8]| CString::new(text).unwrap();
        let options = text(format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd()).as_bytes());
        let (source, path) = (text(b"silent"), text(target.as_os_str().as_bytes()));
        // SAFETY: zero-terminated strings that live until the call returns.
        let result =
            unsafe { libc::mount(source.as_ptr(), path.as_ptr(), c"fuse.silent".as_ptr(), 0, options.as_ptr().cast()) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        let asked = Arc::new(AtomicU32::new(0));
        let count = asked.clone();
        let (end, ended) = channel();
        let taking = Some(std::thread::spawn(move || take_requests(device, &count, &ended)));
        Self { target: target.to_owned(), asked, end: Some(end), taking }
    }

    /// How often it was asked for something.
    pub(crate) fn asked(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Drop for Silent {
    /// The connection ends with its descriptor: whoever waits gets an error.
    fn drop(&mut self) {
        self.end.take();
        let _ = self.taking.take().map(JoinHandle::join);
        rustix::mount::unmount(&self.target, rustix::mount::UnmountFlags::DETACH).unwrap();
    }
}

fn take_requests(mut device: File, asked: &AtomicU32, ended: &Receiver<()>) {
    let mut request = vec![0; 1 << 17];
    let pause = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    while ended.try_recv() != Err(TryRecvError::Disconnected) {
        if poll(&mut [PollFd::new(&device, PollFlags::IN)], Some(&pause)) == Ok(0) {
            continue;
        }
        let Ok(length) = device.read(&mut request) else { continue };
        assert!(length >= HEADER_BYTES);
        let word = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().unwrap());
        if word(4) != FUSE_INIT {
            asked.fetch_add(1, Ordering::SeqCst);
            continue;
        }
        // struct fuse_out_header, struct fuse_init_out
        let mut answer = vec![0_u8; 16 + 64];
        answer[..4].copy_from_slice(&80_u32.to_ne_bytes());
        answer[8..16].copy_from_slice(&request[8..16]);
        answer[16..20].copy_from_slice(&VERSION[0].to_ne_bytes());
        answer[20..24].copy_from_slice(&VERSION[1].to_ne_bytes());
        answer[36..40].copy_from_slice(&4096_u32.to_ne_bytes());
        device.write_all(&answer).unwrap();
    }
}
