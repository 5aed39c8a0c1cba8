// SPDX-License-Identifier: Apache-2.0
//! Extended attributes and access lists through the layer: who may read what is what it was, and new files come out as on the plain
//! directory.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // tests make their own processes and files

mod common;

use rustix::fs::{XattrFlags, getxattr, getxattr_query, listxattr, removexattr, setxattr};
use rustix::io::Errno;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";
/// Whom nothing on this machine is named after.
const ONE: u32 = 12_345;
const OTHER: u32 = 12_346;

/// `u::rw-,u:<uid>:<named>,g::r--,m::<mask>,o::<others>` as the kernel takes it (linux/posix_acl_xattr.h).
fn access_list(uid: u32, named: u16, mask: u16, others: u16) -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    let none = u32::MAX;
    for (tag, permissions, id) in
        [(0x01_u16, 6_u16, none), (0x02, named, uid), (0x04, 4, none), (0x10, mask, none), (0x20, others, none)]
    {
        bytes.extend(tag.to_le_bytes().into_iter().chain(permissions.to_le_bytes()).chain(id.to_le_bytes()));
    }
    bytes
}

fn get(path: &Path, name: &str) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0; 4096];
    let count = getxattr(path, name, &mut value[..])?;
    value.truncate(count);
    Ok(value)
}

/// A shell as this user, in the namespace of the calling thread.
fn as_user(uid: u32, script: &str) -> bool {
    let mut command = Command::new("setpriv");
    command.arg(format!("--reuid={uid}")).arg(format!("--regid={uid}")).arg("--clear-groups");
    command.args(["sh", "-c", script]).output().unwrap().status.success()
}

/// Everybody may pass through to the directory.
fn open_up(mounted: &common::Mounted) {
    for folder in [mounted.directory(), mounted.directory().parent().unwrap().to_owned()] {
        fs::set_permissions(folder, Permissions::from_mode(0o777)).unwrap();
    }
}

#[test]
fn whom_an_access_list_keeps_out_it_keeps_out() {
    for private in [true, false] {
        let mounted =
            if private { mount_or_skip!() } else { mount_or_skip!(|options| options.writeback_cache = false) };
        open_up(&mounted);
        let file = mounted.directory().join("file");
        fs::write(&file, "secret").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        setxattr(&file, ACCESS, &access_list(ONE, 0, 4, 4), XattrFlags::empty()).unwrap();
        let read = format!("cat {}", file.display());
        let may = |uid| mounted.inside(|_| as_user(uid, &read));
        assert!(!as_user(ONE, &read) && as_user(OTHER, &read), "below");
        assert!(!may(ONE) && may(OTHER), "through the layer");
        // set through the layer, it holds below, and at once
        mounted.inside(|_| setxattr(&file, ACCESS, &access_list(OTHER, 0, 4, 4), XattrFlags::empty()).unwrap());
        assert!(may(ONE) && !may(OTHER), "set through the layer");
        assert!(as_user(ONE, &read) && !as_user(OTHER, &read), "and below");
        mounted.inside(|_| removexattr(&file, ACCESS).unwrap());
        assert!(may(OTHER) && get(&file, ACCESS) == Err(Errno::NODATA));
    }
}

