// SPDX-License-Identifier: Apache-2.0
//! The store with real files: a keeper that is killed halfway, a full disk, two keepers at once, links, holes.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // test code makes its own folders

mod filled;

use filled::{HOLE_BYTES, filled, here, keep, keep_with, key, never};
use fills::{Error, Kept, Looked, Store};
use host::places::Places;
use rustix::mount::{MountFlags, MountPropagationFlags};
use serde_json::json;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use testkit::{is_root, skip, wait_until};

/// Names the home in which the child process of the kill test keeps a directory.
const HALFWAY: &str = "FILLS_TEST_HALFWAY";

fn home() -> (tempfile::TempDir, Store, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(&Places::below(home.path())).unwrap();
    let data = filled(home.path());
    (home, store, data)
}

#[track_caller]
fn thrown_away(store: &Store, verify: bool) -> String {
    let Looked::ThrownAway(why) = store.find(&key(), verify, &never).unwrap() else { panic!("it was taken") };
    // the child that another test of this program starts has the entry's lock, too, until it becomes another program
    let is_gone = || matches!(store.find(&key(), verify, &never).unwrap(), Looked::Nothing);
    assert!(wait_until(Duration::from_secs(30), is_gone), "it is still there");
    why
}

fn hidden_names(store: &Store) -> Vec<String> {
    let names = fs::read_dir(store.folder()).into_iter().flatten().flatten();
    let names = names.map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(".new-") || name.starts_with(".old-")).collect()
}

#[test]
fn a_clone_has_the_same_bytes_modes_and_holes_and_neither_identity_nor_more() {
    let (home, store, data) = home();
    assert!(matches!(keep(&store, &data), Kept::Yes { .. }));
    let entry = here(&store);
    assert_eq!((entry.secret(), &entry.note()["rows"]), ("pass", &json!(5)));
    let clone = home.path().join("clone");
    fs::create_dir(&clone).unwrap();
    let cloned = entry.clone_into(&clone, None, &never).unwrap();
    assert_eq!(cloned.bytes, HOLE_BYTES + 300_000);
    for name in ["ibdata1", "sbtest/sbtest1.ibd"] {
        let (from, to) = (data.join(name), clone.join(name));
        assert_eq!(fs::read(&from).unwrap(), fs::read(&to).unwrap(), "{name}");
        assert_eq!(from.metadata().unwrap().mode(), to.metadata().unwrap().mode(), "{name}");
    }
    assert!(!clone.join("auto.cnf").exists());
    let taken = clone.join("sbtest/sbtest1.ibd").metadata().unwrap().blocks() * 512;
    assert!(taken < HOLE_BYTES / 8, "the hole was filled: {taken} bytes on the disk");
    if cloned.mechanism() == "copy" {
        assert!(cloned.copied_bytes < 300_000 + HOLE_BYTES / 8, "holes were copied: {cloned:?}");
    }
}

#[test]
fn the_cache_keeps_the_mode_that_it_has() {
    let (home, store, data) = home();
    let cache = Places::below(home.path()).cache;
    fs::create_dir(&cache).unwrap();
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o751)).unwrap();
    assert!(matches!(keep(&store, &data), Kept::Yes { .. }));
    assert_eq!(cache.metadata().unwrap().mode() & 0o7777, 0o751);
}

#[test]
fn a_store_of_another_user_is_told_from_one_that_fails() {
    let (_home, store, data) = home();
    assert!(matches!(keep(&store, &data), Kept::Yes { .. }));
    if is_root() {
        chown(store.folder(), Some(12_345), None).unwrap();
        let found = [store.find(&key(), false, &never).map(drop), store.forget(&key())];
        return assert!(found.iter().all(|it| it.as_ref().is_err_and(Error::is_of_others)), "{found:?}");
    }
    let lock = store.folder().join(".lock");
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o000)).unwrap();
    store.forget(&key()).unwrap();
    drop(here(&store));
}

#[test]
fn whole_data_are_used_also_where_their_use_cannot_be_noted() {
    let (_home, store, data) = home();
    let Kept::Yes { id, .. } = keep(&store, &data) else { panic!("not kept") };
    let used = store.folder().join(id).join("used");
    fs::remove_file(&used).unwrap();
    fs::create_dir(&used).unwrap();
    drop(here(&store));
}

