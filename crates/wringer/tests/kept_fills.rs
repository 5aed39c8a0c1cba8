// SPDX-License-Identifier: Apache-2.0
//! A second `wringer run` of the same fill with a clone of the first one's data, says so, has the same rows, and notices what was
//! changed since; `wringer purge`.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use testkit::{Lab, Ran, begin_cache};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// A home with a cache of its own: what is kept and purged in it is this test's. Fetched servers are linked from the shared one.
struct Home {
    lab: Lab,
    cache: PathBuf,
}

/// A run that has ended: what it wrote and said, and the sandbox that it left.
struct Finished {
    data: Value,
    ran: Ran,
    sandbox: String,
}

impl Home {
    fn new() -> Self {
        let lab = Lab::new(WRINGER);
        let cache = lab.home().join("cache");
        begin_cache(&cache, &["servers"]);
        Self { lab, cache }
    }

    fn wringer(&self, args: &[&str]) -> Ran {
        Ran::of(self.lab.command(args).env("WRINGER_CACHE", &self.cache).env_remove("WRINGER_FILLS_LIMIT"))
    }

    /// A sandbox that begins with filled tables, where no more than `limit` is kept.
    fn deploy(&self, flavour: &str, name: &str, words: &str, limit: &str) -> Ran {
        let args = ["sandbox", "deploy", flavour, "--name", name, "--filled", words];
        Ran::of(self.lab.command(args).env("WRINGER_CACHE", &self.cache).env("WRINGER_FILLS_LIMIT", limit))
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.wringer(&[args, &["-o", "json"]].concat()).expect_code(0).stdout).unwrap()
    }

    fn experiment(&self, flavour: &str, rows: u32) -> String {
        let text = format!(
            "schema = 1\nname = \"kept\"\n[server]\nflavour = \"{flavour}\"\n[fill]\nrows = {rows}\ntables = 2\nsecondary = true\n\
             [load]\nworkload = \"oltp_point_select\"\ntime = \"200ms\"\n[[arm]]\nname = \"one\"\n"
        );
        self.lab.write(&format!("{flavour}-{rows}.toml"), &text).into_os_string().into_string().unwrap()
    }

    fn sandboxes(&self) -> Vec<String> {
        let folders = fs::read_dir(self.lab.home().join("sandboxes")).into_iter().flatten().flatten();
        let names = folders.map(|folder| folder.file_name().into_string().unwrap());
        names.filter(|name| !name.starts_with('.')).collect()
    }

    fn run(&self, file: &str, flags: &[&str]) -> Finished {
        let before = self.sandboxes();
        let ran = self.wringer(&[&["run", file, "--keep", "--to", "out", "--force"], flags].concat()).expect_code(0);
        let sandbox = self.sandboxes().into_iter().find(|name| !before.contains(name)).unwrap();
        let result = fs::read_to_string(self.lab.home().join("out/result.json")).unwrap();
        let result: Value = serde_json::from_str(&result).unwrap();
        assert!(result["arms"][0]["load"]["measured"]["transactions"].as_u64().unwrap() > 0, "{}", result["arms"][0]);
        Finished { data: result["conditions"]["data"].clone(), ran, sandbox }
    }

    fn rows(&self, sandbox: &str, statement: &str) -> Value {
        self.json(&["sandbox", "use", sandbox, statement])["rows"].clone()
    }

    /// Starts the run's sandbox, asks each statement, deletes it.
    fn asked(&self, run: &Finished, statements: &[&str]) -> Vec<Value> {
        self.wringer(&["sandbox", "start", &run.sandbox, "--for", "5m"]).expect_code(0);
        let answers = statements.iter().map(|statement| self.rows(&run.sandbox, statement)).collect();
        self.wringer(&["sandbox", "delete", &run.sandbox, "--force"]).expect_code(0);
        answers
    }

    fn delete(&self, run: &Finished) {
        self.wringer(&["sandbox", "delete", &run.sandbox, "--force"]).expect_code(0);
    }

    /// A byte of the largest file of an entry, in place.
    fn tamper(&self, key: &str) {
        let data = self.cache.join("fills").join(key).join("data");
        let largest = files(&data).into_iter().max_by_key(|file| file.metadata().unwrap().len()).unwrap();
        let modified = largest.metadata().unwrap().modified().unwrap();
        let file = File::options().write(true).open(&largest).unwrap();
        file.write_all_at(b"!", 5000).unwrap();
        file.set_modified(modified).unwrap();
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[track_caller]
fn expect_filled(run: &Finished) -> String {
    assert_eq!(run.data["how"], "filled", "{}", run.data);
    assert!(run.data["kept"].as_str().unwrap().starts_with("kept for the next run"), "{}", run.data);
    assert!(!run.ran.stdout.contains("data: a clone"), "{}", run.ran.stdout);
    run.data["key"].as_str().unwrap().to_owned()
}

#[track_caller]
fn expect_cloned(run: &Finished, key: &str) {
    assert_eq!((&run.data["how"], &run.data["key"]), (&"cloned".into(), &key.into()), "{}", run.data);
    assert!(["reflink", "copy"].contains(&run.data["mechanism"].as_str().unwrap()), "{}", run.data);
    assert!(run.ran.stderr.contains("a clone of data that were filled"), "{}", run.ran.stderr);
    assert!(run.ran.stdout.contains("data: a clone by"), "{}", run.ran.stdout);
}

/// Fills, clones, tampers and fills anew; the answers of the two servers to `sums` are the same, and those of the clone to `checks`
/// are `sound`.
fn goes_through(home: &Home, flavour: &str, sums: &[&str], checks: &[&str], sound: &[Value]) -> String {
    let file = home.experiment(flavour, 3000);
    let filled = home.run(&file, &[]);
    let key = expect_filled(&filled);
    let cloned = home.run(&file, &[]);
    expect_cloned(&cloned, &key);
    let of_fill = home.asked(&filled, sums);
    let of_clone = home.asked(&cloned, &[sums, checks].concat());
    let (of_clone, checked) = of_clone.split_at(sums.len());
    assert_eq!(of_fill, of_clone, "rows of the fill and of its clone");
    let is_whole = |row: &Value| row.as_array().is_some_and(|cells| cells.iter().all(|cell| !cell.is_null()));
    assert!(of_fill.iter().all(|rows| rows.as_array().unwrap().iter().all(is_whole)), "{of_fill:?}");
    assert_eq!(checked, sound, "the server's own check of the clone");

    home.tamper(&key);
    let anew = home.run(&file, &[]);
    assert_eq!(expect_filled(&anew), key);
    assert!(anew.ran.stderr.contains("kept data were thrown away"), "{}", anew.ran.stderr);
    assert_eq!(home.asked(&anew, sums), of_fill, "the rows of a seed are always the same");
    key
}

#[test]
fn mariadb_begins_with_a_clone_of_an_earlier_fill() {
    let home = Home::new();
    let sums = [
        "CHECKSUM TABLE sbtest.sbtest1, sbtest.sbtest2",
        "SELECT count(*), sum(crc32(concat_ws('|', id, k, c, pad))) FROM sbtest.sbtest1",
    ];
    let check = ["CHECK TABLE sbtest.sbtest1, sbtest.sbtest2 EXTENDED"];
    let ok = |table: &str| serde_json::json!([table, "check", "status", "OK"]);
    let sound = [Value::from(vec![ok("sbtest.sbtest1"), ok("sbtest.sbtest2")])];
    let key = goes_through(&home, "mariadb", &sums, &check, &sound);

    // what is asked for is done, and what was kept anew is used
    let file = home.experiment("mariadb", 3000);
    let verified = home.run(&file, &["--verify"]);
    expect_cloned(&verified, &key);
    home.delete(&verified);
    let fresh = home.run(&file, &["--fresh-fill"]);
    assert_eq!(expect_filled(&fresh), key);
    home.delete(&fresh);
    let other = home.run(&home.experiment("mariadb", 2000), &[]);
    assert_ne!(expect_filled(&other), key, "other rows are other data");
    home.delete(&other);
    let plain = home.run(&file, &["--no-kept-fill"]);
    assert_eq!((&plain.data["how"], plain.data.get("kept")), (&"filled".into(), None), "{}", plain.data);
    home.delete(&plain);
    purges(&home, &key);
}

#[test]
fn postgresql_begins_with_a_clone_of_an_earlier_fill() {
    let home = Home::new();
    let sums = [
        "SELECT md5(string_agg(t::text, ',' ORDER BY id)), count(*) FROM sbtest1 t",
        "SELECT md5(string_agg(t::text, ',' ORDER BY id)), count(*) FROM sbtest2 t",
    ];
    let checks = [
        "CREATE EXTENSION amcheck",
        "SELECT count(*)::text FROM verify_heapam('sbtest1')",
        "SELECT count(bt_index_parent_check(indexrelid, true, true)::text)::text FROM pg_index WHERE indrelid = 'sbtest1'::regclass",
        "SELECT system_identifier > 0 FROM pg_control_system()",
    ];
    let sound = [
        Value::from(Vec::<Value>::new()),
        serde_json::json!([["0"]]),
        serde_json::json!([["2"]]),
        serde_json::json!([["t"]]),
    ];
    goes_through(&home, "postgresql", &sums, &checks, &sound);
}

/// The words of [`Home::experiment`]'s fill with 3000 rows.
const WORDS: &str = "rows=3000, tables=2 secondary=true";

#[test]
fn a_sandbox_begins_with_filled_tables_and_shares_them_with_runs() {
    let home = Home::new();
    let of_mysql = "CHECKSUM TABLE sbtest.sbtest1, sbtest.sbtest2";
    let of_postgresql =
        "SELECT md5(string_agg(t::text, ',' ORDER BY id)), (SELECT count(*) FROM pgbench_accounts) FROM sbtest2 t";
    let pgbench = format!("{WORDS} pgbench=1");
    for (flavour, words, sum) in
        [("mariadb", WORDS, of_mysql), ("mysql", WORDS, of_mysql), ("postgresql", &pgbench, of_postgresql)]
    {
        let first = home.deploy(flavour, "first", words, "4G").expect_code(0).stderr;
        assert!(first.contains("kept for the next run") && first.contains("a clone of kept data"), "{first}");
        let second = home.deploy(flavour, "second", words, "4G").expect_code(0).stderr;
        assert!(!second.contains("kept for the next run") && second.contains("a clone of kept data"), "{second}");
        let rows = ["first", "second"].map(|name| {
            home.wringer(&["sandbox", "start", name, "--for", "5m"]).expect_code(0);
            let rows = home.rows(name, sum);
            home.wringer(&["sandbox", "delete", name, "--force"]).expect_code(0);
            rows
        });
        assert_eq!(rows[0], rows[1], "{flavour}");
        assert!(rows[0][0][1].as_str().is_some_and(|it| it.parse::<u64>().unwrap() > 0), "{flavour}: {}", rows[0]);
        assert!(files(&home.cache).iter().all(|file| !file.ends_with(".sqlite")), "the fill's recording is of no use");
    }
    // a run of the same fill has nothing left to fill
    let run = home.run(&home.experiment("mariadb", 3000), &[]);
    assert_eq!(run.data["how"], "cloned", "{}", run.data);
    home.delete(&run);
}

/// Options that are decided when the data directory is made: the fill's own sandbox is made with them, and so is the one that has the clone.
#[test]
fn data_are_filled_in_a_directory_that_is_made_with_the_options() {
    let home = Home::new();
    let options = ["-c", "innodb_page_size=8k", "-c", "innodb_data_file_path=ibdata1:24M:autoextend"];
    let deploy = [&["sandbox", "deploy", "mariadb", "--name", "a", "--filled", "rows=500"], &options[..]].concat();
    home.wringer(&deploy).expect_code(0);
    home.wringer(&["sandbox", "start", "a", "--for", "5m"]).expect_code(0);
    let asked = home.rows("a", "SELECT @@innodb_page_size, count(*) FROM sbtest1");
    assert_eq!(asked, serde_json::json!([["8192", "500"]]));
    home.wringer(&["sandbox", "delete", "a", "--force"]).expect_code(0);

    let text = "schema = 1\nname = \"made\"\n[server]\nflavour = \"postgresql\"\n[server.options]\nwal_segment_size = \"32MB\"\n\
        data_checksums = true\n[fill]\nrows = 600\n[load]\nworkload = \"oltp_point_select\"\ntime = \"200ms\"\n";
    let file = home.lab.write("made.toml", text).into_os_string().into_string().unwrap();
    let filled = home.run(&file, &[]);
    let key = expect_filled(&filled);
    let cloned = home.run(&file, &[]);
    expect_cloned(&cloned, &key);
    home.delete(&filled);
    let ask = "SELECT current_setting('wal_segment_size'), current_setting('data_checksums')";
    // the sandbox that is kept starts by itself
    assert_eq!(home.asked(&cloned, &[ask]), [serde_json::json!([["32MB", "on"]])]);
}

/// The program is Wringer itself, as somebody else's would be: it gets the server's connection in its environment.
#[test]
fn a_program_fills_the_tables_of_a_sandbox_once() {
    let home = Home::new();
    let script = home.lab.write("fill.sh", &format!("#!/bin/sh\nexec {WRINGER} fill --table-size=500\n"));
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    for (name, is_first) in [("first", true), ("second", false)] {
        let said = home.deploy("mariadb", name, "command=./fill.sh", "4G").expect_code(0).stderr;
        assert_eq!(said.contains("kept for the next run"), is_first, "{said}");
        home.wringer(&["sandbox", "start", name]).expect_code(0);
        assert_eq!(home.rows(name, "SELECT count(*) FROM sbtest1"), serde_json::json!([["500"]]));
        home.wringer(&["sandbox", "delete", name, "--force"]).expect_code(0);
    }
}

#[test]
fn no_more_is_kept_than_the_limit_allows() {
    let home = Home::new();
    let kept = |home: &Home| home.json(&["purge", "--dry-run"]);
    let names = |home: &Home| kept(home)["removed"].as_array().unwrap().len();
    for (limit, code, words) in [
        ("0", 3, "WRINGER_FILLS_LIMIT is 0: nothing is kept"),
        ("1M", 3, "not kept:"),
        ("much", 2, "WRINGER_FILLS_LIMIT"),
    ] {
        home.deploy("mariadb", "a", WORDS, limit).expect_code(code).expect_said(&[words]);
        assert_eq!((home.sandboxes(), names(&home)), (Vec::new(), 0), "{limit}");
    }
    home.deploy("mariadb", "a", WORDS, "4G").expect_code(0);
    let one = kept(&home)["freed_bytes"].as_u64().unwrap();
    // room for one and a half: the older one goes for the newer, which then is the one that is used
    let limit = (one * 3 / 2).to_string();
    home.deploy("mariadb", "b", "rows=2000", &limit).expect_code(0).expect_said(&["1 older kept fill went for it"]);
    assert_eq!(names(&home), 1);
    let again = home.deploy("mariadb", "c", "rows=2000", &limit).expect_code(0).stderr;
    assert!(!again.contains("kept for the next run"), "{again}");
    let anew = home.deploy("mariadb", "d", WORDS, &limit).expect_code(0).stderr;
    assert!(anew.contains("kept for the next run"), "{anew}");
    for name in ["a", "b", "c", "d"] {
        home.wringer(&["sandbox", "delete", name, "--force"]).expect_code(0);
    }
}

#[test]
fn words_that_are_no_fill_are_refused_before_anything_is_made() {
    let home = Home::new();
    for (words, said) in [
        ("many", "'many' is no KEY=VALUE"),
        ("rows=0", "fill.rows cannot be 0"),
        ("row=10", "unknown key"),
        ("from=dump.sql", "data of 'from' are never kept"),
        ("size=2x", "in multiples of the pool"),
        ("tables=2", "missing"),
        ("command=", "fill.command names no program"),
    ] {
        home.deploy("mariadb", "a", words, "4G").expect_code(2).expect_said(&["--filled:", said, "rows=100000"]);
    }
    let missing = ["fill.command", "none.sh is no program that can be executed"];
    home.deploy("mariadb", "a", "command=./none.sh {dsn}", "4G").expect_code(3).expect_said(&missing);
    assert!(home.sandboxes().is_empty() && !home.cache.join("fills").exists());
    home.wringer(&["sandbox", "deploy", "mariadb", "--filled", WORDS, "--from", "x"]).expect_code(2);
}

/// Two kept fills: a dry run names both and leaves them, a purge frees them, and the second one has nothing left to do.
fn purges(home: &Home, key: &str) {
    let folder = home.cache.join("fills");
    let would = home.json(&["purge", "--dry-run"]);
    let named = would["removed"].as_array().unwrap();
    assert!(named.len() == 2 && named.iter().any(|entry| entry["key"] == key), "{would:#}");
    assert!(folder.join(key).join("data").exists(), "a dry run has removed it");
    let taken = would["freed_bytes"].as_u64().unwrap();
    assert!(taken > 1 << 20, "{would:#}");
    let said = home.wringer(&["purge"]).expect_code(0).stdout;
    assert!(said.contains(key) && said.contains("freed ") && said.contains("2 kept fills"), "{said}");
    assert!(!folder.join(key).exists());
    let again = home.json(&["purge"]);
    assert_eq!((again["freed_bytes"].as_u64(), again["removed"].as_array().map(Vec::len)), (Some(0), Some(0)));
}
