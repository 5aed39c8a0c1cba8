// SPDX-License-Identifier: Apache-2.0
//! `preload-test-program WAY FOLDER`: one way of reading or writing `FOLDER/file`, which holds 64 blocks of 4 KiB, each filled with its
//! number. It fails when a call gives another result than without the library. `preload-test-program keep FD SOCKET` is the keeper.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // a program that does what any program does

use rustix::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ffi::{CString, c_int, c_void};
use std::fs::{File, OpenOptions};
use std::io::{Error, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let folder = PathBuf::from(arguments.get(2).unwrap());
    match arguments[1].as_str() {
        "keep" => keep(&arguments[2], &arguments[3]),
        "pread" => read_at(&file(&folder), &[0, 63]),
        "pread-evicted" => read_at(&evicted(&folder), &[0, 40]),
        "read" => read(&folder),
        "readv" => readv(&folder),
        "direct" => direct(&folder),
        "write" => write(&folder),
        "append" => append(&folder),
        "sync" => sync(&folder),
        "errors" => errors(&folder),
        "descriptors" => descriptors(&folder),
        "fork" => fork(&folder),
        "threads" => threads(&folder),
        "exec" => exec(&folder),
        "signal" => signal(&folder),
        "elsewhere" => elsewhere(&folder),
        "cost" => cost(&folder),
        other => panic!("no such way: {other}"),
    }
}

fn keep(map: &str, socket: &str) {
    // SAFETY: inherited for this.
    let map = preload::Map::of(unsafe { OwnedFd::from_raw_fd(map.parse().unwrap()) }).unwrap();
    preload::keeper::run(map, Path::new(socket)).unwrap();
}

fn file(folder: &Path) -> File {
    File::open(folder.join("file")).unwrap()
}

/// Without a page of it in the cache, and nothing read ahead.
fn evicted(folder: &Path) -> File {
    let file = file(folder);
    evict(&file);
    file
}

/// The kernel takes it as advice: a page that somebody holds for a moment (a kernel thread that looks for cold memory, too) stays. It is given
/// again until no page is left.
fn evict(file: &File) {
    use rustix::fs::{Advice, fadvise};
    fadvise(file, 0, None, Advice::Random).unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        fadvise(file, 0, None, Advice::DontNeed).unwrap();
        let left = cached_pages(file);
        if left == 0 {
            return;
        }
        assert!(Instant::now() < end, "{left} pages stay in the page cache");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// By mincore(2): it reads nothing of the file.
fn cached_pages(file: &File) -> usize {
    let length = usize::try_from(file.metadata().unwrap().len()).unwrap();
    let mut pages = vec![0u8; length.div_ceil(BLOCK)];
    // SAFETY: a mapping of its own, which nobody touches; mincore writes a byte for each of its pages.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0);
        assert_ne!(at, libc::MAP_FAILED);
        assert_eq!(libc::mincore(at, length, pages.as_mut_ptr()), 0);
        libc::munmap(at, length);
    }
    pages.iter().filter(|page| **page & 1 == 1).count()
}

fn block(number: usize) -> Vec<u8> {
    vec![u8::try_from(number).unwrap(); BLOCK]
}

fn read_at(file: &File, blocks: &[usize]) {
    for number in blocks {
        let mut buffer = vec![0xff; BLOCK];
        assert_eq!(file.read_at(&mut buffer, (number * BLOCK) as u64).unwrap(), BLOCK);
        assert_eq!(buffer, block(*number));
    }
}

/// By the position: it moves as it should, also over the end.
fn read(folder: &Path) {
    let mut file = evicted(folder);
    let mut buffer = vec![0; BLOCK];
    for number in 0..2 {
        file.read_exact(&mut buffer).unwrap();
        assert_eq!(buffer, block(number));
    }
    assert_eq!(file.stream_position().unwrap(), 2 * BLOCK as u64);
    file.seek(SeekFrom::Start(63 * BLOCK as u64 + 96)).unwrap();
    let mut rest = vec![0; 3 * BLOCK];
    assert_eq!(file.read(&mut rest).unwrap(), 4000, "short, at the end");
    assert_eq!(file.read(&mut rest).unwrap(), 0);
    // in the cache now
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_exact(&mut buffer).unwrap();
    assert_eq!(buffer, block(0));
}

