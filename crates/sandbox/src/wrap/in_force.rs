// SPDX-License-Identifier: Apache-2.0
//! The part of the wrapping that is in force: read from the kernel and the server, not from the asked values.

use super::{HugePages, MallocStart, Thp, Valgrind, Wrapping};
use crate::{Error, Sandbox};
use capability::{Capability, MallocKind, words};
use std::path::Path;
use units::{Bytes, MapsLine};

/// One asked wrapping, and the part of it that is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Got {
    pub what: &'static str,
    pub asked: String,
    /// The value in force, with the place where it was read.
    pub got: String,
    pub is_as_asked: bool,
}

impl Wrapping {
    pub(crate) fn got(&self, sandbox: &Sandbox, pid: u32) -> Vec<Got> {
        let malloc = self.malloc.as_ref().map(|asked| of_malloc(asked, sandbox, pid));
        let environment = (!self.environment.is_empty()).then(|| of_environment(&self.environment, pid));
        let thp = self.thp.map(|asked| of_thp(asked, pid));
        let valgrind = self.valgrind.map(|asked| of_valgrind(asked, sandbox, pid));
        let huge_pages = self.huge_pages.map(|asked| of_huge_pages(asked, sandbox, pid));
        [malloc, environment, thp, valgrind, huge_pages].into_iter().flatten().collect()
    }
}

/// The process shows which malloc serves; the heap's shape and the server's own report are further witnesses, and a difference is reported as a
/// doubt.
fn of_malloc(asked: &MallocStart, sandbox: &Sandbox, pid: u32) -> Got {
    let serving = malloc::serving(pid);
    let mut told = vec![match &serving.file {
        Some(file) if !asked.is_served_by(&serving) || asked.library.is_none() => {
            format!("{}: {}", file.display(), serving.evidence)
        }
        _ => serving.evidence.clone(),
    }];
    told.extend(serving.operator_new.iter().map(|other| format!("C++'s operator new is served by {other}")));
    let doubt = malloc::shape(pid).and_then(|shape| shape.doubt(&serving));
    told.extend(doubt.map(|why| format!("{}{why}", MallocKind::DOUBT)));
    if let Some(word) = word_of(sandbox) {
        let fits = MallocKind::fits_word(serving.kind, &word) || !serving.is_known();
        let doubt = if fits { "" } else { MallocKind::DOUBT };
        told.push(format!("{doubt}the server says {word}"));
    }
    if !serving.idle.is_empty() {
        told.push(format!("{} is mapped as well and serves nothing", serving.idle.join(", ")));
    }
    told.push(asked.preloaded());
    Got {
        what: "malloc",
        asked: asked.described(),
        got: format!("{} ({})", serving.name, told.join(MallocKind::PIECES)),
        is_as_asked: asked.is_served_by(&serving),
    }
}

/// The server's own report of its malloc, if it has a variable for that. This is no proof: the server looks for functions of mapped libraries, and
/// not for the library that serves.
fn word_of(sandbox: &Sandbox) -> Option<String> {
    let installation = &sandbox.manifest.installation;
    let variable = *words(Capability::MallocLibrary, installation.flavour, &installation.version).first()?;
    let query = format!("SHOW GLOBAL VARIABLES LIKE '{variable}'");
    let rows = sandbox.talk(|connection| connection.query(&query)).ok()?;
    rows.text(0, 1).map(|word| word.to_owned())
}

/// The environment with which the process was started.
fn of_environment(asked: &[(String, String)], pid: u32) -> Got {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let entries: Vec<&[u8]> = environment.split(|byte| *byte == 0).collect();
    let pairs: Vec<String> = asked.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let is_there = |pair: &&String| entries.contains(&pair.as_bytes());
    let missing: Vec<&str> = pairs.iter().filter(|pair| !is_there(pair)).map(String::as_str).collect();
    let got = if missing.is_empty() { "so".to_owned() } else { format!("without {}", missing.join(" ")) };
    Got {
        what: "environment",
        asked: pairs.join(" "),
        got: format!("{got} (/proc/{pid}/environ)"),
        is_as_asked: missing.is_empty(),
    }
}

