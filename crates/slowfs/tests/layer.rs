// SPDX-License-Identifier: Apache-2.0
//! The layer on a real mount: what it passes on, what it holds back, what survives it.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // tests make their own processes and files

mod common;

use common::delay;
use evidence::{Delay, DelayMode};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{pread, pwrite};
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

const PAGE: usize = 4096;

/// Memory that `O_DIRECT` takes.
#[repr(align(4096))]
struct Page([u8; PAGE]);

fn direct(path: &Path) -> rustix::fd::OwnedFd {
    open(path, OFlags::RDWR | OFlags::CREATE | OFlags::DIRECT, Mode::from_raw_mode(0o600)).unwrap()
}

fn read_direct(file: &rustix::fd::OwnedFd, page: u64) -> Duration {
    let mut buffer = Page([0; PAGE]);
    let start = Instant::now();
    assert_eq!(pread(file, &mut buffer.0, page * PAGE as u64).unwrap(), PAGE);
    start.elapsed()
}

#[test]
fn nobody_outside_the_namespace_sees_the_layer() {
    let mounted = mount_or_skip!();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(&*mounted.directory().to_string_lossy()));
    let inside = mounted.inside(|_| fs::read_to_string("/proc/thread-self/mounts").unwrap());
    let line = inside.lines().find(|line| line.contains(&*mounted.directory().to_string_lossy())).unwrap();
    assert!(line.starts_with("wringer-test ") && line.contains(" fuse.wringer "), "{line}");
}

#[test]
fn reads_are_counted_as_requests_and_cached_reads_are_not() {
    let mounted = mount_or_skip!();
    fs::write(mounted.directory().join("file"), vec![7; 64 * PAGE]).unwrap();
    let before = mounted.client().stats().unwrap();
    mounted.inside(|folder| {
        let file = direct(&folder.join("file"));
        for page in 0..10 {
            read_direct(&file, page);
        }
    });
    let mut direct = mounted.client().stats().unwrap();
    let answered = |stats: &slowfs::stats::Stats| stats.read_latency.got.count() - before.read_latency.got.count();
    // the layer counts how long a read took when its reply has left
    testkit::wait_until(Duration::from_secs(60), || {
        direct = mounted.client().stats().unwrap();
        answered(&direct) >= 10
    });
    assert_eq!(direct.reads - before.reads, 10);
    assert_eq!(direct.read_bytes - before.read_bytes, 10 * PAGE as u64);
    assert_eq!(answered(&direct), 10);
    let uncached = direct.reads;
    mounted.inside(|folder| {
        use rustix::mm::{MapFlags, ProtFlags, mlock, mmap, munmap};
        let path = folder.join("file");
        fs::read(&path).unwrap();
        assert!(mounted.client().stats().unwrap().reads > uncached);
        let file = File::open(&path).unwrap();
        // The kernel may drop cached pages at any moment, but none that is locked.
        // SAFETY: a fresh mapping through which nobody reads or writes, locked by its own length.
        let mapped = unsafe {
            let start = mmap(std::ptr::null_mut(), 64 * PAGE, ProtFlags::READ, MapFlags::SHARED, &file, 0).unwrap();
            mlock(start, 64 * PAGE).unwrap();
            start
        };
        let cold = mounted.client().stats().unwrap();
        assert_eq!(fs::read(&path).unwrap(), vec![7; 64 * PAGE]);
        assert_eq!(mounted.client().stats().unwrap().reads, cold.reads, "the second time from the page cache");
        // SAFETY: the mapping from above, unmapped once.
        unsafe { munmap(mapped, 64 * PAGE) }.unwrap();
    });
}

