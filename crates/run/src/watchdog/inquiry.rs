// SPDX-License-Identifier: Apache-2.0
//! A question that may hang. It is asked again and again in a thread of its own, so that the watchdog never hangs with it.

use std::sync::mpsc::{Receiver, Sender, channel};

pub(super) struct Inquiry<T> {
    ask: Sender<()>,
    answers: Receiver<T>,
    /// A question was asked and is not answered yet.
    asked: bool,
}

impl<T: Send + 'static> Inquiry<T> {
    /// `None` when no thread can be started.
    ///
    /// The thread has none of the watchdog's descriptors. It may hang in the kernel, and then it outlives the watchdog: it must not keep a lock, nor
    /// a lifeline.
    pub(super) fn start(name: &str, mut question: impl FnMut() -> T + Send + 'static) -> Option<Self> {
        let (ask, asked) = channel();
        let (answer, answers) = channel();
        let body = move || {
            host::process::without_descriptors();
            while asked.recv().is_ok() && answer.send(question()).is_ok() {}
        };
        std::thread::Builder::new().name(name.into()).spawn(body).ok()?;
        Some(Self { ask, answers, asked: false })
    }

    /// The answer, if one has come since the last call. Asks the question anew unless `ask` is false, or the last question is not answered yet.
    pub(super) fn answer(&mut self, ask: bool) -> Option<T> {
        let answer = self.answers.try_recv().ok();
        self.asked &= answer.is_none();
        if ask && !self.asked {
            self.asked = self.ask.send(()).is_ok();
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn a_question_that_hangs_is_asked_once_and_holds_up_nobody() {
        let (go_on, wait) = sync_channel::<u32>(0);
        let mut inquiry = Inquiry::start("test", move || wait.recv()).expect("starts");
        for _ in 0..3 {
            assert!(inquiry.answer(true).is_none());
        }
        go_on.send(7).expect("it was asked");
        let answer = std::iter::repeat_with(|| inquiry.answer(false)).flatten().next();
        assert_eq!(answer, Some(Ok(7)));
        assert!(go_on.try_send(8).is_err(), "it is not asked again by itself");
    }

    #[test]
    fn its_thread_has_none_of_our_descriptors() {
        let lock = std::fs::File::open("/proc/self/exe").expect("opens");
        let is_open = |target: &std::path::Path| {
            let links = std::fs::read_dir("/proc/thread-self/fd").expect("is there").flatten();
            links.flat_map(|entry| std::fs::read_link(entry.path())).any(|link| link == target)
        };
        let program = std::fs::read_link("/proc/self/exe").expect("is there");
        assert!(is_open(&program));
        let mut inquiry = Inquiry::start("test", move || is_open(&program)).expect("starts");
        let found = std::iter::repeat_with(|| inquiry.answer(true)).flatten().next();
        assert_eq!(found, Some(false));
        drop(lock);
    }
}
