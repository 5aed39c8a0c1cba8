// SPDX-License-Identifier: Apache-2.0
//! The threads of a server, sampled repeatedly through descriptors that stay open. No thread is stopped.

use super::descriptors;
use super::namespaced::Namespaced;
use super::syscall::{by_wait_channel, doing, doing_restarted, is_reclaim, is_restarted, stop, written_descriptor};
use super::written::written;
use crate::Error;
use crate::process::kin::{Kin, SEARCHED};
use ::stalls::watch::{Doing, Missing, Sample, Sched, Stop, Written};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

/// A server's threads; for a server with a process for each connection, its child processes.
#[derive(Debug)]
pub(super) struct Threads {
    pid: u32,
    by_process: bool,
    /// The child processes.
    kin: Kin,
    open: BTreeMap<u32, Files>,
    buffer: Vec<u8>,
    by_wait_channel: bool,
    /// Whether the kernel function in which each thread waits is read, too.
    is_memory_short: bool,
    /// Whether the files are looked at that threads write to.
    names_files: bool,
    /// For so many threads this process may open files.
    room: u64,
    /// There was no room for all threads the last time: room is looked for again when some of them have ended.
    is_full: bool,
    /// `wchan` of the process's first thread: it tells whether the server is stopped.
    leader: Option<File>,
    /// Threads that could not be opened, because this process has too many open files already.
    without_files: Option<Missing>,
    /// The server's own numbers of its threads. `None`: they are the same as here.
    namespaced: Option<Namespaced>,
}

/// The most descriptors of one thread: `syscall` or `wchan`, `schedstat`, and `wchan` again.
const EACH: u64 = 3;
/// Room is made for so many threads at once, because counting the open files takes a while.
const AT_ONCE: u64 = 32;

#[derive(Debug)]
struct Files {
    /// `syscall`, or `wchan`.
    state: File,
    schedstat: Option<File>,
    /// `wchan`, opened when it is first needed.
    channel: Option<File>,
    folder: PathBuf,
    was_stopped: bool,
}

/// The result of a sweep: samples, and the threads that have ended.
#[derive(Debug, Default)]
pub(super) struct Swept {
    pub(super) samples: Vec<Sample>,
    /// `None`: the server is not stopped.
    pub(super) stop: Option<Stop>,
    pub(super) gone: Vec<u32>,
}

impl Threads {
    /// `by_process`: the server has a process for each connection. Also returns what cannot be read.
    ///
    /// # Errors
    /// [`Error::Threads`]: this user can read nothing about the threads' activity.
    pub(super) fn of(pid: u32, by_process: bool) -> Result<(Self, Vec<Missing>), Error> {
        let mut missing = Vec::new();
        let is_readable = |file: &str| std::fs::read(format!("/proc/{pid}/{file}"));
        let by_wait_channel =
            is_readable("syscall").inspect_err(|error| missing.extend(without_calls(pid, by_process, error))).is_err();
        // a user who may not read it gets `0`, as for a running thread
        let has_channel = rustix::process::geteuid().is_root()
            || is_readable("wchan").is_ok_and(|text| !text.is_empty() && text != b"0");
        if by_wait_channel && !has_channel {
            return Err(Error::Threads { pid, why: "neither `syscall` nor `wchan` is to be read by this user".into() });
        }
        let mut threads = Self {
            pid,
            by_process,
            kin: Kin::children_of(pid),
            open: BTreeMap::new(),
            buffer: vec![0; 512],
            by_wait_channel,
            is_memory_short: false,
            names_files: false,
            room: 0,
            is_full: false,
            leader: File::open(format!("/proc/{pid}/task/{pid}/wchan")).ok(),
            without_files: None,
            namespaced: Namespaced::of(pid),
        };
        threads.there().map_err(|error| Error::Threads { pid, why: format!("there is no list of them: {error}") })?;
        missing.extend((by_process && threads.kin.is_searched()).then(late));
        if std::fs::read(format!("/proc/{pid}/schedstat")).is_err() {
            missing.push(Missing {
                what: "how long threads wait for a CPU".into(),
                why: "this kernel has no /proc/PID/schedstat (CONFIG_SCHED_INFO)".into(),
                remedy: None,
            });
        }
        Ok((threads, missing))
    }