/// Who waits is counted, and a wait is held to its least alone, which a busy machine cannot reach. How exact a delay is, `benches/squeeze/run.sh`
/// measures.
#[test]
fn each_class_is_held_by_its_own_delay() {
    let mounted = mount_or_skip!();
    fs::write(mounted.directory().join("file"), vec![7; 64 * PAGE]).unwrap();
    let mut client = mounted.client();
    let held = |stats: &slowfs::stats::Stats| [stats.delayed_reads, stats.delayed_writes, stats.delayed_syncs];
    // how many of 31 reads, 31 writes and a sync waited, and the shortest of each
    let mut measure = |delay: Delay| {
        client.set(delay).unwrap();
        let before = held(&client.stats().unwrap());
        let least = mounted.inside(|folder| {
            let file = direct(&folder.join("file"));
            let timed = |work: &dyn Fn()| {
                let start = Instant::now();
                work();
                start.elapsed()
            };
            let write = |page: u64| assert_eq!(pwrite(&file, &Page([1; PAGE]).0, page * PAGE as u64).unwrap(), PAGE);
            let reads = (0..31).map(|page| read_direct(&file, page)).min().unwrap();
            let writes = (0..31).map(|page| timed(&|| write(page))).min().unwrap();
            [reads, writes, timed(&|| rustix::fs::fdatasync(&file).unwrap())]
        });
        let after = client.stats().unwrap();
        let waited: Vec<u64> = held(&after).into_iter().zip(before).map(|(after, before)| after - before).collect();
        (waited, least, after)
    };
    let at_least = |got: Duration, asked_ms: u64| {
        assert!(got >= Duration::from_millis(asked_ms).mul_f64(0.98), "asked {asked_ms} ms, got {got:?}");
    };
    let (waited, least, _) = measure(delay(12_000, 0, 0));
    assert_eq!(waited, [31, 0, 0]);
    at_least(least[0], 12);
    let (waited, least, _) = measure(delay(0, 12_000, 40_000));
    assert!(waited[0] == 0 && waited[1] >= 31 && waited[2] >= 1, "{waited:?}");
    at_least(least[1], 12);
    at_least(least[2], 40);
    let (waited, least, stats) = measure(Delay { mode: DelayMode::Total, ..delay(12_000, 12_000, 0) });
    // one that took longer by itself need not wait
    assert!((1..=31).contains(&waited[0]) && waited[1] >= 1 && waited[2] == 0, "{waited:?}");
    at_least(least[0].min(least[1]), 12);
    let (asked, got) = (stats.write_latency.asked.percentile_ns(75.0), stats.write_latency.got.percentile_ns(75.0));
    assert!(asked >= 12_000_000 && got >= asked - asked / 50, "asked {asked}, got {got}");
}

/// Held against a read alone at the same moment. So far below 64 reads one after the other that a pause of two seconds does not matter.
#[test]
fn many_requests_wait_side_by_side() {
    let mounted = mount_or_skip!(|options| options.delay = delay(120_000, 0, 0));
    fs::write(mounted.directory().join("file"), vec![7; 128 * PAGE]).unwrap();
    let (one, many) = mounted.inside(|folder| {
        let file = direct(&folder.join("file"));
        let one = read_direct(&file, 64);
        let start = Instant::now();
        std::thread::scope(|scope| {
            (0..64).for_each(|page| {
                drop(scope.spawn({
                    let file = &file;
                    move || read_direct(file, page)
                }))
            });
        });
        (one, start.elapsed())
    });
    assert!(many >= Duration::from_millis(119), "{many:?} for 64 at once");
    assert!(many < one * 32, "{many:?} for 64 at once, and {one:?} for one alone");
}

#[test]
fn a_change_reaches_open_files_and_requests_under_way() {
    let mounted = mount_or_skip!();
    fs::write(mounted.directory().join("file"), vec![7; 8 * PAGE]).unwrap();
    mounted.inside(|folder| {
        let file = direct(&folder.join("file"));
        let least = || (0..9).map(|_| read_direct(&file, 0)).min().unwrap();
        least();
        assert_eq!(mounted.client().stats().unwrap().delayed_reads, 0);
        mounted.client().set(delay(20_000, 0, 0)).unwrap();
        // up to 0.2 ms are taken off for the way, as it was at the mount
        assert!(least() >= Duration::from_micros(19_800));
        assert_eq!(mounted.client().stats().unwrap().delayed_reads, 9);
        mounted.client().set(delay(3_600_000_000, 0, 0)).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| read_direct(&file, 0));
            wait_for_reads_held(&mounted, 10);
            mounted.client().set(delay(0, 0, 0)).unwrap();
            waiting.join().unwrap();
        });
    });
}

