// SPDX-License-Identifier: Apache-2.0
//! The activity of a thread, by `/proc/PID/task/TID/syscall` (proc_pid_syscall(5)), or, if that is not readable, by `wchan`.

use ::stalls::watch::{Doing, Stop, Written};
use libc::c_long;

/// The activity from the text of `syscall`: `running`, `-1 SP PC` (in the kernel, and in no system call), or the call's number, six arguments, SP and
/// PC. `None`: the text has another form.
pub(super) fn doing(text: &str) -> Option<Doing> {
    let mut words = text.split_ascii_whitespace();
    let first = words.next()?;
    if first == "running" {
        return Some(Doing::Running);
    }
    let number: c_long = first.parse().ok()?;
    if number == -1 {
        return Some(Doing::Faulting);
    }
    let argument = |nth: usize| {
        let word = text.split_ascii_whitespace().nth(nth + 1)?;
        u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
    };
    Some(of_call(number, &argument))
}

/// The descriptor of the file that the thread writes. `None`: it writes none, or the call does not name it.
pub(super) fn written_descriptor(text: &str) -> Option<u64> {
    let mut words = text.split_ascii_whitespace();
    let number: c_long = words.next()?.parse().ok()?;
    let names_it = WRITES.contains(&number) && number != libc::SYS_msync && number != libc::SYS_io_submit;
    u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok().filter(|_| names_it)
}

/// Whether the thread goes on with a call in which a signal had stopped it: the kernel does not show which call that is.
pub(super) fn is_restarted(text: &str) -> bool {
    let number = text.split_ascii_whitespace().next().and_then(|word| word.parse().ok());
    number == Some(libc::SYS_restart_syscall)
}

/// What such a thread does, by the function of the kernel in which it waits. The function of a sleep that goes on is one of the scheduler's, which `wchan` leaves
/// out: it shows the one before.
pub(super) fn doing_restarted(wchan: &str) -> Doing {
    let is_sleep = ["do_syscall", "invoke_syscall"].iter().any(|it| wchan.starts_with(it));
    if is_sleep { Doing::Asleep } else { by_wait_channel(wchan) }
}

/// Calls that wait only for a time.
const SLEEPS: [c_long; 2] = [libc::SYS_nanosleep, libc::SYS_clock_nanosleep];
/// `read` and `write` may be on a file, but today's servers read their files with `pread64`, and their clients over TLS with `read`.
const OF_A_CLIENT: [c_long; 7] = [
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_accept4,
];
const READS: [c_long; 5] =
    [libc::SYS_pread64, libc::SYS_preadv, libc::SYS_preadv2, libc::SYS_io_getevents, libc::SYS_io_uring_enter];
const WRITES: [c_long; 10] = [
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync_file_range,
    libc::SYS_msync,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_fallocate,
    libc::SYS_ftruncate,
    libc::SYS_io_submit,
];
const POLLS: [c_long; 2] = [libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2];

fn of_call(number: c_long, argument: &dyn Fn(usize) -> Option<u64>) -> Doing {
    if SLEEPS.contains(&number) || is_sleep_without_descriptors(number, argument) {
        Doing::Asleep
    } else if POLLS.contains(&number) || is_older::epoll(number) {
        argument(0).map_or(Doing::Idle, Doing::Polling)
    } else if number == libc::SYS_pselect6
        || number == libc::SYS_ppoll
        || is_older::poll(number)
        || is_older::select(number)
        || OF_A_CLIENT.contains(&number)
    {
        Doing::Idle
    } else if READS.contains(&number) {
        Doing::Reading
    } else if WRITES.contains(&number) {
        Doing::Syncing(Written::Unknown)
    } else {
        // futexes and semaphores; and a call that is not named here is a wait, too
        Doing::Blocked
    }
}

/// Whether the call is `select(0, NULL, NULL, NULL, t)` or `poll(NULL, 0, t)`.
fn is_sleep_without_descriptors(number: c_long, argument: &dyn Fn(usize) -> Option<u64>) -> bool {
    let is = |nth: usize| argument(nth) == Some(0);
    if number == libc::SYS_pselect6 || is_older::select(number) {
        is(0) && is(1)
    } else {
        (number == libc::SYS_ppoll || is_older::poll(number)) && is(1)
    }
}

/// System calls that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
mod is_older {
    use libc::c_long;

    pub(super) fn select(number: c_long) -> bool {
        number == libc::SYS_select
    }

    pub(super) fn poll(number: c_long) -> bool {
        number == libc::SYS_poll
    }