    /// Updates the list of threads. Returns those that have ended. When the list cannot be read, the last one stays.
    pub(super) fn list(&mut self) -> Vec<u32> {
        let Ok(now) = self.there() else { return Vec::new() };
        let gone: Vec<u32> = self.open.keys().copied().filter(|thread| !now.contains(thread)).collect();
        gone.iter().for_each(|thread| self.forget(*thread));
        let new: Vec<u32> = now.into_iter().filter(|thread| !self.open.contains_key(thread)).collect();
        let wanted = self.count() + new.len() as u64;
        if wanted > self.room && !(self.is_full && gone.is_empty()) {
            // those that are open may need one more
            let later = self.count();
            let more = later + (new.len() as u64 + AT_ONCE) * EACH;
            self.room = self.count() + descriptors::make_room(more).saturating_sub(later) / EACH;
            self.is_full = wanted > self.room;
        }
        self.open_each(new);
        gone
    }

    /// Opens the files of these threads, as far as there is room.
    fn open_each(&mut self, new: Vec<u32>) {
        for thread in new {
            let opened = if self.count() < self.room { self.files(thread) } else { Err(io::Error::from(Errno::MFILE)) };
            match opened {
                Ok(files) => {
                    if let Some(namespaced) = &mut self.namespaced {
                        namespaced.add(thread, &files.folder);
                    }
                    self.open.insert(thread, files);
                }
                Err(error) if is_too_many(&error) => {
                    let count = self.count();
                    self.without_files.get_or_insert_with(|| too_many(count, &error));
                    return;
                }
                // it has ended
                Err(_) => {}
            }
        }
    }

    fn forget(&mut self, thread: u32) {
        self.open.remove(&thread);
        if let Some(namespaced) = &mut self.namespaced {
            namespaced.remove(thread);
        }
    }

    /// The number, in this program's process namespace, of the thread that the server calls so. `None`: no such thread is known.
    pub(super) fn here(&self, thread: u32) -> Option<u32> {
        self.namespaced.as_ref().map_or(Some(thread), |namespaced| namespaced.here(thread))
    }

    /// What was found missing while threads came.
    pub(super) fn missing(&self) -> Option<Missing> {
        self.without_files.clone()
    }

    fn there(&mut self) -> io::Result<BTreeSet<u32>> {
        if self.by_process {
            return Ok(self.kin.pids().map_err(io::Error::other)?.into_iter().collect());
        }
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid))?;
        let names = tasks.map(|task| Ok(task?.file_name()));
        let names = names.collect::<io::Result<Vec<_>>>()?;
        Ok(names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect())
    }

    fn files(&self, thread: u32) -> io::Result<Files> {
        let folder = if self.by_process {
            PathBuf::from(format!("/proc/{thread}/task/{thread}"))
        } else {
            PathBuf::from(format!("/proc/{}/task/{thread}", self.pid))
        };
        let state = File::open(folder.join(if self.by_wait_channel { "wchan" } else { "syscall" }))?;
        Ok(Files {
            state,
            schedstat: File::open(folder.join("schedstat")).ok(),
            channel: None,
            folder,
            was_stopped: false,
        })
    }

    /// Sets whether tasks of this host wait for memory: threads of the server may be among them.
    pub(super) fn memory_is_short(&mut self, is_short: bool) {
        self.is_memory_short = is_short;
    }

    /// Sets whether samples tell to which kind of file a thread writes.
    pub(super) fn names_files(&mut self, is_wanted: bool) {
        self.names_files = is_wanted;
    }

    pub(super) fn count(&self) -> u64 {
        self.open.len() as u64
    }

    /// Samples the threads that `wanted` selects. `at_rest`: whether nothing more need be read of a thread with this sample.
    pub(super) fn sweep(&mut self, wanted: &dyn Fn(u32) -> bool, at_rest: &dyn Fn(&Sample) -> bool) -> Swept {
        let mut swept = Swept::default();
        let Self { open, buffer, by_wait_channel: by_channel, is_memory_short, names_files, leader, .. } = self;
        swept.stop = leader.as_ref().and_then(|file| text(file, buffer).ok().and_then(stop));
        for (thread, files) in open.iter_mut().filter(|(thread, _)| wanted(**thread)) {
            let Ok(mut doing) = files.look(buffer, *by_channel, *names_files) else {
                swept.gone.push(*thread);
                continue;
            };
            // a thread that is held back or stopped at the end of a call seems to be still in that call
            let may_be_elsewhere = *is_memory_short || swept.stop.is_some() || doing == Doing::Faulting;
            let mut stopped = None;
            if may_be_elsewhere && doing != Doing::Running {
                let channel = files.channel(buffer);
                stopped = stop(channel);
                if *is_memory_short && is_reclaim(channel) {
                    doing = Doing::Reclaiming;
                }
            }
            let was_stopped = std::mem::replace(&mut files.was_stopped, stopped.is_some());
            let mut sample = Sample { thread: *thread, doing, sched: None, stop: stopped };
            if was_stopped || stopped.is_some() || !at_rest(&sample) {
                sample.sched = files.schedstat.as_ref().and_then(|file| sched(file, buffer));
            }
            swept.samples.push(sample);
        }
        for thread in &swept.gone {
            self.forget(*thread);
        }
        swept
    }
}