fn wait_for_reads_held(mounted: &common::Mounted, count: u64) {
    let mut client = mounted.client();
    while client.stats().unwrap().delayed_reads < count {
        std::thread::yield_now();
    }
}

#[test]
fn sigusr1_and_the_end_of_the_lifeline_neutralise_and_the_layer_serves_on() {
    let neutralisers: [fn(&mut common::Mounted); 2] =
        [|mounted| mounted.signal(Signal::USR1), |mounted| drop(mounted.lifeline.take())];
    for neutralise in neutralisers {
        let mut mounted = mount_or_skip!(|options| options.delay = delay(3_600_000_000, 3_600_000_000, 3_600_000_000));
        fs::write(mounted.directory().join("file"), vec![7; PAGE]).unwrap();
        let (sent, received) = mpsc::channel();
        let namespace = &mounted;
        let file = namespace.inside(|folder| direct(&folder.join("file")));
        let waiting = std::thread::spawn(move || {
            read_direct(&file, 0);
            sent.send(()).unwrap();
        });
        wait_for_reads_held(&mounted, 1);
        assert!(received.try_recv().is_err());
        neutralise(&mut mounted);
        received.recv_timeout(Duration::from_secs(60)).expect("the reply that waited goes at once");
        waiting.join().unwrap();
        assert_eq!(mounted.client().get().unwrap(), delay(0, 0, 0));
        mounted.inside(|folder| fs::write(folder.join("after"), "still here").unwrap());
    }
}

#[test]
fn what_was_synced_survives_a_kill_of_the_layer() {
    for writeback_cache in [true, false] {
        let mut mounted =
            if writeback_cache { mount_or_skip!() } else { mount_or_skip!(|options| options.writeback_cache = false) };
        mounted.inside(|folder| {
            let mut log = File::options().create(true).append(true).open(folder.join("log")).unwrap();
            for line in 0..100 {
                writeln!(log, "{line}").unwrap();
                log.sync_data().unwrap();
            }
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::DSYNC;
            let durable = open(folder.join("dsync"), flags, Mode::from_raw_mode(0o600)).unwrap();
            pwrite(&durable, b"acknowledged", 0).unwrap();
            let file = direct(&folder.join("direct"));
            pwrite(&file, &Page([9; PAGE]).0, 0).unwrap();
            rustix::fs::fsync(&file).unwrap();
        });
        mounted.kill();
        let folder = mounted.directory();
        assert_eq!(fs::read_to_string(folder.join("log")).unwrap().lines().count(), 100);
        assert_eq!(fs::read(folder.join("dsync")).unwrap(), b"acknowledged");
        assert_eq!(fs::read(folder.join("direct")).unwrap(), vec![9; PAGE]);
    }
}

#[cfg(feature = "failpoints")]
#[test]
fn the_broken_layer_reads_back_what_it_was_given_and_loses_it_when_killed() {
    if let Some(why) = common::obstacle() {
        testkit::skip!("{why}");
    }
    let mut mounted = common::Mounted::lying(common::options());
    fs::write(mounted.directory().join("old"), vec![1; 3 * PAGE]).unwrap();
    mounted.inside(|folder| {
        let file = File::options().read(true).write(true).open(folder.join("old")).unwrap();
        file.write_all_at(b"new", 5000).unwrap();
        file.sync_all().unwrap();
        let log = folder.join("log");
        fs::write(&log, "committed").unwrap();
        File::open(&log).unwrap().sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let all = fs::read(folder.join("old")).unwrap();
        assert_eq!((all.len(), &all[4999..5004]), (3 * PAGE, &b"\x01new\x01"[..]));
        assert_eq!(fs::read_to_string(&log).unwrap(), "committed");
    });
    mounted.kill();
    assert_eq!(fs::read(mounted.directory().join("old")).unwrap(), vec![1; 3 * PAGE]);
    assert_ne!(fs::read_to_string(mounted.directory().join("log")).unwrap_or_default(), "committed");
}

