// SPDX-License-Identifier: Apache-2.0
//! Decides whether a statement provably only reads. A replay without writes leaves the others out, and counts them by reason.

use sql::Token;

/// How to treat a statement when writes are not allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Read,
    /// BEGIN, COMMIT, ROLLBACK, USE, SET NAMES: changes only the session.
    Session,
    Not(&'static str),
}

/// Functions of both families that only read or compute. Any other function may do anything.
const READING: &str = "\
    abs acos age any_value array_agg array_length ascii asin atan atan2 avg bin bit_and bit_count bit_length \
    bit_or bit_xor bool_and bool_or btrim cast ceil ceiling char char_length character_length charset coalesce \
    collation concat concat_ws connection_id conv convert cos cot count crc32 cume_dist curdate current_database \
    current_date current_schema current_setting current_time current_timestamp current_user curtime database date \
    date_add date_format date_part date_sub date_trunc datediff day dayname dayofmonth dayofweek dayofyear decode \
    degrees dense_rank div elt encode every exp export_set extract extractvalue field find_in_set first_value \
    floor format format_type from_base64 from_days from_unixtime generate_series greatest group_concat grouping \
    has_table_privilege hex hour if ifnull inet_aton inet_ntoa initcap insert instr interval isnull json_agg \
    json_array json_arrayagg json_build_object json_contains json_extract json_length json_object json_objectagg \
    json_quote json_unquote json_valid json_value jsonb_agg jsonb_array_elements jsonb_build_object lag last_day \
    last_insert_id last_value lcase lead least left length ln localtime localtimestamp locate log log10 log2 lower \
    lpad ltrim make_set makedate max md5 microsecond mid min minute mod month monthname nth_value ntile now nullif \
    obj_description oct octet_length ord percent_rank percentile_cont percentile_disc period_add period_diff \
    pg_get_constraintdef pg_get_expr pg_get_indexdef pg_get_userbyid pg_relation_size pg_size_pretty \
    pg_table_is_visible pg_table_size pg_total_relation_size pg_typeof pi position pow power quarter quote \
    quote_ident quote_literal radians rand random rank regexp_instr regexp_match regexp_matches regexp_replace \
    regexp_substr repeat replace reverse right round row row_count row_number row_to_json rpad rtrim schema second \
    sha sha1 sha2 sign sin soundex space split_part sqrt std stddev stddev_pop stddev_samp str_to_date strcmp \
    string_agg string_to_array strpos subdate substr substring substring_index sum sysdate tan time time_format \
    time_to_sec timediff timestamp timestampadd timestampdiff to_base64 to_char to_date to_days to_json to_jsonb \
    to_number to_timestamp trim trunc truncate ucase unhex unix_timestamp unnest upper user utc_date utc_time \
    utc_timestamp uuid values var_pop var_samp variance version week weekday weekofyear year yearweek";
/// Words before a parenthesis that are no functions.
const SYNTAX: &str = "\
    all and any as between by case decimal distinct else except exists filter force from group having ignore in \
    index intersect is join key lateral like limit not numeric offset on or order over partition rows range select \
    set sets some table then union use using varchar when where with within materialized recursive rollup cube \
    explain analyze xor regexp rlike div ilike";
/// Variables whose change affects neither other sessions nor this session's right to write.
const SETTABLE: &[&str] =
    &["names", "search_path", "time_zone", "timezone", "client_encoding", "datestyle", "sql_mode", "character"];

pub(super) fn classify(tokens: &[Token]) -> Class {
    if tokens.contains(&Token::Executable) {
        return Class::Not("has a comment that the server runs");
    }
    let end = tokens.iter().rposition(|token| *token != Token::Symbol(';')).map_or(0, |last| last + 1);
    let tokens = &tokens[..end];
    if tokens.contains(&Token::Symbol(';')) {
        return Class::Not("is several statements");
    }
    let word = |at: usize| match tokens.get(at) {
        Some(Token::Word(word)) => word.as_str(),
        _ => "",
    };
    let first = tokens.iter().position(|token| *token != Token::Symbol('(')).unwrap_or(0);
    match word(first) {
        "select" | "with" | "values" | "table" => read(tokens),
        "show" | "describe" | "desc" => Class::Read,
        "explain" if ["analyze", "insert", "update", "delete"].iter().any(|it| has(tokens, it)) => {
            Class::Not("is an EXPLAIN that may run a write")
        }
        "explain" => read(tokens),
        "begin" | "commit" | "rollback" | "savepoint" | "release" | "end" | "abort" => session(tokens),
        "start" if word(1) == "transaction" => session(tokens),
        "use" => Class::Session,
        "set" => set(tokens),
        "insert" | "update" | "delete" | "replace" | "merge" | "load" | "copy" | "truncate" => {
            Class::Not("writes rows")
        }
        "create" | "alter" | "drop" | "rename" | "comment" | "reindex" => Class::Not("changes a definition"),
        "grant" | "revoke" => Class::Not("changes rights"),
        "call" | "do" => Class::Not("calls a routine"),
        "prepare" | "execute" | "deallocate" => Class::Not("is prepared in SQL"),
        "lock" | "unlock" => Class::Not("locks"),
        "" => Class::Not("is empty"),
        _ => Class::Not("is of a kind that is not known as a read"),
    }
}

fn is_in(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|it| it == word)
}

fn has(tokens: &[Token], word: &str) -> bool {
    tokens.iter().any(|token| matches!(token, Token::Word(it) if it == word))
}