/// Mode and access list of what is made by whom, with which umask, below a folder with and without a default list.
#[test]
fn new_files_have_the_mode_and_list_that_they_would_have() {
    let mounted = mount_or_skip!();
    open_up(&mounted);
    let plain = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(plain.path(), Permissions::from_mode(0o777)).unwrap();
    let make = |root: &Path| {
        let mut seen = Vec::new();
        for (case, list) in
            [None, Some(access_list(ONE, 7, 7, 0)), Some(access_list(OTHER, 2, 3, 5))].iter().enumerate()
        {
            for umask in ["000", "027", "077"] {
                let folder = root.join(format!("{case}-{umask}"));
                fs::create_dir(&folder).unwrap();
                fs::set_permissions(&folder, Permissions::from_mode(0o2777)).unwrap();
                if let Some(list) = list {
                    setxattr(&folder, DEFAULT, list, XattrFlags::empty()).unwrap();
                }
                let script =
                    format!("cd {} && umask {umask} && echo x >file && mkdir folder && mkfifo fifo", folder.display());
                for uid in [0, ONE] {
                    assert!(as_user(uid, &script), "{script}");
                    for name in ["file", "folder", "fifo"] {
                        let path = folder.join(name);
                        let found = fs::metadata(&path).unwrap();
                        let lists = [ACCESS, DEFAULT].map(|list| get(&path, list));
                        seen.push(format!(
                            "{case} {umask} {uid} {name} {:o} {} {} {lists:?}",
                            found.mode(),
                            found.uid(),
                            found.gid()
                        ));
                        if found.is_dir() { fs::remove_dir(&path).unwrap() } else { fs::remove_file(&path).unwrap() }
                    }
                }
            }
        }
        seen
    };
    let expected = make(plain.path());
    let got = mounted.inside(|folder| make(folder));
    for (expected, got) in expected.iter().zip(&got) {
        assert_eq!(expected, got);
    }
    assert_eq!(got.len(), 54);
}

/// A right that comes from another group of the caller, which the layer does not know: what is made belongs to the caller all the same.
#[test]
fn what_a_member_of_the_folders_group_makes_belongs_to_the_member() {
    let mounted = mount_or_skip!();
    open_up(&mounted);
    let folder = mounted.directory().join("of-the-group");
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::chown(&folder, None, Some(OTHER)).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o770)).unwrap();
    let script = format!("cd {} && echo x >file && mkdir folder && mkfifo fifo && ln -s file link", folder.display());
    let by_member = |script: &str| {
        let mut command = Command::new("setpriv");
        command.arg(format!("--reuid={ONE}")).arg(format!("--regid={ONE}")).arg(format!("--groups={OTHER}"));
        command.args(["sh", "-c", script]).output().unwrap()
    };
    let made = mounted.inside(|_| by_member(&script));
    assert!(made.status.success(), "{made:?}");
    for name in ["file", "folder", "fifo", "link"] {
        let found = fs::symlink_metadata(folder.join(name)).unwrap();
        assert_eq!((found.uid(), found.gid()), (ONE, ONE), "{name}");
    }
    // a stranger gets nothing
    assert!(!mounted.inside(|_| as_user(ONE, &format!("echo x >{}", folder.join("other").display()))));
}

#[test]
fn extended_attributes_pass_through_both_ways() {
    let mounted = mount_or_skip!();
    let file = mounted.directory().join("file");
    fs::write(&file, "x").unwrap();
    setxattr(&file, "user.below", b"1", XattrFlags::empty()).unwrap();
    mounted.inside(|_| {
        assert_eq!(get(&file, "user.below").unwrap(), b"1");
        assert_eq!(get(&file, "user.none"), Err(Errno::NODATA));
        setxattr(&file, "user.through", &[7; 1000], XattrFlags::CREATE).unwrap();
        assert_eq!(setxattr(&file, "user.through", b"2", XattrFlags::CREATE), Err(Errno::EXIST));
        setxattr(&file, "trusted.through", b"", XattrFlags::empty()).unwrap();
        assert_eq!(getxattr(&file, "user.through", &mut [0_u8; 10][..]), Err(Errno::RANGE));
        assert_eq!(getxattr_query(&file, "user.through"), Ok(1000));
        removexattr(&file, "user.below").unwrap();
    });
    let mut names = vec![0; 4096];
    let count = listxattr(&file, &mut names[..]).unwrap();
    let names = String::from_utf8_lossy(&names[..count]).into_owned();
    assert!(
        names.contains("user.through") && names.contains("trusted.through") && !names.contains("user.below"),
        "{names}"
    );
    let seen = mounted.inside(|_| {
        let mut names = vec![0; 4096];
        let count = listxattr(&file, &mut names[..]).unwrap();
        String::from_utf8_lossy(&names[..count]).into_owned()
    });
    assert_eq!(seen, names);
}