fn readv(folder: &Path) {
    let file = evicted(folder);
    let (mut one, mut two) = (vec![0u8; 100], vec![0u8; BLOCK]);
    let parts = [&mut one[..], &mut two[..]]
        .map(|part| libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() });
    // SAFETY: buffers of these lengths.
    assert_eq!(unsafe { libc::preadv(file.as_raw_fd(), parts.as_ptr(), 2, 4000) }, 4196);
    assert!(one[..96].iter().all(|byte| *byte == 0) && one[96..].iter().all(|byte| *byte == 1));
}

fn aligned() -> (Vec<u8>, usize) {
    let memory = vec![0; 2 * BLOCK];
    let start = memory.as_ptr().align_offset(BLOCK);
    (memory, start)
}

/// One read, one write.
fn direct(folder: &Path) {
    let open = |name: &str, write: bool| {
        let mut options = OpenOptions::new();
        options.read(!write).write(write).create(write).custom_flags(libc::O_DIRECT).open(folder.join(name)).unwrap()
    };
    let (mut memory, start) = aligned();
    assert_eq!(open("file", false).read_at(&mut memory[start..start + BLOCK], 7 * BLOCK as u64).unwrap(), BLOCK);
    assert_eq!(memory[start..start + BLOCK], block(7));
    open("direct", true).write_all_at(&memory[start..start + BLOCK], 0).unwrap();
    assert_eq!(std::fs::read(folder.join("direct")).unwrap(), block(7));
}

/// Buffered, and then made durable.
fn write(folder: &Path) {
    let mut file = File::create(folder.join("new")).unwrap();
    file.write_all(&block(1)).unwrap();
    file.write_all_at(&block(2), BLOCK as u64).unwrap();
    file.sync_data().unwrap();
    assert_eq!(std::fs::read(folder.join("new")).unwrap(), [block(1), block(2)].concat());
}

/// Each synchronous write goes to the end.
fn append(folder: &Path) {
    let open = || {
        let mut options = OpenOptions::new();
        options.append(true).create(true).custom_flags(libc::O_DSYNC).open(folder.join("log")).unwrap()
    };
    let (mut one, mut two) = (open(), open());
    one.write_all(b"one ").unwrap();
    two.write_all(b"two ").unwrap();
    one.write_all(b"three").unwrap();
    assert_eq!(std::fs::read(folder.join("log")).unwrap(), b"one two three");
}

/// Of a file, its data, its folder.
fn sync(folder: &Path) {
    let file = OpenOptions::new().write(true).open(folder.join("file")).unwrap();
    file.sync_all().unwrap();
    file.sync_data().unwrap();
    File::open(folder).unwrap().sync_all().unwrap();
}

/// They are what they are without the library, and nothing waits for them.
fn errors(folder: &Path) {
    let mut buffer = [0; 16];
    let writer = OpenOptions::new().write(true).open(folder.join("file")).unwrap();
    assert_eq!(errno(|| pread(writer.as_raw_fd(), &mut buffer, 0)), libc::EBADF, "not open to read");
    assert_eq!(errno(|| pread(File::open(folder).unwrap().as_raw_fd(), &mut buffer, 0)), libc::EISDIR);
    assert_eq!(errno(|| pread(-1, &mut buffer, 0)), libc::EBADF);
    assert_eq!(errno(|| pread(9999, &mut buffer, 0)), libc::EBADF);
    let reader = file(folder);
    let address = std::ptr::dangling_mut::<c_void>();
    // SAFETY: an address that nobody can write to: the kernel says so.
    let unwritable = || unsafe { libc::pread(reader.as_raw_fd(), address, 16, 0) };
    assert_eq!(errno(unwritable), libc::EFAULT);
    // SAFETY: as documented.
    assert_eq!(errno(|| unsafe { libc::write(reader.as_raw_fd(), buffer.as_ptr().cast(), 16) }), libc::EBADF);
    // what worked leaves it alone
    evict(&reader);
    // SAFETY: of this thread.
    unsafe { *libc::__errno_location() = 77 };
    assert_eq!(pread(reader.as_raw_fd(), &mut buffer, 0), 16);
    assert_eq!(Error::last_os_error().raw_os_error(), Some(77));
}

