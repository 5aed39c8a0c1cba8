// SPDX-License-Identifier: Apache-2.0
//! Inventories of a MariaDB: its pool fills, its sessions come and go, one of its parts leaks, and it reserves 8 TiB.

use super::Dice;
use evidence::{Arm, Format, Snapshot};
use ledger::{HeapWalk, HostSeen, Inventory, Mapping, ProcessSeen, ServerSeen, Session};

const MIB: f64 = 1048576.0;
const SECOND: u64 = 1_000_000;

fn bytes(mib: f64) -> u64 {
    (mib * 256.0).max(0.0) as u64 * 4096
}

/// One a second from the first to the last second of an arm.
pub fn inventories(arm: &Arm, leak_mib_an_hour: f64) -> Vec<Snapshot> {
    let mut dice = Dice::new(arm.started_us);
    let pid = 4000 + (arm.started_us / SECOND) as u32;
    let seconds = (arm.ended_us - arm.started_us) / SECOND;
    let taken = |second: u64| {
        let at = second as f64 / seconds as f64;
        let leaked = leak_mib_an_hour * second as f64 / 3600.0;
        Snapshot {
            at_us: arm.started_us + second * SECOND,
            arm: Some(arm.name.clone()),
            source: evidence::INVENTORY.into(),
            entity: String::new(),
            format: Format::Json,
            content: serde_json::to_string(&inventory(pid, at, leaked, &mut dice)).expect("JSON"),
        }
    };
    (0..=seconds).map(taken).collect()
}

fn mapping(start: u64, length: u64, permissions: &str, path: &str, rss: u64) -> Mapping {
    let is_file = path.starts_with('/');
    Mapping {
        start,
        end: start + length,
        permissions: permissions.into(),
        path: path.into(),
        inode: u64::from(is_file),
        flags: if length == 512 << 20 { "rd wr dd".into() } else { String::new() },
        rss,
        pss: rss,
        anonymous: if is_file { 0 } else { rss },
        ..Mapping::default()
    }
}

fn inventory(pid: u32, at: f64, leaked: f64, dice: &mut Dice) -> Inventory {
    let tooth = (at * 6.0).fract();
    let (prepared, sorts, tables) = (22.0 + leaked, 6.0 + 24.0 * tooth + 2.0 * dice.uniform(), 45.0);
    let (events, unnamed, free) = (60.0, 14.0 + dice.uniform(), 12.0 + 14.0 * (1.0 - tooth));
    let pool = 512.0 * (at * 1.6).min(1.0);
    let used = bytes(prepared) + bytes(sorts) + bytes(tables) + bytes(events) + bytes(unnamed);
    let heap = used + bytes(free);
    let mappings = vec![
        mapping(0x5500_0000_0000, 1 << 32, "rw-p", "[heap]", heap),
        mapping(0x6000_0000_0000, 512 << 20, "rw-p", "", bytes(pool)),
        mapping(0x6000_2000_0000, 8 << 40, "---p", "", 0),
        mapping(0x7000_0000_0000, 30 << 20, "r-xp", "/usr/sbin/mariadbd", 17 << 20),
    ];
    let walk = HeapWalk {
        used,
        free: bytes(free),
        free_resident: bytes(free),
        resident: heap,
        walked: vec![0x5500_0000_0000],
        ..HeapWalk::default()
    };
    let rss = heap + bytes(pool) + (17 << 20);
    let status = [("VmRSS", rss), ("VmSize", (8 << 40) + (1700 << 20) + heap), ("VmPTE", rss / 512), ("VmSwap", 0)];
    let process = ProcessSeen {
        pid,
        role: "mariadbd".into(),
        status: status.map(|(name, bytes)| (name.to_owned(), bytes)).into(),
        mappings: Some(mappings),
        heap: Some(walk),
        ..ProcessSeen::default()
    };
    let event = |name: &str, mib: f64| (name.to_owned(), i64::try_from(bytes(mib)).expect("some MiB"));
    let server = ServerSeen {
        variables: [("innodb_buffer_pool_size".to_owned(), (512u64 << 20).to_string())].into(),
        memory_events: [
            event("memory/sql/Prepared_statement::main_mem_root", prepared),
            event("memory/sql/Filesort_buffer::sort_keys", sorts),
            event("memory/sql/TABLE", tables),
            event("memory/performance_schema/threads", events),
        ]
        .into(),
        sessions: vec![Session::default(); 20],
        ..ServerSeen::default()
    };
    let available = 6.0 * 1024.0 - rss as f64 / MIB;
    let meminfo = [("MemAvailable", bytes(available)), ("SwapTotal", 2 << 30), ("SwapFree", 2 << 30)];
    let meminfo = meminfo.map(|(name, bytes)| (name.to_owned(), bytes)).into();
    Inventory {
        flavour: serde_json::from_value("mysql".into()).expect("a flavour"),
        version: Some("5.6.51".into()),
        processes: vec![process],
        server: Some(server),
        host: HostSeen { meminfo, ..HostSeen::default() },
        ..Inventory::default()
    }
}