/// A write, a cut, a change of owner, a reservation of space: by root and by somebody else.
#[test]
fn set_id_bits_and_capabilities_go_as_on_the_plain_directory() {
    let mounted = mount_or_skip!();
    open_up(&mounted);
    let plain = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(plain.path(), Permissions::from_mode(0o777)).unwrap();
    // CAP_NET_RAW, version 2 (capabilities(7))
    let capability = [&0x0200_0001_u32.to_le_bytes()[..], &0x2000_u32.to_le_bytes(), &[0; 12]].concat();
    let make = |root: &Path| {
        let mut seen = Vec::new();
        for uid in [0, ONE] {
            for mode in [0o6777, 0o6767, 0o755 | 0o022] {
                for change in [
                    "echo y >>F",
                    "dd if=/dev/zero of=F bs=1 count=1 conv=notrunc",
                    "truncate -s 0 F",
                    "fallocate -l 9999 F",
                ] {
                    let file = root.join("file");
                    fs::write(&file, "x").unwrap();
                    setxattr(&file, "security.capability", &capability, XattrFlags::empty()).unwrap();
                    fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
                    let script = change.replace('F', file.to_str().unwrap());
                    assert!(as_user(uid, &script), "{script}");
                    File::open(&file).unwrap().sync_all().unwrap();
                    let found = fs::metadata(&file).unwrap();
                    let left = get(&file, "security.capability");
                    seen.push(format!("{uid} {mode:o} {change}: {:o} {} {left:?}", found.mode(), found.len()));
                    fs::remove_file(&file).unwrap();
                }
            }
        }
        seen
    };
    let expected = make(plain.path());
    let got = mounted.inside(|folder| make(folder));
    for (expected, got) in expected.iter().zip(&got) {
        // before Linux 6.2 the group's bit stayed for everybody where the group may not execute
        if !expected.contains(": 102767") || expected.starts_with("0 ") {
            assert_eq!(expected, got);
        }
    }
    assert_eq!(got.len(), 24);
}

/// The kernel may ask for a file's capabilities once, not before each write.
#[test]
fn a_write_costs_no_further_request() {
    let mounted = mount_or_skip!();
    fs::write(mounted.directory().join("file"), vec![7; 1 << 20]).unwrap();
    // each request is one read of /dev/fuse, and a write makes the layer read nothing else
    let reads = || {
        let text = fs::read_to_string(format!("/proc/{}/io", mounted.layer.id())).unwrap();
        text.lines().find_map(|line| line.strip_prefix("syscr: ")?.parse::<u64>().ok()).unwrap()
    };
    const WRITES: u64 = 50;
    let requests: Vec<u64> = mounted.inside(|folder| {
        let file = File::options().read(true).write(true).open(folder.join("file")).unwrap();
        let write = |page: u64| file.write_all_at(&[1; 4096], page * 4096).unwrap();
        write(0);
        let batch = |number: u64| {
            let before = reads();
            (1..=WRITES).for_each(|page| write(number * WRITES + page));
            file.sync_data().unwrap();
            reads() - before
        };
        (0..4).map(batch).collect()
    });
    // A few for the pages, the time and the sync; one more each would be above 50 in every batch. One sync for all of them: with each sync the kernel
    // also sends the file's time if that has changed, and it changes with each tick, so that a slow disk would cost requests. A thread of the layer that
    // is woken for a request which another one takes reads for nothing: that happens on a busy machine, and only adds.
    let least = requests.iter().min().unwrap();
    assert!(*least < WRITES, "{requests:?} reads of requests for {WRITES} writes each, and a sync");
}
