// SPDX-License-Identifier: Apache-2.0
//! Clones where the file system can share blocks: XFS and Btrfs on a loop device. A program of its own: a child process that a test starts has the
//! locks of the other tests of its program until it becomes another program.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // test code makes its own folders

mod filled;

use filled::{HOLE_BYTES, filled, here, keep, key, never};
use fills::{Kept, Looked, Store};
use host::places::Places;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use testkit::{LoopDevice, alone, is_root, skip};

/// A file system of its own, on a file that has holes.
struct OnALoop {
    place: PathBuf,
    _device: LoopDevice,
    _folder: tempfile::TempDir,
}

impl OnALoop {
    /// `None`: there is no such program, or this kernel does not have the file system.
    fn new(make: &[&str], bytes: u64) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let (image, place) = (folder.path().join("image"), folder.path().join("mounted"));
        File::create(&image).unwrap().set_len(bytes).unwrap();
        fs::create_dir(&place).unwrap();
        let (program, flags) = make.split_first().unwrap();
        let made = Command::new(program).args(flags).arg(&image).stdout(Stdio::null()).status().ok()?;
        assert!(made.success(), "{make:?}");
        let device = LoopDevice::attach(&image);
        let mounted = Command::new("mount").args([device.path(), &place]).stderr(Stdio::null()).status().unwrap();
        mounted.success().then_some(Self { place, _device: device, _folder: folder })
    }
}

impl Drop for OnALoop {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.place).status();
    }
}

/// Files with many extents, as a server leaves them: some of their pages are written, the others have blocks. `WRINGER_CLONED_FILES=80` makes 10 GiB.
#[test]
fn where_blocks_can_be_shared_a_clone_shares_them() {
    const FILE_BYTES: u64 = 128 << 20;
    let files: u64 = std::env::var("WRINGER_CLONED_FILES").map_or(1, |count| count.parse().unwrap());
    if !is_root() {
        skip!("needs root");
    }
    let _alone = alone();
    for make in [&["mkfs.xfs", "-q", "-m", "reflink=1"][..], &["mkfs.btrfs", "-q"]] {
        let Some(disk) = OnALoop::new(make, (2 << 30) + 16 * files * FILE_BYTES) else {
            skip!("needs {}, and a kernel with that file system", make[0]);
        };
        let home = disk.place.clone();
        let store = Store::open(&Places::below(&home)).unwrap();
        let data = filled(&home);
        for number in 0..files {
            let table = File::create(data.join(format!("sbtest/big{number}.ibd"))).unwrap();
            rustix::fs::fallocate(&table, rustix::fs::FallocateFlags::empty(), 0, FILE_BYTES).unwrap();
            for page in (0..FILE_BYTES).step_by(4 << 20) {
                table.write_all_at(&[9; 16384], page).unwrap();
            }
            table.sync_all().unwrap();
        }
        assert!(matches!(keep(&store, &data), Kept::Yes { .. }), "{make:?}");
        let clone = home.join("clone");
        fs::create_dir(&clone).unwrap();
        let cloned = here(&store).clone_into(&clone, None, &never).unwrap();
        println!("{}: {} bytes by {} in {:?}", make[0], cloned.bytes, cloned.mechanism(), cloned.elapsed);
        assert_eq!((cloned.mechanism(), cloned.bytes), ("reflink", files * FILE_BYTES + HOLE_BYTES + 300_000));
        // who writes the clone does not write what is kept
        let name = "sbtest/big0.ibd";
        File::options().write(true).open(clone.join(name)).unwrap().write_all_at(&[1; 16384], 0).unwrap();
        let mut kept = [0; 16384];
        File::open(data.join(name)).unwrap().read_exact_at(&mut kept, 0).unwrap();
        assert_eq!(kept, [9; 16384]);
        assert!(matches!(store.find(&key(), false, &never).unwrap(), Looked::Here(_)), "what is kept is as it was");
    }
}
