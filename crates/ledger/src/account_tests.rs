// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::{
    Basis, Collations, Context, HeapWalk, KeyCacheSeen, Mapping, ProcessSeen, ServerSeen, Session, SharedAllocation,
};
use capability::Flavour;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;
const ARENA: u64 = 0x7f00_0000_0000;

fn mapping(start: u64, length: u64, permissions: &str, path: &str, pss: u64) -> Mapping {
    let anonymous = if path.starts_with('/') { 0 } else { pss };
    let (permissions, path) = (permissions.to_owned(), path.to_owned());
    Mapping { start, end: start + length, permissions, path, rss: pss, pss, anonymous, ..Mapping::default() }
}

fn texts<const N: usize>(pairs: [(&str, &str); N]) -> std::collections::BTreeMap<String, String> {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// 50 MiB of heap, 30 MiB in a mapping, a pool of 128 MiB with 40 resident, a program of 20.
fn mariadb() -> Inventory {
    let mappings = vec![
        Mapping { inode: 7, ..mapping(0x1000, 20 * MIB, "r-xp", "/usr/sbin/mariadbd", 20 * MIB) },
        Mapping { flags: "rd wr dd".into(), ..mapping(0x6000_0000_0000, 128 * MIB, "rw-p", "", 40 * MIB) },
        mapping(ARENA, 64 * MIB, "rw-p", "", 50 * MIB),
        mapping(ARENA + 256 * MIB, 32 * MIB, "rw-p", "", 30 * MIB),
    ];
    let walked = vec![ARENA];
    let heap = HeapWalk { free: 20 * MIB, free_resident: 15 * MIB, resident: 50 * MIB, walked, ..HeapWalk::default() };
    let status = [("VmPTE".to_owned(), MIB)].into();
    let process = ProcessSeen { pid: 5, mappings: Some(mappings), heap: Some(heap), status, ..ProcessSeen::default() };
    let server = ServerSeen {
        variables: texts([("innodb_buffer_pool_size", "134217728"), ("innodb_log_buffer_size", "1048576")]),
        status: texts([("Memory_used", &(141 * MIB).to_string()), ("Innodb_buffer_pool_pages_total", "8112")]),
        performance_schema_bytes: Some(12 * MIB),
        sessions: vec![Session { command: "Sleep".into(), bytes: Some(3 * MIB), ..Session::default() }],
        ..ServerSeen::default()
    };
    Inventory {
        flavour: Some(Flavour::Mariadb),
        version: Some("10.5.9-MariaDB".into()),
        processes: vec![process],
        server: Some(server),
        ..Inventory::default()
    }
}

fn resident(account: &Account, path: &str) -> u64 {
    account.leaves.iter().find(|leaf| leaf.path == path).map_or(0, |leaf| leaf.resident_bytes)
}

fn sums(account: &Account) -> bool {
    let leaves: u64 = account.leaves.iter().map(|leaf| leaf.resident_bytes).sum();
    let rest: i64 = account.unexplained.iter().map(|it| it.bytes).sum();
    signed(leaves) + account.unexplained_bytes == signed(account.kernel_total_bytes)
        && rest == account.unexplained_bytes
}

#[test]
fn each_byte_of_a_mariadb_counts_once() {
    let account = account(&mariadb());
    assert!(sums(&account));
    assert_eq!(account.kernel_total_bytes, 141 * MIB);
    for (path, mib) in [
        ("program/text", 20),
        ("kernel/page_tables", 1),
        ("allocator/retained", 15),
        ("instrumentation/performance_schema", 12),
        ("sessions/idle", 3),
        // Memory_used less the pool, two log buffers and the sessions
        ("server/counted", 141 - 128 - 2 - 3),
    ] {
        assert_eq!(resident(&account, path), mib * MIB, "{path}");
    }
    let pool = resident(&account, "data_cache/buffer_pool") + resident(&account, "data_cache/buffer_pool_overhead");
    assert_eq!(pool, 40 * MIB);
    assert_eq!(account.unexplained_bytes, signed((80 - 15 - 12 - 3 - 8) * MIB));
    assert_eq!(account.unexplained[0].mappings[0].range, format!("{ARENA:x}-{:x}", ARENA + 64 * MIB));
}

#[test]
fn what_nobody_knows_is_unexplained_and_changes_no_leaf() {
    let before = account(&mariadb());
    let mut planted = mariadb();
    let block = mapping(0x7e00_0000_0000, 64 * MIB + 4096, "rw-p", "", 64 * MIB);
    planted.processes[0].mappings.get_or_insert_default().push(block);
    let found = crate::difference(&before, &account(&planted));
    assert_eq!(found.unexplained_bytes, signed(64 * MIB));
    assert!(found.leaves.iter().all(|leaf| leaf.resident_bytes == Some(0)));
}

#[test]
fn a_meter_that_says_too_much_is_scaled_and_keeps_what_it_said() {
    let mut inventory = mariadb();
    let server = inventory.server.get_or_insert_default();
    server.performance_schema_bytes = Some(500 * MIB);
    let account = account(&inventory);
    let leaf = account.leaves.iter().find(|leaf| leaf.path.ends_with("performance_schema")).expect("a leaf");
    assert_eq!(leaf.allocated_bytes, Some(500 * MIB));
    assert!(leaf.resident_bytes < 65 * MIB && sums(&account));
    assert_eq!(account.unexplained_bytes, 0);
    assert_eq!(resident(&account, "allocator/retained"), 15 * MIB, "the walk is not scaled");
}

/// A MariaDB 11.4 whose sessions have each a cache of 96 MiB for the binlog, which they do not use: only `Memory_used` moves.
#[test]
fn blocks_that_nobody_touched_take_nothing_from_any_leaf() {
    let without = account(&mariadb());
    let mut inventory = mariadb();
    let caches = 3 * 96 * MIB;
    let mapping = Mapping { holes: caches, ..mapping(0x7e00_0000_0000, caches, "rw-p", "", 0) };
    let first = &mut inventory.processes[0];
    first.allocator = Some("glibc 2.36".into());
    first.mappings.get_or_insert_default().push(mapping);
    let server = inventory.server.get_or_insert_default();
    server.status.insert("Memory_used".into(), (141 * MIB + caches).to_string());
    let with = account(&inventory);
    let changed = crate::difference(&without, &with);
    assert!(changed.leaves.iter().all(|leaf| leaf.resident_bytes == Some(0)), "{changed:?}");
    assert_eq!((changed.unexplained_bytes, with.overcounted_bytes), (0, 0));
    let counted = with.leaves.iter().find(|leaf| leaf.path == "server/counted").expect("a leaf");
    assert_eq!(counted.allocated_bytes, Some(8 * MIB + caches));
    // a leak beside them comes up in full
    inventory.processes[0]
        .mappings
        .iter_mut()
        .flatten()
        .for_each(|it| it.pss += if it.holes > 0 { 64 * MIB } else { 0 });
    assert_eq!(account(&inventory).unexplained_bytes - with.unexplained_bytes, signed(64 * MIB));
}

/// The mappings do not tell what was touched: another malloc, or a recording of an earlier build.
#[test]
fn what_is_counted_and_not_measured_comes_last_and_may_hide_a_leak() {
    let mut inventory = mariadb();
    let (without, found) = (account(&inventory), Collations { blocks: 1, allocated: 9 * MIB, resident: 9 * MIB });
    inventory.processes[0].collations = Some(found);
    let server = inventory.server.get_or_insert_default();
    server.status.insert("Memory_used".into(), (441 * MIB).to_string());
    let with = account(&inventory);
    for path in ["instrumentation/performance_schema", "sessions/idle", "allocator/retained"] {
        assert_eq!(resident(&with, path), resident(&without, path), "{path}");
    }
    assert_eq!((resident(&with, "metadata/collations"), with.unexplained_bytes), (9 * MIB, 0));
    // 308 MiB are counted, and 80 - 15 - 12 - 3 - 9 are left
    assert_eq!((resident(&with, "server/counted"), with.overcounted_bytes), (41 * MIB, (308 - 41) * MIB));
    let hidden = with.missing.iter().find(|it| it.what == crate::Missing::HIDDEN).expect("it is said");
    assert!(hidden.why.contains("267 MiB more than is resident"), "{hidden:?}");
    assert!(!without.missing.iter().any(|it| it.what == crate::Missing::HIDDEN));
    assert!(crate::difference(&without, &with).read_once().is_empty(), "all was read");
}

/// 300 MiB that nobody uses, and then 40 MiB of them in use, in a MariaDB whose blocks lie in a mapping of no known size.
#[test]
fn a_key_cache_with_a_name_is_resident_as_far_as_it_was_used() {
    let mut inventory = mariadb();
    let without = account(&inventory);
    let hot = KeyCacheSeen { name: "hot".into(), size: 300 * MIB, block: 1024, blocks: 251_808, used: 0 };
    let blocks = 251_808 * 1024;
    let unused = Mapping { holes: blocks, ..mapping(0x7e00_0000_0000, blocks, "rw-p", "", 0) };
    // the descriptors are zeroed when the cache is made
    let descriptors = 300 * MIB - blocks;
    let zeroed = mapping(0x7d00_0000_0000, descriptors, "rw-p", "", descriptors);
    let first = &mut inventory.processes[0];
    first.allocator = Some("glibc 2.36".into());
    first.mappings.get_or_insert_default().extend([unused, zeroed]);
    let server = inventory.server.get_or_insert_default();
    server.key_caches = vec![KeyCacheSeen { name: "default".into(), ..KeyCacheSeen::default() }, hot];
    server.status.insert("Memory_used".into(), (441 * MIB).to_string());
    let unused = account(&inventory);
    let leaf = unused.leaves.iter().find(|leaf| leaf.path == "data_cache/key_cache").expect("a leaf");
    assert_eq!((leaf.resident_bytes, leaf.allocated_bytes), (0, Some(blocks)));
    assert_eq!(resident(&unused, "data_cache/key_cache_descriptors"), descriptors);
    assert_eq!(resident(&unused, "server/counted"), resident(&without, "server/counted"));
    assert_eq!((unused.unexplained_bytes, unused.overcounted_bytes), (without.unexplained_bytes, 0));
    inventory.server.get_or_insert_default().key_caches[1].used = 40 * 1024;
    assert_eq!(resident(&account(&inventory), "data_cache/key_cache"), 40 * MIB);
}

/// MySQL 9.7.4, whose default cache has 8 MiB, after `SET GLOBAL hot.key_buffer_size=300*1024*1024`: its event said 322,965,408 bytes.
#[test]
fn a_key_cache_with_a_name_in_mysql_is_what_the_event_has_beside_the_default() {
    let mut inventory = mariadb();
    (inventory.flavour, inventory.version) = (Some(Flavour::Mysql), Some("9.7.4".into()));
    inventory.processes[0].mappings.get_or_insert_default().push(mapping(
        0x7e00_0000_0000,
        400 * MIB,
        "rw-p",
        "",
        310 * MIB,
    ));
    let server = inventory.server.get_or_insert_default();
    server.variables.insert("key_buffer_size".into(), (8 * MIB).to_string());
    server.status.insert("Key_blocks_used".into(), "0".into());
    server.variables.insert("key_cache_block_size".into(), "1024".into());
    let before = account(&inventory);
    inventory.server.get_or_insert_default().memory_events.insert("memory/mysys/KEY_CACHE".into(), 322_965_408);
    let after = account(&inventory);
    let named = 322_965_408 - 8 * MIB;
    let grown = |path| resident(&after, path) - resident(&before, path);
    // MariaDB says of such a cache that it has 251,808 blocks
    let blocks = grown("data_cache/key_cache");
    assert!(blocks.abs_diff(251_808 * 1024) < 64 << 10, "{blocks}");
    assert_eq!(blocks + grown("data_cache/key_cache_descriptors"), named);
    assert_eq!(before.unexplained_bytes - after.unexplained_bytes, signed(named));
    // where they were not touched, as the default cache, in a hole of tcmalloc's heap, nothing is taken from what nobody names
    let untouched = blocks + 8 * MIB;
    let first = &mut inventory.processes[0];
    first.allocator = Some("tcmalloc".into());
    let hole = Mapping { holes: untouched, ..mapping(0x5000_0000_0000, untouched, "rw-p", "[heap]", 0) };
    first.mappings.get_or_insert_default().push(hole);
    first.heap = Some(HeapWalk { layout: HeapWalk::PAGE_HEAP.into(), ..HeapWalk::default() });
    assert_eq!(resident(&account(&inventory), "data_cache/key_cache"), 0);
}

#[test]
fn events_replace_the_list_of_sessions_and_the_pool_is_never_an_event() {
    let mut inventory = mariadb();
    let server = inventory.server.get_or_insert_default();
    let mib = |count: i64| count << 20;
    server.memory_events = [
        ("memory/sql/THD::main_mem_root".to_owned(), mib(2)),
        ("memory/sql/JOIN_CACHE".to_owned(), mib(4)),
        ("memory/sql/TABLE".to_owned(), mib(-9)),
        ("memory/innodb/buf_buf_pool".to_owned(), mib(128)),
        ("memory/performance_schema/threads".to_owned(), mib(12)),
        ("memory/archive/FRM".to_owned(), mib(1)),
    ]
    .into();
    let account = account(&inventory);
    assert_eq!(resident(&account, "sessions/idle"), 2 * MIB);
    assert_eq!(resident(&account, "sessions/join"), 4 * MIB);
    assert_eq!(resident(&account, "instrumentation/performance_schema"), 12 * MIB);
    assert_eq!(resident(&account, "server/archive"), MIB);
    assert_eq!(resident(&account, "server/counted"), (141 - 128 - 2 - 7) * MIB);
    assert!(sums(&account));
}

/// Figures of a MariaDB 11.4.5 that has just been started: 614 blocks, 85.1 MiB, of which all but little is resident. `Memory_used` does not count them.
#[test]
fn tables_of_collations_are_told_by_the_servers_list_of_blocks() {
    let mut inventory = mariadb();
    let before = account(&inventory);
    let tables = mapping(0x7f19_09cf_c000, 0x4e9_6000, "rw-p", "", 0x4e9_6000);
    let first = &mut inventory.processes[0];
    first.mappings.iter_mut().for_each(|mappings| mappings.push(tables.clone()));
    first.collations = Some(Collations { blocks: 614, allocated: 89_270_792, resident: 82_403_328 });
    let account = account(&inventory);
    let leaf = account.leaves.iter().find(|leaf| leaf.path == "metadata/collations").unwrap();
    assert_eq!((leaf.resident_bytes, leaf.allocated_bytes), (82_403_328, Some(89_270_792)));
    assert_eq!((leaf.basis, account.unexplained_bytes), (Basis::Server, before.unexplained_bytes));
    assert!(sums(&account));
    // another flavour has no such list
    inventory.flavour = Some(Flavour::Mysql);
    assert_eq!(resident(&crate::account(&inventory), "metadata/collations"), 0);
}

/// Two processes share a segment; one of them was read by its mappings, the other by the rollup.
fn postgresql() -> Inventory {
    let segment = |pss| mapping(0x7000_0000_0000, 96 * MIB, "rw-s", "/dev/zero (deleted)", pss);
    let contexts = vec![
        Context { name: "TopMemoryContext".into(), level: 0, allocated: MIB, ..Context::default() },
        Context { name: "CacheMemoryContext".into(), level: 1, allocated: 6 * MIB, ..Context::default() },
    ];
    let first = ProcessSeen {
        pid: 1,
        mappings: Some(vec![mapping(0x5000_0000_0000, 8 * MIB, "rw-p", "[heap]", 4 * MIB), segment(20 * MIB)]),
        contexts: Some(contexts.clone()),
        ..ProcessSeen::default()
    };
    let rollup = [("Pss".to_owned(), 41 * MIB), ("Pss_Shmem".to_owned(), 28 * MIB), ("Pss_File".to_owned(), MIB)];
    let second =
        ProcessSeen { pid: 2, rollup: Some(rollup.into()), contexts: Some(contexts), ..ProcessSeen::default() };
    let allocation = |name: Option<&str>, size| SharedAllocation {
        name: name.map(ToOwned::to_owned),
        offset: None,
        size,
        allocated_size: size,
        touched: None,
    };
    let shared_allocations = vec![
        allocation(Some("Buffer Blocks"), 72 * MIB),
        allocation(Some("<anonymous>"), 16 * MIB),
        allocation(None, 8 * MIB),
    ];
    Inventory {
        flavour: Some(Flavour::Postgresql),
        version: Some("15.4 (Debian 15.4-1)".into()),
        processes: vec![first, second],
        server: Some(ServerSeen { shared_allocations, ..ServerSeen::default() }),
        ..Inventory::default()
    }
}

#[test]
fn shared_memory_of_postgresql_counts_once_and_contexts_are_capped_in_each_process() {
    let account = account(&postgresql());
    assert!(sums(&account));
    assert_eq!(account.kernel_total_bytes, 65 * MIB);
    assert_eq!(resident(&account, "shared_memory/Buffer Blocks"), 36 * MIB);
    assert_eq!(resident(&account, "shared_memory/anonymous"), 8 * MIB);
    assert_eq!(resident(&account, "shared_memory/unused"), 4 * MIB);
    // 4 of 7 MiB of contexts are resident in the first process, 7 of 12 are known in the second
    let contexts = resident(&account, "backends/catalogue_cache") + resident(&account, "backends/top");
    assert_eq!(contexts, 11 * MIB);
    assert_eq!(account.unexplained_bytes, signed(5 * MIB));
    // a leak of the other 3 MiB would not show, which is said
    let is_said = account.missing.iter().any(|it| it.what == crate::Missing::HIDDEN);
    assert_eq!((account.overcounted_bytes, is_said), (3 * MIB, true));
}

#[test]
fn the_leaves_of_each_process_sum_to_its_share() {
    let account = account(&postgresql());
    let [first, second] = &account.processes[..] else { panic!("two processes") };
    let leaves: Vec<(&str, u64)> = first.leaves.iter().map(|it| (it.path.as_str(), it.resident_bytes)).collect();
    let [(catalogue, of_catalogue), (top, of_top), (segment, of_segment)] = leaves[..] else { panic!("{leaves:?}") };
    assert_eq!([catalogue, top, segment], ["backends/catalogue_cache", "backends/top", "shared_memory/main"]);
    assert_eq!((of_catalogue + of_top, of_segment), (4 * MIB, 20 * MIB));
    assert_eq!((first.pss_bytes, first.unexplained_bytes), (24 * MIB, Some(0)));
    // of a process whose mappings were not read, nobody knows it
    assert_eq!((&second.leaves[..], second.unexplained_bytes), (&[][..], None));
}

/// Of the first process, 4 of 4 MiB of private memory are in its contexts.
#[test]
fn what_backends_have_that_were_not_read_is_for_what_those_of_their_role_have() {
    let mut inventory = postgresql();
    let status = [("RssAnon".to_owned(), 3 * MIB), ("VmRSS".to_owned(), 3 * MIB)].into();
    inventory.processes.push(ProcessSeen { pid: 3, status, ..ProcessSeen::default() });
    let before = account(&postgresql());
    let account = account(&inventory);
    let contexts =
        |account: &Account| resident(account, "backends/catalogue_cache") + resident(account, "backends/top");
    let estimated = account.estimates.estimated_bytes;
    assert!((MIB..=3 * MIB).contains(&estimated), "{estimated}");
    assert!((contexts(&account) - contexts(&before)).abs_diff(estimated) <= 2, "{account:?}");
    assert_eq!(resident(&account, "backends/top") - resident(&before, "backends/top"), estimated / 7);
    assert!(sums(&account));
    // of another role nothing is known, nor of one that was read and whose contexts did not verify
    inventory.processes[2].role = "checkpointer".into();
    assert_eq!(contexts(&crate::account(&inventory)), contexts(&before));
    inventory.processes[2].role = String::new();
    inventory.processes[0].contexts = None;
    let without = crate::account(&inventory);
    assert_eq!(contexts(&without), 7 * MIB, "those of the second alone");
}

#[test]
fn huge_pages_that_many_processes_map_count_once() {
    let segment = |touched| Mapping {
        inode: 9,
        device: "00:0f".into(),
        shared_hugetlb: touched,
        ..mapping(0x7000_0000_0000, 96 * MIB, "rw-s", "/anon_hugepage (deleted)", 0)
    };
    let process = |touched| ProcessSeen { mappings: Some(vec![segment(touched)]), ..ProcessSeen::default() };
    let mut inventory = postgresql();
    inventory.processes = vec![process(48 * MIB), process(24 * MIB), process(2 * MIB)];
    let account = account(&inventory);
    assert_eq!((account.kernel_total_bytes, account.unexplained_bytes), (48 * MIB, 0));
    assert_eq!(resident(&account, "huge_pages/shared_memory/Buffer Blocks"), 36 * MIB);
    assert_eq!(account.uncertainty_bytes, 26 * MIB, "they may have touched different pages");
}

#[test]
fn without_sql_the_kernel_names_what_it_can() {
    let mut inventory = mariadb();
    (inventory.server, inventory.flavour, inventory.version) = (None, None, None);
    let account = account(&inventory);
    assert_eq!(resident(&account, "program/text"), 20 * MIB);
    assert_eq!(account.unexplained_bytes, signed((40 + 80 - 15) * MIB));
    assert!(sums(&account));
}

#[test]
fn the_rollup_is_the_total_and_what_mappings_lack_is_rounding() {
    let mut inventory = mariadb();
    inventory.processes[0].rollup = Some([("Pss".to_owned(), 140 * MIB + 8192)].into());
    let account = account(&inventory);
    assert_eq!(account.kernel_total_bytes, 141 * MIB + 8192);
    assert_eq!(account.unexplained.last().map(|it| (it.class.as_str(), it.bytes)), Some(("rounding", 8192)));
    assert!(sums(&account) && account.uncertainty_bytes == 8192);
}

#[test]
fn json_has_the_promised_keys() {
    let json = serde_json::to_value(account(&mariadb())).expect("JSON");
    let keys = "kernel_total_bytes explained_share unexplained_bytes uncertainty_bytes leaves processes probes missing";
    keys.split(' ').for_each(|key| assert!(!json[key].is_null(), "{key}"));
    assert_eq!(
        (&json["leaves"][0]["path"], &json["leaves"][0]["basis"]),
        (&"allocator/retained".into(), &"allocator".into())
    );
}

prop_compose! {
    fn any_mapping()(
        start in 0u64..1 << 30, length in prop_oneof![1u64..1 << 20, Just(128 << 10), any::<u64>()],
        permissions in prop::sample::select(vec!["rw-p", "r-xp", "rw-s", "---p"]),
        path in prop::sample::select(vec!["", "[heap]", "/lib/libc.so", "/dev/zero (deleted)", "/anon_hugepage (deleted)", "[stack]", "/SYSV01"]),
        pss in prop_oneof![0u64..64 << 20, any::<u64>()], rss in any::<u64>(), inode in 0u64..3, huge in 0u64..8 << 20,
        flags in prop::sample::select(vec!["", "dd", "nh gu", "ht"]),
    ) -> Mapping {
        let end = (start << 12).saturating_add(length);
        Mapping {
            start: start << 12, end, permissions: permissions.into(), path: path.into(), rss, pss, inode, anonymous: pss / 2,
            private_hugetlb: huge, flags: flags.into(), ..Mapping::default()
        }
    }
}

prop_compose! {
    fn any_process()(
        mappings in prop::option::of(prop::collection::vec(any_mapping(), 0..12)),
        rollup in prop::option::of((any::<u64>(), any::<u64>())), status in any::<[u64; 4]>(),
        walk in prop::option::of((any::<u64>(), any::<u64>())), contexts in prop::collection::vec((0u32..4, any::<u64>()), 0..5),
        role in prop::sample::select(vec!["a", "b"]),
    ) -> ProcessSeen {
        let rollup = rollup.map(|(pss, file)| [("Pss".to_owned(), pss), ("Pss_File".to_owned(), file)].into());
        let names = ["RssAnon", "RssShmem", "VmPTE", "HugetlbPages"].map(ToOwned::to_owned);
        let heap = walk.map(|(free, free_resident)| HeapWalk { free, free_resident, ..HeapWalk::default() });
        let context = |(level, allocated)| Context { name: "CacheMemoryContext".into(), level, allocated, ..Context::default() };
        let contexts = Some(contexts.into_iter().map(context).collect());
        let status = names.into_iter().zip(status).collect();
        ProcessSeen { role: role.into(), mappings, rollup, status, heap, contexts, ..ProcessSeen::default() }
    }
}

prop_compose! {
    fn any_inventory()(
        processes in prop::collection::vec(any_process(), 0..5),
        flavour in prop::option::of(prop::sample::select(Flavour::ALL.to_vec())),
        version in prop::sample::select(vec!["10.11.19-MariaDB", "9.7.4", "15.4", "nonsense"]),
        sizes in any::<[u64; 5]>(), events in any::<[i64; 3]>(), allocated in any::<[u64; 2]>(),
    ) -> Inventory {
        let names = ["innodb_buffer_pool_size", "key_buffer_size", "innodb_log_buffer_size", "innodb_buffer_pool_chunk_size", "innodb_page_size"];
        let variables = names.iter().zip(sizes).map(|(name, size)| ((*name).to_owned(), size.to_string())).collect();
        let status = ["Memory_used", "Innodb_buffer_pool_bytes_data", "Key_blocks_used", "Innodb_mem_adaptive_hash"];
        let status = status.iter().zip(sizes).map(|(name, size)| ((*name).to_owned(), size.to_string())).collect();
        let names = ["memory/sql/TABLE", "memory/new/thing", "memory/innodb/hash0hash"].map(ToOwned::to_owned);
        let shared = allocated.map(|size| SharedAllocation { size, allocated_size: size, ..SharedAllocation::default() });
        let server = ServerSeen {
            variables, status, memory_events: names.into_iter().zip(events).collect(), shared_allocations: shared.to_vec(),
            ..ServerSeen::default()
        };
        Inventory { processes, flavour, version: Some(version.into()), server: Some(server), ..Inventory::default() }
    }
}

/// Texts as the kernel and a server give them, with something damaged in each.
fn from_texts(smaps: &str, status: &str, innodb: &str) -> Inventory {
    let process = ProcessSeen {
        mappings: Some(crate::mapping::mappings(smaps)),
        status: crate::mapping::sizes(status),
        ..ProcessSeen::default()
    };
    let server = ServerSeen { innodb_memory: Some(innodb.to_owned()), ..ServerSeen::default() };
    Inventory {
        processes: vec![process],
        server: Some(server),
        flavour: Some(Flavour::Mariadb),
        ..Inventory::default()
    }
}

fn damaged(text: &str, at: usize, with: &str) -> String {
    let at = at % (text.len() + 1);
    format!("{}{with}{}", &text[..at], &text[at..])
}

proptest! {
    #[test]
    fn damaged_texts_have_an_account_that_sums(at in any::<[u16; 3]>(), with in "[0-9a-f: kB\n-]{0,24}") {
        let smaps = "1000-9000 rw-p 00000000 00:00 0 [heap]\nRss: 32 kB\nPss: 32 kB\nVmFlags: rd wr\n\
            7f00aa000000-7f00aa200000 rw-s 00001000 00:0f 77 /anon_hugepage (deleted)\nShared_Hugetlb: 2048 kB\n";
        let status = "VmRSS: 32 kB\nRssAnon: 32 kB\nVmPTE: 8 kB\nHugetlbPages: 2048 kB\n";
        let innodb = "Adaptive hash index 2250352 (2213368 + 36984)\nLock system 334000 (332872 + 1128)\n";
        let [first, second, third] = at.map(usize::from);
        let inventory = from_texts(&damaged(smaps, first, &with), &damaged(status, second, &with), &damaged(innodb, third, &with));
        let account = account(&inventory);
        prop_assert!(sums(&account));
        prop_assert!(account.explained_share.is_none_or(|share| share >= 0.0));
    }

    #[test]
    fn any_inventory_has_an_account_that_sums(inventory in any_inventory()) {
        let account = account(&inventory);
        prop_assert!(sums(&account));
        prop_assert!(account.explained_share.is_none_or(|share| share >= 0.0));
        let private: i64 = account.unexplained.iter().filter(|it| it.class == "private").map(|it| it.bytes).sum();
        prop_assert!(private >= 0, "more leaves than memory: {private}");
        crate::oom(&inventory);
    }
}
