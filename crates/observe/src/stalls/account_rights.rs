// SPDX-License-Identifier: Apache-2.0
//! Whether the account may see what other accounts do. Not every server refuses what it does not show: MariaDB 10.1 has an empty `INNODB_TRX` for an account
//! without `PROCESS`, and no error.

use super::asking::{Asking, Row};

pub(super) const WHAT: &str = "locks of rows, and what the connections of other accounts do";
pub(super) const REMEDY: &str = "GRANT PROCESS ON *.* lets an account see InnoDB's transactions and all connections";

/// Asks what the account may do; the roles that are active for it count, too. A server that does not answer has told nothing.
pub(super) fn look(asking: &mut Asking<'_>) {
    let Some(grants) = asking.rows("the rights of the account", "SHOW GRANTS") else { return };
    if !grants.is_empty() && !grants.iter().any(has_process) {
        let why = "the account has no PROCESS (SHOW GRANTS): the server does not show it what others wait for";
        asking.missing(WHAT, why.to_owned(), Some(REMEDY));
    }
}

/// Whether the line grants `PROCESS`, or everything, on all databases.
fn has_process(line: &Row) -> bool {
    let granted = line.text(0).strip_prefix("GRANT ").and_then(|it| it.split_once(" ON *.* TO "));
    granted.is_some_and(|(rights, _)| rights.split(',').any(|it| matches!(it.trim(), "PROCESS" | "ALL PRIVILEGES")))
}

#[cfg(test)]
mod tests {
    use super::super::asking::Memory;
    use super::*;

    #[test]
    fn an_account_without_process_is_told_so_even_by_a_server_that_refuses_nothing() {
        let missing = |grants: &'static [&'static str]| {
            let mut server = move |_: &str| {
                Ok::<_, String>(grants.iter().map(|it| vec![Some((*it).to_owned())]).collect::<Vec<_>>())
            };
            let mut memory = Memory::default();
            let mut asking = Asking::new(&mut server, &mut memory);
            look(&mut asking);
            // a server that refuses is not told of again
            asking.missing(WHAT, "1227".to_owned(), None);
            assert_eq!(memory.missing.len(), 1);
            memory.missing.remove(0).remedy
        };
        let few = &["GRANT USAGE ON *.* TO 'few'@'%'", "GRANT SELECT ON `PROCESS`.* TO 'few'@'%'"];
        assert_eq!(missing(few).as_deref(), Some(REMEDY));
        assert_eq!(missing(&["GRANT `process` TO `few`@`%`"]).as_deref(), Some(REMEDY), "a role that is not active");
        for all in [
            &["GRANT SELECT, PROCESS, FILE ON *.* TO `few`@`%` WITH GRANT OPTION"],
            &["GRANT ALL PRIVILEGES ON *.* TO 'few'@'%' IDENTIFIED BY PASSWORD '*1'"],
            &["GRANT PROCESS ON *.* TO 'role'"],
        ] {
            assert_eq!(missing(all), None, "{all:?}");
        }
        assert_eq!(missing(&[]), None, "no answer");
    }
}