/// What is not seen where a server's processes are searched for.
fn late() -> Missing {
    Missing {
        what: "the first 0.2 s or more of each connection, and shorter ones".into(),
        why: SEARCHED.into(),
        remedy: None,
    }
}

/// What is not seen where `wchan` alone tells what threads do, because of this error.
fn without_calls(pid: u32, by_process: bool, error: &io::Error) -> Vec<Missing> {
    let rights = crate::ptrace_rights::for_attaching();
    let calls = Missing {
        what: "the system calls in which the server's threads wait".into(),
        why: format!("/proc/{pid}/syscall: {error}"),
        remedy: Some(format!(
            "{rights}; until then `wchan` tells most, but not the sleeps of XtraDB 5.6 (free_list_backoff)"
        )),
    };
    let locks = Missing {
        what: "waits of PostgreSQL's processes for locks of rows and tables".into(),
        why: "a process waits for its client and for a lock in the same function of the kernel, and only its system call tells them apart".into(),
        remedy: Some(rights.to_owned()),
    };
    std::iter::once(calls).chain(by_process.then_some(locks)).collect()
}

/// This process, or the host, has as many open files as it may have.
fn is_too_many(error: &io::Error) -> bool {
    let number = Errno::from_io_error(error);
    number == Some(Errno::MFILE) || number == Some(Errno::NFILE)
}

fn too_many(watched: u64, error: &io::Error) -> Missing {
    let limit = descriptors::limit().map_or_else(String::new, |limit| format!(" (limit: {limit})"));
    let needed = ((watched + 1) * 2 * EACH).next_power_of_two().max(4096);
    Missing {
        what: format!("what the server's threads do beyond the first {watched}"),
        why: format!("this process may not open more files{limit}: {error}"),
        remedy: Some(format!("ulimit -n {needed} in the shell that starts the watch; as root above the hard limit")),
    }
}

impl Files {
    fn look(&mut self, buffer: &mut [u8], by_channel: bool, names_files: bool) -> io::Result<Doing> {
        let text = text(&self.state, buffer)?;
        if by_channel {
            return Ok(by_wait_channel(text));
        }
        match doing(text) {
            Some(Doing::Blocked) if is_restarted(text) => Ok(doing_restarted(self.channel(buffer))),
            Some(Doing::Syncing(_)) if names_files => Ok(Doing::Syncing(self.written(text))),
            Some(doing) => Ok(doing),
            None => Err(io::Error::other("no such text")),
        }
    }

    /// The kind of the file that the thread writes. A descriptor may mean another file the next time.
    fn written(&self, text: &str) -> Written {
        let link = written_descriptor(text).map(|number| self.folder.join(format!("fd/{number}")));
        link.and_then(|link| std::fs::read_link(link).ok()).map_or(Written::Unknown, |file| written(&file))
    }

    /// The kernel's function in which the thread waits; empty if it cannot be read.
    fn channel<'a>(&mut self, buffer: &'a mut [u8]) -> &'a str {
        if self.channel.is_none() {
            self.channel = File::open(self.folder.join("wchan")).ok();
        }
        self.channel.as_ref().and_then(|file| text(file, buffer).ok()).unwrap_or_default()
    }
}

fn text<'a>(file: &File, buffer: &'a mut [u8]) -> io::Result<&'a str> {
    let length = file.read_at(buffer, 0)?;
    std::str::from_utf8(buffer.get(..length).unwrap_or_default()).map_err(io::Error::other)
}