fn pread(descriptor: c_int, buffer: &mut [u8], offset: i64) -> isize {
    // SAFETY: a buffer of this length.
    unsafe { libc::pread(descriptor, buffer.as_mut_ptr().cast(), buffer.len(), offset) }
}

fn errno(call: impl FnOnce() -> isize) -> c_int {
    assert_eq!(call(), -1);
    Error::last_os_error().raw_os_error().unwrap()
}

/// Numbers that come to mean other files, in ways that the library sees and in ways that it does not.
fn descriptors(folder: &Path) {
    let path = CString::new(folder.join("file").to_str().unwrap()).unwrap();
    let slow = |descriptor: c_int| {
        // SAFETY: borrowed for this call.
        let file = std::mem::ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) });
        evict(&file);
        read_at(&file, &[9]);
    };
    // SAFETY: system calls on descriptors of our own.
    unsafe {
        let first = libc::open(path.as_ptr(), libc::O_RDONLY);
        slow(first);
        // closed behind the library's back, and a pipe in its place
        assert_eq!(libc::syscall(libc::SYS_close, first), 0);
        let mut pipe = [0; 2];
        assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
        assert_eq!(pipe[0], first);
        assert_eq!(libc::write(pipe[1], c"hello".as_ptr().cast(), 5), 5);
        let mut buffer = [0u8; 8];
        assert_eq!(libc::read(pipe[0], buffer.as_mut_ptr().cast(), 8), 5);
        assert_eq!(&buffer[..5], b"hello");
        // the file in the place of an end of the pipe, by every kind of dup
        let again = libc::open(path.as_ptr(), libc::O_RDONLY);
        assert_eq!(libc::dup2(again, pipe[0]), pipe[0]);
        slow(pipe[0]);
        assert_eq!(libc::dup3(again, pipe[1], libc::O_CLOEXEC), pipe[1]);
        slow(pipe[1]);
        slow(libc::dup(again));
        slow(libc::fcntl(again, libc::F_DUPFD_CLOEXEC, 100));
        // a stream of the C library, whose number is used again
        let stream = libc::fopen(c"/dev/null".as_ptr(), c"r".as_ptr());
        let number = libc::fileno(stream);
        assert_eq!(libc::read(number, buffer.as_mut_ptr().cast(), 8), 0);
        assert_eq!(libc::fclose(stream), 0);
        assert_eq!(
            libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY),
            libc::c_long::from(number)
        );
        slow(number);
    }
}

/// Parent and child read once each.
fn fork(folder: &Path) {
    let file = evicted(folder);
    // SAFETY: the child makes system calls, and ends.
    unsafe {
        match libc::fork() {
            0 => {
                let mut buffer = [0; 16];
                let right = pread(file.as_raw_fd(), &mut buffer, 3 * 4096) == 16 && buffer == [3; 16];
                libc::_exit(if right { 0 } else { 1 });
            }
            child => {
                read_at(&file, &[20]);
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &mut status, 0), child);
                assert_eq!(status, 0);
            }
        }
    }
}

