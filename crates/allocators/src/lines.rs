// SPDX-License-Identifier: Apache-2.0
//! The lines by which a server that systemd starts is told to take a malloc. People read and set them; nothing here sets them.

use crate::cell::Cell;
use crate::recommend::{KEEP, Recommendation};
use crate::start::{Start, seen};
use capability::MallocKind;

const UNKNOWN: &str = "# an earlier version of Wringer ran these cells, and did not record what it preloaded: check afterwards which malloc serves";
const NOTHING: &str =
    "# nothing is to be set where the server has this malloc by itself: take out what sets another one";

/// Lines of a drop-in file for the server's unit, with which the server starts as the cells of the malloc to take did. Where a package must be installed
/// first, a comment line says so. Empty when nothing is to be changed.
pub fn lines(recommendation: &Recommendation, base: &str, cells: &[Cell]) -> Vec<String> {
    let Some(take) = &recommendation.take else { return Vec::new() };
    let is_kept = take == KEEP;
    let malloc = if is_kept { base } else { take };
    let Some(cell) = seen(cells, malloc) else { return Vec::new() };
    let start = Start::of(cell);
    let pairs = start.pairs();
    if pairs.is_empty() && is_kept {
        return Vec::new();
    }
    let mut lines = Vec::new();
    if cell.preloaded.is_none() {
        lines.push(UNKNOWN.to_owned());
    }
    if pairs.is_empty() {
        lines.push(NOTHING.to_owned());
        return lines;
    }
    for library in &start.libraries {
        let packages = MallocKind::packages_of(library);
        if !packages.is_empty() {
            lines.push(format!("# {library} comes with Debian's package {}", packages.join(" or ")));
        }
    }
    lines.push("[Service]".to_owned());
    lines.extend(pairs.iter().map(|pair| format!("Environment=\"{pair}\"")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::start::is_a_change;

    fn cell(malloc: &str, preloaded: Option<&[&str]>) -> Cell {
        let preloaded = preloaded.map(|files| files.iter().map(|file| (*file).to_owned()).collect());
        Cell { malloc: malloc.into(), preloaded, as_asked: true, state: "done".into(), ..Cell::default() }
    }

    fn recommended(take: Option<&str>) -> Recommendation {
        let take = take.map(str::to_owned);
        Recommendation { take, because: Vec::new(), price_bytes: None, scope: String::new(), notes: Vec::new() }
    }

    fn taken(malloc: &str, preloaded: Option<&[&str]>) -> Vec<String> {
        lines(&recommended(Some(malloc)), "base", &[cell("base", Some(&[])), cell(malloc, preloaded)])
    }

    #[test]
    fn the_library_that_the_cells_had_and_its_settings() {
        let jemalloc = "/lib/x86_64-linux-gnu/libjemalloc.so.2";
        let told = taken("jemalloc-background", Some(&[jemalloc])).join("\n");
        assert!(told.contains("package libjemalloc2\n") && told.contains("\"LD_PRELOAD=libjemalloc.so.2\""), "{told}");
        assert!(told.contains("\"MALLOC_CONF=background_thread:true"), "{told}");
        assert_eq!(
            taken("mine=/opt/x.so", Some(&["/opt/x.so"])),
            ["[Service]", "Environment=\"LD_PRELOAD=/opt/x.so\""]
        );
        // of two versions, the one that was there
        let mimalloc = taken("mimalloc", Some(&["/usr/lib/x86_64-linux-gnu/libmimalloc.so.2"]));
        let expected = ["# libmimalloc.so.2 comes with Debian's package libmimalloc2.0", "[Service]"];
        assert_eq!(mimalloc[..2], expected);
        assert_eq!(mimalloc[2], "Environment=\"LD_PRELOAD=libmimalloc.so.2\"");
        let fetched = "/var/cache/wringer/mallocs/a/tree/usr/lib/libtcmalloc_minimal.so.4.5.10";
        let tcmalloc = taken("tcmalloc", Some(&[fetched])).join("\n");
        assert!(tcmalloc.contains("libtcmalloc-minimal4 or libtcmalloc-minimal4t64\n"), "{tcmalloc}");
        assert!(tcmalloc.ends_with("LD_PRELOAD=libtcmalloc_minimal.so.4\""), "{tcmalloc}");
        let own = taken("jemalloc", Some(&["/opt/je/libjemalloc.so.2"]));
        assert_eq!(own, ["[Service]", "Environment=\"LD_PRELOAD=/opt/je/libjemalloc.so.2\""], "its own build of it");
    }

    /// Debian's MySQL 9 is linked with tcmalloc.
    #[test]
    fn glibc_in_a_server_that_is_linked_with_another_malloc() {
        let before = ["libc.so.6", "libstdc++.so.6"];
        let preload = "Environment=\"LD_PRELOAD=libc.so.6:libstdc++.so.6\"";
        assert_eq!(taken("glibc", Some(&before)), ["[Service]", preload]);
        let trim = "Environment=\"MALLOC_TRIM_THRESHOLD_=131072\"";
        assert_eq!(taken("glibc-trim", Some(&before)), ["[Service]", preload, trim]);
        assert_eq!(taken("glibc-trim", Some(&[])), ["[Service]", trim]);
        let plain = taken("glibc", Some(&[]));
        assert!(plain.len() == 1 && plain[0].starts_with("# nothing is to be set"), "{plain:?}");
        // kept
        let kept = recommended(Some(KEEP));
        let of = |preloaded: &[&str]| lines(&kept, "glibc", &[cell("glibc", Some(preloaded))]);
        assert_eq!(of(&before), ["[Service]", preload]);
        assert!(lines(&recommended(None), "glibc", &[cell("glibc", Some(&before))]).is_empty());
        assert!(of(&[]).is_empty() && lines(&kept, "glibc", &[]).is_empty());
        let said = is_a_change("glibc", &[cell("glibc", Some(&before))]).unwrap();
        assert!(said.contains("with LD_PRELOAD=libc.so.6:libstdc++.so.6"), "{said}");
        assert_eq!(is_a_change("glibc", &[cell("glibc", Some(&[]))]), None);
    }

    #[test]
    fn cells_of_an_earlier_version_do_not_say_what_was_preloaded() {
        let told = taken("jemalloc", None);
        assert!(told[0].contains("did not record what it preloaded"), "{told:?}");
        assert_eq!(told[3], "Environment=\"LD_PRELOAD=libjemalloc.so.2\"");
        assert_eq!(taken("glibc", None), [UNKNOWN, NOTHING]);
        // the same command went on with a later version
        let both = [cell("glibc", Some(&["libc.so.6"])), cell("glibc", None)];
        assert_eq!(seen(&both, "glibc").and_then(|cell| cell.preloaded.clone()).unwrap(), ["libc.so.6"]);
    }
}