fn read(tokens: &[Token]) -> Class {
    if has(tokens, "into") {
        return Class::Not("selects into something");
    }
    if ["insert", "update", "delete", "merge"].iter().any(|word| is_statement(tokens, word)) {
        return Class::Not("locks rows, or writes in a WITH");
    }
    if follows(tokens, "for", "share")
        || follows(tokens, "share", "mode")
        || follows(tokens, "for", "key")
        || follows(tokens, "for", "no")
    {
        return Class::Not("locks rows, or writes in a WITH");
    }
    if sets_variable(tokens) {
        return Class::Not("sets a variable");
    }
    if calls(tokens).all(|name| is_in(READING, name)) {
        Class::Read
    } else {
        Class::Not("calls a function that is not known to only read")
    }
}

/// Matches a word, not the function `insert(...)`.
fn is_statement(tokens: &[Token], word: &str) -> bool {
    let next_is_open = |at: usize| tokens.get(at + 1) == Some(&Token::Symbol('('));
    tokens.iter().enumerate().any(|(at, token)| matches!(token, Token::Word(it) if it == word) && !next_is_open(at))
}

fn follows(tokens: &[Token], one: &str, other: &str) -> bool {
    tokens.windows(2).any(|pair| matches!(pair, [Token::Word(a), Token::Word(b)] if a == one && b == other))
}

/// `@a := 1`.
fn sets_variable(tokens: &[Token]) -> bool {
    tokens.windows(2).any(|pair| pair == [Token::Symbol(':'), Token::Symbol('=')])
}

/// Names before a parenthesis. A quoted or qualified name may be a user's own function.
fn calls(tokens: &[Token]) -> impl Iterator<Item = &str> {
    tokens.windows(2).enumerate().filter_map(|(at, pair)| {
        let is_qualified = at > 0 && tokens[at - 1] == Token::Symbol('.');
        match pair {
            [Token::Word(_), Token::Symbol('(')] if is_qualified => Some("."),
            [Token::Word(word), Token::Symbol('(')] if !is_in(SYNTAX, word) && !names_columns(tokens, at) => {
                Some(word.as_str())
            }
            [Token::Name(_), Token::Symbol('(')] if !names_columns(tokens, at) => Some("\""),
            _ => None,
        }
    })
}

/// `WITH t (a, b) AS`, `FROM (...) AS t (a, b)`: a list of columns, not a call.
fn names_columns(tokens: &[Token], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| &tokens[before]);
    matches!(before, Some(Token::Word(word)) if matches!(word.as_str(), "as" | "with" | "recursive"))
}

fn session(tokens: &[Token]) -> Class {
    if has(tokens, "write") || has(tokens, "prepared") {
        Class::Not("asks for a transaction that writes")
    } else {
        Class::Session
    }
}

fn set(tokens: &[Token]) -> Class {
    let scopes = ["session", "local"];
    let words = tokens.iter().filter(|token| !matches!(token, Token::Symbol('@' | '.')));
    let name = words.skip(1).find_map(|token| match token {
        Token::Word(word) if scopes.contains(&word.as_str()) => None,
        Token::Word(word) => Some(word.as_str()),
        _ => Some(""),
    });
    let assigns_one = !tokens.contains(&Token::Symbol(',')) || name == Some("search_path");
    if assigns_one && name.is_some_and(|name| SETTABLE.contains(&name)) && calls(tokens).next().is_none() {
        Class::Session
    } else {
        Class::Not("sets a variable")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sql::{Dialect, tokens};

    fn of(sql: &str) -> Class {
        classify(&tokens(sql, Dialect::Mysql))
    }

    #[test]
    fn reads() {
        for sql in [
            "SELECT c FROM sbtest1 WHERE id=1",
            "(SELECT 1) UNION (SELECT 2);",
            "SELECT DISTINCT c FROM t WHERE id BETWEEN 1 AND 5 ORDER BY c",
            "select count(*), max(a) from t where b in (select x from y) having count(*) > 1",
            "WITH t (a) AS (SELECT 1) SELECT * FROM t",
            "SHOW TABLES",
            "SELECT 'DELETE FROM t; -- '",
            "EXPLAIN SELECT 1",
        ] {
            assert_eq!(of(sql), Class::Read, "{sql}");
        }
        for sql in [
            "BEGIN",
            "COMMIT",
            "START TRANSACTION READ ONLY",
            "SET NAMES utf8mb4",
            "USE shop",
            "SET search_path = a, b",
        ] {
            assert_eq!(of(sql), Class::Session, "{sql}");
        }
    }

    #[test]
    fn what_may_write_is_no_read() {
        for sql in [
            "SELECT * FROM t FOR UPDATE",
            "SELECT * FROM t LOCK IN SHARE MODE",
            "SELECT * FROM t FOR NO KEY UPDATE",
            "SELECT a INTO OUTFILE '/tmp/x' FROM t",
            "SELECT nextval('s')",
            "SELECT my_function(1)",
            "SELECT shop.count(1)",
            "SELECT `count`(1)",
            "SELECT pg_terminate_backend(1)",
            "SELECT @a := 1",
            "SELECT 1; DELETE FROM t",
            "SELECT /*! SQL_NO_CACHE */ 1",
            "WITH d AS (DELETE FROM t RETURNING *) SELECT * FROM d",
            "EXPLAIN ANALYZE DELETE FROM t",
            "INSERT INTO t VALUES (1)",
            "START TRANSACTION READ WRITE",
            "SET GLOBAL read_only = 0",
            "SET NAMES utf8, @@global.read_only = 0",
            "SET SESSION TRANSACTION READ WRITE",
            "CALL p()",
            "VACUUM",
            "",
        ] {
            assert!(matches!(of(sql), Class::Not(_)), "{sql}");
        }
    }
}
