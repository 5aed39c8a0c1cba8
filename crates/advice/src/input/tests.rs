// SPDX-License-Identifier: Apache-2.0
#![allow(clippy::unwrap_used)] // a test
use super::*;

const VARIABLES: &str = "Variable_name\tValue\ninit_connect\t\ninnodb_lru_scan_depth\t1024\nversion\t5.7.39-42\nversion_comment\tPercona Server (GPL)\n";
const FIRST: &str = "Variable_name\tValue\nInnodb_buffer_pool_wait_free\t10\nSsl_cipher\t\nUptime\t100\n";
const SECOND: &str = "Variable_name\tValue\nInnodb_buffer_pool_wait_free\t30\nUptime\t111\n";
const METRICS: &str = "NAME\tCOUNT\nbuffer_LRU_get_free_search\t5000\n";

fn problem(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

#[test]
fn what_the_client_prints_is_a_reading() {
    let reading = read(&format!("{VARIABLES}{FIRST}{METRICS}SLEEP(10)\n0\n{SECOND}{METRICS}")).unwrap();
    assert_eq!((reading.seconds(), reading.rate("Innodb_buffer_pool_wait_free")), (10.0, Some(2.0)));
    assert_eq!(
        (reading.variable("innodb_lru_scan_depth"), reading.rate("buffer_LRU_get_free_search")),
        (Some("1024"), Some(0.0))
    );
    assert!(!reading.variables.contains_key("init_connect"), "not used");
    let lower = read(&format!("{VARIABLES}{FIRST}SLEEP(10)\n0\n{SECOND}").replace("wait_free", "WAIT_free")).unwrap();
    assert_eq!(lower.rate("Innodb_buffer_pool_wait_free"), Some(2.0), "names have no case");
    let by_uptime = read(&format!("{VARIABLES}\r\n{FIRST}{SECOND}").replace('\n', "\r\n")).unwrap();
    assert_eq!(by_uptime.seconds(), 11.0);
    assert!(by_uptime.notes.iter().any(|note| note.contains("Uptime")), "{by_uptime:?}");
}

#[test]
fn what_is_saved_is_read_again() {
    let reading = read(&format!("{VARIABLES}{FIRST}SLEEP(10)\n0\n{SECOND}")).unwrap();
    let saved = serde_json::to_string_pretty(&reading).unwrap();
    assert_eq!(read(&saved).unwrap(), reading);
    let more = saved.replacen('{', "{\"color\": \"red\",", 1);
    assert_eq!(read(&more).unwrap().notes, ["the key 'color' is not known, and was ignored"]);
}

#[test]
fn what_is_no_reading_names_the_line_and_what_was_expected() {
    for (text, line, expected) in [
        (String::new(), 1, "`version`"),
        ("hello\n".to_owned(), 1, "a name, a tab, and a value"),
        ("init_connect\tx\n".to_owned(), 1, "Variable_name"),
        (FIRST.to_owned(), 4, "without `version`"),
        (VARIABLES.to_owned(), 5, "two are needed"),
        (format!("{VARIABLES}{FIRST}"), 9, "two are needed"),
        (format!("{VARIABLES}{FIRST}Variable_name\tValue\nInnodb_buffer_pool_wait_free\t3"), 11, "without `Uptime`"),
        (format!("{VARIABLES}{FIRST}{FIRST}"), 13, "no time lies between"),
        (format!("{VARIABLES}{SECOND}{FIRST}"), 12, "started anew"),
        ("+---+\n| Variable_name | Value |\n".to_owned(), 1, "mysql --batch"),
        ("{\"variables\": {},\n \"readings\": 3}".to_owned(), 2, "expected is what"),
        ("{\"variables\": {}".to_owned(), 1, "EOF"),
        ("[1]".to_owned(), 1, "expected is what"),
        (
            "{\"variables\": {\"version\": \"8.0.29\"}, \"readings\": [{\"at_seconds\": 0, \"status\": {}}]}"
                .to_owned(),
            1,
            "two are needed",
        ),
    ] {
        let said = problem(&text);
        assert!(said.starts_with(&format!("line {line}: ")) && said.contains(expected), "{text:?}: {said}");
    }
}
