// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::{HeapWalk, Inventory, ServerSeen};

fn text(lines: &[&str]) -> Vec<Mapping> {
    crate::mapping::mappings(&lines.join("\n"))
}

fn inventory(lines: &[&str], variables: &[(&str, &str)], flavour: Flavour) -> Inventory {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Inventory {
        flavour: Some(flavour),
        processes: vec![ProcessSeen { mappings: Some(text(lines)), ..ProcessSeen::default() }],
        server: Some(ServerSeen { variables, ..ServerSeen::default() }),
        ..Inventory::default()
    }
}

fn classes_of(inventory: &Inventory) -> Vec<Class> {
    classes(&inventory.processes[0], inventory)
}

#[test]
fn a_mariadb_with_the_reservation() {
    let lines = [
        "550000000000-550000010000 r-xp 00000000 fe:00 9 /usr/sbin/mariadbd",
        "550000010000-550000020000 rw-p 00010000 fe:00 9 /usr/sbin/mariadbd",
        "550000020000-550000090000 rw-p 00000000 00:00 0 ",
        "550001000000-550001100000 rw-p 00000000 00:00 0 [heap]",
        "700000000000-700010000000 rw-p 00000000 00:00 0 ",
        "VmFlags: rd wr mr mw me dd",
        "700010000000-780000000000 ---p 00000000 00:00 0 ",
        "7f0000000000-7f0000200000 rw-p 00000000 00:00 0 ",
        "7f0000200000-7f0004000000 ---p 00000000 00:00 0 ",
        "7f0010000000-7f0010001000 ---p 00000000 00:00 0 ",
        "7f0010001000-7f0010050000 rw-p 00000000 00:00 0 ",
        "7f0020000000-7f0022000000 rw-p 00000000 00:00 0 ",
        "VmFlags: rd wr dd",
        "7f0030000000-7f0034000000 rw-p 00000000 00:00 0 ",
    ];
    let variables = [("innodb_buffer_pool_size", "268435456"), ("innodb_log_buffer_size", "16777216")];
    let mut inventory = inventory(&lines, &variables, Flavour::Mariadb);
    // data that nobody wrote yet is text to the rule; what follows it is bss all the same
    use Class::*;
    let expected = [
        ProgramText,
        ProgramText,
        ProgramData,
        Heap,
        BufferPool,
        Reserved,
        Heap,
        Reserved,
        Reserved,
        Stack,
        LogBuffer,
        Anonymous,
    ];
    // the last mapping begins and is as large as an arena, and no walk says otherwise
    assert_eq!(classes_of(&inventory)[..11], expected[..11]);
    inventory.processes[0].heap = Some(HeapWalk { walked: vec![0x7f00_0000_0000], ..HeapWalk::default() });
    assert_eq!(classes_of(&inventory), expected);
}

/// Of Debian's MariaDB 10.11.19: 8.5 MiB of zeroed data lie behind two pages that are protected after relocation.
#[test]
fn zeroed_data_behind_a_protected_page_is_the_programs() {
    let lines = [
        "564799c7e000-564799d6e000 rw-p 017dd000 fe:00 9 /usr/sbin/mariadbd",
        "Rss: 476 kB",
        "Anonymous: 476 kB",
        "564799d6e000-564799d70000 r--p 018cd000 fe:00 9 /usr/sbin/mariadbd",
        "Rss: 8 kB",
        "Anonymous: 8 kB",
        "564799d70000-56479a648000 rw-p 00000000 00:00 0 ",
        "Rss: 8704 kB",
    ];
    let mut seen = inventory(&lines, &[], Flavour::Mariadb);
    use Class::*;
    assert_eq!(classes_of(&seen), [ProgramData, ProgramData, ProgramData]);
    // behind a page of the file that nobody wrote, it is not known whose it is
    seen.processes[0].mappings.iter_mut().flatten().for_each(|it| it.anonymous = 0);
    assert_eq!(classes_of(&seen)[2], Anonymous);
}

