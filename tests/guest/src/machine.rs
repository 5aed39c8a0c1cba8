// SPDX-License-Identifier: Apache-2.0
//! One QEMU: emulated (no KVM), so that it runs wherever the tests run.

use crate::disk::Disk;
use crate::parts::Parts;
use std::collections::VecDeque;
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

/// One thread for both processors of the guest. With a thread each, one of them may run into a breakpoint that the other one has taken back already
/// (an "int3" in patched code), and a boot takes a quarter more CPU time.
const ACCELERATOR: &str = "tcg,thread=single";

/// With this word, the guest has two NUMA nodes, each with half of the processors and half of the RAM.
const TWO_NODES: &str = "nodes=2";

/// The line that the guest's init prints when the kernel and its modules are there; after it the cases begin.
const UP: &str = "GUEST is up: ";

/// A boot takes some ten seconds, and a few times that on a busy machine.
const TIME_TO_COME_UP: Duration = Duration::from_secs(75);

/// The number of times that a machine is booted to see it come up once.
const BOOTS: u32 = 3;

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
    /// The lines of the console up to [`UP`], until they are read.
    booted: VecDeque<String>,
    pub log: PathBuf,
}

impl Machine<'_> {
    /// Returns when the guest's init is about to begin with the cases. Without KVM the emulator fails at times while the kernel boots: the kernel says
    /// nothing any more, or crashes. Nothing of Wringer has run then, and the machine is booted again.
    pub fn boot(&self) -> Running {
        for _ in 1..BOOTS {
            let mut running = self.power_on();
            if running.comes_up() {
                return running;
            }
            running.cut_power();
            let after = TIME_TO_COME_UP.as_secs();
            let end = running.last_words();
            let again = format!(
                "BOOT {} again: it did not come up (it may take {after} s); its last lines: {end:?}",
                self.name
            );
            let _ = writeln!(std::io::stderr(), "{again}");
        }
        self.power_on()
    }

    fn power_on(&self) -> Running {
        let initramfs = self.folder.join(format!("{}.cpio", self.name));
        fs::write(&initramfs, self.initramfs).expect("write the initramfs");
        let log = self.folder.join(format!("{}.console", self.name));
        let mut command = Command::new(&self.parts.qemu);
        command.args([
            "-M",
            "pc",
            "-accel",
            ACCELERATOR,
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
        // `norandmaps`: the emulator translates each program's code once, and not at each start to another address. `init_on_alloc=0`: the
        // kernel of Debian fills all memory that it allocates with zeroes
        let words = "console=ttyS0 quiet panic=-1 random.trust_cpu=on mitigations=off norandmaps init_on_alloc=0";
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
        Self { child, console, booted: VecDeque::new(), log }
    }

    /// False when the console ends or the time passes before.
    fn comes_up(&mut self) -> bool {
        let end = Instant::now() + TIME_TO_COME_UP;
        while let Ok(line) = self.console.recv_timeout(end.saturating_duration_since(Instant::now())) {
            let is_up = line.starts_with(UP);
            self.booted.push_back(line);
            if is_up {
                return true;
            }
        }
        false
    }

    /// The next line of the console; `None` at its end, or when `end` has passed.
    pub fn line(&mut self, end: Instant) -> Option<String> {
        let booted = self.booted.pop_front();
        booted.or_else(|| self.console.recv_timeout(end.saturating_duration_since(Instant::now())).ok())
    }

    /// Passes every line to `look`. Returns true when `look` has returned true, false when the console has ended or `limit` has passed.
    pub fn follow(&mut self, limit: Duration, mut look: impl FnMut(&str) -> bool) -> bool {
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

    /// The last lines of the console, for a message, without the rows that servers acknowledged: there may be thousands.
    pub fn last_words(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("ACKNOWLEDGED ")).collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.cut_power();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    /// In place of the emulator there is a script that ends at once the first time, as a kernel that crashes does.
    #[test]
    fn a_machine_that_does_not_come_up_is_booted_again() {
        let folder = tempfile::tempdir().unwrap();
        let qemu = folder.path().join("qemu");
        let seen = folder.path().join("seen");
        let script = format!("#!/bin/sh\nmkdir {} && exit\necho '{UP}Linux'\necho after\n", seen.display());
        fs::write(&qemu, script).unwrap();
        fs::set_permissions(&qemu, fs::Permissions::from_mode(0o755)).unwrap();
        let nowhere = PathBuf::new();
        let parts = Parts {
            qemu,
            kernel: nowhere.clone(),
            wringer: nowhere.clone(),
            libraries: std::collections::BTreeSet::new(),
            mke2fs: nowhere,
        };
        let folder = folder.path();
        let machine =
            Machine { parts: &parts, initramfs: &[], disks: &[], memory_mib: 1, words: "", folder, name: "test" };
        let mut running = machine.boot();
        let mut lines = Vec::new();
        running.follow(Duration::from_secs(20), |line| {
            lines.push(line.to_owned());
            false
        });
        assert_eq!(lines, [format!("{UP}Linux"), "after".to_owned()]);
        assert!(seen.is_dir());
    }
}