#[test]
fn a_shared_mapping_reaches_the_file_below_with_msync() {
    let mounted = mount_or_skip!();
    fs::write(mounted.directory().join("mapped"), vec![0; 4 * PAGE]).unwrap();
    mounted.inside(|folder| {
        let file = File::options().read(true).write(true).open(folder.join("mapped")).unwrap();
        use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping of a file that nobody truncates, used within its length and unmapped once.
        unsafe {
            let start = mmap(std::ptr::null_mut(), 4 * PAGE, protection, MapFlags::SHARED, &file, 0).unwrap();
            start.cast::<u8>().add(PAGE + 17).write(42);
            msync(start, 4 * PAGE, MsyncFlags::SYNC).unwrap();
            munmap(start, 4 * PAGE).unwrap();
        }
    });
    assert_eq!(fs::read(mounted.directory().join("mapped")).unwrap()[PAGE + 17], 42);
}

#[test]
fn an_open_file_outlives_its_name() {
    let mounted = mount_or_skip!();
    mounted.inside(|folder| {
        let (old, new) = (folder.join("old"), folder.join("new"));
        fs::write(&old, "first").unwrap();
        fs::write(&new, "replaced").unwrap();
        let first = File::options().read(true).write(true).open(&old).unwrap();
        let replaced = File::options().read(true).write(true).open(&new).unwrap();
        fs::rename(&old, &new).unwrap();
        fs::write(&old, "another").unwrap();
        first.write_all_at(b"FIRST", 0).unwrap();
        replaced.write_all_at(b"REPLACED", 0).unwrap();
        replaced.sync_all().unwrap();
        assert_eq!(replaced.metadata().unwrap().nlink(), 0);
        replaced.set_len(3).unwrap();
        assert_eq!(replaced.metadata().unwrap().len(), 3);
        assert_eq!(fs::read_to_string(&new).unwrap(), "FIRST");
        fs::remove_file(&new).unwrap();
        first.sync_all().unwrap();
        let mut back = [0; 5];
        first.read_exact_at(&mut back, 0).unwrap();
        assert_eq!(&back, b"FIRST");
        assert_eq!(fs::read_to_string(&old).unwrap(), "another");
    });
}

#[test]
fn new_files_belong_to_the_caller() {
    let mounted = mount_or_skip!();
    let folder = mounted.directory();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    mounted.inside(|folder| {
        // SAFETY: changes this thread's file-system identity alone; the thread ends with this closure.
        unsafe {
            libc::setfsgid(54_321);
            libc::setfsuid(12_345);
        }
        fs::write(folder.join("file"), "mine").unwrap();
        fs::create_dir(folder.join("folder")).unwrap();
        std::os::unix::fs::symlink("file", folder.join("link")).unwrap();
        fs::write(folder.join("folder/inner"), "mine").unwrap();
    });
    for name in ["file", "folder", "link", "folder/inner"] {
        let found = fs::symlink_metadata(folder.join(name)).unwrap();
        assert_eq!((found.uid(), found.gid()), (12_345, 54_321), "{name}");
    }
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn permissions_are_checked_against_the_caller() {
    let mounted = mount_or_skip!();
    fs::write(mounted.directory().join("secret"), "root's").unwrap();
    fs::set_permissions(mounted.directory().join("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    mounted.inside(|folder| {
        // SAFETY: as above.
        unsafe { libc::setfsuid(12_345) };
        let refused = File::open(folder.join("secret")).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EACCES));
    });
}

#[test]
fn sigterm_writes_dirty_pages_out_unmounts_and_leaves() {
    let mut mounted = mount_or_skip!();
    mounted.inside(|folder| fs::write(folder.join("dirty"), vec![3; 300 * PAGE]).unwrap());
    mounted.signal(Signal::TERM);
    assert!(mounted.layer.wait().unwrap().success());
    assert_eq!(fs::read(mounted.directory().join("dirty")).unwrap(), vec![3; 300 * PAGE]);
}