    pub(super) fn epoll(number: c_long) -> bool {
        number == libc::SYS_epoll_wait
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod is_older {
    use libc::c_long;

    pub(super) fn select(_: c_long) -> bool {
        false
    }

    pub(super) fn poll(_: c_long) -> bool {
        false
    }

    pub(super) fn epoll(_: c_long) -> bool {
        false
    }
}

/// The activity by the function of the kernel in which the thread waits, Linux 5.10 to 6.18. There `select` without descriptors looks like a wait for
/// a client.
pub(super) fn by_wait_channel(wchan: &str) -> Doing {
    let is = |beginnings: &[&str]| beginnings.iter().any(|it| wchan.starts_with(it));
    if wchan.is_empty() || wchan == "0" {
        Doing::Running
    } else if stop(wchan).is_some() {
        // what it was stopped in is not known
        Doing::Idle
    } else if is(&["hrtimer_nanosleep", "do_nanosleep", "common_nsleep"]) {
        Doing::Asleep
    } else if is(&[
        "poll_schedule_timeout",
        "do_sys_poll",
        "do_select",
        "ep_poll",
        "do_epoll_",
        "sk_wait_data",
        "unix_stream",
        "inet_csk",
    ]) || is(&["wait_woken", "__skb_wait", "sock_alloc"])
    {
        Doing::Idle
    } else if is(&[
        "io_schedule",
        "folio_wait",
        "wait_on_page",
        "read_events",
        "filemap_",
        "dio_",
        "io_cqring_wait",
        "blkdev_",
    ]) {
        Doing::Reading
    } else if is(&[
        "jbd2_",
        "xfs_log",
        "xlog_",
        "wait_log_commit",
        "btrfs_",
        "balance_dirty",
        "submit_bio_wait",
        "blk_",
        "fuse_",
    ]) {
        Doing::Syncing(Written::Unknown)
    } else {
        Doing::Blocked
    }
}

/// Whether this is a function of the kernel in which a task is stopped (kernel/signal.c, kernel/freezer.c; Linux 5.10 to 6.18).
pub(super) fn stop(wchan: &str) -> Option<Stop> {
    let is = |beginnings: &[&str]| beginnings.iter().any(|it| wchan.starts_with(it));
    if is(&["do_signal_stop", "get_signal"]) {
        Some(Stop::Signal)
    } else if is(&["ptrace_stop", "do_jobctl_trap"]) {
        Some(Stop::Tracer)
    } else if is(&["do_freezer_trap", "__refrigerator", "refrigerator"]) {
        Some(Stop::Freezer)
    } else {
        None
    }
}

/// Whether this is a function of the kernel in which a task waits for free memory, or is held back because its cgroup has too much (mm/vmscan.c,
/// mm/memcontrol.c, mm/memory.c, mm/page_io.c; Linux 5.10 to 6.18).
pub(super) fn is_reclaim(wchan: &str) -> bool {
    let names = [
        "mem_cgroup_handle_over_high",
        "__mem_cgroup_handle_over_high",
        "mem_cgroup_oom",
        "try_charge",
        "reclaim_throttle",
        "throttle_direct_reclaim",
        "try_to_free",
        "shrink_",
        "congestion_wait",
        "wait_iff_congested",
        "do_swap_page",
        "swap_read",
        "__swap_read",
    ];
    names.iter().any(|name| wchan.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn texts_of_a_kernel_of_today() {
        let rest = "0x0 0x7f 0x0 0x0 0x7ffd 0x7f";
        assert_eq!(doing("running\n"), Some(Doing::Running));
        assert_eq!(doing("270 0x0 0x0 0x0 0x0 0x7f12 0x0 0x7ffd 0x7f12\n"), Some(Doing::Asleep), "of XtraDB");
        assert_eq!(doing("270 0x5 0x7ffd 0x0 0x0 0x7f12 0x0 0x7ffd 0x7f12\n"), Some(Doing::Idle));
        assert_eq!(doing(&format!("202 0x7f12 0x80 {rest}")), Some(Doing::Blocked));
        assert_eq!(doing(&format!("232 0xb 0x7f {rest}")), Some(Doing::Polling(11)));
        assert_eq!(doing(&format!("7 0x7f 0x1 {rest}")), Some(Doing::Idle));
        assert_eq!(doing(&format!("7 0x0 0x0 {rest}")), Some(Doing::Asleep));
        assert_eq!(doing(&format!("17 0x7 0x7f {rest}")), Some(Doing::Reading));
        assert_eq!(doing(&format!("75 0x7 0x7f {rest}")), Some(Doing::Syncing(Written::Unknown)));
        let descriptors = ["75 0x7", "18 0x1f", "209 0x7f", "26 0x7f", "202 0x7"]
            .map(|it| written_descriptor(&format!("{it} 0x7f {rest}")));
        assert_eq!(descriptors, [Some(7), Some(31), None, None, None]);
        assert_eq!(doing("-1 0x7ffd 0x7f12"), Some(Doing::Faulting));
        assert!(is_reclaim("mem_cgroup_handle_over_high") && is_reclaim("reclaim_throttle"));
        assert!(!is_reclaim("futex_do_wait") && !is_reclaim("0"));
        let stops = ["do_signal_stop", "ptrace_stop", "do_freezer_trap", "__refrigerator"].map(stop);
        assert_eq!(stops, [Stop::Signal, Stop::Tracer, Stop::Freezer, Stop::Freezer].map(Some));
        assert_eq!(stop("futex_do_wait"), None);
        let idle = ["ep_poll", "do_epoll_wait", "do_epoll_pwait"].map(by_wait_channel);
        assert_eq!(idle, [Doing::Idle; 3], "of Linux 5.10, and of 6.18");
        assert_eq!(doing(""), None);
        assert_eq!(doing("gone"), None);
    }

    /// The text of this kernel for a thread of this test.
    #[test]
    fn this_kernel_shows_a_thread_that_sleeps() {
        let (send, tid) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            let _ = send.send(rustix::thread::gettid().as_raw_nonzero().get());
            std::thread::sleep(Duration::from_secs(2));
        });
        let tid = tid.recv().expect("it began");
        std::thread::sleep(Duration::from_millis(300));
        let read = |file: &str| std::fs::read_to_string(format!("/proc/self/task/{tid}/{file}"));
        assert_eq!(doing(&read("syscall").expect("our own")), Some(Doing::Asleep));
        assert_eq!(by_wait_channel(&read("wchan").expect("our own")), Doing::Asleep);
        sleeper.join().expect("it sleeps");
    }
}