fn of_thp(asked: Thp, pid: u32) -> Got {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let enabled = status.lines().find_map(|line| line.strip_prefix("THP_enabled:")).map(str::trim);
    let (got, is_as_asked) = match (enabled, asked) {
        (Some("0"), _) => ("never".to_owned(), asked == Thp::Never),
        (Some(_), Thp::Never) => ("as the host has it".to_owned(), false),
        // `check` has found this setting on the host
        (Some(_), asked) => (asked.name().to_owned(), true),
        (None, _) => ("not told by this kernel".to_owned(), false),
    };
    let told = enabled.map_or_else(String::new, |value| format!(" (THP_enabled {value} in /proc/{pid}/status)"));
    Got { what: "thp", asked: asked.name().into(), got: got + &told, is_as_asked }
}

fn of_valgrind(asked: Valgrind, sandbox: &Sandbox, pid: u32) -> Got {
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let folder = sandbox.folder.join(super::VALGRIND_FOLDER);
    Got {
        what: "valgrind",
        asked: asked.name().into(),
        got: format!("{} (/proc/{pid}/exe); its output comes into {}", program.display(), folder.display()),
        is_as_asked: program.to_string_lossy().contains(asked.name()),
    }
}

fn of_huge_pages(asked: HugePages, sandbox: &Sandbox, pid: u32) -> Got {
    let bytes = huge_page_bytes(pid);
    let said = huge_pages_status(sandbox).ok().flatten();
    let said = said.map(|(variable, said)| format!("{variable} {said}, ")).unwrap_or_default();
    let is_as_asked = match asked {
        HugePages::On => bytes > 0,
        HugePages::Off => bytes == 0,
        HugePages::Try => true,
    };
    let got = if bytes > 0 { "on" } else { "off" };
    let got = format!("{got} ({said}{} mapped in huge pages by /proc/{pid}/smaps)", Bytes(bytes));
    Got { what: "huge pages", asked: asked.name().into(), got, is_as_asked }
}

/// The value of the server's own status; `None` when the server has no status for it.
fn huge_pages_status(sandbox: &Sandbox) -> Result<Option<(&'static str, String)>, Error> {
    let words = words(Capability::HugePagesStatus, sandbox.flavour(), &sandbox.manifest.installation.version);
    let Some(variable) = words.first() else { return Ok(None) };
    let rows = sandbox.talk(|connection| connection.query(&format!("SHOW {variable}")))?;
    Ok(rows.text(0, 0).map(|said| (*variable, said)))
}

/// How many bytes a process has mapped in huge pages of the host's pool, touched or not. 0 also when this user may not read the process's mappings.
pub fn huge_page_bytes(pid: u32) -> u64 {
    huge_bytes(&std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap_or_default())
}

/// The bytes that are mapped in pages of hugetlbfs: there `KernelPageSize` is larger than the base page (proc_pid_smaps(5)).
fn huge_bytes(smaps: &str) -> u64 {
    let kib = |line: &str, key: &str| line.strip_prefix(key)?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok();
    let base_kib = rustix::param::page_size() as u64 / 1024;
    let (mut size_kib, mut huge_kib) = (0, 0);
    for line in smaps.lines() {
        if let Some(size) = kib(line, "Size:") {
            size_kib = size;
        }
        if kib(line, "KernelPageSize:").is_some_and(|page| page > base_kib) {
            huge_kib += size_kib;
        }
    }
    huge_kib * 1024
}

pub(super) fn maps(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default()
}

/// The path of the file in a line of `/proc/PID/maps`.
pub(crate) fn mapped(line: &str) -> Option<&Path> {
    MapsLine::parse(line)?.path().map(Path::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_in_huge_pages_are_summed() {
        let smaps = "55-56 r-xp 00000000 08:01 1 /usr/bin/x\nSize:   100 kB\nKernelPageSize:        4 kB\nMMUPageSize: 4 kB\n\
                     7f-80 rw-p 00000000 00:0f 2 /anon_hugepage (deleted)\nSize:   4096 kB\nKernelPageSize:     2048 kB\n";
        assert_eq!(huge_bytes(smaps), 4096 * 1024);
        assert_eq!(huge_bytes(""), 0);
    }
}