/// However long that is: it used to leave after three seconds, and the next write failed.
#[test]
fn told_to_leave_it_serves_who_has_a_file_open() {
    let mut mounted = mount_or_skip!();
    mounted.inside(|folder| {
        let mut file = File::create(folder.join("file")).unwrap();
        mounted.signal(Signal::TERM);
        std::thread::sleep(Duration::from_millis(3500));
        std::io::Write::write_all(&mut file, b"served").unwrap();
        file.sync_all().unwrap();
    });
    assert!(mounted.layer.wait().unwrap().success());
    assert_eq!(fs::read(mounted.directory().join("file")).unwrap(), b"served");
}

#[test]
fn sparse_preallocated_and_large_files() {
    let mounted = mount_or_skip!();
    mounted.inside(|folder| {
        let file = File::options().read(true).write(true).create_new(true).open(folder.join("file")).unwrap();
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 1 << 20).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 1 << 20);
        file.write_all_at(b"far", 5 << 30).unwrap();
        file.sync_all().unwrap();
        assert_eq!(file.metadata().unwrap().len(), (5 << 30) + 3);
        let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        file.write_all_at(&[1; 2 * PAGE], 0).unwrap();
        rustix::fs::fallocate(&file, punch, 0, PAGE as u64).unwrap();
        let mut back = [9; PAGE + 1];
        file.read_exact_at(&mut back, 0).unwrap();
        assert_eq!((back[0], back[PAGE]), (0, 1));
    });
    assert!(fs::metadata(mounted.directory().join("file")).unwrap().blocks() < 10_000, "stays sparse below");
}

/// An ordinary user makes a user namespace of its own. `/dev/fuse` is open to everybody on most hosts; where it is not, the test
/// gives that user a device node of its own in a private mount namespace.
#[test]
fn without_root_the_layer_makes_a_user_namespace() {
    if let Some(why) = common::obstacle() {
        testkit::skip!("{why}");
    }
    let Some(ordinary) = common::ordinary::Layer::start() else {
        testkit::skip!("an ordinary user cannot mount here: no user namespace, no setpriv or no device node");
    };
    let seen = ordinary.inside(
        "cat file && echo new >written && stat -c %u written && grep -c \" $(pwd) fuse.wringer\" /proc/self/mounts",
    );
    assert_eq!(seen, "below\n65534\n1\n");
    assert_eq!(fs::read_to_string(ordinary.folder.path().join("data/written")).unwrap(), "new\n");
    assert_eq!(fs::metadata(ordinary.folder.path().join("data/written")).unwrap().uid(), 65_534);
    let mut client = slowfs::control::Client::connect(ordinary.folder.path().join("slowfs.sock")).unwrap();
    client.set(delay(30_000, 0, 0)).unwrap();
    let start = Instant::now();
    ordinary.inside("dd if=written of=/dev/null iflag=direct bs=4096 count=1 2>/dev/null; true");
    assert!(start.elapsed() >= Duration::from_millis(30));
}

/// fio writes and verifies checksums, with several requests in flight; a checksum that is wrong makes it fail.
#[test]
fn asynchronous_direct_io_verifies() {
    let mounted = mount_or_skip!(|options| options.delay = delay(200, 300, 1_000));
    if std::process::Command::new("fio").arg("--version").output().is_err() {
        testkit::skip!("needs fio");
    }
    for engine in ["libaio", "io_uring", "psync"] {
        let output = mounted.inside(|folder| {
            std::process::Command::new("fio")
                .args([
                    "--name=verify",
                    "--rw=randrw",
                    "--size=8m",
                    "--bsrange=512-32k",
                    "--blockalign=512",
                    "--iodepth=16",
                ])
                .args(["--direct=1", "--verify=crc32c", "--verify_fatal=1", "--fsync=50", "--runtime=20"])
                .arg(format!("--ioengine={engine}"))
                .arg(format!("--filename={}", folder.join(engine).display()))
                .output()
                .unwrap()
        });
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        if said.contains("engine not available") || said.contains("Operation not permitted") {
            testkit::skip!("fio here has no {engine}");
        }
        assert!(output.status.success(), "{engine}: {said}");
    }
    assert!(mounted.client().stats().unwrap().delayed_writes > 100);
}
