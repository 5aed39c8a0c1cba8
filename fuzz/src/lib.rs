// SPDX-License-Identifier: Apache-2.0
//! What each fuzz target does with its bytes.

use capability::Flavour;
use heap::{Format, Holdings, NoSymbols, Outline};
use ledger::{Assumed, Inventory, KernelLine, ProcessSeen, ServerSeen};
use report::{HeapPage, HeapProfile, HeapTimes};

/// All that can be asked of a file of this format; others are not looked at.
pub fn read_all(bytes: &[u8], format: Format) {
    if Format::of(bytes) == Some(format) {
        let _ = read_plain(|| Ok(Box::new(bytes)));
    }
    if format == Format::Massif {
        let _ = heap::ms_print::print(bytes, || Ok(bytes), &heap::ms_print::Options::default(), &mut std::io::sink());
    }
}

/// The same of a compressed file.
pub fn read_compressed(bytes: &[u8]) {
    let _ = read_plain(|| Ok(heap::plain(bytes)?));
}

fn read_plain<'a>(open: impl Fn() -> Result<Box<dyn std::io::Read + 'a>, heap::Error>) -> Result<(), heap::Error> {
    let outline = Outline::read(open()?)?;
    let places: Vec<usize> = outline.with_trees().collect();
    let (mut before, mut growth) = (Holdings::default(), Vec::new());
    let (mut held, mut flames) = (Vec::new(), Vec::new());
    heap::each_tree(open()?, &outline, &places, &mut NoSymbols, &mut |_, tree| {
        let _ = heap::folded::write(&tree, &mut std::io::sink());
        flames = heap::flame::flames(&tree, 0);
        tree.asked_below(&|function| function.starts_with('f'));
        let holdings = Holdings::of(&tree);
        holdings.subsystems();
        growth = heap::growth(&before, &holdings);
        before = holdings.clone();
        // the page has a hundred of them at most
        if held.len() < 100 {
            held.push(HeapTimes { at: tree.snapshot.time, holdings });
        }
    })?;
    let totals = outline.snapshots.iter().map(|it| (it.time, it.total_bytes().unwrap_or(u64::MAX))).collect();
    let profile = HeapProfile {
        name: "fuzzed".to_owned(),
        format: outline.format.name(),
        command: outline.command.as_ref().map(|it| String::from_utf8_lossy(it).into_owned()),
        time_unit: outline.time_unit,
        totals,
        held,
        growth,
        flames,
        flames_of: HeapProfile::time_of(outline.time_unit, 0),
        notes: Vec::new(),
    };
    let page = HeapPage { version: "0".to_owned(), profiles: vec![profile] };
    Ok(report::write_heap_html(&page, &mut std::io::sink())?)
}

/// A process's smaps, and the account of a server that consists of it.
pub fn read_smaps(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (mappings, rollup) = (ledger::mapping::mappings(&text), ledger::mapping::sizes(&text));
    let process = ProcessSeen { mappings: Some(mappings), rollup: Some(rollup), ..ProcessSeen::default() };
    reckon(process, None);
}

/// "BUFFER POOL AND MEMORY" of SHOW ENGINE INNODB STATUS, and the account with it.
pub fn read_innodb_status(bytes: &[u8]) {
    let innodb_memory = Some(String::from_utf8_lossy(bytes).into_owned());
    reckon(ProcessSeen::default(), Some(ServerSeen { innodb_memory, ..ServerSeen::default() }));
}

fn reckon(process: ProcessSeen, server: Option<ServerSeen>) {
    for flavour in [Flavour::Mariadb, Flavour::Mysql, Flavour::Percona, Flavour::Postgresql] {
        let inventory = Inventory {
            flavour: Some(flavour),
            page_bytes: 4096,
            processes: vec![process.clone()],
            server: server.clone(),
            ..Inventory::default()
        };
        ledger::account(&inventory);
        ledger::worst_case(&inventory, &Assumed::default());
    }
}

/// Lines of the kernel's log.
pub fn read_kernel_log(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<KernelLine> =
        text.lines().map(|line| KernelLine { text: line.to_owned(), ..KernelLine::default() }).collect();
    lines.iter().for_each(|line| _ = ledger::is_of_a_kill(&line.text));
    ledger::last_kill(&lines);
}

/// A server's log, entry by entry; the longest statement that is kept has 1000 bytes.
pub fn read_log(bytes: &[u8]) {
    if let Ok(Some(log)) = logs::open_timed(bytes, 1000) {
        log.take_while(Result::is_ok).for_each(drop);
    }
    let _ = logs::read(bytes);
}