#[test]
fn what_was_written_added_or_replaced_since_is_noticed() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 8] = [
        ("another size", |data| fs::write(data.join("ibdata1"), "short").unwrap()),
        ("changed since", |data| {
            // of the same size, and with its old time of writing
            let file = File::options().write(true).open(data.join("ibdata1")).unwrap();
            let modified = file.metadata().unwrap().modified().unwrap();
            file.write_all_at(b"other", 100).unwrap();
            file.set_modified(modified).unwrap();
        }),
        ("is new", |data| fs::write(data.join("zzz"), "").unwrap()),
        ("sbtest was written since", |data| fs::remove_file(data.join("sbtest/sbtest1.ibd")).unwrap()),
        ("is a link", |data| {
            fs::remove_file(data.join("ibdata1")).unwrap();
            symlink("/etc/passwd", data.join("ibdata1")).unwrap();
        }),
        ("secret was written since", |data| {
            // of the same size, in the same file
            let file = File::options().write(true).open(data.join("../secret")).unwrap();
            file.write_all_at(b"Pass", 0).unwrap();
        }),
        ("secret is another file", |data| {
            let secret = data.join("../secret");
            let modified = secret.metadata().unwrap().modified().unwrap();
            fs::rename(&secret, data.join("../old")).unwrap();
            fs::write(&secret, "pass\n").unwrap();
            File::options().write(true).open(&secret).unwrap().set_modified(modified).unwrap();
        }),
        ("description", |data| fs::write(data.join("../entry.json"), "{").unwrap()),
    ];
    for (word, change) in changes {
        let (_home, store, data) = home();
        let Kept::Yes { id, .. } = keep(&store, &data) else { panic!("not kept") };
        change(&store.folder().join(id).join("data"));
        let why = thrown_away(&store, false);
        assert!(why.contains(word), "{word}: {why}");
        assert!(matches!(keep(&store, &data), Kept::Yes { .. }), "{word}: not kept anew");
    }
}

#[test]
fn other_content_behind_the_same_times_is_noticed_by_verify() {
    let (_home, store, data) = home();
    let Kept::Yes { id, .. } = keep(&store, &data) else { panic!("not kept") };
    assert!(matches!(store.find(&key(), true, &never).unwrap(), Looked::Here(_)));
    // what a disk does that loses a write: the checksum tells it alone
    let file = store.folder().join(id).join("entry.json");
    let mut record: serde_json::Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    record["files"][0]["crc32c"] = json!(1);
    fs::write(&file, record.to_string()).unwrap();
    drop(here(&store));
    assert!(thrown_away(&store, true).contains("ibdata1 has another checksum"));
}

#[test]
fn another_password_behind_the_same_times_is_noticed_and_an_entry_without_its_checksum_is_used() {
    let (_home, store, data) = home();
    let Kept::Yes { id, .. } = keep(&store, &data) else { panic!("not kept") };
    let file = store.folder().join(id).join("entry.json");
    let record: serde_json::Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let mut earlier = record.clone();
    earlier.as_object_mut().unwrap().remove("secret").unwrap();
    fs::write(&file, earlier.to_string()).unwrap();
    assert_eq!(here(&store).secret(), "pass");
    let mut other = record;
    other["secret"]["crc32c"] = json!(1);
    fs::write(&file, other.to_string()).unwrap();
    assert!(thrown_away(&store, false).contains("secret has another checksum"));
}

#[test]
fn a_link_in_the_data_is_refused_and_nothing_is_left() {
    let (_home, store, data) = home();
    symlink("/etc/passwd", data.join("outside")).unwrap();
    let refused = keep_with(&store, &data, &never).unwrap_err();
    assert!(matches!(&refused, Error::Unfit { path, .. } if path.ends_with("outside")), "{refused}");
    assert_eq!(store.list().len() + hidden_names(&store).len(), 0);
}