/// Eight at once, eight reads each.
fn threads(folder: &Path) {
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let file = file(folder);
            if thread == 0 {
                evict(&file);
            }
            scope.spawn(move || {
                let (mut memory, start) = aligned();
                let path = format!("/proc/self/fd/{}", file.as_raw_fd());
                let direct = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path).unwrap();
                for turn in 0..8 {
                    let number = thread * 8 + turn;
                    direct.read_exact_at(&mut memory[start..start + BLOCK], (number * BLOCK) as u64).unwrap();
                    assert_eq!(memory[start..start + BLOCK], block(number));
                }
            });
        }
    });
}

/// Another program, from which everything that was open is taken away first.
fn exec(folder: &Path) {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["pread-evicted".as_ref(), folder.as_os_str()]);
    // SAFETY: a system call; what std itself needs is closed on exec anyway.
    unsafe {
        command.pre_exec(|| {
            libc::close_range(3, 1023, libc::CLOSE_RANGE_CLOEXEC.cast_signed());
            Ok(())
        });
    }
    assert!(command.status().unwrap().success());
}

static SIGNALS: AtomicU64 = AtomicU64::new(0);
static SIGNALLED: AtomicU64 = AtomicU64::new(0);

/// A handler that reads, while the program reads and waits.
fn signal(folder: &Path) {
    extern "C" fn handler(_: c_int) {
        let mut buffer = [0; 16];
        let descriptor = c_int::try_from(SIGNALLED.load(Ordering::SeqCst)).unwrap_or(-1);
        if pread(descriptor, &mut buffer, 5 * 4096) == 16 && buffer == [5; 16] {
            SIGNALS.fetch_add(1, Ordering::SeqCst);
        }
    }
    let file = evicted(folder);
    SIGNALLED.store(u64::try_from(file.as_raw_fd()).unwrap(), Ordering::SeqCst);
    // SAFETY: a handler that makes system calls, and a timer of this process.
    unsafe {
        let handler: extern "C" fn(c_int) = handler;
        libc::signal(libc::SIGALRM, handler as libc::sighandler_t);
        let each = libc::timeval { tv_sec: 0, tv_usec: 2_000 };
        let timer = libc::itimerval { it_interval: each, it_value: each };
        assert_eq!(libc::syscall(libc::SYS_setitimer, libc::ITIMER_REAL, &timer, 0), 0);
    }
    while SIGNALS.load(Ordering::SeqCst) < 10 {
        evict(&file);
        read_at(&file, &[1, 2, 30]);
    }
}

/// A file beside the folder, whose name begins as the folder's.
fn elsewhere(folder: &Path) {
    let path = folder.with_file_name("data-of-others");
    std::fs::write(&path, block(1)).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    evict(&file);
    read_at(&file, &[]);
    file.sync_all().unwrap();
}

/// Nanoseconds a call, for calls that are none of the library's business: for `benches/squeeze`.
fn cost(folder: &Path) {
    const CALLS: u32 = 1_000_000;
    let mut pipe = [0; 2];
    // SAFETY: an array of two.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    let null = OpenOptions::new().write(true).open("/dev/null").unwrap();
    let zero = File::open("/dev/zero").unwrap();
    let cached = file(folder);
    let mut buffer = [0u8; 64];
    let mut time = |name: &str, call: &mut dyn FnMut(&mut [u8])| {
        let start = Instant::now();
        (0..CALLS).for_each(|_| call(&mut buffer));
        let ns = start.elapsed().as_nanos() as f64 / f64::from(CALLS);
        std::io::stdout().write_all(format!("{name:<24}{ns:8.1} ns\n").as_bytes()).unwrap();
    };
    time("write 64 B, /dev/null", &mut |buffer| drop((&null).write(buffer)));
    time("read 64 B, /dev/zero", &mut |buffer| drop((&zero).read(buffer)));
    // SAFETY: buffers of this length.
    time("pipe, write and read", &mut |buffer| unsafe {
        libc::write(pipe[1], buffer.as_ptr().cast(), 64);
        libc::read(pipe[0], buffer.as_mut_ptr().cast(), 64);
    });
    time("pread 64 B, cached file", &mut |buffer| drop(cached.read_at(buffer, 0)));
}