#[test]
fn chunks_of_mysql_by_size_and_not_more_than_there_are() {
    let chunk = 134_020_u64 << 10;
    let at = |start: u64, length: u64| format!("{start:x}-{:x} rw-p 00000000 00:00 0 ", start + length);
    let lines = [
        at(0x7000_0000_1000, 2 * chunk),
        at(0x7100_0000_1000, chunk),
        at(0x7200_0000_1000, 64 << 20),
        at(0x7300_0000_1000, 200 << 20),
    ];
    let variables = [("innodb_buffer_pool_size", "268435456"), ("innodb_buffer_pool_chunk_size", "134217728")];
    let inventory = inventory(&lines.each_ref().map(String::as_str), &variables, Flavour::Mysql);
    use Class::*;
    assert_eq!(classes_of(&inventory), [BufferPool, Anonymous, Anonymous, Anonymous]);
}

/// Of MariaDB 10.11.19, whose Aria cache has a mapping of 128,180,224 bytes. Blocks of a MEMORY table that the kernel merged were as large as
/// 128 MiB.
#[test]
fn a_memory_table_of_about_its_size_is_not_arias_cache() {
    let at = |start: u64, length: u64| format!("{start:x}-{:x} rw-p 00000000 00:00 0 ", start + length);
    let lines = [
        at(0x7f5f_b000_1000, 128_180_224),
        at(0x7f5f_c000_1000, 128 << 20),
        at(0x7f5f_d000_1000, 109_735_936),
        at(0x7f5f_e000_1000, 112 << 20),
    ];
    let variables = [
        ("aria_pagecache_buffer_size", "134217728"),
        ("aria_block_size", "8192"),
        ("key_buffer_size", "134217728"),
        ("key_cache_block_size", "1024"),
        ("version", "10.11.19-MariaDB-0+deb12u1"),
    ];
    let inventory = inventory(&lines.each_ref().map(String::as_str), &variables, Flavour::Mariadb);
    use Class::*;
    assert_eq!(classes_of(&inventory), [AriaCache, Anonymous, KeyCache, Anonymous]);
}

/// Of MariaDB 11.4.5: 64 chunks of 2 MiB in three mappings that are kept out of dumps, two log buffers, and Aria's cache with its descriptors, which is as large as
/// 63 chunks.
#[test]
fn chunks_of_mariadb_are_those_that_are_kept_out_of_dumps() {
    let at = |start: u64, length: u64| format!("{start:x}-{:x} rw-p 00000000 00:00 0 ", start + length);
    let (dumped, kept) = ("VmFlags: rd wr mr mw me ac".to_owned(), "VmFlags: rd wr mr mw me ac dd".to_owned());
    let mapped = [
        (33_554_432, &kept),
        (111_149_056, &kept),
        (2_097_152, &kept),
        (134_213_632, &dumped),
        (20_971_520, &kept),
        (142_774_272, &dumped),
        (4_198_400, &dumped),
    ];
    let lines: Vec<String> = (0x7faf_0000_1000..)
        .step_by(1 << 30)
        .zip(mapped)
        .flat_map(|(start, (length, flags))| [at(start, length), flags.clone()])
        .collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let variables = [
        ("innodb_buffer_pool_size", "134217728"),
        ("innodb_buffer_pool_chunk_size", "2097152"),
        ("innodb_log_buffer_size", "16777216"),
    ];
    let inventory = inventory(&lines, &variables, Flavour::Mariadb);
    use Class::*;
    let expected = [LogBuffer, BufferPool, BufferPool, Anonymous, BufferPool, Anonymous, Anonymous];
    assert_eq!(classes_of(&inventory), expected);
}

/// Of MySQL 9.7.4 with jemalloc: a mapping of jemalloc's is a little larger than the pool's chunk with its descriptors.
#[test]
fn what_jemalloc_maps_is_not_the_pool_of_mysql() {
    let at = |start: u64, length: u64| format!("{start:x}-{:x} rw-p 00000000 00:00 0 ", start + length);
    let mapped =
        [(163_577_856, "nr"), (137_236_480, "ac"), (111_149_056, "nr"), (138_412_032, "nr"), (193_986_560, "nr")];
    let lines: Vec<String> = (0x7f1b_0000_0000..)
        .step_by(1 << 30)
        .zip(mapped)
        .flat_map(|(start, (length, flag))| [at(start, length), format!("VmFlags: rd wr mr mw me {flag}")])
        .collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let variables = [("innodb_buffer_pool_size", "134217728"), ("innodb_buffer_pool_chunk_size", "134217728")];
    let inventory = inventory(&lines, &variables, Flavour::Mysql);
    use Class::*;
    assert_eq!(classes_of(&inventory), [Anonymous, BufferPool, Anonymous, Anonymous, Anonymous]);
}