/// The child: begins to keep, and is killed while it does.
#[test]
fn a_keeper_for_the_kill_test() {
    let Some(home) = std::env::var_os(HALFWAY) else { return };
    let store = Store::open(&Places::below(Path::new(&home))).unwrap();
    let asked = AtomicUsize::new(0);
    // after the first file it copies no further
    let stop = || {
        while asked.fetch_add(1, Ordering::Relaxed) >= 1 {
            std::thread::sleep(Duration::from_secs(60));
        }
        false
    };
    let _ = keep_with(&store, &Path::new(&home).join("server-data"), &stop);
}

#[test]
fn what_a_killed_keeper_left_is_no_entry_and_is_cleared() {
    let (home, store, data) = home();
    let mut keeper = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_keeper_for_the_kill_test"])
        .env(HALFWAY, home.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let begun = wait_until(Duration::from_secs(20), || !hidden_names(&store).is_empty());
    keeper.kill().unwrap();
    keeper.wait().unwrap();
    assert!(begun, "it never began");
    assert!(!hidden_names(&store).is_empty() && store.list().is_empty());
    assert!(matches!(store.find(&key(), false, &never).unwrap(), Looked::Nothing));
    assert!(matches!(keep(&store, &data), Kept::Yes { .. }));
    assert!(hidden_names(&store).is_empty(), "the leftover stays");
    here(&store);
}

#[test]
fn of_two_keepers_of_the_same_data_one_keeps_them() {
    let (_home, store, data) = home();
    let kept = std::thread::scope(|scope| {
        let keepers: Vec<_> = (0..2).map(|_| scope.spawn(|| keep(&store, &data))).collect();
        keepers.into_iter().map(|keeper| keeper.join().unwrap()).collect::<Vec<_>>()
    });
    let count = |is: fn(&Kept) -> bool| kept.iter().filter(|kept| is(kept)).count();
    assert_eq!(count(|kept| matches!(kept, Kept::Yes { .. })), 1, "{kept:?}");
    assert_eq!(count(|kept| matches!(kept, Kept::Already)), 1, "{kept:?}");
    here(&store);
}

#[test]
fn an_interrupted_keeper_leaves_nothing() {
    let (_home, store, data) = home();
    assert!(matches!(keep_with(&store, &data, &|| true), Err(Error::Interrupted)));
    assert_eq!(store.list().len() + hidden_names(&store).len(), 0);
}

#[test]
fn a_purge_frees_all_but_what_somebody_reads() {
    let (_home, store, data) = home();
    let Kept::Yes { bytes, .. } = keep(&store, &data) else { panic!("not kept") };
    let entry = here(&store);
    let purged = store.purge(false, &never).unwrap();
    assert_eq!((purged.removed.len(), purged.left.len()), (0, 1));
    drop(entry);
    let pretended = store.purge(true, &never).unwrap();
    assert_eq!((pretended.removed.len(), store.list().len()), (1, 1));
    let purged = store.purge(false, &never).unwrap();
    assert_eq!((purged.removed[0].taken_bytes, store.list().len()), (bytes, 0));
}

/// On a file system of 64 MiB, in a mount namespace of this thread alone.
#[test]
fn without_room_nothing_is_kept_and_that_is_said() {
    if !is_root() {
        skip!("needs root");
    }
    let ran = std::thread::spawn(|| {
        // SAFETY: no file descriptor is shared or closed by it
        unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) }.ok()?;
        rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).ok()?;
        let home = tempfile::tempdir().unwrap();
        rustix::mount::mount("none", home.path(), "tmpfs", MountFlags::empty(), Some(c"size=64M,mode=700")).ok()?;
        let store = Store::open(&Places::below(home.path())).unwrap();
        let data = filled(home.path());
        let kept = keep(&store, &data);
        let left = store.list().len() + hidden_names(&store).len();
        rustix::mount::unmount(home.path(), rustix::mount::UnmountFlags::DETACH).unwrap();
        Some((kept, left))
    });
    let Some((kept, left)) = ran.join().unwrap() else { skip!("no right to mount") };
    assert!(matches!(&kept, Kept::No(why) if why.contains("are free")), "{kept:?}");
    assert_eq!(left, 0);
}
