// SPDX-License-Identifier: Apache-2.0
//! The layer as an ordinary user starts it.

use std::fs::{self, File};
use std::io::Read as _;

/// Ends with this value.
pub struct Layer {
    layer: std::process::Child,
    /// Below it `data`, which the layer slows, and `slowfs.sock`, by which it is told the delays.
    pub folder: tempfile::TempDir,
}

impl Layer {
    /// `None`: this host does not let an ordinary user do that.
    pub fn start() -> Option<Self> {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let data = folder.path().join("data");
        fs::create_dir(&data).unwrap();
        fs::write(data.join("file"), "below\n").unwrap();
        // by a process of its own: what this one has open to write, a child of another test may hold, and then it cannot be executed
        let mut copy = std::process::Command::new("cp");
        copy.arg(env!("CARGO_BIN_EXE_slow-layer")).arg(folder.path().join("slow-layer"));
        assert!(copy.status().unwrap().success());
        for path in [folder.path(), &data, &data.join("file")] {
            std::os::unix::fs::chown(path, Some(65_534), Some(65_534)).unwrap();
        }
        let mut options = super::options();
        options.directory = data;
        options.control = folder.path().join("slowfs.sock");
        let (ready_read, ready_write) = super::pipe();
        use rustix::fd::AsRawFd as _;
        let ready = ready_write.as_raw_fd();
        let script = "set -e; cd \"$1\"; mknod fuse c 10 229; chmod 666 fuse; mount --bind fuse /dev/fuse
            exec setpriv --reuid 65534 --regid 65534 --clear-groups ./slow-layer \"$2\"";
        let mut command = std::process::Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh"]).arg(folder.path());
        command.arg(serde_json::to_string(&options).unwrap()).env("WRINGER_READY_FD", ready.to_string());
        super::inherit(&mut command, [ready, ready]);
        let layer = command.stderr(std::process::Stdio::null()).spawn().ok()?;
        drop(ready_write);
        let mut line = String::new();
        File::from(ready_read).read_to_string(&mut line).unwrap();
        let ordinary = Self { layer, folder };
        line.contains("\"ready\":").then_some(ordinary)
    }

    /// What the user sees in the namespace, in the directory.
    pub fn inside(&self, script: &str) -> String {
        let output = std::process::Command::new("setpriv")
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "nsenter", "--user", "--mount"])
            .args(["--preserve-credentials", "--target", &self.layer.id().to_string(), "sh", "-c"])
            .arg(format!("cd {} && {script}", self.folder.path().join("data").display()))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Layer {
    fn drop(&mut self) {
        let _ = self.layer.kill();
        let _ = self.layer.wait();
    }
}
