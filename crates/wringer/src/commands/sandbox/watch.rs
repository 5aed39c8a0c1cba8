// SPDX-License-Identifier: Apache-2.0
use crate::terminal;
use indicatif::ProgressBar;

/// Shows the progress of a deployment: a line for each part of the work, and a bar where bytes are counted.
#[derive(Default)]
pub struct Watch {
    bar: Option<ProgressBar>,
}

impl Watch {
    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl sandbox::Progress for Watch {
    fn doing(&mut self, what: &str) {
        self.clear();
        terminal::say(format_args!(" sandbox  {what}"));
    }

    fn bytes(&mut self, done_bytes: u64, total_bytes: u64) {
        if total_bytes == 0 {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| terminal::bar(total_bytes, "download"));
        bar.set_position(done_bytes.min(total_bytes));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.clear();
    }
}