fn sched(file: &File, buffer: &mut [u8]) -> Option<Sched> {
    let mut numbers = text(file, buffer).ok()?.split_ascii_whitespace().map_while(|word| word.parse().ok());
    Some(Sched { cpu_ns: numbers.next()?, queued_ns: numbers.next()?, turns: numbers.next()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_wait_channels_alone_tell_what_processes_do_no_lock_is_seen_and_that_is_told() {
        let refused = io::Error::from(Errno::PERM);
        let what =
            |by_process| without_calls(7, by_process, &refused).into_iter().map(|it| it.what).collect::<Vec<_>>();
        assert_eq!((what(false).len(), what(true).len()), (1, 2));
        assert!(what(true)[1].contains("locks"), "{:?}", what(true));
    }

    #[test]
    fn threads_of_this_test_are_seen_until_they_end() {
        let (mut threads, missing) = Threads::of(std::process::id(), false).expect("our own");
        assert_eq!(missing, []);
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let waiting = std::thread::spawn(move || {
            let _ = tell.send(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs());
            let _ = ended.recv();
        });
        let tid = told.recv().expect("it began");
        std::thread::sleep(std::time::Duration::from_millis(200));
        threads.list();
        let swept = threads.sweep(&|thread| thread == tid, &|_| false);
        let [sample] = swept.samples.as_slice() else { panic!("{swept:?}") };
        assert_eq!((sample.thread, sample.doing), (tid, Doing::Blocked), "it waits for a channel");
        assert!(sample.sched.is_some_and(|sched| sched.turns > 0));
        drop(end);
        waiting.join().expect("it ends");
        let mut gone = threads.sweep(&|thread| thread == tid, &|_| false).gone;
        gone.extend(threads.list());
        assert!(gone.contains(&tid), "{gone:?}");
        assert!(threads.sweep(&|thread| thread == tid, &|_| false).samples.is_empty());
    }

    /// `sleep` is stopped in its system call; its `schedstat` is read then, and once more after the stop.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test starts its own process")]
    fn a_process_that_is_stopped_is_seen_stopped_until_it_goes_on() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().expect("sleep");
        let pid = rustix::process::Pid::from_child(&child);
        let send = |signal| rustix::process::kill_process(pid, signal).expect("our own");
        let (mut threads, _) = Threads::of(child.id(), false).expect("our own");
        threads.list();
        let mut look = |is_it: &dyn Fn(&Sample) -> bool| {
            let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
            loop {
                let swept = threads.sweep(&|_| true, &|sample| sample.doing == Doing::Asleep);
                let [sample] = swept.samples.as_slice() else { panic!("{swept:?}") };
                if is_it(sample) || std::time::Instant::now() > until {
                    return (swept.stop, *sample);
                }
            }
        };
        let sleeps = |sample: &Sample| sample.doing == Doing::Asleep && sample.sched.is_none();
        assert!(sleeps(&look(&sleeps).1));
        send(rustix::process::Signal::STOP);
        let (stop, sample) = look(&|sample| sample.stop.is_some());
        assert_eq!((stop, sample.stop, sample.sched.is_some()), (Some(Stop::Signal), Some(Stop::Signal), true));
        send(rustix::process::Signal::CONT);
        let (_, sample) = look(&|sample| sample.stop.is_none());
        assert!(sample.sched.is_some(), "to see whether it ran");
        // in restart_syscall
        assert!(sleeps(&look(&sleeps).1), "it sleeps on");
        child.kill().and_then(|()| child.wait()).expect("our own");
    }

    #[test]
    fn a_list_that_cannot_be_read_ends_no_thread() {
        for by_process in [false, true] {
            let (mut threads, _) = Threads::of(std::process::id(), false).expect("our own");
            threads.list();
            let count = threads.count();
            assert!(count > 0);
            // no process has this number
            (threads.pid, threads.by_process, threads.kin) = (u32::MAX, by_process, Kin::children_of(u32::MAX));
            assert_eq!((threads.list(), threads.count()), (Vec::new(), count));
        }
    }

    #[test]
    fn threads_without_a_descriptor_are_told_once_and_watched_when_there_is_room_again() {
        let (mut threads, _) = Threads::of(std::process::id(), false).expect("our own");
        let all: Vec<u32> = threads.there().expect("our own").into_iter().collect();
        assert!(all.len() > 1, "a test runs in a thread of its own");
        threads.room = 1;
        threads.open_each(all.clone());
        threads.open_each(all[1..].to_vec());
        let missing = threads.missing().expect("the second one");
        assert_eq!((threads.count(), missing.what.as_str()), (1, "what the server's threads do beyond the first 1"));
        assert!(missing.remedy.expect("help").starts_with("ulimit -n 4096"));
        threads.list();
        assert!(threads.count() > 1);
        assert!(is_too_many(&Errno::NFILE.into()) && !is_too_many(&Errno::NOENT.into()));
    }
}
