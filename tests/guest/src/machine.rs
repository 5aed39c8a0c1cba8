// SPDX-License-Identifier: Apache-2.0
//! One QEMU: emulated (no KVM), so that it runs wherever the tests run.

use crate::disk::Disk;
use crate::parts::Parts;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Without cmpxchg16b: QEMU 7.2 emulates it wrongly for two processors, and the kernel's allocator crashes within seconds. The kernel can work
/// without it.
const PROCESSOR: &str = "qemu64,-cx16";

/// With this word, the guest has two NUMA nodes, each with half of the processors and half of the RAM.
const TWO_NODES: &str = "nodes=2";

/// The description of a machine to boot.
#[derive(Debug)]
pub struct Machine<'a> {
    pub parts: &'a Parts,
    /// An archive as [`crate::initramfs`] makes it.
    pub initramfs: &'a [u8],
    /// The disks `/dev/vda`, `/dev/vdb`, and so on.
    pub disks: &'a [&'a Disk],
    pub memory_mib: u32,
    /// Further words for the kernel's command line; words with a `=` are variables of the guest's init.
    pub words: &'a str,
    /// The folder for the initramfs and the console's log.
    pub folder: &'a Path,
    pub name: &'a str,
}

/// A machine that runs; it is killed when this is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    console: Receiver<String>,
    pub log: PathBuf,
}

impl Machine<'_> {
    pub fn boot(&self) -> Running {
        let initramfs = self.folder.join(format!("{}.cpio", self.name));
        fs::write(&initramfs, self.initramfs).expect("write the initramfs");
        let log = self.folder.join(format!("{}.console", self.name));
        let mut command = Command::new(&self.parts.qemu);
        command.args([
            "-M",
            "pc,accel=tcg",
            "-cpu",
            PROCESSOR,
            "-smp",
            "2",
            "-nodefaults",
            "-no-reboot",
            "-display",
            "none",
        ]);
        command.args(["-serial", "stdio", "-m", &format!("{}M", self.memory_mib)]);
        if self.words.split(' ').any(|word| word == TWO_NODES) {
            for node in 0..2 {
                let half = self.memory_mib / 2;
                command.args(["-object", &format!("memory-backend-ram,id=ram{node},size={half}M")]);
                command.args(["-numa", &format!("node,nodeid={node},cpus={node},memdev=ram{node}")]);
            }
        }
        command.arg("-kernel").arg(self.parts.kernel.join("vmlinuz")).arg("-initrd").arg(initramfs);
        // an emulated processor has none of the flaws against which the kernel has workarounds; these would take a tenth of the time
        let words = "console=ttyS0 quiet panic=-1 random.trust_cpu=on mitigations=off";
        command.args(["-append", &format!("{words} {}", self.words)]);
        for disk in self.disks {
            command.args(["-drive", &disk.drive()]);
        }
        let errors = File::create(log.with_extension("qemu")).expect("make a log");
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors).spawn();
        Running::listen(child.expect("start QEMU"), log)
    }
}

impl Running {
    fn listen(mut child: Child, log: PathBuf) -> Self {
        let (sender, console) = channel();
        let output = child.stdout.take().expect("take QEMU's output");
        let mut file = File::create(&log).expect("make the console's log");
        thread::spawn(move || {
            let mut reader = BufReader::new(output);
            let mut bytes = Vec::new();
            while reader.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
                let _ = file.write_all(&bytes);
                let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
                bytes.clear();
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, console, log }
    }

    /// The next line of the console; `None` at its end, or when `end` has passed.
    pub fn line(&self, end: Instant) -> Option<String> {
        self.console.recv_timeout(end.saturating_duration_since(Instant::now())).ok()
    }

    /// Passes every line to `look`. Returns true when `look` has returned true, false when the console has ended or `limit` has passed.
    pub fn follow(&self, limit: Duration, mut look: impl FnMut(&str) -> bool) -> bool {
        let end = Instant::now() + limit;
        while let Some(line) = self.line(end) {
            if look(&line) {
                return true;
            }
        }
        false
    }

    /// Ends the machine as a power cut does: data that the guest had not written to its disk are lost.
    pub fn cut_power(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The last lines of the console, for a message.
    pub fn last_words(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.cut_power();
    }
}