/// Of MariaDB 11.4.5 with a pool that is as large as two log buffers: the pool lies above.
#[test]
fn of_two_mappings_that_are_as_large_as_the_pool_the_first_one_mapped_is_the_pool() {
    let kept = "VmFlags: rd wr mr mw me ac dd";
    let lines = [
        "7fed26000000-7fed28000000 rw-p 00000000 00:00 0 ",
        kept,
        "7fed351be000-7fed371be000 rw-p 00000000 00:00 0 ",
        kept,
    ];
    let variables = [
        ("innodb_buffer_pool_size", "33554432"),
        ("innodb_buffer_pool_chunk_size", "2097152"),
        ("innodb_log_buffer_size", "16777216"),
    ];
    assert_eq!(classes_of(&inventory(&lines, &variables, Flavour::Mariadb)), [Class::LogBuffer, Class::BufferPool]);
}

/// XtraDB in MariaDB 10.1.23 under load. Its variable says 8 instances, and jemalloc had a mapping of 36 MiB, as two instances of 16 MiB with descriptors could have.
#[test]
fn a_pool_that_the_server_counts_is_not_looked_for_by_its_chunks() {
    let at = |start: u64, length: u64| format!("{start:x}-{:x} rw-p 00000000 00:00 0 ", start + length);
    let lines = [at(0x7f77_8f00_1000, 144_769_024), at(0x7f77_9840_0000, 36 << 20)];
    let variables = [("innodb_buffer_pool_size", "134217728"), ("innodb_buffer_pool_instances", "8")];
    let mut inventory = inventory(&lines.each_ref().map(String::as_str), &variables, Flavour::Mariadb);
    use Class::*;
    assert_eq!(
        classes_of(&inventory),
        [Anonymous, Anonymous],
        "below 1 GiB there is one instance, and no chunk of it is so small"
    );
    server_with(&mut inventory, &variables, "140574720");
    assert_eq!(classes_of(&inventory), [Anonymous, Anonymous], "it is merged with other memory");
    inventory.processes[0].mappings.iter_mut().flatten().for_each(|it| it.end = it.start + 140_574_720);
    inventory.processes[0].mappings.iter_mut().for_each(|mappings| mappings.truncate(1));
    assert_eq!(classes_of(&inventory), [BufferPool]);
    // from 1 GiB on each instance has its own, and two that lie side by side are merged
    let large = [("innodb_buffer_pool_size", "1073741824"), ("innodb_buffer_pool_instances", "8")];
    server_with(&mut inventory, &large, "1124597760");
    assert_eq!(classes_of(&inventory), [BufferPool], "an eighth of it");
}

fn server_with(inventory: &mut Inventory, variables: &[(&str, &str)], counted: &str) {
    let server = inventory.server.as_mut().expect("a server");
    server.variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    server.status = [("Innodb_mem_total".to_owned(), counted.to_owned())].into();
}

#[test]
fn shared_memory_of_postgresql() {
    let lines = [
        "7f0000000000-7f0020000000 rw-s 00000000 00:01 1029 /dev/zero (deleted)",
        "7f0030000000-7f0030100000 rw-s 00000000 00:19 4 /dev/shm/PostgreSQL.1804",
        "7f0040000000-7f0040001000 rw-s 00000000 00:01 3 /SYSV0052e2c1 (deleted)",
        "7f0050000000-7f0060000000 rw-s 00000000 00:0f 5 /anon_hugepage (deleted)",
        "7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]",
        "7ffd00030000-7ffd00032000 r-xp 00000000 00:00 0 [vdso]",
    ];
    let inventory = inventory(&lines, &[], Flavour::Postgresql);
    use Class::*;
    assert_eq!(classes_of(&inventory), [MainShared, DynamicShared, DynamicShared, HugePages, Stack, Special]);
}
